"""Figures of the pages, taken from bench/results by name.

    python -m bench.figures

A page has marks, comments with an expression over the functions of this module, and the text that it gives:

    gpuimg runs it <!--= times("peers-S", "train", "dali") -->3.4<!--/--> times as fast as DALI.

This command writes the text between the marks again, and the bars in docs/figures. A test does the same and compares,
so that no mark has a figure that no result has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from bench.common import RESULTS, ROOT
from bench.peers.base import WORKS
from bench.plots import Bar, bars

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
PLOTS = ROOT / "docs" / "figures"
_LACKS = KeyError, TypeError, ValueError, OSError  # of a result that is missing, or of a library that it does not have
_MARK = re.compile(r"<!--= (.*?) -->.*?<!--/-->", re.DOTALL)
_SETS = {"S": "500x375", "1280x960": "1280x960", "L": "4000x3000"}
_COSTS = {
    "first_batch_cold_seconds": "from import to first batch, code on the disk, s",
    "first_batch_seconds": "the same, code in the page cache, s",
    "peak_mib": "peak memory, MiB",
}


@cache
def result(name: str) -> dict[str, Any]:
    """Return a result."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return found


# -- single figures ----------------------------------------------------------------------------------------------------


def value(name: str, *path: str | int, form: str = "") -> str:
    """Return a number of a result by its place, in a format of Python."""
    found: Any = result(name)
    for key in path:
        found = found[key]
    return format(found, form)


def _entry(name: str, work: str, peer: str) -> dict[str, Any] | None:
    found: dict[str, Any] | None = result(name)["works"].get(work, {}).get(peer)
    return found


def rate(name: str, work: str, peer: str = "gpuimg") -> str:
    """Return images/s of a library."""
    return f"{result(name)['works'][work][peer]['images_per_second']:,}"


def times(name: str, work: str, peer: str) -> str:
    """Return how many times faster gpuimg was in the same round, the median."""
    return f"{result(name)['works'][work][peer]['gpuimg_over_this']:.1f}"


def machine(name: str) -> str:
    """Return the processor and cores that a result is from."""
    about = {**result(name).get("machine", {}), **result(name).get("run", {})}
    return f"{about['processor']}, {about.get('cores')} cores"


def version(name: str) -> str:
    """Return the version and commit that were measured."""
    if run := result(name).get("run"):
        return f"{run['version']} ({run['commit']})"
    return str(result(name).get("version", "a version before 0.2"))


def _over(entry: dict[str, Any], spread: str = "gpuimg_over_this_range") -> str:
    low, high = entry[spread]
    return f"{entry['gpuimg_over_this']:.2f} ({low:.1f} to {high:.1f})"


def _cell(entry: dict[str, Any] | None) -> str:
    return f"{entry['images_per_second']:,}; {_over(entry)}" if entry else "-"


def _plain(found: Any) -> str:
    """Return a number as text; an empty string if there is a reason why it failed instead."""
    return f"{found:,}" if isinstance(found, int | float) else ""


def _names(name: str) -> dict[str, str]:
    return {key: peer["name"] for key, peer in result(name)["peers"].items()}


def _bits(name: str) -> str:
    return f"{result(name)['photos']['bits_per_pixel_p5_p50_p95'][1]:.1f}"


# -- tables ------------------------------------------------------------------------------------------------------------


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    return "\n".join(["", *(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)), ""])


def peers(name: str) -> str:
    """Return a table with one row for each library: images/s, and gpuimg's rate divided by it with its range."""
    works, rows = list(result(name)["works"]), []
    for key, label in _names(name).items():
        cells = [f"**{rate(name, work)}**" if key == "gpuimg" else _cell(_entry(name, work, key)) for work in works]
        if set(cells) != {"-"}:
            rows.append([label, *cells])
    return _table(["", *works], rows)


def _other_formats() -> Iterator[list[str]]:
    for kind, found in (("progressive JPEG", result("progressive")["whole"]), ("WebP", result("decode")["webp"])):
        ours, other = found["gpuimg"]["images_per_second"], found["Pillow"]
        yield [kind, f"{ours:,}", f"Pillow {other['images_per_second']:,}", f"{other['gpuimg_is_faster_by']:.2f}"]
    for kind in ("photo", "screenshot", "mask"):
        found = result("png")[kind]
        for inflater in ("zlib", "deflate"):
            ours, theirs = (found[key]["images_per_cpu_second"] for key in (inflater, "Pillow"))
            ratio = f"{found[inflater]['over_pillow']:.2f}"
            yield [f"PNG, {kind}, {inflater}", f"{ours:,.0f}", f"Pillow {theirs:,.0f}", ratio]


