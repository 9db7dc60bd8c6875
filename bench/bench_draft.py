"""``draft``: differences in pixels, and speed, of decoding at a reduced size.

    python -m bench.bench_draft [--rounds 7] [--count 64] [--out bench/results/draft.json]

- quality: random resized crops to 224 x 224 of 1280 x 960 photos, each with ``draft=1`` and without: the difference in
  levels of 255, by the scale and by the remaining factor of the resampling after it. For comparison, the difference
  from moving the crop by a tenth of a result's pixel, and from rounding results to 8 bits;
- gain: images/s of the chains with ``draft`` over those without, the same crops in turn, medians of the rounds; also by
  the CPU time of all threads, for a machine that has other work.

Medians of mean, 99.9th percentile and maximum over the values of an image; ``worst`` is the largest of all.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gpuimg as gi
from bench import chains, common, photos
from gpuimg._batch.batch import recording_of
from gpuimg._plan.scale import FULL
from gpuimg._runtimes.draft import first_segments, scales_of

_SET = "1280x960"
_BATCH = 32
_DRAWS = 3  # crops of each photo
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


def _timed(files: list[bytes], chain: Callable[[gi.Batch], gi.Batch], draft: float | None) -> tuple[float, float]:
    """Return wall-clock seconds, and CPU seconds of all threads."""
    start, worked = time.perf_counter(), time.process_time()
    for at in range(0, len(files), _BATCH):
        batch = files[at : at + _BATCH]
        chain(gi.open_batch(batch, device="cpu", draft=draft)).array("float32", "NCHW")
    return time.perf_counter() - start, time.process_time() - worked


def gain(files: list[bytes], chain: Callable[[gi.Batch], gi.Batch], rounds: int) -> dict[str, Any]:
    """Measure images/s with and without ``draft``, in turn, and count the images decoded at each scale."""
    options: tuple[float | None, ...] = (None, *_DRAFTS)
    seconds: dict[float | None, list[float]] = {draft: [] for draft in options}
    worked: dict[float | None, list[float]] = {draft: [] for draft in options}
    for k in range(rounds + 1):
        first = k % len(options)
        for draft in options[first:] + options[:first]:
            taken, cpu = _timed(files, chain, draft)
            if k:  # the first round warms up
                seconds[draft].append(taken)
                worked[draft].append(cpu)
    result: dict[str, Any] = {"without": {"images_per_second": common.per_second(len(files), seconds[None])}}
    for draft in _DRAFTS:
        ratio, ratio_range = common.ratio(seconds[None], seconds[draft])
        cpu_ratio, cpu_range = common.ratio(worked[None], worked[draft])
        counts: dict[str, int] = {}
        for at in range(0, len(files), _BATCH):
            for scale in scales(chain(gi.open_batch(files[at : at + _BATCH], device="cpu", draft=draft))).tolist():
                name = f"1/{FULL // scale}"
                counts[name] = counts.get(name, 0) + 1
        result[f"draft={draft:g}"] = {
            "images_per_second": common.per_second(len(files), seconds[draft]),
            "times_without": ratio,
            "range": ratio_range,
            "times_without_by_cpu_time": cpu_ratio,
            "range_by_cpu_time": cpu_range,
            "images_by_scale": dict(sorted(counts.items())),
        }
    return result


def main() -> None:
    """Measure, print, and write the result."""
    parser = common.arguments(__doc__, "draft.json")
    parser.add_argument("--count", type=int, default=64, help="photos of the set")
    options = parser.parse_args()
    files = photos.load_set(_SET, options.count)
    common.write(
        {
            **common.environment(photos.summary_of_set(_SET, files), options.rounds, _BATCH),
            "quality": quality(files),
            "gain": {
                name: gain(files, chain, options.rounds) for name, chain in (("train", train), ("eval", evaluate))
            },
        },
        options.out,
    )


if __name__ == "__main__":
    main()
