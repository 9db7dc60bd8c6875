"""Pixels in the form that a call asks for: channels, alpha or a background; and those of Pillow's images.

``numpy.asarray`` has Pillow encode an image in pieces, which are then joined. Pillow exports its own memory to Arrow
instead, where a color takes four bytes. Structures: https://arrow.apache.org/docs/format/CDataInterface.html
"""

import ctypes
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .decoder import RefusedError
from .options import WITH_ALPHA

Pixels: TypeAlias = NDArray[np.uint8]

WHITE = 255
_BYTE = 8  # bits
BACKGROUNDS = {"black": 0, "white": WHITE}
GRAY_MODES = {"1", "L", "LA", "La"}
_BAND = 1 << 18  # pixels converted at a time: their memory stays in the cache


def laid_out(image: Any, size: tuple[int, int], channels: int, bits: int, background: int | None) -> NDArray[Any]:
    """Return the pixels of an image, or of pixels of any dtype, converted in bands of rows to keep few copies."""
    height, width = size
    rows = max(_BAND // width, 1)
    if rows >= height:
        return np.ascontiguousarray(_rows_of(image, 0, height, channels, bits, background))
    out = np.empty((height, width, channels), image.dtype if isinstance(image, np.ndarray) else np.uint8)
    for y in range(0, height, rows):
        stop = min(y + rows, height)
        out[y:stop] = _rows_of(image, y, stop, channels, bits, background)
    return out


def _rows_of(image: Any, start: int, stop: int, channels: int, bits: int, background: int | None) -> Pixels:
    """Return some rows of a Pillow image, or of pixels."""
    if isinstance(image, np.ndarray):
        part = image[start:stop]
        pixels = _with_alpha(part, channels) if channels in WITH_ALPHA else to_colors(_over(part, background), channels)
    else:
        whole = (start, stop) == (0, image.height)
        pixels = _values(image if whole else image.crop((0, start, image.width, stop)), channels, bits, background)
    return pixels if pixels.shape[2] == channels else np.repeat(pixels, channels, 2)


def _values(band: Any, channels: int, bits: int, background: int | None) -> Pixels:
    """Return the pixels of a band of a Pillow image."""
    if band.mode == "I" or band.mode.startswith("I;16"):
        gray = (np.asarray(band) >> (bits - 8)).astype(np.uint8)[..., None]
        return _with_alpha(gray, channels) if channels in WITH_ALPHA else gray
    if band.mode == "F":
        raise RefusedError("floating-point pixels are not supported")
    if channels in WITH_ALPHA:
        return _with_alpha(pixels_of(in_mode("RGBA", band)), channels)
    if background is not None and band.has_transparency_data:
        return to_colors(_over(pixels_of(in_mode("RGBA", band)), background), channels)
    return to_colors(pixels_of(in_mode("L" if channels == 1 and band.mode in GRAY_MODES else "RGB", band)), channels)


def in_mode(mode: str, band: Any) -> Any:
    return band if band.mode == mode else band.convert(mode)


def _with_alpha(pixels: Pixels, channels: int) -> Pixels:
    """Return gray or color with the file's alpha channel, or an opaque one."""
    has_alpha = pixels.shape[2] in WITH_ALPHA
    colors = to_colors(pixels[..., :-1] if has_alpha else pixels, channels - 1)
    opaque = np.iinfo(pixels.dtype).max
    alpha = pixels[..., -1:] if has_alpha else np.full((*pixels.shape[:2], 1), opaque, pixels.dtype)
    return np.concatenate([np.broadcast_to(colors, (*pixels.shape[:2], channels - 1)), alpha], 2)


def _over(pixels: Pixels, background: int | None) -> Pixels:
    """Return pixels without alpha: composited on a gray background, or with alpha dropped if that is None."""
    count = pixels.shape[2]
    if count in (1, 3):
        return pixels
    colors, alpha = pixels[..., :-1], pixels[..., -1:]
    if background is None:
        return colors
    mixed: Pixels = np.rint((colors * np.float64(1) - background) * (alpha / WHITE) + background).astype(np.uint8)
    return mixed


def to_colors(pixels: Pixels, channels: int) -> Pixels:
    """Return pixels with ``channels`` channels; gray is left with one channel, to be broadcast."""
    if channels != 1 or pixels.shape[2] == 1:
        return pixels
    from ..kernels.gray import gray_bytes, gray_words  # imports Numba: only when it is used

    gray = np.empty(pixels.shape[:2], pixels.dtype)
    convert = gray_bytes if pixels.dtype == np.uint8 else gray_words
    convert(np.ascontiguousarray(pixels).reshape(-1), gray.reshape(-1))
    return gray[..., None]


def with_key(values: NDArray[Any], key: Sequence[int], depth: int) -> NDArray[Any]:
    """Return values (H, W, S) with an alpha channel, transparent for one color of ``depth`` bits per value."""
    scale = WHITE // ((1 << depth) - 1) if depth < _BYTE else 1  # values are scaled to bytes
    found = np.empty((*values.shape[:2], len(key) + 1), values.dtype)
    other = np.zeros(values.shape[:2], np.bool_)
    for k, one in enumerate(key):
        found[..., k] = values[..., k]
        other |= values[..., k] != (one & (1 << depth) - 1) * scale
    np.multiply(other, np.iinfo(values.dtype).max, out=found[..., -1], casting="unsafe")
    return found


# -- memory of Pillow --------------------------------------------------------------------------------------------------

_PIXEL_BYTES = {"L": 1, "RGB": 4, "RGBA": 4}


class _ArrowArray(ctypes.Structure):
    pass


_ArrowArray._fields_ = [
    *((name, ctypes.c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_ArrowArray))),
]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


class _Exported:
    """Memory of a Pillow image; the capsule releases it."""

    def __init__(self, image: Any) -> None:
        _, self._capsule = image.__arrow_c_array__()
        found = _ArrowArray.from_address(_pointer(self._capsule, b"arrow_array"))
        values = found.children[0].contents if found.n_children else found  # colors are lists of four bytes
        shape = (image.height, image.width, _PIXEL_BYTES[image.mode])
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": shape, "data": (values.buffers[1], True)}


def pixels_of(image: Any) -> NDArray[np.uint8]:
    """Return the pixels of a Pillow image of mode L, RGB or RGBA, loaded if it was not, as (H, W, C).

    They are C-contiguous, and read-only for L and RGBA, which share the image's memory. One that is larger than a block
    of Pillow's memory, 16 MB, is copied by ``numpy.asarray``.
    """
    image.load()
    try:
        shared: NDArray[np.uint8] = np.asarray(_Exported(image))
    except ValueError:  # memory of several blocks
        pixels = np.asarray(image)
        return pixels.reshape(*pixels.shape[:2], -1)
    if image.mode != "RGB":
        return shared
    from ..kernels.gray import colors_of_words  # imports Numba: only when it is used

    colors = np.empty((*shared.shape[:2], 3), np.uint8)
    colors_of_words(shared.reshape(-1), colors.reshape(-1))
    return colors
