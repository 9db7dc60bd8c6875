"""Figures of the pages, taken from bench/results by name.

    python -m bench.figures

A page has marks, comments with an expression over the functions of this module, and the text that it gives:

    gpuimg runs it <!--= times("peers-S", "train", "dali") -->3.4<!--/--> times as fast as DALI.

This command writes the text between the marks again, and the bars in docs/figures. A test does the same and compares,
so that no mark has a figure that no result has.
"""

import json
import re
import statistics
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from bench.bars import bars
from bench.common import RESULTS, ROOT, SPREAD
from bench.peers import PEERS
from bench.peers.base import SIZE, WORKS

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
PLOTS = ROOT / "docs" / "figures"
_LACKS = KeyError, TypeError, ValueError, OSError  # of a result that is missing, or of a library that it does not have
_MARK = re.compile(r"<!--= (.*?) -->.*?<!--/-->", re.DOTALL)
_SETS = {
    f"peers-{base}{denser}": size
    for base, size in (("S", "500x375"), ("1280x960", "1280x960"), ("L", "4000x3000")) for denser in ("", "-4.8")
}  # fmt: skip
_COSTS = {"first_batch_seconds": "from import to first batch, s", "peak_mib": "peak memory, MiB"}


@cache
def result(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return found


# -- single figures ----------------------------------------------------------------------------------------------------


def value(name: str, *path: str | int, form: str = "") -> str:
    """Return a number of a result by its place, in a format of Python."""
    found: Any = result(name)
    for key in path:
        found = found[key]
    return format(found, form)


def rate(name: str, work: str, peer: str = "gpuimg") -> str:
    return f"{result(name)['works'][work][peer]['images_per_second']:,}"


def times(name: str, work: str, peer: str) -> str:
    """Return how many times faster gpuimg was."""
    entries = result(name)["works"][work]
    return f"{_ratio(entries[peer], entries['gpuimg']):.1f}"


def machine(name: str, load: bool = True) -> str:
    run = result(name)["run"]
    text = f"{run['processor']}, {run['cores']} cores"
    if not load:
        return text
    if run.get("quiet"):
        return f"{text}, without other work"
    if stolen := run.get("stolen"):
        return f"{text}, {100 * stolen:.0f} % of whose time went to other virtual machines"
    return f"{text}, at a load of {run['load_before']:.1f}"


def version(name: str) -> str:
    run = result(name)["run"]
    return f"{run['version']} ({run['commit']})"


def _ratio(entry: dict[str, Any], ours: dict[str, Any]) -> float:
    """Return the ratio of the rates that stand next to it."""
    quotient: float = ours["images_per_second"] / entry["images_per_second"]
    return quotient


def _ranged(middle: float, low: float, high: float) -> str:
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def _over(entry: dict[str, Any], ours: dict[str, Any]) -> str:
    """Return gpuimg's rate divided by the other's, and the range of this over the rounds if that is wide."""
    ratio = _ratio(entry, ours)
    return f"{ratio:.2f}" if entry.get("spread", 1) <= SPREAD else _ranged(ratio, *entry["range"])


def _cell(entry: dict[str, Any] | None, ours: dict[str, Any]) -> str:
    """Return a library's rate and the ratio."""
    if not entry or "range" not in entry:
        return f"{entry['images_per_second']:,}" if entry else "-"
    return f"{entry['images_per_second']:,}; {_over(entry, ours)}"


def _plain(found: Any) -> str:
    """Return a number as text; an empty string if there is a reason why it failed instead."""
    return f"{found:,}" if isinstance(found, int | float) else ""


def _names(name: str) -> dict[str, str]:
    return {key: peer["name"] for key, peer in result(name)["peers"].items() if key in PEERS}


def _bits(name: str) -> str:
    return f"{result(name)['photos']['bits_per_pixel_p5_p50_p95'][1]:.1f}"


# -- tables, each by a function ----------------------------------------------------------------------------------------


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    return "\n".join(["", *(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)), ""])


def peers(name: str) -> str:
    """Return a table with one row for each library: images/s, and gpuimg's rate divided by it."""
    works, rows = result(name)["works"], []
    for key, label in _names(name).items():
        cells = [_cell(entries.get(key), entries["gpuimg"]) for entries in works.values()]
        if key == "gpuimg":
            cells = [f"**{rate(name, work)}**" for work in works]
        if set(cells) != {"-"}:
            rows.append([label, *cells])
    return _table(["", *works], rows)


