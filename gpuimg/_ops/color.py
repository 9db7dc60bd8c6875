"""Color functions. Each appends one op to the program of the batch; the ops run in registers, in call order.

The formulas, in :mod:`gpuimg.kernels.color`, are those of ``torchvision.transforms.v2.functional`` for floating-point
images. Values are clamped after each op, as there, and rounded once, when the result is stored.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

from .._batch.functions import of_images
from .._batch.recording import Recording
from .._checks import arguments
from .._checks.types import Color, Floats, PerImage, Table, TablePerImage, Where
from .._data.images import Pixels
from ..kernels import ops

__all__ = [
    "adjust_brightness", "adjust_contrast", "adjust_gamma", "adjust_hsv", "adjust_hue", "adjust_saturation",
    "autocontrast", "channel_dropout", "color_matrix", "equalize", "invert", "permute_channels", "posterize",
    "rgb_shift", "rgb_to_grayscale", "solarize", "solarize_add",
]  # fmt: skip

_BYTE_LIKE = 32.0  # more than any normalized photo has


def check_unit_range(recording: Recording) -> None:
    """Warn if a row of float images shows that their values are not from 0 to 1."""
    source = recording.source
    if (
        not isinstance(source, Pixels)
        or source.dtype != "float32"
        or not recording.runtime.on_host
        or not len(source.sizes)
    ):
        return
    if recording.changes_nothing and (highest := np.max(source.view(0)[source.sizes[0, 0] // 2])) > _BYTE_LIKE:
        warnings.warn(
            f"float images have values from 0 to 1, and one has {highest:g}: divide them by 255, or pass uint8",
            RuntimeWarning,
            stacklevel=_level_of_caller(),
        )


def check_not_normalized(recording: Recording, name: str) -> None:
    """Refuse images whose values may lie outside [0, 1]."""
    if recording.normalized:
        raise ValueError(f"{name} must come before normalize: it needs values in [0, 1]")


def _level_of_caller() -> int:
    """Return the ``stacklevel`` that names the first line outside of gpuimg, whose functions call one another."""
    level, frame = 2, sys._getframe(2)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("gpuimg."):
        level, frame = level + 1, frame.f_back
    return level


def _record(recording: Recording, op: ops.Op, where: Any, *params: Any) -> Recording:
    check_unit_range(recording)
    chosen = arguments.mask(where, recording.image_count)
    return recording.with_plan(recording.plan.with_entry(op, params, where=chosen))


def _factor(recording: Recording, value: Any, name: str) -> Floats:
    return arguments.per_image(value, recording.image_count, name, low=0.0)


@of_images
def adjust_brightness(recording: Recording, brightness_factor: PerImage, *, where: Where | None = None) -> Recording:
    """Make images brighter or darker: multiply by a factor, and clamp.

    Parameters
    ----------
    brightness_factor : float or (N,) float
        Factor, at least 0: 0 is black, 1 keeps the image, 2 doubles its values.

    Examples
    --------
    >>> gpuimg.adjust_brightness(np.full((1, 1, 1, 3), 100, np.uint8), 1.5).array().ravel().tolist()
    [150, 150, 150]
    """
    return _record(recording, ops.BRIGHTNESS, where, _factor(recording, brightness_factor, "brightness_factor"))


@of_images
def adjust_contrast(recording: Recording, contrast_factor: PerImage, *, where: Where | None = None) -> Recording:
    """Raise or lower contrast: blend each image with its mean gray value, and clamp.

    Parameters
    ----------
    contrast_factor : float or (N,) float
        Factor, at least 0: 0 is uniform gray, 1 keeps the image, above 1 raises contrast.

    Notes
    -----
    The mean is that of the image after all earlier functions of the chain. Computing it costs one more pass over the
    pixels.

    Examples
    --------
    >>> x = np.array([0.2, 0.6], np.float32).reshape(1, 1, 2, 1)
    >>> [round(float(v), 4) for v in gpuimg.adjust_contrast(x, 0.5).array().ravel()]
    [0.3, 0.5]
    """
    return _record(recording, ops.CONTRAST, where, _factor(recording, contrast_factor, "contrast_factor"))


@of_images
def adjust_saturation(recording: Recording, saturation_factor: PerImage, *, where: Where | None = None) -> Recording:
    """Make colors stronger or paler: blend each pixel with its gray value, and clamp.

    One-channel images do not change.

    Parameters
    ----------
    saturation_factor : float or (N,) float
        Factor, at least 0: 0 is gray, 1 keeps the image, above 1 makes colors stronger.

    Examples
    --------
    >>> x = np.array([200, 100, 50], np.uint8).reshape(1, 1, 1, 3)
    >>> gpuimg.adjust_saturation(x, 0).array().ravel().tolist()
    [124, 124, 124]
    """
    factor = _factor(recording, saturation_factor, "saturation_factor")
    return _record(recording, ops.SKIP if recording.channels == 1 else ops.SATURATION, where, factor)


@of_images
def adjust_hue(recording: Recording, hue_factor: PerImage, *, where: Where | None = None) -> Recording:
    """Shift all colors around the color wheel: rotate the hue of HSV.

    One-channel images do not change.

    Parameters
    ----------
    hue_factor : float or (N,) float
        Fraction of a full turn, -0.5 to 0.5: 0 keeps the image, 0.5 and -0.5 yield complementary colors.

    Notes
    -----
    HSV is computed in floating point, as in torchvision for tensors. Pillow's 8-bit HSV is up to 16 levels off.

    Examples
    --------
    >>> x = np.array([255, 0, 0], np.uint8).reshape(1, 1, 1, 3)
    >>> gpuimg.adjust_hue(x, 1 / 3).array().ravel().tolist()
    [0, 255, 0]
    """
    shift = arguments.per_image(hue_factor, recording.image_count, "hue_factor", low=-0.5, high=0.5)
    return _record(recording, ops.SKIP if recording.channels == 1 else ops.HUE, where, shift)


@of_images
def adjust_hsv(
    recording: Recording,
    hue_factor: PerImage = 0.0,
    saturation_factor: PerImage = 1.0,
    value_factor: PerImage = 1.0,
    *,
    where: Where | None = None,
) -> Recording:
    """Change colors in HSV: rotate the hue, and multiply saturation and value.

    Of one-channel images only the value changes.

    Parameters
    ----------
    hue_factor : float or (N,) float
        Fraction of a full turn, -1 to 1: 0 keeps the hue.
    saturation_factor, value_factor : float or (N,) float
        Factors of saturation and value, at least 0: 0 is gray, or black, and 1 keeps the image. Products are clamped
        to 1.

    Notes
    -----
    The saturation of HSV is 1 minus the smallest channel as a fraction of the largest, and the value is the largest
    channel. :func:`adjust_saturation` blends with the gray value instead, and :func:`adjust_brightness` clamps each
    channel.

    Examples
    --------
    >>> x = np.array([200, 100, 100], np.uint8).reshape(1, 1, 1, 3)
    >>> gpuimg.adjust_hsv(x, 1 / 3, 1.5, 1.2).array().ravel().tolist()
    [60, 240, 60]
    """
    n = recording.image_count
    turns = arguments.per_image(hue_factor, n, "hue_factor", low=-1.0, high=1.0)
    saturation = arguments.per_image(saturation_factor, n, "saturation_factor", low=0.0)
    value = arguments.per_image(value_factor, n, "value_factor", low=0.0)
    if recording.channels == 1:
        return _record(recording, ops.BRIGHTNESS, where, value)
    return _record(recording, ops.HSV, where, turns, saturation, value)


@of_images
def adjust_gamma(
    recording: Recording, gamma: PerImage, gain: PerImage = 1.0, *, where: Where | None = None
) -> Recording:
    """Brighten or darken midtones by gamma correction: ``gain * x ** gamma`` for x in [0, 1], clamped.

    Parameters
    ----------
    gamma, gain : float or (N,) float
        Exponent and factor, at least 0. A gamma above 1 darkens the image, one below 1 brightens it.

    Examples
    --------
    >>> gpuimg.adjust_gamma(np.full((1, 1, 1, 1), 51, np.uint8), 2.0, 5.0).array().ravel().tolist()
    [51]
    """
    return _record(recording, ops.GAMMA, where, _factor(recording, gamma, "gamma"), _factor(recording, gain, "gain"))


@of_images
def permute_channels(recording: Recording, permutation: PerImage | Table, *, where: Where | None = None) -> Recording:
    """Reorder channels, for example to swap red and blue.

    Parameters
    ----------
    permutation : (C,) or (N, C) int
        Source channel, 0 to C - 1, of each channel of the result, each once: ``(2, 1, 0)`` swaps red and blue.

    Examples
    --------
    >>> x = np.array([1, 2, 3], np.uint8).reshape(1, 1, 1, 3)
    >>> gpuimg.permute_channels(x, (2, 0, 1)).array().ravel().tolist()
    [3, 1, 2]
    """
    n, channels = recording.image_count, recording.channels
    order = arguments.finite(permutation, "permutation")
    rows = arguments.for_each(order, n, 1)
    if rows is None or rows.shape[1] != channels:
        shapes = arguments.shapes(n, channels)
        raise ValueError(f"permutation must have shape ({channels},) or {shapes}, not {order.shape}")
    wrong = np.any(np.sort(rows, 1) != np.arange(channels), 1)
    if np.any(wrong):
        given = rows[int(np.argmax(wrong))].tolist()
        raise ValueError(f"permutation must have each channel from 0 to {channels - 1} once, not {given}")
    return _record(recording, ops.SKIP if channels == 1 else ops.PERMUTE, where, *rows.T)


@of_images
def color_matrix(recording: Recording, matrix: Table | TablePerImage, *, where: Where | None = None) -> Recording:
    """Mix channels, as for sepia or white balance: each becomes a weighted sum of all, and a constant.

    Parameters
    ----------
    matrix : (C, C) or (C, C + 1) array, or (N, C, C) or (N, C, C + 1)
        For all images, or for each: a row of weights for each channel of the result, and perhaps a constant, in the
        unit of the images. Results are clamped.

    Examples
    --------
    >>> x = np.array([200, 100, 50], np.uint8).reshape(1, 1, 1, 3)
    >>> gpuimg.color_matrix(x, [[0.5, 0.5, 0, 0], [0, 1, 0, 20], [0, 0, 1, 0]]).array().ravel().tolist()
    [150, 120, 50]
    """
    check_not_normalized(recording, "color_matrix")
    n, channels = recording.image_count, recording.channels
    given = arguments.finite(matrix, "matrix")
    rows = arguments.for_each(given, n, 2)
    if rows is None or rows.shape[1] != channels or rows.shape[2] - channels not in (0, 1):
        single = f"({channels}, {channels}) or ({channels}, {channels + 1})"
        each = arguments.each_shape(n, f"{channels}, {channels + 1}")
        raise ValueError(f"matrix must have shape {single}, or {each} for each image, not {given.shape}")
    full = np.zeros((n, 3, 4))
    full[:, :channels, :channels] = rows[..., :channels]
    if rows.shape[2] > channels:
        full[:, :channels, 3] = rows[..., channels] * recording.unit
    full[:, channels:] = full[:, :1]  # of gray, all channels are the first
    return _record(recording, ops.COLOR_MATRIX, where, *full.reshape(n, 12).T)


@of_images
def rgb_shift(recording: Recording, shift: Color, *, where: Where | None = None) -> Recording:
    """Tint images: add a constant to each channel, and clamp.

    Parameters
    ----------
    shift : number, tuple of C, (N,) or (N, C) array
        What is added to each channel, above or below 0, in the unit of the images.

    Examples
    --------
    >>> gpuimg.rgb_shift(np.full((1, 1, 1, 3), 100, np.uint8), (20, 0, -120)).array().ravel().tolist()
    [120, 100, 0]
    """
    check_not_normalized(recording, "rgb_shift")
    color = arguments.color(shift, recording.image_count, recording.channels, recording.unit, "shift")
    return _scaled(recording, np.ones_like(color), color, where)


def _scaled(recording: Recording, gains: Any, constants: Floats, where: Any) -> Recording:
    """Multiply channels by (N, 3) numbers, and add as many."""
    matrix = np.concatenate([gains[:, :, None] * np.eye(3), constants[:, :, None]], 2)
    return _record(recording, ops.COLOR_MATRIX, where, *matrix.reshape(-1, 12).T)


@of_images
def channel_dropout(
    recording: Recording, channels: Table, fill: PerImage = 0.0, *, where: Where | None = None
) -> Recording:
    """Fill whole channels with one value, so that a network cannot rely on a single color.

    Parameters
    ----------
    channels : (C,) or (N, C) bool
        The channels to fill, of all images or of each.
    fill : float or (N,) float
        Value of these channels, 0 to white, in the unit of the images.

    Examples
    --------
    >>> x = np.array([200, 100, 50], np.uint8).reshape(1, 1, 1, 3)
    >>> gpuimg.channel_dropout(x, [False, True, False]).array().ravel().tolist()
    [200, 0, 50]
    """
    check_not_normalized(recording, "channel_dropout")
    n, count = recording.image_count, recording.channels
    chosen = arguments.finite(channels, "channels")
    rows = arguments.for_each(chosen, n, 1)
    if rows is None or rows.shape[1] != count:
        raise ValueError(f"channels must have shape ({count},) or {arguments.shapes(n, count)}, not {chosen.shape}")
    if np.any(wrong := (rows != 0.0) & (rows != 1.0)):
        raise ValueError(f"channels must be True or False for each channel, not {arguments.shown(rows[wrong][0])}")
    rows = np.broadcast_to(rows, (n, 3))
    value = arguments.per_image(fill, n, "fill", low=0.0, high=1.0 / recording.unit) * recording.unit
    return _scaled(recording, 1.0 - rows, rows * value[:, None], where)


@of_images
def rgb_to_grayscale(recording: Recording, num_output_channels: int = 1, *, where: Where | None = None) -> Recording:
    """Convert color images to gray: ``0.2989 * R + 0.587 * G + 0.114 * B``.

    Parameters
    ----------
    num_output_channels : {1, 3}
        Channels of the results; 3 repeats the gray value.
    where : bool or (N,) bool, optional
        The images to change; None changes all. Otherwise ``num_output_channels`` must equal the batch's number of
        channels, since all images of a batch have the same.

    Returns
    -------
    Batch
        N images of ``num_output_channels`` equal channels, with the sizes and dtype of the input.

    Examples
    --------
    >>> x = np.array([200, 100, 50], np.uint8).reshape(1, 1, 1, 3)
    >>> gpuimg.rgb_to_grayscale(x).array().shape
    (1, 1, 1, 1)
    """
    if num_output_channels not in (1, 3):
        raise ValueError(f"num_output_channels must be 1 or 3, not {num_output_channels!r}")
    if arguments.mask(where, recording.image_count) is not None and num_output_channels != recording.channels:
        raise ValueError(
            f"with where, num_output_channels must be that of the batch, {recording.channels}, "
            f"not {num_output_channels}"
        )
    gray = _record(recording, ops.SKIP if recording.channels == 1 else ops.GRAYSCALE, where)
    return gray.with_plan(gray.plan.with_channels(num_output_channels))


@of_images
def invert(recording: Recording, *, where: Where | None = None) -> Recording:
    """Make negatives: subtract each value from white.

    Examples
    --------
    >>> gpuimg.invert(np.full((1, 1, 1, 1), 100, np.uint8)).array().ravel().tolist()
    [155]
    """
    return _record(recording, ops.INVERT, where)


@of_images
def solarize(recording: Recording, threshold: PerImage, *, where: Where | None = None) -> Recording:
    """Invert bright values only: those at or above a threshold.

    Parameters
    ----------
    threshold : float or (N,) float
        Least value that is inverted, 0 to white, in the unit of the images.

    Examples
    --------
    >>> x = np.array([99, 100], np.uint8).reshape(1, 1, 2, 1)
    >>> gpuimg.solarize(x, 100).array().ravel().tolist()
    [99, 155]
    """
    values = arguments.per_image(threshold, recording.image_count, "threshold", low=0.0, high=1.0 / recording.unit)
    return _record(recording, ops.SOLARIZE, where, solarize_parameter(values * recording.unit, recording.unit))


@of_images
def solarize_add(
    recording: Recording, addition: PerImage, threshold: PerImage, *, where: Where | None = None
) -> Recording:
    """Brighten dark values only: add to those below a threshold, and clamp.

    Parameters
    ----------
    addition, threshold : float or (N,) float
        What is added, and the least value that is kept; 0 to white, in the unit of the images.

    References
    ----------
    "SolarizeAdd" of TensorFlow's ``models/official/efficientnet/autoaugment.py`` and of timm's ``auto_augment.py``.

    Examples
    --------
    >>> x = np.array([99, 100], np.uint8).reshape(1, 1, 2, 1)
    >>> gpuimg.solarize_add(x, 50, 100).array().ravel().tolist()
    [149, 100]
    """
    added, below = (
        arguments.per_image(value, recording.image_count, name, low=0.0, high=1.0 / recording.unit) * recording.unit
        for value, name in ((addition, "addition"), (threshold, "threshold"))
    )
    return _record(recording, ops.SOLARIZE_ADD, where, added, solarize_parameter(below, recording.unit))


def solarize_parameter(threshold: Floats, unit: float) -> Floats:
    """Return the op's parameter for thresholds in [0, 1]; ``unit`` is 1 for floating-point images.

    For uint8 images it is slightly lower, since resampling may leave a value a rounding error below its byte.
    """
    return threshold if unit == 1.0 else threshold - 1e-6


@of_images
def posterize(recording: Recording, bits: PerImage, *, where: Where | None = None) -> Recording:
    """Reduce images to few levels per channel: keep only the high bits of each value.

    Parameters
    ----------
    bits : int or (N,) int
        Number of high bits to keep, 0 to 8: 1 keeps 2 levels, 8 keeps 256.

    Notes
    -----
    As in torchvision, the low bits of uint8 images are cleared (240 with 4 bits stays 240), and float32 values become
    ``floor(x * 2**bits) / 2**bits``.

    Examples
    --------
    >>> gpuimg.posterize(np.full((1, 1, 1, 1), 255, np.uint8), 4).array().ravel().tolist()
    [240]
    """
    levels = np.exp2(arguments.integers(bits, recording.image_count, "bits", low=0, high=8).astype(np.float64))
    return _record(recording, ops.POSTERIZE, where, *posterize_parameters(levels, recording.unit))


def posterize_parameters(levels: Floats, unit: float) -> tuple[Floats, Floats, Floats]:
    """Return the op's parameters for a number of levels; ``unit`` is 1 for floating-point images."""
    if unit == 1.0:
        return levels, levels - 1.0, 1.0 / levels
    # 255.999 / 256: torchvision's to_dtype first converts the value to a byte, whose high bits are then kept.
    return levels * (255.999 / 256.0), levels - 1.0, 256.0 / levels / 255.0


@of_images
def autocontrast(recording: Recording, *, where: Where | None = None) -> Recording:
    """Stretch each channel to the full range, from black to white.

    A channel of one value does not change.

    Notes
    -----
    The range is that of the image after all earlier functions of the chain. Finding it costs one more pass over the
    pixels.

    Examples
    --------
    >>> x = np.array([50, 100, 150], np.uint8).reshape(1, 1, 3, 1)
    >>> gpuimg.autocontrast(x).array().ravel().tolist()
    [0, 128, 255]
    """
    return _record(recording, ops.AUTOCONTRAST, where)


@of_images
def equalize(recording: Recording, *, where: Where | None = None) -> Recording:
    """Spread the values of each channel evenly over the range: equalize its histogram, of 256 levels.

    Notes
    -----
    The lookup table is that of Pillow's ``ImageOps.equalize``. Values are truncated to bytes to index it, as in
    torchvision. The histogram costs one more pass over the pixels.

    Examples
    --------
    >>> x = np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1)
    >>> bool((gpuimg.equalize(x).array() == x).all())
    True
    """
    return _record(recording, ops.EQUALIZE, where)
