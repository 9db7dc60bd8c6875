"""Compilation of a recorded plan to the records and programs that the kernels read."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._checks.types import Floats, Ints, Mask
from .._threads.turn import zeros
from ..kernels import exact, layout, ops
from ..kernels.grids import center, describe_grids, fill_records, widen, write_instructions
from ..kernels.prepass import AREA, tile_sides
from .plan import Entry, Grid, Origin, Plan, is_whole_pixels

# Inverse width of a hard edge: no float32 position falls inside its ramp.
_HARD = 1e30
_FILTERS = np.arange(len(layout.RADIUS))  # sets of filters are masks by code, read with one look-up
_OVERSHOOTS = np.array(layout.OVERSHOOTS, np.bool_)
_RARE = (_FILTERS > layout.GAUSSIAN) | np.isin(_FILTERS, layout.RARE_FILTERS)
_CLAMP = ops.BRIGHTNESS  # with factor 1, which only clamps to [0, 1]
_ROUNDING = 1e-9  # error of products of matrices
_BEYOND = 2**63 - 1  # the largest int64: right of and below every pixel
_NO_TAPS = np.empty((0, 2), np.int64)


class Pass(NamedTuple):
    """One launch over a grid: for its statistics or, the last one, for the result."""

    records: NDArray[np.void]  # (N,) of layout.RECORD; the runtime fills in "source", "output" and "stride"
    programs: NDArray[np.float32]  # (N, L)
    first_slot: int  # this pass computes the statistics from this slot to end_slot
    end_slot: int


def exact_resizes(plan: Plan, parts: Ints) -> tuple[NDArray[np.void], Ints]:
    """EXACT records of a plan for ``parts`` (N, 4) of its results; and the (N, 4) source regions that they read.

    Windows are counted from the region's corner.
    """
    window = plan.grid.window
    images = zeros(exact.EXACT, len(plan))
    images["height"], images["width"] = plan.sizes.T
    images["part"] = parts
    images["filter"] = plan.grid.filter
    images["rule"] = plan.exact
    size, result = (window[:, 2:] - window[:, :2]).astype(np.float64), plan.sizes[:, ::-1]
    scale = size / result
    reach = layout.RADIUS[plan.grid.filter][:, None] * np.maximum(scale, 1.0) + 1.0
    low = np.clip(np.floor((parts[:, :2] + 0.5) * scale - reach), 0, size - 1)
    high = np.clip(np.ceil((parts[:, 2:] - 0.5) * scale + reach), low + 1, size)
    corner = window[:, :2] + low.astype(np.int64)
    region = np.concatenate([corner, window[:, :2] + high.astype(np.int64)], 1)
    images["window"] = window - np.tile(corner, (1, 2))
    return images, region


def areas_of(plan: Plan, entry: Entry, applies: Mask, sizes: Ints) -> NDArray[np.void]:
    """Return (N,) AREA records of the instruction that changes whole images of sizes (N, 2).

    Operands are counted in elements.
    """
    areas: NDArray[np.void] = zeros(AREA, len(plan))
    areas["applies"] = applies
    areas["height"], areas["width"] = sizes.T
    areas["out_height"], areas["out_width"] = plan.sizes.T
    for k, name in enumerate(ops.AREA_PARAMETERS[: ops.AREA_COLOR.start]):
        areas[name] = entry.params[:, k]
    areas["fill"] = entry.params[:, ops.AREA_COLOR]
    if entry.operand is not None:
        areas["values"], areas["count"] = entry.operand.starts, entry.operand.counts
    if np.any(entry.codes == ops.CLAHE.code):
        tiles = np.maximum(np.stack([areas["rows"], areas["columns"]], 1), 1)
        areas["side"] = tile_sides(sizes, tiles)
    return areas


class Stored(NamedTuple):
    """How an exact resize stores its bytes as the result: a part of them, mirrored, normalized."""

    parts: Ints  # (N, 4), x0, y0, x1, y1
    mirrored: Mask  # (N,), the last column is stored first
    normal: Floats  # (N, 7), parameters of the op "normalize_bytes", 0 where bytes are not normalized

    @staticmethod
    def of(parts: Ints) -> "Stored":
        """Return parts that are stored as they are."""
        n = len(parts)
        return Stored(parts, np.zeros(n, np.bool_), np.zeros((n, ops.NORMALIZE_BYTES.width)))


def stored_bytes(plan: Plan) -> Stored | None:
    """Return how an exact resize stores the results of the plan after it, so that this needs no pass.

    Return None where the plan does more than cut out a rectangle, mirror it from left to right, and normalize it.
    """
    codes = ops.SKIP.code, ops.NORMALIZE_BYTES.code
    if plan.blurs or not all(np.isin(one.codes, codes).all() for one in plan.entries):
        return None
    grid = _as_arrays(plan.grid)
    matrix = grid[1]
    if np.any(_records(plan.grid, grid, plan.grid.window)["way"] != layout.WHOLE) or np.any(matrix[:, 1, 1] < 0.0):
        return None
    size = plan.sizes[:, ::-1]
    corner = np.rint(matrix[:, :2, 2] - size / 2.0).astype(np.int64)
    normal = np.zeros((len(plan), ops.NORMALIZE_BYTES.width))
    for entry in plan.entries:
        here = entry.codes == ops.NORMALIZE_BYTES.code
        normal[here] = entry.params[here]
    return Stored(np.concatenate([corner, corner + size], 1), matrix[:, 0, 0] < 0.0, normal)


class _GridPass(NamedTuple):
    grid: Grid
    stop: int  # number of program instructions to run
    first_slot: int
    end_slot: int
    used: Ints  # (N,): statistics of each image in this pass; 1 for the result


def _same_pixels(a: Grid, b: Grid) -> bool:
    """Return True if two grids hold the same pixels in any order: they differ at most by flips and quarter turns."""
    if a.sizes is b.sizes and a.origins[0] is b.origins[0]:
        return True
    one, other = a.origins[0], b.origins[0]
    same = np.array_equal(a.window, b.window) and np.array_equal(a.filter, b.filter)
    if not same or a.kernel is not b.kernel or not np.array_equal(_support(a), _support(b)):
        return False
    # Map from pixels of b to pixels of a: a permutation if it maps pixels to pixels and b's grid onto a's.
    try:
        between = np.linalg.inv(one.matrix) @ other.matrix
    except np.linalg.LinAlgError:  # a degenerate view that shows only a line
        return False
    whole = np.round(between)
    if np.max(np.abs(between - whole), initial=0.0) > _ROUNDING or not np.all(is_whole_pixels(whole)):
        return False
    corners = np.zeros((len(whole), 2, 2))
    corners[:, :, 1] = b.sizes[:, ::-1]
    moved = whole[:, :2, :2] @ corners + whole[:, :2, 2:]
    onto = np.stack([np.zeros_like(a.sizes), a.sizes[:, ::-1]], 2)
    return np.array_equal(np.sort(moved, 2), onto)


def _from_center(matrix: Floats, sizes: Ints) -> Floats:
    """Return matrices for positions relative to the grid's center: smaller numbers lose less in float32."""
    moved = np.empty(matrix.shape)
    center(np.ascontiguousarray(matrix, np.float64), np.ascontiguousarray(sizes, np.int64), moved)
    return moved