def other_formats() -> str:
    """Return a table of progressive JPEG, PNG and WebP."""
    return _table(["", "gpuimg, images/s", "other library", "ratio"], _other_formats())


def readme() -> str:
    """Return the README's table."""
    chosen = (
        ("peers-S", "train", "dali", "train: random crop to 224, flip, normalize"),
        ("peers-S-4.8", "train", "dali", "the same, with larger files (4.8 bits per pixel, as in ImageNet)"),
        ("peers-S", "eval", "dali", "eval: resize 256, center crop 224, normalize"),
        ("peers-S", "train+rotate+color", "dali", "train with rotation and four color operations"),
        ("peers-S", "train", "torchvision", "train, and a DataLoader with worker processes"),
        ("peers-S", "decode", "simplejpeg", "decode whole JPEGs"),
    )
    rows = []
    for name, work, peer, label in chosen:
        ratio = f"{result(name)['works'][work][peer]['gpuimg_over_this']:.2f}"
        rows.append([label, rate(name, work), f"{_names(name)[peer]} {rate(name, work, peer)}", ratio])
    formats = {kind: cells for kind, *cells in _other_formats()}
    labels = {
        "progressive JPEG": "decode progressive JPEG, one thread",
        "PNG, photo, deflate": "decode PNG photos, one thread, with the extra `png`",
        "WebP": "decode WebP",
    }
    rows += [[label, *formats[kind]] for kind, label in labels.items()]
    head = ["work", "gpuimg", "other library", "ratio"]
    return _table(head, ([*row, f"**{ratio}**" if float(ratio) < 1 else ratio] for *row, ratio in rows))


def density() -> str:
    """Return a table of ``train`` by bits per pixel and size."""
    names, rows = _names("peers-S"), []
    chosen = [key for key in ("gpuimg-index", "dali", "torchvision", "kornia", "pillow") if key in names]
    for base, size in _SETS.items():
        for name in (f"peers-{base}{denser}" for denser in ("", "-2.7", "-4.8")):
            cells = [_cell(_entry(name, "train", key)) for key in chosen]
            rows.append([f"{size}, {_bits(name)}", f"**{rate(name, 'train')}**", *cells])
    return _table(["size, bits per pixel", "gpuimg", *map(names.__getitem__, chosen)], rows)


def threads() -> str:
    """Return a table of ``train`` by the number of threads."""
    found = result("threads")["threads"]
    most, rows = max(found, key=int), []
    for key, peer in found[most]["peers"].items():
        entries = [here["works"]["train"].get(key) for here in found.values()]
        if all(entries):
            rows.append([peer["name"], *(f"{entry['images_per_second']:,}" for entry in entries)])
    one, many = (found[count]["works"]["train"]["gpuimg"]["images_per_second"] for count in ("1", most))
    claim = f"**{most} threads run {many / one:.2f} times as fast as one.**"
    return f"\n{claim}\n" + _table(["images/s of train at 500x375, threads or worker processes", *found], rows)


def vlm() -> str:
    """Return a table of the models' preprocessing next to transformers'."""
    rows = []
    for name, found in result("vlm")["models"].items():
        ours, fast, pil = (f"{found['images_per_second'][key]:,}" for key in ("gpuimg", "torchvision", "pil"))
        ratios = f"{fast}; {found['of_torchvision']:.1f}", f"{pil}; {found['of_pil']:.1f}"
        rows.append([f"`{name}`", f"**{ours}**", *ratios, str(found["values_that_differ"])])
    return _table(["model", "gpuimg", 'transformers, "torchvision"', '"pil"', "values that differ"], rows)


