"""Sampling at given positions on a CPU, and tables that values are looked up in."""

from typing import Any, Final

import numpy as np

from .. import color
from ..borders import folded
from ..lang import ir, types
from ..prepass import FURTHEST, NEAREST_PIXEL
from ..scalar import confine, f32, floor, i32, i64, loop, scalar, up
from .intrinsics import (
    F32,
    I8,
    I16,
    I32,
    address_of,
    bytes_at,
    emitted,
    floats_at,
    ints_at,
    load,
    plus_product,
    rounded_bytes,
    splat,
    spread,
    store,
    vector,
)
from .prepass import SLACK, area_function, as_byte, as_float, make_copy, take_bytes, take_units


@scalar
def _byte_of_sum(value):
    return np.uint8(i32(color.round_half_even(value)))


@scalar
def mixed(a, b, c, d, right, below):
    """Return the value between four pixels, in three fused steps, as OpenCV 5 does."""
    top, bottom = right * (b - a) + a, right * (d - c) + c
    return below * (bottom - top) + top


# -- rows of positions -------------------------------------------------------------------------------------------------


@loop
def _place_row(positions, height, width, stride, channels, places, rights, belows):
    """Find the elements of the pixels left above positions, -1 where one of the four around is outside the image."""
    for k in range(places.size):
        x = confine(positions[2 * k], f32(-FURTHEST), f32(FURTHEST))
        y = confine(positions[2 * k + 1], f32(-FURTHEST), f32(FURTHEST))
        left, top = floor(x), floor(y)
        inside = left >= f32(0.0) and top >= f32(0.0) and left < f32(width - 1) and top < f32(height - 1)
        rights[k], belows[k] = x - left, y - top
        places[k] = i32(top) * stride + i32(left) * channels if inside else -1


@loop
def _place_nearest(positions, height, width, stride, channels, places):
    """Find the elements of the pixels nearest to positions, -1 where that is outside the image."""
    for k in range(places.size):
        x = color.round_half_even(confine(positions[2 * k], f32(-FURTHEST), f32(FURTHEST)))
        y = color.round_half_even(confine(positions[2 * k + 1], f32(-FURTHEST), f32(FURTHEST)))
        inside = x >= f32(0.0) and y >= f32(0.0) and x < f32(width) and y < f32(height)
        places[k] = i32(y) * stride + i32(x) * channels if inside else -1


def _between(builder, share, one, other):
    return plus_product(builder, one, share, builder.fsub(other, one))


@emitted(types.none, None, types.uintp, types.uintp, types.float32, types.float32, None, types.uintp)
def _mix_rgb(builder, image, at, stride, right, below, out, to):
    """Mix the four pixels around a position, all their channels together, and one byte more."""
    lanes = 4

    def pixel(place):
        return builder.uitofp(load(builder, image.at(place, lanes), vector(I8, lanes)), vector(F32, lanes))

    step, under = ir.Constant(at.type, 3), builder.add(at, stride)
    right, below = spread(builder, right, lanes), spread(builder, below, lanes)
    top = _between(builder, right, pixel(at), pixel(builder.add(at, step)))
    bottom = _between(builder, right, pixel(under), pixel(builder.add(under, step)))
    store(builder, rounded_bytes(builder, _between(builder, below, top, bottom)), out.at(to, lanes))


_GRAY: Final = 8  # positions in a gray image that are sampled together


@emitted(types.none, None, types.uintp, None, None, None, types.uintp, None, types.uintp)
def _mix_gray(builder, image, stride, places, rights, belows, k, out, to):
    """Mix the four pixels around each of eight positions."""
    whole, pairs = vector(F32, _GRAY), vector(I16, _GRAY)

    def values(offset):
        """Two pixels side by side of each position."""
        found = ir.Constant(pairs, ir.Undefined)
        for lane in range(_GRAY):
            at = builder.zext(places.element(builder.add(k, ir.Constant(k.type, lane))), k.type)
            at = at if offset is None else builder.add(at, offset)
            found = builder.insert_element(found, load(builder, image.at(at, 2), I16), I32(lane))
        left = builder.and_(found, splat(I16, 255, _GRAY))
        return builder.uitofp(left, whole), builder.uitofp(builder.lshr(found, splat(I16, 8, _GRAY)), whole)

    right, below = (load(builder, shares.at(k, _GRAY), whole) for shares in (rights, belows))
    top, bottom = (_between(builder, right, *values(offset)) for offset in (None, stride))
    store(builder, rounded_bytes(builder, _between(builder, below, top, bottom)), out.at(to, _GRAY))


