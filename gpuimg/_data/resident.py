"""Files of a batch that lie in a GPU's memory, so that the host has only their headers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from .._checks.types import Ints, Records

#: Of a file: the word of the memory where its clean bytes begin, their bits, and those of a part to find a segment in.
RECORD = np.dtype([("place", "<i8"), ("bits", "<i8"), ("span", "<i8")])

NEW, REPORTED = -1, -2  # places of files that are not there: not yet, or never, as kernels do not decode them


class ResidentFiles(Protocol):
    """Memory for files of a source, by the index of their sample."""

    @property
    def count(self) -> int:
        """Number of files in it."""

    def head(self, index: int) -> tuple[Any, bytes, Any] | None:
        """Return the record of a sample's file, its bytes before the coded data, and the label; None if not there."""

    def whole(self, index: int) -> Any:
        """Return all bytes of a sample's file, read from the source."""

    def forget(self, indices: Ints) -> None:
        """Do not use files again that kernels do not decode."""


@dataclass(frozen=True)
class Resident:
    """The files of a batch in such memory, or that may be added to it."""

    files: ResidentFiles
    indices: Ints  # of the samples
    records: Records  # (N,) RECORD; of files that are there the batch has only the bytes before the coded data
    labels: Sequence[Any]

    def part(self, rows: list[int]) -> "Resident":
        """Select some of the files."""
        return Resident(self.files, self.indices[rows], self.records[rows], [self.labels[i] for i in rows])

    @property
    def there(self) -> Ints:
        """Positions of the files that are there."""
        return np.flatnonzero(self.records["place"] >= 0)
