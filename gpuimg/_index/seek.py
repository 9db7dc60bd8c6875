"""Entries of a seek index for the files of a batch, as decoders take them, and what became of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._checks.types import Ints, Records
from ..kernels.jpeg import layout

_REASONS = {
    layout.OTHER_SIZE: "the file has another size",
    layout.OTHER_FILE: "the file has changed",
    layout.DAMAGED: "the entry is damaged, or of another file",
    layout.MISMATCH: "decoding does not pass where the entry says",
}
_NAMED = 3  # files in a warning


@dataclass(frozen=True)
class Seek:
    """Entries of a batch's files.

    Attributes
    ----------
    access : (N,) layout.ACCESS
        See :mod:`gpuimg.kernels.jpeg.layout`; zeros for a file that has none.
    memory : object
        What keeps the entries alive.
    index : str
        What the index is called in messages.
    warns : bool
        Whether a warning tells of entries that do not fit.
    entry_status : (N,) int64
        Filled when the files are decoded: what became of each entry.
    """

    access: Records
    memory: Any
    index: str
    warns: bool = True
    entry_status: Ints = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "entry_status", np.zeros(len(self.access), np.int64))

    @staticmethod
    def of(addresses: Any, sizes: Any, memory: Any, every: int, index: str, *, warns: bool = True) -> Seek:
        """Of entries at addresses, 0 for files that have none, in memory that is kept."""
        access = np.zeros(len(sizes), layout.ACCESS)
        access["entry"], access["entry_bytes"], access["every"] = addresses, sizes, every
        return Seek(access, memory, index, warns)

    def part(self, indices: Any) -> Seek:
        """That of some files."""
        return Seek(np.ascontiguousarray(self.access[indices]), self.memory, self.index, self.warns)

    def take_over(self, part: Seek, indices: Any) -> None:
        """Note what became of the entries of some files, unless that is known already."""
        np.maximum.at(self.entry_status, indices, part.entry_status)

    @property
    def used(self) -> int:
        """Files that were decoded with their entries."""
        return int(np.count_nonzero(self.entry_status == layout.USED))

    def misfits(self) -> dict[int, str]:
        """Entries that did not fit their files, which were decoded without: why, by index."""
        found = np.flatnonzero(self.entry_status > layout.USED)
        return {i: _REASONS[int(self.entry_status[i])] for i in found.tolist()}


def misfit_warning(index: str, misfits: Mapping[str, str]) -> str:
    """What is said of entries that do not fit: why, by the names of the files."""
    listed = [f"{name}: {reason}" for name, reason in list(misfits.items())[:_NAMED]]
    if len(misfits) > _NAMED:
        listed.append(f"and {len(misfits) - _NAMED:,} more")
    do = "1 entry that does not fit its file" if len(misfits) == 1 else f"{len(misfits):,} entries that do not fit"
    what = f"the seek index {index} has {do}; such files are decoded without"
    return f"{what}, and if they have changed, build it again:\n  " + "\n  ".join(listed)
