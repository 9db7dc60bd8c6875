"""Building a seek index: the kind of each sample's file, and its entry."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._checks.types import Ints
from .._decoding import jpeg, pillow
from ..kernels.jpeg import layout as records
from . import format as layout

Kinds = NDArray[np.uint64]

_ANY_SIZE = 1 << 62  # pixels; no limit here, as only headers are read
_PROGRESSIVE = 2  # lower 4 bits of the SOF2 marker
_DENSEST = 256  # pixels per byte at most: a block of 64 pixels takes at least 2 bits
_ALIGNED = 8  # bytes; alignment of entries while they are built


class Built(NamedTuple):
    """Result of building entries for some samples."""

    kinds: Kinds  # as in the table of the index
    sizes: Ints  # bytes of each sample in ``content``
    content: bytes  # entries or refusal texts, concatenated; empty if nothing is built
    files: Ints  # their sizes in bytes
    texts: dict[int, bytes]  # name and reason of the refused samples, by position


class EntryMaker:
    """Builds entries, or only upper bounds of their sizes; one per thread."""

    def __init__(self, builds: bool) -> None:
        from ..kernels.jpeg import build  # imports Numba, which takes as long as all of gpuimg

        self._builds, self._loops = builds, build
        self._tables = np.zeros(records.TABLES, records.TABLE)
        self._memory = np.empty(build.WORK_BYTES, np.uint8)

    def __call__(self, data: Sequence[Any], names: Sequence[str], unreadable: dict[int, str]) -> Built:
        """Build the entries of file bytes; ``unreadable`` maps positions to the reason why a file could not be read."""
        headers = jpeg.read_headers(data)
        reasons = dict(unreadable)
        kinds = np.zeros(len(data), np.uint64)
        for i, one in enumerate(data):
            if i not in reasons:
                kinds[i], reason = _kind(headers.records[i], one)
                if reason:
                    reasons[i] = reason
        room = np.zeros(len(data), np.int64)
        self._loops.room_for_entries(headers.records, room)
        room[list(reasons)] = 0
        contents = self._contents(headers, room, kinds, reasons)
        texts = {i: f"{names[i]}\0{reason}".encode("utf-8", "backslashreplace") for i, reason in reasons.items()}
        kinds[list(reasons)] = layout.REFUSED
        sizes = room if contents is None else np.array([len(one) for one in contents], np.int64)
        for i, text in texts.items():
            sizes[i] = len(text)
        content = b"" if contents is None else b"".join(texts.get(i, one) for i, one in enumerate(contents))
        return Built(kinds, sizes, content, headers.sizes, texts)

    def _contents(self, headers: jpeg.Headers, room: Ints, kinds: Kinds, reasons: dict[int, str]) -> list[bytes] | None:
        """Build entries, and record failures in ``kinds`` and ``reasons``; None if nothing is to be built."""
        if not self._builds:
            return None
        aligned = room + -room % _ALIGNED
        out, begins = np.empty(aligned.sum(), np.uint8), np.cumsum(aligned) - aligned
        built = np.zeros(room.size, records.STATUS)
        self._loops.build_entries(*headers, self._tables, self._memory, out, begins, room, built)
        found = [b""] * room.size
        for i in np.flatnonzero(room).tolist():
            result = int(built[i]["result"])
            if result == records.DONE:
                found[i] = out[begins[i] : begins[i] + room[i]].tobytes()
            elif result == self._loops.TOO_LARGE:
                kinds[i] ^= np.uint64(layout.INDEXED ^ layout.TOO_LARGE)
            else:
                reasons[i] = jpeg.reason(built[i])
        return found


def _kind(header: Any, data: Any) -> tuple[int, str]:
    """Return the kind of a file by its header, and the reason if it is refused, else ""."""
    if header["kind"] != records.BASELINE:
        try:
            other = pillow.read_header(data, _ANY_SIZE)
        except ValueError as error:
            return layout.REFUSED, str(error)
        if other.codec != "jpeg":
            return layout.OTHER_FORMAT, ""
        return (layout.PROGRESSIVE if header["process"] == _PROGRESSIVE else layout.OTHER_JPEG), ""
    height, width = int(header["height"]), int(header["width"])
    if height * width > _DENSEST * len(data):
        return layout.REFUSED, f"{len(data)} bytes are too few for {height} x {width}"
    kind = layout.RESTART if header["restart"] else layout.INDEXED
    return kind | layout.SAMPLINGS.index(jpeg.chroma_subsampling(header)) << 4, ""
