"""Ways to decode less: a seek index, prepared photos and ``draft``. docs/performance.md compares them.

    python -m bench.less_decoding draft|seek|prepare|recode [--rounds 7] [--count 64] [--out bench/results/draft.json]

- draft, levers: for photos of 500 x 375 at 1.7 and at 4.8 bits per pixel and of 1280 x 960, images/s with
  ``draft=1.5``, a seek index and photos made smaller by :func:`gpuimg.prepare`, over those without;
- draft, quality and gain: random resized crops of 1280 x 960 photos with ``draft`` and without: the difference by the
  scale and by the remaining factor of the resampling, next to that of moving the crop by a tenth of a result's pixel
  and of rounding to 8 bits; and images/s;
- seek: images/s of ``train`` and bytes of the index for each distance of its entries; the results must be equal;
- prepare: images/s of preparing on one and two threads, and of training before and after;
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
from numpy.typing import NDArray

import gpuimg as gi
from bench import common, photos
from gpuimg._batch.batch import recording_of
from gpuimg._plan.scale import FULL
from gpuimg._runtimes.draft import first_segments, scales_of
from gpuimg.typing import PrepareReport

SIZE, BATCH = 224, 32
SIDES = {"S": 256, "S-4.8": 256, "1280x960": 512}  # the shorter side that photos of a set are prepared to
EVERY: dict[str, int | str] = {"rows": "rows", "16": 16, "8": 8, "4": 4, "1": 1}
_DRAFTS = 1.0, 1.5, 2.0
_LEFT = (1.0, 1.25, 1.5, 2.0, 3.0)  # limits of the rows of the table of differences
_DRAWS = 3  # crops of each photo
_TENTH = 0.1

Files = list[bytes]
Levels = NDArray[np.float64]
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


def index_of(files: Files, folder: str, every: Any = 8) -> gi.SeekIndex:
    """Build a seek index."""
    path = Path(folder, f"{every}.gpuimg-index")
    gi.build_index([(data, 0) for data in files], path, every=every)
    return gi.SeekIndex(path)


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


def levels(x: gi.Batch) -> Levels:
    """Return results as levels of 255, not rounded."""
    return np.asarray(x.array("float32"), np.float64) * 255.0


def scales(x: gi.Batch) -> NDArray[np.int64]:
    """Return the scales at which images are decoded, in eighths."""
    recording = recording_of(x)
    return scales_of(recording.source, recording.segments, first_segments(recording.segments))


def prepared(files: Files, side: int, folder: str) -> Files:
    """Shrink photos with :func:`gpuimg.prepare`."""
    photos.write_classes(files, Path(folder, "photos"))
    gi.prepare(gi.folder(Path(folder, "photos")), Path(folder, "small"), short_side=side)
    return [path.read_bytes() for path in sorted(Path(folder, "small").rglob("*.jpg"), key=lambda path: path.name)]


def levers(name: str, files: Files, rounds: int) -> dict[str, Any]:
    """Measure each means, and some together."""
    result: dict[str, Any] = {"photos": photos.summary_of_set(name, files)}
    with tempfile.TemporaryDirectory() as folder:
        index, small, side = index_of(files, folder), prepared(files, SIDES[name], folder), SIDES[name]
        result["prepared_bytes"] = round(float(np.mean([len(data) for data in small])))
        kinds: dict[str, tuple[Files, gi.SeekIndex | None, Any]] = {
            "without": (files, None, None),
            "draft=1.5": (files, None, 1.5),
            "index": (files, index, None),
            f"prepared to {side}": (small, None, None),
        }
        for work, chain in CHAINS.items():
            runs = {kind: partial(run, data, chain, *rest) for kind, (data, *rest) in kinds.items()}
            result[work] = compared(len(files), runs, rounds)
    return result


def _kind(scale: int, left: float) -> str:
    """Return the name of an image's row in the table of differences."""
    low = max(limit for limit in _LEFT if limit <= left)
    above = [limit for limit in _LEFT if limit > left]
    return f"1/{FULL // scale}, {low:g} to {above[0]:g}" if above else f"1/{FULL // scale}, {low:g} and more"


def quality(files: Files) -> dict[str, Any]:
    """Measure differences by scale and remaining factor: medians over the images, and the largest of all."""
    found: dict[str, list[tuple[float, ...]]] = {}

    def add(kind: str, one: Levels, other: Levels) -> None:
        off = np.abs(one - other)
        found.setdefault(kind, []).append((float(off.mean()), float(np.percentile(off, 99.9)), float(off.max())))

    inner = slice(2, -2)  # the edge of a moved crop differs
    for seed in range(_DRAWS):
        for k, batch in enumerate(batches(files)):
            x, plain = (crops(gi.open_batch(batch, device="cpu", draft=one), seed + k * BATCH) for one in (1.0, None))
            moved = gi.affine(plain, 0.0, (_TENTH, 0.0), 1.0, 0.0, "bilinear")
            here = scales(x)
            left = recording_of(x).plan.grid.frames[0].support.min(1) * here / FULL
            for i, (one, whole, other) in enumerate(zip(levels(x), levels(plain), levels(moved), strict=True)):
                if here[i] < FULL:
                    add(_kind(int(here[i]), float(left[i])), one, whole)
                add("for comparison: crop moved by 0.1 pixel", other[inner, inner], whole[inner, inner])
                add("for comparison: rounded to 8 bits", np.rint(whole), whole)
    result = {}
    for kind in sorted(found):
        rows = np.array(found[kind])
        mean, most, largest = np.median(rows, 0).round(2).tolist()
        worst = round(float(rows[:, 2].max()), 1)
        result[kind] = {"images": len(rows), "mean": mean, "p99.9": most, "max": largest, "worst": worst}
    return result


