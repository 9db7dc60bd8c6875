"""A small encoder of PNG files, written from the standard: any build, any filter in each row, any chunks."""

import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuimg._decoding.options import DecodeOptions

from ..samples import png_chunk

SIGNATURE = b"\x89PNG\r\n\x1a\n"
#: Colors of the header, by name: their number, values of a pixel, and depths.
COLORS = {
    "gray": (0, 1, (1, 2, 4, 8, 16)), "rgb": (2, 3, (8, 16)), "palette": (3, 1, (1, 2, 4, 8)),
    "gray and alpha": (4, 2, (8, 16)), "rgb and alpha": (6, 4, (8, 16)),
}  # fmt: skip
BUILDS = [(color, depth) for color, (_, _, depths) in COLORS.items() for depth in depths]
FILTERS = range(5)
#: Every use of channels and of transparency.
OPTIONS = [
    *(DecodeOptions(color) for color in ("rgb", "gray", "rgba", "graya")),
    *(DecodeOptions(color, alpha) for color in ("rgb", "gray") for alpha in ("black", "white")),
]


def packed_rows(values: NDArray[Any], bits: int, order: str = ">") -> list[bytes]:
    """Rows of values (H, W, C) as bytes: of 16 bits in this order, of fewer the highest bit first."""
    rows = values.reshape(len(values), -1)
    if bits == 16:
        return [row.astype(order + "u2").tobytes() for row in rows]
    each = (rows[..., None] >> np.arange(bits - 1, -1, -1)) & 1
    return [row.tobytes() for row in np.packbits(each.reshape(len(rows), -1).astype(np.uint8), -1)]


ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def paeth(a: Any, b: Any, c: Any) -> Any:
    """The standard's predictor, for arrays of the bytes to the left, above, and above to the left."""
    a, b, c = (np.asarray(values, np.int64) for values in (a, b, c))
    p = a + b - c
    to_a, to_b, to_c = abs(p - a), abs(p - b), abs(p - c)
    return np.where((to_a <= to_b) & (to_a <= to_c), a, np.where(to_b <= to_c, b, c))


def _filtered(rows: Sequence[bytes], size: int, filters: Sequence[int]) -> bytes:
    """Rows with filters, taken in turn; ``size`` bytes lie between neighbors."""
    out = []
    for y, row in enumerate(rows):
        x = np.frombuffer(row, np.uint8).astype(np.int64)
        b = np.frombuffer(rows[y - 1], np.uint8).astype(np.int64) if y else np.zeros_like(x)
        a, c = (np.concatenate([np.zeros(size, np.int64), values])[: len(x)] for values in (x, b))
        kind = filters[y % len(filters)]
        guess = (np.zeros_like(x), a, b, (a + b) // 2, paeth(a, b, c))[kind]
        out.append(bytes([kind]) + ((x - guess) % 256).astype(np.uint8).tobytes())
    return b"".join(out)


def encode(
    values: NDArray[Any], color: str, depth: int, filters: Sequence[int] = (0,), *, palette: bytes = b"",
    transparency: bytes = b"", chunks: Sequence[tuple[bytes, bytes]] = (), part: int = 1 << 30,
    interlaced: bool = False,
) -> bytes:  # fmt: skip
    """Encode values (H, W, C) of ``depth`` bits; ``part`` is the size of an IDAT chunk."""
    number, samples, _ = COLORS[color]
    height, width, count = values.shape
    assert count == samples
    passes = [values[y::down, x::across] for x, y, across, down in (ADAM7 if interlaced else [(0, 0, 1, 1)])]
    rows = [_filtered(packed_rows(one, depth), max(samples * depth // 8, 1), filters) for one in passes if one.size]
    packed = zlib.compress(b"".join(rows), 1)
    found = SIGNATURE + png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, number, 0, 0, interlaced))
    for name, body in (*chunks, (b"PLTE", palette), (b"tRNS", transparency)):
        found += png_chunk(name, body) if body else b""
    for at in range(0, len(packed), part):
        found += png_chunk(b"IDAT", packed[at : at + part])
    return found + png_chunk(b"IEND", b"")


def made(
    rng: np.random.Generator, height: int, width: int, color: str, depth: int, filters: Sequence[int], **options: Any
) -> bytes:
    """A file of this build, of noise that is smooth in places: every branch of a predictor is taken."""
    samples = COLORS[color][1]
    values = rng.integers(0, 1 << depth, (height, width, samples))
    flat = rng.random((height, width, 1)) < 0.5
    values = np.where(flat, values[:1, :1], values)
    if color == "palette" and "palette" not in options:
        options["palette"] = rng.bytes(3 * int(rng.integers(1, (1 << depth) + 1)))
    return encode(values, color, depth, filters, **options)
