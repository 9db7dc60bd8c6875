"""Noise of one pixel: random numbers that depend only on an image's seed and the pixel's position.

The generator is Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
The functions that turn its words into normal numbers are written out rather than taken from two mathematical libraries,
so that both runtimes return the same noise, and have no branches or tables, so that they vectorize.
"""

import math

import numpy as np

from .scalar import clamp, confine, f32, floor, i32, scalar

u32 = np.uint32
u64 = np.uint64

_ZERO = f32(0.0)
_HALF = f32(0.5)
_ONE = f32(1.0)
_TO_UNIT = f32(2.0**-24)
_HALF_PI = f32(0.5 * math.pi)

_MULTIPLIER_0 = u64(0xD2511F53)
_MULTIPLIER_1 = u64(0xCD9E8D57)
_WEYL_0 = u64(0x9E3779B9)
_WEYL_1 = u64(0xBB67AE85)
_ROUNDS = 10

_ROOT = i32(0x3F3504F3)  # the bits of the float32 root of 1/2
_OFFSET = i32(0x3F800000 - 0x3F3504F3)  # from there to the bits of 1


@scalar
def philox(c0, c1, c2, c3, k0, k1):
    """Return the four words of a counter and a key, all uint32."""
    for k in range(_ROUNDS):
        one = _MULTIPLIER_0 * u64(c0)
        other = _MULTIPLIER_1 * u64(c2)
        c0 = u32(u32(other >> u64(32)) ^ c1 ^ u32(u64(k0) + u64(k) * _WEYL_0))
        c2 = u32(u32(one >> u64(32)) ^ c3 ^ u32(u64(k1) + u64(k) * _WEYL_1))
        c1 = u32(other)
        c3 = u32(one)
    return c0, c1, c2, c3


@scalar
def unit_of(word):
    """Return a word as a number in [0, 1), a multiple of 2^-24."""
    return f32(i32(word >> u32(8))) * _TO_UNIT


@scalar
def log(x):
    """Return the natural logarithm of a positive normal number, as FreeBSD's ``e_logf.c``."""
    # x = 2^exponent (1 + f) with 1 + f between the roots of 1/2 and 2; ln(1 + f) by a polynomial in s = f / (2 + f).
    # The two last factors are ln 2 in two parts; the product of the exponent with the higher one is exact.
    bits = i32(f32(x).view(np.int32) + _OFFSET)
    exponent = f32(i32(bits >> i32(23))) - f32(127.0)
    f = i32(i32(bits & i32(0x007FFFFF)) + _ROOT).view(np.float32) - _ONE
    s = f / (f32(2.0) + f)
    z = s * s
    w = z * z
    odd = w * (f32(0.40000972152) + w * f32(0.24279078841))
    even = z * (f32(0.66666662693) + w * f32(0.28498786688))
    half = _HALF * f * f
    return s * (half + odd + even) + exponent * f32(9.0580006145e-06) - half + f + exponent * f32(0.69313812256)


@scalar
def cosine_and_sine(turns):
    """Return cosine and sine of an angle in [0, 1) turns, as Cephes' ``sinf.c``."""
    # The polynomials hold within an eighth of a turn, so the angle is taken from the nearest quarter; the quarter then
    # exchanges the two and sets their signs.
    quarters = turns * f32(4.0)
    quarter = floor(quarters + _HALF)
    x = (quarters - quarter) * _HALF_PI
    z = x * x
    sine = x + x * z * (f32(-1.6666654611e-1) + z * (f32(8.3321608736e-3) - z * f32(1.9515295891e-4)))
    tail = f32(4.166664568298827e-2) + z * (f32(-1.388731625493765e-3) + z * f32(2.443315711809948e-5))
    cosine = _ONE - _HALF * z + z * z * tail
    odd = quarter == _ONE or quarter == f32(3.0)
    one, other = (sine, cosine) if odd else (cosine, sine)
    flipped = quarter == _ONE or quarter == f32(2.0)
    below = quarter == f32(2.0) or quarter == f32(3.0)
    return -one if flipped else one, -other if below else other


@scalar
def normals_of(one, other):
    """Return two normal numbers from two words, by the method of Box and Muller; none exceeds 5.8 in size."""
    # 5.8 = sqrt(-2 ln 2^-24), from the smallest number that 1 - unit_of() can be.
    radius = math.sqrt(f32(-2.0) * log(_ONE - unit_of(one)))
    cosine, sine = cosine_and_sine(unit_of(other))
    return radius * cosine, radius * sine


@scalar
def _words(x, y, seed_0, seed_1):
    """Return the four random words of a pixel."""
    return philox(u32(i32(floor(x))), u32(i32(floor(y))), u32(0), u32(0), u32(i32(seed_0)), u32(i32(seed_1)))


