"""The plan: what each image of a batch goes through, as numbers.

Recording is vectorised NumPy over the images. Geometry multiplies matrices, everything else appends a column to the
program: an op code and parameters for every image. ``compile`` turns it into the records the kernels read.

Coordinates are continuous with half-pixel centres, ``(x, y)``; a matrix leads from the present grid back to an
earlier frame (output -> source).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .kernels import layout

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

# "Sharpness" of a hard edge: a ramp no float32 position falls into.
_HARD = 1e30
_TIE_NUDGE = 1e-4  # as kernels.sampling: edges move with the nudged positions
# Of layout's filters, as kernels.sampling.reach; a Gaussian is laid over a whole image, whatever its radius.
RADIUS = np.array([0.5, 1.0, 2.0, 2.0, 0.5])
_FRAME_WORDS = 9
# Parameters of PAINT behind the matrix.
_RECTANGLE = slice(9, 13)
_COLOR = slice(15, 18)
_INSIDE = 18
_CORNERS = np.array([(-1, -1, 1, 1), (-1, 1, -1, 1)], np.float64)


@dataclass(frozen=True, slots=True)
class Frame:
    """An earlier pixel grid something refers to: the source, or where a fill or a user function was laid down."""

    matrix: Floats  # (N, 3, 3), present grid -> this frame
    support: Floats  # (N, 2), pixels of this frame one filter unit spans, x and y


@dataclass(frozen=True, slots=True)
class Grid:
    """The pixels of one moment of the plan, and how they lead back to every frame before."""

    sizes: Ints  # (N, 2), height and width
    frames: tuple[Frame, ...]  # frames[0] is the source
    filter: Ints  # (N,), one of layout's filters
    window: Ints  # (N, 4), x0 y0 x1 y1 of the source pixels that may be read
    kernel: Ints | None = None  # (N, 2), taps in x and y of images whose filter is GAUSSIAN


@dataclass(frozen=True, slots=True)
class Entry:
    """One column of the program."""

    codes: NDArray[np.int32]  # (N,), SKIP where it does not apply
    params: NDArray[np.float32]  # (N, P)
    frame: int = 0  # if not 0, the first nine parameters are the matrix to this frame
    taken_over: Grid | None = None  # of a statistics entry: the pixels it is taken over


@dataclass(frozen=True, slots=True)
class Step:
    """One move to another grid: what the matrices of the plan no longer tell apart, for people to read."""

    at: int  # entries recorded before it
    matrix: Floats  # (N, 3, 3), new grid -> the one before
    sizes: Ints  # (N, 2), of the new grid


@dataclass(frozen=True, slots=True)
class Pass:
    """One run over a grid: for its statistics, or (the last one) for the result."""

    records: NDArray[np.void]  # (N,) of layout.RECORD; "source", "output" and "stride" are the runtime's to fill
    programs: NDArray[np.float32]  # (N, L)
    first_slot: int  # statistics from this slot on are computed by this pass
    end_slot: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything recorded for a batch of N images. Immutable: every method gives a new plan."""

    grid: Grid
    channels: int
    entries: tuple[Entry, ...] = ()
    functions: tuple[Any, ...] = ()  # user functions, in the order of their index
    normalized: bool = False
    blurs: bool = False  # the filter is a blur on the source's own grid: geometry needs a new stage
    sharpens: bool = False  # an entry reads neighbours: geometry, or another such entry, needs a new stage
    history: tuple[Step, ...] = ()

    @staticmethod
    def start(sizes: Ints, channels: int) -> Plan:
        """The plan that changes nothing, for source images of these (N, 2) sizes."""
        n = len(sizes)
        source = Frame(np.tile(np.eye(3), (n, 1, 1)), np.ones((n, 2)))
        window = np.zeros((n, 4), np.int64)
        window[:, 2] = sizes[:, 1]
        window[:, 3] = sizes[:, 0]
        return Plan(Grid(sizes, (source,), np.full(n, layout.NEAREST), window), channels)

    def __len__(self) -> int:
        return len(self.grid.sizes)

    @property
    def sizes(self) -> Ints:
        """(N, 2) heights and widths of the results."""
        return self.grid.sizes

    @property
    def changes_nothing(self) -> bool:
        """Whether every result is the source itself, pixel for pixel."""
        return bool(np.all(self.unchanged_images()))

    @property
    def is_fresh(self) -> bool:
        """Whether nothing was recorded: asked of the calls, not of what they did, which other images may decide."""
        return not self.entries and not self.history and not self.blurs

    def unchanged_images(self) -> Mask:
        """Which images (N,) the plan leaves as they are, pixel for pixel."""
        grid = self.grid
        whole = np.zeros_like(grid.window)
        whole[:, 2:] = grid.sizes[:, ::-1]
        same: Mask = np.all(grid.frames[0].matrix == np.eye(3), (1, 2)) & np.all(grid.window == whole, 1)
        same = same & (grid.filter != layout.GAUSSIAN)
        for entry in self.entries:
            same = same & (entry.codes == layout.SKIP)
        return same

    # -- recording ---------------------------------------------------------------------------------------------

    def with_entry(
        self, codes: Any, params: Any = (), *, where: Mask | None = None, statistical: bool = False, frame: int = 0
    ) -> Plan:
        """Append an op to the program; ``params`` are scalars or (N,) arrays, ``codes`` one code or (N,) of them."""
        n = len(self)
        column = np.zeros((n, len(params) + (_FRAME_WORDS if frame else 0)), np.float32)
        for k, value in enumerate(params):
            column[:, k + (_FRAME_WORDS if frame else 0)] = value
        filled = np.empty(n, np.int32)
        filled[:] = codes
        if where is not None:
            filled = np.where(where, filled, np.int32(layout.SKIP))
        entry = Entry(filled, column, frame, self.grid if statistical else None)
        return replace(self, entries=(*self.entries, entry))

    def with_blur(self, sigma: Floats, kernel: Ints, where: Mask | None) -> Plan:
        """Blur the source with Gaussians of (N, 2) standard deviations and sizes in x and y; only on a fresh plan."""
        source = self.grid.frames[0]
        chosen = np.full(len(self), layout.GAUSSIAN)
        if where is not None:
            chosen = np.where(where, chosen, self.grid.filter)
            sigma = np.where(where[:, None], sigma, 1.0)
        grid = replace(
            self.grid, frames=(Frame(source.matrix, sigma), *self.grid.frames[1:]), filter=chosen, kernel=kernel
        )
        return replace(self, grid=grid, blurs=True)

    def with_sharpness(self, factor: Floats, where: Mask | None) -> Plan:
        """Mix every pixel with its smoothed neighbourhood; once in a plan."""
        return self.with_entry(layout.SHARPNESS, (factor,), where=where).as_sharpened()

    def as_sharpened(self) -> Plan:
        """The same, marked as reading neighbours."""
        return replace(self, sharpens=True)

    def with_frame(self) -> tuple[Plan, int]:
        """Remember the present grid, for an op that refers to its coordinates; gives the frame's number."""
        n = len(self)
        frame = Frame(np.broadcast_to(np.eye(3), (n, 3, 3)), np.ones((n, 2)))
        frames = (*self.grid.frames, frame)
        return replace(self, grid=replace(self.grid, frames=frames)), len(frames) - 1

    def with_channels(self, channels: int) -> Plan:
        """The same with another number of channels from here on."""
        return replace(self, channels=channels)

    def as_normalized(self) -> Plan:
        """The same, marked as no longer in [0, 1]."""
        return replace(self, normalized=True)

    def with_function(self, function: Any) -> tuple[Plan, int]:
        """Remember a user function; gives its index."""
        if function in self.functions:
            return self, self.functions.index(function)
        return replace(self, functions=(*self.functions, function)), len(self.functions)

    def with_paint(self, rectangle: Any, color: Floats, frame: int, *, inside: bool, where: Mask | None) -> Plan:
        """Lay ``color`` (N, 3) outside or inside the rectangle (x0, y0, x1, y1) of a remembered frame."""
        sharpness = (0.0, 0.0)  # filled in by compile, when the last filter is known
        params = (*rectangle, *sharpness, *color.T, 1.0 if inside else 0.0)
        return self.with_entry(layout.PAINT, params, where=where, frame=frame)

    def transformed(
        self,
        local: Floats,
        sizes: Ints,
        *,
        filter: int = layout.NEAREST,
        scale: Floats | None = None,
        where: Mask | None = None,
    ) -> Plan:
        """Move to a new grid; ``local`` (N, 3, 3) leads from it to the present one.

        ``scale`` (N, 2): present pixels per new pixel in x and y, where the filter is to be stretched by it.
        """
        if where is not None:
            local = np.where(where[:, None, None], local, np.eye(3))
            sizes = np.where(where[:, None], sizes, self.sizes)
            if scale is not None:
                scale = np.where(where[:, None], scale, 1.0)
        frames = []
        for frame in self.grid.frames:
            support = frame.support
            if scale is not None:
                # How far one filter unit of the present grid reaches along each axis of the frame.
                reach = frame.matrix[:, :2, :2] * np.maximum(scale, 1.0)[:, None, :]
                support = np.maximum(support, np.sqrt(np.sum(reach * reach, -1)))
            frames.append(Frame(frame.matrix @ local, support))
        chosen = np.maximum(self.grid.filter, filter)
        if where is not None:
            chosen = np.where(where, chosen, self.grid.filter)
        history = (*self.history, Step(len(self.entries), local, sizes))
        return replace(self, grid=Grid(sizes, tuple(frames), chosen, self.grid.window), history=history)

    def with_window(self, rectangle: Ints) -> Plan:
        """Limit what may be read to a rectangle (N, 4) of the present grid, where that is whole source pixels."""
        matrix = self.grid.frames[0].matrix
        linear = matrix[:, :2, :2]
        shift = matrix[:, :2, 2]
        before = self.grid.window
        one = (linear @ rectangle[:, :2, None])[..., 0] + shift
        other = (linear @ rectangle[:, 2:, None])[..., 0] + shift
        low = np.maximum(np.minimum(one, other), before[:, :2]).astype(np.int64)
        high = np.minimum(np.maximum(one, other), before[:, 2:]).astype(np.int64)
        # A crop that misses its image altogether is fill only; it still needs a pixel to name.
        low = np.minimum(low, before[:, 2:] - 1)
        high = np.maximum(high, low + 1)
        window = np.where(_is_whole_pixels(matrix)[:, None], np.concatenate([low, high], 1), before)
        return replace(self, grid=replace(self.grid, window=window))

    # -- for what goes with the images ---------------------------------------------------------------------------

    def fills(self) -> Iterator[tuple[Entry, Floats]]:
        """Entries that lay a colour around an earlier image, and its rectangle (N, 4); boundless where they do not."""
        for entry in self.entries:
            painted = entry.codes == layout.PAINT
            if np.any(painted):
                outside = painted & (entry.params[:, _INSIDE] == 0.0)
                yield entry, np.where(outside[:, None], entry.params[:, _RECTANGLE], (-np.inf, -np.inf, np.inf, np.inf))

    def for_masks(self, color: float) -> Plan:
        """The geometry alone, for one channel and by nearest neighbour, with ``color`` for every fill around it."""
        entries = []
        for entry, rectangle in self.fills():
            codes = np.where(np.isfinite(rectangle[:, 0]), layout.PAINT, layout.SKIP).astype(np.int32)
            params = entry.params.copy()
            params[:, _COLOR] = color
            entries.append(Entry(codes, params, entry.frame))
        grid = replace(self.grid, filter=np.full(len(self), layout.NEAREST), kernel=None)
        return Plan(grid, 1, tuple(entries))

    # -- compiling ---------------------------------------------------------------------------------------------

    def compile(self) -> tuple[list[Pass], Ints]:
        """Passes in the order to run them, the result's last; and the (N, 4) source region they read.

        Records hold positions relative to that region, so that a decoder may produce it alone.
        """
        runs, slots = self._runs()
        matrices = [_from_centre(run.grid.frames[0].matrix, run.grid.sizes) for run in runs]
        region = self._region(runs, matrices)
        return [
            Pass(
                _records(run.grid, matrix, region),
                self._programs(run.grid, slots[: run.stop]),
                run.first_slot,
                run.end_slot,
            )
            for run, matrix in zip(runs, matrices, strict=True)
        ], region

    def _runs(self) -> tuple[list[_Run], list[Ints]]:
        """Runs over the grids that statistics are taken over, the result's last; and each entry's slots.

        Slots are counted for each image by itself: a column of which some images have the first statistic and some
        the second needs no more launches than either.
        """
        runs: list[_Run] = []
        slots: list[Ints] = []
        first = 0
        count = np.zeros(len(self), np.int64)  # statistics of each image in the present run
        grid = self.grid
        stop = 0
        for k, entry in enumerate(self.entries):
            slots.append(first + count)
            if entry.taken_over is None:
                continue
            if not _same_pixels(entry.taken_over, grid) and count.any():
                runs.append(_Run(grid, stop, first, first + int(count.max())))
                first = runs[-1].end_slot
                count = np.zeros(len(self), np.int64)
                slots[-1] = first + count
            grid = entry.taken_over
            stop = k + 1
            count = count + np.isin(entry.codes, layout.STATISTICAL)
        if count.any() and not _same_pixels(grid, self.grid):
            runs.append(_Run(grid, stop, first, first + int(count.max())))
            first = runs[-1].end_slot
            count = np.zeros(len(self), np.int64)
        runs.append(_Run(self.grid, len(self.entries), first, first + int(count.max(initial=0))))
        return runs, slots

    def _region(self, runs: list[_Run], matrices: list[Floats]) -> Ints:
        """Source pixels (x0, y0, x1, y1) that any pass may read."""
        n = len(self)
        start = np.full((n, 2), np.iinfo(np.int64).max)
        stop = np.zeros((n, 2), np.int64)
        for run, matrix in zip(runs, matrices, strict=True):
            half = (run.grid.sizes[:, ::-1] - 1) / 2.0
            corners = np.ones((n, 3, 4))
            corners[:, :2] = half[:, :, None] * _CORNERS
            points = matrix @ corners
            depth = points[:, 2:]
            with np.errstate(divide="ignore", invalid="ignore"):
                points = points[:, :2] / depth
            # A view that reaches the horizon has no bounding box.
            unbounded = np.any(depth <= 1e-6, (1, 2))[:, None]
            reach = RADIUS[run.grid.filter][:, None] * _support(run.grid) + 2.0
            low = np.where(unbounded, -np.inf, points.min(2) - reach)
            high = np.where(unbounded, np.inf, points.max(2) + reach)
            # Clipped before the cast: infinities and far-away views must not overflow.
            window = run.grid.window
            first = np.floor(np.clip(low, window[:, :2], window[:, 2:] - 1)).astype(np.int64)
            last = np.ceil(np.clip(high, first + 1, window[:, 2:])).astype(np.int64)
            start = np.minimum(start, first)
            stop = np.maximum(stop, last)
        return np.concatenate([start, stop], 1)

    def _programs(self, grid: Grid, slots: list[Ints]) -> NDArray[np.float32]:
        """Programs over a grid, of as many entries as there are slots given."""
        entries = self.entries[: len(slots)]
        widths = [layout.ENTRY_HEADER + entry.params.shape[1] for entry in entries]
        # Zeros at the end: the END code, and room for the look-ahead of the last entry.
        programs = np.zeros((len(self), sum(widths) + 4), np.float32)
        at = 0
        for entry, width, slot in zip(entries, widths, slots, strict=True):
            programs[:, at] = entry.codes
            programs[:, at + 1] = width
            params = programs[:, at + layout.ENTRY_HEADER : at + width]
            params[:] = entry.params
            if entry.taken_over is not None:
                statistical = np.isin(entry.codes, layout.STATISTICAL)
                params[statistical, layout.STATISTICS_SLOT] = slot[statistical]
            if entry.frame:
                frame = grid.frames[entry.frame]
                params[:, :_FRAME_WORDS] = _from_centre(frame.matrix, grid.sizes).reshape(-1, 9)
                if np.any(entry.codes == layout.PAINT):
                    _set_edges(params, grid, frame)
            at += width
        return programs


