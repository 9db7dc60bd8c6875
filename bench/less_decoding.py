"""Ways to decode less: a seek index, prepared photos and ``draft``. docs/performance.md compares them.

    python -m bench.less_decoding draft|seek|prepare|recode [--rounds 7] [--count 64] [--out bench/results/draft.json]

- draft: for photos of 500 x 375 at 1.7 and at 4.8 bits per pixel and of 1280 x 960, images/s with
  ``draft=1.5``, a seek index (of rows only, and with an entry every 8 MCUs) and photos made smaller by
  :func:`gpuimg.prepare`, over those without;
- seek: bytes of the index for each distance of its entries, and the cost of building and opening it;
- prepare: the cost of preparing on one and two threads, and the bytes of the results.
- recode: images/s of ``train`` and ``eval`` with recoded photos over those with the JPEGs, their bytes, and
  megapixels/s of recoding; the results must be equal.

Works take turns; medians of the rounds, ratios round by round, also by the CPU time of all threads, for a machine that
has other work.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import gpuimg as gi
from bench import common, photos
from gpuimg.typing import PrepareReport

SIZE, BATCH = 224, 32
SIDES = {"S": 256, "S-4.8": 256, "1280x960": 512}  # the shorter side that photos of a set are prepared to
EVERY: dict[str, int | str] = {"rows": "rows", "16": 16, "8": 8, "4": 4, "1": 1}

Files = list[bytes]
Chain = Callable[[gi.Batch], gi.Batch]


def crops(x: gi.Batch, seed: int) -> gi.Batch:
    """Apply random resized crops, the same for the same seed."""
    return gi.random_resized_crop(x, SIZE, rng=gi.Rng(seed, indices=np.arange(len(x))))


def train(x: gi.Batch) -> gi.Batch:
    """Apply the preprocessing of ImageNet training, always with the same crops."""
    return gi.normalize(gi.horizontal_flip(crops(x, 0)), gi.IMAGENET_MEAN, gi.IMAGENET_STD)


CHAINS: dict[str, Chain] = {"train": train, "eval": gi.presets.imagenet_eval(SIZE, 256)}


def batches(files: Files) -> list[Files]:
    """Split files into batches."""
    return [files[at : at + BATCH] for at in range(0, len(files), BATCH)]


def index_of(files: Files, folder: str, every: Any = 8) -> Path:
    """Build a seek index."""
    path = Path(folder, f"{every}.gpuimg-index")
    gi.build_index([(data, 0) for data in files], path, every=every)
    return path


def run(files: Files, chain: Chain, index: gi.SeekIndex | None = None, draft: Any = None) -> None:
    """Run a chain over all files, into memory that is used again."""
    out = np.zeros((BATCH, 3, SIZE, SIZE), np.float32)
    for k, batch in enumerate(batches(files)):
        numbers = None if index is None else range(k * BATCH, k * BATCH + len(batch))
        x = gi.open_batch(batch, device="cpu", draft=draft, index=index, indices=numbers)
        chain(x).array("float32", "NCHW", out=out[: len(batch)])


def compared(files: int, runs: dict[str, Callable[[], None]], rounds: int) -> dict[str, Any]:
    """Measure images/s of runs over the same number of files in turn, and their ratios to the first one's."""
    walls, worked = common.interleaved(runs, rounds)
    first, *others = runs
    result: dict[str, Any] = {first: {"images_per_second": common.per_second(files, walls[first])}}
    for name in others:
        by_wall, by_wall_range = common.ratio(walls[first], walls[name])
        by_cpu, by_cpu_range = common.ratio(worked[first], worked[name])
        result[name] = {
            "images_per_second": common.per_second(files, walls[name]),
            "times_without": by_wall, "range": by_wall_range,
            "times_without_by_cpu_time": by_cpu, "range_by_cpu_time": by_cpu_range,
        }  # fmt: skip
    return result


# -- draft -------------------------------------------------------------------------------------------------------------


