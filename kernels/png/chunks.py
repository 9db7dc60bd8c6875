"""The chunks of a PNG file: a length of four bytes, a name, a body, and the CRC-32 of name and body.

Only files of which every chunk is understood and in its place are ``regular``. Whatever is unusual or damaged is left
to Pillow, which then also reports what is wrong.
"""

import numpy as np

from ..compiled import cached_jit
from ..cpu.intrinsics import copy
from ..jpeg.vectors import load_big
from ..scalar import loop, up
from .layout import DEPTHS, PALETTE, PNG, SAMPLES

_HEADER, _PALETTE, _TRANSPARENCY, _PIXELS, _END = (
    int.from_bytes(name, "big") for name in (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND")
)
_SIGNATURE = int.from_bytes(b"\x89PNG\r\n\x1a\n", "big")
_FRAME = 12  # bytes of a chunk around its body
_COLORS = 256  # most of a palette
_DEPTHS, _SAMPLES = np.array(DEPTHS), np.array(SAMPLES)
_POLYNOMIAL = 0xEDB88320  # of CRC-32, lowest bit first


def _crc_tables():
    """Eight tables: the CRC of a byte, and of a byte that 1 to 7 zeros follow."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ _POLYNOMIAL, table >> 1).astype(np.uint32)
    tables = [table]
    for _ in range(7):
        tables.append(tables[-1] >> 8 ^ table[tables[-1] & 255])
    return np.concatenate(tables)


_CRC = _crc_tables()


@loop
def _big(data, at):
    """Return four bytes as a big-endian number."""
    value = np.int64(0)
    for k in range(at, at + 4):
        value = value << 8 | np.int64(data[k])
    return value


@loop
def _is_name(data, at):
    """Return whether four bytes are letters."""
    for k in range(at, at + 4):
        letter = data[k] | 0x20
        if letter < 0x61 or letter > 0x7A:
            return False
    return True


@loop
def _has_crc(data, start, size):
    """Return whether the CRC of the chunk whose body is ``data[start:start + size]`` is right."""
    crc = np.uint32(0xFFFFFFFF)
    at, stop = up(start - 4), up(start + size)
    while at + up(8) <= stop:
        word = load_big(data, at)
        crc = (
            _CRC[up(1792) + up(np.uint8(word >> np.uint64(56)) ^ np.uint8(crc))]
            ^ _CRC[up(1536) + up(np.uint8(word >> np.uint64(48)) ^ np.uint8(crc >> np.uint32(8)))]
            ^ _CRC[up(1280) + up(np.uint8(word >> np.uint64(40)) ^ np.uint8(crc >> np.uint32(16)))]
            ^ _CRC[up(1024) + up(np.uint8(word >> np.uint64(32)) ^ np.uint8(crc >> np.uint32(24)))]
            ^ _CRC[up(768) + up(np.uint8(word >> np.uint64(24)))]
            ^ _CRC[up(512) + up(np.uint8(word >> np.uint64(16)))]
            ^ _CRC[up(256) + up(np.uint8(word >> np.uint64(8)))]
            ^ _CRC[up(np.uint8(word))]
        )
        at += up(8)
    while at < stop:
        crc = crc >> np.uint32(8) ^ _CRC[up(np.uint8(crc) ^ data[at])]
        at += up(1)
    return np.int64(crc ^ np.uint32(0xFFFFFFFF)) == _big(data, start + size)


@loop
def _read_header(data, start, size, found):
    """Read the body of IHDR; return whether it is regular."""
    if size != 13 or not _has_crc(data, start, size):
        return False
    found.width, found.height = _big(data, start), _big(data, start + 4)
    found.depth, found.color, found.interlaced = data[start + 8], data[start + 9], data[start + 12]
    if found.color > 6 or found.interlaced > 1 or data[start + 10] != 0 or data[start + 11] != 0:
        return False
    depth = found.depth
    return depth != 0 and depth & (depth - 1) == 0 and _DEPTHS[found.color] & depth != 0


@loop
def _read_all(data, found):
    """Fill a record of zeros; return whether the file is regular."""
    if data.size < 8 or load_big(data, up(0)) != np.uint64(_SIGNATURE):
        return False
    at = 8
    is_last = False  # whether the chunk before is the last IDAT so far
    while at + _FRAME <= data.size:
        size, name, start = _big(data, at), _big(data, at + 4), at + 8
        if at + _FRAME + size > data.size or not _is_name(data, at + 4):
            return False
        if (name == _HEADER) != (at == 8):  # the first chunk, and no other
            return False
        if name == _END:
            return found.parts > 0
        if name == _HEADER:
            if not _read_header(data, start, size, found):
                return False
        elif name == _PIXELS:
            if found.parts == 0:
                found.pixels = start
            elif not is_last:
                return False
            found.parts += 1
            found.bytes += size
        elif name == _PALETTE:
            late = found.palette[1] != 0 or found.transparency[1] != 0 or found.parts != 0
            if late or size == 0 or size % 3 != 0 or size > 3 * _COLORS or not _has_crc(data, start, size):
                return False
            found.palette[0], found.palette[1] = start, size
        elif name == _TRANSPARENCY:
            late = found.transparency[1] != 0 or found.parts != 0 or (found.color == PALETTE and found.palette[1] == 0)
            fits = 0 < size <= _COLORS if found.color == PALETTE else size == 2 * _SAMPLES[found.color]
            if late or not fits or not _has_crc(data, start, size):
                return False
            found.transparency[0], found.transparency[1] = start, size
        else:
            found.others += 1
        is_last = name == _PIXELS
        at += _FRAME + size
    return False


@cached_jit("none(uint8[::1], PNG[::1])", nogil=False, PNG=PNG)
def read_chunks(data, found):
    """Fill the record of a PNG file, ``found`` (1,)."""
    one = found[0]
    one.regular = 1 if _read_all(data, one) and (one.color != PALETTE or one.palette[1] != 0) else 0


@cached_jit("int64(uint8[::1], PNG[::1], int64, uint8[::1])", nogil=False, PNG=PNG)
def gather(data, found, check, out):
    """Fill ``out`` with the bodies of all IDAT chunks.

    With ``check`` 1 return 0 where the checksum of one of them, or of a chunk after them, is wrong: its name may be
    what is damaged.
    """
    start, to = found[0].pixels, 0
    while True:
        size, name = _big(data, start - 8), _big(data, start - 4)
        if check != 0 and not _has_crc(data, start, size):
            return 0
        if name == _PIXELS:
            copy(data[start : start + size], out[to : to + size])
            to += size
        elif name == _END or check == 0:
            return 1
        start += size + _FRAME
