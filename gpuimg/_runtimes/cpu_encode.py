"""Records and memory of images that the CPU runtime encodes as JPEGs."""

from collections.abc import Sequence

import numpy as np

from .._checks.types import Ints
from .._encoding.options import JpegOptions
from .._threads.turn import zeros
from ..kernels.cpu.inputs import address_of_bytes, set_encodings
from ..kernels.jpeg import encode

NO_ENCODINGS = np.zeros(0, encode.ENCODING)

_LUMA = {"4:4:4": 0x11, "4:2:2": 0x21, "4:2:0": 0x22}  # sampling factors: horizontal << 4 | vertical
_MORE = 4  # times as much memory for a file that was too large


class Encodings:
    """Images of sizes (N, 2) with 1 or 3 channels, and memory for their files.

    A file that is larger than nearly all photos is encoded again, with more memory.

    Attributes
    ----------
    records : (N,) jpeg.encode.ENCODING
    scratch : int
        Bytes of scratch for the largest image.
    """

    def __init__(self, sizes: Ints, channels: int, options: JpegOptions) -> None:
        self.records = zeros(encode.ENCODING, len(sizes))
        sizes = np.ascontiguousarray(sizes, np.int64)
        self.scratch: int = set_encodings(
            self.records, encode.ENCODE_FUNCTION.address, sizes, channels, options.quality, _LUMA[options.subsampling],
            int(options.optimize), options.restart,
        )  # fmt: skip
        self._heads = options.heads
        self._memory = [memoryview(b"")] * len(sizes)
        self._give(range(len(sizes)), self.records["room"])

    def _give(self, rows: Sequence[int], sizes: Ints) -> None:
        """Give memory to some images."""
        stops = np.cumsum(sizes)
        memory = np.empty(stops[-1], np.uint8)
        self.records["room"][rows], self.records["out"][rows] = sizes, address_of_bytes(memory) + stops - sizes
        for i, size, stop in zip(rows, sizes.tolist(), stops.tolist(), strict=True):
            self._memory[i] = memory.data[stop - size : stop]

    def give_more(self) -> Ints:
        """Give more memory to images that had too little, and return their indices."""
        rows = np.flatnonzero(self.records["size"] == encode.LITTLE_ROOM)
        if len(rows):
            self._give(rows.tolist(), _MORE * self.records["room"][rows])
        return rows

    def files(self) -> list[bytes]:
        """Return the files."""
        sizes = self.records["size"].tolist()
        return [b"".join((self._heads[i], self._memory[i][:size])) for i, size in enumerate(sizes)]
