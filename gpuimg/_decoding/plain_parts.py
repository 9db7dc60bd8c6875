"""Headers of PNM and BMP files, which store pixels uncompressed.

Formats: netpbm's pbm, pgm and ppm; BMP with headers of 12 bytes (OS/2) and of 40 and more (Windows).
"""

import math
import re
import struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .decoder import PillowHeader, RefusedError

_SPACE = rb"(?:\s|#[^\r\n]*+[\r\n])++"
_PNM = re.compile(
    rb"P(?:[14]%(s)s(\d{1,9})%(s)s(\d{1,9})|[2356]%(s)s(\d{1,9})%(s)s(\d{1,9})%(s)s(\d{1,9}))(\s)" % {b"s": _SPACE}
)
_COMMENT, _NUMBERS = re.compile(rb"#[^\r\n]*"), re.compile(rb"(?:\s*+\d{1,9}+(?!\d))*+\s*+")
# Larger images are refused: Pillow unpacks run lengths in a Python loop over all pixels.
MAX_RLE_PIXELS = 1 << 24
_RGB, RLE, _FIELDS = 0, (1, 2), 3
_PACKINGS = {_RGB: (1, 4, 8, 16, 24, 32), 1: (8,), 2: (4,), _FIELDS: (16, 32)}  # bits by compression
_OS2, _OS2_V2 = 12, 64
_BMP_SIZES = (_OS2, 40, 52, 56, _OS2_V2, 108, 124)  # of headers


def pnm_contents(data: bytes) -> PillowHeader:
    """Read the header of a PNM file, which may contain comments."""
    found = _PNM.match(data)
    if not found:
        raise ValueError("the header is truncated or damaged")
    kind = data[1] - ord("0")
    numbers = [int(number) for number in found.groups()[:5] if number is not None]
    width, height, white = numbers if len(numbers) == 3 else (*numbers, 1)
    if not 1 <= white <= 0xFFFF:
        raise ValueError(f"the largest value is {white}")
    channels = 3 if kind in (3, 6) else 1
    row = (width + 7) // 8 if kind == 4 else width * channels * (1 + (white > 0xFF))
    if kind > 3 and len(data) - found.end() < row * height:
        raise ValueError(f"the data ends in row {(len(data) - found.end()) // max(row, 1)} of {height}")
    header = b"P%d %s\n" % (kind, b" ".join(b"%d" % number for number in numbers))
    return PillowHeader(
        height, width, channels, [header, memoryview(data)[found.end() :]], depth=16 if white > 0xFF else 8
    )


def pnm_values(contents: PillowHeader) -> tuple[NDArray[Any], int] | None:
    """Return the values (H, W, C) of a gray or color file, as stored, and its largest one; None for black and white."""
    header, body = contents.parts
    kind, *numbers = bytes(header).split()
    shape = contents.height, contents.width, contents.channels
    if kind in (b"P1", b"P4"):
        return None
    white, count = int(numbers[2]), math.prod(shape)
    if kind in (b"P5", b"P6"):
        return np.frombuffer(body, ">u2" if white > 0xFF else "u1", count).reshape(shape), white
    text = _COMMENT.sub(b" ", body)
    if not _NUMBERS.fullmatch(text):
        raise ValueError("its values are not decimal numbers")
    values = np.fromstring(text, np.int32, sep=" ")[:count]
    if len(values) < count:
        raise ValueError(f"the data ends after {len(values)} of {count} values")
    if values.max() > white:
        raise ValueError(f"a value of {values.max()}, over the largest of {white}")
    return values.astype(np.uint16).reshape(shape), white


def pnm_pixels(values: NDArray[Any], white: int) -> NDArray[np.uint8]:
    """Return values scaled to a maximum of 255; those above ``white`` are white.

    16-bit gray is scaled to 65535 and reduced to its upper byte, and 16-bit color to 255, as Pillow does.
    """
    if white == 0xFF:
        return values.astype(np.uint8, copy=False)
    top = 0xFFFF if white > 0xFF and values.shape[2] == 1 else 0xFF
    table = np.rint(np.arange(white + 1) / white * top).astype(np.uint16) >> (8 if top > 0xFF else 0)
    pixels: NDArray[np.uint8] = table.astype(np.uint8)[np.minimum(values, white)]
    return pixels


class Bmp(NamedTuple):
    """How the pixels of a BMP file are stored."""

    bits: int  # per pixel
    packing: int
    first: int  # byte of the top row
    step: int  # bytes from a row to the next below
    palette: NDArray[np.uint8]  # (256, 1) or (256, 3) for up to 8 bits; colors that it lacks are black
    masks: tuple[int, ...]  # of red, green, blue and alpha, for 16 and 32 bits


