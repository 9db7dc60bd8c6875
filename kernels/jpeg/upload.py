"""Records of the upload for JPEGs whose segments a GPU decodes: one buffer of 4-byte words for a batch.

The buffer holds sets of tables, images, groups, scans, segments, and the bytes of segments and scans, in this order. On
the GPU it is longer than what is uploaded: the segments that the GPU finds in scans follow. The host fills the records
by field names. The kernels read the buffer as one array of int32: CUDA kernels of Numba take arrays of one
type, and each further array, or a view of records, would be another upload or another argument of every launch. Their
constants are offsets in words, computed from the dtypes.
"""

from typing import Final

import numpy as np

from ..layout import offsets
from .layout import LONGEST, MOST_BLOCKS
from .layout import SYMBOLS as _SYMBOLS

SLOTS: Final = 6  # tables of a set: three for DC coefficients, then three for AC coefficients
_STATES: Final = 2 * MOST_BLOCKS + 2  # two for each block of an MCU, and two spare: codes begin at word 16

_CODE: Final = np.dtype(
    [
        ("limits", "<i4", LONGEST),  # by code length, from 1 bit on: the first number that is not a code of it
        ("starts", "<i4", LONGEST),  # by code length: added to a code, the index of its symbol
        ("symbols", "<i4", _SYMBOLS // 4),  # four in a word, the first one in the lowest byte
    ],
    align=True,
)

#: A set of Huffman tables, shared by the images whose components use equal ones.
SET: Final = np.dtype(
    [
        ("used", "<i4"),  # bit k is 1 where slot k has a table
        ("states", "<i4"),  # states of the decoder: two for each block of an MCU, for its DC and its AC coefficients
        ("state", "<i4", _STATES),  # of each: the table's slot in bits 0-2, the component in the bits above
        ("codes", _CODE, SLOTS),
    ],
    align=True,
)

#: The work of a block of threads: segments that use the same tables, of sizes as similar as possible.
GROUP: Final = np.dtype(
    [
        ("set", "<i4"),  # word of the buffer where its SET begins
        ("first", "<i4"),  # word of the buffer where its first SEGMENT begins; the others follow
        ("count", "<i4"),  # segments, 1 to THREADS
    ],
    align=True,
)
THREADS: Final = 64  # of a block

#: The entropy-coded data of an image without known starts. A block of threads looks for segments: the data are divided
#: into parts of equal size; the blocks of coefficients that begin in a part become its segment. Or those of a recoded
#: file, of which a warp decodes a segment.
SCAN: Final = np.dtype(
    [
        ("set", "<i4"),  # word of the buffer where its SET begins
        ("word", "<i4"),  # word of the buffer where its bytes begin
        ("end", "<i4"),  # its bits
        ("span", "<i4"),  # bits of a part, at least LEAST_SPAN
        ("found", "<i4"),  # word of the buffer where the SEGMENT of its first part is written; the others follow
        ("count", "<i4"),  # segments to write, at least one for each part; those that are too many get no blocks
        ("skip", "<i4"),  # blocks before the image's window of MCUs
        ("block", "<i4"),  # index of the window's first block of coefficients
        ("blocks", "<i4"),  # blocks of the window
        ("image", "<i4"),  # its image's index in the batch
        # Of a recoded file, whose bytes are the ends of all its segments, then the segments from a certain one on:
        ("each", "<i4"),  # MCU rows of a segment; 0 for a JPEG
        ("first", "<i4"),  # the window's first segment,
        ("total", "<i4"),  # number of the file's segments,
        ("base", "<i4"),  # and bytes of those that are not uploaded
        ("books", "<i4"),  # sets of tables, of luma in the lowest byte, of chroma in the next one
        ("record", "<i4"),  # word of the buffer where its IMAGE begins
    ],
    align=True,
)
WARP: Final = 32  # threads that decode a segment of a recoded file
LEAST_SPAN: Final = 32  # bits: the longest symbol has 31
PARTS: Final = 256  # of a scan that are searched at a time, by as many threads
MOST_ROUNDS: Final = 16  # of a search, after which the CPU decodes the image
UNSYNCHRONIZED: Final = 2  # status of such an image; 1 is that of any other error

#: The work of a thread: a segment.
SEGMENT: Final = np.dtype(
    [
        ("word", "<i4"),  # word of the buffer where its bytes begin, the first one in the lowest byte
        ("shift", "<i4"),  # bits of the first word that belong to the segment before, 0 to 31
        ("end", "<i4"),  # bits from the first word to the segment's end
        ("slack", "<i4"),  # bits by which it may end early; 0 where the predictors after it are known and are checked
        ("state", "<i4"),  # of the decoder at its begin: an index in SET.state, of the first block's DC coefficient
        ("skip", "<i4"),  # blocks at its begin that are decoded but not stored
        ("block", "<i4"),  # index of the first block of coefficients that is stored,
        ("blocks", "<i4"),  # and their number
        ("image", "<i4"),  # its image's index in the batch
        ("before", "<i4"),  # its first two predictors as int16, the first one in the lower half
        ("between", "<i4"),  # lower half: its third predictor; upper half: the first one of the next segment
        ("after", "<i4"),  # the second and the third one of the next segment
    ],
    align=True,
)

#: A component's samples in the window.
PLANE: Final = np.dtype(
    [
        ("begin", "<i4"),  # byte of the planes of its first sample
        ("stride", "<i4"),  # bytes from one row to the next
        ("side", "<i4"),  # samples of a side of a block: 8, 4, 2 or 1
    ],
    align=True,
)

#: An image: its window of MCUs, the requested pixels, and their place in the result.
IMAGE: Final = np.dtype(
    [
        ("first_block", "<i4"),
        ("whole", "<i4"),  # blocks of coefficients, or 0 if none of them becomes 8 x 8 samples
        ("reduced", "<i4"),  # the same, or 0 if none of them becomes fewer
        ("per", "<i4"),  # blocks of an MCU, 1 to MOST_BLOCKS
        ("across", "<i4"),  # blocks of luma of an MCU, across and down
        ("down", "<i4"),
        ("columns", "<i4"),  # MCUs of a row of the window
        ("rows", "<i4"),
        # All below is at the scale at which the image is decoded, and counted from the window's first pixel.
        ("planes", PLANE, 3),  # of its components
        ("factors", "<i4", 2),  # columns and rows of luma for one of chroma in the planes
        ("last_column", "<i4"),  # and row of the window's samples of chroma that are the image's
        ("last_row", "<i4"),
        ("region", "<i4", 4),  # x0, y0, x1, y1 of the requested pixels, as stored
        ("out", "<i4", 2),  # element of the result for pixel (0, 0), in it or not; 64 bits, low half first
        ("step_x", "<i4"),  # elements from a pixel to the next
        ("step_y", "<i4"),  # and to the one below
        ("color", "<i4"),  # of the result, as in layout.py
        # Rounding of Cb, and of Cr above 16 bits: even row and column, odd column, odd row, both odd.
        ("biases", "<i4", 4),
        # By component and index of a coefficient, in a scan in zigzag order, in a recoded file row by row: the
        # quantization step, and its place in the block.
        ("steps", "<i4", (3, 64)),
    ],
    align=True,
)

PLACE_SHIFT: Final = 16  # bits of a quantization step; the coefficient's place in the block is in the bits above
BEYOND: Final = 16  # words after the last one of a batch, since decoders read ahead

LANE_BITS: Final = 3
LANES: Final = 1 << LANE_BITS  # threads that transform a block of coefficients together
BLOCKS_AT_ONCE: Final = 32  # blocks of coefficients that a block of threads transforms
QUADS_AT_ONCE: Final = 256  # of two by two pixels that a block of threads converts
COEFFICIENTS: Final = 64  # of a block, int16
SAMPLES: Final = 64  # of a block, a byte each, in the planes; at a reduced scale it has fewer

# -- for CUDA: sizes and offsets in 4-byte words -----------------------------------------------------------------------

SET_WORDS: Final = SET.itemsize // 4
CODE_WORDS: Final = _CODE.itemsize // 4
GROUP_WORDS: Final = GROUP.itemsize // 4
SCAN_WORDS: Final = SCAN.itemsize // 4
SEGMENT_WORDS: Final = SEGMENT.itemsize // 4
PLANE_WORDS: Final = PLANE.itemsize // 4
IMAGE_WORDS: Final = IMAGE.itemsize // 4

# Offsets of their fields.
IN_SET: Final = offsets(SET)
IN_CODE: Final = offsets(_CODE)
IN_GROUP: Final = offsets(GROUP)
IN_SCAN: Final = offsets(SCAN)
IN_SEGMENT: Final = offsets(SEGMENT)
IN_PLANE: Final = offsets(PLANE)
IN_IMAGE: Final = offsets(IMAGE)
