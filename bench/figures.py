"""Figures of the pages, taken from bench/results by name.

    python -m bench.figures [--check]

A page has marks, comments with an expression over the functions of this module, and the text that it gives:

    gpuimg runs it <!--= times("peers-S", "train", "dali") -->3.4<!--/--> times as fast as DALI.

This command writes the text between the marks again, and the plots in docs/figures. A test does the same and compares,
so that no page has a figure that no result has.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from bench import plots
from bench.bench_draft import scale_tables
from bench.bench_draft import tables as draft_tables
from bench.common import RESULTS
from bench.parts import ELSEWHERE, PARTS
from bench.peers.table import details
from bench.plots import Bar, Line

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
PLOTS = ROOT / "docs" / "figures"
_MARK = re.compile(r"<!--= (.*?) -->.*?<!--/-->", re.DOTALL)
_MISSING = "not measured yet"

WORKS = {
    "decode": "decode whole images",
    "eval": "eval: resize 256, center crop 224, normalize",
    "train": "train: random crop to 224, flip, normalize",
    "train+rotate+color": "train with rotation by any angle and four color operations",
}
_RATES = ("", "-2.7", "-4.8")  # of the sets, see bench.photos


@cache
def result(name: str) -> dict[str, Any]:
    """Return a result; an empty one if it is not measured."""
    path = RESULTS / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


# -- single figures ----------------------------------------------------------------------------------------------------


def value(name: str, *path: str | int, form: str = "", scale: float = 1.0) -> str:
    """Return a number of a result by its place, in a format of Python."""
    found: Any = result(name)
    for key in path:
        try:
            found = found[key]
        except (KeyError, IndexError, TypeError):
            return _MISSING
    return format(found if scale == 1.0 else found * scale, form)


def _entry(name: str, work: str, peer: str) -> dict[str, Any] | None:
    found: dict[str, Any] | None = result(name).get("works", {}).get(work, {}).get(peer)
    return found


def rate(name: str, work: str, peer: str = "gpuimg") -> str:
    """Return images/s of a library."""
    entry = _entry(name, work, peer)
    return f"{entry['images_per_second']:,}" if entry else _MISSING


def times(name: str, work: str, peer: str, digits: int = 1) -> str:
    """Return how many times faster gpuimg was in the same round, the median."""
    entry = _entry(name, work, peer)
    return f"{entry['gpuimg_over_this']:.{digits}f}" if entry else _MISSING


def _over(entry: dict[str, Any], with_range: bool = True) -> str:
    low, high = entry["gpuimg_over_this_range"]
    spread = f" ({low:.1f} to {high:.1f})" if with_range else ""
    return f"{entry['gpuimg_over_this']:.2f}{spread}"


def machine(name: str) -> str:
    """Return the processor and cores that a result is from."""
    run, about = result(name).get("run", {}), result(name).get("machine", {})
    cores = run.get("cores") or about.get("cores")
    return f"{run.get('processor') or about.get('processor') or 'a processor without a name'}, {cores} cores"


def version(name: str) -> str:
    """Return the version and commit that were measured."""
    if run := result(name).get("run"):
        return f"{run['version']} ({run['commit']})"
    return str(result(name).get("version", "a version before 0.2"))


# -- tables ------------------------------------------------------------------------------------------------------------


def _table(rows: Iterable[Iterable[str]]) -> str:
    head, *body = ([*row] for row in rows)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *body))


def _block(text: str) -> str:
    return f"\n{text}\n"


def _peers(name: str) -> dict[str, str]:
    return {key: peer["name"] for key, peer in result(name).get("peers", {}).items()}


def peers(name: str, works: Iterable[str] = tuple(WORKS)) -> str:
    """Return a table with one row for each library: images/s, and gpuimg's rate divided by it with its range."""
    if not result(name):
        return _block(f"{_MISSING.capitalize()}: `python -m bench --only {name}`.")
    works = [work for work in works if work in result(name)["works"]]
    rows = [["", *works]]
    for key, label in _peers(name).items():
        cells = [f"**{rate(name, work)}**" if key == "gpuimg" else _cell(_entry(name, work, key)) for work in works]
        if set(cells) != {"-"}:
            rows.append([label, *cells])
    return _block(_table(rows))


def _cell(entry: dict[str, Any] | None) -> str:
    return f"{entry['images_per_second']:,}; {_over(entry)}" if entry else "-"


