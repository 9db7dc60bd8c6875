"""The checksum of recoded files and of their segments."""

import numpy as np

from ..scalar import loop
from .formulas import mixed_in
from .vectors import load_big

up, u64 = np.uintp, np.uint64


@loop
def checksum(data, start):
    """Return a checksum of 64 bits of ``data[start:]``, which any change within eight consecutive bytes changes.

    Four sums, each of every fourth big-endian 64-bit word, are mixed with the remaining bytes and their number.
    """
    # Four, since multiplications depend on each other within a sum only, and so overlap.
    a, b, c, d = u64(1), u64(2), u64(3), u64(4)
    at = start
    while at + 32 <= data.size:
        a = mixed_in(a, load_big(data, up(at)))
        b = mixed_in(b, load_big(data, up(at + 8)))
        c = mixed_in(c, load_big(data, up(at + 16)))
        d = mixed_in(d, load_big(data, up(at + 24)))
        at += 32
    total = mixed_in(mixed_in(mixed_in(a, b), c), d)
    while at < data.size:
        total = mixed_in(total, u64(data[at]))
        at += 1
    total = mixed_in(total, u64(data.size - start))
    return total ^ total >> u64(32)
