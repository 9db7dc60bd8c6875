"""Geometry: each function multiplies a matrix into the plan; the pixels are resampled once, at the end.

Names, argument order and meaning follow ``torchvision.transforms.v2.functional``. Positions are in pixels, angles
in degrees. In a chain the smoothest interpolation asked for serves the whole chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import arguments
from .batch import Batch, as_batch
from .plan import Floats, Ints, Mask, Plan

_FAR = 1 << 25  # pixels: further away than any image reaches


def _move(n: int, x: Any, y: Any) -> Floats:
    matrix = np.tile(np.eye(3), (n, 1, 1))
    matrix[:, 0, 2] = x
    matrix[:, 1, 2] = y
    return matrix


def resize(
    images: Any,
    size: Any,
    interpolation: str = "bilinear",
    max_size: int | None = None,
    antialias: bool = True,
    *,
    where: Any = None,
) -> Batch:
    """Resize images, with an antialiasing filter by default.

    Parameters
    ----------
    images : Batch, list of arrays or array
        Images (H, W, C) or (N, H, W, C), uint8 or float32.
    size : int or (height, width)
        An int is the new length of the shorter side; the longer one keeps the ratio, rounded down, as torchvision's.
        Height and width may each be one for all images or (N,); an (N, 2) array is taken too.
    interpolation : {"bilinear", "nearest", "bicubic"}
        ``"nearest"`` takes the pixel whose area holds the centre (Pillow's, torch's ``"nearest-exact"``).
    max_size : int, optional
        With an int ``size``: upper limit of the longer side; the shorter one shrinks with it.
    antialias : bool
        Stretch the filter when shrinking; no effect on ``"nearest"``.
    where : (N,) bool, optional
        The images to resize; the others keep their size.

    Returns
    -------
    Batch
        With the new sizes; ragged where they differ.

    Raises
    ------
    ValueError
        For a size below 1, a shape that does not fit the batch, or an unknown interpolation.

    Notes
    -----
    Half-pixel centres, weights cut and renormalised at the border: ``interpolate(align_corners=False,
    antialias=True)``. Bicubic uses a = -0.5 with ``antialias`` and a = -0.75 without, as torch does, and may
    overshoot in floating-point results.

    References
    ----------
    PyTorch ``aten/src/ATen/native/cuda/UpSample.cuh``; Pillow ``src/libImaging/Resample.c``.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> gpuimg.resize([np.zeros((30, 40, 3), np.uint8)], 15).sizes.tolist()
    [[15, 20]]
    """
    batch = as_batch(images).for_geometry()
    plan = batch.plan
    chosen = arguments.interpolation(interpolation, antialias=antialias)
    new = _resized(plan.sizes, size, max_size)
    return batch.recorded(_resize(plan, new, chosen, antialias, arguments.mask(where, len(plan))))


def _resized(old: Ints, size: Any, max_size: int | None) -> Ints:
    n = len(old)
    if isinstance(size, Sequence) and len(size) == 1:
        size = size[0]
    if not arguments.is_single(size):
        if max_size is not None:
            raise ValueError("max_size goes with an int size, the shorter side")
        return arguments.sizes(size, n)
    short = arguments.integers(size, n, "size", low=1)
    small, large = old.min(1), old.max(1)
    long = (short * large) // np.maximum(small, 1)
    if max_size is not None:
        limit = arguments.integers(max_size, n, "max_size")
        if np.any(limit <= short):
            raise ValueError(f"max_size must be above size={size}, not {max_size}")
        over = long > limit
        short = np.where(over, (limit * short) // long, short)
        long = np.where(over, limit, long)
    tall = (old[:, 0] > old[:, 1])[:, None]
    return np.maximum(np.where(tall, np.stack([long, short], 1), np.stack([short, long], 1)), 1)


def _resize(plan: Plan, new: Ints, filter: int, antialias: bool, where: Mask | None) -> Plan:
    ratio = (plan.sizes / new)[:, ::-1]
    local = np.zeros((len(plan), 3, 3))
    local[:, 0, 0] = ratio[:, 0]
    local[:, 1, 1] = ratio[:, 1]
    local[:, 2, 2] = 1.0
    return plan.transformed(local, new, filter=filter, scale=ratio if antialias else None, where=where)


def crop(images: Any, top: Any, left: Any, height: Any, width: Any, *, where: Any = None) -> Batch:
    """Cut out a rectangle; what lies outside the image is black, as torchvision's.

    Parameters
    ----------
    images : Batch, list of arrays or array
    top, left : int or (N,) int
        First row and column, in pixels; may be negative.
    height, width : int or (N,) int
        Size of the result, at least 1.
    where : (N,) bool, optional
        The images to crop.

    Returns
    -------
    Batch
        A later filter does not read pixels outside the rectangle.

    Raises
    ------
    ValueError
        For a size below 1, numbers that are not whole, or shapes that do not fit the batch.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> x = np.arange(12, dtype=np.uint8).reshape(1, 3, 4, 1)
    >>> gpuimg.crop(x, 1, 2, 2, 2).array()[0, :, :, 0].tolist()
    [[6, 7], [10, 11]]
    """
    batch = as_batch(images).for_geometry()
    n = len(batch)
    corner = np.stack([arguments.integers(top, n, "top"), arguments.integers(left, n, "left")], 1)
    new = arguments.sizes((height, width), n)
    return batch.recorded(_cut(batch.plan, corner, new, np.zeros((n, 3)), arguments.mask(where, n)))


def _cut(plan: Plan, corner: Ints, new: Ints, color: Floats | None, where: Mask | None) -> Plan:
    """Move to a rectangle of the present grid; what it shows around that grid is a colour, or for None the edge."""
    n = len(plan)
    if where is not None:
        corner = np.where(where[:, None], corner, 0)
        new = np.where(where[:, None], new, plan.sizes)
    outside = np.any((corner < 0) | (corner + new > plan.sizes), 1)
    if color is not None and np.any(outside):
        # A later filter must see no colour on the sides that it does not reach over, and nothing of an image that it
        # misses altogether.
        missed = np.any((corner >= plan.sizes) | (corner + new <= 0), 1)[:, None]
        low = np.where(missed | (corner < 0), 0, -_FAR)
        high = np.where(missed, 0, np.where(corner + new > plan.sizes, plan.sizes, _FAR))
        plan = _fill_outside(plan, low, high, color, outside)
    # Only what lies inside the image is a window; the rest is fill.
    start = np.clip(corner, 0, np.maximum(plan.sizes - 1, 0))
    stop = np.maximum(np.minimum(corner + new, plan.sizes), start + 1)
    cut = (
        plan
        if where is not None and not where.any()
        else plan.with_window(np.concatenate([start[:, ::-1], stop[:, ::-1]], 1))
    )
    return cut.transformed(_move(n, corner[:, 1], corner[:, 0]), new)


def _fill_outside(plan: Plan, low: Any, high: Ints, color: Floats, where: Mask | None) -> Plan:
    """Lay a colour around (rows, columns) ``low`` to ``high``; call before the geometry that shows what is there."""
    plan, frame = plan.with_frame()
    low = np.broadcast_to(low, high.shape)
    rectangle = (low[:, 1], low[:, 0], high[:, 1], high[:, 0])
    return plan.with_paint(rectangle, color, frame, inside=False, where=where)


def center_crop(images: Any, output_size: Any, *, where: Any = None) -> Batch:
    """Cut out the middle; images smaller than it get a black border.

    Parameters
    ----------
    images : Batch, list of arrays or array
    output_size : int or (height, width)
        An int is both; each may be (N,).
    where : (N,) bool, optional
        The images to crop.

    Returns
    -------
    Batch

    Raises
    ------
    ValueError
        For a size below 1 or a shape that does not fit the batch.

    Notes
    -----
    An odd margin is split as torchvision's: the corner is rounded half to even.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> gpuimg.center_crop(np.zeros((1, 8, 9, 3), np.uint8), 4).sizes.tolist()
    [[4, 4]]
    """
    batch = as_batch(images).for_geometry()
    plan = batch.plan
    n = len(plan)
    both = (output_size, output_size) if arguments.is_single(output_size) else output_size
    new = arguments.sizes(both, n, "output_size")
    spare = plan.sizes - new
    # torchvision pads first (the smaller half in front) where the image is too small, then crops.
    corner = np.where(spare < 0, -((-spare) // 2), np.round(spare / 2.0)).astype(np.int64)
    return batch.recorded(_cut(plan, corner, new, np.zeros((n, 3)), arguments.mask(where, n)))


def resized_crop(
    images: Any,
    top: Any,
    left: Any,
    height: Any,
    width: Any,
    size: Any,
    interpolation: str = "bilinear",
    antialias: bool = True,
    *,
    where: Any = None,
) -> Batch:
    """Cut out a rectangle and resize it: :func:`crop`, then :func:`resize`.

    Parameters
    ----------
    images : Batch, list of arrays or array
    top, left, height, width : int or (N,) int
        The rectangle, in pixels.
    size : int or (height, width)
        As in :func:`resize`.
    interpolation : {"bilinear", "nearest", "bicubic"}
    antialias : bool
    where : (N,) bool, optional
        The images to change; the others keep their size.

    Returns
    -------
    Batch

    Raises
    ------
    ValueError
        As :func:`crop` and :func:`resize`.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> x = np.zeros((2, 30, 40, 3), np.uint8)
    >>> gpuimg.resized_crop(x, [0, 5], 3, 20, [20, 30], (8, 8)).array().shape
    (2, 8, 8, 3)
    """
    batch = as_batch(images).for_geometry()
    n = len(batch)
    corner = np.stack([arguments.integers(top, n, "top"), arguments.integers(left, n, "left")], 1)
    new = arguments.sizes((height, width), n)
    chosen = arguments.mask(where, n)
    black = np.zeros((n, 3))
    beyond = np.any((corner < 0) | (corner + new > batch.sizes), 1)
    if chosen is not None:
        beyond &= chosen
    if batch.plan.is_fresh and beyond.any():
        # A filter that reaches over the border must see the black pixels one by one: a stage, for those images only.
        batch = batch.recorded(_cut(batch.plan, corner, new, black, beyond)).staged()
        chosen = ~beyond if chosen is None else chosen & ~beyond
    batch = batch.recorded(_cut(batch.plan, corner, new, black, chosen))
    return resize(batch, size, interpolation, None, antialias, where=where)


def pad(images: Any, padding: Any, fill: Any = 0, padding_mode: str = "constant", *, where: Any = None) -> Batch:
    """Add a border.

    Parameters
    ----------
    images : Batch, list of arrays or array
    padding : int, (x, y) or (left, top, right, bottom)
        Border in pixels; each number may be (N,). Negative numbers crop.
    fill : number, (C,), (N,) or (N, C)
        Colour of the border in the unit of the images: 0 to 255 for uint8, 0 to 1 for float32.
    padding_mode : {"constant", "edge"}
        ``"edge"`` repeats the outermost pixels and ignores ``fill``.
    where : (N,) bool, optional
        The images to pad.

    Returns
    -------
    Batch

    Raises
    ------
    ValueError
        For another mode, a padding of another length, or one that leaves nothing.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> gpuimg.pad(np.full((1, 1, 1, 1), 7, np.uint8), 1, fill=9).array()[0, :, :, 0].tolist()
    [[9, 9, 9], [9, 7, 9], [9, 9, 9]]
    """
    batch = as_batch(images).for_geometry()
    if padding_mode == "edge":
        batch = batch.staged()  # clamping repeats the outermost pixels of a source, not of what was made of it
    plan = batch.plan
    n = len(plan)
    if padding_mode not in ("constant", "edge"):
        raise ValueError(f'padding_mode must be "constant" or "edge", not {padding_mode!r}')
    sides = [padding] * 4 if arguments.is_single(padding) else list(padding)
    if len(sides) == 2:
        sides = sides * 2
    if len(sides) != 4:
        raise ValueError(f"padding must be a number, (x, y) or (left, top, right, bottom), not {padding!r}")
    names = ("left", "top", "right", "bottom")
    left, top, right, bottom = (
        arguments.integers(v, n, f"padding {name}") for v, name in zip(sides, names, strict=True)
    )
    new = plan.sizes + np.stack([top + bottom, left + right], 1)
    if np.any(new < 1):
        raise ValueError(f"padding {padding!r} leaves nothing of image {int(np.argmax(np.any(new < 1, 1)))}")
    color = arguments.color(fill, n, plan.channels, batch.unit) if padding_mode == "constant" else None
    corner = -np.stack([top, left], 1)
    return batch.recorded(_cut(plan, corner, new, color, arguments.mask(where, n)))


def horizontal_flip(images: Any, *, where: Any = None) -> Batch:
    """Mirror left and right.

    Parameters
    ----------
    images : Batch, list of arrays or array
    where : (N,) bool, optional
        The images to mirror.

    Returns
    -------
    Batch

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> x = np.arange(3, dtype=np.uint8).reshape(1, 1, 3, 1)
    >>> gpuimg.horizontal_flip(x).array().ravel().tolist()
    [2, 1, 0]
    """
    batch = as_batch(images).for_geometry()
    plan = batch.plan
    local = _move(len(plan), plan.sizes[:, 1], 0.0)
    local[:, 0, 0] = -1.0
    return batch.recorded(plan.transformed(local, plan.sizes, where=arguments.mask(where, len(plan))))


def vertical_flip(images: Any, *, where: Any = None) -> Batch:
    """Mirror top and bottom.

    Parameters
    ----------
    images : Batch, list of arrays or array
    where : (N,) bool, optional
        The images to mirror.

    Returns
    -------
    Batch

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> x = np.arange(3, dtype=np.uint8).reshape(1, 3, 1, 1)
    >>> gpuimg.vertical_flip(x).array().ravel().tolist()
    [2, 1, 0]
    """
    batch = as_batch(images).for_geometry()
    plan = batch.plan
    local = _move(len(plan), 0.0, plan.sizes[:, 0])
    local[:, 1, 1] = -1.0
    return batch.recorded(plan.transformed(local, plan.sizes, where=arguments.mask(where, len(plan))))


def _cos_sin(degrees: Floats) -> tuple[Floats, Floats]:
    """Cosine and sine, exact at multiples of a quarter turn."""
    turn = np.mod(degrees, 360.0)
    quarter = turn / 90.0
    exact = quarter == np.round(quarter)
    k = np.round(quarter).astype(np.int64) % 4
    radians = np.deg2rad(turn)
    cos = np.where(exact, np.array([1.0, 0.0, -1.0, 0.0])[k], np.cos(radians))
    sin = np.where(exact, np.array([0.0, 1.0, 0.0, -1.0])[k], np.sin(radians))
    return cos, sin


def _inverse_affine(angle: Floats, translate: Floats, scale: Floats, shear: Floats, center: Floats) -> Floats:
    """Output -> source matrices of torchvision's ``_get_inverse_affine_matrix``: clockwise angle, degrees."""
    shear_x, shear_y = shear[:, 0], shear[:, 1]
    cos_r, sin_r = _cos_sin(angle - shear_y)
    cos_y, _ = _cos_sin(shear_y)
    cos_f, sin_f = _cos_sin(angle)
    tan_x = np.tan(np.deg2rad(shear_x))
    a = cos_r / cos_y
    b = -a * tan_x - sin_f
    c = sin_r / cos_y
    d = cos_f - c * tan_x
    matrix = np.zeros((len(angle), 3, 3))
    matrix[:, 0, 0] = d / scale
    matrix[:, 0, 1] = -b / scale
    matrix[:, 1, 0] = -c / scale
    matrix[:, 1, 1] = a / scale
    matrix[:, 2, 2] = 1.0
    start = -center - translate
    matrix[:, :2, 2] = (matrix[:, :2, :2] @ start[:, :, None])[..., 0] + center
    return matrix