def readme() -> str:
    """Return the README's table."""
    names = {key: label for name in ("peers-S", "peers-S-4.8") for key, label in _peers(name).items()}
    rows = [["work", "gpuimg", "other library", "ratio"]]
    chosen = (
        ("peers-S", "train", "dali", WORKS["train"]),
        ("peers-S-4.8", "train", "dali", "the same, of dense files as ImageNet's"),
        ("peers-S", "eval", "dali", WORKS["eval"]),
        ("peers-S", "train+rotate+color", "dali", "train with rotation and four color operations"),
        ("peers-S", "train", "torchvision", "train, and a DataLoader with worker processes"),
        ("peers-S", "decode", "simplejpeg", "decode whole JPEGs"),
    )
    for name, work, peer, label in chosen:
        if entry := _entry(name, work, peer):
            other = f"{names[peer]} {entry['images_per_second']:,}"
            rows.append([label, rate(name, work), other, f"{entry['gpuimg_over_this']:.2f}"])
    formats = {kind: cells for kind, *cells in _other_formats()}
    labels = {
        "progressive JPEG": "decode progressive JPEG, one thread",
        "PNG, photo, deflate": "decode PNG photos, one thread, with the extra `png`",
        "WebP": "decode WebP",
    }
    rows += [[label, *formats[kind]] for kind, label in labels.items() if kind in formats]
    for row in rows[1:]:
        row[3] = f"**{row[3]}**" if float(row[3]) < 1 else row[3]
    return _block(_table(rows))


def _other_formats() -> list[list[str]]:
    rows = []
    for kind, found in (
        ("progressive JPEG", result("progressive").get("whole")),
        ("WebP", result("decode").get("webp")),
    ):
        for other, entry in (found or {}).items():
            if other == "Pillow":
                ours = found["gpuimg"]["images_per_second"] if found else 0
                ratio = f"{entry['gpuimg_is_faster_by']:.2f}"
                rows.append([kind, f"{ours:,}", f"Pillow {entry['images_per_second']:,}", ratio])
    for kind in ("photo", "screenshot", "mask"):
        found = result("png").get(kind, {})
        for inflater in ("zlib", "deflate"):
            if inflater in found:
                ours, theirs = (found[key]["images_per_cpu_second"] for key in (inflater, "Pillow"))
                ratio = f"{found[inflater]['over_pillow']:.2f}"
                rows.append([f"PNG, {kind}, {inflater}", f"{ours:,.0f}", f"Pillow {theirs:,.0f}", ratio])
    return rows


def other_formats() -> str:
    """Return a table of progressive JPEG, PNG and WebP."""
    return _block(_table([["", "gpuimg, images/s", "other library", "ratio"], *_other_formats()]))


def density() -> str:
    """Return a table of ``train`` by bits per pixel and size."""
    chosen = ("gpuimg-index", "dali", "torchvision", "kornia", "pillow")
    names = {key: label for name in ("peers-S", "peers-S-4.8") for key, label in _peers(name).items()}
    rows = [["size, bits per pixel", "gpuimg", *(names[key] for key in chosen if key in names)]]
    for base, size in (("S", "500x375"), ("1280x960", "1280x960"), ("L", "4000x3000")):
        for denser in _RATES:
            name = f"peers-{base}{denser}"
            if entry := _entry(name, "train", "gpuimg"):
                cells = [_cell(_entry(name, "train", key)) for key in chosen if key in names]
                rows.append([f"{size}, {_bits(name)}", f"**{entry['images_per_second']:,}**", *cells])
    return _block(_table(rows))


def _bits(name: str) -> str:
    return f"{result(name)['photos']['bits_per_pixel_p5_p50_p95'][1]:.1f}"


def vlm() -> str:
    """Return a table of the models' preprocessing next to transformers'."""
    rows = [["model", "gpuimg", 'transformers, "torchvision"', '"pil"', "values that differ"]]
    for name, found in result("vlm")["models"].items():
        rates = found["images_per_second"]
        ours, fast, pil = (f"{rates[key]:,}" for key in ("gpuimg", "torchvision", "pil"))
        with_ratios = f"{fast}; {found['of_torchvision']:.1f}", f"{pil}; {found['of_pil']:.1f}"
        rows.append([f"`{name}`", f"**{ours}**", *with_ratios, str(found["values_that_differ"])])
    return _block(_table(rows))