@dataclass(frozen=True, slots=True)
class _Run:
    grid: Grid
    stop: int  # entries of the program to run
    first_slot: int
    end_slot: int


def _is_whole_pixels(matrix: Floats) -> Mask:
    """Where a matrix (N, 3, 3) leads from pixels to pixels: flips, quarter turns and shifts."""
    shift = matrix[:, :2, 2]
    turned: Mask = np.all(np.sort(np.abs(matrix[:, :2, :2]), -1) == (0.0, 1.0), (1, 2))
    flat: Mask = np.all(matrix[:, 2] == (0.0, 0.0, 1.0), 1)
    whole: Mask = np.all(shift == np.round(shift), 1)
    return turned & flat & whole


def _same_pixels(a: Grid, b: Grid) -> bool:
    """Whether two grids are the same pixels: nothing geometric was recorded between them."""
    return a.sizes is b.sizes and a.frames[0] is b.frames[0]


def _from_centre(matrix: Floats, sizes: Ints) -> Floats:
    """Matrices for positions counted from the centre of the grid: small numbers, which float32 keeps better."""
    moved = np.array(matrix)
    moved[:, :, 2] += matrix[:, :, 0] * (sizes[:, 1:] / 2.0) + matrix[:, :, 1] * (sizes[:, :1] / 2.0)
    depth = moved[:, 2:, 2:]
    return moved / np.where(depth == 0.0, 1.0, depth)