def _warp(batch: Batch, local: Floats, new: Ints, interpolation: str, fill: Any, where: Mask | None) -> Batch:
    """Record a warp: colour around the image unless ``fill`` is None, then the matrix."""
    plan = batch.plan
    chosen = arguments.interpolation(interpolation)
    if fill is not None:
        color = arguments.color(fill, len(plan), plan.channels, batch.unit)
        plan = _fill_outside(plan, 0, plan.sizes, color, where)
    return batch.recorded(plan.transformed(local, new, filter=chosen, where=where))


def _center(center: Any, plan: Plan) -> Floats:
    if center is None:
        return plan.sizes[:, ::-1] / 2.0
    return arguments.pair(center, len(plan), "center", ("x", "y"))


def rotate(
    images: Any,
    angle: Any,
    interpolation: str = "nearest",
    expand: bool = False,
    center: Any = None,
    fill: Any = 0,
    *,
    where: Any = None,
) -> Batch:
    """Rotate counter-clockwise.

    Parameters
    ----------
    images : Batch, list of arrays or array
    angle : float or (N,) float
        Degrees.
    interpolation : {"nearest", "bilinear", "bicubic"}
        Of this step; after a bilinear resize the whole chain is bilinear.
    expand : bool
        Make the result as large as the rotated image, each image its own size. ``center`` has no effect then.
    center : (x, y), optional
        Centre of rotation in pixels from the top left corner; each may be (N,). The middle by default.
    fill : number, (C,), (N,), (N, C) or None
        Colour around the image, 0 to 255 for uint8 and 0 to 1 for float32. None repeats the image's edge.
    where : (N,) bool, optional
        The images to rotate.

    Returns
    -------
    Batch

    Raises
    ------
    ValueError
        For NaN, unknown names or shapes that do not fit the batch.

    Notes
    -----
    At the border the image is blended with ``fill`` by the share of the filter inside it. torchvision's bilinear
    blend counts that share twice (200 on a fill of 200 gives 150 there); this function does not.
    Multiples of 90 degrees of a square image are exact.

    References
    ----------
    torchvision ``transforms/v2/functional/_geometry.py``, ``_get_inverse_affine_matrix`` and ``_affine_grid``.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> x = np.array([[1, 2], [3, 4]], np.uint8).reshape(1, 2, 2, 1)
    >>> gpuimg.rotate(x, 90).array()[0, :, :, 0].tolist()
    [[2, 4], [1, 3]]
    """
    batch = as_batch(images).for_geometry()
    plan = batch.plan
    n = len(plan)
    degrees = arguments.per_image(angle, n, "angle")
    middle = plan.sizes[:, ::-1] / 2.0
    pivot = middle if expand else _center(center, plan)
    zero = np.zeros((n, 2))
    local = _inverse_affine(-degrees, zero, np.ones(n), zero, pivot)
    new = plan.sizes
    if expand:
        new = _expanded(plan.sizes, local)
        shifted = _move(n, *(middle - new[:, ::-1] / 2.0).T)
        local = local @ shifted
    return _warp(batch, local, new, interpolation, fill, arguments.mask(where, n))


