"""Resizing, cropping, padding and flipping: geometry without rotation or shear.

Each function multiplies a matrix into the plan; the pixels are resampled once, when results are computed. Names,
argument order and meaning follow ``torchvision.transforms.v2.functional``. Positions are in pixels. A chain is
resampled with the smoothest interpolation among its calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._batch.batch import Batch
from .._batch.functions import of_images, of_resized
from .._batch.recording import Recording
from .._checks import arguments
from .._checks.keywords import explained
from .._checks.types import Color, Exact, Floats, Interpolation, Ints, Mask, Padding, PaddingMode, PerImage, Size, Where
from .._data.images import rectangles
from .._plan.plan import Plan, identities, shift_matrix
from ..errors import ImageError
from ..kernels import layout
from .exact_resize import exact_rule, resize_exactly

__all__ = ["center_crop", "crop", "horizontal_flip", "pad", "resize", "resized_crop", "vertical_flip"]

_BLACK = np.zeros((1, 3))
_FAR = 1 << 25  # pixels: beyond the border of any image
_MIRRORS = {"reflect": layout.REFLECT, "symmetric": layout.SYMMETRIC}


@of_resized
def resize(
    recording: Recording,
    size: Size | None,
    interpolation: Interpolation = "bilinear",
    max_size: PerImage | None = None,
    antialias: bool = True,
    *,
    exact: Exact | None = None,
    where: Where | None = None,
) -> Recording:
    """Resize images to a height and width, a shorter side or a longer side; antialiased by default.

    Parameters
    ----------
    size : int, (height, width) or None
        New size in pixels. An int, or a list or tuple of one, is the length of the shorter side; the longer side
        follows from the aspect ratio, rounded down, as in torchvision. A NumPy array (N,) has a shorter side, and one
        of shape (N, 2) height and width, for each image; in a tuple each may be (N,). None resizes the longer side to
        ``max_size``.
    interpolation : {"bilinear", "nearest", "bicubic", "lanczos", "box", "hamming"}
        How source pixels are weighted. Bilinear is the default, as in torchvision. ``"nearest"`` is fastest, but
        aliases; it takes the source pixel that contains the center of the new one, as Pillow and torch's
        ``"nearest-exact"`` do; at ties, Pillow's with ``exact``. torchvision's ``NEAREST`` chooses other pixels.
        ``"bicubic"`` and ``"lanczos"`` are sharper and slower. The last three are Pillow's and need ``antialias``. A
        NumPy array (N,) has one for each image, such as ``rng.choice(["bilinear", "bicubic"])``.
    max_size : int or (N,) int, optional
        With an int ``size``, the largest length of the longer side in pixels, above ``size``; the shorter side shrinks
        to match. With ``size=None``, the length of the longer side. None sets no limit.
    exact : {"pillow", "pillow12", "torch"}, optional
        Return the bytes of that library's resize of uint8 images, bit for bit: ``"pillow"`` is Pillow since 13.0,
        ``"pillow12"`` Pillow before, ``"torch"`` torchvision and Hugging Face's default image processors on uint8
        tensors on the CPU. It needs ``antialias``. None resamples in float32. See the notes.

    Notes
    -----
    Pixel centers are at half-integer positions, and weights are renormalized at the border, as in torch's
    ``interpolate(align_corners=False, antialias=True)``. Bicubic uses a = -0.5 with ``antialias`` and a = -0.75
    without, as torch does; it and lanczos may overshoot in floating-point results. With ``"box"`` a pixel whose center
    lies between two results belongs to the first.

    By default consecutive geometric calls are one resampling in float32, rounded once. With ``exact`` the resize is a
    separate resampling, which rounds to bytes after each of its two passes. Earlier operations are computed first and
    rounded to bytes, unless they only crop; later ones start from its bytes. Only the rows and columns that later calls
    need are computed. :func:`normalize` then divides as the library does, so that float32 results are equal, too. CPU
    and GPU return the same bytes. Images must be uint8, opened without ``draft``, with 1, 3 or 4 channels. Four are
    RGBA: as in Pillow, colors are multiplied by alpha before the resize, and divided by it after. ``"torch"`` resizes
    any number of channels. Images that would be far larger between the two passes are refused.

    References
    ----------
    PyTorch ``aten/src/ATen/native/cuda/UpSample.cuh``; Pillow ``src/libImaging/Resample.c``.

    Examples
    --------
    >>> gpuimg.resize([np.zeros((30, 40, 3), np.uint8)], 15).sizes.tolist()
    [[15, 20]]
    """
    recording = recording.for_geometry()
    n = recording.image_count
    rule, filter_of = exact_rule(exact, antialias)
    filters = arguments.filters(interpolation, n, filter_of)
    new = _sizes_after_resize(recording.sizes, n, size, max_size)
    chosen = arguments.mask(where, n)
    if rule is not None:
        return resize_exactly(recording, new, filters, rule, chosen)
    return recording.with_plan(recording.plan.resized(new, filters, antialias=antialias, where=chosen))


def _sizes_after_resize(old: Ints, n: int, size: Any, max_size: Any) -> Ints:
    """Return the sizes (N, 2) that images of sizes ``old`` are resized to."""
    size = arguments.unwrapped(size)
    if size is None and max_size is None:
        raise ValueError("size may be None only with max_size, the new length of the longer side")
    if size is not None and not arguments.one_for_each(size, n, 2):
        if max_size is not None:
            raise ValueError(f"max_size needs an int size, the shorter side, or None, not {size!r}")
        return arguments.sizes(size, n)
    if size is None:
        return with_long_side(old, arguments.integers(max_size, n, "max_size", low=1))
    new = with_short_side(old, arguments.integers(size, n, "size", low=1))
    if max_size is None:
        return new
    limit = arguments.integers(max_size, n, "max_size")
    if np.any(limit <= new.min(1)):
        raise ValueError(f"max_size must be above size={size}, not {max_size}")
    return np.where(limit[:, None] < new.max(1, keepdims=True), with_long_side(new, limit), new)


def with_short_side(old: Ints, short: Ints) -> Ints:
    """Return sizes (N, 2) whose shorter side is (N,); the longer side is rounded down."""
    sizes = np.empty((len(old), 2), np.int64)
    rectangles().short_sides(np.ascontiguousarray(old), short, sizes)
    return sizes


def with_long_side(old: Ints, long: Ints) -> Ints:
    """Return sizes (N, 2) whose longer side is (N,); the shorter side is rounded down, to at least 1."""
    sizes: Ints = np.maximum(long[:, None] * old // np.maximum(old[:, :1], old[:, 1:]), 1)
    return sizes


@of_resized
def crop(
    recording: Recording,
    top: PerImage,
    left: PerImage,
    height: PerImage,
    width: PerImage,
    *,
    where: Where | None = None,
) -> Recording:
    """Crop a rectangle at a given position.

    Parts of it outside the image are black, as in torchvision. Later functions do not see pixels outside the rectangle.

    Parameters
    ----------
    top, left : int or (N,) int
        First row and column in pixels; may be negative.
    height, width : int or (N,) int
        Size of the result in pixels, at least 1.

    Examples
    --------
    >>> x = np.arange(12, dtype=np.uint8).reshape(1, 3, 4, 1)
    >>> gpuimg.crop(x, 1, 2, 2, 2).array()[0, :, :, 0].tolist()
    [[6, 7], [10, 11]]
    """
    recording = recording.for_geometry()
    n = recording.image_count
    corner = np.stack([arguments.integers(top, n, "top"), arguments.integers(left, n, "left")], 1)
    new = _height_width(height, width, n)
    return recording.with_plan(_cut(recording.plan, corner, new, _BLACK, arguments.mask(where, n)))


def _height_width(height: Any, width: Any, n: int) -> Ints:
    return np.stack([arguments.integers(height, n, "height", low=1), arguments.integers(width, n, "width", low=1)], 1)


def _extends_beyond(corner: Ints, new: Ints, sizes: Ints) -> Mask | None:
    """Return (N,): True for rectangles that extend beyond images of the given sizes; None if none does."""
    beyond = (corner < 0) | (corner + new > sizes)
    if not beyond.any():
        return None
    either: Mask = beyond[:, 0] | beyond[:, 1]
    return either


def _cut(plan: Plan, corner: Ints, new: Ints, color: Floats | None, where: Mask | None) -> Plan:
    """Crop a rectangle of the current grid. Parts outside the grid show a color, or with None the repeated edge."""
    if where is not None:
        corner = np.where(where[:, None], corner, 0)
        new = np.where(where[:, None], new, plan.sizes)
    outside = None if color is None else _extends_beyond(corner, new, plan.sizes)
    if color is not None and outside is not None:
        # Paint only the sides where the rectangle extends beyond the grid: elsewhere a later filter must not see the
        # color. A rectangle entirely outside shows only the color.
        missed = np.any((corner >= plan.sizes) | (corner + new <= 0), 1)[:, None]
        low = np.where(missed | (corner < 0), 0, -_FAR)
        high = np.where(missed, 0, np.where(corner + new > plan.sizes, plan.sizes, _FAR))
        plan = fill_outside(plan, low, high, color, outside)
    # The window is the part inside the image; the rest is fill.
    if where is not None and not where.any():
        return plan.transformed(identities(len(plan)), new)
    return plan.cropped(corner, new)


def fill_outside(plan: Plan, low: Any, high: Ints, color: Floats, where: Mask | None) -> Plan:
    """Paint the outside of (row, column) ``low`` to ``high``; call it before geometry that brings this into view."""
    plan, here = plan.with_origin()
    low = np.broadcast_to(low, high.shape)
    rectangle = (low[:, 1], low[:, 0], high[:, 1], high[:, 0])
    return plan.with_paint(rectangle, color, here, inside=False, where=where)


@explained({"size": "it is output_size here, as in torchvision's function"})
@of_resized
def center_crop(recording: Recording, output_size: Size, *, where: Where | None = None) -> Recording:
    """Crop a rectangle of a given size from the center of each image.

    Images smaller than the crop get a black border.

    Parameters
    ----------
    output_size : int or (height, width)
        Size of the result in pixels, at least 1. One number, or a list or tuple of one, sets both. In a tuple each may
        be (N,); a NumPy array of shape (N,) or (N, 2) has one number or both for each image.

    Notes
    -----
    The position of the corner is rounded half to even for odd margins, as in torchvision.

    Examples
    --------
    >>> gpuimg.center_crop(np.zeros((1, 8, 9, 3), np.uint8), 4).sizes.tolist()
    [[4, 4]]
    """
    recording = recording.for_geometry()
    plan = recording.plan
    n = recording.image_count
    new = arguments.sizes(output_size, n, "output_size")
    corner, chosen = np.empty((n, 2), np.int64), arguments.mask(where, n)
    smaller = rectangles().center_corners(np.ascontiguousarray(plan.sizes), new, corner)
    if chosen is None and not smaller:
        return recording.with_plan(plan.cropped(corner, new))
    spare = plan.sizes - new
    small = spare < 0
    corner[small] = -(-spare[small] // 2)  # torchvision pads first, with the smaller half before the image, then crops
    return recording.with_plan(_cut(plan, corner, new, _BLACK, chosen))


@of_resized
def resized_crop(
    recording: Recording,
    top: PerImage,
    left: PerImage,
    height: PerImage,
    width: PerImage,
    size: Size,
    interpolation: Interpolation = "bilinear",
    antialias: bool = True,
    *,
    exact: Exact | None = None,
    where: Where | None = None,
) -> Recording:
    """Crop a rectangle at a given position and resize it: :func:`crop`, then :func:`resize`.

    Parameters
    ----------
    top, left, height, width : int or (N,) int
        Rectangle to crop, in pixels: its first row and column, and its size, at least 1.
    size : int or (height, width)
        New size of the rectangle in pixels. An int is the length of the shorter side, in all forms of :func:`resize`.

    Examples
    --------
    >>> x = np.zeros((2, 30, 40, 3), np.uint8)
    >>> gpuimg.resized_crop(x, [0, 5], 3, 20, [20, 30], (8, 8)).array().shape
    (2, 8, 8, 3)
    """
    recording = recording.for_geometry()
    n = recording.image_count
    corner = np.stack([arguments.integers(top, n, "top"), arguments.integers(left, n, "left")], 1)
    new = _height_width(height, width, n)
    cropped = _crop_to_resize(recording, corner, new, arguments.mask(where, n))
    return resize.record(cropped, size, interpolation, None, antialias, exact=exact, where=where)


def resized_where(batch: Batch, sizes: Ints, where: Mask) -> Batch:
    """Resize the images (N,) of a mask to sizes (N, 2), and leave all others as they are."""
    return resize(batch, np.where(where[:, None], sizes, batch.sizes), where=where) if where.any() else batch


def resized_boxes(
    recording: Recording, boxes: Ints, sizes: Ints, filters: Ints, antialias: bool, rule: int | None
) -> Recording:
    """Crop boxes (N, 4) inside the images, top left height width, and resize them to sizes (N, 2); all are checked."""
    recording = recording.for_geometry()
    plan = recording.plan.cropped(boxes[:, :2], boxes[:, 2:])
    if rule is None:
        return recording.with_plan(plan.resized(sizes, filters, antialias=antialias))
    return resize_exactly(recording.with_plan(plan), sizes, filters, rule, None)


def _crop_to_resize(recording: Recording, corner: Ints, new: Ints, chosen: Mask | None) -> Recording:
    """Crop rectangles that will be resized."""
    beyond = _extends_beyond(corner, new, recording.sizes) if recording.plan.is_fresh else None
    if beyond is not None and chosen is not None:
        beyond &= chosen
    if beyond is not None and beyond.any():
        # A filter that reads across the border must read black pixels there. This costs those images one more pass.
        recording = recording.with_plan(_cut(recording.plan, corner, new, _BLACK, beyond)).new_segment()
        chosen = ~beyond if chosen is None else chosen & ~beyond
    return recording.with_plan(_cut(recording.plan, corner, new, _BLACK, chosen))


@of_resized
def pad(
    recording: Recording,
    padding: Padding,
    fill: Color = 0,
    padding_mode: PaddingMode = "constant",
    *,
    where: Where | None = None,
) -> Recording:
    """Pad images with a border: of a color, of the repeated edge, or of the mirrored image.

    Parameters
    ----------
    padding : int, (x, y) or (left, top, right, bottom)
        Width of the border in pixels. One number, or a list or tuple of one, sets all sides; each number may be (N,).
        A NumPy array of shape (N,), (N, 2) or (N, 4) has a row for each image. Negative numbers crop.
    fill : number, tuple of C, or (N,) or (N, C) array
        Color of the border in the unit of the images, with ``padding_mode="constant"``. A list or tuple of C numbers is
        one color of all images. A NumPy array has a number (N,) or a color (N, C) for each image, or as (1, C) one
        color of all.

    Notes
    -----
    The modes are those of :func:`numpy.pad`. torchvision refuses to reflect more pixels than the image has.

    Examples
    --------
    >>> gpuimg.pad(np.full((1, 1, 1, 1), 7, np.uint8), 1, fill=9).array()[0, :, :, 0].tolist()
    [[9, 9, 9], [9, 7, 9], [9, 9, 9]]
    """
    recording = recording.for_geometry()
    if padding_mode not in ("constant", "edge", *_MIRRORS):
        raise ValueError(f'padding_mode must be "constant", "edge", "reflect" or "symmetric", not {padding_mode!r}')
    if padding_mode != "constant":
        recording = recording.new_segment()  # the border is sampled from a pass's source: the results so far become one
    plan = recording.plan
    n = recording.image_count
    left, top, right, bottom = _sides(padding, n)
    before, after = np.stack([top, left], 1), np.stack([bottom, right], 1)
    new = plan.sizes + before + after
    # Pixels that negative numbers crop are not mirrored.
    kept = plan.sizes + np.minimum(before, 0) + np.minimum(after, 0) if padding_mode in _MIRRORS else new
    chosen, none = arguments.mask(where, n), np.any(kept < 1, 1)
    if (k := recording.refused(none)) is not None:
        raise ImageError(k, f"padding {padding!r} leaves no pixel of its size {tuple(plan.sizes[k].tolist())}")
    if np.any(none):
        before[none], new[none], kept[none] = 0, plan.sizes[none], plan.sizes[none]
    if padding_mode in _MIRRORS:
        plan = _cut(plan, np.maximum(-before, 0), kept, None, chosen)
        y, x = np.minimum(-before, 0).T
        return recording.with_plan(plan.mirrored(_MIRRORS[padding_mode], shift_matrix(n, x, y), new, chosen))
    color = arguments.color(fill, n, plan.channels, recording.unit) if padding_mode == "constant" else None
    return recording.with_plan(_cut(plan, -before, new, color, chosen))


def _sides(padding: Any, n: int) -> list[Ints]:
    """Return the padding of left, top, right and bottom, (N,) each."""
    padding = arguments.unwrapped(padding)
    if arguments.one_for_each(padding, n, 2, 4):
        return [arguments.integers(padding, n, "padding")] * 4
    if not isinstance(padding, Sequence):
        padding = tuple(arguments.table(padding, n, (2, 4), "padding", "(x, y) or (left, top, right, bottom)").T)
    names = {2: ("x", "y"), 4: ("left", "top", "right", "bottom")}.get(len(padding))
    if names is None:
        raise ValueError(f"padding must be one number, (x, y) or (left, top, right, bottom), not {padding!r}")
    if isinstance(padding, list) and not any(map(arguments.is_single, padding)):
        raise ValueError(
            f"padding as a list must hold numbers, not {padding!r}; to set it per image, use a tuple of ({n},) arrays, "
            f"or a NumPy array of shape ({n}, 2) or ({n}, 4)"
        )
    sides = [arguments.integers(v, n, f"padding {name}") for v, name in zip(padding, names, strict=True)]
    return sides if len(sides) == 4 else sides * 2


@of_images
def horizontal_flip(recording: Recording, *, where: Where | None = None) -> Recording:
    """Flip images horizontally: mirror left and right.

    Examples
    --------
    >>> x = np.arange(3, dtype=np.uint8).reshape(1, 1, 3, 1)
    >>> gpuimg.horizontal_flip(x).array().ravel().tolist()
    [2, 1, 0]
    """
    return _flip(recording, 0, where)


@of_images
def vertical_flip(recording: Recording, *, where: Where | None = None) -> Recording:
    """Flip images vertically: mirror top and bottom.

    Examples
    --------
    >>> x = np.arange(3, dtype=np.uint8).reshape(1, 3, 1, 1)
    >>> gpuimg.vertical_flip(x).array().ravel().tolist()
    [2, 1, 0]
    """
    return _flip(recording, 1, where)


def _flip(recording: Recording, axis: int, where: Where | None) -> Recording:
    """Mirror images along x, axis 0, or along y, axis 1."""
    recording = recording.for_geometry()
    plan, chosen = recording.plan, arguments.mask(where, recording.image_count)
    local, mirrored = identities(len(plan)), True if chosen is None else chosen
    local[:, axis, axis] -= 2.0 * mirrored
    local[:, axis, 2] = plan.sizes[:, 1 - axis] * mirrored
    return recording.with_plan(plan.transformed(local, plan.sizes))