def _row(label: str, entry: dict[str, Any], ours: dict[str, Any], other: str = "Pillow") -> list[str]:
    own, theirs = (one["images_per_second"] for one in (ours, entry))
    return [label, f"{own:,}", f"{other} {theirs:,}", _over(entry, ours)]


def _formats() -> Iterator[list[str]]:
    for form, found in (("progressive JPEG", result("progressive")["whole"]), *(
        (kind, found) for kind in ("WebP", "BMP", "GIF") if (found := result("decode").get(kind.lower()))
    )):  # fmt: skip
        yield _row(form, found["Pillow"], found["gpuimg"])
    for kind in ("photo", "screenshot"):
        for inflater in ("zlib", "deflate"):
            found = result("png")[kind][inflater]
            yield _row(f"PNG, {kind}, {inflater}", found["Pillow"], found)


def other_formats() -> str:
    return _table(["", "gpuimg, images/s", "other library", "ratio"], _formats())


def readme() -> str:
    chosen = (
        ("peers-S", "train", "dali", "train: random crop to 224, flip, normalize"),
        ("peers-S-4.8", "train", "dali", "the same, with larger files (4.8 bits per pixel, as in ImageNet)"),
        ("peers-S", "eval", "dali", "eval: resize 256, center crop 224, normalize"),
        ("peers-S", "train+rotate+color", "dali", "train with rotation and four color operations"),
        ("peers-S", "train", "torchvision", "train, and a DataLoader with worker processes"),
        ("peers-S", "decode", "simplejpeg", "decode whole JPEGs"),
    )
    works = ((label, peer, _names(name)[peer], result(name)["works"][work]) for name, work, peer, label in chosen)
    rows = [_row(label, entries[peer], entries["gpuimg"], name) for label, peer, name, entries in works]
    labels = {
        "progressive JPEG": "decode progressive JPEG, one thread",
        "PNG, photo, deflate": "decode PNG photos, one thread, with the extra `png`",
        "WebP": "decode WebP",
    }
    formats = {kind: cells for kind, *cells in _formats()}
    head = ["work", "gpuimg", "other library", "ratio"]
    return _table(head, [*rows, *([label, *formats[kind]] for kind, label in labels.items())])


def density() -> str:
    names, rows = _names("peers-S"), []
    chosen = [key for key in ("dali", "torchvision", "kornia", "pillow") if key in names]
    for name in _SETS:
        entries = result(name)["works"]["train"]
        cells = [_cell(entries.get(key), entries["gpuimg"]) for key in chosen]
        rows.append([f"{_SETS[name]}, {_bits(name)}", f"**{rate(name, 'train')}**", *cells])
    return _table(["size, bits per pixel", "gpuimg", *map(names.__getitem__, chosen)], rows)


def threads() -> str:
    both, rows = [result(name) for name in ("peers-S-1", "peers-S")], []
    for key, label in _names("peers-S").items():
        entries = [found["works"]["train"].get(key) for found in both]
        if all(entries):
            one, more = (entry["images_per_second"] for entry in entries)
            rows.append([label, f"{one:,}", f"{more:,}", f"{more / one:.2f}"])
    counts = (str(found["machine"]["threads"]) for found in both)
    return _table(["images/s of train at 500x375, by threads or worker processes", *counts, "gain"], rows)


def vlm() -> str:
    rows = []
    for name, found in result("vlm")["models"].items():
        ours, fast, pil = (f"{found['images_per_second'][key]:,}" for key in ("gpuimg", "torchvision", "pil"))
        ratios = f"{fast}; {found['of_torchvision']:.1f}", f"{pil}; {found['of_pil']:.1f}"
        rows.append([f"`{name}`", f"**{ours}**", *ratios, str(found["values_that_differ"])])
    return _table(["model", "gpuimg", 'transformers, "torchvision"', '"pil"', "values that differ"], rows)


