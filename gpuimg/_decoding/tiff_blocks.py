"""Strips and tiles of a TIFF file, unpacked.

Formats: TIFF 6.0, sections 9 (PackBits), 13 (LZW) and 14 (differences); Adobe's Deflate and libtiff's LZMA.
"""

from __future__ import annotations

import lzma
import zlib
from typing import Any, NamedTuple

import numpy as np

_LZW, _PACK_BITS, _LZMA = 5, 32773, 34925
_DEFLATE = (8, 32946)
#: Compressions that are undone here.
UNPACKED = {_LZW, _PACK_BITS, _LZMA, *_DEFLATE}
_LZMA_MEMORY = 64_000_000  # bytes; that of its strongest preset


class Blocks(NamedTuple):
    """The strips or tiles of an image, and how they are packed."""

    height: int  # of a whole one
    width: int
    row: int  # bytes of a row
    samples: int  # in a pixel of a block
    sample_bits: int
    last_rows: int  # of the last strip
    offsets: tuple[int, ...]
    counts: tuple[int, ...]
    compression: int
    predictor: int
    order: str


def unpacked(data: bytes, blocks: Blocks, k: int, size: int) -> Any:
    """Strip or tile number ``k``, which must have ``size`` bytes.

    Raises
    ------
    ValueError
        Where it has less, or is damaged.
    """
    packed = memoryview(data)[blocks.offsets[k] : blocks.offsets[k] + blocks.counts[k]]
    try:
        block = _unpack(packed, blocks.compression, size)
    except (zlib.error, lzma.LZMAError) as error:
        raise ValueError(f"strip or tile {k}: {error}") from None
    if len(block) < size:
        raise ValueError(f"strip or tile {k} of {len(blocks.offsets)} has {len(block)} bytes of {size}")
    return block if blocks.predictor == 1 else _summed(block, blocks)


def _unpack(packed: memoryview, compression: int, size: int) -> Any:
    if compression in _DEFLATE:
        return _inflated(packed, size)
    if compression == _LZMA:
        return lzma.LZMADecompressor(memlimit=_LZMA_MEMORY).decompress(packed, size)
    from ..kernels import tiff  # imports Numba, which takes as long as all of gpuimg

    source, out = np.frombuffer(packed, np.uint8), np.empty(size, np.uint8)
    if compression == _PACK_BITS:
        return out[: tiff.unpack_bits(source, out)]
    starts, lengths = np.empty(tiff.TABLE, np.int64), np.empty(tiff.TABLE, np.int64)
    done = tiff.unpack_lzw(source, starts, lengths, out)
    if done < 0:
        raise ValueError("a code of its LZW data means nothing")
    return out[:done]


def _inflated(packed: memoryview, size: int) -> bytes:
    stream = zlib.decompressobj()
    block = stream.decompress(packed, size)
    stream.decompress(stream.unconsumed_tail, 1)  # up to the checksum
    return block


def _summed(block: Any, blocks: Blocks) -> Any:
    """Values of differences to the pixel on the left."""
    kind = np.dtype(f"{blocks.order}u{blocks.sample_bits // 8}")
    differences = np.frombuffer(block, kind).reshape(-1, blocks.width, blocks.samples)
    return np.cumsum(differences, 1, kind.newbyteorder("=")).astype(kind, copy=False)