@emitted(types.none, None, types.uintp, None, types.uintp)
def _move_rgb(builder, image, at, out, to):
    """Copy a pixel, and one byte more."""
    store(builder, load(builder, image.at(at, 4), I32), out.at(to, 4))


@scalar
def _all_inside(places, k):
    least = places[k]
    for lane in range(1, _GRAY):
        least = min(least, places[k + lane])
    return least >= 0


def _make_sample(channels: int, kind: str) -> Any:
    """Return a loop that fills a row of the result of an image with this number of channels."""
    is_bytes = kind == "uint8"
    of_fill, of_sum = (as_byte, _byte_of_sum) if is_bytes else (as_float, as_float)

    @loop
    def near(image, stride, area, px, py, out, to):
        """Sample at a position with pixels outside the image around it."""
        px, py = confine(px, f32(-FURTHEST), f32(FURTHEST)), confine(py, f32(-FURTHEST), f32(FURTHEST))
        height, width, border = area.height, area.width, area.border
        if area.option & NEAREST_PIXEL:
            column = folded(i32(color.round_half_even(px)), width, border)
            row = folded(i32(color.round_half_even(py)), height, border)
            for c in range(channels):
                value = of_fill(area.fill[c])
                if column >= 0 and row >= 0:
                    value = image[up(row * stride + column * channels + c)]
                out[up(to + c)] = value
            return
        left, top = floor(px), floor(py)
        x, y, right, below = i32(left), i32(top), px - left, py - top
        column, other = folded(x, width, border), folded(i32(x + 1), width, border)
        row, under = folded(y, height, border), folded(i32(y + 1), height, border)
        for c in range(channels):
            a = b = d = e = f32(area.fill[c])
            if row >= 0:
                at = row * stride + c
                a = f32(image[up(at + column * channels)]) if column >= 0 else a
                b = f32(image[up(at + other * channels)]) if other >= 0 else b
            if under >= 0:
                at = under * stride + c
                d = f32(image[up(at + column * channels)]) if column >= 0 else d
                e = f32(image[up(at + other * channels)]) if other >= 0 else e
            out[up(to + c)] = of_sum(mixed(a, b, d, e, right, below))

    @scalar
    def inside(image, stride, at, right, below, out, to):
        for c in range(channels):
            one, two = up(at + c), up(at + stride + c)
            value = mixed(
                f32(image[one]), f32(image[one + up(channels)]), f32(image[two]), f32(image[two + up(channels)]),
                right, below
            )  # fmt: skip
            out[up(to + c)] = of_sum(value)

    @loop
    def copy_nearest(image, stride, area, positions, places, out, to):
        for k in range(places.size):
            at, end = places[k], to + k * channels
            if at < 0:
                near(image, stride, area, positions[2 * k], positions[2 * k + 1], out, end)
            elif is_bytes and channels == 3 and end + 4 <= out.size:
                _move_rgb(image, up(at), out, up(end))
            else:
                for c in range(channels):
                    out[up(end) + up(c)] = image[up(at) + up(c)]

    @loop
    def sample(image, stride, area, positions, places, rights, belows, out, to):
        n, height, width = places.size, area.height, area.width
        if area.option & NEAREST_PIXEL:
            _place_nearest(positions, height, width, i32(stride), i32(channels), places)
            copy_nearest(image, stride, area, positions, places, out, to)
            return
        _place_row(positions, height, width, i32(stride), i32(channels), places, rights, belows)
        k = i64(0)
        while k < n:
            at, end = places[k], to + k * channels
            # Vectors write past a pixel: what follows is written later, unless nothing does.
            fits, together = is_bytes and end + _GRAY <= out.size, i64(1)
            if fits and channels == 1 and k + _GRAY <= n and _all_inside(places, k):
                _mix_gray(image, up(stride), places, rights, belows, up(k), out, up(end))
                together = i64(_GRAY)
            elif at < 0:
                near(image, stride, area, positions[2 * k], positions[2 * k + 1], out, end)
            elif fits and channels == 3:
                _mix_rgb(image, up(at), up(stride), rights[k], belows[k], out, up(end))
            else:
                inside(image, stride, at, rights[k], belows[k], out, end)
            k += together

    return sample


