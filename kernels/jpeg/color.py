"""Chroma upsampling ("fancy") and YCbCr to RGB as vector code: rows of pixels, bit for bit those of libjpeg-turbo.

Chroma between two of its rows, or columns, is 3/4 of the nearer and 1/4 of the farther one, in whole numbers whose
rounding alternates. Rows come first: :func:`sum_rows` leaves four times the chroma of a row of pixels as int16, and the
columns are mixed while pixels are converted.

References: libjpeg's jdsample.c and jdcolor.c; JFIF (T.871).
"""

from ..cpu.intrinsics import F32, I8, I16, I32, emitted, load, shuffle, splat, spread, store, vector
from ..cpu.products import joined, upper_halves
from ..lang import ir, types

#: Pixels of one call of ``rgb_upsampled``, and of the other functions; N is also the number of 16-bit lanes.
WIDE = 32
N = 16
#: Bytes that are written after the last pixel: four pixels are 12 bytes of a 16-byte store.
SPILL = 4

# The factors of JFIF in 16.16 fixed point, reduced to what 16 bits hold: Cr in red 1.402 - 1, Cb in blue 1.772 - 2,
# Cb in green -0.34414, Cr in green -0.71414 + 1. The whole parts are added as they are.
_RED, _BLUE, _GREEN_B, _GREEN_R = 26345, -14942, -22554, 18734


def _clamped(builder, v):
    v = builder.select(builder.icmp_signed("<", v, splat(I16, 0, N)), splat(I16, 0, N), v)
    v = builder.select(builder.icmp_signed(">", v, splat(I16, 255, N)), splat(I16, 255, N), v)
    return builder.trunc(v, vector(I8, N))


def _to_rgb(context, builder, y, cb, cr):
    """Convert sixteen pixels of 16-bit lanes, chroma less 128, to three vectors of bytes."""
    one, wide = splat(I16, 1, N), vector(I32, N)

    def product(v, factor):
        # The upper half of twice the product, halved with rounding, as libjpeg-turbo has it: processors return the
        # upper half of a 16-bit product, but do not round it.
        doubled = upper_halves(context, builder, builder.add(v, v), splat(I16, factor, N), signed=True)
        return builder.ashr(builder.add(doubled, one), one)

    red = builder.add(builder.add(y, cr), product(cr, _RED))
    blue = builder.add(builder.add(y, builder.add(cb, cb)), product(cb, _BLUE))
    # Green needs both products before the one rounding.
    sums = builder.mul(builder.sext(cb, wide), splat(I32, _GREEN_B, N))
    sums = builder.add(sums, builder.mul(builder.sext(cr, wide), splat(I32, _GREEN_R, N)))
    sums = builder.ashr(builder.add(sums, splat(I32, 32768, N)), splat(I32, 16, N))
    green = builder.add(builder.sub(y, cr), builder.trunc(sums, vector(I16, N)))
    return [_clamped(builder, v) for v in (red, green, blue)]


def _store_pixels(builder, out, r, g, b):
    """Interleave and store sixteen pixels, and SPILL bytes after them."""

    def halves(x, y):
        return [shuffle(builder, x, y, [lane for k in range(h, h + 8) for lane in (k, N + k)]) for h in (0, 8)]

    # By halves of 8 pixels: bytes RG and B0 as 16-bit lanes, those interleaved to RGB0, then the zeros squeezed out of
    # each four pixels. A store of 16 bytes ends in garbage, which the next one overwrites.
    pairs = vector(I16, 8)
    for half, (red_green, blue_zero) in enumerate(zip(halves(r, g), halves(b, splat(I8, 0, N)), strict=True)):
        x, y = builder.bitcast(red_green, pairs), builder.bitcast(blue_zero, pairs)
        for part in (0, 1):
            quads = shuffle(builder, x, y, [lane for k in range(4 * part, 4 * part + 4) for lane in (k, 8 + k)])
            quads = builder.bitcast(quads, vector(I8, N))
            pixels = shuffle(builder, quads, quads, [4 * k + c for k in range(4) for c in range(3)] + [15] * SPILL)
            store(builder, pixels, builder.gep(out, [ir.IntType(64)(24 * half + 12 * part)]))


@emitted(types.none, None, types.uintp, types.float32, None, None, None, types.uintp)
def floats_of_rgb(builder, pixels, at, unit, r, g, b, k):
    """Store the colors of sixteen pixels, times ``unit``, to ``r[k:]`` and so on; SPILL bytes after them are read."""
    quads = [
        load(builder, pixels.at(builder.add(at, ir.Constant(at.type, 12 * q)), 16), vector(I8, 16)) for q in range(4)
    ]
    four, factor = joined(builder, quads), spread(builder, unit, N)
    for c, out in enumerate((r, g, b)):
        color = shuffle(builder, four, four, [16 * q + 3 * p + c for q in range(4) for p in range(4)])
        store(builder, builder.fmul(builder.uitofp(color, vector(F32, N)), factor), out.at(k, N))