_COSTS = {
    "first_batch_cold_seconds": "from import to first batch, code on the disk, s",
    "first_batch_seconds": "the same, code in the page cache, s",
    "peak_mib": "peak memory, MiB",
}


def costs() -> str:
    """Return a table of starts and memory."""
    rows = [["", *_COSTS.values()]]
    for peer in result("peers-S")["peers"].values():
        cells = [f"{cost:,}" if isinstance(cost := peer.get(key), (int, float)) else "-" for key in _COSTS]
        rows.append([peer["name"], *cells])
    return _block(_table(rows))


def slower() -> str:
    """Return all measurements in which another library is faster than gpuimg."""
    formats = ([f"decode {row[0]}", *row[1:]] for row in _other_formats() if float(row[3]) < 1)
    head = ["measurement", "gpuimg", "other", "ratio"]
    return _block(_table([head, *_slower_works(), *formats, *_slower_resizes(), *_slower_alone(), *_slower_costs()]))


def _slower_works() -> Iterator[list[str]]:
    for name in (part.name for part in PARTS if part.module == "bench.peers"):
        for work, entries in result(name).get("works", {}).items():
            for key, entry in entries.items():
                if entry and not key.startswith("gpuimg") and entry["gpuimg_over_this"] < 1:
                    theirs = f"{_peers(name)[key]} {entry['images_per_second']:,}"
                    yield [f"{work}, {_size(name)}", rate(name, work), theirs, _over(entry)]


def _slower_resizes() -> Iterator[list[str]]:
    for row in result("exact").get("rows", []):
        times_of = row["microseconds"]
        for other in ("torch_nhwc", "torch_nchw"):
            if times_of.get(other, times_of["exact"]) < times_of["exact"]:
                sizes = " to ".join("x".join(map(str, reversed(row[key]))) for key in ("source", "result"))
                ours, theirs = f"{times_of['exact']} µs", f"torch, {other[6:].upper()} {times_of[other]} µs"
                ratio = f"{times_of[other] / times_of['exact']:.2f}"
                yield [f"a resize with Pillow's bytes, {sizes}, {row['filter']}", ours, theirs, ratio]


def _slower_alone() -> Iterator[list[str]]:
    found = result("board").get("single", {})
    for name, entry in found.items():
        if entry.get("gpuimg_over_this", 1) < 1:
            ours, theirs = f"{found['gpuimg']['images_per_second']:,}", f"{name} {entry['images_per_second']:,}"
            ratio = f"{entry['gpuimg_over_this']:.2f} ({entry['range'][0]:.1f} to {entry['range'][1]:.1f})"
            yield ["decode, one image a call, one thread", ours, theirs, ratio]


def _slower_costs() -> Iterator[list[str]]:
    for cost, label in _COSTS.items():
        ours = _cost("gpuimg.load", cost)
        for key, name in _peers("peers-S").items():
            theirs = _cost(key, cost)
            if ours is not None and theirs is not None and theirs < ours and not key.startswith("gpuimg"):
                yield [f"train, {label}", f"gpuimg.load {ours}", f"{name} {theirs}", f"{theirs / ours:.2f}"]


def _size(name: str) -> str:
    photos = result(name)["photos"]
    return f"{photos['mean_megapixels']:.1f} megapixels at {_bits(name)} bits per pixel"


def exact() -> str:
    """Return a table of resizes alone: with Pillow's bytes, in float32, by Pillow, by torch."""
    contenders = {"exact": "Pillow's bytes", "float32": "float32", "pillow": "Pillow", "torch_nhwc": "torch, NHWC"}
    rows = [["resize, one thread", *(f"{label}, µs" for label in contenders.values()), "times Pillow's rate"]]
    for row in result("exact")["rows"]:
        sizes = " to ".join("x".join(map(str, reversed(row[key]))) for key in ("source", "result"))
        cells = [f"{row['microseconds'][key]:,}" if key in row["microseconds"] else "-" for key in contenders]
        rows.append([f"{sizes}, {row['filter']}", *cells, f"{row['pillow_over_exact']:.1f}"])
    return _block(_table(rows))


