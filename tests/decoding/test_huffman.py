"""Huffman codes of every length, with coefficients of every size: Pillow's pixels bit for bit."""

from itertools import islice
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gpuimg as gi
from gpuimg.kernels.jpeg import layout as words
from gpuimg.kernels.jpeg.layout import BITS, LONGEST

from .jpegs import Decoder, assert_pillows, upright_pixels
from .progressive_jpegs import Coding, Picture, Scan, Table, baseline, written

Blocks = NDArray[np.int64]  # (N, 64) coefficients in the order of the file

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


def coding(rng: np.random.Generator, dc: str, ac: str) -> Coding:
    """Tables of these lengths, of all symbols in any order; the codes by the procedure of T.81, C.2."""

    def table(used: Any, of_ac: bool) -> Table:
        lengths, every = (AC_LENGTHS[ac], {*AC_SYMBOLS, *used}) if of_ac else (DC_LENGTHS[dc], DC_SYMBOLS)
        symbols = rng.permutation(sorted(every)).tolist()
        counts = [*lengths, len(symbols) - sum(lengths)] + [0] * (LONGEST - 1 - len(lengths))
        codes, code, left = {}, 0, iter(symbols)
        for length, count in enumerate(counts, 1):
            for symbol in islice(left, count):
                codes[symbol] = code, length
                code += 1
            code <<= 1
        return bytes((*counts, *symbols)), codes

    return table


def file(rng: np.random.Generator, rows: int, columns: int, factors: tuple[int, ...], dc: str, ac: str) -> bytes:
    shapes = [(rows * (one & 15), columns * (one >> 4)) for one in factors]
    blocks = tuple(some_blocks(rng, h * w).reshape(h, w, 64) for h, w in shapes)
    down, across = shapes[0]
    return baseline(Picture(8 * down, 8 * across, factors, blocks), coding=coding(rng, dc, ac))


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
    for factors in ((0x11,), (0x11,) * 3, (0x22, 0x11, 0x11)) * 2:
        data = file(rng, 4, 6, factors, dc, ac)
        for decoder in decoders:
            assert_pillows(decoder, data, scales=(8,))


def test_the_longest_symbols_in_a_row(decoders: tuple[Decoder, Decoder]) -> None:
    """31 bits of a DC coefficient and 26 of the next one, from each bit of a byte: a refill yields 56."""
    rng = np.random.default_rng(0)
    blocks = np.zeros((64, 64), np.int64)
    blocks[:, 0] = np.where(np.arange(64) % 2, -16383, 16383)
    blocks[:, 1:3] = rng.choice([-1023, -512, 512, 1023], (64, 2))
    image = Picture(64, 64, (0x11,), (blocks.reshape(8, 8, 64),))
    data = baseline(image, coding=coding(rng, "longest", "longest"))
    assert_pillows(decoders[0], data)


def with_large_coefficients(ac: str) -> list[tuple[int, bytes, bytes]]:
    files = []
    for size in range(9, 16):
        blocks = np.zeros((1, 2, 64), np.int64)
        blocks[0, :, 0], blocks[0, 0, 3] = 9, (1 << size) - 1
        image = Picture(8, 16, (0x11,), (blocks,))
        tables, scans = coding(np.random.default_rng(size), "of a look-up", ac), [(0, 0), (1, 63)]
        progressive = written(image, [Scan((0,), *band, 0, 0) for band in scans], coding=tables)
        files.append((size, baseline(image, coding=tables), progressive))
    return files


@pytest.mark.parametrize("ac", AC_LENGTHS)
def test_ac_coefficients_have_ten_bits(ac: str, decoders: tuple[Decoder, Decoder]) -> None:
    """Those of more are left to Pillow, or have its pixels."""
    for size, data, progressive in with_large_coefficients(ac):
        assert decoders[0](data).how == (words.DONE if size <= 10 else words.BAD_CODE), size
        for one in (data, progressive):
            np.testing.assert_array_equal(gi.decode_image(one, device="cpu"), upright_pixels(one), err_msg=str(size))
