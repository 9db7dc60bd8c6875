"""Images that a decoder reports as decoded but does not write, or writes to the place of another image.

Before a batch is decoded, bytes of the first, middle and last row of each image are set to a pattern that changes from
batch to batch. Afterwards they are read back for every image that was reported as decoded: if the pattern remains, it
is "unwritten" (all rows) or "partly written"; if pixels differ much from the CPU's, it is "wrong". 100,000 images of
each decoder.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import gpuimg as gi
from bench.gpu.child import Context
from bench.gpu.decoders import KINDS, Arena, decoder_of, gpuimg_decoder
from bench.gpu.measure import to_host
from bench.gpu.order import is_common

IMAGES = 100_000
BATCH = 64
OURS = "as gpuimg sets it"
_SAMPLES = 96  # bytes of a row
_FAR = 24.0  # mean difference in levels, over the samples of an image, that decoders' rounding does not give
_LEAST_S = 3.0


class Watched(Arena):
    """A batch whose rows are marked before it is decoded."""

    def __init__(self, files: list[bytes], expected: list[Any]) -> None:
        import cupy

        super().__init__(files)
        places = np.stack([_places(shape) for shape in self.shapes])
        self._expected = np.stack(
            [image.reshape(-1)[where] for image, where in zip(expected, places, strict=True)]
        ).astype(np.int16)
        with self.stream:
            self._places = cupy.asarray(places + self.offsets[:-1, None, None])

    def counts(self, decoder: Any, number: int) -> dict[str, int]:
        """Decode once, and check every image."""
        import cupy

        mark = _pattern(self._expected.shape, number)
        with self.stream:
            self.memory[self._places] = cupy.asarray(mark)
        self.stream.synchronize()
        done = np.array(self.decode(decoder))
        with self.stream:
            seen = to_host(self.memory[self._places])
        self.stream.synchronize()
        return counted(seen, mark, self._expected, done)


def counted(seen: Any, mark: Any, expected: Any, done: Any) -> dict[str, int]:
    """Count the outcomes of a batch, from (N, rows, samples) bytes: as decoded, as marked before, and as the CPU's."""
    kept = (seen == mark).all(2)
    unwritten, partly = kept.all(1), kept.any(1)
    far = np.abs(seen.astype(np.int16) - expected).mean((1, 2)) > _FAR
    return {
        "images": len(done),
        "not decoded": int((~done).sum()),
        "unwritten": int((done & unwritten).sum()),
        "partly written": int((done & partly & ~unwritten).sum()),
        "wrong": int((done & far & ~partly).sum()),
    }


def _places(shape: tuple[int, int, int]) -> Any:
    """Return the checked elements of an image: (3, samples) of its first, middle and last row."""
    height, width, channels = shape
    row = width * channels
    across = np.linspace(0, row - 1, _SAMPLES).astype(np.int64)
    return np.array([0, height // 2, height - 1])[:, None] * row + across


def _pattern(shape: tuple[int, ...], number: int) -> Any:
    """Return bytes that no photo has, different for each batch."""
    return np.random.default_rng(number).integers(0, 256, shape, np.uint8)


def run(context: Context) -> None:
    """Check each decoder in its share of the time."""
    if not context.on_gpu:
        context.record("skipped", "needs a GPU")
        return
    files = context.photos("S", 256)
    batches = _batches(files, min(BATCH, len(files)))
    expected = {id(data): image for data, image in zip(files, gi.decode_batch(files, device="cpu"), strict=True)}
    watched = [Watched(batch, [expected[id(data)] for data in batch]) for batch in batches]
    table: dict[str, Any] = {}
    names = [*KINDS, OURS]
    for k, name in enumerate(names):
        try:
            decoder = gpuimg_decoder() if name == OURS else decoder_of(name)
            table[name] = _repeat(context, watched, decoder, context.left() / (len(names) - k))
        except Exception as error:
            table[name] = {"error": f"{type(error).__name__}: {error}"[:300]}
        context.record("decoders", table)


def _batches(files: list[bytes], size: int) -> list[list[bytes]]:
    """Return mixed batches, and batches of one chroma subsampling, for which nvImageCodec takes another path."""
    pure = [data for data in files if is_common(data)]
    return [part[at : at + size] for part in (files, pure) for at in range(0, len(part) - size + 1, size)] or [files]


def _repeat(context: Context, watched: list[Watched], decoder: Any, seconds: float) -> dict[str, int]:
    end = time.monotonic() + min(seconds, context.left() - _LEAST_S)
    total: dict[str, int] = {}
    number = 0
    most = 2 * len(watched) * BATCH if context.smoke else IMAGES
    while total.get("images", 0) < most and (number == 0 or time.monotonic() < end):
        found = watched[number % len(watched)].counts(decoder, number)
        total = {key: total.get(key, 0) + count for key, count in found.items()}
        number += 1
        if context.smoke and number > len(watched):
            break
    return {**total, "batches": number}


def claims(results: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the counts of each decoder."""
    rows = results.get("decoders", {})
    problems, lines = [], []
    for name, row in rows.items():
        if "error" in row:
            lines.append(f"{name}: not run: {row['error']}")
            continue
        lines.append(f"{name}: {', '.join(f'{count:,} {key}' for key, count in row.items())}")
        if _bad(row):
            problems.append(f"{name}: {_bad(row)} of {row['images']:,} images reported as decoded are not")
    return problems, lines


def _bad(row: dict[str, int]) -> int:
    return row.get("unwritten", 0) + row.get("partly written", 0) + row.get("wrong", 0)
