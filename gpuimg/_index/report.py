"""Report of ``gpuimg.build_index``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import Failure
from . import format as layout
from .entries import Built


@dataclass(frozen=True)
class IndexReport:
    """Result of :func:`gpuimg.build_index`.

    Attributes
    ----------
    path : str or None
        Path of the index; None if nothing was written.
    samples : int
        Number of samples in the source. Each is counted in exactly one of the next seven numbers.
    indexed : int
        Baseline JPEG files that have an entry.
    restart : int
        Baseline JPEG files with restart markers, which need no entry.
    progressive : int
        Progressive JPEG files, which are decoded from the start.
    other_jpeg : int
        JPEG files of other kinds: CMYK, 12 bits, arithmetic coding, rare subsampling, several scans.
    other_formats : int
        PNG, WebP and so on.
    too_large : int
        Baseline JPEG files whose offsets do not fit into an entry, such as files of over 512 MB.
    refused : tuple of Failure
        Samples that cannot be read or decoded, with their index in the source.
    subsampling : dict of str to int
        Baseline JPEG files by their subsampling: ``"4:2:0"``, ``"4:4:4"``, ``"gray"`` and so on.
    bytes : int
        Size of the index; if nothing was written, its maximum size.
    indexed_bytes : int
        Total size of the files that have an entry.
    resumed : int
        Samples that an earlier, interrupted call had finished.
    seconds : float
        Duration of the call.

    Examples
    --------
    >>> import gpuimg, io
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (30, 20)).save(file, "JPEG")
    >>> source = [(file.getvalue(), label) for label in range(6)]
    >>> report = gpuimg.build_index(source, dry_run=True)
    >>> report.samples, report.progressive
    (6, 0)
    """

    path: str | None
    samples: int
    indexed: int
    restart: int
    progressive: int
    other_jpeg: int
    other_formats: int
    too_large: int
    refused: tuple[Failure, ...]
    subsampling: dict[str, int]
    bytes: int
    indexed_bytes: int
    resumed: int
    seconds: float


class Tally:
    """Counts samples by outcome, in order."""

    def __init__(self) -> None:
        self.samples = self.largest = self._bytes = self._indexed_bytes = 0
        self._kinds = np.zeros((16, 16), np.int64)  # by subsampling and kind
        self._refused: list[Failure] = []

    def add(self, built: Built) -> None:
        """Count the next samples."""
        for k, text in sorted(built.texts.items()):
            name, _, reason = text.decode("utf-8", "replace").partition("\0")
            self._refused.append(Failure(self.samples + k, name, reason))
        self.samples += built.kinds.size
        self._bytes += int(built.sizes.sum())
        np.add.at(self._kinds, (built.kinds >> np.uint64(4), built.kinds & np.uint64(15)), 1)
        indexed = built.kinds & np.uint64(15) == layout.INDEXED
        self._indexed_bytes += int(built.files[indexed].sum())
        self.largest = max(self.largest, int(built.sizes[indexed].max(initial=0)))

    def report(self, path: str | None, resumed: int, seconds: float) -> IndexReport:
        """Return the report."""
        kinds = self._kinds.sum(0).tolist()
        samplings = zip(layout.SAMPLINGS[1:], self._kinds.sum(1)[1:].tolist(), strict=False)
        return IndexReport(
            path=path,
            samples=self.samples,
            indexed=kinds[layout.INDEXED],
            restart=kinds[layout.RESTART],
            progressive=kinds[layout.PROGRESSIVE],
            other_jpeg=kinds[layout.OTHER_JPEG],
            other_formats=kinds[layout.OTHER_FORMAT],
            too_large=kinds[layout.TOO_LARGE],
            refused=tuple(self._refused),
            subsampling={name: count for name, count in samplings if count},
            bytes=layout.record_at(self.samples + 1) + self._bytes,
            indexed_bytes=self._indexed_bytes,
            resumed=resumed,
            seconds=seconds,
        )
