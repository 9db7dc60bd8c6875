"""Images, or clips, that stand several times in a batch: each is decoded once, and fails once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from .._checks.types import Ints
from ..errors import Failure


class Opened(Protocol):
    """Images or clips whose headers were read; each has an index, by which failures are known."""

    @property
    def failures(self) -> dict[int, Failure]:
        """What could not be decoded."""

    def settle(self, reasons: dict[int, str]) -> None:
        """Keep the reasons of what failed; raise them all where that is the policy of the batch."""

    def views(self, rows: Ints) -> Self:
        """Those at some indices, in that order and any number of times."""

    def leaders(self) -> Ints | None:
        """As :meth:`Views.leaders`; None of what is no view."""


Files = TypeVar("Files", bound=Opened)


class Views(NamedTuple, Generic[Files]):
    """Which of those that were opened a batch holds."""

    of: Files
    rows: Ints

    def failures(self) -> dict[int, Failure]:
        """Failures of those that were opened, as those of all their views."""
        return at(self.of.failures, self.rows)

    def settle(self, reasons: dict[int, str], failures: dict[int, Failure]) -> None:
        """Keep the reasons of views that failed, with those that were opened; then ``failures`` are of all views."""
        try:
            self.of.settle({int(self.rows[index]): reason for index, reason in reasons.items()})
        finally:
            failures.update(self.failures())

    def leaders(self) -> Ints | None:
        """(N,): the first index of the same one, whose decoding the others share; None where all are different."""
        _, first, which = np.unique(self.rows, return_index=True, return_inverse=True)
        return None if len(first) == len(which) else first[which]


def views_of(files: Files, views: Views[Files] | None, rows: Ints) -> Views[Files]:
    """Views of files at some indices; those of views are of what was opened."""
    return Views(files, rows) if views is None else Views(views.of, views.rows[rows])


def once(files: Files, leaders: Ints) -> tuple[Files, Ints, Ints]:
    """Each one once, where it stands first, and at which of them those of a batch are."""
    first, which = np.unique(leaders, return_inverse=True)
    return files.views(first), first, which


def at(failures: Mapping[int, Failure], rows: Ints) -> dict[int, Failure]:
    """Failures by the rows at which what failed stands."""
    return {k: failures[i]._replace(index=k) for k, i in enumerate(rows.tolist()) if i in failures}
