"""Small photos by the hundred thousand, one in a hundred of them damaged: decoded and augmented."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

import gpuimg as gi

from .check import BATCH, MAX_PIXELS, Finding, descriptors
from .mutate import Draw, mutation
from .originals import photos

#: First image, end of the range, counts, findings.
Done: TypeAlias = "tuple[int, int, dict[str, int], list[Finding]]"

_SIZE = 64
_SEED = 5


def file(index: int) -> tuple[bytes, bool]:
    """Image number ``index``, and whether it is intact."""
    if Draw(index).below(100) == 0:
        return mutation(index)[0], False
    files = tuple(photos().values())
    return files[index % len(files)], True


def preprocess(x: gi.Batch, rng: gi.Rng) -> gi.Batch:
    """A random crop and random colors."""
    return gi.color_jitter(gi.random_resized_crop(x, _SIZE, rng=rng), 0.4, 0.4, 0.4, 0.1, rng=rng)


def alone(index: int, rng: gi.Rng) -> Any:
    """Return the pixels of an intact image decoded alone."""
    return preprocess(gi.open_batch([file(index)[0]], device="cpu"), rng).array()[0]


def _said(before: int) -> int:
    """Return the growth of descriptor 2's file in bytes."""
    return os.fstat(2).st_size - before


def batches(first: int, stop: int) -> Iterator[Done]:
    """Through :func:`gpuimg.open_batch`; one image of each batch is compared with itself alone."""
    said = _said(0)
    for start in range(first, stop, BATCH):
        indices = range(start, min(start + BATCH, stop))
        files = [file(i) for i in indices]
        x = gi.open_batch([data for data, _ in files], device="cpu", on_error="fill", max_pixels=MAX_PIXELS)
        result = preprocess(x, gi.Rng(_SEED, indices=np.array(indices)))
        pixels = result.array()
        intact = np.array([good for _, good in files])
        valid = np.array([status == "ok" for status in result.status])
        findings = [Finding("descriptors", start, f"{descriptors()}")] if descriptors() > 100 else []
        findings += _compared(indices, pixels, intact, valid, start, lambda i: gi.Rng(_SEED, indices=np.array([i])))
        if _said(said) > 0:
            findings.append(Finding("stderr", start, f"{_said(said)} bytes"))
            said = _said(0)
        yield start, indices.stop, _counts(intact, valid, "batches"), findings


class Source:
    """Images ``first`` to ``stop`` with their own number as label."""

    def __init__(self, first: int, stop: int) -> None:
        self._range = range(first, stop)

    def __len__(self) -> int:
        return len(self._range)

    def __getitem__(self, i: int) -> tuple[bytes, int]:
        return file(self._range[i])[0], self._range[i]


def loader(first: int, stop: int) -> Iterator[Done]:
    """Through ``gpuimg.load``, in another order."""
    load: Any = getattr(gi, "load")  # noqa: B009  (there may be none)
    said, done = _said(0), first
    source = Source(first, stop)
    seen = np.zeros(len(source), np.int64)
    options = {"on_error": "fill", "device": "cpu", "max_pixels": MAX_PIXELS}
    warnings.filterwarnings("ignore", ".* samples? could not be decoded", RuntimeWarning)
    for batch in load(source, preprocess, batch_size=BATCH, shuffle=True, seed=_SEED, epochs=1, **options):
        pixels, labels = np.asarray(batch.images), np.asarray(batch.labels)
        indices, valid = np.asarray(batch.indices), np.asarray(batch.valid)
        findings = []
        if not np.array_equal(labels, indices + first):
            findings.append(Finding("labels", done, f"labels {labels.tolist()} of images {indices.tolist()}"))
        np.add.at(seen, indices, 1)
        intact = np.array([file(int(k))[1] for k in labels])
        findings += _compared(
            [int(k) for k in labels], pixels, intact, valid, done,
            lambda i: gi.Rng(_SEED, epoch=0, indices=np.array([i - first])),
        )  # fmt: skip
        if _said(said) > 0:
            findings.append(Finding("stderr", done, f"{_said(said)} bytes"))
            said = _said(0)
        if done + len(labels) >= stop and not (seen == 1).all():
            findings.append(Finding("order", first, f"{np.count_nonzero(seen != 1)} images not exactly once"))
        yield done, done + len(labels), _counts(intact, valid, "loader"), findings
        done += len(labels)


def _counts(intact: Any, valid: Any, way: str) -> dict[str, int]:
    return {
        f"{way}: intact": int(intact.sum()),
        f"{way}: damaged, decoded": int((~intact & valid).sum()),
        f"{way}: damaged, refused": int((~intact & ~valid).sum()),
    }


def _compared(numbers: Any, pixels: Any, intact: Any, valid: Any, start: int, rng: Any) -> list[Finding]:
    findings = []
    if (intact & ~valid).any():
        findings.append(Finding("neighbour", start, f"{int((intact & ~valid).sum())} intact images are refused"))
    if pixels[~valid].any() and not (~valid).all():
        bad = [int(numbers[i]) for i in np.flatnonzero(~valid) if pixels[i].any()]
        findings.append(Finding("black", bad[0], f"images {bad} are refused and not black"))
    chosen = np.flatnonzero(intact)
    if len(chosen):
        k = int(chosen[start // BATCH % len(chosen)])
        if not np.array_equal(pixels[k], alone(numbers[k], rng(numbers[k]))):
            findings.append(Finding("neighbour", numbers[k], f"image {numbers[k]} differs from itself alone"))
    return findings
