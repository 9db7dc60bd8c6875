"""The records that segments of JPEGs are uploaded to a GPU as: one buffer of int32 a batch, with the parts below.

The parts are sets of tables, images, groups, segments, and the segments' bytes, in this order. The host fills them by
name. The kernels read the buffer as one array of 4-byte words: CUDA kernels of Numba take arrays of one type, and each
further array, or a view of records, would be another upload or another argument of every launch. Their constants are
offsets in words, computed from the dtypes.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ..layout import word_of
from .layout import LONGEST
from .layout import SYMBOLS as _SYMBOLS

SLOTS: Final = 6  # tables of a set: three for DC coefficients, then three for AC coefficients
_STATES: Final = 14  # room for two of each of the six blocks of an MCU at most

_CODE: Final = np.dtype(
    [
        ("limits", "<i4", LONGEST),  # by bits of code, from 1 on: the first number that is no code of this length
        ("starts", "<i4", LONGEST),  # added to a code of these bits: the number of its symbol
        ("symbols", "<i4", _SYMBOLS // 4),  # four a word, the first one lowest
    ],
    align=True,
)

#: Huffman tables of images whose components have the same ones.
SET: Final = np.dtype(
    [
        ("used", "<i4"),  # a bit for each slot that has a table
        ("states", "<i4"),  # two for each block of an MCU, first its DC coefficient, then the others
        ("state", "<i4", _STATES),  # of each: the table's slot in bits 0-2, the component above
        ("codes", _CODE, SLOTS),
    ],
    align=True,
)

#: The work of a block of threads: segments of the same tables, as even in their sizes as they come.
GROUP: Final = np.dtype(
    [
        ("set", "<i4"),  # the word where its tables begin
        ("first", "<i4"),  # the word of the first segment
        ("count", "<i4"),  # segments, 1 to THREADS
    ],
    align=True,
)
THREADS: Final = 64  # of a block

#: The work of a thread: a segment.
SEGMENT: Final = np.dtype(
    [
        ("word", "<i4"),  # where its bytes begin, the first one lowest
        ("shift", "<i4"),  # bits of the first byte that are another segment's, 0 to 7
        ("end", "<i4"),  # bits from the first byte to the segment's end
        ("slack", "<i4"),  # by how many bits it may end before; with 0 the predictors after it are known, too
        ("block", "<i4"),  # its first block of coefficients
        ("blocks", "<i4"),
        ("image", "<i4"),  # its image's place in the batch
        ("before", "<i4"),  # the first two predictors, int16 each, the first one in the lower half
        ("between", "<i4"),  # the third one, and the first one of the next segment
        ("after", "<i4"),  # the others of the next segment
    ],
    align=True,
)

#: An image: the MCUs of which something is wanted, and where its pixels come to.
IMAGE: Final = np.dtype(
    [
        ("first_block", "<i4"),
        ("blocks", "<i4"),
        ("per", "<i4"),  # blocks of an MCU, 1 to 6
        ("across", "<i4"),  # how many times finer luma is than chroma: 1 or 2
        ("down", "<i4"),
        ("columns", "<i4"),  # MCUs of a row
        ("rows", "<i4"),
        ("left", "<i4"),  # the first pixel's column and row
        ("top", "<i4"),
        ("width", "<i4"),  # of the image, as stored
        ("height", "<i4"),
        ("region", "<i4", 4),  # x0, y0, x1, y1 of the pixels that are wanted, as stored
        ("out", "<i4", 2),  # element at which pixel (0, 0) would come to lie, 64 bits, the lower half first
        ("step_x", "<i4"),  # elements from pixel to pixel
        ("step_y", "<i4"),
        ("color", "<i4"),  # of the result, as in layout.py
        ("biases", "<i4"),  # four bits each, for pixels of even rows and columns, odd columns, odd rows, both
        ("steps", "<i4", (3, 64)),  # of each component in the order of the file: quantization steps, and places
    ],
    align=True,
)

PLACE_SHIFT: Final = 16  # bits of a step, below its coefficient's place in the block
BEYOND: Final = 16  # words after the last one of a batch: decoders read ahead

LANES: Final = 8  # threads of a block of coefficients
BLOCKS_AT_ONCE: Final = 32  # that a block of threads transforms
PIXELS_AT_ONCE: Final = 256
COEFFICIENTS: Final = 64  # of a block
PLANE_WORDS: Final = 16  # of its bytes

# -- for CUDA: sizes and offsets in 4-byte words -----------------------------------------------------------------------

SET_WORDS: Final = SET.itemsize // 4
CODE_WORDS: Final = _CODE.itemsize // 4
GROUP_WORDS: Final = GROUP.itemsize // 4
SEGMENT_WORDS: Final = SEGMENT.itemsize // 4
IMAGE_WORDS: Final = IMAGE.itemsize // 4

USED: Final = word_of(SET, "used")
STATES: Final = word_of(SET, "states")
STATE: Final = word_of(SET, "state")
CODES: Final = word_of(SET, "codes")
LIMITS: Final = word_of(_CODE, "limits")
STARTS: Final = word_of(_CODE, "starts")
SYMBOLS: Final = word_of(_CODE, "symbols")

GROUP_SET: Final = word_of(GROUP, "set")
GROUP_FIRST: Final = word_of(GROUP, "first")
GROUP_COUNT: Final = word_of(GROUP, "count")

SEGMENT_WORD: Final = word_of(SEGMENT, "word")
SHIFT: Final = word_of(SEGMENT, "shift")
END: Final = word_of(SEGMENT, "end")
SLACK: Final = word_of(SEGMENT, "slack")
BLOCK: Final = word_of(SEGMENT, "block")
SEGMENT_BLOCKS: Final = word_of(SEGMENT, "blocks")
SEGMENT_IMAGE: Final = word_of(SEGMENT, "image")
BEFORE: Final = word_of(SEGMENT, "before")
BETWEEN: Final = word_of(SEGMENT, "between")
AFTER: Final = word_of(SEGMENT, "after")

FIRST_BLOCK: Final = word_of(IMAGE, "first_block")
BLOCKS: Final = word_of(IMAGE, "blocks")
PER: Final = word_of(IMAGE, "per")
ACROSS: Final = word_of(IMAGE, "across")
DOWN: Final = word_of(IMAGE, "down")
COLUMNS: Final = word_of(IMAGE, "columns")
ROWS: Final = word_of(IMAGE, "rows")
LEFT: Final = word_of(IMAGE, "left")
TOP: Final = word_of(IMAGE, "top")
WIDTH: Final = word_of(IMAGE, "width")
HEIGHT: Final = word_of(IMAGE, "height")
REGION: Final = word_of(IMAGE, "region")
OUT: Final = word_of(IMAGE, "out")
STEP_X: Final = word_of(IMAGE, "step_x")
STEP_Y: Final = word_of(IMAGE, "step_y")
COLOR: Final = word_of(IMAGE, "color")
BIASES: Final = word_of(IMAGE, "biases")
STEPS: Final = word_of(IMAGE, "steps")
