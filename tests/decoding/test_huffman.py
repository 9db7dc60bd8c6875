"""Huffman codes of every length, with coefficients of every size: Pillow's pixels bit for bit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from gpuimg.kernels.jpeg.layout import BITS, LONGEST

from .jpegs import DHT, DQT, SOS, Decoder, assert_pillows, joined

Blocks = NDArray[np.int64]  # (N, 64) coefficients in the order of the file
Codes = dict[int, str]  # bits of each symbol

DC_SYMBOLS = tuple(range(16))  # of 8-bit samples up to 11, and no decoder refuses the others
AC_SYMBOLS = (0x00, 0xF0, *(run << 4 | size for run in range(16) for size in range(1, 11)))

# Codes of each length, from 1 bit on: a few symbols are left for the last one.
DC_LENGTHS = {
    "every length": (0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1),
    "shortest": (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0),
    "of a look-up": (0,) * (BITS - 1),
    "longest": (0,) * (LONGEST - 1),
}
AC_LENGTHS = {
    "every length": (0, 1, 1, 1, 1, 1, 1, 1, 1, 20, 30, 20, 20, 20, 20),
    "shortest": (0, 1, 1, 1, 1, 1, 1, 0, 0, 50, 50),
    "alike": (0, 0, 0, 0, 0, 0, 90),
    "of a look-up": (0, 0, 0, 0, 0, 0, 0, 0, 80),
    "longest": (0,) * (LONGEST - 1),
}


def table(number: int, lengths: Sequence[int], symbols: Sequence[int]) -> tuple[bytes, Codes]:
    """A Huffman table's segment, and the codes by the procedure of T.81, C.2."""
    counts = [*lengths, len(symbols) - sum(lengths)] + [0] * (LONGEST - 1 - len(lengths))
    codes, code, at = {}, 0, 0
    for length, count in enumerate(counts, 1):
        for symbol in symbols[at : at + count]:
            codes[symbol] = f"{code:0{length}b}"
            code += 1
        at += count
        code <<= 1
    return bytes((number, *counts, *symbols)), codes


def value_bits(value: int) -> str:
    """T.81, F.1.2.1: negative numbers are one less, without their upper bits."""
    size = abs(value).bit_length()
    return f"{value if value > 0 else value + (1 << size) - 1:0{size}b}" if size else ""


def block_bits(difference: int, block: NDArray[np.int64], dc: Codes, ac: Codes) -> str:
    """A block's bits; no end of block follows the last coefficient."""
    bits = dc[abs(difference).bit_length()] + value_bits(difference)
    before = 0
    for at in (np.flatnonzero(block[1:]) + 1).tolist():
        run, value = at - before - 1, int(block[at])
        bits += ac[0xF0] * (run // 16) + ac[run % 16 << 4 | abs(value).bit_length()] + value_bits(value)
        before = at
    return bits if before == 63 else bits + ac[0x00]


def written(rng: np.random.Generator, blocks: Blocks, columns: int, across: int, dc: str, ac: str) -> bytes:
    """A file of MCUs: of one component, of three (``across`` 1), or of three with 2 x 2 blocks of luma (2)."""
    components = 1 if across == 0 else 3
    of_luma = max(across, 1) ** 2
    per = of_luma + components - 1
    side = 8 * max(across, 1)
    height, width = side * (len(blocks) // per // columns), side * columns
    both, parts = [], []
    for number in range(min(components, 2)):  # tables of luma, and of both components of chroma
        for kind, lengths, symbols in ((0, DC_LENGTHS[dc], DC_SYMBOLS), (16, AC_LENGTHS[ac], AC_SYMBOLS)):
            part, codes = table(kind | number, lengths, rng.permutation(symbols).tolist())
            parts.append((DHT, part))
            both.append(codes)
    predictors, bits = [0, 0, 0], []
    for k, block in enumerate(blocks):
        c = max(k % per - of_luma + 1, 0)
        first = 2 * min(c, 1)
        bits.append(block_bits(int(block[0]) - predictors[c], block, both[first], both[first + 1]))
        predictors[c] = int(block[0])
    stream = "".join(bits)
    stream += "1" * (-len(stream) % 8)
    scan = int(stream, 2).to_bytes(len(stream) // 8, "big").replace(b"\xff", b"\xff\0")
    frame = b"".join(bytes((c + 1, 17 * max(across, 1) if c == 0 else 17, 0)) for c in range(components))
    tables = b"".join(bytes((c + 1, 17 * min(c, 1))) for c in range(components))
    return joined(
        [
            (DQT, b"\0" + b"\1" * 64),
            (0xC0, b"\x08" + height.to_bytes(2, "big") + width.to_bytes(2, "big") + bytes((components,)) + frame),
            *parts,
            (SOS, bytes((components,)) + tables + b"\0\x3f\0"),
        ],
        scan + b"\xff\xd9",
    )


def some_blocks(rng: np.random.Generator, count: int) -> Blocks:
    """Blocks with none, some or all of the coefficients, many of them the largest or smallest of their size."""
    sizes = rng.integers(1, 11, (count, 64))
    least, most = 1 << sizes - 1, (1 << sizes) - 1
    which = rng.integers(3, size=sizes.shape)
    values = np.where(which == 0, least, np.where(which == 1, most, rng.integers(least, most + 1)))
    values *= rng.choice([-1, 1], sizes.shape)
    values[rng.random(sizes.shape) > rng.choice([0, 0.02, 0.1, 0.5, 1], (count, 1))] = 0
    limit = 1024 if rng.random() < 0.5 else 16384
    values[:, 0] = rng.choice([-limit, limit - 1, 0, -1, 1, *rng.integers(-limit, limit, 3)], count)
    return values


@pytest.mark.parametrize("ac", AC_LENGTHS)
@pytest.mark.parametrize("dc", DC_LENGTHS)
def test_codes_of_every_length(dc: str, ac: str, decoders: tuple[Decoder, Decoder]) -> None:
    rng = np.random.default_rng([*DC_LENGTHS].index(dc) * len(AC_LENGTHS) + [*AC_LENGTHS].index(ac))
    for k in range(6):
        across = k % 3
        per = (1, 3, 6)[across]
        blocks = some_blocks(rng, 24 * per)
        data = written(rng, blocks, 6, across, dc, ac)
        for decoder in decoders:
            assert_pillows(decoder, data, scales=(8,))


def test_the_longest_symbols_in_a_row(decoders: tuple[Decoder, Decoder]) -> None:
    """31 bits of a DC coefficient and 26 of the next one, from each bit of a byte: a refill yields 56."""
    rng = np.random.default_rng(0)
    blocks = np.zeros((64, 64), np.int64)
    blocks[:, 0] = np.where(np.arange(64) % 2, -16383, 16383)
    blocks[:, 1:3] = rng.choice([-1023, -512, 512, 1023], (64, 2))
    data = written(rng, blocks, 8, 0, "longest", "longest")
    assert_pillows(decoders[0], data)
