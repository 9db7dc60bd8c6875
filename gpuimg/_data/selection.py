"""Selections: images or clips that may occur several times in a batch; each is decoded, and can fail, once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from .._checks.types import Ints
from ..errors import Failure


class Opened(Protocol):
    """Opened images or clips; failures are keyed by their indices."""

    @property
    def failures(self) -> dict[int, Failure]:
        """Failures by index."""

    def record_failures(self, reasons: dict[int, str]) -> None:
        """Store reasons of failures by index; raise all of them if that is the policy of the batch."""

    def take(self, rows: Ints) -> Self:
        """Return images or clips by index, in any order and any number of times."""

    def first_occurrences(self) -> Ints | None:
        """Return :meth:`Selection.first_occurrences`; None if this is not a selection."""


Files = TypeVar("Files", bound=Opened)


class Selection(NamedTuple, Generic[Files]):
    """Opened files, and the row among them of each item of a batch."""

    of: Files
    rows: Ints

    def failures(self) -> dict[int, Failure]:
        """Return the failures of the opened files, for all their occurrences."""
        return failures_at(self.of.failures, self.rows)

    def record_failures(self, reasons: dict[int, str], failures: dict[int, Failure]) -> None:
        """Store reasons of failed items with the opened files; then update ``failures`` of all occurrences."""
        try:
            self.of.record_failures({int(self.rows[index]): reason for index, reason in reasons.items()})
        finally:
            failures.update(self.failures())

    def first_occurrences(self) -> Ints | None:
        """Return (N,): the index of the first item with the same file; None if all files differ."""
        _, first, inverse = np.unique(self.rows, return_index=True, return_inverse=True)
        return None if len(first) == len(inverse) else first[inverse]


def selection_of(files: Files, selection: Selection[Files] | None, rows: Ints) -> Selection[Files]:
    """Select files by row; a selection of a selection refers to the files opened first."""
    return Selection(files, rows) if selection is None else Selection(selection.of, selection.rows[rows])


def unique(files: Files, first_occurrences: Ints) -> tuple[Files, Ints, Ints]:
    """Return the files without duplicates, the index of each in the batch, and the inverse mapping."""
    first, inverse = np.unique(first_occurrences, return_inverse=True)
    return files.take(first), first, inverse


def failures_at(failures: Mapping[int, Failure], rows: Ints) -> dict[int, Failure]:
    """Return the failures of ``rows``, keyed by position in ``rows``."""
    return {k: failures[i]._replace(index=k) for k, i in enumerate(rows.tolist()) if i in failures}