def _support(grid: Grid) -> Floats:
    """Filter support in source pixels; nearest-neighbour images are never antialiased."""
    return np.where((grid.filter == layout.NEAREST)[:, None], 1.0, grid.frames[0].support)


def _records(grid: Grid, matrix: Floats, region: Ints) -> NDArray[np.void]:
    """Records of a grid whose pixels lead to the source by ``matrix``, counted from the region's corner."""
    record = np.zeros(len(matrix), layout.RECORD)
    record["height"] = grid.sizes[:, 0]
    record["width"] = grid.sizes[:, 1]
    record["filter"] = grid.filter
    corner = region[:, :2]
    record["window"][:, :2] = np.maximum(grid.window[:, :2], corner) - corner
    record["window"][:, 2:] = np.minimum(grid.window[:, 2:], region[:, 2:]) - corner
    record["separable"] = np.all(matrix[:, (0, 1, 2, 2), (1, 0, 0, 1)] == 0.0, 1)
    record["matrix"] = matrix.reshape(-1, 9)
    record["matrix"][:, :6] = (matrix[:, :2] - corner[:, :, None] * matrix[:, 2:]).reshape(-1, 6)
    record["support"] = _support(grid)
    record["taps"] = np.maximum(np.ceil(2.0 * RADIUS[grid.filter][:, None] * record["support"] - 1e-4), 1)
    if grid.kernel is not None:
        record["taps"] = np.where((grid.filter == layout.GAUSSIAN)[:, None], grid.kernel, record["taps"])
    return record


def _set_edges(params: NDArray[np.float32], grid: Grid, frame: Frame) -> None:
    """Edges of a painted rectangle: as wide as the filter, or hard for nearest-neighbour images."""
    hard = (grid.filter == layout.NEAREST)[:, None]
    params[:, _RECTANGLE] -= np.where(hard, np.float32(_TIE_NUDGE), np.float32(0))
    params[:, 13:15] = np.where(hard, _HARD, 1.0 / frame.support)
