"""Random geometry: draw, then call. Defaults are those of ``torchvision.transforms.v2``.

A function makes the same number of draws for every image, so a sample draws the same numbers in any batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._batch.functions import of_images, of_resized
from .._batch.recording import Recording
from .._checks import arguments
from .._checks.docstrings import of_warps
from .._checks.types import Color, Exact, Floats, Interpolation, Mask, Padding, PaddingMode, Pair, PerImage, Range, Size
from .._ops import resize_crop, warp
from .._ops.exact_resize import exact_rule
from ..errors import ImageError
from .draws import resized_crop_boxes, rng_of
from .rng import Rng

__all__ = [
    "random_affine", "random_crop", "random_horizontal_flip", "random_perspective", "random_resized_crop",
    "random_rotation", "random_vertical_flip", "random_zoom_out",
]  # fmt: skip


@of_resized
def random_resized_crop(
    recording: Recording,
    size: Size,
    scale: Pair = (0.08, 1.0),
    ratio: Range = (3.0 / 4.0, 4.0 / 3.0),
    interpolation: Interpolation = "bilinear",
    antialias: bool = True,
    *,
    exact: Exact | None = None,
    rng: Rng | int,
) -> Recording:
    """Crop a rectangle of random area, aspect ratio and position, and resize it, as in training of classifiers.

    Parameters
    ----------
    scale : (low, high)
        Range of the rectangle's area as a fraction of the image's, 0 to 1; in a tuple each limit may be (N,), and an
        (N, 2) array has a range for each image.
    ratio : (low, high)
        Range of the rectangle's width divided by its height, at least 1e-6; the logarithm is drawn uniformly.

    Notes
    -----
    If none of ten rectangles fits into the image, the largest centered rectangle of an allowed ratio is cropped, as in
    torchvision.

    Examples
    --------
    >>> x = np.zeros((2, 30, 40, 3), np.uint8)
    >>> gpuimg.random_resized_crop(x, 8, rng=gpuimg.Rng(0, indices=[5, 6])).array().shape
    (2, 8, 8, 3)
    """
    n = recording.image_count
    rng = rng_of(recording, rng, "random_resized_crop")
    area = arguments.low_high_of_each(scale, n, "scale", low=0.0, high=1.0)
    aspect = arguments.low_high(ratio, "ratio", low=1e-6)
    new = arguments.sizes(size, n)
    rule, filter_of = exact_rule(exact, antialias)
    filters = arguments.filters(interpolation, n, filter_of)
    boxes = resized_crop_boxes(recording.sizes, rng, area, aspect)
    return resize_crop.resized_boxes(recording, boxes, new, filters, antialias, rule)


@of_resized
def random_crop(
    recording: Recording,
    size: Size,
    padding: Padding | None = None,
    pad_if_needed: bool = False,
    fill: Color = 0,
    padding_mode: PaddingMode = "constant",
    *,
    rng: Rng | int,
) -> Recording:
    """Crop a rectangle of fixed size at a random position.

    Parameters
    ----------
    padding : int, (x, y) or (left, top, right, bottom), optional
        Border in pixels to add before the crop, as in :func:`pad`. None adds none.
    pad_if_needed : bool
        Pad images smaller than the crop by the missing pixels on both sides; if False, they are refused.

    Examples
    --------
    >>> gpuimg.random_crop(np.zeros((2, 32, 32, 3), np.uint8), 32, padding=4, rng=0).sizes.tolist()
    [[32, 32], [32, 32]]
    """
    rng = rng_of(recording, rng, "random_crop")
    n = recording.image_count
    new = arguments.sizes(size, n)
    if padding is not None:
        recording = resize_crop.pad.record(recording, padding, fill, padding_mode)
    if arguments.flag(pad_if_needed, "pad_if_needed"):
        missing = np.maximum(new - recording.sizes, 0)
        recording = resize_crop.pad.record(recording, (missing[:, 1], missing[:, 0]), fill, padding_mode)
    spare = recording.sizes - new
    if (k := recording.refused(np.any(spare < 0, 1))) is not None:
        raise ImageError(
            k,
            f"its size {tuple(recording.sizes[k].tolist())} is smaller than the crop of {tuple(new[k].tolist())}; use "
            "padding or pad_if_needed=True",
        )
    corner = np.floor(rng.units(2) * (np.maximum(spare, 0) + 1)).astype(np.int64)
    return resize_crop.crop.record(recording, corner[:, 0], corner[:, 1], new[:, 0], new[:, 1])


@of_images
def random_horizontal_flip(recording: Recording, p: PerImage = 0.5, *, rng: Rng | int) -> Recording:
    """Flip images horizontally with probability ``p``."""
    rng = rng_of(recording, rng, "random_horizontal_flip")
    return resize_crop.horizontal_flip.record(recording, where=rng.bernoulli(p))


@of_images
def random_vertical_flip(recording: Recording, p: PerImage = 0.5, *, rng: Rng | int) -> Recording:
    """Flip images vertically with probability ``p``."""
    rng = rng_of(recording, rng, "random_vertical_flip")
    return resize_crop.vertical_flip.record(recording, where=rng.bernoulli(p))


@of_resized
@of_warps
def random_rotation(
    recording: Recording,
    degrees: float | Range,
    interpolation: Interpolation = "nearest",
    expand: bool = False,
    center: Pair | None = None,
    fill: Color | None = 0,
    *,
    rng: Rng | int,
) -> Recording:
    """Rotate images by a random angle about their center or another point.

    Parameters
    ----------
    degrees : float or (low, high)
        Range of the angle in degrees, counter-clockwise; one number ``d`` stands for ``(-d, d)``.
    """
    rng = rng_of(recording, rng, "random_rotation")
    low, high = arguments.symmetric(degrees, "degrees")
    return warp.rotate.record(recording, rng.uniform(low, high), interpolation, expand, center, fill)


@of_images
@of_warps
def random_affine(
    recording: Recording,
    degrees: float | Range,
    translate: Range | None = None,
    scale: Range | None = None,
    shear: float | Range | None = None,
    interpolation: Interpolation = "nearest",
    fill: Color | None = 0,
    center: Pair | None = None,
    *,
    rng: Rng | int,
) -> Recording:
    """Rotate, translate, scale and shear images at random, keeping their size.

    Parameters
    ----------
    degrees : float or (low, high)
        Range of the angle in degrees, **clockwise**; one number ``d`` stands for ``(-d, d)``.
    translate : (x, y), optional
        Largest shift as a fraction of width and height, 0 to 1; shifts are rounded to whole pixels. None shifts none.
    scale : (low, high), optional
        Range of the scale factor, at least 1e-6: 2 doubles the size of what is shown. None does not scale.
    shear : float, (low, high) or (x low, x high, y low, y high), optional
        Range of the shear in degrees, -89 to 89; one number ``s`` stands for ``(-s, s)``. Without y limits, shear is
        along x only. None does not shear.
    """
    rng = rng_of(recording, rng, "random_affine")
    n = recording.image_count
    low, high = arguments.symmetric(degrees, "degrees")
    share = (0.0, 0.0) if translate is None else translate
    most = arguments.pair(share, n, "translate", ("x", "y"), low=0.0, high=1.0) * recording.sizes[:, ::-1]
    sizes = (1.0, 1.0) if scale is None else arguments.low_high(scale, "scale", low=1e-6)
    along_x, along_y = _shear_ranges(shear)
    angle = rng.uniform(low, high)
    shift = np.stack([rng.uniform(-most[:, k], most[:, k]) for k in (0, 1)], 1)
    factor = rng.uniform(*sizes)
    sheared = rng.uniform(*along_x), rng.uniform(*along_y)
    return warp.affine.record(recording, angle, np.round(shift), factor, sheared, interpolation, fill, center)


def _shear_ranges(shear: Any) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the checked ranges of the shear along x and y."""
    if shear is None:
        return (0.0, 0.0), (0.0, 0.0)
    if np.ndim(shear) and len(shear) == 4:
        return arguments.low_high(shear[:2], "shear x"), arguments.low_high(shear[2:], "shear y")
    return arguments.symmetric(shear, "shear"), (0.0, 0.0)