def _as_arrays(grid: Grid, matrix: Floats | None = None) -> tuple[Any, ...]:
    """Return a grid as native loops take it: sizes, matrices or those from the center, supports, filters, windows."""
    source = grid.origins[0]
    return (
        np.ascontiguousarray(grid.sizes, np.int64),
        _from_center(source.matrix, grid.sizes) if matrix is None else np.ascontiguousarray(matrix, np.float64),
        np.ascontiguousarray(source.support, np.float64),
        np.ascontiguousarray(grid.filter, np.int64),
        np.ascontiguousarray(grid.window, np.int64),
    )


def _taps(grid: Grid) -> Ints:
    return _NO_TAPS if grid.kernel is None else np.ascontiguousarray(grid.kernel, np.int64)


def _support(grid: Grid) -> Floats:
    """Return filter support in source pixels; nearest-neighbor images are never antialiased."""
    return np.where((grid.filter == layout.NEAREST)[:, None], 1.0, grid.origins[0].support)


def _records(grid: Grid, arrays: tuple[Any, ...], region: Ints) -> NDArray[np.void]:
    """Return records of a grid, with positions relative to the region's corner."""
    found: NDArray[np.void] = zeros(layout.RECORD, len(region))
    fill_records(*arrays, _taps(grid), np.ascontiguousarray(region), found)
    return found


def _set_edges(params: NDArray[np.float32], grid: Grid, there: Origin) -> None:
    """Set the edge widths of a painted rectangle: the filter's width, or hard edges for nearest-neighbor images."""
    hard = (grid.filter == layout.NEAREST)[:, None]
    params[:, ops.RECTANGLE] -= np.where(hard, np.float32(layout.TIE_NUDGE), np.float32(0))
    params[:, ops.EDGES] = np.where(hard, _HARD, 1.0 / there.support)


def compile_plan(plan: Plan) -> tuple[list[Pass], Ints, NDArray[np.uint8]]:
    """Return the passes, the result's last, the (N, 4) source regions that they read, and the ops in them.

    Records hold positions relative to that region, so that a decoder may produce the region only. Of the ops,
    (len(ops.OPS),), those that occur are 1.
    """
    used = np.zeros(len(ops.OPS), np.uint8)
    if all(entry.taken_over is None for entry in plan.entries):  # one pass, for which a single loop does all
        n, grid = len(plan), plan.grid
        region, found = np.empty((n, 4), np.int64), zeros(layout.RECORD, n)
        given = _as_arrays(grid, grid.origins[0].matrix)
        clamps = describe_grids(*given, _taps(grid), np.empty((3, 3)), region, found) > 0 and plan.of_bytes
        programs = _programs(plan, grid, plan.entries, (), clamps, used)
        return [Pass(found, programs, 0, 0)], region, used
    runs, slots = _passes_over_grids(plan)
    arrays = [_as_arrays(run.grid) for run in runs]
    region, passes = _region(runs, arrays), []
    for run, one in zip(runs, arrays, strict=True):
        clamps = bool(_overshoots(plan, run.grid).any())
        programs = _programs(plan, run.grid, plan.entries[: run.stop], slots, clamps, used)
        passes.append(Pass(_records(run.grid, one, region), programs, run.first_slot, run.end_slot))
    return passes, region, used


