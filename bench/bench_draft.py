"""``draft``: differences in pixels, and speed, of decoding at a reduced size and of planes; and of other means.

    python -m bench.bench_draft [--rounds 7] [--count 64] [--photos 512] [--out bench/results/draft.json]

- quality: random resized crops to 224 x 224 of 1280 x 960 photos, each with ``draft=1`` and without: the difference in
  levels of 255, by the scale and by the remaining factor of the resampling after it. For comparison, the difference
  from moving the crop by a tenth of a result's pixel, and from rounding results to 8 bits;
- gain: images/s of the chains with ``draft`` over those without, the same crops in turn, medians of the rounds; also by
  the CPU time of all threads, for a machine that has other work;
- levers: for each set of photos (500 x 375 at 1.7 and at 4.7 bits per pixel, 1280 x 960) images/s with
  ``draft="planes"``, ``draft=1.5``, a seek index, and photos made smaller by :func:`gpuimg.prepare`, over those
  without; and the difference of planes in levels.

Medians of mean, 99.9th percentile and maximum over the values of an image; ``worst`` is the largest of all. Tables
of docs/performance.md are written next to the result.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gpuimg as gi
from bench import chains, common, photos
from gpuimg._batch.batch import recording_of
from gpuimg._plan.scale import FULL
from gpuimg._runtimes.draft import first_segments, scales_of
from gpuimg.typing import Draft

_SET = "1280x960"
_SETS = {"S": 256, "S-4.8": 256, "1280x960": 512}  # and the shorter side that their photos are prepared to
_BATCH = 32
_DRAWS = 3  # crops of each photo
MEANS = ("planes", "draft=1.5", "index", "index, planes")  # of the table, to which prepared photos are added
_LEFT = (1.0, 1.25, 1.5, 2.0, 3.0)  # limits of the rows of the table
_DRAFTS = (1.0, 1.5, 2.0)
_TENTH = 0.1

Levels = NDArray[np.float64]


def crops(x: gi.Batch, seed: int) -> gi.Batch:
    """Apply random resized crops, the same for the same seed."""
    return gi.random_resized_crop(x, chains.SIZE, rng=gi.Rng(seed, indices=np.arange(len(x))))


def train(x: gi.Batch) -> gi.Batch:
    """Apply the preprocessing of ImageNet training, always with the same crops."""
    return gi.normalize(gi.horizontal_flip(crops(x, 0)), gi.IMAGENET_MEAN, gi.IMAGENET_STD)


def evaluate(x: gi.Batch) -> gi.Batch:
    """Apply the preprocessing of ImageNet evaluation."""
    return gi.normalize(gi.center_crop(gi.resize(x, 256), chains.SIZE), gi.IMAGENET_MEAN, gi.IMAGENET_STD)


def scales(x: gi.Batch) -> NDArray[np.int64]:
    """Return the scales at which images are decoded, in eighths."""
    return scales_of(recording_of(x).source, recording_of(x).segments, first_segments(recording_of(x).segments))


def levels(x: gi.Batch) -> Levels:
    """Return results as levels of 255, not rounded."""
    found: Levels = x.array("float32").astype(np.float64) * 255.0
    return found


class Deviations:
    """Differences of images by kind."""

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[float, float, float]]] = {}

    def add(self, kind: str, one: Levels, other: Levels) -> None:
        """Add the differences of an image."""
        differences = np.abs(one - other)
        row = float(differences.mean()), float(np.percentile(differences, 99.9)), float(differences.max())
        self._rows.setdefault(kind, []).append(row)

    def summary(self) -> dict[str, dict[str, float]]:
        """Return medians over the images of each kind, and the largest difference."""
        result = {}
        for kind in sorted(self._rows):
            rows = np.array(self._rows[kind])
            mean, most, largest = np.median(rows, 0).round(2).tolist()
            worst = round(float(rows[:, 2].max()), 1)
            result[kind] = {"images": len(rows), "mean": mean, "p99.9": most, "max": largest, "worst": worst}
        return result


def _kind(scale: int, left: float) -> str:
    """Return the name of an image's row in the table."""
    low = max(limit for limit in _LEFT if limit <= left)
    above = [limit for limit in _LEFT if limit > left]
    return f"1/{FULL // scale}, {low:g} to {above[0]:g}" if above else f"1/{FULL // scale}, {low:g} and more"