@of_resized
def random_zoom_out(
    recording: Recording, fill: Color = 0, side_range: Range = (1.0, 4.0), p: PerImage = 0.5, *, rng: Rng | int
) -> Recording:
    """Place images at a random position on a larger canvas with probability ``p``, as SSD's zoom-out.

    Parameters
    ----------
    fill : number, tuple of C, or (N,) or (N, C) array
        Color of the canvas, in the unit of the images.
    side_range : (low, high)
        Range of the canvas's sides as multiples of the image's, at least 1.

    References
    ----------
    Liu et al.: "SSD: Single shot multibox detector", ECCV 2016, section 3.6; torchvision ``RandomZoomOut``.

    Examples
    --------
    >>> gpuimg.random_zoom_out(np.zeros((1, 8, 10, 3), np.uint8), 127, (2.0, 2.0), 1.0, rng=0).sizes.tolist()
    [[16, 20]]
    """
    rng = rng_of(recording, rng, "random_zoom_out")
    low, high = arguments.low_high(side_range, "side_range", low=1.0)
    where = rng.bernoulli(p)
    side = rng.uniform(low, high)
    spare = np.floor(recording.sizes * side[:, None]) - recording.sizes
    before = np.floor(spare * rng.units(2))
    (top, left), (bottom, right) = before.T, (spare - before).T
    return resize_crop.pad.record(recording, (left, top, right, bottom), fill, where=where)


