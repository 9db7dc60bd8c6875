"""Upload plans for JPEGs that our own kernels decode on a GPU: the selection of images, and the buffer for them."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .._checks.types import Ints, Mask
from .._data.images import EncodedImages, Pixels
from .._data.resident import NEW, Resident
from .._decoding import exif
from .._threads.team import side_by_side
from .._threads.threads import threads
from ..kernels.jpeg import layout, segments, upload
from ..kernels.jpeg.fill import BUCKETS, write_segments, write_tables
from ..kernels.jpeg.segments import plan_upload, select_segments
from .draft import FULL

#: Blocks of coefficients that are decoded at a time: 192 bytes each, with their planes.
MOST_BLOCKS = 1 << 20
#: Bits of a part of a file in which the GPU looks for a segment: in photos decoders synchronize within two parts.
SPAN = 2048
_READ_AHEAD = 8  # words after the last one of a scan that a decoder reads
_FOR_THREAD = 16  # images for which another host thread is worth waking
_MOST_IMAGES = 65535  # CUDA's limit for gridDim.y of one launch


class Upload:
    """The upload of a batch, as one buffer.

    Parameters
    ----------
    images : EncodedImages
        With entries of a seek index, or without; with scales at which they are decoded, or without.
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
    fetched : (M, 3) int64
        Of images whose files are on the GPU: where their words begin there, where they belong on the GPU after this
        buffer, and their number. Set when the buffer is written.
    new : (K, 5) int64
        Of images whose files may stay on the GPU: the image, and of its scan the word of the buffer, the bits, those of
        a part, and the words to keep. Set when the buffer is written.
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
        self._resident = images.resident
        self.fetched, self.new = np.zeros((0, 3), np.int64), np.zeros((0, 5), np.int64)
        if self._resident is not None:
            headers["whole"][self._resident.there] = 1  # it was when the file was added
        access = np.zeros(n, layout.ACCESS) if images.seek is None else np.ascontiguousarray(images.seek.access)
        self._files = headers, *images.headers[1:], access
        self._wanted = exif.stored_regions(regions, pixels.sizes, turns), images.channels
        self._places = pixels.stored_places(turns)
        self._images = np.zeros(n, segments.SELECTED)
        self._images["scale"] = FULL if images.scales is None else images.scales
        if self._resident is not None:
            places = self._resident.records["place"]
            self._images["resident"] = np.select([places == NEW, places >= 0], [segments.UPLOADED, segments.THERE])
        self._owners, self._pairs = np.zeros(n, np.int64), np.zeros(n, segments.PAIR)
        self._totals = np.zeros(1, segments.TOTALS)
        self.totals: Any = self._totals[0]  # reads the array
        self._on_threads(
            lambda scratch: select_segments(
                *self._files, self._wanted[0], most_blocks, span, self._images, self._totals, scratch
            )
        )
        if self._resident is not None:
            self._set_parts_of_resident(self._resident)
        parts = np.zeros(n, segments.PART)
        plan_upload(
            *self._files[:3], self._wanted[0], most_blocks, _MOST_IMAGES, self._images, self._owners, self._pairs,
            parts, self._totals,
        )  # fmt: skip
        self.parts = parts[: self.totals["parts"]]
        self.words = int(self.totals["words"])
        self.words_on_gpu = self.words + int(self.totals["found"]) * upload.SEGMENT_WORDS
        if self._resident is not None:
            self._place_resident(self._resident)

    def _set_parts_of_resident(self, resident: Resident) -> None:
        """Set how many segments may be found in files of which only the headers are here."""
        there = resident.there
        records = resident.records[there]
        self._images["span"][there] = records["span"]
        found = -(-records["bits"] // records["span"])
        self._images["found"][there] = np.where(self._images["each"][there], 0, found)

    def _place_resident(self, resident: Resident) -> None:
        """Reserve room after the found segments for the words of files that are on the GPU."""
        there = resident.there
        there = there[self._images["status"][there] == segments.TAKEN]
        records = resident.records[there]
        counts = _kept_words(records["bits"])
        ends = self.words_on_gpu + np.cumsum(counts)
        self._there, self.fetched = there, np.stack([records["place"], ends - counts, counts], 1)
        if len(there):
            self.words_on_gpu = int(ends[-1]) + upload.BEYOND
            if self.words_on_gpu > segments.MOST_WORDS:
                raise ValueError("the files of a batch take more than 8 GiB on the GPU; use a smaller batch_size")

    @property
    def head_bytes(self) -> Ints:
        """Bytes of each file before the coded data; with the ends of the segments of a recoded one."""
        found: Ints = self._files[0]["scan"] + 4 * self._images["total"]
        return found

    @property
    def taken(self) -> list[int]:
        """Images that are decoded."""
        return self._of(segments.TAKEN)

    @property
    def by_entry(self) -> list[int]:
        """Those of them that are decoded by their index entries."""
        return [i for i in self.taken if self._images["by_entry"][i]]

    @property
    def refused(self) -> list[int]:
        """Images whose index entries do not match their files, and files with illegal tables."""
        return self._of(segments.REFUSED)

    def _of(self, status: int) -> list[int]:
        found: list[int] = np.flatnonzero(self._images["status"] == status).tolist()
        return found

    def write(self, out: Any) -> None:
        """Fill an int32 array of ``words``; refuse files whose segments differ from their index entries."""
        n = int(self.totals["segments"])
        unsorted = np.empty(n, upload.SEGMENT)
        memory = out.view(np.uint8)
        self._on_threads(
            lambda _: write_segments(
                *self._files, *self._wanted, self._places, self._images, self._totals, unsorted, memory
            )
        )
        write_tables(
            *self._files[:3], self._images, self._owners, self._pairs, self._totals,
            np.empty(1, segments.SCRATCH), unsorted,
            np.empty(3 * n + max(BUCKETS, len(self._images)) + 1, np.int32), memory,
        )  # fmt: skip
        if self._resident is not None:
            self._link_resident(self._resident, out)

    def _link_resident(self, resident: Resident, out: Any) -> None:
        """Let scans begin where the words of their files will be, and list those that may stay on the GPU."""
        images, first = self._images, int(self.totals["scan_word"])
        scans = out[first : first + int(self.totals["scans"]) * upload.SCAN_WORDS].view(upload.SCAN)
        numbers = images["scan"][self._there]
        scans["word"][numbers] = self.fetched[:, 1]
        scans["end"][numbers] = resident.records["bits"][self._there]
        places = resident.records["place"]
        rows = np.flatnonzero((places == NEW) & (images["status"] == segments.TAKEN) & (images["span"] > 0))
        own = scans[images["scan"][rows]]
        self.new = np.stack([rows, own["word"], own["end"], own["span"], _kept_words(own["end"])], 1).astype(np.int64)

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


def _kept_words(bits: Ints) -> Ints:
    """Return the words to copy of a scan: the upload has as many after its end."""
    return -(-np.asarray(bits, np.int64) // 32) + _READ_AHEAD
