"""Recoded JPEGs: files made of JPEGs, and the JPEGs restored from them, byte for byte; see kernels/jpeg/RECODED.md."""

from __future__ import annotations

import io
import math
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import numpy as np

from .._checks.arguments import flag
from ..kernels.jpeg import layout
from ..kernels.jpeg.usual import USUAL_TABLES
from . import jpeg, jpeg_parts

__all__ = ["recode_jpeg", "restore_jpeg"]

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
_DHT = 0xC4
_SHAPE = ("height", "width", "components", "sampling")  # fields by which blocks follow each other
_SEGMENT_BYTES = 2600  # aimed at: smaller ones make files larger, larger ones take longer to crop from
_MOST_ROWS = 255
_MOST_TABLES = 1 << 16  # bytes of all Huffman tables with their places, of which eight of 273 bytes can be in use
_MOST_TIMES, _SOME = 16, 1 << 20  # the last part has at most so many times the file's bytes, and some
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
        Also code progressive files anew. Pillow has decoded the same pixels before and after, but these files cannot be
        restored.

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
    progressive, data = flag(progressive, "progressive"), bytes(data)
    if data[:2] != b"\xff\xd8":
        raise ValueError(f"not a JPEG file (starts with {data[:12]!r})")
    original, flags = data, 0
    if progressive and jpeg.read_header(data).records[0]["kind"] == layout.PROGRESSIVE:
        original, flags = _as_baseline(data), _CONVERTED
    for found in _forms(original, flags):
        with suppress(ValueError):  # the other padding
            if stored_jpeg(found) == original:
                return found
    raise UnfitError("its scan is coded in an unusual way, and would not be restored byte for byte")


def _as_baseline(data: bytes) -> bytes:
    """Return a baseline JPEG with the coefficients, and so the pixels, of a progressive one."""
    from PIL import Image

    headers = jpeg.read_header(data).records
    header = headers[0]
    frame, count = int(header["frame"]), int(header["components"])
    start, _ = _without_tables(data[: frame - 1] + b"\xc0" + data[frame : int(header["scan_header"]) - 2])
    chosen = b"".join(bytes((data[frame + 8 + 3 * c], 0x11 if c else 0)) for c in range(count))
    start += USUAL_TABLES + struct.pack(">HHB", 0xFFDA, 6 + 2 * count, count) + chosen + b"\0\x3f\0"
    if scan := _scan(data, headers, start, 1, _MOST_BLOCK * math.prod(_grid(header))):
        original = start + scan + b"\xff\xd9"
        with suppress(ValueError, OSError):
            files = [io.BytesIO(b"".join(jpeg_parts.jpeg_contents(one).parts)) for one in (data, original)]
            if Image.open(files[0]).tobytes() == Image.open(files[1]).tobytes():
                return original
    raise UnfitError("it is progressive, and damaged or coded in an unusual way")


def _scan(data: bytes, headers: Any, original: bytes, padding: int, size: int) -> bytes:
    """Return the baseline scan, up to ``size`` bytes, of a recoded or progressive file; empty if it cannot be written.

    ``original`` is the JPEG up to that scan.
    """
    from ..kernels.jpeg import books, coder, progressive, recode, recoded

    header, originals = headers[0], jpeg.read_header(original).records
    if originals[0]["kind"] != layout.BASELINE or originals[0]["scan"] != len(original):
        return b""
    if any(header[field].tolist() != originals[0][field].tolist() for field in _SHAPE):
        return b""
    _, columns, per = _grid(header)
    if header["kind"] == layout.PROGRESSIVE:
        room = progressive.coefficient_bytes(header)
    else:
        room = recoded.list_bytes(int(header["width"]))
    raw = np.empty(coder.RAW_BYTES * columns * per + coder.RAW_SLACK, np.uint8)
    arguments = (
        headers, np.frombuffer(data, np.uint8), books.books().__array_interface__["data"][0], originals,
        np.frombuffer(original, np.uint8), padding, np.zeros(layout.TABLES, layout.TABLE),
        np.zeros((layout.TABLES, coder.CODES), np.int64), np.empty(recode.WORK_BYTES + room, np.uint8),
        np.empty(64 * columns * per + 64, np.int16), np.empty(columns * per, np.uint8), raw,
    )  # fmt: skip
    some = min(size, 2 * len(data))  # a forged file may say that its scan has any size
    while True:
        out = np.empty(some + len(raw), np.uint8)
        written = recode.write_scan(*arguments, out)
        if written != recode.LITTLE_ROOM or some == size:
            return out[: max(written, 0)].tobytes()
        some = min(size, 2 * some)


