"""Types for the annotations of code that calls gpuimg.

>>> import gpuimg
>>> from gpuimg.typing import Images
>>> def flipped(images: Images) -> gpuimg.Batch:
...     return gpuimg.horizontal_flip(images)

``Images``
    What functions take: a :class:`gpuimg.Batch`, one (N, H, W, C) array, or a list of (H, W, C) arrays. An array with
    the channels first is refused where its shape shows it: more than 16 elements in the last axis, or (N, 1, S, S) and
    (N, 3, S, S) with S from 5 to 16. Images of 1 or 3 rows with as many channels as columns are passed as a list.
``Array``
    What they return: a NumPy array, on a GPU a CuPy array.
``PerImage``
    One number, or an array or sequence with one for each image.
``Size``
    A number, or a pair (height, width), each of which may be for each image.
``Color``
    A number, or one for each channel, each image, or both.
``Where``
    One bool, or one for each image.
``Samples``
    A source for :func:`gpuimg.load`: it has a length and gives samples by index.
``Interpolation``, ``Layout``, ``DType``, ``Alpha``, ``Depth``, ``Icc``, ``OnError``, ``PaddingMode``
    The words of the options of these names; ``ClipLayout`` and ``OnSampleError`` are those of :func:`gpuimg.load`,
    ``ColorMode`` is that of ``color``, and ``BoxFormat`` that of ``format`` where these are boxes.
``LoadOptions``
    The keyword arguments of :func:`gpuimg.load`, for functions that pass them on: ``**options: Unpack[LoadOptions]``.
"""

from ._batch.batch import Images
from ._checks.types import (
    Alpha,
    Array,
    BoxFormat,
    ClipLayout,
    Color,
    ColorMode,
    Depth,
    DType,
    Icc,
    Interpolation,
    Layout,
    OnError,
    OnSampleError,
    PaddingMode,
    PerImage,
    Samples,
    Size,
    Where,
)
from ._loading.options import LoadOptions

__all__ = [
    "Alpha",
    "Array",
    "BoxFormat",
    "ClipLayout",
    "Color",
    "ColorMode",
    "DType",
    "Depth",
    "Icc",
    "Images",
    "Interpolation",
    "Layout",
    "LoadOptions",
    "OnError",
    "OnSampleError",
    "PaddingMode",
    "PerImage",
    "Samples",
    "Size",
    "Where",
]
