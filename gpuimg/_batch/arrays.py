"""Validation of images passed as arrays."""

import os
from typing import Any

from .._runtimes.devices import on_devices
from .._runtimes.planes import MOST_CHANNELS
from .._runtimes.protocol import Runtime
from .result_spec import UNITS

#: Channel counts of most images: an axis of this length before two others, of which the last is longer than any of
#: these, is taken for channels first.
_USUAL = (1, 3, 4)

_GRAY = "; gray images have one channel: image[..., None]"


def checked_arrays(images: Any) -> tuple[Runtime, Any]:
    """Return a list of (H, W, C) arrays or one (N, H, W, C) array, and the runtime that owns its memory."""
    is_list = isinstance(images, (list, tuple))
    listed, runtimes = on_devices(images if is_list else [images])
    images = listed if is_list else listed[0]
    if hasattr(images, "shape") and hasattr(images, "dtype"):
        if len(images.shape) != 4:
            hint = _GRAY if len(images.shape) == 2 else ""
            if len(images.shape) == 3:
                hint = _transposed(images, "image") if _is_channels_first(images) else ""
                hint = hint or "; wrap a single image in a list: [image]"
            raise ValueError(f"images must have shape (N, H, W, C), not {tuple(images.shape)}{hint}")
        check_image(images, "images")
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
            is_array = hasattr(image, "shape") and hasattr(image, "dtype")
            what = f"shape {tuple(image.shape)}" if is_array else type(image).__name__
            hint = _GRAY if is_array and len(image.shape) == 2 else _unopened(image)
            raise TypeError(f"images[{i}] must be an (H, W, C) array, not {what}{hint}")
        check_image(image, f"images[{i}]")
        if image.shape[2] != first.shape[2] or image.dtype != first.dtype:
            raise ValueError(
                f"images must agree in channels and dtype: images[0] is {first.dtype} with {first.shape[2]} channels, "
                f"images[{i}] is {image.dtype} with {image.shape[2]}; pass them as two batches, or convert some: "
                "np.repeat(gray, 3, 2), gpuimg.rgb_to_grayscale"
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


def check_image(image: Any, name: str) -> None:
    """Refuse an (H, W, C) or (N, H, W, C) array that cannot be an image, or images."""
    *_, height, width, channels = image.shape
    if str(image.dtype) not in UNITS:
        raise TypeError(
            f"{name} must be uint8, uint16 or float32, not {image.dtype}; pass {name}.astype('float32') for values "
            f"from 0 to 1, {name}.astype('uint8') for 0 to 255"
        )
    if not 1 <= channels <= MOST_CHANNELS:
        raise ValueError(
            f"{name} must have 1 to {MOST_CHANNELS} channels in the last axis, not shape {tuple(image.shape)}"
            f"{_transposed(image, name)}"
        )
    if (height < 1 or width < 1) and (len(image.shape) == 3 or image.shape[0] > 0):
        raise ValueError(f"{name} must be at least 1 x 1 pixel, not shape {tuple(image.shape)}")
    # Small square images of an array, and all of a list.
    if _is_channels_first(image) and (len(image.shape) == 3 or (image.shape[0] > 0 and width == channels)):
        raise ValueError(
            f"{name} of shape {tuple(image.shape)} looks like {width} x {channels} pixels with the channels first"
            f"{_transposed(image, name)}"
        )


def _is_channels_first(image: Any) -> bool:
    """Return True for 1, 3 or 4 rows of more channels than that: such images are rare, planes of channels usual."""
    return image.shape[-3] in _USUAL and image.shape[-1] > max(_USUAL)


def _transposed(image: Any, name: str) -> str:
    """Return a hint to transpose, for an array that seems to have its channels first; otherwise an empty string."""
    if not 1 <= image.shape[-3] <= MOST_CHANNELS:
        return ""
    # ``permute`` is torch's; its ``transpose`` swaps two axes.
    order = "(0, 2, 3, 1)" if len(image.shape) == 4 else "(1, 2, 0)"
    first, last = ("[", "]") if name == "image" else ("", "")
    calls = [f"{first}{name}.{call}{order}{last}" for call in ("transpose", "permute")]
    return f"; if the channels come first, pass {calls[0]}, or for a torch tensor {calls[1]}"