@scalar
def noise(
    r, g, b, x, y, x0, y0, x1, y1, seed_0, seed_1, mean, scale, keep, uniform, colored, low, high
):  # fmt: skip
    """Return a pixel with noise added, or replaced by noise, if it lies in a rectangle.

    ``mean`` and ``scale`` are those of normal noise; ``uniform`` noise begins at ``mean`` and is ``scale`` wide.
    ``keep`` is the factor of the pixel, 1 or 0. Unless ``colored``, all channels get the same noise.
    """
    inside = x >= x0 and x < x1 and y >= y0 and y < y1
    w0, w1, w2, w3 = _words(x, y, seed_0, seed_1)
    n0, n1 = normals_of(w0, w1)
    n2, _ = normals_of(w2, w3)
    if uniform > _HALF:
        n0, n1, n2 = unit_of(w0), unit_of(w1), unit_of(w2)
    n1 = n1 if colored > _HALF else n0
    n2 = n2 if colored > _HALF else n0
    red = clamp(r * keep + mean + scale * n0, low, high)
    green = clamp(g * keep + mean + scale * n1, low, high)
    blue = clamp(b * keep + mean + scale * n2, low, high)
    return red if inside else r, green if inside else g, blue if inside else b


@scalar
def _impulse(x, word, salt, amount):
    drawn = unit_of(word)
    return x if drawn >= amount else _ONE if drawn < salt else _ZERO


@scalar
def salt_and_pepper(r, g, b, x, y, seed_0, seed_1, salt, amount, colored):
    """Return a pixel that is white with probability ``salt`` and black with the rest of ``amount``.

    Unless ``colored``, all channels are.
    """
    w0, w1, w2, _ = _words(x, y, seed_0, seed_1)
    w1 = w1 if colored > _HALF else w0
    w2 = w2 if colored > _HALF else w0
    return _impulse(r, w0, salt, amount), _impulse(g, w1, salt, amount), _impulse(b, w2, salt, amount)


@scalar
def normal_of(unit):
    """Return the normal number with a probability, a multiple of 2^-24, of those below; none exceeds 5.5 in size."""
    # Giles: "Approximating the erfinv function", GPU Computing Gems 2, 2011: two polynomials in the logarithm.
    x = unit + unit - _ONE + _TO_UNIT
    w = -log((_ONE - x) * (_ONE + x))
    a = w - f32(2.5)
    near = f32(3.43273939e-07) + f32(2.81022636e-08) * a
    near = f32(-4.39150654e-06) + (f32(-3.5233877e-06) + near * a) * a
    near = f32(-0.00125372503) + (f32(0.00021858087) + near * a) * a
    near = f32(0.246640727) + (f32(-0.00417768164) + near * a) * a
    near = f32(1.50140941) + near * a
    c = math.sqrt(w) - f32(3.0)
    far = f32(0.000100950558) + f32(-0.000200214257) * c
    far = f32(-0.00367342844) + (f32(0.00134934322) + far * c) * c
    far = f32(-0.0076224613) + (f32(0.00573950773) + far * c) * c
    far = f32(1.00167406) + (f32(0.00943887047) + far * c) * c
    far = f32(2.83297682) + far * c
    return f32(math.sqrt(2.0)) * x * (near if w < f32(5.0) else far)


@scalar
def _falling(x):
    """Return e to the power of minus ``x``, for 0 to 8: the 16th power of a Taylor polynomial of a 16th."""
    t = x * f32(-0.0625)
    tail = f32(1.0 / 120.0) + t * (f32(1.0 / 720.0) + t * f32(1.0 / 5040.0))
    one = _ONE + t * (_ONE + t * (_HALF + t * (f32(1.0 / 6.0) + t * (f32(1.0 / 24.0) + t * tail))))
    two = one * one
    four = two * two
    return four * four * (four * four)


_FEW = f32(8.0)  # from this mean on the expansion is as good as the sum
_TERMS = 28  # a number above has a probability below 2^-24 with that mean


@scalar
def poisson(unit, mean):
    """Return the Poisson number with a probability, a multiple of 2^-24, of those below, by its mean, up to 2^20.

    Probabilities are within 0.0001.
    """
    few = min(mean, _FEW)
    drawn, probability, below, summed = unit + _HALF * _TO_UNIT, _falling(few), _ZERO, _ZERO
    for k in range(_TERMS):
        below += probability
        summed += _ONE if drawn > below else _ZERO
        probability *= few * (_ONE / f32(k + 1))
    # Giles: "Algorithm 955: approximation of the inverse Poisson cumulative distribution function", ACM Transactions
    # on Mathematical Software 42, 2016, formula 2.
    many = max(mean, _FEW)
    root = math.sqrt(many)
    z = normal_of(unit)
    zz = z * z
    at = many + root * z + (f32(1.0 / 3.0) + zz * f32(1.0 / 6.0)) - z * (f32(1.0 / 36.0) + zz * f32(1.0 / 72.0)) / root
    at += (f32(-8.0 / 405.0) + zz * (f32(7.0 / 810.0) + zz * f32(1.0 / 270.0))) / many
    return summed if mean < _FEW else floor(max(at, _ZERO))


@scalar
def shot_noise(r, g, b, x, y, seed_0, seed_1, photons, colored):
    """Return a pixel as the share of ``photons`` that it receives; unless ``colored``, all channels as the first."""
    w0, w1, w2, _ = _words(x, y, seed_0, seed_1)
    inverse = _ONE / photons
    red = poisson(unit_of(w0), confine(r, _ZERO, _ONE) * photons) * inverse
    green = poisson(unit_of(w1), confine(g, _ZERO, _ONE) * photons) * inverse if colored > _HALF else red
    blue = poisson(unit_of(w2), confine(b, _ZERO, _ONE) * photons) * inverse if colored > _HALF else red
    return min(red, _ONE), min(green, _ONE), min(blue, _ONE)
