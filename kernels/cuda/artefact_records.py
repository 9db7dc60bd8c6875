"""Input of the kernels of JPEG artifacts: quantization steps, then one record per image; and their block sizes."""

from typing import Final

# Words of a record.
SOURCE: Final = 0  # 2 words: element offset of the source image
OUTPUT: Final = 2  # 2 words: of the result
PLANES: Final = 4  # 2 words: of its bytes of luma, which those of chroma follow, row by row
HEIGHT: Final = 6
WIDTH: Final = 7
QUALITY: Final = 8
RECORD_WORDS: Final = 10
STEP_WORDS: Final = 128  # in front of the records

SIDE: Final = 16  # pixels of what a block of threads makes: four blocks of luma, one of each chroma
THREADS: Final = 64  # one for each four pixels
PIXELS: Final = 256  # threads of a block, where each makes a pixel