def board() -> str:
    """Return a table of the decoders of a public board: one image a call, and in a DataLoader by its workers."""
    found = result("board")
    if not found:
        return _block(f"{_MISSING.capitalize()}: `python -m bench --only board`.")
    columns = {"one image a call, one thread": found["single"]}
    columns |= {f"DataLoader, {count} workers": entries for count, entries in found["workers"].items()}
    rows = [["images/s; gpuimg's rate divided by it", *columns]]
    for name in ("gpuimg", "gpuimg, batches", "simplejpeg", "opencv", "pillow"):
        entries = [one.get(name) for one in columns.values()]
        cells = [f"{one['images_per_second']:,}" if one else "-" for one in entries]
        ratios = [f"; {one['gpuimg_over_this']:.2f}" if one and "range" in one else "" for one in entries]
        rows.append([name, *(cell + ratio for cell, ratio in zip(cells, ratios, strict=True))])
    return _block(_table(rows))


def transfer_sizes() -> str:
    """Return a table of raw and encoded images: bytes, times of decoding, times on the bus."""
    rows = [["", "MB", "times smaller", "decoded by gpuimg, ms", "by OpenCV, ms", "PCIe 4.0, ms (arithmetic)"]]
    for image in ("photo 2000 x 2000", "random 10000 x 10000"):
        found = result("transfer")[image]
        bus = found["arithmetic, not measured: ms at nominal rates"]
        for kind in ("raw", "q95", "q90", "q80", "q70"):
            here, cpu = found[kind], found[kind]["cpu_ms"]
            decoded = [f"{cpu[key]:,.1f}" if key in cpu else "-" for key in ("CPU, gpuimg", "CPU, OpenCV")]
            smaller = f"{here.get('raw_bytes_over_these', 1):.1f}"
            on_bus = f"{bus[kind]['PCIe 4.0 x16']:.2f}"
            rows.append([f"{image.partition(' ')[0]} {kind}", f"{here['bytes'] / 1e6:.2f}", smaller, *decoded, on_bus])
    return _block(_table(rows))


def transfer_formats() -> str:
    """Return a table of data formats relative to files."""
    rows = [["", "relative to files, by CPU time", "by wall time", "reading only, µs of CPU per sample"]]
    for name, found in result("transfer")["formats"].items():
        spans = [
            f"{found[key]:.2f} ({found[spread][0]:.2f} to {found[spread][1]:.2f})"
            for key, spread in (("of_files_by_cpu_time", "range_by_cpu_time"), ("of_files", "range"))
        ]
        rows.append([name, *(["1", "1"] if name == "files" else spans), f"{found['reading_alone_cpu_us']:.0f}"])
    return _block(_table(rows))


def draft(which: int) -> str:
    """Return a table of bench_draft: gains and differences of all ways, differences and gains of reduced sizes."""
    found = result("draft")
    return _block([*draft_tables(found), *scale_tables(found)][which].rstrip())


def all_peers() -> str:
    """Return everything about the libraries of peers-S: costs, CPU time, differences, and what is done differently."""
    return _block("\n".join(details(result("peers-S"))).rstrip())


def runs() -> str:
    """Return a table of all results: what was run, when, on which machine and version."""
    rows = [["result", "command", "version, commit", "machine", "date", "load before"]]
    for name in (*(part.name for part in PARTS), *ELSEWHERE):
        found = result(name)
        run = found.get("run", {})
        if found:
            cells = [
                f"`{run['command']}`" if run else "",
                version(name),
                machine(name) if run or "machine" in found else "",
            ]
            rows.append([f"`{name}.json`", *cells, run.get("date", ""), str(run.get("load_before", ""))])
    return _block(_table(rows))


# -- plots -------------------------------------------------------------------------------------------------------------


def _label(key: str, name: str = "peers-S") -> str:
    return _peers(name).get(key, key).removesuffix(" (floor)")


def _plot_train() -> tuple[str, str]:
    entries = {key: entry for key, entry in result("peers-S")["works"]["train"].items() if entry}
    torchvision, dali = (times("peers-S", "train", key) for key in ("torchvision", "dali"))
    claim = f"gpuimg prepares training images {torchvision} times as fast as a DataLoader with torchvision, {dali} \
times as fast as DALI"
    ranked = sorted(entries.items(), key=lambda pair: -pair[1]["images_per_second"])
    rows = [
        Bar(
            _label(key),
            entry["images_per_second"],
            f"{entry['images_per_second']:,}" + ("" if key.startswith("gpuimg") else f" ({_over(entry, False)})"),
            key.startswith("gpuimg"),
        )
        for key, entry in ranked
    ]
    return claim, plots.bars(claim, rows, "images/s of train at 500x375; in brackets, gpuimg's rate divided by it")