@of_images
@of_warps
def random_perspective(
    recording: Recording,
    distortion_scale: float = 0.5,
    p: PerImage = 0.5,
    interpolation: Interpolation = "bilinear",
    fill: Color | None = 0,
    *,
    rng: Rng | int,
) -> Recording:
    """Change the perspective at random, with probability ``p``: move the corners inwards by random amounts.

    Parameters
    ----------
    distortion_scale : float
        Largest displacement of a corner as a fraction of the distance to the center, 0 to 1.

    Notes
    -----
    With a scale above 0.5, three corners may end up on one line; such an image does not change.
    """
    rng = rng_of(recording, rng, "random_perspective")
    n = len(recording)
    scale = arguments.number(distortion_scale, "distortion_scale", low=0.0, high=1.0)
    where = rng.bernoulli(p)
    size = recording.sizes[:, ::-1].astype(np.float64)
    bound = np.floor(scale * (recording.sizes[:, ::-1] // 2))
    unit = rng.units(8).reshape(n, 4, 2)
    near = np.floor(unit * (bound + 1.0)[:, None])
    # torchvision draws the far corners from [size - bound - 1, size), one pixel further than the near corners move.
    far = size[:, None] - bound[:, None] - 1.0 + near
    is_far = np.array([(False, False), (True, False), (True, True), (False, True)])
    end = np.where(is_far, far, near)
    start = np.where(is_far, size[:, None] - 1.0, 0.0)
    # Images of one row or column do not have four distinct corners, and no transform leads to some sets of corners.
    where &= np.all(size > 1.0, 1) & _has_transform(end)
    safe: Floats = np.array([(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)])
    start = np.where(where[:, None, None], start, safe)
    end = np.where(where[:, None, None], end, safe)
    return warp.perspective.record(recording, start, end, interpolation, fill, where=where)


def _has_transform(end: Floats) -> Mask:
    """Return (N,): True where a transform, finite at the origin, moves a rectangle's corners to ``end`` (N, 4, 2)."""
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = end.transpose(1, 2, 0)
    # Heckbert's square-to-quadrilateral transform, times its denominator. The last element of its inverse is the
    # divisor at the origin: zero there puts the horizon through the image's top left corner.
    x, y = x0 - x1 + x2 - x3, y0 - y1 + y2 - y3
    scale = (x1 - x2) * (y3 - y2) - (x3 - x2) * (y1 - y2)
    g, h = x * (y3 - y2) - (x3 - x2) * y, (x1 - x2) * y - x * (y1 - y2)
    one = ((x1 - x0) * scale + g * x1) * ((y3 - y0) * scale + h * y3)
    other = ((x3 - x0) * scale + h * x3) * ((y1 - y0) * scale + g * y1)
    finite: Mask = np.abs(one - other) > 1e-9 * (np.abs(one) + np.abs(other))
    return finite & ~warp.on_a_line(end)
