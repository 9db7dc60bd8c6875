"""A cheap checksum that identifies the samples of a source."""

from __future__ import annotations

import zlib
from typing import Any

_MOST = 64  # samples whose names are used


def checksum_of_names(source: Any) -> int:
    """Return the CRC-32 of the names of some samples, including the first and the last; 0 if they have none.

    The part of a name up to its last slash is left out, so that a data set may be moved.
    """
    describe = getattr(source, "describe", None)
    if describe is None or not len(source):
        return 0
    some = sorted({k * (len(source) - 1) // (_MOST - 1) for k in range(_MOST)})
    try:
        names = [str(describe(i)).rpartition("/")[2] for i in some]
    except Exception:  # `describe` may fail for some samples
        return 0
    return zlib.crc32("\0".join(names).encode("utf-8", "backslashreplace"))
