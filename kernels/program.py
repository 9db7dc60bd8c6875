"""Dispatch of programs, derived from the op table: the scalar functions of ops of one pixel, for both runtimes.

Each op has two functions, both inlined: one reads its parameters and statistics into a tuple, the other applies its
formula to a pixel. The CPU calls the first once a row, the GPU once a pixel.
"""

from functools import cache
from typing import Any

from . import color, noise, user, weather
from .ops import HISTOGRAM, MEAN, OPS, SLOT, STATISTICS_WORDS, Op
from .scalar import f32, i32, scalar, word

_HALF = f32(0.5)
_RANGE_WORDS = 6  # low end and gain of three channels


@cache
def _consecutive(start: int, count: int) -> Any:
    """Return a scalar function ``(words, at)`` that returns ``count`` elements from ``at + start`` on, as a tuple."""
    # Generated as source with one return, not built up from smaller functions, each of which Numba would compile.
    items = "".join(f"word(words, at, {start + k}), " for k in range(count))
    namespace = {"word": word}
    exec(f"def consecutive(words, at):\n    return ({items})", namespace)
    return scalar(namespace["consecutive"])


def values_of(op: Op, functions: tuple[Any, ...] = ()) -> Any:
    """Return a scalar function ``(words, at, tables, table)`` that reads an op's arguments, except pixels.

    ``words`` is a program, with the op's parameters at ``at``; in ``tables``, the image's statistics begin at
    ``table``.
    """
    # Of users' functions that take fewer values, the words after these are read, too.
    more = max(map(user.count, functions), default=0) if op.user else 0
    read = _consecutive(op.offset, len(op.parameters) + more)
    if op.statistic is None:

        @scalar
        def values(words, at, tables, table):
            return read(words, at)

    elif op.statistic == HISTOGRAM:

        @scalar
        def values(words, at, tables, table):
            return tables, i32(table + i32(word(words, at, SLOT)) * STATISTICS_WORDS)

    elif op.statistic == MEAN:
        # Not with the slot's position in a variable, as below: ptxas then uses 8 registers more.
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
    """Return the scalar function that has an op's name, None for ops that are not a formula of one pixel."""
    return next((getattr(module, op.name) for module in (color, noise, weather) if hasattr(module, op.name)), None)


def formula_of(op: Op, functions: tuple[Any, ...] = ()) -> Any:
    """Return a scalar function ``(r, g, b, x, y, values) -> (r, g, b)`` that applies an op to a pixel at a position."""
    if op.user:
        chain = user.chain(functions)

        @scalar
        def apply(r, g, b, x, y, values):
            return chain(r, g, b, y - _HALF, x - _HALF, values)

        return apply
    formula = _formula(op)
    if op.coordinates:

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


#: Ops with a formula of one pixel.
PIXEL_OPS = tuple(op for op in OPS if op.user or _formula(op))


def _is_one_of(codes: tuple[int, ...]) -> Any:
    """Return a scalar function that returns whether an op code is one of ``codes``."""
    # A chain of comparisons, whose codes are constants of the machine code.
    if not codes:

        @scalar
        def never(code):
            return False

        return never
    number, others = codes[-1], _is_one_of(codes[:-1])

    @scalar
    def either(code):
        return code == number or others(code)

    return either


def takes(statistic: str) -> Any:
    """Return a scalar function that returns whether an op code has this statistic."""
    return _is_one_of(tuple(op.code for op in OPS if op.statistic == statistic))


#: Scalar functions: whether an op code has a statistic; whether a GPU's pass over the grid reads neighbors for it.
has_statistic = _is_one_of(tuple(op.code for op in OPS if op.statistic))
reads_neighbors = _is_one_of(tuple(op.code for op in OPS if op.neighbors and not op.prepass))