def processors() -> str:
    """Return a table of the ratios of transformers' families, by how gpuimg runs them."""
    from gpuimg.integrations.transformers import BY_TORCH, RECIPES

    kinds: dict[str, list[float]] = {"in one pass": [], "recorded": [], "in torch": []}
    for name, found in result("processors")["families"].items():
        in_one_pass = f"{name}ImageProcessor" in RECIPES
        kinds["in one pass" if in_one_pass else "in torch" if name in BY_TORCH else "recorded"].append(found["ratio"])
    rows = (
        [kind, str(len(ratios)), *(f"{one:.2f}" for one in (min(ratios), statistics.median(ratios), max(ratios)))]
        for kind, ratios in kinds.items()
    )
    return _table(["steps", "families", "lowest", "median", "highest"], rows)


def by_torch() -> str:
    """Return the names of the families whose steps run in torch."""
    from gpuimg.integrations.transformers import BY_TORCH

    return ", ".join(sorted(BY_TORCH))


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


def pixels() -> str:
    """Return a table of the bytes of resizes that differ from Pillow's."""
    rows = (
        [label, *(f"{100 * found['differ']:.1f} %, {found['largest']}" for found in filters.values())]
        for label, filters in result("pixels")["rows"].items()
    )
    return _table(["bytes that differ, largest difference", "bilinear", "bicubic"], rows)


def _resizes() -> Iterator[tuple[str, dict[str, int], float]]:
    for row in result("exact")["rows"]:
        sizes = " to ".join("x".join(map(str, reversed(row[key]))) for key in ("source", "result"))
        yield f"{sizes}, {row['filter']}", row["microseconds"], row["pillow_over_exact"]


def exact() -> str:
    contenders = {
        "exact": "Pillow's bytes", "exact_torch": "torch's bytes", "float32": "float32", "pillow": "Pillow",
        "torch_nhwc": "torch, NHWC",
    }  # fmt: skip
    rows = [
        [label, *(f"{taken[key]:,}" if key in taken else "-" for key in contenders), f"{ratio:.1f}"]
        for label, taken, ratio in _resizes()
    ]
    head = ["resize, one thread", *(f"{label}, µs" for label in contenders.values()), "times Pillow's rate"]
    return _table(head, rows)


_ENCODERS = {"pillow": "Pillow", "opencv": "OpenCV", "simplejpeg": "simplejpeg", "nvimagecodec": "nvImageCodec, CPU"}


def _written() -> Iterator[tuple[str, dict[str, int]]]:
    for row in result("encode")["rows"]:
        codes = ", optimized" if row["optimize"] else ""
        yield f"{row['subsampling']}, quality {row['quality']}{codes}", row["microseconds"]


def encode() -> str:
    rows = []
    for label, taken in _written():
        others = (f"{taken[key]:,}; {taken[key] / taken['gpuimg']:.2f}" if key in taken else "-" for key in _ENCODERS)
        rows.append([label, f"**{taken['gpuimg']:,}**", *others])
    return _table(["JPEGs of 500x375, µs on one thread", "gpuimg", *_ENCODERS.values()], rows)


_AREAS = {"opencv": "OpenCV", "albumentationsx": "AlbumentationsX"}


def _areas() -> Iterator[tuple[str, str, float, str, float, float, list[float]]]:
    """Yield operations, sizes, gpuimg's and the other library's microseconds, and the ratio with its range."""
    for row in result("areas")["rows"]:
        taken = row["microseconds"]
        other = next(key for key in _AREAS if key in taken)
        size = "x".join(map(str, row["size"][::-1]))
        yield row["operation"], size, taken["gpuimg"], _AREAS[other], taken[other], *row["over_gpuimg"]


def areas() -> str:
    cells: dict[str, list[str]] = {}
    for label, _, ours, other, _, ratio, ends in _areas():
        over = _ranged(ratio, *ends) if ends[1] / ends[0] > 1 + SPREAD else f"{ratio:.2f}"
        cells.setdefault(label, [other]).append(f"{ours:,.0f}; {over}")
    alone = [row + ["-"] * (3 - len(row)) for row in cells.values()]
    head = ["one thread, µs an image", "compared with", "500x375", "1280x960"]
    return _table(head, ([label, *row] for label, row in zip(cells, alone, strict=True)))


def tiles() -> str:
    names = {"gpuimg": "gpuimg", "tifffile": "tifffile", "simplejpeg": "simplejpeg", "openslide": "OpenSlide"}
    found = result("tiles")
    rows = [
        [f"µs for a tile of {row['side']} x {row['side']}", f"**{row['microseconds']['gpuimg']:,.0f}**",
         *(f"{row['microseconds'][key]:,.0f}; {row['over_gpuimg'][key][0]:.2f}" for key in list(names)[1:])]
        for row in found["rows"]
    ]  # fmt: skip
    opened = found["milliseconds_to_open"]
    rows.append(["ms to open a slide", *(f"{opened[key]:.1f}" if key in opened else "-" for key in names)])
    return _table(["one thread", *names.values()], rows)


