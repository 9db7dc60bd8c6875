"""What tells the samples of one source from those of another, cheaply."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

_MOST = 64  # samples that are looked at


def checksum_of_names(source: Any) -> int:
    """CRC-32 of the names of some samples of a source, the first and the last among them; 0 where they have none.

    Names are those of messages from their last slash on: a data set may be moved.
    """
    describe = getattr(source, "describe", None)
    if describe is None or not len(source):
        return 0
    some = np.unique(np.linspace(0, len(source) - 1, _MOST).astype(np.int64))
    try:
        names = [str(describe(i)).rpartition("/")[2] for i in some.tolist()]
    except Exception:  # a source need not have names for all
        return 0
    return zlib.crc32("\0".join(names).encode("utf-8", "backslashreplace"))