def _expanded(sizes: Ints, local: Floats) -> Ints:
    """Size of the box around rotated images, with torchvision's cut at 1e-4 pixel; exact for quarter turns."""
    half = (sizes[:, ::-1] / 2.0)[:, :, None]
    corners = half * np.array([(-1, -1, 1, 1), (-1, 1, -1, 1)], np.float64)
    moved = np.trunc((local[:, :2, :2] @ corners + half) / 1e-4) * 1e-4
    box: Floats = np.ceil(moved.max(2)) - np.floor(moved.min(2))
    turn = np.abs(local[:, :2, :2])
    quarter = np.all((turn == 0.0) | (turn == 1.0), (1, 2))
    box = np.where(quarter[:, None], 2.0 * (turn @ half)[..., 0], box)
    return box[:, ::-1].astype(np.int64)


def affine(
    images: Any,
    angle: Any,
    translate: Any,
    scale: Any,
    shear: Any,
    interpolation: str = "nearest",
    fill: Any = 0,
    center: Any = None,
    *,
    where: Any = None,
) -> Batch:
    """Rotate, shift, scale and shear, keeping the size.

    Parameters
    ----------
    images : Batch, list of arrays or array
    angle : float or (N,) float
        Degrees, **clockwise**, as torchvision's ``affine`` (and unlike :func:`rotate`).
    translate : (x, y)
        Shift in pixels after the rotation; each may be (N,).
    scale : float or (N,) float
        Above 0.
    shear : float or (x, y)
        Degrees; one number is along x. Each may be (N,).
    interpolation : {"nearest", "bilinear", "bicubic"}
    fill : number, (C,), (N,), (N, C) or None
        As in :func:`rotate`.
    center : (x, y), optional
        In pixels; the middle by default.
    where : (N,) bool, optional
        The images to change.

    Returns
    -------
    Batch

    Raises
    ------
    ValueError
        For a scale of 0 or below, NaN, or shapes that do not fit the batch.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> x = np.arange(4, dtype=np.uint8).reshape(1, 1, 4, 1)
    >>> gpuimg.affine(x, 0, (1, 0), 1.0, 0).array().ravel().tolist()
    [0, 0, 1, 2]
    """
    batch = as_batch(images).for_geometry()
    plan = batch.plan
    n = len(plan)
    both = (shear, 0.0) if arguments.is_single(shear) else shear
    local = _inverse_affine(
        arguments.per_image(angle, n, "angle"),
        arguments.pair(translate, n, "translate", ("x", "y")),
        arguments.per_image(scale, n, "scale", low=1e-6),
        arguments.pair(both, n, "shear", ("x", "y"), low=-89.0, high=89.0),
        _center(center, plan),
    )
    return _warp(batch, local, plan.sizes, interpolation, fill, arguments.mask(where, n))