_DECODERS = {
    "gpuimg": "gpuimg", "gpuimg, batches": "gpuimg, batches", "simplejpeg": "simplejpeg",
    "pyturbojpeg": "PyTurboJPEG", "opencv": "OpenCV", "torchcodec": "torchcodec", "kornia": "kornia-rs",
    "pillow": "Pillow",
}  # fmt: skip


def _decoders(rows: dict[str, dict[str, Any]]) -> str:
    """Return a table of images/s with a column for each decoder, and gpuimg's rate divided by it."""
    names = [name for name in _DECODERS if any(name in entries for entries in rows.values())]
    cells = ([label, *(_cell(each.get(name), each["gpuimg"]) for name in names)] for label, each in rows.items())
    return _table(["images/s; gpuimg's rate divided by it", *map(_DECODERS.__getitem__, names)], cells)


def _calls() -> dict[str, dict[str, Any]]:
    found = result("one-image")
    return {f"JPEG, 500x375, {_bits('one-image')} bits per pixel": found["single"], **found["calls"]}


def board() -> str:
    """Return a table of the decoders of a public board: one image a call, and in a DataLoader by its workers."""
    found = result("one-image")
    rows = {"one image a call, one thread": found["single"]}
    table = _decoders(rows | {f"DataLoader, workers: {n}": one for n, one in found["workers"].items()})
    missing = (f"{_DECODERS[key]} was not run: {reason}" for key, reason in found.get("not_run", {}).items())
    return "\n".join([table, *missing, ""]) if found.get("not_run") else table


def one_image() -> str:
    return _decoders(_calls())


def batches_of_one() -> str:
    rows = [
        [work, f"{one['one_us']:,.0f}", f"{one['share_us']:,.0f}", f"{one['times']:.2f}"]
        for work, one in result("one-image")["batches"].items()
    ]
    return _table(["CPU time, one thread", "one image a call, µs", "an image of 64, µs", "ratio"], rows)


def less_decoding() -> str:
    shares = [found["bytes"] for found in result("recode")["sets"].values()]
    rows = [
        ["files", "as they are", f"a copy, {min(shares):.2f} to {max(shares):.2f} times the bytes", "a smaller copy"],
        ["pixels", "slightly different", "the same", "resampled and compressed again"],
    ]
    for name, found in result("draft")["levers"].items():
        bits = found["photos"]["bits_per_pixel_p5_p50_p95"][1]
        for work in ("train", "eval"):
            recoded = result("recode")["sets"][name][work]["recoded"]
            ways = found[work]["draft=1.5"], recoded, found[work][f"prepared to {result('draft')['short_side'][name]}"]
            gains = (f"{way['times_without_by_cpu_time']:.2f}" for way in ways)
            rows.append([f"{work}, {_SETS[f'peers-{name}']}, {bits:.1f} bits per pixel", *gains])
    return _table(["", "`draft=1.5`", "recoded", "prepared"], rows)


def prepare() -> str:
    rows = []
    for name, found in result("prepare")["sets"].items():
        about, (before, after) = result("prepare")["photos"][name], found["bytes"]
        sizes = " to ".join(f"{size / about['count'] / 1000:.0f} KB" for size in (before, after))
        side, gain = result("prepare")["short_side"][name], _ranged(found["two_threads"], *found["two_threads_range"])
        milliseconds = f"{found['milliseconds_of_cpu']['prepare']:.1f} ms"
        rows.append([_SETS[f"peers-{name}"], str(side), milliseconds, sizes, gain])
    head = ["photos", "shorter side", "CPU time per image", "bytes per image", "two threads, times the rate of one"]
    return _table(head, rows)


def remote() -> str:
    found = result("remote")["throughput"]
    return _table(["", *found["local"]], (
        [name, *(
            f"{_ranged(one['of_local'], *one['range'])}, {one['cpu_of_the_loader_of_local']:.2f}"
            for one in entries.values()
        )] for name, entries in found.items() if name != "local"
    ))  # fmt: skip


