"""The words that segments of JPEGs are uploaded to a GPU as: one array of int32 a batch, with the parts below."""

from __future__ import annotations

from typing import Final

# Huffman tables of images whose components have the same ones.
USED: Final = 0  # a bit for each table that there is: DC tables of the components, then AC tables
STATES: Final = 1  # two for each block of an MCU, first its DC coefficient, then the others
STATE: Final = 2  # each the table and, above three bits, the component
CODES: Final = 16  # of each table: what finds its codes, and its symbols
SLOTS: Final = 6  # tables
LIMITS: Final = 0  # for each length of code, from 1 on: the first code that is longer, of that length
STARTS: Final = 16  # what added to a code of a length gives the number of its symbol
SYMBOLS: Final = 32  # four a word, the first one lowest
CODE_WORDS: Final = 96
SET_WORDS: Final = CODES + SLOTS * CODE_WORDS

# A block of threads: segments of the same tables, as even in their sizes as they come.
GROUP_SET: Final = 0  # the word where its tables begin
GROUP_FIRST: Final = 1  # the word of the first segment
GROUP_COUNT: Final = 2
GROUP_WORDS: Final = 3
THREADS: Final = 64  # of a block

# A segment, of a thread.
SEGMENT_WORD: Final = 0  # the word where its bytes begin, the first one lowest
SHIFT: Final = 1  # bits of it that are another segment's
END: Final = 2  # bits from there to the end
SLACK: Final = 3  # by how many bits it may end before; with 0 the predictors behind it are known, too
BLOCK: Final = 4  # its first block of coefficients
SEGMENT_BLOCKS: Final = 5
IMAGE: Final = 6  # its image's place in the batch
BEFORE: Final = 7  # the first two predictors, the first one in the lower half
BETWEEN: Final = 8  # the third one, and the first one of the next segment
BEHIND: Final = 9  # the others of the next segment
SEGMENT_WORDS: Final = 10

# An image: the MCUs of which something is wanted, and where its pixels come to.
FIRST_BLOCK: Final = 0
BLOCKS: Final = 1
PER: Final = 2  # blocks of an MCU
ACROSS: Final = 3  # how many times finer luma is than chroma
DOWN: Final = 4
COLUMNS: Final = 5  # MCUs of a row
ROWS: Final = 6
LEFT: Final = 7  # the first pixel's column and row
TOP: Final = 8
WIDTH: Final = 9  # of the image, as stored
HEIGHT: Final = 10
REGION: Final = 11  # x0, y0, x1, y1 of the pixels that are wanted, as stored
OUT: Final = 15  # element at which pixel (0, 0) would come to lie, 64 bits
STEP_X: Final = 17  # elements from pixel to pixel
STEP_Y: Final = 18
COLOR: Final = 19  # of the result, as in layout.py
BIASES: Final = 20  # four bits each, for pixels of even rows and columns, odd columns, odd rows, both
STEPS: Final = 21  # 64 for each component, in the order of the file: quantisation steps, and places in the block
IMAGE_WORDS: Final = STEPS + 3 * 64

PLACE_SHIFT: Final = 16  # bits of a step, below its place
BEYOND: Final = 16  # words behind the last one of a batch: decoders read ahead

LANES: Final = 8  # threads of a block of coefficients
BLOCKS_AT_ONCE: Final = 32  # that a block of threads transforms
PIXELS_AT_ONCE: Final = 256
COEFFICIENTS: Final = 64  # of a block
PLANE_WORDS: Final = 16  # of its bytes
