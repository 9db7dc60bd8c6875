"""Results as pictures for people: small uint8 images with three channels, and PNG files of them, made with Pillow."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._runtimes.devices import to_host
from ..kernels import ops
from .recording import recorded

Picture = NDArray[np.uint8]

_OVERSHOOT = 0.5  # a bicubic filter leaves [0, 1] by less; an image beyond this must have been normalized


def displayed(batch: Any, side: int) -> list[Picture]:
    """Return results as pictures whose longer side is ``side`` pixels, with ``normalize`` undone."""
    return [_fitted(_levels(batch, i, to_host(image)), side) for i, image in enumerate(batch)]


def png(picture: Picture, *, small: bool = True) -> bytes:
    """Encode an (H, W, 3) picture as a PNG file, for the smallest size or for speed."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(picture).save(file, "PNG", optimize=small)
    return file.getvalue()


def _levels(batch: Any, i: int, pixels: NDArray[Any]) -> Picture:
    """Return one image as levels 0 to 255 in three channels."""
    if recorded(batch).source.layout == "NCHW":
        pixels = np.moveaxis(pixels, 0, 2)
    if pixels.dtype != np.uint8:
        pixels = pixels.astype(np.float32)
        pixels = np.rint(np.clip(_denormalized(batch, i, pixels), 0.0, 1.0) * 255.0).astype(np.uint8)
    return np.broadcast_to(pixels, (*pixels.shape[:2], 3))


def _denormalized(batch: Any, i: int, pixels: NDArray[Any]) -> NDArray[Any]:
    """Return one image with its normalization undone; if that is unknown, stretched from black to white."""
    for plan in reversed(recorded(batch).segments):
        for entry in reversed(plan.entries):
            if entry.codes[i] == ops.NORMALIZE.code:
                scale, shift = entry.params[i, :3], entry.params[i, 3:6]
                pixels = (pixels - shift[: pixels.shape[2]]) / scale[: pixels.shape[2]]
    if pixels.min() < -_OVERSHOOT or pixels.max() > 1.0 + _OVERSHOOT:
        pixels = (pixels - pixels.min()) / np.ptp(pixels)
    return pixels


def _fitted(picture: Picture, side: int) -> Picture:
    """Scale a picture to ``side`` pixels; small pictures are enlarged with their pixels kept visible."""
    from PIL import Image

    longer = max(picture.shape[:2])
    height, width = (max(round(length * side / longer), 1) for length in picture.shape[:2])
    chosen = Image.Resampling.NEAREST if longer < side // 2 else Image.Resampling.BILINEAR
    return np.asarray(Image.fromarray(np.ascontiguousarray(picture)).resize((width, height), chosen))
