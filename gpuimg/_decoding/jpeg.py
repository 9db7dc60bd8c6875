"""Headers of a batch of JPEGs, read by our own decoder, and its error messages."""

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from .._checks.types import Ints, Mask, Records
from .._io.file_bytes import all_bytes
from .._threads.turn import zeros
from ..kernels.jpeg import layout
from .jpeg_parts import chroma


class Headers(NamedTuple):
    """Headers of files, and the addresses of their bytes."""

    records: Records  # (N,) HEADER of gpuimg.kernels.jpeg.layout
    addresses: Ints
    sizes: Ints

    def part(self, indices: Any) -> "Headers":
        """Return the headers of some files."""
        return Headers(*(np.ascontiguousarray(array[indices]) for array in self))


def read_headers(data: Sequence[Any]) -> Headers:
    """Read the headers of file bytes, which must stay alive as long as their addresses are used."""
    if len(data) == 1:
        return read_header(data[0])
    addresses = _addresses(data)
    sizes = np.fromiter(map(len, data), np.int64, len(data))
    found = zeros(layout.HEADER, len(data))
    _loops().read_headers(addresses, sizes, found, np.empty(4, np.int64))
    return Headers(found, addresses, sizes)


def read_header(data: Any) -> Headers:
    """Read the header of one file, without a list of addresses; its bytes must stay alive."""
    found = zeros(layout.HEADER, 1)
    address = _loops().read_header(np.frombuffer(data, np.uint8), found, np.empty(4, np.int64))
    return Headers(found, np.array([address]), np.array([len(data)]))


def shown_sizes(records: Records, pillow_only: Mask | None, max_pixels: int) -> tuple[Ints, dict[int, int]]:
    """Return sizes (N, 2) as displayed, and by index why a file's is not its header's: see :mod:`.layout`."""
    sizes = np.empty((len(records), 2), np.int64)
    left = np.zeros(len(records), np.int64) if pillow_only is None else pillow_only * layout.FOR_PILLOW
    if not _loops().shown_sizes(records, max_pixels, sizes, left):
        return sizes, {}
    return sizes, {i: int(left[i]) for i in np.flatnonzero(left).tolist()}


@cache
def _loops() -> Any:
    from ..kernels.jpeg import headers  # imports Numba: only when it is used

    return headers


def _addresses(data: Sequence[Any]) -> Ints:
    pointers: Any = (ctypes.c_char_p * len(data))(*(data if all_bytes(data) else map(_bytes_alone, data)))
    found: Ints = np.frombuffer(pointers, np.intp).astype(np.int64) if data else np.empty(0, np.int64)
    for i in np.flatnonzero(found == 0).tolist():
        one = np.frombuffer(data[i], np.uint8)
        found[i] = one.__array_interface__["data"][0] if len(one) else 0
    return found


def _bytes_alone(one: Any) -> bytes | None:
    return one if type(one) is bytes else None


def chroma_subsampling(header: Any) -> str:
    """Return the name in :class:`gpuimg.typing.ImageInfo` for a header's sampling factors."""
    count = min(int(header["components"]), 4)
    return chroma([divmod(factors, 16) for factors in header["sampling"][:count].tolist()])


_REASONS = {
    layout.BAD_CODE: "MCU row {row}: invalid Huffman code",
    layout.ENDS: "the data end in MCU row {row} of {rows}",
    layout.BAD_RESTART: "MCU row {row}: a restart marker is missing or out of order",
    layout.BAD_TABLE: "invalid Huffman table",
    layout.OVERRUN: "MCU row {row}: a block has more than 64 coefficients",
    layout.BAD_SEGMENT: "MCU row {row}: the segment of a recoded JPEG is damaged",
}


def reason(status: Any) -> str:
    """Return the reason for which the decoder rejected a file, from its status; rows count from 1.

    It is empty if the decoder did not, or if only Pillow knows it.
    """
    return _REASONS.get(int(status["result"]), "").format(row=int(status["row"]) + 1, rows=int(status["rows"]))
