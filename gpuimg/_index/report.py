"""What building an index found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import Failure
from . import format as layout
from .entries import Built


@dataclass(frozen=True)
class IndexReport:
    """What :func:`gpuimg.build_index` found and wrote.

    Attributes
    ----------
    path : str or None
        The index; None where nothing was written.
    every : int or str
        MCUs of a segment, or ``"rows"``.
    samples : int
        Of the source. Each is counted in one of the next seven numbers.
    indexed : int
        Baseline JPEG files that have an entry.
    restart : int
        Baseline JPEG files with restart markers, which serve as well.
    progressive : int
        Progressive JPEG files: these can only be decoded whole.
    other_jpeg : int
        JPEG files of other kinds: CMYK, 12 bits, arithmetic coding, rare subsampling, several scans.
    other_formats : int
        PNG, WebP and so on.
    too_large : int
        Baseline JPEG files whose numbers an entry has no room for, as of over 512 MB.
    refused : tuple of Failure
        Samples that cannot be read or decoded, with their index in the source.
    subsampling : dict of str to int
        Baseline JPEG files by their subsampling: ``"4:2:0"``, ``"4:4:4"``, ``"gray"`` and so on.
    optimized : int
        Baseline JPEG files with other Huffman tables than those of the standard.
    bytes : int
        Of the index; where nothing was written, what it may take at most.
    indexed_bytes : int
        Of the files that have an entry.
    resumed : int
        Samples that an earlier, interrupted call had done.
    seconds : float
        It took.
    """

    path: str | None
    every: int | str
    samples: int
    indexed: int
    restart: int
    progressive: int
    other_jpeg: int
    other_formats: int
    too_large: int
    refused: tuple[Failure, ...]
    subsampling: dict[str, int]
    optimized: int
    bytes: int
    indexed_bytes: int
    resumed: int
    seconds: float


class Tally:
    """Counts what became of samples, in their order."""

    def __init__(self) -> None:
        self.samples = self.largest = self._bytes = self._indexed_bytes = 0
        self._kinds = np.zeros(2 * layout.OPTIMIZED, np.int64)
        self._refused: list[Failure] = []

    def add(self, built: Built) -> None:
        """Count some more."""
        for k, text in sorted(built.texts.items()):
            name, _, reason = text.decode("utf-8", "replace").partition("\0")
            self._refused.append(Failure(self.samples + k, name, reason))
        self.samples += built.kinds.size
        self._bytes += int(built.sizes.sum())
        self._kinds += np.bincount(built.kinds.astype(np.int64) % self._kinds.size, minlength=self._kinds.size)
        indexed = built.kinds & np.uint64(15) == layout.INDEXED
        self._indexed_bytes += int(built.files[indexed].sum())
        self.largest = max(self.largest, int(built.sizes[indexed].max(initial=0)))

    def report(self, path: str | None, every: int, resumed: int, seconds: float) -> IndexReport:
        """All of it."""
        by = self._kinds.reshape(2, 16, 16)  # tables, subsampling, kind
        kinds = by.sum((0, 1)).tolist()
        samplings = zip(layout.SAMPLINGS[1:], by.sum((0, 2))[1:].tolist(), strict=False)
        return IndexReport(
            path=path,
            every=every or "rows",
            samples=self.samples,
            indexed=kinds[layout.INDEXED],
            restart=kinds[layout.RESTART],
            progressive=kinds[layout.PROGRESSIVE],
            other_jpeg=kinds[layout.OTHER_JPEG],
            other_formats=kinds[layout.OTHER_FORMAT],
            too_large=kinds[layout.TOO_LARGE],
            refused=tuple(self._refused),
            subsampling={name: count for name, count in samplings if count},
            optimized=int(by[1].sum()),
            bytes=layout.word_at(self.samples + 1) + self._bytes,
            indexed_bytes=self._indexed_bytes,
            resumed=resumed,
            seconds=seconds,
        )
