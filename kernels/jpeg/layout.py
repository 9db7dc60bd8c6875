"""Records that the JPEG decoder shares with its callers, and the codes in them."""

from typing import Final

import numpy as np

MOST_BLOCKS: Final = 6  # of the largest MCU, that of 4:2:0,
MCU_SIDE: Final = 16  # and its pixels across and down
TABLES: Final = 8  # Huffman tables of a file: four for DC coefficients, then four for AC coefficients

#: A file's header, as far as it was read. Places are offsets in the file, in bytes.
HEADER: Final = np.dtype(
    [
        ("kind", "<i8"),  # one of the kinds below
        ("strict", "<i8"),  # 1 where marker segments follow each other without gaps: all decoders read them alike
        ("height", "<i8"),  # pixels as stored, 0 to 65535
        ("width", "<i8"),
        ("orientation", "<i8"),  # of EXIF, 1 to 8
        ("components", "<i8"),  # 1 or 3 where the kind is BASELINE or PROGRESSIVE, else 0 to 255
        ("color", "<i8"),  # one of the colors below
        ("restart", "<i8"),  # MCUs of a restart interval; 0 for none
        ("scan", "<i8"),  # place where the entropy-coded data of the first scan begin
        ("process", "<i8"),  # low 4 bits of the frame header's marker: 0 baseline, 1 extended, 2 progressive, ...
        ("sampling", "<i8", 4),  # of each component: horizontal factor << 4 | vertical factor
        ("quant", "<i8", 3),  # of each component: place of its quantization table, whose precision comes first
        ("dc_table", "<i8", 3),  # of each component: index in ``huffman`` of its DC table, 0 to 3
        ("ac_table", "<i8", 3),  # and of its AC table, 4 to 7
        ("huffman", "<i8", TABLES),  # place of each Huffman table's 16 counts, 0 for none
        ("whole", "<i8"),  # 1 where the last bytes hold an end-of-image marker; 0 for a truncated file
        ("frame", "<i8"),  # place of the length field of the frame header,
        ("scan_header", "<i8"),  # and of that of the first scan's header
        # What follows from the sampling factors, where the kind is BASELINE, PROGRESSIVE or RECODED:
        ("across", "<i8", 3),  # of each component: its blocks in an MCU, across and down,
        ("down", "<i8", 3),
        ("first_block", "<i8", 3),  # and the index of the first of them in the MCU
        ("per", "<i8"),  # blocks of an MCU
        ("rows", "<i8"),  # MCU rows of the image,
        ("columns", "<i8"),  # and MCUs of a row
    ],
    align=True,
)

# Kinds.
OTHER: Final = 0  # no JPEG
BASELINE: Final = 1  # a JPEG that this decoder can decode
JPEG: Final = 2  # for another decoder: arithmetic, 12 bits, rare sampling, several sequential scans, damaged
PROGRESSIVE: Final = 3  # a JPEG for the progressive decoder, as far as its first scan
RECODED: Final = 4  # a recoded JPEG, whose header is in the file

RECODED_MAGIC: Final = tuple(b"GPUIMGJ\x01")  # first bytes of a recoded JPEG; the last one is the version
RECODED_HEAD: Final = 28  # bytes of one before the JPEG's header
SUM_BYTES: Final = 4  # of a segment's checksum, at its begin
STREAMS: Final = 4  # of a segment's symbols, whose lengths follow
WIDE: Final = 1 << 16  # bytes of a segment from which on these lengths are long ones
SHORT_LENGTH, LONG_LENGTH = 2, 4  # bytes
SEGMENT_BLOCKS: Final = 1536  # of a segment with more than one MCU row, at most
LEVELS: Final = 4  # of magnitudes, three bits each: twelve, of which JPEG uses ten
PLANES: Final = 6  # of a level: is a value larger, and its next bit, for each of its bits
SEGMENT_BYTES: Final = 208  # of a block at most: 12 of symbols, 2 of DC, 63 values of 19 bits, and the ends of lists

# Files whose size is not taken from the header.
FOR_PILLOW: Final = 1
TOO_LARGE: Final = 2

#: Blocks of a progressive image at most. Its scans visit all coefficients of the image, so that a thread needs memory
#: for all of them, which it keeps for the next file: this is 64 MiB, or 21 megapixels of 4:2:0. Pillow, which returns
#: the memory after each file, decodes larger ones.
KEPT_BLOCKS: Final = (1 << 26) // 128

# Colors.
GRAY: Final = 0
YCBCR: Final = 1
RGB: Final = 2

# Low 4 bits of the markers FF C0 to FF CF that begin no frame header: DHT, JPG (reserved), DAC.
NO_FRAMES: Final = (4, 8, 12)

#: The task of one call of the decoder.
REQUEST: Final = np.dtype(
    [
        ("data", "<i8"),  # address of the file
        ("size", "<i8"),  # its bytes
        ("region", "<i8", 4),  # x0, y0, x1, y1 of the requested pixels as stored, at ``scale``; not empty
        ("scale", "<i8"),  # eighths of its size that the image is decoded at: 8, 4, 2 or 1, sides rounded up
        ("channels", "<i8"),  # of the result: 3, or 1 for luma alone
        ("row_maker", "<i8"),  # address of the loop that makes rows of pixels of coefficients
        ("books", "<i8"),  # address of the tables of recoded files
    ],
    align=True,
)

#: The outcome of decoding an image.
STATUS: Final = np.dtype(
    [
        ("result", "<i8"),  # DONE, or the error
        ("row", "<i8"),  # the MCU row in which decoding ended, from 0
        ("rows", "<i8"),  # MCU rows of the image
    ],
    align=True,
)

# Results.
DONE: Final = 0
BAD_CODE: Final = 1  # bits that are not a code of the Huffman table
ENDS: Final = 2  # the data end, or a marker comes, before the last MCU
BAD_RESTART: Final = 3  # a restart marker is missing or out of order
BAD_TABLE: Final = 4  # a Huffman table is not legal
OVERRUN: Final = 5  # a block has more than 64 coefficients
IRREGULAR: Final = 6  # a progressive file that libjpeg would warn of, smooth or refuse: Pillow decides
BAD_SEGMENT: Final = 7  # a segment of a recoded file is damaged

# -- look-up tables of Huffman codes, which a thread keeps from file to file -------------------------------------------

LONGEST: Final = 16  # bits of a code at most
SYMBOLS: Final = 256  # of a table at most
BITS: Final = 10  # that are looked up at once: with more, tables are larger than the cache has room for
ENTRIES: Final = 1 << BITS

#: Fields of a table that are a copy of its definition in the file, and what follows from that.
DEFINITION: Final = (
    ("counts", "<i8", LONGEST + 1),  # codes by their bits, from 1 on
    ("symbols", "<i8", SYMBOLS),
    ("limits", "<i8", LONGEST + 1),  # by the bits of a code: the first number that is not a code of it
    ("starts", "<i8", LONGEST + 1),  # by the bits of a code: its symbol's place less the code
)

#: One of a thread's ``TABLES``; zeros at first.
TABLE: Final = np.dtype(
    [
        ("pairs", "<i8", ENTRIES),  # up to two symbols of an AC table, one of a DC table: see tables.py; 0 for none
        ("codes", "<i8", ENTRIES),  # bits of the code << 8 | symbol, by the next BITS bits; 0 for longer codes
        ("built", "<i8"),  # 1 where the fields above are those of the definition below
        *DEFINITION,
    ],
    align=True,
)