def video() -> str:
    rows = (
        [name, f"{found['pyav']['clips_s']:.1f}", *(
            f"{found[way]['clips_s']:.1f}; {_ranged(*found[way]['of_pyav'])}" for way in ("frames", "train")
        )] for name, found in result("video")["rates"].items()
    )  # fmt: skip
    return _table(["clips/s", "PyAV", "gpuimg, the same frames", "gpuimg, training crops, float16"], rows)


def _ahead(what: str, entries: dict[str, Any], names: dict[str, str]) -> Iterator[list[str]]:
    for key, entry in entries.items():
        if entry and key in names and not key.startswith("gpuimg") and _ratio(entry, entries["gpuimg"]) < 1:
            yield _row(what, entry, entries["gpuimg"], names[key])


def _cycles(found: dict[str, Any], nanoseconds: float, pixels: float) -> float:
    return nanoseconds * float(found["gigahertz"]) / pixels


def stages() -> str:
    """Return a table of stages: cycles per pixel of decoding, microseconds of train, with shares."""
    sets = result("stages")["sets"]
    rows: dict[str, list[str]] = {}
    for found in sets.values():
        decoding, training = found["works"]["decode"], found["works"]["train"]
        total = sum(training["nanoseconds"].values())
        for stage, taken in training["nanoseconds"].items():
            cycles = _cycles(decoding, decoding["nanoseconds"][stage], found["pixels"])
            cells = f"{cycles:.1f}", f"{taken / 1000:.0f}; {100 * taken / total:.0f} %"
            rows.setdefault(stage, []).extend(cells)
        sums = _cycles(decoding, sum(decoding["nanoseconds"].values()), found["pixels"]), total / 1000
        rows.setdefault("all", []).extend((f"{sums[0]:.1f}", f"{sums[1]:.0f}"))
    bits = [f"{found['photos']['bits_per_pixel_p5_p50_p95'][1]:.1f}" for found in sets.values()]
    head = [f"{what}, {each} bits" for each in bits for what in ("decode, cycles per pixel", "train, µs per image")]
    return _table(["stage", *head], ([stage, *cells] for stage, cells in rows.items()))


def look_ups(name: str) -> str:
    """Return the cycles per pixel that the chain of look-ups takes alone, in files of a set."""
    found = result("stages")["sets"][name]
    return f"{found['works']['decode']['look_up_cycles'] * found['symbols_per_pixel']:.1f}"


def per_symbol(name: str) -> str:
    """Return the cycles of entropy decoding for each symbol."""
    found = result("stages")["sets"][name]
    decoding = found["works"]["decode"]
    cycles = _cycles(decoding, decoding["nanoseconds"]["entropy decoding"], found["pixels"])
    return f"{cycles / found['symbols_per_pixel']:.0f}"


def written_alone(name: str) -> str:
    """Return the microseconds that writing a result of train takes at the rate of the memory."""
    found = result("stages")["sets"][name]["works"]["train"]
    return f"{4 * 3 * SIZE**2 / found['write_bytes_per_cycle'] / found['gigahertz'] / 1000:.0f}"


def slower() -> str:
    """Return all measurements in which another library is faster than gpuimg, but for those of :func:`areas`."""
    rows = [[f"decode {label}", *cells] for label, *cells in _formats() if float(cells[-1].split()[0]) < 1]
    for name, size in _SETS.items():
        for work, entries in result(name)["works"].items():
            what = f"{work}, {size} at {_bits(name)} bits per pixel"
            rows += _ahead(what, entries, _names(name))
    for label, taken, _ in _resizes():
        exact = taken.get("exact_torch", taken["exact"])
        for layout in ("torch_nhwc", "torch_nchw"):
            if (micros := taken.get(layout, exact)) < exact:
                cells = [f"{exact} µs", f"torch, {layout[6:].upper()} {micros} µs", f"{micros / exact:.2f}"]
                rows.append([f"an exact resize, {label}", *cells])
    for label, taken in _written():
        for key, name in _ENCODERS.items():
            if (micros := taken.get(key, taken["gpuimg"])) < taken["gpuimg"]:
                cells = [f"{taken['gpuimg']} µs", f"{name} {micros} µs", f"{micros / taken['gpuimg']:.2f}"]
                rows.append([f"encode {label}", *cells])
    for kind, entries in _calls().items():
        rows += _ahead(f"decode, one image a call, {kind}", entries, _DECODERS)
    for count, entries in result("one-image")["workers"].items():
        rows += _ahead(f"decode, one image a call, DataLoader, workers: {count}", entries, _DECODERS)
    every = result("peers-S")["peers"]
    for cost, label in _COSTS.items():
        ours = every["gpuimg"][cost]
        for key in _names("peers-S"):
            peer = every[key]
            trains = not key.startswith("gpuimg") and peer["costs_of"] == "train"
            if trains and _plain(peer[cost]) and peer[cost] < ours:
                cells = [f"{peer['name']} {peer[cost]}", f"{peer[cost] / ours:.2f}"]
                rows.append([f"train, {label}", f"gpuimg {ours}", *cells])
    return _table(["measurement", "gpuimg", "other", "ratio"], rows)


