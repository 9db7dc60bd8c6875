"""A loop that a library is tried with when it is loaded: an array, a table and a number, and vectors in between."""

from __future__ import annotations

from .compiled import cached_jit
from .native import SELF_TEST
from .scalar import f32


@cached_jit(*SELF_TEST[1])
def checksum(values, table, factor):
    """Sum of the values times a factor, of the table, and of the table's shape less one."""
    total = f32(0.0)
    for k in range(values.size):
        total += f32(values[k]) * factor
    found = int(total) + table.shape[0] + table.shape[1] - 2
    for i in range(table.shape[0]):
        for j in range(table.shape[1]):
            found += table[i, j]
    return found
