"""Input of the kernel of exact resizes: records, one for each image and pass, before the taps of all axes."""

from typing import Final

# Words of a record.
SOURCE: Final = 0  # 2 words: element offset of what the pass reads
OUTPUT: Final = 2  # 2 words: of its result, rows of which follow one another
HEIGHT: Final = 4  # of the result, pixels
WIDTH: Final = 5
STRIDE: Final = 6  # elements from one row of the source to the next
DOWN: Final = 7  # 1 for a pass along columns, 0 along rows
LOW: Final = 8  # position on the axis of the result's first pixel
ORIGIN: Final = 9  # pixel of the axis at which the source begins
TAPS: Final = 10  # word of the axis' taps: the first pixel of each position, their numbers, weights
POSITIONS: Final = 11  # of the axis
MOST: Final = 12  # weights from one position to the next
BITS: Final = 13  # after the point of the weights
RECORD_WORDS: Final = 14