def _forms(data: bytes, flags: int) -> Iterator[bytes]:
    """Yield the recoded forms of a JPEG whose scan is padded with ones, and with zeros."""
    from ..kernels.jpeg import recode

    header, stop, each, chosen, stops, segments = _segments_of(data)
    scan = int(header["scan"])
    kept, found = _without_tables(data[:scan])
    tables = b"".join(struct.pack("<I", place) + table for place, table in found)
    if len(tables) > _MOST_TABLES or len(data) >= 1 << 32:
        raise UnfitError("its scan comes after more Huffman tables than any photo has, or ends beyond 4 GiB")
    for padding in (1, 0):
        last = _LAST.pack(zlib.crc32(data), stop - scan, padding, len(found)) + tables + data[stop:]
        packer = zlib.compressobj(9, zdict=USUAL_TABLES)
        packed = packer.compress(last) + packer.flush()
        head = _HEAD.pack(0, len(kept), len(stops), len(packed), each, *chosen, flags)
        head = _NAME + bytes([_VERSION]) + head + kept + stops.astype("<u4").tobytes()
        sum_ = recode.checksum_of(np.frombuffer(head, np.uint8), len(_NAME) + 5)
        found_file = b"".join([head[:8], struct.pack("<I", sum_), head[12:], segments, packed])
        if len(last) > _most_unpacked(found_file):
            raise UnfitError("many times its own bytes follow its scan")
        yield found_file


