"""Input of the kernel of elastic displacements: one record per image; and its block size."""

from typing import Final

from ..ops import ELASTIC

# Words of a record, an image.
SOURCE: Final = 0  # 2 words: element offset of the source image
OUTPUT: Final = 2  # 2 words: of the result
HEIGHT: Final = 4
WIDTH: Final = 5
MOVED: Final = 6  # 0 where the image stays as it is
PARAMETERS: Final = 7  # f
RECORD_WORDS: Final = PARAMETERS + ELASTIC.width

BLOCK: Final = 256