def _plot_density() -> tuple[str, str]:
    chosen = ("gpuimg", "gpuimg-index", "dali", "torchvision", "albumentations", "grain", "kornia")
    names = [f"peers-S{rate}" for rate in _RATES if _entry(f"peers-S{rate}", "train", "gpuimg")]
    rows = []
    for key in chosen:
        points = [
            (float(_bits(name)), entry["images_per_second"]) for name in names if (entry := _entry(name, "train", key))
        ]
        if len(points) == len(names):
            rows.append(Line(_label(key, names[-1]), points, key.startswith("gpuimg")))
    ratios = [f"{times(name, 'train', 'dali')} times DALI's rate at {_bits(name)} bits per pixel" for name in names]
    claim = f"gpuimg reaches {' and '.join(dict.fromkeys([ratios[0], ratios[-1]]))}"
    return claim, plots.lines(claim, rows, "bits per pixel, the median of the files", "images/s of train at 500x375")


def _cost(key: str, cost: str) -> float | None:
    """Return a cost of a library in ``train``; None if it was not measured, or failed."""
    peer = result("peers-S").get("peers", {}).get(key, {})
    found = peer.get(cost) if peer.get("costs_of") == "train" else None
    return found if isinstance(found, (int, float)) else None


def _said(key: str, cost: str) -> str:
    found = _cost(key, cost)
    return _MISSING if found is None else f"{found:,}"


def _cost_bars(cost: str, again: str = "") -> list[Bar]:
    rows = []
    for key, name in _peers("peers-S").items():
        if (found := _cost(key, cost)) is not None:
            text = f"{found:,}; again {_said(key, again)}" if again else f"{found:,}"
            rows.append(Bar(name, found, text, key.startswith("gpuimg")))
    return sorted(rows, key=lambda row: row.value)


def _plot_memory() -> tuple[str, str]:
    ours, theirs = (_said(key, "peak_mib") for key in ("gpuimg.load", "torchvision"))
    claim = f"The loader takes {ours} MiB, a DataLoader with worker processes {theirs} MiB"
    unit = "peak memory in MiB of two epochs of train, with worker processes and the encoded files"
    return claim, plots.bars(claim, _cost_bars("peak_mib"), unit)


def _plot_start() -> tuple[str, str]:
    cold, warm = "first_batch_cold_seconds", "first_batch_seconds"
    measured = _cost("gpuimg", cold) is not None
    key = cold if measured else warm
    ours, dali, theirs = (_said(name, key) for name in ("gpuimg", "dali", "torchvision"))
    claim = f"From the start of Python to the first batch: {ours} s with gpuimg, {dali} s with DALI, {theirs} s with \
a DataLoader"
    how = "with libraries read from the disk, and again from the page cache" if measured else "warm"
    rows = _cost_bars(key, warm if measured else "")
    return claim, plots.bars(claim, rows, f"seconds to the first batch of train, {how}")


def _plot_threads() -> tuple[str, str]:
    found = result("threads")["threads"]
    most = max(found, key=int)
    rows = []
    for key, peer in found[most]["peers"].items():
        entries = [(float(count), here["works"]["train"].get(key)) for count, here in found.items()]
        if all(entry for _, entry in entries):
            points = [(count, entry["images_per_second"]) for count, entry in entries if entry]
            rows.append(Line(peer["name"], points, key.startswith("gpuimg")))
    one, many = (found[count]["works"]["train"]["gpuimg"]["images_per_second"] for count in ("1", most))
    claim = f"{most} threads run {many / one:.2f} times as fast as one"
    return claim, plots.lines(claim, rows, "threads or worker processes", "images/s of train at 500x375")


def _plot_resume() -> tuple[str, str]:
    found = result("load")["positions"]
    ours = [(one["samples"], one["resume_and_first_batch_order_ms"]) for one in found]
    theirs = [(one["samples"], one["numpy_permutation_ms"]) for one in found]
    claim = (
        f"Resuming anywhere in {ours[-1][0] // 10**6} million samples takes {ours[-1][1]:.2f} ms and no list of them"
    )
    rows = [Line("gpuimg", ours, ours=True), Line("numpy permutation", theirs)]
    return claim, plots.lines(claim, rows, "samples of the data set", "milliseconds to resume and shuffle", log=True)