def perspective(
    images: Any,
    startpoints: Any,
    endpoints: Any,
    interpolation: str = "bilinear",
    fill: Any = 0,
    *,
    where: Any = None,
) -> Batch:
    """Move four points of the image to four others by a perspective map.

    Parameters
    ----------
    images : Batch, list of arrays or array
    startpoints, endpoints : (4, 2) or (N, 4, 2) array_like
        ``(x, y)`` in pixels: where the points are, and where they go.
    interpolation : {"bilinear", "nearest", "bicubic"}
    fill : number, (C,), (N,), (N, C) or None
        As in :func:`rotate`.
    where : (N,) bool, optional
        The images to change.

    Returns
    -------
    Batch

    Raises
    ------
    ValueError
        For points of another shape, NaN, or three points in a line.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> x = np.arange(16, dtype=np.uint8).reshape(1, 4, 4, 1)
    >>> square = [(0, 0), (4, 0), (4, 4), (0, 4)]
    >>> bool((gpuimg.perspective(x, square, square).array() == x).all())
    True
    """
    batch = as_batch(images).for_geometry()
    n = len(batch)
    start = _points(startpoints, n, "startpoints")
    end = _points(endpoints, n, "endpoints")
    local = _homography(end, start)
    return _warp(batch, local, batch.plan.sizes, interpolation, fill, arguments.mask(where, n))