def functions() -> str:
    """Return a table of the functions of gpuimg.models that are compared with transformers, and by which backends."""
    from bench.processors import OURS, PAIRS, RULES

    rows: dict[str, list[str]] = {}
    for name, function in OURS.items():
        rows.setdefault(getattr(function, "func", function).__name__, []).append(name)
    cells = {
        function: ["0" if (names[0], backend) in PAIRS else "there is none" for backend in RULES]
        for function, names in rows.items()
    }
    head = ["`gpuimg.models`", "compared as", *(f'"{backend}"' for backend in RULES)]
    return _table(head, ([f"`{key}`", ", ".join(names), *cells[key]] for key, names in rows.items()))


def families() -> str:
    """Return a table of the processors of transformers with ``backend="gpuimg"``."""
    images = {
        True: "transparency over white; gray, palette and CMYK converted; 16 bits: upper byte",
        False: "RGB only, or as the processor takes them; `do_convert_rgb=True` converts",
    }
    rows = []
    for name, found in result("families")["families"].items():
        values, ratio = f"{found['values_that_differ']} of {found['files']} files", found["of_default"]
        cells = [images[found["to_rgb"]], values if found["files"] else "-", f"{ratio:.1f}" if ratio else "-"]
        rows.append([name, ", ".join(found["types"]), *cells])
    head = ["processor", "model types", "images of other modes", "values that differ", "times the default"]
    return _table(head, rows)


def covered() -> str:
    """Return the number of model types with ``backend="gpuimg"``."""
    return str(sum(len(found["types"]) for found in result("families")["families"].values()))


def _resizes() -> Iterator[tuple[str, dict[str, int], float]]:
    for row in result("exact")["rows"]:
        sizes = " to ".join("x".join(map(str, reversed(row[key]))) for key in ("source", "result"))
        yield f"{sizes}, {row['filter']}", row["microseconds"], row["pillow_over_exact"]


def exact() -> str:
    """Return a table of resizes alone: with Pillow's bytes, in float32, by Pillow, by torch."""
    contenders = {"exact": "Pillow's bytes", "float32": "float32", "pillow": "Pillow", "torch_nhwc": "torch, NHWC"}
    rows = [
        [label, *(f"{taken[key]:,}" if key in taken else "-" for key in contenders), f"{ratio:.1f}"]
        for label, taken, ratio in _resizes()
    ]
    head = ["resize, one thread", *(f"{label}, µs" for label in contenders.values()), "times Pillow's rate"]
    return _table(head, rows)


def board() -> str:
    """Return a table of the decoders of a public board: one image a call, and in a DataLoader by its workers."""
    columns = {"one image a call, one thread": result("board")["single"]}
    columns |= {f"DataLoader, {count} workers": entries for count, entries in result("board")["workers"].items()}
    rows = []
    for name in ("gpuimg", "gpuimg, batches", "simplejpeg", "opencv", "pillow"):
        entries = [one.get(name) for one in columns.values()]
        ratios = [f"; {one['gpuimg_over_this']:.2f}" if one and "range" in one else "" for one in entries]
        rates = [f"{one['images_per_second']:,}" if one else "-" for one in entries]
        rows.append([name, *(one + ratio for one, ratio in zip(rates, ratios, strict=True))])
    return _table(["images/s; gpuimg's rate divided by it", *columns], rows)


def _set(name: str) -> str:
    found = result("draft")["levers"][name]
    return f"{_SETS[name.partition('-')[0]]}, {found['photos']['bits_per_pixel_p5_p50_p95'][1]:.1f} bits per pixel"


def _draft_means() -> str:
    means, rows = ("draft=1.5", "index"), []
    for name, found in result("draft")["levers"].items():
        for work in ("train", "eval"):
            ratios = [found[work][mean] for mean in means]
            ratios += [one for mean, one in found[work].items() if mean.startswith("prepared") and "planes" not in mean]
            rows.append([f"{work}, {_set(name)}", *(f"{one['times_without_by_cpu_time']:.2f}" for one in ratios)])
    return _table(["", "`draft=1.5`", "index", "prepared"], rows)


def _draft_quality() -> str:
    rows = []
    for name, found in result("draft")["quality"].items():
        cells = (f"{found[key]:.1f}" for key in ("p99.9", "max", "worst"))
        rows.append([name, str(found["images"]), f"{found['mean']:.2f}", *cells])
    return _table(["scale, remaining factor", "images", "mean", "p99.9", "max", "largest"], rows)


