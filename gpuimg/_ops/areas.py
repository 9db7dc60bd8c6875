"""Functions that read whole images before they write one: windows, CLAHE, tables, and positions.

Each begins a segment and is its first instruction, before all others (:class:`kernels.prepass.AREA`).
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from .._batch.functions import of_images
from .._batch.recording import Recording
from .._checks import arguments
from .._checks.types import Color, Floats, Ints, Mask, PaddingMode, PerImage, Range, Size, Table, TablePerImage, Where
from .._plan.plan import KERNEL_CHANNELS, Operand
from ..kernels import layout, ops, prepass
from .color import check_not_normalized
from .filters import both_axes

__all__ = ["box_blur", "clahe", "emboss", "filter2d", "laplacian", "lookup_table", "median_blur", "morphology"]

BORDERS = {
    "constant": prepass.CONSTANT,
    "edge": prepass.EDGE,
    "reflect": prepass.REFLECT,
    "symmetric": prepass.SYMMETRIC,
}
_KINDS = {"erode": (0, None), "dilate": (1, None), "open": (0, 1), "close": (1, 0)}
_SHAPES = ("rectangle", "cross", "ellipse")
_MOST_TABLE = 1 << 16
# Kernels with a side this long OpenCV sums in another order itself, and by then two passes are faster.
_SUMMED_OTHERWISE = 11
_ROUNDING = 1e-6
_MOST_TILES = 64
_MOST_LOADED = 8


def record_area(
    recording: Recording, op: ops.Op, params: dict[str, Any], where: Mask | None, *, operand: Operand | None = None,
    sizes: Ints | None = None,
) -> Recording:  # fmt: skip
    """Record an op on whole images by those of its parameters that are not 0."""
    recording = recording.new_segment()
    given = [params.get(name, 0) for name in ops.AREA_PARAMETERS[:-1]]
    on_bytes = recording.dtype == "uint8" or op is ops.CLAHE
    return recording.with_plan(recording.plan.with_area(op, (*given, on_bytes), operand, where, sizes))


def level_color(fill: Any, recording: Recording) -> dict[str, Floats]:
    """Return a color as parameters, of bytes as levels."""
    color = arguments.color(fill, recording.image_count, recording.channels, recording.unit)
    if recording.dtype == "uint8":
        color = np.rint(np.clip(color / recording.unit, 0.0, 255.0))
    return dict(zip(("red", "green", "blue"), color.T, strict=True))


def operand_of(values: list[Any]) -> Operand:
    """Return the operand with values for each image; those of several images that are one object are stored once."""
    firsts: dict[int, int] = {}
    numbers = np.array([firsts.setdefault(id(one), len(firsts)) for one in values], np.int64)
    each = list({id(one): one for one in values}.values())
    counts = np.array([one.size for one in each], np.int64)
    flat = np.concatenate([np.asarray(one, np.float32).reshape(-1) for one in [*each, np.zeros(1)]])
    starts = np.cumsum(counts) - counts
    return Operand(flat, starts[numbers], counts[numbers])


@of_images
def median_blur(recording: Recording, kernel_size: PerImage, *, where: Where | None = None) -> Recording:
    """Remove specks, but keep edges: replace each value by the median of the square around it, in its channel.

    The border is repeated.

    Parameters
    ----------
    kernel_size : int or (N,) int
        Side of the square in pixels: 3, 5 or 7; larger specks need a larger one.

    Notes
    -----
    Images of bytes have OpenCV's ``medianBlur``. What was computed before is rounded to bytes.

    Examples
    --------
    >>> x = np.array([1, 1, 90, 1, 1], np.uint8).reshape(1, 1, 5, 1)
    >>> gpuimg.median_blur(x, 3).array().ravel().tolist()
    [1, 1, 1, 1, 1]
    """
    n = recording.image_count
    size = arguments.integers(kernel_size, n, "kernel_size")
    if np.any((size < prepass.MEDIANS[0]) | (size > prepass.MEDIANS[-1]) | (size % 2 == 0)):
        raise ValueError(f"kernel_size must be 3, 5 or 7, not {kernel_size!r}")
    params = {"rows": size, "columns": size, "border": prepass.EDGE}
    return record_area(recording, ops.MEDIAN, params, arguments.mask(where, n))


@of_images
def morphology(
    recording: Recording,
    kind: Literal["erode", "dilate", "open", "close"],
    kernel_size: Size,
    shape: Literal["rectangle", "cross", "ellipse"] = "rectangle",
    *,
    where: Where | None = None,
) -> Recording:
    """Shrink or grow bright shapes: replace each value by the least or greatest around it, in its channel.

    Parameters
    ----------
    kind : {"erode", "dilate", "open", "close"}
        ``"erode"`` takes the least value, ``"dilate"`` the greatest. ``"open"`` erodes, then dilates; ``"close"``
        dilates, then erodes.
    kernel_size : int, (x, y), or array of shape (N,) or (N, 2)
        Width and height of the window in pixels, 1 to 31; one number sets both.
    shape : {"rectangle", "cross", "ellipse"}
        The pixels of the window that count: all, those of its middle row and column, or those of an ellipse.

    Notes
    -----
    Pixels outside the image do not count. The middle of the window is at half of its size, rounded down. Images of
    bytes have OpenCV's results. What was computed before is rounded to bytes.

    References
    ----------
    OpenCV ``morphologyEx``, ``getStructuringElement``.

    Examples
    --------
    >>> x = np.array([0, 9, 9, 0, 9], np.uint8).reshape(1, 1, 5, 1)
    >>> gpuimg.morphology(x, "dilate", (3, 1)).array().ravel().tolist()
    [9, 9, 9, 9, 9]
    """
    arguments.one_of(kind, "kind", _KINDS)
    arguments.one_of(shape, "shape", _SHAPES)
    n = recording.image_count
    sizes = both_axes(kernel_size, n, "kernel_size", low=1, high=prepass.MOST_WINDOW, whole=True).astype(np.int64)
    spans = {size: _spans(shape, *size) for size in {(rows, columns) for columns, rows in sizes.tolist()}}
    operand, chosen = operand_of([spans[rows, columns] for columns, rows in sizes.tolist()]), arguments.mask(where, n)
    rectangle = prepass.RECTANGLE if shape == "rectangle" else 0
    few = {size: prepass.FEW * _is_few(size, one, shape == "rectangle") for size, one in spans.items()}
    option = rectangle + np.array([few[rows, columns] for columns, rows in sizes.tolist()], np.int64)
    for greatest in (one for one in _KINDS[kind] if one is not None):
        outside = -np.inf if greatest else np.inf
        if recording.dtype == "uint8":
            outside = 0.0 if greatest else 255.0
        params = {
            "rows": sizes[:, 1], "columns": sizes[:, 0], "option": option + greatest * prepass.GREATEST,
            **dict.fromkeys(("red", "green", "blue"), outside),
        }  # fmt: skip
        recording = record_area(recording, ops.MORPHOLOGY, params, chosen, operand=operand)
    return recording


def _is_few(size: tuple[int, int], spans: Floats, rectangle: bool) -> bool:
    """Return whether it takes less time to load the pixels of a window, or a column and a row, than to make layers."""
    if rectangle:
        return max(size) <= _MOST_LOADED
    widths = np.maximum(spans[:, 1] - spans[:, 0] + 1.0, 0.0)
    return bool(widths.sum() <= 3 * int(np.log2(size[1])) + np.minimum(widths, 2).sum())


def _spans(shape: str, rows: int, columns: int) -> Floats:
    """Return (rows, 2) the first and the last pixel of each row of a window that count; as OpenCV chooses them."""
    spans = np.tile([0.0, columns - 1.0], (rows, 1))
    middle, below = columns // 2, rows // 2
    if shape == "cross":
        spans[np.arange(rows) != below] = middle
    elif shape == "ellipse":
        down = np.arange(rows) - below
        wide = np.rint(middle * np.sqrt(np.maximum(below**2 - down**2, 0) / max(below**2, 1)))
        spans[:, 0], spans[:, 1] = np.maximum(middle - wide, 0), np.minimum(middle + wide, columns - 1)
        spans[np.abs(down) > below] = 1.0, 0.0
    return spans


@of_images
def filter2d(
    recording: Recording,
    kernel: Table | TablePerImage,
    padding_mode: PaddingMode = "reflect",
    fill: Color = 0,
    *,
    where: Where | None = None,
) -> Recording:
    """Filter with any kernel: replace each value by a weighted sum of those around it, in its channel.

    Parameters
    ----------
    kernel : (H, W) or (N, H, W) array, or list of N (H, W) arrays
        Weights of the pixels of a window, for all images or for each. Sides have 1 to 31 pixels; the middle of the
        window is at half of its size, rounded down.

    Notes
    -----
    A correlation: the kernel is not mirrored. Results are limited to the range of the images, except after
    :func:`normalize`. Images of bytes have OpenCV's ``filter2D``, of kernels with a side above 10 up to 1 level, as
    OpenCV's have an error there. OpenCV's loop over the last pixels of a row rounds each product, which its vectors do
    not: one value in millions differs there by a level. What was computed before is rounded to bytes.

    Sums are of float32, fused, in the order of rows. A kernel with a side above 10 that is the product of a column and
    a row is summed along rows first, then along columns.

    Examples
    --------
    >>> x = np.array([0, 0, 90, 0, 0], np.uint8).reshape(1, 1, 5, 1)
    >>> gpuimg.filter2d(x, np.full((1, 3), 1 / 3)).array().ravel().tolist()
    [0, 30, 30, 30, 0]
    """
    n = recording.image_count
    kernels = _kernels(kernel, n)
    names = [(one.shape, one.tobytes()) for one in kernels]
    compiled = {name: _compiled(one) for name, one in dict(zip(names, kernels, strict=True)).items()}
    each = [compiled[name] for name in names]
    arguments.one_of(padding_mode, "padding_mode", BORDERS)
    limited = 0 if recording.normalized else prepass.LIMITED
    params = {
        "rows": [len(one) for one in kernels], "columns": [one.shape[1] for one in kernels],
        "border": BORDERS[padding_mode], "option": [option | limited for option, _ in each],
        **level_color(fill, recording),
    }  # fmt: skip
    operand = operand_of([values for _, values in each])
    return record_area(recording, ops.WEIGHTED, params, arguments.mask(where, n), operand=operand)


def _kernels(kernel: Any, n: int) -> list[Floats]:
    """Return a kernel (H, W) for each image, the same object where it is one for all."""
    shapes = {np.shape(one) for one in kernel} if isinstance(kernel, (list, tuple)) else set()
    listed = len(shapes) > 1 or any(len(shape) == 2 for shape in shapes)
    checked = {id(one): arguments.finite(one, "kernel") for one in kernel} if listed else {}
    given: Any = [checked[id(one)] for one in kernel] if listed else arguments.finite(kernel, "kernel")
    if not listed and given.ndim == 2:
        each = [given] * n
    elif arguments.fits(np.empty(len(given)), n) and all(one.ndim == 2 for one in given):
        each = [given[k] for k in arguments.rows(np.arange(len(given)), n).tolist()]
    else:
        shape = [one.shape for one in given] if listed else given.shape
        raise ValueError(
            f"kernel must be an (H, W) array, or one of shape {arguments.each_shape(n, 'H, W')}, not {shape}"
        )
    for one in each:
        if not 1 <= min(one.shape) <= max(one.shape) <= prepass.MOST_WINDOW:
            raise ValueError(f"kernel must have sides of 1 to {prepass.MOST_WINDOW} pixels, not shape {one.shape}")
    return each


def _compiled(kernel: Floats) -> tuple[int, Floats]:
    """Return the option and the operand of a kernel: the pixels that have a weight, or two factors."""
    kernel = kernel.astype(np.float32).astype(np.float64)
    factors = _factors(kernel)
    if factors is not None:
        return prepass.SEPARABLE, np.concatenate(factors)
    rows, columns = np.nonzero(kernel)
    return 0, np.stack([rows, columns, kernel[rows, columns]], 1)


def _factors(kernel: Floats) -> tuple[Floats, Floats] | None:
    """Return weights of columns and rows whose products the kernel is, where sums in another order are as good."""
    if min(kernel.shape) == 1 or max(kernel.shape) < _SUMMED_OTHERWISE:
        return None
    y, x = np.unravel_index(np.argmax(np.abs(kernel)), kernel.shape)
    if kernel[y, x] == 0.0:
        return None
    row, column = kernel[y] / kernel[y, x], kernel[:, x]
    same = np.abs(np.outer(column, row) - kernel).max() <= _ROUNDING * np.abs(kernel[y, x])
    return (row, column) if same else None


@of_images
def box_blur(recording: Recording, kernel_size: Size, *, where: Where | None = None) -> Recording:
    """Blur with a box: replace each value by the mean of those around it, in its channel.

    The border is reflected.

    Parameters
    ----------
    kernel_size : int, (x, y), or array of shape (N,) or (N, 2)
        Width and height of the window in pixels, 1 to 31; one number sets both.

    Notes
    -----
    :func:`filter2d` with equal weights.

    Examples
    --------
    >>> x = np.array([0, 0, 90, 0, 0], np.uint8).reshape(1, 1, 5, 1)
    >>> gpuimg.box_blur(x, (3, 1)).array().ravel().tolist()
    [0, 30, 30, 30, 0]
    """
    n = recording.image_count
    sizes = both_axes(kernel_size, n, "kernel_size", low=1, high=prepass.MOST_WINDOW, whole=True).astype(np.int64)
    kernels = {(x, y): np.full((y, x), 1.0 / (x * y)) for x, y in set(map(tuple, sizes.tolist()))}
    return filter2d.record(recording, [kernels[x, y] for x, y in sizes.tolist()], where=where)


@of_images
def laplacian(recording: Recording, *, where: Where | None = None) -> Recording:
    """Find edges: sum the differences of each value's four neighbors from it, in its channel.

    Edges have values on both sides of 0.

    Notes
    -----
    :func:`filter2d` with a kernel of 3 x 3. Differences below 0 are 0 in images that are not normalized.

    Examples
    --------
    >>> x = np.array([0, 0, 9, 0, 0], np.uint8).reshape(1, 1, 5, 1)
    >>> gpuimg.laplacian(x).array().ravel().tolist()
    [0, 9, 0, 9, 0]
    """
    return filter2d.record(recording, np.array([[0.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]]), where=where)


@of_images
def emboss(
    recording: Recording, alpha: PerImage = 0.4, strength: PerImage = 0.5, *, where: Where | None = None
) -> Recording:
    """Make images look embossed: lighten edges on one side, darken them on the other.

    The kernel is that of albumentations' ``Emboss``.

    Parameters
    ----------
    alpha : float or (N,) float
        Share of the embossed image, 0 to 1; the rest is the image.
    strength : float or (N,) float
        Weight of the differences between neighbors, at least 0: the larger, the stronger the edges.

    Notes
    -----
    :func:`filter2d` with ``(1 - alpha) * identity + alpha * [[-1 - s, -s, 0], [-s, 1, s], [0, s, 1 + s]]``.

    Examples
    --------
    >>> x = np.array([0, 0, 90, 90], np.uint8).reshape(1, 1, 4, 1)
    >>> gpuimg.emboss(x, 1.0, 0.5).array().ravel().tolist()
    [0, 180, 255, 90]
    """
    n = recording.image_count
    share = arguments.per_image(alpha, n, "alpha", low=0.0, high=1.0)[:, None, None]
    s = arguments.per_image(strength, n, "strength", low=0.0)[:, None, None]
    slope = np.array([[-1.0, -1.0, 0.0], [-1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
    fixed = np.array([[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    identity = np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    kernels = (1.0 - share) * identity + share * (fixed + s * slope)
    return filter2d.record(recording, kernels, where=where)


@of_images
def clahe(
    recording: Recording, clip_limit: PerImage = 4.0, tiles: Size = 8, *, where: Where | None = None
) -> Recording:
    """Bring out local contrast: equalize the histogram of each part of the image, up to a limit (CLAHE).

    Values are rounded to bytes first; normalized images are refused.

    Parameters
    ----------
    clip_limit : float or (N,) float
        How often a level may occur in a tile, as a multiple of the mean of all levels, at least 0; what is above is
        spread over all levels. 0 is no limit.
    tiles : int, (x, y), or array of shape (N,) or (N, 2)
        Number of tiles along both axes, 1 to 64: more tiles adapt to smaller parts.

    Notes
    -----
    Each tile's histogram is equalized; a pixel mixes what the four tiles around it make of its level. In color images
    the luma of BT.601 changes, and the differences from it stay. The bytes are those of OpenCV's ``createCLAHE``, for
    colors between ``COLOR_RGB2YCrCb`` and ``COLOR_YCrCb2RGB``.

    References
    ----------
    K. Zuiderveld: "Contrast limited adaptive histogram equalization", Graphics Gems IV, 1994.

    Examples
    --------
    >>> x = np.array([100, 110, 120, 130], np.uint8).reshape(1, 1, 4, 1)
    >>> gpuimg.clahe(x, 0, tiles=1).array().ravel().tolist()
    [64, 128, 191, 255]
    """
    check_not_normalized(recording, "clahe")
    n = recording.image_count
    share = arguments.per_image(clip_limit, n, "clip_limit", low=0.0)
    count = both_axes(tiles, n, "tiles", low=1, high=_MOST_TILES, whole=True).astype(np.int64)[:, ::-1]
    side = prepass.tile_sides(recording.sizes, count)
    limit = np.where(share > 0.0, np.clip(share * side.prod(1) / 256, 1.0, layout.EXACT).astype(np.int64), 0)
    params = {"rows": count[:, 0], "columns": count[:, 1], "limit": limit}
    return record_area(recording, ops.CLAHE, params, arguments.mask(where, n))


@of_images
def lookup_table(
    recording: Recording, table: Range | Table | TablePerImage, *, where: Where | None = None
) -> Recording:
    """Map values by a table, such as a tone curve: each becomes the table's entry for it.

    Normalized images are refused.

    Parameters
    ----------
    table : (K,), (K, C) or (N, K, C) array
        One table, one for each channel, or for each image one for all channels, as (N, K, 1), or one for each; in the
        unit of the images. K is 256 for uint8, 65536 for uint16, and for float32 any number from 2 to 65536, of values
        from 0 to 1.

    Notes
    -----
    float32 values take the entry that is nearest to them.

    Examples
    --------
    >>> x = np.array([0, 9, 255], np.uint8).reshape(1, 1, 3, 1)
    >>> gpuimg.lookup_table(x, 255 - np.arange(256)).array().ravel().tolist()
    [255, 246, 0]
    """
    check_not_normalized(recording, "lookup_table")
    n, channels = recording.image_count, recording.channels
    given = arguments.finite(table, "table")
    shape_given = given.shape
    if given.ndim == 1:
        given = given[:, None]
    whole = {"uint8": 256, "uint16": _MOST_TABLE}.get(recording.dtype)
    size = given.shape[-2] if given.ndim in (2, 3) else 0
    fits = given.ndim == 2 or (given.ndim == 3 and arguments.fits(given, n))
    if (
        not fits
        or given.shape[-1] not in (1, channels if channels in KERNEL_CHANNELS else 1)
        or not (size == whole if whole else 2 <= size <= _MOST_TABLE)
    ):
        k = f"{whole}" if whole else f"K, from 2 to {_MOST_TABLE},"
        shape = arguments.each_shape(n, f"{k}, {channels}")
        raise ValueError(
            f"table must have shape ({k}), ({k}, {channels}) or {shape}, with 1 in place of {channels} for all "
            f"channels, for {recording.dtype} images; not {shape_given}"
        )
    if recording.dtype == "uint16":
        given = given / 65535.0
    elif recording.dtype == "uint8":
        given = np.rint(np.clip(given, 0.0, 255.0))
    rows = arguments.rows(np.arange(len(given)), n).tolist() if given.ndim == 3 else []
    tables = np.ascontiguousarray(np.swapaxes(given, -1, -2), np.float32)
    each = [tables[k] for k in rows] if tables.ndim == 3 else [tables] * n
    return record_area(recording, ops.LOOK_UP, {"columns": size}, arguments.mask(where, n), operand=operand_of(each))
