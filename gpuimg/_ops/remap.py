"""Sampling at given positions, and functions that make the positions of distortions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._batch.functions import of_resized
from .._batch.recording import Recording
from .._checks import arguments
from .._checks.types import (
    AsPassed,
    Color,
    Floats,
    Indices,
    Interpolation,
    Ints,
    PaddingMode,
    PerImage,
    Range,
    Table,
    TablePerImage,
    Where,
)
from .._plan.plan import Entry, Operand
from ..kernels import ops, prepass
from .areas import BORDERS, level_color, operand_of, record_area

__all__ = ["grid_distortion", "optical_distortion", "remap", "thin_plate_spline"]

_COMPARED = 1 << 22  # distances of points from positions that are computed at a time
_NEWTON_STEPS = 20
_EXACT = 1e-6  # pixels


@of_resized
def remap(
    recording: Recording,
    grid: TablePerImage,
    interpolation: Interpolation = "bilinear",
    padding_mode: PaddingMode = "constant",
    fill: Color = 0,
    *,
    where: Where | None = None,
) -> Recording:
    """Distort images in any way: sample them at given positions.

    Parameters
    ----------
    grid : (H, W, 2) or (N, H, W, 2) array, or list of N (H, W, 2) arrays
        For each pixel of the result its position ``(x, y)`` in the image, in pixels; 0 is the center of the first one.
        Result and grid have the same height and width. For images on a GPU it may be a CuPy array.
    interpolation : {"bilinear", "nearest"}
        How values between pixels are computed. ``"nearest"`` is faster, and mixes no values.

    Notes
    -----
    Positions and sums are of float32. The bytes are those of OpenCV 5's ``remap`` with ``BORDER_CONSTANT``,
    ``BORDER_REPLICATE``, ``BORDER_REFLECT_101`` or ``BORDER_REFLECT``; OpenCV 4 rounds positions to 1/32 of a pixel.
    What was computed before is rounded to bytes.

    :func:`transform_masks`, :func:`transform_boxes` and :func:`transform_points` follow. A point that several pixels of
    the result show moves to one of them.

    Examples
    --------
    >>> x = np.array([10, 20, 30], np.uint8).reshape(1, 1, 3, 1)
    >>> gpuimg.remap(x, np.array([[(2, 0), (0.5, 0)]])).array().ravel().tolist()
    [30, 15]
    """
    arguments.one_of(interpolation, "interpolation", ("bilinear", "nearest"))
    arguments.one_of(padding_mode, "padding_mode", BORDERS)
    n = recording.image_count
    operand, sizes = _positions(grid, recording, n)
    params = {
        "border": BORDERS[padding_mode], "option": prepass.NEAREST_PIXEL if interpolation == "nearest" else 0,
        **level_color(fill, recording),
    }  # fmt: skip
    chosen = arguments.mask(where, n)
    return record_area(recording, ops.REMAP, params, chosen, operand=operand, sizes=sizes)


def _positions(grid: Any, recording: Recording, n: int) -> tuple[Operand, Ints]:
    """Return positions, and the sizes (N, 2) of results."""
    each_shape = arguments.each_shape(n, "H, W, 2")
    rule = f"grid must be an array of shape (H, W, 2) or {each_shape}, or a list of {int(n)} of the first"
    if isinstance(grid, (list, tuple)) and all(np.ndim(one) == 3 for one in grid):
        if len(grid) != n:
            raise ValueError(f"{rule}, not of {len(grid)}")
        each = [_checked(one, rule) for one in grid]
        return operand_of(each), np.array([one.shape[:2] for one in each], np.int64)
    on_device = not recording.runtime.on_host and recording.runtime.owns(grid)
    array = grid.astype(np.float32) if on_device else _checked(grid, rule)
    if array.ndim not in (3, 4) or array.shape[-1] != 2 or (array.ndim == 4 and not arguments.fits(array, n)):
        raise ValueError(f"{rule}, not of shape {array.shape}")
    height, width, _ = array.shape[-3:]
    starts = np.zeros(n, np.int64)
    if array.ndim == 4:
        starts = arguments.rows(np.arange(len(array), dtype=np.int64), n) * (2 * height * width)
    operand = Operand(array.reshape(-1), starts, arguments.filled(n, 2 * height * width))
    return operand, np.tile(np.array([[height, width]], np.int64), (n, 1))


def _checked(grid: Any, rule: str) -> NDArray[np.float32]:
    array = np.ascontiguousarray(grid, np.float32)
    if array.ndim not in (3, 4) or array.shape[-1] != 2 or 0 in array.shape[-3:]:
        raise ValueError(f"{rule}, not of shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"grid must be finite, not {array[~np.isfinite(array)][0]}")
    return array


def remapped_points(entry: Entry, sizes: Ints, owner: Ints, points: Floats) -> Floats:
    """Return positions of source points (M, P, 2) in results of sizes (N, 2); ``owner`` (M,) names their images.

    From the pixel whose position is nearest on, Newton's method inverts the positions, which are linear within four
    pixels and continue outside. Pixels are counted from the corner of the first one.
    """
    result, operand = points.copy(), entry.operand
    assert operand is not None
    values = operand.values if isinstance(operand.values, np.ndarray) else operand.values.get()
    for i in np.unique(owner[entry.codes[owner] == ops.REMAP.code]).tolist():
        height, width = sizes[i].tolist()
        start = int(operand.starts[i])
        grid = values[start : start + 2 * height * width].reshape(height, width, 2).astype(np.float64) + 0.5
        mine = owner == i
        wanted = points[mine].reshape(-1, 2)
        result[mine] = _inverted(grid, wanted).reshape(-1, *points.shape[1:])
    return result


def _inverted(grid: Floats, wanted: Floats) -> Floats:
    height, width, _ = grid.shape
    nearest = np.empty(len(wanted), np.int64)
    step = max(_COMPARED // (height * width), 1)
    flat = grid.reshape(-1, 2)
    for k in range(0, len(wanted), step):
        apart = wanted[k : k + step, None] - flat[None]
        nearest[k : k + step] = np.argmin(np.einsum("mnk,mnk->mn", apart, apart), 1)
    at = np.stack([nearest % width, nearest // width], 1).astype(np.float64)
    padded = np.pad(grid, ((0, height == 1), (0, width == 1), (0, 0)), "edge")
    padded[1:, :, 1] += height == 1  # a single row or column continues by pixels
    padded[:, 1:, 0] += width == 1
    most = np.array(padded.shape[1::-1]) - 2
    for _ in range(_NEWTON_STEPS):
        left, top = np.clip(np.floor(at), 0, most).astype(np.int64).T
        x, y = at[:, :1] - left[:, None], at[:, 1:] - top[:, None]
        a, b, c, d = padded[top, left], padded[top, left + 1], padded[top + 1, left], padded[top + 1, left + 1]
        off = wanted - ((1 - y) * ((1 - x) * a + x * b) + y * ((1 - x) * c + x * d))
        if np.abs(off).max(initial=0.0) < _EXACT:
            break
        across, down = (1 - y) * (b - a) + y * (d - c), (1 - x) * (c - a) + x * (d - b)
        area = across[:, 0] * down[:, 1] - across[:, 1] * down[:, 0]
        area = np.where(np.abs(area) < _EXACT, np.inf, area)  # a fold: stays
        at[:, 0] += (off[:, 0] * down[:, 1] - off[:, 1] * down[:, 0]) / area
        at[:, 1] += (across[:, 0] * off[:, 1] - across[:, 1] * off[:, 0]) / area
    return at + 0.5


# -- positions ---------------------------------------------------------------------------------------------------------


def _as_passed(size: Any, grids: list[NDArray[np.float32]]) -> Any:
    """Return one grid for one size, an array for images of one size, else a list."""
    if np.ndim(size) <= 1:
        return grids[0]
    if not grids:
        return np.zeros((0, 1, 1, 2), np.float32)
    return np.stack(grids) if len({one.shape for one in grids}) == 1 else grids


def _each_size(size: Any, *given: Any) -> tuple[Ints, list[Any]]:
    """Return sizes (N, 2), and for each size what is given."""
    sizes = np.atleast_2d(arguments.finite(size, "size").astype(np.int64))
    if sizes.ndim != 2 or sizes.shape[1] != 2 or (sizes < 1).any():
        raise ValueError(f"size must be (height, width), or an (N, 2) array of these, not {size!r}")
    return sizes, [arguments.per_image(one, len(sizes), name) for name, one in given]


def grid_distortion(size: Indices | Table, x_steps: Range | Table, y_steps: Range | Table) -> AsPassed:
    """Make positions for :func:`remap` that widen and narrow columns and rows of the image.

    Parameters
    ----------
    size : (height, width) or (N, 2) int
        Sizes of the images in pixels, such as ``images.sizes``.
    x_steps, y_steps : (K,) or (N, K) float
        The image is cut into K columns, and as many rows as ``y_steps`` has, of equal widths and heights in the result.
        What each shows of the image is proportional to its number, which is above 0.

    Returns
    -------
    (H, W, 2), (N, H, W, 2) or list of (H, W, 2) float32
        For one size, for several equal ones, or for others.

    References
    ----------
    albumentations ``GridDistortion``, whose distortion leaves out or repeats what its numbers do not sum to.

    Examples
    --------
    >>> import gpuimg
    >>> gpuimg.grid_distortion((1, 4), [1, 3], [1])[0, :, 0].tolist()
    [-0.25, 0.25, 1.25, 2.75]
    """
    sizes, _ = _each_size(size)
    along = []
    for name, steps, sides in (("x_steps", x_steps, sizes[:, 1]), ("y_steps", y_steps, sizes[:, 0])):
        given = arguments.finite(steps, name)
        if given.ndim not in (1, 2) or not given.shape[-1] or (given <= 0).any():
            raise ValueError(f"{name} must be (K,) or (N, K) numbers above 0, not {steps!r}")
        rows = np.broadcast_to(given, (len(sizes), given.shape[-1]))
        ends = np.concatenate([np.zeros((len(sizes), 1)), np.cumsum(rows, 1)], 1)
        ends /= ends[:, -1:]
        share = np.linspace(0.0, 1.0, given.shape[-1] + 1)
        along.append([
            np.interp((np.arange(n) + 0.5) / n, share, one) * n - 0.5
            for n, one in zip(sides.tolist(), ends, strict=True)
        ])  # fmt: skip
    grids = [np.stack(np.meshgrid(x, y), -1).astype(np.float32) for x, y in zip(*along, strict=True)]
    return _as_passed(size, grids)


def optical_distortion(size: Indices | Table, k: PerImage, dx: PerImage = 0.0, dy: PerImage = 0.0) -> AsPassed:
    """Make positions for :func:`remap` that distort the image as a lens does, radially.

    Parameters
    ----------
    size : (height, width) or (N, 2) int
        Sizes of the images in pixels, such as ``images.sizes``.
    k : float or (N,) float
        Strength: positions are ``1 + k * r**2 + k * r**4`` times as far from the center as pixels, where ``r`` is the
        distance in widths and heights of the image. Above 0 the image is shrunk at its border, below 0 enlarged.
    dx, dy : float or (N,) float
        Shift of the center, in pixels.

    Returns
    -------
    (H, W, 2), (N, H, W, 2) or list of (H, W, 2) float32
        For one size, for several equal ones, or for others.

    References
    ----------
    OpenCV ``initUndistortRectifyMap``; albumentations ``OpticalDistortion``.

    Examples
    --------
    >>> import gpuimg
    >>> gpuimg.optical_distortion((1, 2), 16.0)[0, :, 0].tolist()
    [-0.53125, 1.53125]
    """
    sizes, (strength, right, down) = _each_size(size, ("k", k), ("dx", dx), ("dy", dy))
    grids = []
    for (height, width), one, x0, y0 in zip(sizes.tolist(), strength, right, down, strict=True):
        x = (np.arange(width) - (width - 1) / 2 - x0) / width
        y = ((np.arange(height) - (height - 1) / 2 - y0) / height)[:, None]
        square = x**2 + y**2
        factor = 1.0 + one * square + one * square**2
        at = x * factor * width + (width - 1) / 2 + x0, y * factor * height + (height - 1) / 2 + y0
        grids.append(np.stack(at, -1).astype(np.float32))
    return _as_passed(size, grids)


def thin_plate_spline(size: Indices | Table, points: Table | TablePerImage, moved: Table | TablePerImage) -> AsPassed:
    """Make positions for :func:`remap` that move some points, and deform the rest as smoothly as possible.

    Parameters
    ----------
    size : (height, width) or (N, 2) int
        Sizes of the images in pixels, such as ``images.sizes``.
    points, moved : (K, 2) or (N, K, 2) float
        Points ``(x, y)`` of the image, as fractions of its width and height, and where they are in the result. At least
        three that are not on a line.

    Returns
    -------
    (H, W, 2), (N, H, W, 2) or list of (H, W, 2) float32
        For one size, for several equal ones, or for others.

    References
    ----------
    F. L. Bookstein: "Principal warps: thin-plate splines and the decomposition of deformations", PAMI 1989.

    Examples
    --------
    >>> import gpuimg
    >>> corners = [(0, 0), (1, 0), (0, 1), (1, 1)]
    >>> gpuimg.thin_plate_spline((1, 3), corners, corners)[0, :, 0].round(3).tolist()
    [0.0, 1.0, 2.0]
    """
    sizes, _ = _each_size(size)
    given, to = arguments.finite(points, "points"), arguments.finite(moved, "moved")
    if given.shape[-2:] != to.shape[-2:] or given.ndim not in (2, 3) or given.shape[-1] != 2 or given.shape[-2] < 3:
        raise ValueError(
            f"points and moved must be (K, 2) or (N, K, 2), K at least 3, not {given.shape} and {to.shape}"
        )
    count = given.shape[-2]
    given, to = (np.broadcast_to(one, (len(sizes), count, 2)) for one in (given, to))
    grids = []
    for (height, width), source, result in zip(sizes.tolist(), given, to, strict=True):
        corner = np.concatenate([np.ones((count, 1)), result], 1)
        matrix = np.block([[_bending(result, result), corner], [corner.T, np.zeros((3, 3))]])
        try:
            weights = np.linalg.solve(matrix, np.concatenate([source, np.zeros((3, 2))]))
        except np.linalg.LinAlgError:
            raise ValueError("moved must have three points that are not on a line, and no point twice") from None
        x, y = np.meshgrid((np.arange(width) + 0.5) / width, (np.arange(height) + 0.5) / height)
        at = np.stack([x.ravel(), y.ravel()], 1)
        there = (
            _bending(at, result) @ weights[:count] + np.concatenate([np.ones((len(at), 1)), at], 1) @ weights[count:]
        )
        grids.append((there * (width, height) - 0.5).reshape(height, width, 2).astype(np.float32))
    return _as_passed(size, grids)


def _bending(one: Floats, other: Floats) -> Floats:
    """Return ``r**2 * log(r**2)`` of the distances of points (M, 2) from others (K, 2)."""
    square = np.sum((one[:, None] - other) ** 2, 2)
    bending: Floats = square * np.log(np.where(square > 0.0, square, 1.0))
    return bending