def prepared(files: Files, side: int, folder: str) -> Files:
    """Shrink photos with :func:`gpuimg.prepare`."""
    photos.write_classes(files, Path(folder, "photos"))
    gi.prepare(gi.folder(Path(folder, "photos")), Path(folder, "small"), short_side=side)
    return [path.read_bytes() for path in sorted(Path(folder, "small").rglob("*.jpg"), key=lambda path: path.name)]


def levers(name: str, files: Files, rounds: int) -> dict[str, Any]:
    """Measure each means, and some together."""
    result: dict[str, Any] = {"photos": photos.summary_of_set(name, files)}
    with tempfile.TemporaryDirectory() as folder:
        small, side = prepared(files, SIDES[name], folder), SIDES[name]
        rows, index = (gi.SeekIndex(index_of(files, folder, every)) for every in ("rows", 8))
        result["prepared_bytes"] = round(float(np.mean([len(data) for data in small])))
        kinds: dict[str, tuple[Files, gi.SeekIndex | None, Any]] = {
            "without": (files, None, None),
            "draft=1.5": (files, None, 1.5),
            "index, rows only": (files, rows, None),
            "index": (files, index, None),
            f"prepared to {side}": (small, None, None),
        }
        for work, chain in CHAINS.items():
            runs = {kind: partial(run, data, chain, *rest) for kind, (data, *rest) in kinds.items()}
            result[work] = compared(len(files), runs, rounds)
    return result


def measure_draft(count: int | None, rounds: int) -> dict[str, Any]:
    """Measure each means for each set."""
    return {
        **common.environment({}, rounds, BATCH),
        "levers": {name: levers(name, photos.load_set(name, count), rounds) for name in SIDES},
    }


# -- seek index --------------------------------------------------------------------------------------------------------