def all_peers() -> str:
    found = result("peers-S")
    every: dict[str, dict[str, Any]] = {key: found["peers"][key] for key in _names("peers-S")}
    labels = {
        "import_seconds": "import, seconds",
        "first_batch_seconds": "import to first batch of train, seconds",
        "peak_mib": "peak memory, MiB",
    }
    rows = [[label, *(_plain(peer[key]) or "-" for peer in every.values())] for key, label in labels.items()]
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
    lines += [f"- {name} was not run: {reason}." for name, reason in found["not_run"].items() if name in PEERS]
    head = ["", *(f"{peer['name']} {peer['version']}" for peer in every.values())]
    return "\n".join([_table(head, rows), *lines, ""])


def runs() -> str:
    rows = []
    for name in sorted(path.stem for path in RESULTS.glob("*.json")):
        run, where = result(name)["run"], machine(name, load=False)
        loads = [str(run[key]) for key in ("load_before", "load_during", "load_after") if key in run]
        mark = [] if run.get("quiet", True) else ["not quiet"]
        rows.append([f"`{name}.json`", version(name), where, run["date"], ", ".join(loads + mark)])
    head = ["result", "version, commit", "machine", "date", "load before, during, after"]
    return _table(head, rows)


def compiling() -> str:
    """Return the sentence about how long compiling takes, wherever a page needs it."""
    took = {name: f"{seconds:.0f} s" for name, seconds in result("compiling")["seconds"].items()}
    return (
        f"takes {took['install']} on 2 cores, because it compiles gpuimg's inner loops. In an editable install and on "
        f"an older processor Numba compiles them when they are first used: {took['demo_by_numba']} for the demo"
    )


# -- bars --------------------------------------------------------------------------------------------------------------


def _claim() -> str:
    dali, torchvision = (times("peers-S", "train", key) for key in ("dali", "torchvision"))
    return f"{dali} times the training images of DALI, {torchvision} of torchvision"


def _rates_bars() -> str:
    names, entries = _names("peers-S"), result("peers-S")["works"]["train"]
    kept = [key for key in names if entries.get(key) and key != "gpuimg-calls"]
    kept.sort(key=lambda key: -entries[key]["images_per_second"])
    rows = {names[key].partition(" (")[0]: entries[key]["images_per_second"] for key in kept}
    where = re.sub(r"\(R\)|\(TM\)| Processor", "", machine("peers-S", load=False))  # as wide as the bars
    return bars(_claim(), rows, "gpuimg", f"images/s decoded, cropped, normalized; {where}")


def plot(name: str) -> str:
    """Return a picture, whose title is its claim; `written` has the file."""
    return f"\n![{_claim()}](figures/{name}.svg)\n"


# -- pages -------------------------------------------------------------------------------------------------------------


def filled(text: str) -> str:
    """Return a page with the text between its marks as the results give it."""

    def replaced(match: re.Match[str]) -> str:
        try:
            found = eval(match[1], globals())
        except _LACKS:
            found = "not measured"
        return f"<!--= {match[1]} -->{found}<!--/-->"

    return _MARK.sub(replaced, text)


def written() -> dict[Path, str]:
    """Return all files that results give: pages, bars."""
    drawn = {}
    with suppress(*_LACKS):
        drawn[PLOTS / "rates.svg"] = _rates_bars()
    return drawn | {page: filled(page.read_text()) for page in PAGES}


def main() -> None:
    result.cache_clear()
    for path, text in written().items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
