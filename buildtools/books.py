"""Train the tables of recoded JPEGs: ``python -m buildtools.books FILES`` writes kernels/jpeg/books.xz.

Files are divided among the sets by the bits that each set would take, and each set is trained on its files again, until
nothing changes; for luma and for chroma separately. Files count equally, whatever their size. Codes are optimal for a
limited length: Larmore and Hirschberg, "A fast algorithm for optimal length-limited Huffman codes", Journal of the ACM
37, 1990.
"""

from __future__ import annotations

import lzma
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from gpuimg._decoding.recoded import UnfitError, segments_of
from gpuimg.kernels.jpeg.books import BOOK_BITS, BOOKS, FILE, HEADS, SETS

_ROUNDS = 30
_WEIGHT = 10_000  # symbols that each file counts for
_LEAST = 0.05  # times a symbol counts that does not occur


def main(paths: list[str]) -> None:
    """Write the sets trained on these files."""
    listed = []
    for path in paths:
        with suppress(UnfitError):
            listed.append(segments_of(Path(path).read_bytes())[3])
    counts = np.stack(listed)
    print(f"{len(counts)} files", file=sys.stderr)
    sets = np.stack([sets_for(half) for half in np.split(counts, 2, 1)], 1)
    FILE.write_bytes(lzma.compress(sets.tobytes(), preset=lzma.PRESET_EXTREME))


def sets_for(counts: Any) -> Any:
    """Return (SETS, BOOKS / 2, 256) lengths of codes for counts of files."""
    counts = counts[counts.any((1, 2))]  # gray files have no chroma
    weights = counts * (_WEIGHT / counts.sum((1, 2), keepdims=True))
    rows = counts[:, 1:].sum((1, 2)) / counts[:, 0].sum(1)
    chosen = np.argsort(np.argsort(rows)) * SETS // len(counts)  # by density at first
    for _ in range(_ROUNDS):
        sets = np.stack([trained(weights[chosen == k].sum(0)) for k in range(SETS)])
        bits = np.einsum("nts,kts->nk", weights, sets)
        print(f"{bits.min(1).mean() / _WEIGHT:.4f} bits a symbol, files {np.bincount(chosen)}", file=sys.stderr)
        if (bits.argmin(1) == chosen).all():
            break
        chosen = bits.argmin(1)
    return sets


def trained(counts: Any) -> Any:
    """Return (BOOKS / 2, 256) lengths of codes for as many weights."""
    sets = np.zeros((BOOKS // 2, 256), np.uint8)
    for t in range(BOOKS // 2):
        legal = np.arange(256)
        if t == 0:
            legal = np.array(HEADS)
        elif t == 1:  # the first of the row is the DC coefficient, which has no mask
            legal = legal[::2]
        sets[t, legal] = limited(np.maximum(counts[t, legal], _LEAST))
    return sets


def limited(weights: Any) -> Any:
    """Return lengths of the optimal code whose codes have at most BOOK_BITS bits, by package-merge."""
    leaves = sorted((float(weight), (k,)) for k, weight in enumerate(weights))
    packages: list[tuple[float, tuple[int, ...]]] = []
    for _ in range(BOOK_BITS):
        merged = sorted([*leaves, *packages], key=lambda one: one[0])
        packages = [
            (one[0] + other[0], one[1] + other[1]) for one, other in zip(merged[::2], merged[1::2], strict=False)
        ]
    used = [k for _, members in packages[: len(leaves) - 1] for k in members]
    return np.bincount(used, minlength=len(leaves))


if __name__ == "__main__":
    main(sys.argv[1:])