def bmp_contents(data: bytes) -> PillowHeader:
    """Read the header of a BMP file."""
    start, size = struct.unpack_from("<II", data, 10)
    if size not in _BMP_SIZES:
        raise RefusedError(f"a header of {size} bytes is not supported")
    packing, used = _RGB, 0
    if size == _OS2:
        width, height, _, bits = struct.unpack_from("<4H", data, 18)
    else:
        width, height, _, bits, packing, _, _, _, used = struct.unpack_from("<iiHHIIiiI", data, 18)
    rows, end = abs(height), 14 + size
    if min(width, rows) < 1:
        raise ValueError(f"size {rows} x {width}")
    if bits not in _PACKINGS.get(packing, ()) or (size == _OS2_V2 and packing == _FIELDS):
        raise RefusedError(f"{bits} bits per pixel with compression {packing} are not supported")
    if packing in RLE and height < 0:
        raise RefusedError("run lengths from the top row down are not supported")
    if packing in RLE and width * rows > MAX_RLE_PIXELS:
        raise RefusedError(f"{width * rows} run-length encoded pixels, over the limit of {MAX_RLE_PIXELS}")
    usual = {16: (0x7C00, 0x3E0, 0x1F, 0), 32: (0xFF0000, 0xFF00, 0xFF, 0)}
    masks: tuple[int, ...] = usual.get(bits, ())
    if packing == _FIELDS:
        masks = (*struct.unpack_from("<3I", data, 54), *struct.unpack_from("<I", data, 66) * (size > 52))
        end += 12 * (size == 40)
        if not all(_is_field(mask, bits) for mask in masks[:3]) or (any(masks[3:]) and not _is_field(masks[3], bits)):
            raise RefusedError(f"bit fields of {', '.join(f'{mask:#x}' for mask in masks)} are not supported")
    palette = np.zeros((256, 3), np.uint8)
    if bits <= 8:
        each = 3 if size == _OS2 else 4
        count = min(used or 1 << bits, 1 << bits)
        table = np.frombuffer(data, np.uint8, each * count, end).reshape(count, each)
        palette[:count] = table[:, 2::-1]
        if (palette == palette[:, :1]).all():
            palette = palette[:, :1]
        after = end + each * (used or 1 << bits)
        start = after if start in (0, end) else start
    if 0 < start < end:
        raise ValueError(f"its pixels begin at byte {start}, within its header of {end}")
    start, stride = start or end, (width * bits + 31) // 32 * 4
    if packing not in RLE and len(data) < start + stride * rows:
        raise ValueError(f"image file is truncated: {len(data)} of {start + stride * rows} bytes")
    first, step = (start, stride) if height < 0 else (start + (rows - 1) * stride, -stride)
    layout = Bmp(bits, packing, first if packing not in RLE else start, step, palette, masks)
    return PillowHeader(rows, width, palette.shape[1] + any(masks[3:]), [data], depth=min(bits, 8), layout=layout)


def _is_field(mask: int, bits: int) -> bool:
    """Return True for up to 8 bits that follow each other."""
    low = mask & -mask
    return 0 < mask < 1 << bits and (mask + low) & mask == 0 and mask // low < 256


def bmp_pixels(data: bytes, header: PillowHeader) -> NDArray[np.uint8]:
    """Return the pixels (H, W, C) of a file, or its indices (H, W); small fields are scaled as Pillow does."""
    height, width, layout = header.height, header.width, header.layout
    stored = np.frombuffer(data, np.uint8)
    if layout.bits == 24:
        from ..kernels.gray import colors_of_rows  # imports Numba: only when it is used

        pixels = np.empty((height, width, 3), np.uint8)
        colors_of_rows(stored, layout.first, layout.step, pixels.reshape(height, -1))
        return pixels
    stride = abs(layout.step)
    start = min(layout.first, layout.first + (height - 1) * layout.step)
    rows = stored[start : start + height * stride].reshape(height, stride)[:: 1 if layout.step > 0 else -1]
    if layout.bits <= 8:
        if layout.bits < 8:
            shifts = np.arange(8 - layout.bits, -1, -layout.bits, dtype=np.uint8)
            rows = (rows[..., None] >> shifts & (1 << layout.bits) - 1).reshape(height, -1)
        return rows[:, :width]
    words = np.ascontiguousarray(rows).view(f"<u{layout.bits // 8}")[:, :width]
    masks = layout.masks[: 3 + (header.channels > 3)]
    fields = [(words & mask) // (mask & -mask) * 255 // (mask // (mask & -mask)) for mask in masks]
    return np.stack(fields, 2).astype(np.uint8)


def with_palette(palette: NDArray[np.uint8], indices: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the pixels (H, W, C) of a palette (256, C) of 1 or 3 channels."""
    from ..kernels.gray import colors_of_words  # imports Numba: only when it is used

    if palette.shape[1] == 1:
        is_identity = np.array_equal(palette[:, 0], np.arange(256))
        return (indices if is_identity else palette[:, 0].take(indices, mode="wrap"))[..., None]
    words = np.pad(palette, ((0, 0), (0, 1))).view("<u4")[:, 0].take(indices, mode="wrap")
    pixels = np.empty((*indices.shape, 3), np.uint8)
    colors_of_words(words.reshape(-1).view(np.uint8), pixels.reshape(-1))
    return pixels


def bmp_with_runs(data: bytes, header: PillowHeader) -> bytes:
    """Return a file with the same run lengths, and a palette that Pillow does not take for gray."""
    layout = header.layout
    head = struct.pack("<2sI4xIIiiHHIIiiII", b"BM", 0, 54 + 1024, 40, header.width, header.height, 1, layout.bits,
                       layout.packing, 0, 0, 0, 256, 0)  # fmt: skip
    return head + b"\1\2\3\0" * 256 + data[layout.first :]
