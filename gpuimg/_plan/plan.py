"""Plans: the operations on each image of a batch, as arrays.

Recording is vectorized NumPy over the images. Geometry multiplies matrices; every other operation appends a column to
the program: an op code and parameters for each image. :mod:`gpuimg._plan.compile` turns it into the kernels' input.

Coordinates are continuous with half-pixel centers, ``(x, y)``; a matrix maps the current grid back to an earlier
coordinate system (output -> source).
"""

from collections.abc import Iterator
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._checks.records import record
from .._checks.types import Floats, Ints, Mask
from .._data.images import whole_regions
from .._threads.turn import zeros
from ..kernels import layout, ops

#: Channel counts that the kernels process together. Other images are processed channel by channel, by geometry only.
KERNEL_CHANNELS = (1, 3)

_UNSCALED = np.empty((0, 2))
_OF_ANY_CHANNELS = [op.code for op in (ops.SKIP, ops.PAINT, ops.GRID, ops.MOTION, ops.ELASTIC, *ops.OF_ANY_CHANNELS)]


class Evolving:
    """A record without slots and without state that follows from its fields, which would not change."""

    def __init_subclass__(cls) -> None:
        for name in dir(cls):
            if name == "__post_init__" or isinstance(getattr(cls, name), cached_property):
                raise TypeError(f"{cls.__name__}.{name} would keep its value when evolve() changes a field")


_Value = TypeVar("_Value", bound=Evolving)


def evolve(value: _Value, **changes: Any) -> _Value:
    """Return a value with others of some fields, as ``dataclasses.replace`` does.

    Without ``__init__`` and checks of fields: every recorded function does this several times.
    """
    new = object.__new__(type(value))
    new.__dict__ = value.__dict__ | changes
    return new


class Origin(NamedTuple):
    """An earlier coordinate system: the source's pixel grid, or the grid when a fill or user function was recorded."""

    matrix: Floats  # (N, 3, 3), current grid -> this one
    support: Floats  # (N, 2), pixels of this grid spanned by one filter unit, in x and y


@record
class Grid(Evolving):
    """The pixel grid at one point of the plan, with its maps back to all earlier coordinate systems."""

    sizes: Ints  # (N, 2), height and width
    origins: tuple[Origin, ...]  # origins[0] is the source
    filter: Ints  # (N,), one of layout's filters
    window: Ints  # (N, 4), x0 y0 x1 y1 of the source pixels that may be read
    kernel: Ints | None = None  # (N, 2), taps in x and y of images whose filter is GAUSSIAN


class Operand(NamedTuple):
    """What an op on whole images needs besides its parameters: tables, weights, positions."""

    values: Any  # float32, flat, of the host or of the device
    starts: Ints  # (N,), where those of an image begin
    counts: Ints  # (N,)

    def take(self, rows: Ints) -> "Operand":
        """Return that of the images at ``rows``."""
        return Operand(self.values, self.starts[rows], self.counts[rows])


@record
class Entry(Evolving):
    """One instruction of the program, a column with a value for each image."""

    codes: NDArray[np.int32]  # (N,), SKIP for images to which it does not apply
    params: NDArray[np.float32]  # (N, P)
    origin: int = 0  # if not 0, the first nine parameters are the matrix to this coordinate system
    taken_over: Grid | None = None  # for a statistic: the pixels it is computed over
    operand: Operand | None = None

    def normalization(self, k: int) -> tuple[Floats, Floats] | None:
        """Return the mean and the standard deviation (3,) that image ``k`` is normalized by, in units of 1."""
        params = self.params[k].astype(np.float64)
        if self.codes[k] == ops.NORMALIZE.code:
            scale, shift = params[:3], params[3:6]
            return -shift / scale, 1.0 / scale
        if self.codes[k] == ops.NORMALIZE_BYTES.code:
            unit = params[ops.NORMALIZE_BYTES.at("divisor")] / 255.0
            return params[:3] * unit, params[3:6] * unit
        return None