def _draft_gain() -> str:
    rows = []
    for work, entries in result("draft")["gain"].items():
        for name, found in entries.items():
            if name != "without":
                low, high = found["range_by_cpu_time"]
                scales = ", ".join(str(found["images_by_scale"].get(scale, 0)) for scale in ("1/1", "1/2", "1/4"))
                gain = f"{found['times_without_by_cpu_time']:.2f} ({low:.2f} to {high:.2f})"
                rows.append([f"{work}, `{name}`", gain, scales])
    return _table(["", "gain by CPU time (range)", "images at 1/1, 1/2, 1/4"], rows)


def draft(which: int) -> str:
    """Return a table of ``draft``: gains and differences of all means, differences and gains of reduced sizes."""
    return (_draft_means, _draft_quality, _draft_gain)[which]()


def slower() -> str:
    """Return all measurements in which another library is faster than gpuimg."""
    rows = [[f"decode {row[0]}", *row[1:]] for row in _other_formats() if float(row[3]) < 1]
    for name in (f"peers-{base}{denser}" for base in _SETS for denser in ("", "-2.7", "-4.8")):
        for work, entries in result(name)["works"].items():
            for key, entry in entries.items():
                if entry and not key.startswith("gpuimg") and entry["gpuimg_over_this"] < 1:
                    theirs = f"{_names(name)[key]} {entry['images_per_second']:,}"
                    size = f"{result(name)['photos']['mean_megapixels']:.1f} megapixels at {_bits(name)} bits per pixel"
                    rows.append([f"{work}, {size}", rate(name, work), theirs, _over(entry)])
    for label, taken, _ in _resizes():
        exact = taken["exact"]
        for layout in ("torch_nhwc", "torch_nchw"):
            if (micros := taken.get(layout, exact)) < exact:
                cells = [f"{exact} µs", f"torch, {layout[6:].upper()} {micros} µs", f"{micros / exact:.2f}"]
                rows.append([f"a resize with Pillow's bytes, {label}", *cells])
    single = result("board")["single"]
    for name, entry in single.items():
        if entry.get("gpuimg_over_this", 1) < 1:
            rates = f"{single['gpuimg']['images_per_second']:,}", f"{name} {entry['images_per_second']:,}"
            rows.append(["decode, one image a call, one thread", *rates, _over(entry, "range")])
    every = result("peers-S")["peers"]
    for cost, label in _COSTS.items():
        ours = every["gpuimg.load"][cost]
        for key, peer in every.items():
            trains = not key.startswith("gpuimg") and peer["costs_of"] == "train"
            if trains and _plain(peer[cost]) and peer[cost] < ours:
                cells = [f"{peer['name']} {peer[cost]}", f"{peer[cost] / ours:.2f}"]
                rows.append([f"train, {label}", f"gpuimg.load {ours}", *cells])
    return _table(["measurement", "gpuimg", "other", "ratio"], rows)


def all_peers() -> str:
    """Return costs, CPU time and differences of the libraries of peers-S, and what they do differently."""
    found = result("peers-S")
    every: dict[str, dict[str, Any]] = found["peers"]
    labels = {
        "import_seconds": "import, seconds",
        "first_batch_cold_seconds": "import to first batch of train, from the disk, seconds",
        "first_batch_seconds": "import to first batch of train, seconds",
        "peak_mib": "peak memory, MiB",
    }
    rows = [[label, *(_plain(peer[key]) or "-" for peer in every.values())] for key, label in labels.items()]
    sizes = (peer["installed_megabytes"] for peer in every.values())
    rows.append(["installed, MB (with all it needs)", *(f"{s['own']:,} ({s['with_all_it_needs']:,})" for s in sizes)])
    for work, label, table, key in (
        *((work, f"{work}: CPU seconds for 1,000 images", "works", "cpu_seconds_per_1000_images") for work in WORKS),
        *((w, f"{w}: mean difference to gpuimg, levels of 255", "checks", "mean_difference_in_levels")
          for w in ("decode", "eval")),
    ):  # fmt: skip
        entries = (found[table][work].get(name) for name in every)
        rows.append([label, *(f"{entry[key]:,}" if entry else "-" for entry in entries)])
    lines = [f"- {work}: {text}." for work, text in WORKS.items()]
    for peer in every.values():
        name, few = peer["name"], {} if len(peer["lacks"]) > 3 else peer["lacks"]
        lines.append(f"- {name}: {peer['notes']}.")
        lines += [f"- {name}, {work}: {reason}." for work, reason in few.items() if work in WORKS]
        lines += [f"- {name}, {work}, failed: {reason}." for work, reason in peer["failed"].items()]
    lines += [f"- {name} was not run: {reason}." for name, reason in found["not_run"].items()]
    head = ["", *(f"{peer['name']} {peer['version']}" for peer in every.values())]
    return "\n".join([_table(head, rows), *lines, ""])