def _plot_rates() -> tuple[str, str]:
    chosen = {
        "gpuimg": "gpuimg",
        "dali": "DALI",
        "grain": "Grain + Pillow",
        "torchvision": "torchvision",
        "spdl": "SPDL",
    }
    rows = []
    for key, label in chosen.items():
        if entry := _entry("peers-S", "train", key):
            rows.append(Bar(label, entry["images_per_second"], f"{entry['images_per_second']:,}", key == "gpuimg"))
    dali, torchvision = (times("peers-S", "train", key) for key in ("dali", "torchvision"))
    claim = f"{dali} times the training images of DALI, {torchvision} of torchvision"
    unit = f"images/s decoded, cropped, normalized; {machine('peers-S')}"
    rows.sort(key=lambda row: -row.value)
    return claim, plots.bars(claim, rows, unit, 480, headed=True)


def _plot_seek() -> tuple[str, str]:
    rows = []
    for photos, entries in result("seek")["every"].items():
        for every, found in entries.items():
            if every != "none":
                low, high = found["range"]
                text = f"{found['over_none']:.2f} ({low:.2f} to {high:.2f}), {found['percent_of_files']:.1f} %"
                name = "rows only" if every == "rows" else f"every {every}"
                rows.append(Bar(f"{photos}, {name}", found["over_none"], text, every == "8"))
    gains = [
        f"{found['8']['over_none']:.2f} times as fast at {photos}" for photos, found in result("seek")["every"].items()
    ]
    claim = f"An entry every 8 MCUs makes train {' and '.join(gains)}"
    return claim, plots.bars(
        claim, rows, "train with a seek index over train without; size of the index in % of the files"
    )


_PLOTS: dict[str, tuple[Callable[[], tuple[str, str]], str]] = {
    "rates": (_plot_rates, "peers-S"),
    "train": (_plot_train, "peers-S"),
    "density": (_plot_density, "peers-S"),
    "memory": (_plot_memory, "peers-S"),
    "start": (_plot_start, "peers-S"),
    "threads": (_plot_threads, "threads"),
    "resume": (_plot_resume, "load"),
    "seek": (_plot_seek, "seek"),
}


def plot(name: str) -> str:
    """Return the claim of a plot and its picture; `written` has the file."""
    draw, needed = _PLOTS[name]
    if not result(needed):
        return _block(f"{_MISSING.capitalize()}: `python -m bench --only {needed}`.")
    claim, _ = draw()
    return _block(f"**{claim}.**\n\n![{claim}](figures/{name}.svg)")


# -- pages -------------------------------------------------------------------------------------------------------------

_FUNCTIONS: dict[str, Callable[..., str]] = {
    function.__name__: function
    for function in (
        value, rate, times, machine, version, peers, readme, other_formats, density, vlm, costs, slower, transfer_sizes,
        transfer_formats, board, exact, draft, all_peers, runs, plot,
    )
}  # fmt: skip


def filled(text: str) -> str:
    """Return a page with the text between its marks as the results give it."""

    def replaced(match: re.Match[str]) -> str:
        found = eval(match[1], {"__builtins__": {}}, _FUNCTIONS)
        return f"<!--= {match[1]} -->{found}<!--/-->"

    return _MARK.sub(replaced, text)


def without_figures(text: str) -> str:
    """Return a page without the text between its marks."""
    return _MARK.sub("", text)


def written() -> dict[Path, str]:
    """Return all files that results give: pages, plots."""
    drawn = {PLOTS / f"{name}.svg": draw()[1] for name, (draw, needed) in _PLOTS.items() if result(needed)}
    return drawn | {page: filled(page.read_text()) for page in PAGES}


def main(command: list[str] | None = None) -> None:
    """Write pages and plots, or compare them."""
    parser = argparse.ArgumentParser(prog="python -m bench.figures", description="Write the figures of the pages.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file has other figures")
    given = parser.parse_args(command)
    result.cache_clear()
    other = [path for path, text in written().items() if not path.exists() or path.read_text() != text]
    for path in other:
        print(f"{'other figures' if given.check else 'wrote'}: {path.relative_to(ROOT)}")
        if not given.check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(written()[path])
    if given.check and other:
        sys.exit(1)


if __name__ == "__main__":
    main()