def gain(files: Files, chain: Chain, rounds: int) -> dict[str, Any]:
    """Measure images/s with and without reduced sizes, and count the images decoded at each of them."""
    runs: dict[str, Callable[[], None]] = {"without": partial(run, files, chain)}
    runs |= {f"draft={draft:g}": partial(run, files, chain, None, draft) for draft in _DRAFTS}
    result = compared(len(files), runs, rounds)
    for draft in _DRAFTS:
        every = [scales(chain(gi.open_batch(batch, device="cpu", draft=draft))) for batch in batches(files)]
        chosen, counts = np.unique(np.concatenate(every), return_counts=True)
        by_scale = {f"1/{FULL // scale}": count for scale, count in zip(chosen.tolist(), counts.tolist(), strict=True)}
        result[f"draft={draft:g}"]["images_by_scale"] = dict(sorted(by_scale.items()))
    return result


def measure_draft(count: int | None, rounds: int) -> dict[str, Any]:
    """Measure everything about ``draft``, and compare it with the other means."""
    files = photos.load_set("1280x960", count or 64)
    return {
        **common.environment(photos.summary_of_set("1280x960", files), rounds, BATCH),
        "quality": quality(files),
        "gain": {name: gain(files, chain, rounds) for name, chain in CHAINS.items()},
        "levers": {name: levers(name, photos.load_set(name, count), rounds) for name in SIDES},
    }


# -- seek index --------------------------------------------------------------------------------------------------------


def each_every(files: Files, rounds: int) -> dict[str, Any]:
    """Measure ``train`` and the size of the index for each distance of its entries."""
    result: dict[str, Any] = {"none": {}}
    with tempfile.TemporaryDirectory() as folder:
        runs: dict[str, Callable[[], None]] = {"none": partial(run, files, train)}
        for name, every in EVERY.items():
            index = index_of(files, folder, every)
            numbers = range(min(BATCH, len(files)))
            opened = gi.open_batch(files[:BATCH], device="cpu", index=index, indices=numbers)
            np.testing.assert_array_equal(train(opened).array(), train(gi.open_batch(files[:BATCH])).array())
            runs[name] = partial(run, files, train, index)
            size = os.path.getsize(Path(folder, f"{every}.gpuimg-index"))
            percent = round(100 * size / sum(map(len, files)), 2)
            result[name] = {"bytes_an_image": round(size / len(files)), "percent_of_files": percent}
        walls, _ = common.interleaved(runs, rounds)
    for name, taken in walls.items():
        result[name]["images_per_second"] = common.per_second(len(files), taken)
        if name != "none":
            result[name]["over_none"], result[name]["range"] = common.ratio(walls["none"], taken)
    return result


def measure_seek(count: int | None, rounds: int) -> dict[str, Any]:
    """Measure the seek index."""
    files, large = photos.load(count or photos.COUNT), photos.load(min(count or 64, 64), (960, 1280))
    return {
        **common.environment(photos.summary(files), rounds, BATCH),
        "every": {"500x375": each_every(files, rounds), "1280x960": each_every(large, rounds)},
    }


# -- prepare -----------------------------------------------------------------------------------------------------------


def preparing(files: Files, side: int, rounds: int) -> dict[str, Any]:
    """Measure preparing on one and on two threads, and training before and after."""
    with tempfile.TemporaryDirectory() as name:
        photos.write_classes(files, Path(name, "in"))
        source, number = gi.folder(Path(name, "in")), 0

        def prepare(threads: int, measure: bool = False) -> PrepareReport:
            # In another folder than the last run: ext4 does not reuse the inodes of deleted files for some seconds,
            # and skipping them takes up to half of the time, with the folder locked.
            nonlocal number
            number += 1
            return gi.prepare(source, Path(name, f"out{number}"), short_side=side, threads=threads, measure=measure)

        runs = {"prepare": partial(prepare, 1), "prepare on 2 threads": partial(prepare, 2)}
        walls, worked = common.interleaved(runs, rounds)
        report = prepare(2, measure=True)
    assert report.train is not None
    two_threads, spread = common.ratio(walls["prepare"], walls["prepare on 2 threads"])
    return {
        "milliseconds_of_cpu": {run: round(1e3 * float(np.median(s)) / len(files), 3) for run, s in worked.items()},
        "two_threads": two_threads,
        "two_threads_range": spread,
        "images_per_second_on_2_threads": common.per_second(len(files), walls["prepare on 2 threads"]),
        "bytes": [report.source_bytes, report.bytes],
        "train": [report.train.before, report.train.after],
    }


def measure_prepare(count: int | None, rounds: int) -> dict[str, Any]:
    """Measure preparing of two sets."""
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
