"""JPEGs whose segments a GPU decodes: which of a batch, and the words that are uploaded for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .._checks.types import Ints
from .._decoding import exif
from .._decoding.seek import Seek
from ..kernels.jpeg import segments as words
from ..kernels.jpeg import upload
from ..kernels.jpeg.fill import BUCKETS, fill, finish
from ..kernels.jpeg.layout import KIND, OTHER
from ..kernels.jpeg.segments import arrange, look
from .images import EncodedImages, Pixels
from .team import side_by_side
from .threads import threads

#: Blocks of coefficients that are decoded at a time: with their planes 192 bytes each.
MOST_BLOCKS = 1 << 20
_AT_ONCE = 16  # images that a thread takes
_MOST_IMAGES = 65535  # blocks of threads along y of one launch


class Upload:
    """What is uploaded for a batch, as one array of words.

    Parameters
    ----------
    images : EncodedImages
    seek : Seek
        Their entries in a seek index.
    pixels : Pixels
        Where they are decoded to.
    regions : (N, 4) int64
        What is wanted of each, x0, y0, x1, y1 as shown.

    Attributes
    ----------
    words : int
        How many there are.
    parts : (P, segments.PART_WORDS) int64
        What is decoded at a time.
    totals : (segments.TOTAL_WORDS,) int64
    """

    def __init__(
        self, images: EncodedImages, seek: Seek, pixels: Pixels, regions: Ints, most_blocks: int = MOST_BLOCKS
    ) -> None:
        n = len(images)
        turns = images.orientations
        headers = images.headers.words.copy()
        headers[list(images.failures), KIND] = OTHER
        self._files = headers, *images.headers[1:], np.ascontiguousarray(seek.access)
        self._wanted = exif.stored_regions(regions, images.sizes, turns), images.channels
        self._places = pixels.stored_places(turns)
        self._images = np.zeros((n, words.IMAGE_WORDS), np.int64)
        self._owners, self._pairs = np.zeros(n, np.int64), np.zeros((n, words.PAIR_WORDS), np.int64)
        self.totals = np.zeros(words.TOTAL_WORDS, np.int64)
        self._for_all(
            lambda first, stop, scratch: look(
                *self._files, *self._wanted, most_blocks, first, stop, self._images, scratch
            )
        )
        parts = np.zeros((n, words.PART_WORDS), np.int64)
        arrange(
            *self._files[:3], self._wanted[0], most_blocks, _MOST_IMAGES, self._images, self._owners, self._pairs,
            parts, self.totals,
        )  # fmt: skip
        self.parts = parts[: self.totals[words.PARTS]]
        self.words = int(self.totals[words.WORDS])

    @property
    def taken(self) -> list[int]:
        """Images that are decoded so."""
        return self._of(words.TAKEN)

    @property
    def refused(self) -> list[int]:
        """Images whose entries do not fit."""
        return self._of(words.REFUSED)

    def _of(self, status: int) -> list[int]:
        found: list[int] = np.flatnonzero(self._images[:, words.STATUS] == status).tolist()
        return found

    def write(self, out: Any) -> None:
        """Fill so many words of memory, an int32 array; files with other segments than they should have are refused."""
        n = int(self.totals[words.ALL_SEGMENTS])
        segments = np.empty((n, upload.SEGMENT_WORDS), np.int32)
        out_bytes = out.view(np.uint8)
        self._for_all(
            lambda first, stop, scratch: fill(
                *self._files,
                *self._wanted,
                self._places,
                first,
                stop,
                self._images,
                self.totals,
                scratch,
                segments,
                out,
                out_bytes,
            )
        )
        finish(
            *self._files[:3], self._images, self._owners, self._pairs, self.totals,
            np.empty(words.SCRATCH_WORDS, np.int64), segments,
            np.empty(3 * n + max(BUCKETS, len(self._images)) + 1, np.int32), out,
        )  # fmt: skip

    def _for_all(self, call: Callable[[int, int, Any], None]) -> None:
        """Call a native function for some images at a time, side by side."""
        n = len(self._images)
        starts = iter(range(0, n, _AT_ONCE))

        def work() -> None:
            scratch = np.empty(words.SCRATCH_WORDS, np.int64)
            for first in starts:  # atomic under the GIL
                call(first, min(first + _AT_ONCE, n), scratch)

        side_by_side(work, min(threads(), -(-n // _AT_ONCE)) - 1)

    def launches(
        self, part: Ints, words_: Any, coefficients: Any, planes: Any, plane_bytes: Any, out: Any, status: Any
    ) -> Iterator[tuple[str, tuple[int, int], tuple[Any, ...]]]:
        """Kernels that decode a part, in their order: name, grid, arguments. ``coefficients`` are zero before.

        ``plane_bytes`` are the memory of ``planes``; ``status`` is of all images of the batch.
        """
        groups = np.int32(self.totals[words.GROUP_AT] + part[words.PART_GROUPS] * upload.GROUP_WORDS)
        images = np.int32(self.totals[words.IMAGE_AT] + part[words.PART_IMAGES] * upload.IMAGE_WORDS)
        count = int(part[words.PART_IMAGE_COUNT])
        yield "huffman", (int(part[words.PART_GROUP_COUNT]), 1), (words_, groups, coefficients, status)
        blocks = -(-int(part[words.PART_MOST_BLOCKS]) // upload.BLOCKS_AT_ONCE)
        yield "inverse_dct", (blocks, count), (words_, images, coefficients, planes)
        pixels = -(-int(part[words.PART_MOST_PIXELS]) // upload.PIXELS_AT_ONCE)
        channels = np.int32(self._wanted[1])
        yield "colors", (pixels, count), (words_, images, plane_bytes, channels, out)
