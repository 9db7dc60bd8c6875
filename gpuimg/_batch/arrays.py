"""Validation of images passed as arrays."""

import os
from typing import Any

from .._runtimes.devices import on_devices
from .._runtimes.planes import MOST_CHANNELS
from .._runtimes.protocol import Runtime
from .result_spec import UNITS

#: Channel counts of most images: an axis of this length before two other axes is taken for channels first.
_USUAL = (1, 3)


def checked_arrays(images: Any) -> tuple[Runtime, Any]:
    """Return a list of (H, W, C) arrays or one (N, H, W, C) array, and the runtime that owns its memory."""
    is_list = isinstance(images, (list, tuple))
    listed, runtimes = on_devices(images if is_list else [images])
    images = listed if is_list else listed[0]
    if hasattr(images, "shape") and hasattr(images, "dtype"):
        if len(images.shape) != 4:
            hint = "; wrap a single image in a list: [image]" if len(images.shape) == 3 else ""
            raise ValueError(f"images must have shape (N, H, W, C), not {tuple(images.shape)}{hint}")
        _check_image(images, "images")
        _check_order(images)
        return runtimes[0], images
    if not isinstance(images, list):
        raise TypeError(
            "images must be a Batch, a list of (H, W, C) arrays or one (N, H, W, C) array, not "
            f"{type(images).__name__}{_unopened(images)}"
        )
    if not images:
        raise ValueError(
            "an empty list has no number of channels and no dtype; use an array of shape (0, H, W, C) instead"
        )
    _check_alike(images, runtimes)
    return runtimes[0], images


def _check_alike(images: list[Any], runtimes: list[Runtime]) -> None:
    """Refuse lists of objects other than images with the same channels, dtype and device."""
    first = images[0]
    for i, image in enumerate(images):
        if not (hasattr(image, "shape") and hasattr(image, "dtype")) or len(image.shape) != 3:
            what = f"shape {tuple(image.shape)}" if hasattr(image, "shape") else type(image).__name__
            raise TypeError(f"images[{i}] must be an (H, W, C) array, not {what}{_unopened(image)}")
        _check_image(image, f"images[{i}]")
        if image.shape[2] != first.shape[2] or image.dtype != first.dtype:
            raise ValueError(
                f"images must agree in channels and dtype: images[0] is {first.dtype} with {first.shape[2]} channels, "
                f"images[{i}] is {image.dtype} with {image.shape[2]}"
            )
        if runtimes[i] is not runtimes[0]:
            raise ValueError(
                f"images must be on one device: images[0] is on {runtimes[0].name}, images[{i}] on {runtimes[i].name}"
            )


def _unopened(image: Any) -> str:
    """Return a hint for files and images of Pillow; otherwise an empty string."""
    if isinstance(image, (str, bytes, os.PathLike)):
        return "; pass gpuimg.open_batch(paths) for files"
    if type(image).__module__.partition(".")[0] == "PIL":
        return "; pass np.asarray(image.convert('RGB'))"
    return ""


def _check_image(image: Any, name: str) -> None:
    *_, height, width, channels = image.shape
    if str(image.dtype) not in UNITS:
        raise TypeError(f"{name} must be uint8, uint16 or float32, not {image.dtype}")
    if not 1 <= channels <= MOST_CHANNELS:
        raise ValueError(
            f"{name} must have 1 to {MOST_CHANNELS} channels in the last axis, not shape {tuple(image.shape)}"
            f"{_transposed(image, name)}"
        )
    if (height < 1 or width < 1) and (len(image.shape) == 3 or image.shape[0] > 0):
        raise ValueError(f"{name} must be at least 1 x 1 pixel, not shape {tuple(image.shape)}")


def _transposed(image: Any, name: str) -> str:
    """Return a hint to transpose, for an array that seems to have its channels first; otherwise an empty string."""
    if not 1 <= image.shape[-3] <= MOST_CHANNELS:
        return ""
    # ``permute`` is torch's; its ``transpose`` swaps two axes.
    order = "(0, 2, 3, 1)" if len(image.shape) == 4 else "(1, 2, 0)"
    return f"; if the channels come first, pass {name}.transpose{order}, or for a torch tensor {name}.permute{order}"


def _check_order(images: Any) -> None:
    """Refuse small square images with channels first, whose width could be a number of channels.

    Images with only 1 or 3 rows, and as wide as their channel count, are rare but may be intended: pass them as a list.
    """
    n, first, second, last = images.shape
    if n and first in _USUAL and second == last > 4:
        raise ValueError(
            f"images of shape {tuple(images.shape)} look like {last} x {last} pixels with the channels first: pass "
            f"images.transpose(0, 2, 3, 1); if they are {first} x {second} pixels of {last} channels, pass "
            "list(images)"
        )