def quality(files: list[bytes]) -> dict[str, Any]:
    """Measure differences by scale and remaining factor."""
    found = Deviations()
    inner = slice(2, -2)  # the edge of a moved crop differs
    for seed in range(_DRAWS):
        for at in range(0, len(files), _BATCH):
            batch = files[at : at + _BATCH]
            x, plain = (crops(gi.open_batch(batch, device="cpu", draft=draft), seed + at) for draft in (1.0, None))
            moved = gi.affine(plain, 0.0, (_TENTH, 0.0), 1.0, 0.0, "bilinear")
            here = scales(x)
            left = recording_of(x).plan.grid.frames[0].support.min(1) * here / FULL
            for k, (one, whole, other) in enumerate(zip(levels(x), levels(plain), levels(moved), strict=True)):
                if here[k] < FULL:
                    found.add(_kind(int(here[k]), float(left[k])), one, whole)
                found.add("for comparison: crop moved by 0.1 pixel", other[inner, inner], whole[inner, inner])
                found.add("for comparison: rounded to 8 bits", np.rint(whole), whole)
    return found.summary()


def _epoch(
    files: list[bytes], chain: Callable[[gi.Batch], gi.Batch], out: NDArray[np.float32], index: gi.SeekIndex | None,
    draft: Draft | None,
) -> None:  # fmt: skip
    for at in range(0, len(files), _BATCH):
        batch = files[at : at + _BATCH]
        numbers = None if index is None else range(at, at + len(batch))
        x = gi.open_batch(batch, device="cpu", draft=draft, index=index, indices=numbers)
        chain(x).array("float32", "NCHW", out=out[: len(batch)])


def _compared(files: int, runs: dict[str, Callable[[], None]], rounds: int) -> dict[str, Any]:
    """Measure images/s of runs over the same number of files in turn, and their ratios to the first one's."""
    seconds, worked = common.interleaved(runs, rounds)
    first = next(iter(runs))
    result: dict[str, Any] = {first: {"images_per_second": common.per_second(files, seconds[first])}}
    for name in [name for name in runs if name != first]:
        ratio, ratio_range = common.ratio(seconds[first], seconds[name])
        cpu_ratio, cpu_range = common.ratio(worked[first], worked[name])
        result[name] = {
            "images_per_second": common.per_second(files, seconds[name]),
            "times_without": ratio,
            "range": ratio_range,
            "times_without_by_cpu_time": cpu_ratio,
            "range_by_cpu_time": cpu_range,
        }
    return result


def gain(files: list[bytes], chain: Callable[[gi.Batch], gi.Batch], rounds: int) -> dict[str, Any]:
    """Measure images/s with and without reduced sizes, and count the images decoded at each of them."""
    out = np.zeros((_BATCH, 3, chains.SIZE, chains.SIZE), np.float32)
    names = {None: "without"} | {draft: f"draft={draft:g}" for draft in _DRAFTS}
    runs = {name: partial(_epoch, files, chain, out, None, draft) for draft, name in names.items()}
    result = _compared(len(files), runs, rounds)
    for draft in _DRAFTS:
        counts: dict[str, int] = {}
        for at in range(0, len(files), _BATCH):
            for scale in scales(chain(gi.open_batch(files[at : at + _BATCH], device="cpu", draft=draft))).tolist():
                name = f"1/{FULL // scale}"
                counts[name] = counts.get(name, 0) + 1
        result[names[draft]]["images_by_scale"] = dict(sorted(counts.items()))
    return result


def _prepared(files: list[bytes], short_side: int, folder: Path) -> list[bytes]:
    """Shrink photos with :func:`gpuimg.prepare`."""
    source = folder / "photos" / "class"
    source.mkdir(parents=True)
    for k, data in enumerate(files):
        (source / f"{k:04d}.jpg").write_bytes(data)
    gi.prepare(gi.folder(source.parent), folder / "prepared", short_side=short_side)
    return [path.read_bytes() for path in sorted((folder / "prepared" / "class").glob("*.jpg"))]


def levers(name: str, files: list[bytes], rounds: int) -> dict[str, Any]:
    """Measure what makes decoding cheaper: planes, a reduced size, a seek index, and smaller files."""
    out = np.zeros((_BATCH, 3, chains.SIZE, chains.SIZE), np.float32)
    result: dict[str, Any] = {"photos": photos.summary_of_set(name, files), "planes": planes(files)}
    with tempfile.TemporaryDirectory() as folder:
        path, side = Path(folder, "index"), _SETS[name]
        gi.build_index([(data, 0) for data in files], path, every=8)
        index, small = gi.SeekIndex(path), _prepared(files, side, Path(folder))
        result["prepared_bytes"] = round(float(np.mean([len(data) for data in small])))
        for work, chain in (("train", train), ("eval", evaluate)):
            kinds: dict[str, tuple[list[bytes], gi.SeekIndex | None, Draft | None]] = {
                "without": (files, None, None),
                "planes": (files, None, "planes"),
                "draft=1.5": (files, None, 1.5),
                "index": (files, index, None),
                "index, planes": (files, index, "planes"),
                f"prepared to {side}": (small, None, None),
                f"prepared to {side}, planes": (small, None, "planes"),
            }
            runs = {kind: partial(_epoch, data, chain, out, *rest) for kind, (data, *rest) in kinds.items()}
            result[work] = _compared(len(files), runs, rounds)
    return result


