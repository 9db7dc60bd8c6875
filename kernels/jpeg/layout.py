"""The words of a header: what was read of one file, as int64; and what may be wrong with one."""

from __future__ import annotations

from typing import Final

KIND: Final = 0  # one of the kinds below
STRICT: Final = 1  # 1 where segments follow each other without gaps, so that every decoder reads them alike
HEIGHT: Final = 2  # as stored
WIDTH: Final = 3
ORIENTATION: Final = 4  # of EXIF, 1 to 8
COMPONENTS: Final = 5
COLOR: Final = 6  # one of the colors below
RESTART: Final = 7  # MCUs of a restart interval; 0 for none
SCAN: Final = 8  # byte where the first scan's data begin
PROCESS: Final = 9  # low half of the frame's marker: 0 baseline, 1 extended, 2 progressive, ...
SAMPLING: Final = 10  # 4 words: horizontal factor << 4 | vertical factor, of each component
QUANT: Final = 14  # 3 words: byte where the quantisation table of each component lies, its precision in front of it
DC_TABLE: Final = 17  # 3 words: which of the Huffman tables below
AC_TABLE: Final = 20  # 3 words
HUFFMAN: Final = 23  # 8 words: byte where a table's counts lie, 0 for none; DC tables, then AC tables
WHOLE: Final = 31  # 1 where an end of image is among the last bytes; 0 for a file that was cut off
HEADER_WORDS: Final = 32

TABLES: Final = 8  # Huffman tables

# Kinds.
OTHER: Final = 0  # no JPEG
BASELINE: Final = 1  # what this decoder takes
JPEG: Final = 2  # for another decoder: progressive, arithmetic, 12 bits, rare sampling, several scans, damaged

# Colors.
GRAY: Final = 0
YCBCR: Final = 1
RGB: Final = 2

# How decoding ended.
DONE: Final = 0
BAD_CODE: Final = 1
ENDS: Final = 2
BAD_RESTART: Final = 3
BAD_TABLE: Final = 4
OVERRUN: Final = 5
MISMATCHED: Final = 6  # not where the entry of a seek index says

# Where a frame's marker lies in FF C0 to FF CF; the others there define tables, or are reserved.
NO_FRAMES: Final = (4, 8, 12)

# Words of an access: which entry a file has, and what may be done with it.
ENTRY: Final = 0  # its address, 0 for none
ENTRY_BYTES: Final = 1
EVERY: Final = 2  # MCUs of a segment, 0 for whole rows
LEARNS: Final = 3  # 1: the entry is this process's own, and filled with the rows that are met
ACCESS_WORDS: Final = 4

# What became of an entry.
UNUSED: Final = 0  # there is none, or none is needed
USED: Final = 1
OTHER_SIZE: Final = 2  # the file has other bytes than the entry says,
OTHER_FILE: Final = 3  # or as many, but others
DAMAGED: Final = 4  # the entry's own checksum, or its size
MISMATCH: Final = 5  # decoding did not pass where the entry says