def _points(value: Any, n: int, name: str) -> Floats:
    array = arguments.finite(value, name)
    if array.shape not in ((4, 2), (n, 4, 2)):
        raise ValueError(f"{name} must have shape (4, 2) or ({n}, 4, 2), not {array.shape}")
    flat = on_a_line(array)
    if np.any(flat):
        points = array.reshape(-1, 4, 2)[int(np.argmax(flat))].tolist()
        raise ValueError(f"no three of the {name} may lie on a line: {points}")
    return np.broadcast_to(array, (n, 4, 2))


def on_a_line(points: Floats) -> Mask:
    """Where three of four points (..., 4, 2) lie on a line."""
    flat = np.zeros(points.shape[:-2], np.bool_)
    for k in range(4):
        one, two, three = (points[..., (k + step) % 4, :] for step in range(3))
        a, b = two - one, three - one
        area = a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
        flat |= np.abs(area) <= 1e-9 * np.sum(a * a + b * b, -1)
    return flat


def _homography(source: Floats, target: Floats) -> Floats:
    """Matrices (N, 3, 3), last element 1, that take each source point to its target."""
    n = len(source)
    x, y = source[..., 0], source[..., 1]
    zero, one = np.zeros_like(x), np.ones_like(x)
    rows_x = np.stack([x, y, one, zero, zero, zero, -target[..., 0] * x, -target[..., 0] * y], -1)
    rows_y = np.stack([zero, zero, zero, x, y, one, -target[..., 1] * x, -target[..., 1] * y], -1)
    system = np.concatenate([rows_x, rows_y], 1)
    values = np.concatenate([target[..., 0], target[..., 1]], 1)
    try:
        solved = np.linalg.solve(system, values[..., None])[..., 0]
    except np.linalg.LinAlgError as error:
        raise ValueError("the horizon of this perspective passes through the top left corner of the image") from error
    return np.concatenate([solved, np.ones((n, 1))], 1).reshape(n, 3, 3)
