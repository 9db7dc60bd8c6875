"""Where the pieces' addresses stand in the table that loops call them by."""

from __future__ import annotations

from typing import Final

from ..ops import OPS

LAY_TAPS: Final = 0
MIX_ROWS: Final = 1
ADD_TAPS: Final = 2
SUM_PATCHES: Final = 3
SAMPLE_SEPARABLE: Final = 4
SAMPLE_PATCHED: Final = 5
SAMPLE_GATHERED: Final = 6
STORE: Final = 7
ROWS: Final = 8  # of ops, by their codes: one row of pixels
GRIDS: Final = ROWS + len(OPS)  # of ops that take a statistic or read neighbors: the whole grid
READS_NEIGHBORS: Final = GRIDS + len(OPS)  # of ops: no address, but 1 where the whole grid is changed
CALLS: Final = READS_NEIGHBORS + len(OPS)