class Step(NamedTuple):
    """One recorded geometric call, stored for ``describe``; composed matrices no longer show single calls."""

    at: int  # number of instructions recorded before it
    matrix: Floats  # (N, 3, 3), new grid -> previous grid
    sizes: Ints  # (N, 2), of the new grid


@record
class Plan(Evolving):
    """The operations recorded for a batch of N images. Immutable: every method returns a new plan."""

    grid: Grid
    source_sizes: Ints  # (N, 2), height and width
    channels: int
    of_bytes: bool = False  # source values are, or were computed from, uint8 or uint16: resampling is clamped to [0, 1]
    entries: tuple[Entry, ...] = ()
    functions: tuple[Any, ...] = ()  # user functions, by the index that instructions hold
    normalized: bool = False
    blurs: bool = False  # the filter applies to the source grid (a blur or a mirror): geometry needs a new segment
    sharpens: bool = False  # an instruction reads neighbors: geometry, or another such one, needs a new segment
    history: tuple[Step, ...] = ()
    exact: int | None = None  # the grid is resized as bytes, by this rule of kernels/exact.py; the plan does no more
    of_exact: int | None = None  # the source are bytes that were resized by this rule
    empty_size: tuple[int, int] = (0, 0)  # height and width of results, had the plan any; 0 x 0 if unknown

    @staticmethod
    def start(sizes: Ints, channels: int, *, of_bytes: bool) -> "Plan":
        """Return the identity plan for source images of these (N, 2) sizes."""
        plan = _start(len(sizes), channels, of_bytes)
        window = zeros(np.int64, len(sizes), 4)
        window[:, 2:] = sizes[:, ::-1]
        return evolve(plan, grid=evolve(plan.grid, sizes=sizes, window=window), source_sizes=sizes)

    def then(self) -> "Plan":
        """Return the identity plan for the results of this one."""
        plan = Plan.start(self.sizes, self.channels, of_bytes=self.of_bytes and not self.normalized)
        return evolve(plan, of_exact=self.exact, empty_size=self.empty_size)

    def __len__(self) -> int:
        return len(self.grid.sizes)

    @property
    def sizes(self) -> Ints:
        """(N, 2) heights and widths of the results."""
        return self.grid.sizes

    @property
    def first_size(self) -> tuple[int, int]:
        """Height and width of the first result, or of no results."""
        height, width = self.sizes[0].tolist() if len(self) else self.empty_size
        return height, width

    @property
    def changes_nothing(self) -> bool:
        """True if every result equals its source, pixel for pixel."""
        if self.is_fresh:
            return True
        # What most plans change first: then no matrix has to be compared.
        if any(entry.codes[0] != ops.SKIP.code for entry in self.entries if len(self)):
            return False
        return bool((self.grid.sizes == self.source_sizes).all()) and bool(self.unchanged_images().all())

    @property
    def is_fresh(self) -> bool:
        """True if no call was recorded, not even one that changes nothing."""
        return not self.entries and not self.history and not self.blurs

    @property
    def blocks_geometry(self) -> bool:
        """True if pixels must be computed before geometry: after filters, and after ops that depend on position."""
        return self.blurs or self.sharpens or any(bool(ops.IS_PLACED[entry.codes].any()) for entry in self.entries)

    @property
    def is_crop(self) -> bool:
        """True if every result is a rectangle of the source's pixels."""
        grid, matrix = self.grid, self.grid.origins[0].matrix
        shifted = np.all(matrix[:, :2, :2] == np.eye(2), (1, 2)) & is_whole_pixels(matrix)
        inside = np.all(grid.window[:, 2:] - grid.window[:, :2] == grid.sizes[:, ::-1], 1)
        return not self.entries and not self.blurs and bool(np.all(shifted & inside))

    @property
    def area(self) -> Entry | None:
        """The instruction that changes whole images, before all others of the plan."""
        first = self.entries[0] if self.entries else None
        return first if first is not None and ops.IS_AREA[first.codes].any() else None

    @property
    def holds_bytes(self) -> bool:
        """True if the results are bytes of an exact resize, moved by whole pixels, with colors painted around."""
        if self.of_exact is None or self.blurs:
            return False
        painted = [np.isin(entry.codes, (ops.SKIP.code, ops.PAINT.code)).all() for entry in self.entries]
        return all(painted) and bool(np.all(is_whole_pixels(self.grid.origins[0].matrix)))

    def unchanged_images(self) -> Mask:
        """Return a mask (N,) of images that the plan leaves unchanged, pixel for pixel."""
        grid = self.grid
        same: Mask = np.all(grid.origins[0].matrix == np.eye(3), (1, 2)) & (grid.filter != layout.GAUSSIAN)
        same = same & np.all(grid.window == whole_regions(self.source_sizes), 1)
        same = same & np.all(grid.sizes == self.source_sizes, 1)
        for entry in self.entries:
            same = same & (entry.codes == ops.SKIP.code)
        return same

    # -- recording ---------------------------------------------------------------------------------------------

    def with_entry(
        self, op: ops.Op | NDArray[np.int32], params: Any = (), *, where: Mask | None = None, origin: int = 0,
        sharpens: bool = False,
    ) -> "Plan":  # fmt: skip
        """Append an op to the program, or one of (N,) op codes for each image; ``sharpens`` marks the plan.

        ``params`` are scalars or (N,) arrays. Parameters that the op table reserves (the matrix to ``origin``, the
        slot and channels of a statistic) are filled in here and by the compilation.
        """
        n = len(self)
        statistical = True
        if isinstance(op, ops.Op):
            codes = np.empty(n, np.int32)
            codes.fill(op.code)
            statistical = bool(ops.HAS_STATISTIC[op.code])
        else:
            codes = op
        if where is not None:
            codes = np.where(where, codes, np.int32(ops.SKIP.code))
        check_channels(codes, self.channels)
        first = ops.MATRIX_WIDTH if origin else 0
        statistical = statistical and bool(ops.HAS_STATISTIC[codes].any())
        column = np.zeros((n, max(first + len(params), ops.SLOT + 1 if statistical else 0)), np.float32)
        for k, value in enumerate(params, first):
            column[:, k] = value
        if statistical:
            column[ops.HAS_STATISTIC[codes], ops.CHANNELS] = self.channels
        entry = Entry(codes, column, origin, self.grid if statistical else None)
        return evolve(self, entries=(*self.entries, entry), sharpens=self.sharpens or sharpens)

    def with_blur(self, sigma: Floats, kernel: Ints, where: Mask | None) -> "Plan":
        """Blur the source with Gaussians of (N, 2) standard deviations and sizes, x and y; only on a new plan."""
        source = self.grid.origins[0]
        chosen = np.full(len(self), layout.GAUSSIAN)
        if where is not None:
            chosen = np.where(where, chosen, self.grid.filter)
            sigma = np.where(where[:, None], sigma, 1.0)
        grid = evolve(
            self.grid, origins=(Origin(source.matrix, sigma), *self.grid.origins[1:]), filter=chosen, kernel=kernel
        )
        return evolve(self, grid=grid, blurs=True)

    def mirrored(self, filter: int, local: Floats, sizes: Ints, where: Mask | None) -> "Plan":
        """Move to a larger grid that mirrors the window around it by REFLECT or SYMMETRIC; only on a new plan."""
        plan = self.transformed(local, sizes, where=where)
        chosen = filter if where is None else np.where(where, filter, plan.grid.filter)
        filters = np.broadcast_to(chosen, len(self)).astype(np.int64)
        return evolve(plan, grid=evolve(plan.grid, filter=filters), blurs=True)

    def with_motion(self, taps: Floats, step: Floats, where: Mask | None) -> "Plan":
        """Average ``taps`` points on a line through every pixel, (N, 2) steps between them; only on a new plan."""
        filters = np.full(len(self), layout.LINEAR)
        if where is not None:
            filters = np.where(where, filters, self.grid.filter)
        plan = evolve(self, grid=evolve(self.grid, filter=filters))
        return plan.with_entry(ops.MOTION, (taps, *step.T), where=where, sharpens=True)

    def with_area(
        self, op: ops.Op, params: tuple[Any, ...], operand: Operand | None, where: Mask | None, sizes: Ints | None
    ) -> "Plan":
        """Change whole images, perhaps to other sizes (N, 2); only on a new plan."""
        plan = self.with_entry(op, params, where=where, sharpens=True)
        entry = evolve(plan.entries[0], operand=operand)
        if sizes is None:
            return evolve(plan, entries=(entry,))
        sizes = sizes if where is None else np.where(where[:, None], sizes, self.sizes)
        grid = Plan.start(sizes, self.channels, of_bytes=self.of_bytes).grid
        return evolve(plan, entries=(entry,), grid=grid)

    def with_origin(self) -> "tuple[Plan, int]":
        """Store the current grid for an op that refers to its coordinates; return the plan and the grid's number."""
        n = len(self)
        present = Origin(np.broadcast_to(np.eye(3), (n, 3, 3)), np.ones((n, 2)))
        origins = (*self.grid.origins, present)
        return evolve(self, grid=evolve(self.grid, origins=origins)), len(origins) - 1

    def with_channels(self, channels: int) -> "Plan":
        """Return the same plan with a different number of channels from here on."""
        return evolve(self, channels=channels)

    def as_normalized(self) -> "Plan":
        """Return the same plan, marked as no longer in [0, 1]."""
        return evolve(self, normalized=True)

    def normalized_by(self, op: ops.Op, params: tuple[float, ...], where: Mask | None) -> "Plan":
        """Normalize by an op with the same parameters for all images."""
        if where is not None:
            return self.with_entry(op, params, where=where).as_normalized()
        check_channels(op.code, self.channels)
        entry = _constants(op.code, params, len(self.grid.sizes))
        return evolve(self, entries=(*self.entries, entry), normalized=True)

    def with_function(self, function: Any) -> "tuple[Plan, int]":
        """Store a user function; return the plan and the function's index."""
        if function in self.functions:
            return self, self.functions.index(function)
        return evolve(self, functions=(*self.functions, function)), len(self.functions)

    def with_paint(self, rectangle: Any, color: Floats, origin: int, *, inside: bool, where: Mask | None) -> "Plan":
        """Paint ``color`` (N, 3) outside or inside the rectangle (x0, y0, x1, y1) of a stored coordinate system."""
        sharpness = (0.0, 0.0)  # filled in by the compilation, which knows the final filter
        params = (*rectangle, *sharpness, *color.T, 1.0 if inside else 0.0)
        return self.with_entry(ops.PAINT, params, where=where, origin=origin)

    def transformed(
        self, local: Floats, sizes: Ints, *, filter: Ints | None = None, scale: Floats | None = None,
        where: Mask | None = None, window: Ints | None = None,
    ) -> "Plan":  # fmt: skip
        """Move to a new grid; ``local`` (N, 3, 3) maps it to the current one.

        ``filter`` (N,) is by default the current one. ``scale`` (N, 2): current pixels per new pixel in x
        and y, by which an antialiasing filter is stretched. ``window`` (N, 4) are the source pixels that may be read.
        """
        if where is not None:
            local = np.where(where[:, None, None], local, np.eye(3))
            sizes = np.where(where[:, None], sizes, self.sizes)
        n, moved, scaled = len(self), [], _UNSCALED if scale is None else scale
        for one in self.grid.origins:
            matrix, support = np.empty((n, 3, 3)), np.empty((n, 2))
            given = one.matrix, local, one.support, scaled
            _loops().move(*map(np.ascontiguousarray, given), matrix, support)
            if where is not None:
                support = np.where(where[:, None], support, one.support)
            moved.append(Origin(matrix, support))
        before = chosen = self.grid.filter
        if filter is not None:
            wanted, chosen = filter if where is None else np.where(where, filter, before), np.empty(n, np.int64)
            _loops().smoothest(before, wanted, chosen)
        history = (*self.history, Step(len(self.entries), local, sizes))
        window = self.grid.window if window is None else window
        grid = evolve(self.grid, sizes=sizes, origins=tuple(moved), filter=chosen, window=window, kernel=None)
        return evolve(self, grid=grid, history=history)

    def resized(self, sizes: Ints, filter: Ints, *, antialias: bool, where: Mask | None = None) -> "Plan":
        """Move to a grid of other sizes (N, 2) over the same pixels."""
        local, ratio = np.empty((len(self), 3, 3)), np.empty((len(self), 2))
        _loops().resize(*map(np.ascontiguousarray, (self.sizes, sizes)), local, ratio)
        return self.transformed(local, sizes, filter=filter, scale=ratio if antialias else None, where=where)

    def resized_exactly(self, sizes: Ints, filter: Ints, rule: int) -> "Plan":
        """Resize bytes by a rule of kernels/exact.py; only where the plan :attr:`is_crop`, and as its last call."""
        return evolve(self.resized(sizes, filter, antialias=True), exact=rule)

    def cropped(self, corner: Ints, new: Ints) -> "Plan":
        """Move to rectangles of the current grid, (N, 2) corners and sizes; no source pixel outside them is read.

        Where pixels of the grid are not whole source pixels, filters still read outside.
        """
        grid = self.grid
        n = len(grid.sizes)
        window, shift = np.empty((n, 4), np.int64), np.empty((n, 3, 3))
        before = (corner, new, grid.sizes, grid.origins[0].matrix, grid.window)
        _loops().narrow(*map(np.ascontiguousarray, before), window, shift)
        return self.transformed(shift, new, window=window)

    def take(self, rows: Ints) -> "Plan":
        """Return the plan of the images at ``rows``, in that order and any number of times."""
        copies: dict[int, Origin] = {}
        grids: dict[int, Grid] = {}

        def origin_of(one: Origin) -> Origin:
            """Copy a shared object, as below a grid, once: sharing is recognized by identity."""
            if id(one) not in copies:
                copies[id(one)] = Origin(one.matrix[rows], one.support[rows])
            return copies[id(one)]

        def grid_of(grid: Grid) -> Grid:
            if id(grid) not in grids:
                kernel = None if grid.kernel is None else grid.kernel[rows]
                part = tuple(map(origin_of, grid.origins))
                grids[id(grid)] = Grid(grid.sizes[rows], part, grid.filter[rows], grid.window[rows], kernel)
            return grids[id(grid)]

        entries = tuple(
            evolve(
                entry,
                codes=entry.codes[rows],
                params=entry.params[rows],
                operand=None if entry.operand is None else entry.operand.take(rows),
                taken_over=None if entry.taken_over is None else grid_of(entry.taken_over),
            )
            for entry in self.entries
        )
        history = tuple(Step(step.at, step.matrix[rows], step.sizes[rows]) for step in self.history)
        return evolve(
            self, grid=grid_of(self.grid), source_sizes=self.source_sizes[rows], entries=entries, history=history,
            empty_size=(0, 0) if len(rows) else self.first_size,
        )  # fmt: skip

    # -- boxes and masks ---------------------------------------------------------------------------------------

    def fills(self) -> Iterator[tuple[Entry, Floats]]:
        """Yield instructions that paint around an earlier image, and its rectangle (N, 4), infinite if not painted."""
        for entry in self.entries:
            painted = entry.codes == ops.PAINT.code
            if np.any(painted):
                outside = painted & (entry.params[:, ops.PAINT.at("inside")] == 0.0)
                rectangle = entry.params[:, ops.RECTANGLE]
                yield entry, np.where(outside[:, None], rectangle, (-np.inf, -np.inf, np.inf, np.inf))

    def displacements(self) -> list[Entry]:
        """Return the instructions that displace source pixels individually: at most the first one."""
        codes = ops.ELASTIC.code, ops.REMAP.code
        return [entry for entry in self.entries if np.isin(entry.codes, codes).any()]

    def geometry(self, color: float, *, channels: int = 1, of_bytes: bool = False, nearest: bool = True) -> "Plan":
        """Return the geometry alone, for images of other channels, with ``color`` for every fill."""
        entries = []
        for entry, rectangle in self.fills():
            codes = np.where(np.isfinite(rectangle[:, 0]), ops.PAINT.code, ops.SKIP.code).astype(np.int32)
            params = entry.params.copy()
            params[:, ops.COLOR] = color
            entries.append(Entry(codes, params, entry.origin))
        for entry in self.displacements():
            params, remapped = entry.params.copy(), bool(np.any(entry.codes == ops.REMAP.code))
            op = ops.REMAP if remapped else ops.ELASTIC
            params[:, op.at("red") : op.at("blue") + 1] = color
            if nearest:
                params[:, op.at("option" if remapped else "nearest")] = 1.0
            if remapped:
                params[:, op.at("bytes")] = 0.0
            entries.insert(0, evolve(entry, params=params))
        filters, blurred = self.grid.filter, layout.GAUSSIAN
        replaced = filters <= blurred if nearest else filters == blurred
        grid = evolve(self.grid, filter=np.where(replaced, layout.NEAREST, filters), kernel=None)
        return Plan(grid, self.source_sizes, channels, of_bytes, tuple(entries), history=self.history)


