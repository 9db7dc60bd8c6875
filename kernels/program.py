"""The dispatch of programs, made from the op table: what both runtimes do for the ops of one pixel.

For each op there are two scalar functions, both inlined: one reads what the op is told, its parameters and statistics,
into a tuple; the other applies its formula. The CPU calls the first once a row, the GPU once a pixel.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from . import color, noise, user
from .ops import HISTOGRAM, MEAN, OPS, SLOT, STATISTICS_WORDS, Op
from .scalar import f32, i32, scalar, word

_HALF = f32(0.5)
_RANGE_WORDS = 6  # low end and gain of three channels


@cache
def _consecutive(start: int, count: int) -> Any:
    """A scalar function ``(words, at)`` that gives ``count`` words from ``at + start`` on.

    Written out, since each function that Numba has to know takes it a twentieth of a second.
    """
    items = "".join(f"word(words, at, {start + k}), " for k in range(count))
    namespace = {"word": word}
    exec(f"def consecutive(words, at):\n    return ({items})", namespace)
    return scalar(namespace["consecutive"])


def values_of(op: Op) -> Any:
    """A scalar function ``(words, at, tables, table)`` that reads what the formula of an op is given besides pixels.

    The parameters are at ``at``; the image's statistics begin at ``table``.
    """
    read = _consecutive(op.offset, len(op.parameters))
    if op.statistic is None:

        @scalar
        def values(words, at, tables, table):
            return read(words, at)

    elif op.statistic == HISTOGRAM:

        @scalar
        def values(words, at, tables, table):
            return tables, i32(table + i32(word(words, at, SLOT)) * STATISTICS_WORDS)

    elif op.statistic == MEAN:
        # Not through the slot's position, as below: ptxas then keeps 8 registers more.
        @scalar
        def values(words, at, tables, table):
            return read(words, at) + (word(tables, table, i32(word(words, at, SLOT)) * STATISTICS_WORDS),)

    else:
        statistics = _consecutive(0, _RANGE_WORDS)

        @scalar
        def values(words, at, tables, table):
            slot = i32(table + i32(word(words, at, SLOT)) * STATISTICS_WORDS)
            return read(words, at) + statistics(tables, slot)

    return values


def _formula(op: Op) -> Any:
    """The scalar function that has an op's name."""
    return getattr(color, op.name, None) or getattr(noise, op.name, None)


def formula_of(op: Op, functions: tuple[Any, ...] = ()) -> Any:
    """A scalar function ``(r, g, b, x, y, values) -> (r, g, b)``: the formula of an op at a position in its frame."""
    if op.user:
        chain = user.chain(functions)

        @scalar
        def apply(r, g, b, x, y, values):
            return chain(i32(values[0]), r, g, b, y - _HALF, x - _HALF, values[1])

        return apply
    formula = _formula(op)
    if op.frame:

        @scalar
        def apply(r, g, b, x, y, values):
            return formula(r, g, b, x, y, *values)

    elif op.channelwise:

        @scalar
        def apply(r, g, b, x, y, values):
            return formula(r, *values), formula(g, *values), formula(b, *values)

    else:

        @scalar
        def apply(r, g, b, x, y, values):
            return formula(r, g, b, *values)

    return apply


#: Ops that have a formula of one pixel.
PIXEL_OPS = tuple(op for op in OPS if op.user or _formula(op))


def _is_one_of(codes: tuple[int, ...]) -> Any:
    """A scalar function that says whether an op code is one of these."""

    @scalar
    def never(code):
        return False

    found = never
    for number in codes:
        found = _or(number, found)
    return found


def _or(number: int, others: Any) -> Any:
    @scalar
    def either(code):
        return code == number or others(code)

    return either


def takes(statistic: str) -> Any:
    """A scalar function that says whether an op code has this statistic."""
    return _is_one_of(tuple(op.code for op in OPS if op.statistic == statistic))


#: Whether an op code has a statistic; whether a GPU's pass over the grid reads neighbors for it.
has_statistic = _is_one_of(tuple(op.code for op in OPS if op.statistic))
reads_neighbors = _is_one_of(tuple(op.code for op in OPS if op.neighbors and not op.prepass_launches))