def runs() -> str:
    """Return a table of all results: what was run, when, on which machine and version."""
    rows = []
    for name in sorted(path.stem for path in RESULTS.glob("*.json")):
        run = result(name).get("run", {})
        where = machine(name) if run or "machine" in result(name) else ""
        command = f"`{run['command']}`" if run else ""
        rows.append(
            [f"`{name}.json`", command, version(name), where, run.get("date", ""), str(run.get("load_before", ""))]
        )
    return _table(["result", "command", "version, commit", "machine", "date", "load before"], rows)


# -- bars --------------------------------------------------------------------------------------------------------------


def _rates_bars() -> tuple[str, str]:
    names, entries = _names("peers-S"), result("peers-S")["works"]["train"]
    found = {key: entry["images_per_second"] for key, entry in entries.items() if entry and "gpuimg" not in key}
    found["gpuimg"] = entries["gpuimg"]["images_per_second"]
    rows = [Bar(names[key].partition(" (")[0], rate, f"{rate:,}", key == "gpuimg") for key, rate in found.items()]
    dali, torchvision = (times("peers-S", "train", key) for key in ("dali", "torchvision"))
    claim = f"{dali} times the training images of DALI, {torchvision} of torchvision"
    unit = f"images/s decoded, cropped, normalized; {machine('peers-S')}"
    return claim, bars(claim, sorted(rows, key=lambda row: -row.value), unit, 480, headed=True)


def _seek_bars() -> tuple[str, str]:
    rows, gains = [], []
    for size, entries in result("seek")["every"].items():
        gains.append(f"{entries['8']['over_none']:.2f} times as fast at {size}")
        for every, found in entries.items():
            if every != "none":
                low, high = found["range"]
                text = f"{found['over_none']:.2f} ({low:.2f} to {high:.2f}), {found['percent_of_files']:.1f} %"
                name = "rows only" if every == "rows" else f"every {every}"
                rows.append(Bar(f"{size}, {name}", found["over_none"], text, every == "8"))
    claim = f"An entry every 8 MCUs makes train {' and '.join(gains)}"
    return claim, bars(claim, rows, "train with a seek index over train without; size of the index in % of the files")


_BARS: dict[str, Callable[[], tuple[str, str]]] = {"rates": _rates_bars, "seek": _seek_bars}


def plot(name: str) -> str:
    """Return the claim of a picture, and the picture; `written` has the file."""
    claim, _ = _BARS[name]()
    return f"\n**{claim}.**\n\n![{claim}](figures/{name}.svg)\n"


# -- pages -------------------------------------------------------------------------------------------------------------

_FUNCTIONS: dict[str, Callable[..., str]] = {
    function.__name__: function
    for function in (
        value, rate, times, machine, version, peers, readme, other_formats, density, threads, vlm, slower, board,
        exact, draft, all_peers, runs, plot, functions, families, covered,
    )
}  # fmt: skip


def filled(text: str) -> str:
    """Return a page with the text between its marks as the results give it."""

    def replaced(match: re.Match[str]) -> str:
        try:
            found = eval(match[1], {"__builtins__": {}}, _FUNCTIONS)
        except _LACKS:
            found = "not measured"
        return f"<!--= {match[1]} -->{found}<!--/-->"

    return _MARK.sub(replaced, text)


def written() -> dict[Path, str]:
    """Return all files that results give: pages, bars."""
    drawn = {}
    for name, draw in _BARS.items():
        with suppress(*_LACKS):
            drawn[PLOTS / f"{name}.svg"] = draw()[1]
    return drawn | {page: filled(page.read_text()) for page in PAGES}


def main() -> None:
    """Write pages and bars."""
    result.cache_clear()
    for path, text in written().items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