def sizes(files: Files) -> dict[str, float]:
    """Return the size of an index in percent of the files, for each distance of its entries."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, every in EVERY.items():
            size = os.path.getsize(index_of(files, folder, every))
            found[name] = round(100 * size / sum(map(len, files)), 2)
    return found


def cost_of_an_index(files: Files, rounds: int) -> dict[str, float]:
    """Measure building, opening and reading an index."""
    with tempfile.TemporaryDirectory() as folder:
        path = index_of(files, folder)
        index, numbers = gi.SeekIndex(path), range(min(BATCH, len(files)))
        runs: dict[str, Callable[[], object]] = {
            "build": partial(index_of, files, folder),
            "open": partial(gi.SeekIndex, path),
            "with": lambda: gi.open_batch(files[:BATCH], device="cpu", index=index, indices=numbers),
            "without": lambda: gi.open_batch(files[:BATCH], device="cpu"),
        }
        _, worked = common.interleaved(runs, rounds)
    seconds = {name: float(np.median(taken)) for name, taken in worked.items()}
    return {
        "megabytes_a_second_of_cpu_time": round(sum(map(len, files)) / seconds["build"] / 1e6, 1),
        "milliseconds_to_open": round(1e3 * seconds["open"], 3),
        "microseconds_a_sample": round(1e6 * (seconds["with"] - seconds["without"]) / len(numbers), 2),
    }


def measure_seek(count: int | None, rounds: int) -> dict[str, Any]:
    """Measure the seek index."""
    sets = {name: photos.load_set(name, count or most) for name, most in (("S", 512), ("1280x960", 64))}
    return {
        **common.environment({n: photos.summary_of_set(n, f) for n, f in sets.items()}, rounds, BATCH),
        "percent_of_files": {name: sizes(files) for name, files in sets.items()},
        "cost": cost_of_an_index(sets["S"], rounds),
    }


# -- prepare -----------------------------------------------------------------------------------------------------------


def preparing(files: Files, side: int, rounds: int) -> dict[str, Any]:
    """Measure preparing on one and on two threads."""
    with tempfile.TemporaryDirectory() as name:
        photos.write_classes(files, Path(name, "in"))
        source, number = gi.folder(Path(name, "in")), 0

        def prepare(threads: int) -> PrepareReport:
            # In another folder than the last run: ext4 does not reuse the inodes of deleted files for some seconds,
            # and skipping them takes up to half of the time, with the folder locked.
            nonlocal number
            number += 1
            return gi.prepare(source, Path(name, f"out{number}"), short_side=side, threads=threads, measure=False)

        runs = {"prepare": partial(prepare, 1), "prepare on 2 threads": partial(prepare, 2)}
        walls, worked = common.interleaved(runs, rounds)
        report = prepare(2)
    two_threads, spread = common.ratio(walls["prepare"], walls["prepare on 2 threads"])
    return {
        "milliseconds_of_cpu": {run: round(1e3 * float(np.median(s)) / len(files), 3) for run, s in worked.items()},
        "two_threads": two_threads,
        "two_threads_range": spread,
        "images_per_second_on_2_threads": common.per_second(len(files), walls["prepare on 2 threads"]),
        "bytes": [report.source_bytes, report.bytes],
    }


def measure_prepare(count: int | None, rounds: int) -> dict[str, Any]:
    """Measure preparing two sets."""
    sets = {name: photos.load_set(name, count or most) for name, most in (("S", 512), ("1280x960", 128))}
    return {
        **common.environment({n: photos.summary_of_set(n, f) for n, f in sets.items()}, rounds, 0),
        "short_side": {name: SIDES[name] for name in sets},
        "sets": {name: preparing(files, SIDES[name], rounds) for name, files in sets.items()},
    }


# -- recode ------------------------------------------------------------------------------------------------------------


def recoding(name: str, files: Files, rounds: int) -> dict[str, Any]:
    """Measure recoded photos against the same as JPEGs, without those that are not recoded."""
    files = [data for data in files if b"\xff\xc2" not in data[: data.index(b"\xff\xda")]]
    recoded = [gi.recode_jpeg(data) for data in files]
    assert all(map(np.array_equal, map(gi.decode_image, files), map(gi.decode_image, recoded)))
    shares = [len(after) / len(before) for before, after in zip(files, recoded, strict=True)]
    pixels = sum(height * width for height, width, *_ in map(gi.image_info, files))
    _, worked = common.interleaved({"recode": lambda: [gi.recode_jpeg(data) for data in files]}, rounds)
    return {
        "photos": photos.summary_of_set(name, files),
        "bytes": round(sum(map(len, recoded)) / sum(map(len, files)), 4),
        "bytes_p95": round(float(np.percentile(shares, 95)), 4),
        "megapixels_per_second_of_cpu": round(pixels / 1e6 / float(np.median(worked["recode"])), 1),
        **{
            work: compared(
                len(files), {"jpeg": partial(run, files, chain), "recoded": partial(run, recoded, chain)}, rounds
            )
            for work, chain in CHAINS.items()
        },
    }


def measure_recode(count: int | None, rounds: int) -> dict[str, Any]:
    """Measure three sets."""
    sets = {
        name: photos.load_set(name, count or most) for name, most in (("S", 512), ("S-4.8", 512), ("1280x960", 128))
    }
    return {
        **common.environment({n: photos.summary_of_set(n, f) for n, f in sets.items()}, rounds, BATCH),
        "sets": {name: recoding(name, files, rounds) for name, files in sets.items()},
    }


def main() -> None:
    """Measure, print, and write the result."""
    parser = common.arguments(__doc__, "")
    parser.add_argument("what", choices=["draft", "seek", "prepare", "recode"])
    parser.add_argument("--count", type=int, help="photos of each set, for a try")
    options = parser.parse_args()
    measures = {"draft": measure_draft, "seek": measure_seek, "prepare": measure_prepare, "recode": measure_recode}
    out = options.out if options.out.suffix else common.RESULTS / f"{options.what}.json"
    common.write(measures[options.what](options.count, options.rounds), out)


if __name__ == "__main__":
    main()
