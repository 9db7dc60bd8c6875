"""Records that the JPEG decoder shares with its callers, and what may be wrong with a file."""

from __future__ import annotations

from typing import Final

import numpy as np

TABLES: Final = 8  # Huffman tables of a file: four for DC coefficients, then four for AC coefficients

#: What was read of a file's header. Places are bytes of the file.
HEADER: Final = np.dtype(
    [
        ("kind", "<i8"),  # one of the kinds below
        ("strict", "<i8"),  # 1 where segments follow each other without gaps, so that every decoder reads them alike
        ("height", "<i8"),  # pixels as stored, 0 to 65535
        ("width", "<i8"),
        ("orientation", "<i8"),  # of EXIF, 1 to 8
        ("components", "<i8"),  # 1 or 3 where the kind is BASELINE, else 0 to 255
        ("color", "<i8"),  # one of the colors below
        ("restart", "<i8"),  # MCUs of a restart interval; 0 for none
        ("scan", "<i8"),  # place where the first scan's data begin
        ("process", "<i8"),  # low half of the frame's marker: 0 baseline, 1 extended, 2 progressive, ...
        ("sampling", "<i8", 4),  # of each component: horizontal factor << 4 | vertical factor
        ("quant", "<i8", 3),  # of each component: place of its quantization table, whose precision comes first
        ("dc_table", "<i8", 3),  # of each component: which Huffman table, 0 to 3
        ("ac_table", "<i8", 3),  # and 4 to 7
        ("huffman", "<i8", TABLES),  # place of each Huffman table's counts, 0 for none
        ("whole", "<i8"),  # 1 where an end of image is among the last bytes; 0 for a file that was cut off
    ],
    align=True,
)

# Kinds.
OTHER: Final = 0  # no JPEG
BASELINE: Final = 1  # what this decoder takes
JPEG: Final = 2  # for another decoder: progressive, arithmetic, 12 bits, rare sampling, several scans, damaged

# Colors.
GRAY: Final = 0
YCBCR: Final = 1
RGB: Final = 2

# Where a frame's marker lies in FF C0 to FF CF; the others there define tables, or are reserved.
NO_FRAMES: Final = (4, 8, 12)

#: Which entry of a seek index a file has, and what may be done with it; zeros for none.
ACCESS: Final = np.dtype(
    [
        ("entry", "<i8"),  # its address, a multiple of 8; 0 for none
        ("entry_bytes", "<i8"),
        ("every", "<i8"),  # MCUs of a segment, 0 for whole rows
        ("learns", "<i8"),  # 1 where the entry is private to this process, and filled with the rows that are met
    ],
    align=True,
)

#: What the decoder is to do with a file.
REQUEST: Final = np.dtype(
    [
        ("data", "<i8"),  # address of the file
        ("size", "<i8"),  # its bytes
        ("region", "<i8", 4),  # x0, y0, x1, y1 of the wanted pixels as stored, at ``scale``; not empty
        ("scale", "<i8"),  # eighths of its size that the image is decoded at: 8, 4, 2 or 1, sides rounded up
        ("channels", "<i8"),  # of the result: 3, or 1 for Y alone
        ("access", ACCESS),
    ],
    align=True,
)

#: How decoding ended.
STATUS: Final = np.dtype(
    [
        ("result", "<i8"),  # DONE, or what is wrong
        ("row", "<i8"),  # the MCU row it ended in, from 0
        ("rows", "<i8"),  # MCU rows of the image
        ("entry", "<i8"),  # what became of the entry of a seek index, one of those below
    ],
    align=True,
)

# Results.
DONE: Final = 0
BAD_CODE: Final = 1
ENDS: Final = 2
BAD_RESTART: Final = 3
BAD_TABLE: Final = 4
OVERRUN: Final = 5
MISMATCHED: Final = 6  # not where the entry of a seek index says

# What became of an entry.
UNUSED: Final = 0  # there is none, or none is needed
USED: Final = 1
OTHER_SIZE: Final = 2  # the file has other bytes than the entry says,
OTHER_FILE: Final = 3  # or as many, but others
DAMAGED: Final = 4  # the entry's own checksum, or its size
MISMATCH: Final = 5  # decoding did not pass where the entry says

#: The first bytes of an entry of a seek index, which seek.py describes.
ENTRY_HEAD: Final = np.dtype(
    [
        ("file_sum", "<i8"),  # checksum of the file
        ("file_bytes", "<u4"),
        ("entry_sum", "<u4"),  # checksum of all else in the entry, and of ``every``
    ],
    align=True,
)

# -- look-up tables of Huffman codes, which a thread keeps from file to file -------------------------------------------

LONGEST: Final = 16  # bits of a code at most
SYMBOLS: Final = 256  # of a table at most
BITS: Final = 10  # that are looked up at once (measured: 10 and 11 are best; larger tables lose in the cache)
ENTRIES: Final = 1 << BITS

#: One of a thread's ``TABLES``; zeros at first.
TABLE: Final = np.dtype(
    [
        ("pairs", "<i8", ENTRIES),  # up to two symbols of an AC table, one of a DC table: see tables.py; 0 for none
        ("codes", "<i8", ENTRIES),  # bits of the code << 8 | symbol, by the next BITS bits; 0 for longer codes
        ("limits", "<i8", LONGEST + 1),  # by the bits of a code: the first number that is no code of this length
        ("starts", "<i8", LONGEST + 1),  # by the bits of a code: its symbol's place less the code
        ("built", "<i8"),  # 1 where the fields above are those of the definition below
        ("counts", "<i8", LONGEST + 1),  # codes by their bits, from 1 on
        ("symbols", "<i8", SYMBOLS),
    ],
    align=True,
)
