"""What the CPU's loops of prepass ops share: rows of an image as the elements that an op works on, and its border.

An op on bytes takes bytes, or values in units of 1 that it rounds to bytes; the others take float32 in units of 1.
"""

from typing import Any, Final

import numpy as np

from .. import color
from ..borders import folded
from ..compiled import NativeFunction
from ..lang import from_dtype, types
from ..layout import SCALES
from ..prepass import AREA
from ..scalar import f32, i32, i64, loop, scalar
from .intrinsics import BYTES, SOURCES, array_at, bytes_at, caller, copy_run, floats_at

_UNIT = SCALES["uint8"]

#: Elements after the end of a work space that vectors may touch.
SLACK: Final = 64


@scalar
def _byte_of_unit(value):
    return np.uint8(i32(color.store_byte(value)))


@scalar
def _level_of_byte(value):
    return f32(value)


@scalar
def _level_of_unit(value):
    return color.store_byte(value)


@scalar
def _unit_of_byte(value):
    return f32(value) * _UNIT


@loop
def _copy(values, at, n, out, to):
    copy_run(values, at, n, out, to)


def _make_cast(formula: Any) -> Any:
    @loop
    def cast(values, at, n, out, to):
        source, target = values[at : at + n], out[to : to + n]
        for k in range(n):
            target[k] = formula(source[k])

    return cast


def _make_take(of_bytes: Any, of_units: Any) -> Any:
    """Return a loop that fills ``out`` from ``to`` on with ``n`` values of a source, from its element ``at`` on."""

    @loop
    def take(source, at, n, out, to):
        address, elements, scale = source
        if scale == f32(1.0):
            of_units(floats_at(address, elements), at, n, out, to)
        else:
            of_bytes(bytes_at(address, elements), at, n, out, to)

    return take


#: Loops that take values as bytes, as the same levels in float32, and in units of 1.
take_bytes = _make_take(_copy, _make_cast(_byte_of_unit))
take_levels = _make_take(_make_cast(_level_of_byte), _make_cast(_level_of_unit))
take_units = _make_take(_make_cast(_unit_of_byte), _copy)


def make_take_row(take: Any, cast: Any) -> Any:
    """Return a loop that takes row ``y``, which may be outside the image, with the border on both sides.

    ``cast`` makes a color of the border an element.
    """

    @loop
    def take_row(source, stride, channels, area, y, before, after, out, to):
        width, n = i64(area.width), i64(area.width) * channels
        row = folded(i32(y), area.height, area.border)
        first = to + before * channels
        if row < 0:
            for x in range(before + width + after):
                for c in range(channels):
                    out[to + x * channels + c] = cast(area.fill[c])
            return
        take(source, row * stride, n, out, first)
        for k in range(before + after):
            x = k - before if k < before else width + k - before
            there = folded(i32(x), area.width, area.border)
            for c in range(channels):
                value = cast(area.fill[c])
                if there >= 0:
                    value = out[first + there * channels + c]
                out[first + x * channels + c] = value

    return take_row


@scalar
def as_byte(value):
    """Return a level as a byte."""
    return np.uint8(i32(value))


@scalar
def as_float(value):
    """Return a value as it is."""
    return f32(value)


def make_copy(take: Any) -> Any:
    """Return a loop that stores an image as it is, but for its type."""

    @loop
    def copy_image(source, stride, channels, area, out):
        n = i64(area.width) * channels
        for y in range(area.height):
            take(source, y * stride, n, out, y * n)

    return copy_image


def _signature(out: Any) -> Any:
    place = types.int64
    return types.void(place, place, types.float32, place, place, from_dtype(AREA), BYTES, place, out)


#: Call the loop of an op by its address, with that of the source, its elements and scale, the elements from one row to
#: the next, its channels, the image's record, the work space and its bytes, and memory for the result.
call_area = caller(_signature(BYTES))


def area_function(name: str, run: Any, copy: Any, kind: str) -> NativeFunction:
    """Return a loop over an image, whose record may say that it stays as it is; ``kind`` is the dtype of the result."""

    def apply(address, elements, scale, stride, channels, area, work, size, out_):
        source, out = (address, elements, scale), array_at(out_, i64(area.out_height) * area.out_width * channels)
        if area.applies == 0:
            copy(source, stride, channels, area, out)
        else:
            run(source, stride, channels, area, array_at(work, size), out)

    return NativeFunction(name, apply, _signature(SOURCES[kind]))
