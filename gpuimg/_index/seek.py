"""Entries of a seek index for the files of a batch, as decoders take them, and the status of each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._checks.types import Ints, Records
from ..kernels.jpeg import layout

_REASONS = {
    layout.OTHER_SIZE: "the file has a different size",
    layout.OTHER_FILE: "the file has changed",
    layout.DAMAGED: "the entry is damaged, or belongs to a different file",
    layout.MISMATCH: "decoding reached positions that differ from the entry's",
}
_NAMED = 3  # files named in a warning


@dataclass(frozen=True)
class Seek:
    """Seek index entries of a batch's files."""

    access: Records  # (N,) layout.ACCESS of kernels/jpeg/layout.py; zeros for a file without an entry
    memory: Any  # owner of the memory of the entries
    index: str  # its name in messages
    warns: bool = True  # of entries that do not match their files
    entry_status: Ints = field(init=False)  # (N,), set by decoding: 0 (not used), layout.USED or a reason above it

    def __post_init__(self) -> None:
        object.__setattr__(self, "entry_status", np.zeros(len(self.access), np.int64))

    @staticmethod
    def of(addresses: Any, sizes: Any, memory: Any, index: str, *, warns: bool = True) -> "Seek":
        """Create from addresses of entries, 0 for files without one, and the owner of their memory."""
        access = np.zeros(len(sizes), layout.ACCESS)
        access["entry"], access["entry_bytes"] = addresses, sizes
        return Seek(access, memory, index, warns)

    def part(self, indices: Any) -> "Seek":
        """Select the entries of some files."""
        return Seek(np.ascontiguousarray(self.access[indices]), self.memory, self.index, self.warns)

    def take_over(self, part: "Seek", indices: Any) -> None:
        """Copy the status of entries of some files; a mismatch outranks use, and use no status."""
        np.maximum.at(self.entry_status, indices, part.entry_status)

    @property
    def used(self) -> int:
        """Number of files that were decoded with their entries."""
        return int(np.count_nonzero(self.entry_status == layout.USED))

    def misfits(self) -> dict[int, str]:
        """Return the reason, by position, of each entry that did not match its file and was not used."""
        found = np.flatnonzero(self.entry_status > layout.USED)
        return {i: _REASONS[int(self.entry_status[i])] for i in found.tolist()}


def misfit_warning(index: str, misfits: Mapping[str, str]) -> str:
    """Return the warning for entries that do not match their files, given the reasons by file name."""
    listed = [f"{name}: {reason}" for name, reason in list(misfits.items())[:_NAMED]]
    if len(misfits) > _NAMED:
        listed.append(f"and {len(misfits) - _NAMED:,} more")
    if len(misfits) == 1:
        what = f"1 entry of the seek index {index} does not match its file, which was decoded without it"
    else:
        what = f"{len(misfits):,} entries of the seek index {index} do not match their files, decoded without them"
    return f"{what}; rebuild the index if files changed:\n  " + "\n  ".join(listed)
