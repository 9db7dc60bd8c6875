"""Rotation, affine and perspective transforms, recorded as matrices as in :mod:`gpuimg._ops.resize_crop`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._batch.functions import of_images, of_resized
from .._batch.recording import Recording
from .._checks import arguments
from .._checks.docstrings import of_warps
from .._checks.types import Color, Floats, Interpolation, Ints, Mask, Pair, PerImage, Size, Table, TablePerImage, Where
from .._plan.plan import shift_matrix
from .resize_crop import fill_outside

__all__ = ["affine", "perspective", "rotate"]


def _cos_sin(degrees: Floats) -> tuple[Floats, Floats]:
    """Return cosine and sine, exact at multiples of 90 degrees."""
    turn = np.mod(degrees, 360.0)
    quarter = turn / 90.0
    exact = quarter == np.round(quarter)
    k = np.round(quarter).astype(np.int64) % 4
    radians = np.deg2rad(turn)
    cos = np.where(exact, np.array([1.0, 0.0, -1.0, 0.0])[k], np.cos(radians))
    sin = np.where(exact, np.array([0.0, 1.0, 0.0, -1.0])[k], np.sin(radians))
    return cos, sin


def _inverse_affine(angle: Floats, translate: Floats, scale: Floats, shear: Floats, center: Floats) -> Floats:
    """Return output -> source matrices as torchvision's ``_get_inverse_affine_matrix``: clockwise angle in degrees."""
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


def _warp(
    recording: Recording, local: Floats, new: Ints, interpolation: Interpolation, fill: Any, where: Mask | None
) -> Recording:
    """Record a warp: the color around the image unless ``fill`` is None, then the matrices ``local``."""
    plan = recording.plan
    chosen = arguments.filters(interpolation, recording.image_count, arguments.interpolation)
    if fill is not None:
        color = arguments.color(fill, recording.image_count, plan.channels, recording.unit)
        plan = fill_outside(plan, 0, plan.sizes, color, where)
    return recording.with_plan(plan.transformed(local, new, filter=chosen, where=where))


def _center(center: Any, recording: Recording) -> Floats:
    """Return the center (N, 2), x and y; by default that of each image."""
    if center is None:
        return recording.sizes[:, ::-1] / 2.0
    return arguments.pair(center, recording.image_count, "center", ("x", "y"))


@of_resized
@of_warps
def rotate(
    recording: Recording,
    angle: PerImage,
    interpolation: Interpolation = "nearest",
    expand: bool = False,
    center: Pair | None = None,
    fill: Color | None = 0,
    *,
    where: Where | None = None,
) -> Recording:
    """Rotate images counter-clockwise about their center or another point.

    Parameters
    ----------
    angle : float or (N,) float
        Angle in degrees, counter-clockwise.

    Notes
    -----
    At the border the image is blended with ``fill``, weighted by the fraction of the filter inside the image.
    torchvision's bilinear blend applies that fraction twice: there an image of 200 on a fill of 200 becomes 150.
    Rotations of square images by multiples of 90 degrees are exact.

    References
    ----------
    torchvision ``transforms/v2/functional/_geometry.py``, ``_get_inverse_affine_matrix`` and ``_affine_grid``.

    Examples
    --------
    >>> x = np.array([[1, 2], [3, 4]], np.uint8).reshape(1, 2, 2, 1)
    >>> gpuimg.rotate(x, 90).array()[0, :, :, 0].tolist()
    [[2, 4], [1, 3]]
    """
    recording = recording.for_geometry()
    plan = recording.plan
    n = recording.image_count
    degrees = arguments.per_image(angle, n, "angle")
    arguments.flag(expand, "expand")
    middle = plan.sizes[:, ::-1] / 2.0
    pivot = middle if expand else _center(center, recording)
    zero = np.zeros((n, 2))
    local = _inverse_affine(-degrees, zero, np.ones(n), zero, pivot)
    new = plan.sizes
    if expand:
        new = _expanded(plan.sizes, local)
        shifted = shift_matrix(n, *(middle - new[:, ::-1] / 2.0).T)
        local = local @ shifted
    return _warp(recording, local, new, interpolation, fill, arguments.mask(where, n))


def _expanded(sizes: Ints, local: Floats) -> Ints:
    """Return the sizes (N, 2) around rotated images, truncated at 1e-4 pixel as in torchvision; exact at 90 degrees."""
    half = (sizes[:, ::-1] / 2.0)[:, :, None]
    corners = half * np.array([(-1, -1, 1, 1), (-1, 1, -1, 1)], np.float64)
    moved = np.trunc((local[:, :2, :2] @ corners + half) / 1e-4) * 1e-4
    box: Floats = np.ceil(moved.max(2)) - np.floor(moved.min(2))
    turn = np.abs(local[:, :2, :2])
    quarter = np.all((turn == 0.0) | (turn == 1.0), (1, 2))
    box = np.where(quarter[:, None], 2.0 * (turn @ half)[..., 0], box)
    return box[:, ::-1].astype(np.int64)