def _name(name: str, found: dict[str, Any]) -> str:
    height, width = photos.SETS[name].sizes[0][0]
    return f"{width}x{height}, {found['photos']['bits_per_pixel_p5_p50_p95'][1]:.1f} bits per pixel"


def _table(rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], f"|{'---|' * len(rows[0])}", *lines[1:]]) + "\n"


def tables(result: dict[str, Any]) -> list[str]:
    """Return Markdown of the ratios by CPU time, medians of the rounds, and of the differences of planes."""
    gains = [["", *(f"`{mean}`" if "=" in mean else mean for mean in MEANS), "prepared", "prepared, planes"]]
    differences = [["", "mean", "p99", "p99.9", "largest mean", "largest"]]
    for name, found in result["levers"].items():
        for work in ("train", "eval"):
            ratios = [found[work][mean] for mean in MEANS]
            ratios += [one for mean, one in found[work].items() if mean.startswith("prepared")]
            cells = [f"{one['times_without_by_cpu_time']:.2f}" for one in ratios]
            gains.append([f"{work}, {_name(name, found)}", *cells])
        off = found["planes"]
        cells = [f"{off[key]:.2f}" for key in ("mean", "p99", "p99.9", "largest_mean")]
        differences.append([_name(name, found), *cells, f"{off['worst']:.0f}"])
    return [_table(gains), _table(differences)]


def scale_tables(result: dict[str, Any]) -> list[str]:
    """Return Markdown of the differences of reduced sizes, and of the gains by the limit of ``draft``."""
    differences = [["scale, remaining factor", "images", "mean", "p99.9", "max", "largest"]]
    for name, found in result["quality"].items():
        cells = [f"{found['mean']:.2f}", *(f"{found[key]:.1f}" for key in ("p99.9", "max", "worst"))]
        differences.append([name, str(found["images"]), *cells])
    gains = [["", "gain by CPU time (range)", "images at 1/1, 1/2, 1/4"]]
    for work, entries in result["gain"].items():
        for draft, found in entries.items():
            if draft != "without":
                low, high = found["range_by_cpu_time"]
                scales = ", ".join(str(found["images_by_scale"].get(scale, 0)) for scale in ("1/1", "1/2", "1/4"))
                gain = f"{found['times_without_by_cpu_time']:.2f} ({low:.2f} to {high:.2f})"
                gains.append([f"{work}, `{draft}`", gain, scales])
    return [_table(differences), _table(gains)]


def planes(files: list[bytes]) -> dict[str, float]:
    """Measure differences of planes from the exact results; percentiles of all values, means over the images."""
    means, percentiles, most = [], [], 0.0
    for at in range(0, len(files), _BATCH):
        batch = files[at : at + _BATCH]
        one, other = (levels(crops(gi.open_batch(batch, device="cpu", draft=draft), at)) for draft in ("planes", None))
        for a, b in zip(one, other, strict=True):
            differences = np.abs(a - b)
            means.append(float(differences.mean()))
            percentiles.append(np.percentile(differences, (99, 99.9)))
            most = max(most, float(differences.max()))
    p99, p999 = np.median(percentiles, 0).round(2).tolist()
    mean, largest = round(float(np.median(means)), 3), round(max(means), 3)
    return {"mean": mean, "largest_mean": largest, "p99": p99, "p99.9": p999, "worst": round(most, 1)}


def main() -> None:
    """Measure, print, and write the result."""
    parser = common.arguments(__doc__, "draft.json")
    parser.add_argument("--count", type=int, default=64, help="photos of the set for reduced sizes")
    parser.add_argument("--photos", type=int, help="of each set for the comparison of all means, by default all")
    options = parser.parse_args()
    files = photos.load_set(_SET, options.count)
    result = {
        **common.environment(photos.summary_of_set(_SET, files), options.rounds, _BATCH),
        "quality": quality(files),
        "gain": {name: gain(files, chain, options.rounds) for name, chain in (("train", train), ("eval", evaluate))},
        "levers": {name: levers(name, photos.load_set(name, options.photos), options.rounds) for name in _SETS},
    }
    common.write(result, options.out)


if __name__ == "__main__":
    main()
