"""Philox4x64-10, the counter-based generator of Salmon et al. (2011), as in ``numpy.random.Philox``."""

import numpy as np

from .compiled import cached_jit
from .lang import njit
from .scalar import f64

u64 = np.uint64

_MULTIPLIER_0 = u64(0xD2E7470EE14C6C93)
_MULTIPLIER_1 = u64(0xCA5A826395121157)
_WEYL_0 = u64(0x9E3779B97F4A7C15)
_WEYL_1 = u64(0xBB67AE8584CAA73B)
_LOW = u64(0xFFFFFFFF)
_HALF = u64(32)
_ROUNDS = 10

# Rounds of the shuffle. With 12 the 720 orders of 6 samples are measurably not equally likely; with 24 they are.
_SHUFFLE_ROUNDS = 24


@njit(forceinline=True)
def _high(a, b):
    """Return the upper 64 bits of a product."""
    # Four products of 32 x 32 bits: Numba has no 128-bit integers. No sum below overflows.
    a_low, a_high = a & _LOW, a >> _HALF
    b_low, b_high = b & _LOW, b >> _HALF
    middle = a_high * b_low + ((a_low * b_low) >> _HALF)
    other = a_low * b_high + (middle & _LOW)
    return a_high * b_high + (middle >> _HALF) + (other >> _HALF)


@njit(forceinline=True)
def _block(k0, k1, c0, c1, c2, c3):
    """Return the four 64-bit words of one key and one counter."""
    for _ in range(_ROUNDS):
        high_0, low_0 = _high(_MULTIPLIER_0, c0), _MULTIPLIER_0 * c0
        high_1, low_1 = _high(_MULTIPLIER_1, c2), _MULTIPLIER_1 * c2
        c0, c1, c2, c3 = high_1 ^ c1 ^ k0, low_1, high_0 ^ c3 ^ k1, low_0
        k0 += _WEYL_0
        k1 += _WEYL_1
    return c0, c1, c2, c3


@cached_jit("none(uint64, uint64, uint64, uint64[::1], uint64, uint64[::1], uint64[:, ::1])", nogil=False)
def philox_words(key_0, key_1, draw, indices, stream, views, out):
    """Fill ``out`` (N, 4 B) with the blocks of the counters (block + 2**32 view, draw, index, stream), all uint64."""
    for i in range(len(indices)):
        for block in range(out.shape[1] // 4):
            words = out[i, 4 * block : 4 * block + 4]
            words[0], words[1], words[2], words[3] = _block(
                key_0, key_1, (views[i] << u64(32)) + u64(block), draw, indices[i], stream
            )


@cached_jit("none(uint64[:, ::1], float64[:, ::1])", nogil=False)
def to_units(words, out):
    """Fill ``out`` with numbers in [0, 1) from the upper 53 bits of words."""
    for i in range(len(words)):
        for k in range(words.shape[1]):
            out[i, k] = f64(words[i, k] >> u64(11)) * 2.0**-53


@cached_jit("none(uint64, uint64, uint64, uint64, uint64[::1], uint64[::1])")
def shuffle(key_0, key_1, stream, n, positions, out):
    """Fill ``out`` with the places of ``positions`` in a pseudo-random order of the numbers below ``n``; all uint64.

    A Feistel network over pairs (left, right) of numbers below ``a`` and ``b``, where a * b is ``n`` or a little more,
    with the generator as its round function. Numbers that map to ``n`` or above are mapped again (Black and Rogaway,
    "Ciphers with arbitrary finite domains", 2002), which keeps it a permutation.
    """
    a = u64(2)  # even: with both sides odd, only even permutations of the pairs would come up
    while a * a < n:
        a += u64(2)
    b = (n + a - u64(1)) // a
    for i in range(len(positions)):
        x = positions[i]
        while True:
            left, right = x // b, x % b
            for k in range(_SHUFFLE_ROUNDS):
                if k % 2 == 0:
                    left = (left + _block(key_0, key_1, u64(k), right, n, stream)[0] % a) % a
                else:
                    right = (right + _block(key_0, key_1, u64(k), left, n, stream)[0] % b) % b
            x = left * b + right
            if x < n:
                break
        out[i] = x