@of_images
@of_warps
def affine(
    recording: Recording,
    angle: PerImage,
    translate: Pair,
    scale: PerImage,
    shear: Size,
    interpolation: Interpolation = "nearest",
    fill: Color | None = 0,
    center: Pair | None = None,
    *,
    where: Where | None = None,
) -> Recording:
    """Rotate, translate, scale and shear images, keeping their size.

    Parameters
    ----------
    angle : float or (N,) float
        Angle in degrees, **clockwise**, as in torchvision's ``affine`` and unlike :func:`rotate`.
    translate : (x, y)
        Shift in pixels, applied after the rotation; each may be (N,).
    scale : float or (N,) float
        Scale factor, at least 1e-6: 1 keeps the size of what is shown, 2 doubles it.
    shear : float or (x, y)
        Shear in degrees, -89 to 89. One number shears along x, a list or tuple of one along both axes, as in
        torchvision. Each may be (N,); a NumPy array of shape (N,) or (N, 2) has one number or both for each image.

    Examples
    --------
    >>> x = np.arange(4, dtype=np.uint8).reshape(1, 1, 4, 1)
    >>> gpuimg.affine(x, 0, (1, 0), 1.0, 0).array().ravel().tolist()
    [0, 0, 1, 2]
    """
    recording = recording.for_geometry()
    plan = recording.plan
    n = recording.image_count
    sheared = (shear, 0.0) if arguments.one_for_each(shear, n, 2) else shear
    local = _inverse_affine(
        arguments.per_image(angle, n, "angle"),
        arguments.pair(translate, n, "translate", ("x", "y")),
        arguments.per_image(scale, n, "scale", low=1e-6),
        arguments.both(sheared, n, "shear", ("x", "y"), low=-89.0, high=89.0),
        _center(center, recording),
    )
    return _warp(recording, local, plan.sizes, interpolation, fill, arguments.mask(where, n))


@of_images
@of_warps
def perspective(
    recording: Recording,
    startpoints: Table | TablePerImage,
    endpoints: Table | TablePerImage,
    interpolation: Interpolation = "bilinear",
    fill: Color | None = 0,
    *,
    where: Where | None = None,
) -> Recording:
    """Change the perspective, such that four points of the image move to four others.

    Parameters
    ----------
    startpoints, endpoints : (4, 2) or (N, 4, 2) array_like
        Points of the image, and their positions in the result: ``(x, y)`` in pixels. No three may lie on a line, nor
        the horizon pass through the top left corner.

    Examples
    --------
    >>> x = np.arange(16, dtype=np.uint8).reshape(1, 4, 4, 1)
    >>> square = [(0, 0), (4, 0), (4, 4), (0, 4)]
    >>> bool((gpuimg.perspective(x, square, square).array() == x).all())
    True
    """
    recording = recording.for_geometry()
    n = recording.image_count
    start = _points(startpoints, n, "startpoints")
    end = _points(endpoints, n, "endpoints")
    local = _homography(end, start)
    return _warp(recording, local, recording.plan.sizes, interpolation, fill, arguments.mask(where, n))


def _points(value: Any, n: int, name: str) -> Floats:
    """Check four points of each image; return (N, 4, 2)."""
    array = arguments.finite(value, name)
    if array.shape[-2:] != (4, 2) or array.ndim > 3 or (array.ndim == 3 and not arguments.fits(array, n)):
        raise ValueError(f"{name} must have shape (4, 2) or {arguments.shapes(n, 4, 2)}, not {array.shape}")
    flat = on_a_line(array)
    if np.any(flat):
        points = array.reshape(-1, 4, 2)[int(np.argmax(flat))].tolist()
        raise ValueError(f"{name} must be four points of which no three lie on a line, not {points}")
    return arguments.rows(array, n) if array.ndim == 3 else np.broadcast_to(array, (n, 4, 2))


def on_a_line(points: Floats) -> Mask:
    """Return (...): True where three of four points (..., 4, 2) lie on a line."""
    flat = np.zeros(points.shape[:-2], np.bool_)
    for k in range(4):
        one, two, three = (points[..., (k + step) % 4, :] for step in range(3))
        a, b = two - one, three - one
        area = a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
        flat |= np.abs(area) <= 1e-9 * np.sum(a * a + b * b, -1)
    return flat


def _homography(source: Floats, target: Floats) -> Floats:
    """Return matrices (N, 3, 3) with last element 1 that map each source point to its target."""
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
        raise ValueError(
            "startpoints and endpoints must not put the horizon of the perspective through the image's top left corner"
        ) from error
    return np.concatenate([solved, np.ones((n, 1))], 1).reshape(n, 3, 3)
