"""The color of a grid pixel: sampled, then processed by the instructions of its image's program."""

from functools import lru_cache
from typing import Any

from numba import cuda

from .. import color
from ..layout import IN_RECORD
from ..ops import END, INSTRUCTION_HEADER, MOST_TAPS, MOTION, MOVING, NORMALIZE_BYTES, PLAIN, Op
from ..program import PIXEL_OPS, formula_of, reads_neighbors, values_of
from ..scalar import confine, f32, i32, scalar, u32, word
from .sample import make_sample, origin_point

_HALF = f32(0.5)
_END = f32(END.code)
_MOTION = f32(MOTION.code)
_MOST_TAPS = f32(MOST_TAPS)


@scalar
def divided(x, y):
    """Return the quotient rounded once: the steps of CUDA's division, which these kernels are compiled without."""
    inverse = f32(1.0) / y
    inverse = cuda.fma(cuda.fma(-y, inverse, f32(1.0)), inverse, inverse)
    quotient = x * inverse
    quotient = cuda.fma(cuda.fma(-quotient, y, x), inverse, quotient)
    return cuda.fma(cuda.fma(-quotient, y, x), inverse, quotient)


_normalize_bytes = color.make_normalize_bytes(color.make_normalize_byte(divided))


def _step(op: Op, functions: tuple[Any, ...]) -> Any:
    """Return a scalar function that applies an op to one pixel at grid point ``(u, v)``."""
    values, formula = values_of(op, functions), formula_of(op, functions)
    if op is NORMALIZE_BYTES:

        @scalar
        def step(program, p, tables, table, u, v, r, g, b):
            return _normalize_bytes(r, g, b, *values(program, p, tables, table))

        return step
    if op.coordinates:

        @scalar
        def step(program, p, tables, table, u, v, r, g, b):
            x, y = origin_point(program, p, u, v)
            return formula(r, g, b, x, y, values(program, p, tables, table))

    else:

        @scalar
        def step(program, p, tables, table, u, v, r, g, b):
            return formula(r, g, b, u, v, values(program, p, tables, table))

    return step


def _or_else(number: int, step: Any, others: Any) -> Any:
    @scalar
    def dispatch(code, program, p, tables, table, u, v, r, g, b):
        if code == number:
            return step(program, p, tables, table, u, v, r, g, b)
        return others(code, program, p, tables, table, u, v, r, g, b)

    return dispatch


@scalar
def _unchanged(code, program, p, tables, table, u, v, r, g, b):
    return r, g, b


def _make_program(functions: tuple[Any, ...], full: bool) -> Any:
    dispatch = _unchanged
    # Checked first, it takes two registers less than at the end: GPUs of capability 7.5 then run as many blocks.
    for op in sorted(PIXEL_OPS, key=lambda op: (op is NORMALIZE_BYTES, -op.code)):
        if op.rare and not full:
            continue
        dispatch = _or_else(op.code, _step(op, functions), dispatch)

    @scalar
    def run_program(program, start, stop, tables, table, u, v, r, g, b):
        """Run a program's instructions from ``start`` to ``stop``, or to its end, for one pixel."""
        at = start
        while at < stop and word(program, at, 0) != _END:
            code = i32(word(program, at, 0))
            r, g, b = dispatch(code, program, i32(at + INSTRUCTION_HEADER), tables, table, u, v, r, g, b)
            at = i32(at + i32(word(program, at, 1)))
        return r, g, b

    return run_program


@scalar
def _find_neighbors(program, start, stop):
    """Return the position of the instruction that reads neighbors, or ``stop`` if there is none."""
    at = start
    while at < stop and word(program, at, 0) != _END:
        if reads_neighbors(i32(word(program, at, 0))):
            return at
        at = i32(at + i32(word(program, at, 1)))
    return stop


@lru_cache(maxsize=256)  # shared by all kernels that call it, so that it is compiled once for the same types
def make_pixel(functions: tuple[Any, ...], build: str) -> Any:
    """Return a scalar function that computes the color of a grid pixel, for the programs of a build."""
    full, lines = build != PLAIN, build == MOVING
    run_program = _make_program(functions, full)
    sample = make_sample(full)

    @scalar
    def pixel(source, channels, scale, ints, floats, record, program, start, stop, tables, table, number):
        """Return the color of one grid pixel after the instructions from ``start`` to ``stop``.

        For an instruction that reads neighbors, the neighbors are computed again here, not exchanged through memory.
        """
        height = word(ints, record, IN_RECORD.height)
        width = word(ints, record, IN_RECORD.width)
        y = i32(u32(number) // u32(width))
        x = i32(number - y * width)
        u0 = f32(x) - f32(width - 1) * _HALF
        v0 = f32(y) - f32(height - 1) * _HALF
        # Plans without such an instruction use a separate kernel, which needs fewer registers.
        middle = _find_neighbors(program, start, stop) if full else stop
        moving = lines and middle < stop and word(program, middle, 0) == _MOTION
        inside = full and middle < stop and x > 0 and y > 0 and x < width - 1 and y < height - 1 and not moving
        r, g, b = f32(0.0), f32(0.0), f32(0.0)
        around_r, around_g, around_b = f32(0.0), f32(0.0), f32(0.0)
        # First the neighbors, then, at k = 0, the pixel itself; or the points of a line through it, which sampling
        # interpolates. A last iteration, k = -1, runs the rest of the program.
        k = i32(8 if inside else 0)
        if moving:
            k = i32(i32(confine(word(program, middle, INSTRUCTION_HEADER), f32(1.0), _MOST_TAPS)) - i32(1))
        while k >= -1:
            u, v = u0, v0
            if k >= 0:
                around_r += r
                around_g += g
                around_b += b
                if moving:
                    t = f32(k) + _HALF - word(program, middle, INSTRUCTION_HEADER) * _HALF
                    u += t * word(program, middle, INSTRUCTION_HEADER + 1)
                    v += t * word(program, middle, INSTRUCTION_HEADER + 2)
                elif k > 0:
                    cell = i32(k if k > 4 else k - 1)
                    row = i32(u32(cell) // u32(3))
                    u += f32(i32(cell - row * i32(3)) - i32(1))
                    v += f32(row - i32(1))
                r, g, b = sample(source, channels, scale, ints, floats, record, u, v)
            elif inside:
                factor = word(program, middle, INSTRUCTION_HEADER)
                r = color.sharpen(r, around_r, factor)
                g = color.sharpen(g, around_g, factor)
                b = color.sharpen(b, around_b, factor)
            elif moving:
                share = f32(1.0) / word(program, middle, INSTRUCTION_HEADER)
                r, g, b = (around_r + r) * share, (around_g + g) * share, (around_b + b) * share
            begin = start if k >= 0 else middle
            end = middle if k >= 0 else stop
            r, g, b = run_program(program, begin, end, tables, table, u, v, r, g, b)
            k = i32(k - 1)
        return r, g, b

    return pixel
