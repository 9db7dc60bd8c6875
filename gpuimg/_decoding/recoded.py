"""Recoded JPEGs: files made of JPEGs, and the JPEGs restored from them, byte for byte; see docs/recoded-jpeg.md."""

from __future__ import annotations

import io
import struct
import zlib
from contextlib import suppress
from typing import Any, Final

import numpy as np

from .._checks.arguments import flag
from ..kernels.jpeg import layout
from . import jpeg, jpeg_parts

#: File name ending, without the dot.
ENDING: Final = "gji"

_NAME = bytes(layout.RECODED_MAGIC[:-1])
_VERSION = layout.RECODED_MAGIC[-1]
# After the name and the version: the checksum of what follows up to the segments, bytes of the JPEG's header, number of
# segments, bytes after them, MCU rows of a segment, sets of tables for luma and for chroma, flags.
_HEAD = struct.Struct("<IIIIBBBB")
# At the start of the last part: CRC-32 of the JPEG, bytes of its scan, padding bit, number of table segments.
_LAST = struct.Struct("<IQBH")
_CONVERTED = 1  # flag: made of a progressive JPEG
_MOST_BLOCK = 416  # bytes of a scan for a block
_BASELINE, _DHT = 0xC0, 0xC4
# The usual Huffman tables, K.3 to K.6 of T.81, of DC and AC coefficients of luma, then of chroma: counts and symbols.
_USUAL = (
    "00010501010101010100000000000000000102030405060708090a0b",
    "0002010303020403050504040000017d01020300041105122131410613516107227114328191a1082342b1c11552d1f02433627282090a"
    "161718191a25262728292a3435363738393a434445464748494a535455565758595a636465666768696a737475767778797a8384858687"
    "88898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae1e2e3e4e5e6e7"
    "e8e9eaf1f2f3f4f5f6f7f8f9fa",
    "00030101010101010101010000000000000102030405060708090a0b",
    "00020102040403040705040400010277000102031104052131061241510761711322328108144291a1b1c109233352f0156272d10a1624"
    "34e125f11718191a262728292a35363738393a434445464748494a535455565758595a636465666768696a737475767778797a82838485"
    "868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae2e3e4e5e6"
    "e7e8e9eaf2f3f4f5f6f7f8f9fa",
)  # fmt: skip
#: The same as the segments of a JPEG file, the dictionary for the compression of the last part.
_USUAL_TABLES: Final = b"".join(
    struct.pack(">HHB", 0xFFC4, 3 + len(table) // 2, number) + bytes.fromhex(table)
    for number, table in zip((0x00, 0x10, 0x01, 0x11), _USUAL, strict=True)
)
_SEGMENT_BYTES = 2600  # aimed at: smaller ones make files larger, larger ones take longer to crop from
_MOST_ROWS = 255
_MOST_TIMES = 1000  # that the last part may be packed: more than any photo has, which is then left a JPEG
_BAD_END = "a recoded JPEG with a damaged end"


class UnfitError(ValueError):
    """A JPEG that has no recoded form from which it can be restored."""


def is_recoded(data: Any) -> bool:
    """Return True if file bytes are a recoded JPEG of any version."""
    return bytes(data[: len(_NAME)]) == _NAME


def is_converted(data: bytes | bytearray | memoryview) -> bool:
    """Return True if a recoded JPEG was made of a progressive one, and so cannot be restored."""
    return bool(data[layout.RECODED_HEAD - 1] & _CONVERTED)


def recode_jpeg(data: bytes | bytearray | memoryview, *, progressive: bool = False) -> bytes:
    """Code a baseline JPEG anew, without loss: about as many bytes, which decode in less time.

    Parameters
    ----------
    data : bytes
        A JPEG file.
    progressive : bool
        Code progressive files anew, too: for the same pixels, which Pillow has confirmed, but not to be restored.

    Returns
    -------
    bytes
        A recoded JPEG, which functions that read images take like any other file. Unless the file is progressive,
        :func:`restore_jpeg` has returned the same JPEG from it, byte for byte.

    Raises
    ------
    ValueError
        If the file is not a JPEG that gpuimg decodes itself, or would not be restored: one that is truncated or
        damaged, has unusual padding in its scan, or is progressive without that option.

    Notes
    -----
    The page "Recoded JPEGs" of the documentation describes the format and says what it gains.

    Examples
    --------
    >>> import gpuimg, io
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (30, 20)).save(file, "JPEG")
    >>> recoded = gpuimg.recode_jpeg(file.getvalue())
    >>> gpuimg.image_info(recoded).codec, gpuimg.restore_jpeg(recoded) == file.getvalue()
    ('jpeg', True)
    """
    data = bytes(data)
    if data[:2] != b"\xff\xd8":
        raise ValueError(f"not a JPEG file (starts with {data[:12]!r})")
    original, flags = data, 0
    if flag(progressive, "progressive") and jpeg.read_header(data).records[0]["kind"] == layout.PROGRESSIVE:
        original, flags = _as_baseline(data), _CONVERTED
    listed = _Listed(original)
    for padding in (1, 0):
        found = listed.written(padding, flags)
        with suppress(ValueError):  # the other padding
            if stored_jpeg(found) == original:
                return found
    raise UnfitError("its scan is coded in an unusual way, and would not be restored byte for byte")


def _as_baseline(data: bytes) -> bytes:
    """Return a baseline JPEG with the coefficients, and so the pixels, of a progressive one."""
    from PIL import Image

    from ..kernels.jpeg import progressive, recode

    headers = jpeg.read_header(data).records
    header = headers[0]
    frame, count, bands = int(header["frame"]), int(header["components"]), b"\0\x3f\0"
    start = bytearray(data[: header["scan_header"] - 2])
    start[frame - 1] = _BASELINE
    tables = b"".join(bytes((data[frame + 8 + 3 * c], 0x11 if c else 0)) for c in range(count))
    scan = struct.pack(">HHB", 0xFFDA, 6 + 2 * count, count) + tables + bands
    original = _without_tables(bytes(start))[0] + _USUAL_TABLES + scan
    baselines = jpeg.read_header(original).records
    rows, columns, per = _grid(header)
    out = np.empty(_MOST_BLOCK * rows * columns * per + recode.SCAN_SLACK, np.uint8)
    size = baselines[0]["kind"] == layout.BASELINE and recode.write_baseline(
        headers, np.frombuffer(data, np.uint8), baselines, np.frombuffer(original, np.uint8),
        np.zeros(layout.TABLES, layout.TABLE), np.empty((layout.TABLES, 256), np.int64),
        np.empty(recode.WORK_BYTES, np.uint8), np.empty(progressive.coefficient_bytes(header), np.uint8), out,
    )  # fmt: skip
    if size > 0:
        original += out[:size].tobytes() + b"\xff\xd9"
        with suppress(ValueError, OSError):
            files = [io.BytesIO(b"".join(jpeg_parts.jpeg_contents(one).parts)) for one in (data, original)]
            if Image.open(files[0]).tobytes() == Image.open(files[1]).tobytes():
                return original
    raise UnfitError("it is progressive, and damaged or coded in an unusual way")


def symbol_counts(data: bytes) -> Any | None:
    """Return how often a JPEG's recoded form has the symbols of each table, (18, 256) int64; None where it has none."""
    try:
        return _Listed(data).counts
    except ValueError:
        return None


class _Listed:
    """The symbols and other parts of a JPEG's segments."""

    def __init__(self, data: bytes) -> None:
        from ..kernels.jpeg import books, recode  # imports Numba, which takes as long as all of gpuimg

        self._data = data
        self.headers = jpeg.read_header(data).records
        header = self.headers[0]
        if header["kind"] != layout.BASELINE:
            progressive = header["kind"] == layout.PROGRESSIVE
            raise UnfitError(
                "it is progressive" if progressive else "it is not a baseline JPEG that gpuimg decodes itself"
            )
        rows, columns, per = _grid(header)
        size = (len(data) - int(header["scan"])) / rows
        self.each = min(rows, _MOST_ROWS, max(1, min(round(_SEGMENT_BYTES / size), 1536 // (per * columns))))
        segments, blocks, most = -(-rows // self.each), rows * columns * per, self.each * columns * per
        self._symbols = np.empty(recode.SYMBOLS * blocks, np.uint8)
        self._places = np.zeros((segments, 2, books.BOOKS + 1), np.int64)
        self.counts = np.zeros((books.BOOKS, 256), np.int64)
        self._rest = np.empty(recode.REST_BYTES * blocks + 64 * (segments + 1), np.uint8)
        self._stop = recode.list_segments(
            self.headers, np.frombuffer(data, np.uint8), self.each, np.zeros(layout.TABLES, layout.TABLE),
            np.empty(recode.WORK_BYTES, np.uint8), np.empty(128 * most + 64, np.int16),
            np.empty(most, np.uint8), np.empty((6, 8 * most + 64), np.uint8), self._symbols, self._places,
            self.counts, self._rest,
        )  # fmt: skip
        if self._stop < 0:
            raise UnfitError("its scan cannot be decoded, or has values that no photo has")
        lengths = books.lengths()
        bits = np.einsum("ncts,cts->nc", lengths.astype(np.int64), self.counts.reshape(lengths[0].shape))
        self._chosen = bits.argmin(0)
        self._stops = np.zeros(segments, np.int64)
        size = 12 * blocks + 64 * segments + len(self._rest)
        room, out = np.empty(size, np.uint8), np.empty(size, np.uint8)
        recode.join_segments(
            self._symbols, self._places, self._rest, books.codes(*self._chosen), np.empty(4, np.int64), room,
            self._stops, out,
        )  # fmt: skip
        self._segments = out[: self._stops[-1]].tobytes()

    def written(self, padding: int, flags: int) -> bytes:
        """Return the file."""
        from ..kernels.jpeg import recode

        data, scan = self._data, int(self.headers[0]["scan"])
        kept, tables = _without_tables(data[:scan])
        last = _LAST.pack(zlib.crc32(data), self._stop - scan, padding, len(tables))
        last += b"".join(struct.pack("<I", place) + table for place, table in tables) + data[self._stop :]
        packer = zlib.compressobj(9, zdict=_USUAL_TABLES)
        last = packer.compress(last) + packer.flush()
        count = len(self._stops)
        head = _HEAD.pack(0, len(kept), count, len(last), self.each, *self._chosen, flags)
        head = _NAME + bytes([_VERSION]) + head + kept + self._stops.astype("<u4").tobytes()
        sum_ = recode.checksum_of(np.frombuffer(head, np.uint8), len(_NAME) + 5)
        return b"".join([head[:8], struct.pack("<I", sum_), head[12:], self._segments, last])


def restore_jpeg(data: bytes | bytearray | memoryview) -> bytes:
    """Return the JPEG file that a recoded JPEG was made of, byte for byte.

    Parameters
    ----------
    data : bytes
        A file of :func:`recode_jpeg` or ``gpuimg prepare --recode``.

    Returns
    -------
    bytes

    Raises
    ------
    ValueError
        If the file is not a recoded JPEG, is damaged, is of a newer version, or was made of a progressive JPEG.

    Examples
    --------
    >>> import gpuimg, io
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (30, 20)).save(file, "JPEG")
    >>> gpuimg.restore_jpeg(gpuimg.recode_jpeg(file.getvalue())) == file.getvalue()
    True
    """
    restored = stored_jpeg(data)
    if is_converted(data):
        raise ValueError("a recoded JPEG that was made of a progressive JPEG, and has its pixels but not its bytes")
    return restored


def stored_jpeg(data: bytes | bytearray | memoryview) -> bytes:
    """Return the JPEG that a recoded one stores: the original or, of a progressive one, a baseline JPEG like it."""
    from ..kernels.jpeg import books, recode, recoded

    data = bytes(data)
    if not is_recoded(data) or len(data) < layout.RECODED_HEAD:
        raise ValueError(f"not a recoded JPEG (starts with {data[:12]!r})")
    if data[7] != _VERSION or data[layout.RECODED_HEAD - 1] > _CONVERTED:
        raise ValueError(
            f"a recoded JPEG of version {data[7]} with flags {data[layout.RECODED_HEAD - 1]}, and this gpuimg reads "
            f"version {_VERSION} with flags 0 or 1: use the gpuimg that wrote it, or install a newer one"
        )
    found = jpeg.read_header(data)
    header = found.records[0]
    if header["kind"] != layout.RECODED:
        raise ValueError("a recoded JPEG with a damaged header")
    last = _last_part(data, int(header["scan"]))
    crc, size, padding, count = _LAST.unpack_from(last)
    original, at = data[layout.RECODED_HEAD : int(header["scan"])], _LAST.size
    for _ in range(count):
        place, length = int.from_bytes(last[at : at + 4], "little"), int.from_bytes(last[at + 6 : at + 8], "big")
        original = original[:place] + last[at + 4 : at + 6 + length] + original[place:]
        at += 6 + length
    mcu_rows, columns, per = _grid(header)
    if size > _MOST_BLOCK * mcu_rows * columns * per + len(data):
        raise ValueError(_BAD_END)
    originals = jpeg.read_header(original).records
    out = np.empty(size + recode.SCAN_SLACK, np.uint8)
    written = recode.write_scan(
        found.records, np.frombuffer(data, np.uint8), books.books().__array_interface__["data"][0], originals,
        np.frombuffer(original, np.uint8), padding, np.zeros(layout.TABLES, layout.TABLE),
        np.empty((layout.TABLES, 256), np.int64),
        np.empty(recode.WORK_BYTES + recoded.list_bytes(int(header["width"])), np.uint8),
        np.empty(64 * columns * per, np.int16), np.empty(columns * per, np.uint8), out,
    )  # fmt: skip
    if originals[0]["kind"] != layout.BASELINE or written != size:
        raise ValueError("a recoded JPEG with a damaged segment")
    restored = b"".join([original, out[:size].tobytes(), last[at:]])
    if zlib.crc32(restored) != crc:
        raise ValueError(_BAD_END)
    return restored


def _last_part(data: bytes, scan: int) -> bytes:
    """Return the last part, unpacked."""
    _, _, count, size, *_ = _HEAD.unpack_from(data, 8)
    begin = scan + 4 * count
    stop = begin + int.from_bytes(data[begin - 4 : begin], "little")
    unpacker = zlib.decompressobj(zdict=_USUAL_TABLES)
    try:
        last = unpacker.decompress(data[stop:], _MOST_TIMES * len(data))
    except zlib.error:
        last = b""
    if not unpacker.eof or unpacker.unused_data or stop + size != len(data) or len(last) < _LAST.size:
        raise ValueError(_BAD_END)
    return last


def _grid(header: Any) -> tuple[int, int, int]:
    """Return MCU rows, MCUs of a row, and blocks of an MCU."""
    single = header["components"] == 1
    across, down = (1, 1) if single else divmod(int(header["sampling"][0]), 16)
    rows, columns = -(-int(header["height"]) // (8 * down)), -(-int(header["width"]) // (8 * across))
    return rows, columns, 1 if single else across * down + 2


def _without_tables(header: bytes) -> tuple[bytes, list[tuple[int, bytes]]]:
    """Split the segments of Huffman tables from a JPEG's header: return their places, and their bytes."""
    found = [(one.start, 4 + len(one.body)) for one in jpeg_parts.segments(header) if one.marker == _DHT]
    kept, at = b"", 0
    for start, size in found:
        kept += header[at:start]
        at = start + size
    return kept + header[at:], [(start, header[start : start + size]) for start, size in found]
