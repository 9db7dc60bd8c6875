"""Selections: images or clips that may occur several times in a batch; each is decoded, and can fail, once."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np

from .._checks.types import Ints
from ..errors import DecodeError, Failure


class Opened(ABC):
    """Opened images or clips, a frozen dataclass; failures are keyed by their indices."""

    data: Sequence[Any]
    names: Sequence[str]
    on_error: str
    failures: dict[int, Failure]
    selection: Any  # a Selection of the same class if these are taken from others, perhaps repeatedly
    failure: ClassVar[type[Failure]] = Failure

    @abstractmethod
    def part(self, indices: Sequence[int]) -> Self:
        """Return some of the images or clips, none of which failed before, as a separate batch."""

    def record_failures(self, reasons: dict[int, str]) -> None:
        """Store reasons of failures by index; raise all of them if that is the policy of the batch."""
        if self.selection is not None:
            try:
                self.selection.of.record_failures({int(self.selection.rows[i]): why for i, why in reasons.items()})
            finally:
                self.failures.update(self.selection.failures())
            return
        for index, reason in reasons.items():
            self.failures[index] = self.failure(index, self.names[index], reason)
        if self.failures and self.on_error == "raise":
            raise DecodeError(tuple(self.failures[k] for k in sorted(self.failures)), len(self.data))

    def take(self, rows: Ints) -> Self:
        """Return images or clips by index, in any order and any number of times; each can fail once."""
        before = self.selection
        chosen = Selection(self, rows) if before is None else Selection(before.of, before.rows[rows])
        taken: Any = chosen.of.part(chosen.rows.tolist())
        part: Self = replace(taken, on_error=chosen.of.on_error, selection=chosen)
        part.failures.update(chosen.failures())
        return part

    def first_occurrences(self) -> Ints | None:
        """Return :meth:`Selection.first_occurrences`; None if this is not a selection."""
        return None if self.selection is None else self.selection.first_occurrences()


Files = TypeVar("Files", bound=Opened)


class Selection(NamedTuple, Generic[Files]):
    """Opened files, and the row among them of each item of a batch."""

    of: Files
    rows: Ints

    def failures(self) -> dict[int, Failure]:
        """Return the failures of the opened files, for all their occurrences."""
        return failures_at(self.of.failures, self.rows)

    def first_occurrences(self) -> Ints | None:
        """Return (N,): the index of the first item with the same file; None if all files differ."""
        _, first, inverse = np.unique(self.rows, return_index=True, return_inverse=True)
        return None if len(first) == len(inverse) else first[inverse]


def unique(files: Files, first_occurrences: Ints | None) -> tuple[Files, Ints | None, Ints | None]:
    """Return the files without duplicates, the index of each in the batch, and of each in the batch the file.

    Both are None if all differ.
    """
    if first_occurrences is None:
        return files, None, None
    first, inverse = np.unique(first_occurrences, return_inverse=True)
    return files.take(first), first, inverse


def failures_at(failures: Mapping[int, Failure], rows: Ints) -> dict[int, Failure]:
    """Return the failures of ``rows``, keyed by position in ``rows``."""
    return {k: failures[i]._replace(index=k) for k, i in enumerate(rows.tolist()) if i in failures}