def _segments_of(data: bytes) -> tuple[Any, ...]:
    """Return the segments of a baseline JPEG, and all about them; raise UnfitError if it has none.

    Before them: its header, where its scan ends, MCU rows of a segment, the sets of tables, and where segments end.
    """
    from ..kernels.jpeg import books, recode  # imports Numba: only when it is used

    headers = jpeg.read_header(data).records
    header = headers[0]
    if header["kind"] != layout.BASELINE:
        progressive = header["kind"] == layout.PROGRESSIVE
        raise UnfitError("it is progressive" if progressive else "it is not a baseline JPEG that gpuimg decodes itself")
    rows, columns, per = _grid(header)
    if 8 * (len(data) - int(header["scan"])) < 2 * rows * columns * per:  # before memory for them: codes of a bit each
        raise UnfitError("its scan has fewer bytes than its blocks need")
    size = max(len(data) - int(header["scan"]), 1) / rows
    each = min(rows, _MOST_ROWS, max(1, min(round(_SEGMENT_BYTES / size), layout.SEGMENT_BLOCKS // (per * columns))))
    segments, blocks, most = -(-rows // each), rows * columns * per, each * columns * per
    symbols = np.empty(recode.SYMBOLS * blocks, np.uint8)
    places = np.zeros((segments, 2, books.BOOKS + 1), np.int64)
    counts = np.zeros((books.BOOKS, 256), np.int64)
    rest = np.empty(recode.REST_BYTES * blocks + 64 * (segments + 1), np.uint8)
    stop = recode.list_segments(
        headers, np.frombuffer(data, np.uint8), each, np.zeros(layout.TABLES, layout.TABLE),
        np.empty(recode.WORK_BYTES, np.uint8), np.empty(128 * most + 64, np.int16), np.empty(most, np.uint8),
        np.empty((6, 8 * most + 64), np.uint8), symbols, places, counts, rest,
    )  # fmt: skip
    if stop < 0:
        raise UnfitError("its scan cannot be decoded, or has values that no photo has")
    lengths = books.lengths()
    chosen = np.einsum("ncts,cts->nc", lengths.astype(np.int64), counts.reshape(lengths[0].shape)).argmin(0)
    stops = np.zeros(segments, np.int64)
    room, out = np.empty((2, 12 * blocks + 64 * segments + len(rest)), np.uint8)
    recode.join_segments(symbols, places, rest, books.codes(*chosen), np.empty(4, np.int64), room, stops, out)
    return header, stop, each, chosen, stops, out[: stops[-1]].tobytes()


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
        If the file is not a recoded JPEG, is damaged, is of a newer version, was made of a progressive JPEG, or there
        is not enough memory for its JPEG.

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


def jpeg_header(data: bytes) -> bytes:
    """Return the header of a recoded JPEG: the JPEG's, without its Huffman tables, to the end of the scan header."""
    return data[layout.RECODED_HEAD : int(_checked(data).records[0]["scan"])]


def _checked(data: bytes) -> jpeg.Headers:
    """Return the header of a recoded JPEG, of which everything up to its segments is undamaged."""
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
    return found


def stored_jpeg(data: bytes | bytearray | memoryview) -> bytes:
    """Return the JPEG that a recoded one stores: the original or, of a progressive one, a baseline JPEG like it."""
    try:
        return _stored_jpeg(bytes(data))
    except MemoryError:
        raise ValueError("there is not enough memory for the JPEG of a recoded one") from None


def _stored_jpeg(data: bytes) -> bytes:
    found = _checked(data)
    header = found.records[0]
    last = _last_part(data, int(header["scan"]))
    crc, size, padding, count = _LAST.unpack_from(last)
    kept, tables, at = data[layout.RECODED_HEAD : int(header["scan"])], list[tuple[int, bytes]](), _LAST.size
    while len(tables) < count and at <= _LAST.size + _MOST_TABLES:
        place, length = int.from_bytes(last[at : at + 4], "little"), int.from_bytes(last[at + 6 : at + 8], "big")
        tables.append((place, last[at + 4 : at + 6 + length]))
        at += 6 + length
    original = _with_tables(kept, tables)
    # What splits into the same parts again has whole segments of Huffman tables between its others, and nothing else.
    if len(tables) < count or at > _LAST.size + _MOST_TABLES or _without_tables(original) != (kept, tables):
        raise ValueError(_BAD_END)
    if size > _MOST_BLOCK * math.prod(_grid(header)) + len(data):
        raise ValueError(_BAD_END)
    scan = _scan(data, found.records, original, padding, size)
    if len(scan) != size:
        raise ValueError("a recoded JPEG with a damaged segment")
    restored = b"".join([original, scan, last[at:]])
    if zlib.crc32(restored) != crc:
        raise ValueError(_BAD_END)
    return restored


def _last_part(data: bytes, scan: int) -> bytes:
    """Return the last part, unpacked."""
    _, _, count, size, *_ = _HEAD.unpack_from(data, 8)
    begin = scan + 4 * count
    stop = begin + int.from_bytes(data[begin - 4 : begin], "little")
    unpacker = zlib.decompressobj(zdict=USUAL_TABLES)
    try:
        last = unpacker.decompress(data[stop:], _most_unpacked(data))
    except zlib.error:
        last = b""
    if not unpacker.eof or unpacker.unused_data or stop + size != len(data) or len(last) < _LAST.size:
        raise ValueError(_BAD_END)
    return last


def _most_unpacked(data: bytes) -> int:
    """Return the bytes that the last part of a file may have, unpacked."""
    return _MOST_TIMES * len(data) + _SOME


def _grid(header: Any) -> list[int]:
    """Return MCU rows, MCUs of a row, and blocks of an MCU."""
    return [int(header[field]) for field in ("rows", "columns", "per")]


def _without_tables(header: bytes) -> tuple[bytes, list[tuple[int, bytes]]]:
    """Split the segments of Huffman tables from a JPEG's header: return their places, and their bytes."""
    found = [one for one in jpeg_parts.segments(header) if one.marker == _DHT]
    tables = [(one.start, header[one.start : one.start + 4 + len(one.body)]) for one in found]
    ends = [0, *(place + len(table) for place, table in tables)]
    starts = [*(place for place, _ in tables), len(header)]
    return b"".join(map(header.__getitem__, map(slice, ends, starts))), tables


def _with_tables(kept: bytes, tables: list[tuple[int, bytes]]) -> bytes:
    """Put segments of Huffman tables back to their places in a JPEG's header, which must be in order."""
    parts, at, stop = list[bytes](), 0, 0  # the next byte that was kept, and the bytes of the parts
    for place, table in tables:
        until = at + max(place - stop, 0)
        parts += [kept[at:until], table]
        at, stop = until, max(place, stop) + len(table)
    return b"".join([*parts, kept[at:]])