def _make_pixels(convert):
    @emitted(types.none, None, types.uintp, types.uintp, types.uintp, None, types.uintp)
    def pixels(builder, planes, y, cb, cr, out, at):
        """Store sixteen pixels, whose samples begin at ``y``, ``cb`` and ``cr`` of ``planes``, to ``out[at]``."""
        rows = [load(builder, planes.at(start, N), vector(I8, N)) for start in (y, cb, cr)]
        start = out.at(at, 3 * N + SPILL)
        if convert:
            luma, *chroma = (builder.zext(row, vector(I16, N)) for row in rows)
            rows = _to_rgb(planes.context, builder, luma, *(builder.sub(v, splat(I16, 128, N)) for v in chroma))
        _store_pixels(builder, start, *rows)

    return pixels


#: From planes of Y, Cb and Cr with chroma at full size, and from planes of R, G and B.
rgb_of_ycc, rgb_of_planes = _make_pixels(True), _make_pixels(False)


@emitted(types.none, None, types.uintp, types.uintp, None, types.uintp)
def sum_rows(builder, planes, near, far, sums, at):
    """``sums[at:at + 16] = 3 * planes[near:near + 16] + planes[far:far + 16]``."""
    one, other = (
        builder.zext(load(builder, planes.at(start, N), vector(I8, N)), vector(I16, N)) for start in (near, far)
    )
    total = builder.add(builder.mul(one, splat(I16, 3, N)), other)
    store(builder, total, sums.at(at, N))


@emitted(types.none, None, types.uintp, types.int64, None, types.uintp)
def round_rows(builder, sums, at, bias, planes, k):
    """``planes[k:k + 16] = (sums[at:at + 16] + bias) >> 2``."""
    v = load(builder, sums.at(at, N), vector(I16, N))
    v = builder.ashr(builder.add(v, _lanes(builder, bias)), splat(I16, 2, N))
    out = planes.at(k, N)
    store(builder, builder.trunc(v, vector(I8, N)), out)


def _lanes(builder, value):
    """Return a vector with a number, which is not constant, in every lane."""
    return spread(builder, builder.trunc(value, I16), N)


def _make_upsampled(odd):
    u = types.uintp

    @emitted(types.none, None, u, None, u, u, None, u, types.int64, types.int64)
    def rgb_upsampled(builder, planes, y, sums, cb, cr, out, at, low, high):
        """Store 32 pixels from luma and 16 columns of ``sums``: four times the chroma of this row, by column.

        ``low`` and ``high`` are the roundings of the left and the right pixel of a column.
        """
        # Sums are scaled by 4, and mixing columns scales by 4 again: 128 is 2048. Subtracted with the rounding.
        left, right = (builder.sub(_lanes(builder, value), splat(I16, 2048, N)) for value in (low, high))

        def chroma(start):
            def column(step):
                k = builder.add(start, ir.Constant(start.type, step))
                return load(builder, sums.at(k, N), vector(I16, N))

            def mixed(near, far, bias):
                # 3/4 of the nearer column and 1/4 of the farther one: at most 16 * 255, so int16 holds it.
                total = builder.add(builder.add(builder.mul(near, splat(I16, 3, N)), bias), far)
                return builder.ashr(total, splat(I16, 4, N))

            here = column(0)
            if odd:  # columns 2k + 1 and 2k + 2 of the image rather than 2k and 2k + 1
                after = column(1)
                one, other = mixed(here, after, right), mixed(after, here, left)
            else:
                one, other = mixed(here, column(-1), left), mixed(here, column(1), right)
            return [
                shuffle(builder, one, other, [lane for k in range(h, h + 8) for lane in (k, N + k)]) for h in (0, 8)
            ]

        blues, reds = chroma(cb), chroma(cr)
        luma = planes.at(y, WIDE)
        start = out.at(at, 3 * WIDE + SPILL)
        for half in (0, 1):
            row = load(builder, builder.gep(luma, [ir.IntType(64)(N * half)]), vector(I8, N))
            pixels = _to_rgb(planes.context, builder, builder.zext(row, vector(I16, N)), blues[half], reds[half])
            _store_pixels(builder, builder.gep(start, [ir.IntType(64)(3 * N * half)]), *pixels)

    return rgb_upsampled


#: For pixels from an even column on, and from an odd one: the first two then belong to two chroma columns.
rgb_even, rgb_odd = _make_upsampled(False), _make_upsampled(True)
