"""Huffman codes of JPEGs for CUDA kernels: reading bits, looking up codes, and the states of a decoder.

A decoder's state is the next bit, the place in the MCU, and the index ``k`` of the last coefficient of the block. Each
block has two places, for its DC and its AC coefficients: an index in ``SET.state``, whose element has the table.
"""

from numba import cuda

from ..jpeg.tables import advance_of, is_legal
from ..jpeg.upload import CODE_WORDS, IN_CODE, IN_SET, SET_WORDS, SLOTS
from ..scalar import i32, scalar, u32, u64, up, word

LAST = 63  # index of a block's last coefficient
AC = SLOTS // 2  # tables from this one on are for AC coefficients


# -- bits --------------------------------------------------------------------------------------------------------------


@scalar
def _swapped(x):
    """Return a 32-bit word with its bytes reversed: the first byte in memory becomes the highest."""
    x = u32(x)
    return u32(
        u32(x << u32(24))
        | u32(u32(x & u32(0xFF00)) << u32(8))
        | u32(u32(x >> u32(8)) & u32(0xFF00))
        | u32(x >> u32(24))
    )


@scalar
def stream_at(words, begin, shift):
    """Return the bits read ahead after ``shift`` bits, 0 to 31, of a word, the first bit on top.

    Also their number, the next word, and the offset of the word after that.
    """
    bits = u64(u64(_swapped(word(words, begin, 0))) << u64(32) | u64(_swapped(word(words, begin, 1)))) << u64(shift)
    return bits, i32(64 - shift), _swapped(word(words, begin, 2)), i32(begin + 3)


@scalar
def refilled(words, bits, left, ahead, at):
    """Return what :func:`stream_at` does, with one more word; fewer than 32 bits must be left."""
    bits |= u64(u64(ahead) << u64(32 - left))
    return bits, i32(left + 32), _swapped(word(words, at, 0)), i32(at + 1)


# -- codes -------------------------------------------------------------------------------------------------------------


@scalar
def entry_of(codes, table, bits, length, longest):
    """Return the table entry for the code at the top of ``bits``, of ``length`` to ``longest`` bits.

    0 if no code matches, -1 for a code that no valid file has. Layout of an entry: bits of code and value in 0-7, the
    advance of the coefficient index in 8-15, bits of the code in 16-23, bits of the value in 24-31.
    """
    at = i32(IN_SET.codes + table * CODE_WORDS - 1)
    code = i32(bits >> u32(32 - length))
    while length <= longest and code >= codes[up(at + IN_CODE.limits + length)]:
        length = i32(length + 1)
        code = i32(bits >> u32(32 - length))
    if length > longest:
        return i32(0)
    number = i32(code + codes[up(at + IN_CODE.starts + length)])
    symbol = i32(codes[up(at + 1 + IN_CODE.symbols + (number >> 2))] >> i32(8 * (number & 3))) & i32(255)
    size = i32(symbol & 15)
    advance = i32(0)
    if table >= AC:
        if not is_legal(size):
            return i32(-1)
        advance = i32(advance_of(i32(symbol >> 4), size))
    return i32(i32(length + size) | i32(advance << 8) | i32(length << 16) | i32(size << 24))


def tables_loader(bits, threads, made):
    """Return a function that fills a block's tables, for ``bits`` looked up at once, with ``made(entry, table)``."""

    @scalar
    def load(words, first, codes, fast):
        """Copy a SET from the word ``first`` to ``codes``, and fill the table ``fast``; wait for the other threads."""
        k = i32(cuda.threadIdx.x)
        while k < SET_WORDS:
            codes[up(k)] = word(words, first, k)
            k = i32(k + threads)
        cuda.syncthreads()
        k = i32(cuda.threadIdx.x)
        while k < SLOTS << bits:
            table = i32(k >> bits)
            if (codes[IN_SET.used] >> table) & 1:
                fast[up(k)] = made(entry_of(codes, table, u32(u32(k) << u32(32 - bits)), i32(1), bits), table)
            k = i32(k + threads)
        cuda.syncthreads()

    return load


@scalar
def value_of(bits, size):
    """Return the coefficient that the top ``size`` bits encode."""
    low = u32(u32(bits >> u32(1)) >> u32(31 - size))
    less = i32(u32(u32(u32(0xFFFFFFFF) << u32(size)) + u32(1)))
    return i32(i32(low) + i32(i32(~(i32(bits) >> 31)) & less))


# -- states ------------------------------------------------------------------------------------------------------------


@scalar
def following(codes, states, place, k):
    """Return whether a symbol ends its block, the next block's or this one's place for DC, the next state, and ``k``.

    ``place`` is that of the block's DC coefficient, of ``states`` places; ``k`` the index of the symbol's coefficient.
    """
    done = i32(1) if k >= LAST else i32(0)
    place = i32(place + i32(done << 1))
    place = place if place < states else i32(0)
    return done, place, codes[up(IN_SET.state + place + 1 - done)], i32(0) if done else k
