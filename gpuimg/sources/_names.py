"""Compact storage of sample names."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray


class Names:
    """Byte strings in one blob: 8 bytes of overhead for each, where a list of ``str`` takes 60 to 100."""

    def __init__(self, names: Iterable[bytes]) -> None:
        blob, ends = bytearray(), array("q", [0])
        for name in names:
            blob += name
            ends.append(len(blob))
        self.blob = bytes(blob)
        self.ends = np.array(ends, np.int64)

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __getitem__(self, i: int) -> bytes:
        return self.blob[self.ends[i] : self.ends[i + 1]]

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return the names as arrays for an index file."""
        return {"names": np.frombuffer(self.blob, np.uint8), "ends": self.ends}

    @classmethod
    def of(cls, arrays: dict[str, NDArray[np.generic]]) -> Names:
        """Rebuild names from the result of ``arrays``."""
        found = cls(())
        found.blob, found.ends = arrays["names"].tobytes(), arrays["ends"].astype(np.int64)
        return found


def printable(name: str | bytes) -> str:
    """Return a file name or key for a message, with hexadecimal escapes for bytes that are not UTF-8."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
