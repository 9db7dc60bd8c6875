"""The CPU runtime's run: one image at a time through sampling, its program and the store, without the GIL."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import color
from ..compiled import kept
from ..layout import FILTER, HEIGHT, LINEAR, SEPARABLE, WIDTH
from ..ops import END, ENTRY_HEADER, OPS, SLOT
from ..scalar import f32, i32, loop
from .calls import (
    ADD_TAPS,
    CALLS,
    GRIDS,
    LAY_TAPS,
    MIX_ROWS,
    READS_NEIGHBORS,
    ROWS,
    SAMPLE_GATHERED,
    SAMPLE_PATCHED,
    SAMPLE_SEPARABLE,
    STORE,
    SUM_PATCHES,
)
from .intrinsics import caller, copy, fence
from .patches import SUM_PATCHES_PIECES
from .program import GRID_PIECES, ROW_PIECES, call_grid, call_row, user_row
from .sample import (
    ADD_TAPS_PIECES,
    GATHERED_PIECE,
    LAY_TAPS_PIECE,
    MIX_ROWS_PIECES,
    PATCHED_PIECE,
    SAMPLE,
    SEPARABLE_PIECE,
)  # fmt: skip
from .store import STORE_PIECES, call_store

_END = f32(END.code)

# Rows stored at a time: they lie in the first-level cache, and lines shared with others are few.
_STORED = 8

_call_sample = caller(SAMPLE)


def call_table(
    source: str, kind: int, planar: bool, ops: Any, separable: Any, filters: Any, functions: tuple[Any, ...]
) -> Any:
    """Addresses for :func:`run_image`, of what a plan needs: other loops are not compiled.

    Parameters
    ----------
    source : {"uint8", "float32"}
    kind, planar
        Of the result.
    ops : (len(OPS),) bool
        Which ops the programs hold.
    separable : (N,) bool
        Which images may be sampled in two one-dimensional passes.
    filters : (N,) int
    functions : tuple
        Of the user's.
    """
    table = np.zeros(CALLS, np.int64)
    patched = ~separable & (filters <= LINEAR)
    if np.any(separable):
        table[MIX_ROWS] = MIX_ROWS_PIECES[source].address
        table[SAMPLE_SEPARABLE] = SEPARABLE_PIECE.address
    if np.any(patched):
        table[SUM_PATCHES] = SUM_PATCHES_PIECES[source].address
        table[SAMPLE_PATCHED] = PATCHED_PIECE.address
    if not np.all(separable | patched):
        table[ADD_TAPS] = ADD_TAPS_PIECES[source].address
        table[SAMPLE_GATHERED] = GATHERED_PIECE.address
    if not np.all(patched):
        table[LAY_TAPS] = LAY_TAPS_PIECE.address
    table[STORE] = STORE_PIECES[kind, planar].address
    for code in np.flatnonzero(ops).tolist():
        if code in ROW_PIECES:
            table[ROWS + code] = ROW_PIECES[code].address
        elif OPS[code].user:
            table[ROWS + code] = user_row(OPS[code], functions).address
        if code in GRID_PIECES:
            table[GRIDS + code] = GRID_PIECES[code].address
            table[READS_NEIGHBORS + code] = OPS[code].neighbors
    return table


@loop
def _next_stop(calls, program, at, first_slot):
    """Position of the next entry from ``at`` that needs the whole grid, or of the end.

    That is one whose statistics are still to be computed, or one that reads neighbors.
    """
    while program[at] != _END:
        code = i32(program[at])
        if calls[GRIDS + code] != 0:
            if calls[READS_NEIGHBORS + code] != 0 or i32(program[at + ENTRY_HEADER + SLOT]) >= first_slot:
                return at
        at += i32(program[at + 1])
    return at


@loop
def _run_row(calls, program, start, stop, statistics_, y, height, r, g, b, xs, ys):
    """The entries ``start`` to ``stop`` of a program over one row."""
    at = start
    while at < stop and program[at] != _END:
        address = calls[ROWS + i32(program[at])]
        if address != 0:
            call_row(address, (program[at + ENTRY_HEADER :], statistics_, y, height, r, g, b, xs, ys, r.size))
        at += i32(program[at + 1])


@loop
def _sample(calls, source, size, channels, scale, record, words, y0, y1, planes, floats, ints, packed):
    """Rows ``y0`` to ``y1`` of the grid into the planes."""
    way = SAMPLE_PATCHED if record[FILTER] <= LINEAR else SAMPLE_GATHERED
    if record[SEPARABLE] == 1:
        way = SAMPLE_SEPARABLE
    _call_sample(
        calls[way], (calls, source, size, channels, scale, record, words, y0, y1, planes, planes.shape[1], floats,
        floats.size, ints, ints.size, packed)
    )  # fmt: skip


@loop
def _run_grid(calls, program, stop, first_slot, statistics_, height, width, planes, xs, ys, work, ints):
    """The entries up to the last one that needs the whole grid, over it; gives the position to go on from."""
    r, g, b = planes[0], planes[1], planes[2]
    start = 0
    while program[stop] != _END:
        for y in range(height):
            row = slice(y * width, (y + 1) * width)
            _run_row(calls, program, start, stop, statistics_, y, height, r[row], g[row], b[row], xs, ys)
        code = i32(program[stop])
        call_grid(
            calls[GRIDS + code], (program[stop + ENTRY_HEADER :], statistics_, r, g, b, height, width, work, ints)
        )
        after = stop + i32(program[stop + 1])
        start = after if calls[READS_NEIGHBORS + code] != 0 else stop
        stop = _next_stop(calls, program, after, first_slot)
    return start


@loop
def run_image(
    calls, source, size, channels, scale, record, words, program, first_slot, statistics_, planes, floats, ints, packed,
    out, out_channels, streamed
):  # fmt: skip
    """Sample, run the program, store: one image through one pass.

    ``source`` and ``out`` are bytes, whatever they hold: what knows their types is in ``calls``. ``size`` is that of
    the source in elements.
    With statistics still to compute (``first_slot`` on) or neighbors to read, the whole grid is kept in ``planes``
    meanwhile, otherwise a few rows. An empty ``out`` makes a pass for its statistics only.
    """
    height = record[HEIGHT]
    width = record[WIDTH]
    stop = _next_stop(calls, program, 0, first_slot)
    whole = program[stop] != _END
    xs = floats[:width]
    ys = floats[width : 2 * width]
    work = floats[2 * width :]
    start = 0
    if whole:
        _sample(calls, source, size, channels, scale, record, words, 0, height, planes, work, ints, packed)
        start = _run_grid(calls, program, stop, first_slot, statistics_, height, width, planes, xs, ys, floats, ints)
    if out.size == 0:
        return
    # Rows are sampled in runs, so that tap tables are laid once a run; a run stays within the planes.
    run = height if whole else min(height, planes.shape[1] // width)
    for y0 in range(0, height, run):
        y1 = min(y0 + run, height)
        if not whole:
            _sample(calls, source, size, channels, scale, record, words, y0, y1, planes, work, ints, packed)
        for y in range(y0, y1, _STORED):
            first = (y - y0) * width
            rows = min(_STORED, y1 - y)
            for k in range(rows):
                row = slice(first + k * width, first + (k + 1) * width)
                r, g, b = planes[0, row], planes[1, row], planes[2, row]
                _run_row(calls, program, start, program.size, statistics_, y + k, height, r, g, b, xs, ys)
            done = slice(first, first + rows * width)
            r, g, b = planes[0, done], planes[1, done], planes[2, done]
            call_store(calls[STORE], (r, g, b, rows * width, out, y * width, height * width, out_channels, streamed))
    if streamed:
        fence()


@kept
def mix_image(one, other, width, channels, weight, box, out):
    """One image mixed with another; inside the box (x0, y0, x1, y1) the other alone is shown."""
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