@cache
def _loops() -> Any:
    from ..kernels import grids  # imports Numba: only when it is used

    return grids


@lru_cache(16)
def _constants(code: int, params: tuple[float, ...], n: int) -> Entry:
    """Return an op with the same parameters for ``n`` images, for all plans of as many."""
    codes, column = np.full(n, code, np.int32), np.tile(np.array(params, np.float32), (n, 1))
    codes.flags.writeable = column.flags.writeable = False
    return Entry(codes, column)


def check_channels(codes: int | NDArray[np.int32], channels: int) -> None:
    """Refuse color ops for images with other than 1 or 3 channels."""
    if channels in KERNEL_CHANNELS:
        return
    refused = np.setdiff1d(codes, _OF_ANY_CHANNELS)
    if len(refused):
        name = ops.OPS[int(refused[0])].name
        raise ValueError(f"{name} is for images of 1 or 3 channels, and these have {channels}; geometry takes any")


@lru_cache(16)
def _start(n: int, channels: int, of_bytes: bool) -> Plan:
    """Return the identity plan for ``n`` images, except for their sizes, for all plans of as many."""
    source, filters = Origin(identities(n), np.ones((n, 2))), np.full(n, layout.NEAREST)
    sizes = np.zeros((n, 2), np.int64)
    for array in (source.matrix, source.support, filters):
        array.flags.writeable = False
    return Plan(Grid(sizes, (source,), filters, sizes), sizes, channels, of_bytes)


