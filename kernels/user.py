"""Users' own functions, joined to one that picks by index: what both runtimes compile into the program."""

from __future__ import annotations

from functools import cache
from typing import Any

from .native import with_numba
from .scalar import f32, scalar


def chain(functions: tuple[Any, ...]) -> Any:
    """A scalar function ``(index, r, g, b, y, x, value) -> (r, g, b)`` of these functions."""

    @scalar
    def unchanged(index, r, g, b, y, x, value):
        return r, g, b

    joined = unchanged
    for k, function in reversed(tuple(enumerate(functions))):
        joined = _link(k, function, joined)
    return joined


def gray_formula(function: Any) -> Any:
    """A function for one-channel images: its first value three times, as everything after it expects."""
    return with_numba("user").compile_gray_formula(function)


@cache
def compile_gray_formula(function: Any) -> Any:
    """As :func:`gray_formula`, in this instance of the package."""

    @scalar
    def first(r, g, b, y, x, value):
        red, _, _ = function(r, g, b, y, x, value)
        return red, red, red

    return first


def _link(number: int, function: Any, rest: Any) -> Any:
    @scalar
    def pick(index, r, g, b, y, x, value):
        if index == number:
            red, green, blue = function(r, g, b, y, x, value)
            return f32(red), f32(green), f32(blue)
        return rest(index, r, g, b, y, x, value)

    return pick