def _passes_over_grids(plan: Plan) -> tuple[list[_GridPass], list[Ints]]:
    """Return passes over the grids of statistics, the result's last, and the statistics slots of each instruction.

    Slots are counted per image: an instruction that is the first statistic of some images and the second of others
    needs no more launches than either.
    """
    count = np.zeros(len(plan), np.int64)  # statistics of each image in the current pass
    runs: list[_GridPass] = []
    slots: list[Ints] = []
    first = 0
    grid = plan.grid
    stop = 0
    result = None, plan.grid
    for k, (codes, over) in enumerate([*((entry.codes, entry.taken_over) for entry in plan.entries), result]):
        if over is not None and count.any() and not _same_pixels(over, grid):
            runs.append(_GridPass(grid, stop, first, first + int(count.max()), count))
            first = runs[-1].end_slot
            count = np.zeros(len(plan), np.int64)
        slots.append(first + count)
        if over is not None and codes is not None:
            grid = over
            stop = k + 1
            count = count + ops.HAS_STATISTIC[codes]
    everywhere = np.ones(len(plan), np.int64)
    runs.append(_GridPass(plan.grid, len(plan.entries), first, first + int(count.max(initial=0)), everywhere))
    return runs, slots


def _region(runs: list[_GridPass], arrays: list[tuple[Any, ...]]) -> Ints:
    """Return source pixels (x0, y0, x1, y1) read by any pass of the image, whatever passes other images need."""
    region = np.zeros((len(runs[-1].used), 4), np.int64)
    region[:, :2] = _BEYOND
    for run, grid in zip(runs, arrays, strict=True):
        widen(*grid, run.used, region)
    return region


def _overshoots(plan: Plan, grid: Grid) -> Mask:
    """Return images whose filter may leave [0, 1] but must not: Pillow and torchvision clamp resampled bytes."""
    negative: Mask = _OVERSHOOTS[grid.filter]
    return negative & plan.of_bytes


def build_for(plan: Plan, used: NDArray[np.uint8]) -> str:
    """Return the name of the smallest GPU kernel build that can run a plan with these ops, see :func:`compile_plan`."""
    if used[ops.MOTION.code]:
        return ops.MOVING
    return ops.FULL if _RARE[plan.grid.filter].any() or (used & ops.IS_RARE).any() else ops.PLAIN


def _programs(
    plan: Plan, grid: Grid, entries: Sequence[Entry], slots: Sequence[Ints], clamps: bool, used: NDArray[np.uint8]
) -> NDArray[np.float32]:
    """Return programs over a grid of the first ``entries`` of a plan, with the statistics slots of each.

    They begin with a clamp if filters of some images overshoot. Sets the ops in them in ``used``.
    """
    lead = ops.INSTRUCTION_HEADER + _CLAMP.width if clamps else 0
    widths = [ops.INSTRUCTION_HEADER + entry.params.shape[1] for entry in entries]
    # Zeros at the end: the END code, and room for the look-ahead of the last instruction, by as many words as any has.
    ahead = max((entry.params.shape[1] for entry in plan.entries), default=0) if plan.functions else 0
    programs: NDArray[np.float32] = zeros(np.float32, len(plan), lead + sum(widths) + 4 + ahead)
    if clamps:
        codes = np.where(_overshoots(plan, grid), _CLAMP.code, ops.SKIP.code).astype(np.int32)
        write_instructions(codes, np.ones((len(plan), _CLAMP.width), np.float32), 0, programs, used)
    at = lead
    for k, (entry, width) in enumerate(zip(entries, widths, strict=True)):
        write_instructions(np.ascontiguousarray(entry.codes), np.ascontiguousarray(entry.params), at, programs, used)
        params = programs[:, at + ops.INSTRUCTION_HEADER : at + width]
        if entry.taken_over is not None:
            statistical = ops.HAS_STATISTIC[entry.codes]
            params[statistical, ops.SLOT] = slots[k][statistical]
        if entry.origin:
            there = grid.origins[entry.origin]
            params[:, : ops.MATRIX_WIDTH] = _from_center(there.matrix, grid.sizes).reshape(-1, 9)
            if np.any(entry.codes == ops.PAINT.code):
                _set_edges(params, grid, there)
        at += width
    return programs
