"""The tables of Huffman codes of recoded JPEGs, by which masks are coded: sets for files of different densities.

They are part of the format and never change; kernels/jpeg/RECODED.md says how they were trained. A set has tables for
heads and for rows 0 to 7 of masks; the tables of a file are a set of luma and, after it, one of chroma. Codes are
canonical: in the order of their lengths, those of one length in the order of their symbols, the first one all zeros.
"""

import lzma
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..kept import kept

SETS: Final = 12  # of tables for luma, and as many for chroma
BOOKS: Final = 18  # tables of a file
BOOK_BITS: Final = 10  # of the longest code
#: Lengths of codes in bytes: of 12 sets, the tables of luma and of chroma, 9 each, of 256 symbols.
FILE: Final = Path(__file__).with_name("books.xz")


@cache
def lengths() -> Any:
    """Return the lengths of codes, (SETS, 2, BOOKS / 2, 256) uint8; 0 for symbols that do not occur."""
    return np.frombuffer(lzma.decompress(FILE.read_bytes()), np.uint8).reshape(SETS, 2, BOOKS // 2, 256)


@cache
def codes(luma: int, chroma: int) -> Any:
    """Return the codes of a set for luma and one for chroma, (BOOKS, 256) int64: code << 4 | length."""
    chosen = np.concatenate([lengths()[luma, 0], lengths()[chroma, 1]])
    found = np.zeros(chosen.shape, np.int64)
    for book, sizes in zip(found, chosen, strict=True):
        code = 0
        for size in range(1, BOOK_BITS + 1):
            for symbol in np.flatnonzero(sizes == size):
                book[symbol] = code << 4 | size
                code += 1
            code <<= 1
    return found


@kept
def books() -> Any:
    """Return look-up tables by the next BOOK_BITS bits, (SETS, BOOKS, 1 << BOOK_BITS) uint16: symbol << 8 | length."""
    order = np.argsort(np.where(lengths() == 0, 255, lengths()), axis=-1, kind="stable")
    found = np.zeros((SETS * BOOKS, 1 << BOOK_BITS), np.uint16)
    for out, symbols, sizes in zip(found, order.reshape(-1, 256), lengths().reshape(-1, 256), strict=True):
        sizes = sizes[symbols].astype(np.int64)
        repeats = np.where(sizes, 1 << (BOOK_BITS - sizes), 0)
        out[:] = np.repeat(symbols << 8 | sizes, repeats)
    return found
