"""nvImageCodec as one decoder of the CUDA runtime: a thread's decoder, the memory it writes to, and what it wrote.

Only files that :mod:`gpuimg._decoding.route` gives it. Images whose marks are still there afterwards were not written.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import cupy
import numpy as np

from .._checks.types import Ints
from .._data.images import ALIGNMENT, EncodedImages, Pixels, offsets_of
from .._decoding import exif
from .._decoding.nvimgcodec import (
    CUDA,
    ENGINE,
    OTHERS,
    DeviceImage,
    GpuDecoder,
    decode_params,
    for_engine,
    gpu_decoder,
)
from .cuda_launch import capability_of
from .cuda_marks import MARK_BYTES, Marks
from .protocol import Timings

#: Warn of a message once for each kind.
Warn = Callable[[str, str], None]


class NvImageCodec:
    """The decoders of one thread, on its stream; they are created for the first file."""

    def __init__(self, index: int, threads: int, share: float, stream: Any, warn: Warn) -> None:
        self._index, self._threads, self._share = index, threads, share
        self._stream, self._warn = stream, warn
        self._marks = Marks(stream)
        self._decoder = GpuDecoder(None, None)
        self._is_requested = False
        self.problem = ""  # the reason if there is no decoder of JPEGs

    def found(self) -> GpuDecoder:
        """Return the decoders that nvImageCodec has for this GPU, which may be none."""
        if not self._is_requested:
            self._is_requested = True
            try:
                set_device = partial(cupy.cuda.runtime.setDevice, self._index)
                capability = capability_of(cupy.cuda.Device())
                self._decoder = gpu_decoder(self._index, capability, self._threads, set_device)
                self.problem = f"nvImageCodec has no JPEG decoder on cuda:{self._index} (is nvJPEG installed?)"
            except ImportError as error:
                self.problem = str(error).partition(";")[0]
        return self._decoder

    def begin(self, images: EncodedImages, numbers: Ints, pixels: Pixels) -> Callable[[], tuple[Ints, Timings]]:
        """Begin with some of the images; the result decodes them, and returns the refused ones, and counts."""
        places = Places(images, pixels, numbers)
        return partial(self._decode, images, places, self._marks.write(places.marks))

    def _decode(self, images: EncodedImages, places: "Places", marked: Any) -> tuple[Ints, Timings]:
        numbers = places.numbers
        kinds = np.where(for_engine(images.headers, self._share), ENGINE, CUDA)
        kinds[[*images.others]] = OTHERS
        found = self._decoder.decode(
            [images.data[i] for i in numbers.tolist()],
            places.images(self._stream.ptr),
            kinds[numbers].tolist(),
            decode_params(images.options.color, deep=images.options.bits != 8),
            self._stream.ptr,
            marked.synchronize,
        )
        reported, unwritten = np.array(found, np.bool_), self._marks.left()[numbers]
        places.turn(set(numbers[reported & ~unwritten].tolist()))
        unwritten &= reported
        if not reported.all() and self._decoder.error is not None:
            self._warn(
                f"nvImageCodec failed at images on cuda:{self._index} ({self._decoder.error}): the CPU decodes such "
                "images; stats() counts the JPEGs of a loader as jpegs_on_cpu",
                "failed",
            )
        if unwritten.any():
            self._warn(
                f"nvImageCodec reported images as decoded on cuda:{self._index} that it did not write, the first of "
                f"them {images.names[numbers[unwritten][0]]}: the CPU decodes such images; stats() counts those of a "
                "loader",
                "unwritten",
            )
        lost = ~reported & (kinds[numbers] != OTHERS)
        counts = Timings(unwritten=int(unwritten.sum()), jpegs_on_cpu=int(lost.sum()))
        return numbers[~reported | unwritten], counts


class Places:
    """Destinations for nvImageCodec: in the batch's memory, or in separate memory for images with an orientation.

    ``numbers`` (M,) are the indices of its images. ``marks`` are offsets of the last bytes of each image of the batch,
    as :meth:`Marks.write` takes them; ``turned`` has those, in the separate memory, of images with an orientation.
    """

    def __init__(self, images: EncodedImages, pixels: Pixels, numbers: Ints) -> None:
        self.numbers = numbers
        self._pixels = pixels
        self._turns = images.orientations
        self._flat, self._item = pixels.flat.view(np.uint8), pixels.flat.itemsize
        headers = images.headers.records[numbers]
        self._sizes = np.stack([headers["height"], headers["width"]], 1)  # as stored
        ends = self._sizes[:, 0] * self._sizes[:, 1] * pixels.channels * self._item - MARK_BYTES
        starts = pixels.offsets[numbers] * self._item
        self._addresses = self._flat.data.ptr + starts
        marks = np.full((2, len(images)), -1, np.int64)
        marks[0, numbers] = starts + ends
        self.marks = [(self._flat, marks[0])]
        self.turned: dict[int, int] = {}
        turned = np.flatnonzero(self._turns[numbers] != 1)
        if len(turned):
            starts, total = offsets_of(self._sizes[turned], pixels.channels * self._item, ALIGNMENT)
            self._own = cupy.empty(total, cupy.uint8)
            self._addresses[turned] = self._own.data.ptr + starts
            marks[0, numbers[turned]] = -1
            marks[1, numbers[turned]] = starts + ends[turned]
            self.marks.append((self._own, marks[1]))
            self.turned = dict(zip(numbers[turned].tolist(), starts.tolist(), strict=True))

    def images(self, stream: int) -> list[DeviceImage]:
        """Return the destinations as objects for work on a stream."""
        channels, typestr = self._pixels.channels, "|u1" if self._item == 1 else "<u2"
        return [
            DeviceImage(address, (height, width, channels), stream, typestr)
            for address, (height, width) in zip(self._addresses.tolist(), self._sizes.tolist(), strict=True)
        ]

    def turn(self, decoded: set[int]) -> None:
        """Copy decoded images that need turning to their places in the batch."""
        for i, start in self.turned.items():
            if i in decoded:
                out, turn = self._pixels.view(i), int(self._turns[i])
                stored = self._own[start : start + out.nbytes].view(out.dtype)
                out[:] = exif.turned(stored.reshape(exif.stored_shape(out.shape, turn)), turn)
