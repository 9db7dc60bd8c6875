"""One pass of the CPU runtime over an image: sampling, its program, and the store, without the GIL.

The loops of a plan are called by address (:data:`.records.CALLS`), so that this one is compiled once for all plans.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from .. import color
from ..compiled import cached_jit, compile_together
from ..layout import GATHERED, LINEAR, SEPARABLE, WHOLE
from ..ops import END, INSTRUCTION_HEADER, OPS, SLOT
from ..scalar import f32, i32, loop
from .inputs import PATCHED
from .intrinsics import caller, copy, fence, floats_of, ints_of
from .patches import PATCHED_FUNCTION, SAMPLE, SUM_PATCHES_FUNCTIONS
from .program import GRID_FUNCTIONS, ROW_FUNCTIONS, call_grid, call_row, user_row
from .records import CALLS, address_of
from .sample import (
    ADD_TAPS_FUNCTIONS,
    GATHERED_FUNCTION,
    LAY_TAPS_FUNCTION,
    MIX_ROWS_FUNCTIONS,
    SEPARABLE_FUNCTION,
)  # fmt: skip
from .store import STORE_FUNCTIONS, call_store
from .whole import TAKE_PIXELS_FUNCTIONS, WHOLE_FUNCTION

_END = f32(END.code)

# Rows stored at a time: few enough for the first-level cache, enough that few cache lines of the result are shared by
# two runs.
_STORED = 8

_call_sample = caller(SAMPLE)


@lru_cache(256)
def call_table(
    source: str, kind: int, form: str, codes: tuple[int, ...], ways: int, functions: tuple[Any, ...],
    others: tuple[str, ...],
) -> tuple[Any, int]:  # fmt: skip
    """Return a (1,) CALLS with the loops that a plan needs, and its address; other loops are not compiled.

    ``source`` is a dtype, ``kind`` and ``form`` are those of the result, ``codes`` the ops of the programs, ``ways`` as
    :func:`.inputs.set_pass` returns them, and ``functions`` the user's. ``others`` are loops that the call needs
    besides, to be compiled together with these.
    """
    loops = {"store": STORE_FUNCTIONS[kind, form]}
    if ways & 1 << WHOLE:
        loops |= {"take_pixels": TAKE_PIXELS_FUNCTIONS[source], "whole": WHOLE_FUNCTION}
    if ways & 1 << SEPARABLE:
        loops |= {"mix_rows": MIX_ROWS_FUNCTIONS[source], "separable": SEPARABLE_FUNCTION}
    if ways & PATCHED:
        loops |= {"sum_patches": SUM_PATCHES_FUNCTIONS[source], "patched": PATCHED_FUNCTION}
    if ways & 1 << GATHERED:
        loops |= {"add_taps": ADD_TAPS_FUNCTIONS[source], "gathered": GATHERED_FUNCTION}
    if ways & (1 << SEPARABLE | 1 << GATHERED):
        loops["lay_taps"] = LAY_TAPS_FUNCTION
    rows = {code: ROW_FUNCTIONS[code] for code in codes if code in ROW_FUNCTIONS}
    grids = {code: GRID_FUNCTIONS[code] for code in codes if code in GRID_FUNCTIONS}
    compile_together([*others, *(one.name for one in (*loops.values(), *rows.values(), *grids.values()))])
    table = np.zeros(1, CALLS)
    calls = table[0]
    for name, function in loops.items():
        calls[name] = function.address
    for code, function in rows.items():
        calls["rows"][code] = function.address
    for code, function in grids.items():
        calls["grids"][code] = function.address
        calls["reads_neighbors"][code] = OPS[code].neighbors
    for code in codes:
        if OPS[code].user:
            calls["rows"][code] = user_row(code, functions)
    return table, address_of(table)


@loop
def _next_stop(calls, program, at, first_slot):
    """Return the position of the next instruction from ``at`` that needs the whole grid, or of the end.

    That is one whose statistic is still to be computed, or one that reads neighbors.
    """
    while program[at] != _END:
        code = i32(program[at])  # an instruction: op code, float32 to the next instruction, parameters
        if calls.grids[code] != 0:
            if calls.reads_neighbors[code] != 0 or i32(program[at + INSTRUCTION_HEADER + SLOT]) >= first_slot:
                return at
        at += i32(program[at + 1])
    return at


@loop
def _run_row(calls, program, start, stop, statistics_, y, height, r, g, b, xs, ys):
    """Run the instructions from ``start`` to ``stop`` of a program over one row, in place."""
    at = start
    while at < stop and program[at] != _END:
        address = calls.rows[i32(program[at])]
        if address != 0:  # an op without a formula of one pixel, such as "skip", has no loop
            call_row(address, (program[at + INSTRUCTION_HEADER :], statistics_, y, height, r, g, b, xs, ys, r.size))
        at += i32(program[at + 1])


@loop
def _sample(calls, source, record, y0, y1, scratch):
    """Sample rows ``y0`` to ``y1`` of the grid into the planes, by the fastest way that source and grid allow."""
    address = calls.gathered
    if record.way == WHOLE:
        address = calls.whole
    elif record.way == SEPARABLE:
        address = calls.separable
    elif record.filter <= LINEAR:
        address = calls.patched
    _call_sample(address, (calls, source, record, y0, y1, scratch))


@loop
def _run_grid(calls, program, stop, first_slot, record, scratch):
    """Run the instructions up to the last one that needs the whole grid; return the position to continue from.

    ``stop`` is the first such instruction. Its statistic is that of the grid after the instructions before it.
    """
    height, width = record.height, record.width
    planes, positions = floats_of(scratch.planes), floats_of(scratch.positions)
    statistics_, work, ints = floats_of(scratch.statistics), floats_of(scratch.floats), ints_of(scratch.ints)
    plane = planes.size // 3
    r, g, b = planes[:plane], planes[plane : 2 * plane], planes[2 * plane :]
    xs, ys = positions[:width], positions[width : 2 * width]
    start = 0
    while program[stop] != _END:
        for y in range(height):
            row = slice(y * width, (y + 1) * width)
            _run_row(calls, program, start, stop, statistics_, y, height, r[row], g[row], b[row], xs, ys)
        code = i32(program[stop])
        call_grid(
            calls.grids[code], (program[stop + INSTRUCTION_HEADER :], statistics_, r, g, b, height, width, work, ints)
        )
        after = stop + i32(program[stop + 1])
        # One that reads neighbors has changed the grid. One with a statistic has filled its slot, and still has to run
        # over the rows.
        start = after if calls.reads_neighbors[code] != 0 else stop
        stop = _next_stop(calls, program, after, first_slot)
    return start


@loop
def run_image(calls, source, record, program, one, scratch, out, streamed):
    """Sample, run the program, store: one image through one pass.

    ``out`` is passed as bytes; the loops in ``calls`` know the types of source and result. If statistics are still to
    be computed (from the pass's ``first_slot`` on) or neighbors are read, the planes hold the whole grid, otherwise a
    few rows. An empty ``out`` makes a pass for its statistics only.
    """
    height, width = record.height, record.width
    stop = _next_stop(calls, program, 0, one.first_slot)
    whole = program[stop] != _END
    start = 0
    if whole:
        _sample(calls, source, record, 0, height, scratch)
        start = _run_grid(calls, program, stop, one.first_slot, record, scratch)
    if out.size == 0:
        return
    planes, positions = floats_of(scratch.planes), floats_of(scratch.positions)
    statistics_ = floats_of(scratch.statistics)
    plane = planes.size // 3
    xs, ys = positions[:width], positions[width : 2 * width]
    # Rows are sampled in runs, as many as the planes hold: tap tables are laid once a run.
    run = height if whole else min(height, plane // width)
    for y0 in range(0, height, run):
        y1 = min(y0 + run, height)
        if not whole:
            _sample(calls, source, record, y0, y1, scratch)
        for y in range(y0, y1, _STORED):
            first = (y - y0) * width
            rows = min(_STORED, y1 - y)
            r, g, b = planes[first:plane], planes[plane + first : 2 * plane], planes[2 * plane + first :]
            for k in range(rows):
                row = slice(k * width, (k + 1) * width)
                one_r, one_g, one_b = r[row], g[row], b[row]
                _run_row(calls, program, start, program.size, statistics_, y + k, height, one_r, one_g, one_b, xs, ys)
            # The rows just computed are still in the first-level cache. ``r``, ``g`` and ``b`` begin with them.
            call_store(
                calls.store, (r, g, b, rows * width, out, y * width, height * width, one.channels, streamed, width,
                one.patches, scratch.packed.address)
            )  # fmt: skip
    if streamed:
        fence()  # stores past the caches are not ordered otherwise, and another thread reads the result


@cached_jit("none(float32[::1], float32[::1], int64, int64, float32, int64[::1], float32[::1])")
def mix_image(one, other, width, channels, weight, box, out):
    """Mix one image with another by weight; inside the box (x0, y0, x1, y1), in pixels, only the other is shown."""
    row = width * channels
    left = box[0] * channels
    right = box[2] * channels
    for at in range(0, out.size, row):
        a = one[at : at + row]
        b = other[at : at + row]
        c = out[at : at + row]
        for k in range(row):
            c[k] = color.mix(a[k], b[k], weight)
        y = at // row
        if y >= box[1] and y < box[3]:
            copy(b[left:right], c[left:right])
