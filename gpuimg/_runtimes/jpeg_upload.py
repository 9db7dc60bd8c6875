"""Upload plans for JPEGs that our own kernels decode on a GPU: the selection of images, and the buffer for them."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .._checks.types import Ints, Mask
from .._data.images import EncodedImages, Pixels
from .._decoding import exif
from .._plan.draft import FULL
from .._threads.helpers import side_by_side
from .._threads.threads import threads
from ..kernels.jpeg import layout, segments, upload
from ..kernels.jpeg.fill import BUCKETS, write_segments, write_tables
from ..kernels.jpeg.segments import plan_upload, select_segments

#: Blocks of coefficients that are decoded at a time: 192 bytes each, with their planes.
MOST_BLOCKS = 1 << 20
#: Bits of a part of a file in which the GPU looks for a segment: in photos decoders synchronize within two parts.
SPAN = 2048
_FOR_THREAD = 16  # images for which another host thread is worth waking
_MOST_IMAGES = 65535  # CUDA's limit for gridDim.y of one launch


class Upload:
    """The upload of a batch, as one buffer.

    Parameters
    ----------
    images : EncodedImages
        With scales at which they are decoded, or without.
    pixels : Pixels
        Destination of the decoded images, of their sizes at these scales.
    regions : (N, 4) int64
        Region to decode of each image: x0, y0, x1, y1 as displayed, at its scale.
    others : (N,) bool or bool
        Images that are not to be decoded.
    most_blocks : int
        Blocks of coefficients that are decoded at a time.
    span : int
        Bits of the parts that files without known starts are divided into.

    Attributes
    ----------
    words : int
        Size of the buffer in 4-byte words.
    words_on_gpu : int
        Size that it needs on the GPU, where what the kernels find is added.
    parts : (P,) segments.PART
        Parts of the batch that are decoded at a time.
    totals : segments.TOTALS
    """

    def __init__(
        self,
        images: EncodedImages,
        pixels: Pixels,
        regions: Ints,
        others: Mask | bool = False,
        most_blocks: int = MOST_BLOCKS,
        span: int = SPAN,
    ) -> None:
        n = len(images)
        turns = images.orientations
        headers = images.headers.records.copy()
        headers["kind"][list(images.failures)] = layout.OTHER
        headers["kind"][others] = layout.OTHER
        self._files = headers, *images.headers[1:]
        self._wanted = exif.stored_regions(regions, pixels.sizes, turns), images.channels
        self._places = pixels.stored_places(turns)
        self._images = np.zeros(n, segments.SELECTED)
        self._images["scale"] = FULL if images.scales is None else images.scales
        self._owners, self._pairs = np.zeros(n, np.int64), np.zeros(n, segments.PAIR)
        self._totals = np.zeros(1, segments.TOTALS)
        self.totals: Any = self._totals[0]  # reads the array
        self._on_threads(
            lambda scratch: select_segments(
                *self._files, self._wanted[0], most_blocks, span, self._images, self._totals, scratch
            )
        )
        parts = np.zeros(n, segments.PART)
        plan_upload(
            *self._files, self._wanted[0], most_blocks, _MOST_IMAGES, self._images, self._owners, self._pairs,
            parts, self._totals,
        )  # fmt: skip
        self.parts = parts[: self.totals["parts"]]
        self.words = int(self.totals["words"])
        self.words_on_gpu = self.words + int(self.totals["found"]) * upload.SEGMENT_WORDS

    @property
    def taken(self) -> list[int]:
        """Images that are decoded."""
        return self._of(segments.TAKEN)

    @property
    def refused(self) -> list[int]:
        """Files with illegal tables, or without the markers of their restart intervals."""
        return self._of(segments.REFUSED)

    def _of(self, status: int) -> list[int]:
        found: list[int] = np.flatnonzero(self._images["status"] == status).tolist()
        return found

    def write(self, out: Any) -> None:
        """Fill an int32 array of ``words``; refuse files whose restart intervals are not found."""
        n = int(self.totals["segments"])
        unsorted = np.empty(n, upload.SEGMENT)
        memory = out.view(np.uint8)
        self._on_threads(
            lambda _: write_segments(
                *self._files, *self._wanted, self._places, self._images, self._totals, unsorted, memory
            )
        )
        write_tables(
            *self._files, self._images, self._owners, self._pairs, self._totals,
            np.empty(1, segments.SCRATCH), unsorted,
            np.empty(3 * n + max(BUCKETS, len(self._images)) + 1, np.int32), memory,
        )  # fmt: skip

    def _on_threads(self, call: Callable[[Any], None]) -> None:
        """Call a native function that claims images, on all threads."""
        self.totals["claimed"] = 0
        helpers = min(threads(), -(-len(self._images) // _FOR_THREAD)) - 1
        side_by_side(lambda: call(np.empty(1, segments.SCRATCH)), helpers)

    def launches(
        self, part: Any, words: Any, coefficients: Any, planes: Any, plane_bytes: Any, out: Any, status: Any,
        books: Any = None,
    ) -> Iterator[tuple[str, tuple[int, int], tuple[Any, ...]]]:  # fmt: skip
        """Yield the kernels that decode a part, in order: name, grid, arguments. ``coefficients`` must be zero.

        ``plane_bytes`` is the memory of ``planes`` as bytes; ``status`` is for all images of the batch; ``books`` are
        the tables of recoded files.
        """
        scans, count = np.int32(self.totals["scan_word"] + part["first_scan"] * upload.SCAN_WORDS), int(part["scans"])
        if part["recoded"]:
            grid = int(part["most_recoded"]), count
            yield "recoded", grid, (words, scans, books, plane_bytes, coefficients, status)
        if count > part["recoded"]:
            yield "find", (count, 1), (words, scans, status)
        groups = np.int32(self.totals["group_word"] + part["first_group"] * upload.GROUP_WORDS)
        images = np.int32(self.totals["image_word"] + part["first_image"] * upload.IMAGE_WORDS)
        count = int(part["images"])
        if part["groups"]:
            yield "huffman", (int(part["groups"]), 1), (words, groups, coefficients, status)
        for name, most, out_of in (("inverse_dct", "most_whole", planes), ("reduced_dct", "most_reduced", plane_bytes)):
            if part[most]:
                blocks = -(-int(part[most]) // upload.BLOCKS_AT_ONCE)
                yield name, (blocks, count), (words, images, coefficients, out_of)
        quads = -(-int(part["most_quads"]) // upload.QUADS_AT_ONCE)
        channels = np.int32(self._wanted[1])
        yield "colors", (quads, count), (words, images, plane_bytes, channels, out)