def identities(n: int) -> Floats:
    """Return (N, 3, 3) identity matrices."""
    matrices: Floats = zeros(np.float64, n, 9)
    matrices[:, ::4] = 1.0
    return matrices.reshape(n, 3, 3)


def shift_matrix(n: int, x: Any, y: Any) -> Floats:
    """Return matrices (N, 3, 3) that add to x and y."""
    matrix = identities(n)
    matrix[:, 0, 2], matrix[:, 1, 2] = x, y
    return matrix


def is_whole_pixels(matrix: Floats) -> Mask:
    """Return a mask (N,) of matrices (N, 3, 3) that map pixels to pixels: flips, quarter turns and shifts."""
    # Per column: NumPy reduces along an axis of two or three by a loop for each row.
    x, y = np.abs(matrix[:, :2, 0]), np.abs(matrix[:, :2, 1])
    shift = matrix[:, :2, 2]
    axes = (((x == 0.0) & (y == 1.0)) | ((x == 1.0) & (y == 0.0))) & (shift == np.rint(shift))
    flat = (matrix[:, 2, 0] == 0.0) & (matrix[:, 2, 1] == 0.0) & (matrix[:, 2, 2] == 1.0)
    whole: Mask = axes[:, 0] & axes[:, 1] & flat
    return whole