def _make_remap(kind: str) -> Any:
    is_bytes = kind == "uint8"
    view, take = (bytes_at, take_bytes) if is_bytes else (floats_at, take_units)
    gray, rgb = _make_sample(1, kind), _make_sample(3, kind)

    @loop
    def run(source, stride, channels, area, work, out):
        address, elements, scale = source
        height, n, row = i64(area.height), i64(area.width) * channels, i64(area.out_width)
        start = address_of(work)
        places, rights, belows = ints_at(start, row), floats_at(start + 4 * row, row), floats_at(start + 8 * row, row)
        start += 12 * row
        if (scale == f32(1.0)) == is_bytes:  # the elements are of the other type
            address, elements = start, height * n + SLACK
            image = view(address, elements)
            for y in range(height):
                take(source, y * stride, n, image, y * n)
            stride = n
        image, positions = view(address, elements), floats_at(area.values, i64(area.count))
        for y in range(area.out_height):
            here, to = positions[2 * y * row : 2 * (y + 1) * row], y * row * channels
            if channels == 1:
                gray(image, stride, area, here, places, rights, belows, out, to)
            else:
                rgb(image, stride, area, here, places, rights, belows, out, to)

    return area_function(f"remap_{kind}", run, make_copy(take), kind)


remap_bytes, remap_floats = _make_remap("uint8"), _make_remap("float32")


def space(areas: Any, channels: int, *, itemsize: int) -> Any:
    """Bytes of work space, (N,), of (N,) AREA."""
    size = areas["height"].astype(np.int64) * areas["width"] * channels + SLACK
    return 12 * areas["out_width"].astype(np.int64) + size * itemsize


# -- tables ------------------------------------------------------------------------------------------------------------

_LEVELS: Final = 256


@loop
def _look_up_bytes(source, stride, channels, area, work, out):
    """Replace bytes; the operand has a table of 256 levels for all channels, or one for each."""
    address, _, scale = source
    values, each = floats_at(area.values, i64(area.count)), area.count > _LEVELS
    tables, n, start = work[: 3 * _LEVELS], i64(area.width) * channels, address_of(work) + 3 * _LEVELS
    for c in range(3):
        for k in range(_LEVELS):
            tables[c * _LEVELS + k] = as_byte(values[(c * _LEVELS if each else 0) + k])
    for y in range(area.height):
        if scale == f32(1.0):
            take_bytes(source, y * stride, n, bytes_at(start, n), i64(0))
        row, to = bytes_at(start if scale == f32(1.0) else address + y * stride, n), out[y * n : (y + 1) * n]
        if each:
            for x in range(0, n, 3):
                for c in range(3):
                    to[up(x + c)] = tables[up(c * _LEVELS) + up(row[up(x + c)])]
        else:
            for x in range(n):
                to[x] = tables[up(row[x])]


@loop
def _look_up_units(source, stride, channels, area, work, out):
    """Replace values by those of the nearest of the positions that a table has in [0, 1]."""
    values = floats_at(area.values, i64(area.count))
    size = i64(area.columns)
    last, n = f32(size - 1), i64(area.width) * channels
    for y in range(area.height):
        to = out[y * n : (y + 1) * n]
        take_units(source, y * stride, n, to, i64(0))
        for x in range(area.width):
            for c in range(channels):
                at = i64(color.round_half_even(confine(to[x * channels + c], f32(0.0), f32(1.0)) * last))
                to[x * channels + c] = values[(c * size if area.count > size else 0) + at]


look_up_bytes = area_function("look_up_uint8", _look_up_bytes, make_copy(take_bytes), "uint8")
look_up_floats = area_function("look_up_float32", _look_up_units, make_copy(take_units), "float32")


def row_space(areas: Any, channels: int) -> Any:
    """Bytes of work space, (N,), of (N,) AREA."""
    return 3 * _LEVELS + areas["width"].astype(np.int64) * channels
