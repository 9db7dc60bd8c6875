"""Types of annotations: arrays, values given per image, and string options.

The public ones are documented in :mod:`gpuimg.typing`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Alpha", "Array", "BoxFormat", "ClipLayout", "Color", "ColorMode", "DType", "Decoder", "Depth", "Exact", "Icc",
    "Interpolation", "Layout", "OnError", "OnSampleError", "PaddingMode", "PerImage", "Samples", "Size", "Where",
]  # fmt: skip

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
Records: TypeAlias = NDArray[np.void]
#: A NumPy array on the CPU. On a GPU it is a CuPy array, whose type is not imported here: without CuPy installed,
#: type checkers would not know the types of results.
Array: TypeAlias = NDArray[Any] | Any


#: Returned in the same form as passed: an array for an array, a list for a list. Type checkers see an array, and
#: also accept uses that only lists allow.
AsPassed: TypeAlias = NDArray[Any] | Any


class SupportsArray(Protocol):
    """An array or scalar of NumPy, PyTorch or pandas: any object with ``__array__``."""

    def __array__(self) -> NDArray[Any]:
        """Return an array."""


class SizedArray(SupportsArray, Protocol):
    """An array with a length that is known before conversion."""

    def __len__(self) -> int:
        """Return the length of the first axis."""


class ImageArray(Protocol):
    """An array of NumPy, CuPy, PyTorch or JAX."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""

    @property
    def dtype(self) -> Any:
        """Type of the elements."""


class HasItemSize(Protocol):
    """A dtype of NumPy or PyTorch."""

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""


class EnumMember(Protocol):
    """A member of an enum with string values, such as torchvision's ``InterpolationMode``."""

    @property
    def value(self) -> str:
        """The string."""


class Samples(Protocol):
    """A source of samples: an object with a length that returns samples by index."""

    def __len__(self) -> int:
        """Return the number of samples."""

    def __getitem__(self, index: int, /) -> Any:
        """Return one sample: a pair (file bytes, path or array, label), or a mapping."""


# -- numbers -----------------------------------------------------------------------------------------------------------

PerImage: TypeAlias = float | SupportsArray | Sequence[float | SupportsArray]
Pair: TypeAlias = tuple[PerImage, PerImage] | Sequence[float] | SupportsArray
Size: TypeAlias = PerImage | tuple[PerImage, PerImage]
Padding: TypeAlias = Size | tuple[PerImage, PerImage, PerImage, PerImage]
Range: TypeAlias = Sequence[float] | SupportsArray
Color: TypeAlias = PerImage | Sequence[Sequence[float]]
Where: TypeAlias = bool | Sequence[bool] | SupportsArray
Indices: TypeAlias = Sequence[SupportsIndex] | SupportsArray

#: One table of numbers: points (K, 2), boxes (K, 4) and so on.
Table: TypeAlias = SupportsArray | Sequence[Sequence[float] | SupportsArray]
TablePerImage: TypeAlias = SizedArray | Sequence[Table]
KeypointsPerImage: TypeAlias = SizedArray | Sequence[Sequence[Table] | SupportsArray]
MaskPerImage: TypeAlias = SizedArray | Sequence[SupportsArray | str | bytes | os.PathLike[str]]

# -- string options ----------------------------------------------------------------------------------------------------

#: One for all images, or an array (N,) with one for each.
Interpolation: TypeAlias = (
    Literal["nearest", "nearest-exact", "bilinear", "bicubic", "lanczos", "box", "hamming"]
    | EnumMember
    | NDArray[np.str_]
)
#: Whose bytes a resize returns.
Exact: TypeAlias = Literal["pillow", "pillow12", "torch"]
Layout: TypeAlias = Literal["NHWC", "NCHW"]
ClipLayout: TypeAlias = Literal["NHWC", "NCHW", "NTHWC", "NTCHW", "NCTHW"]
DType: TypeAlias = (
    Literal["uint8", "uint16", "float16", "bfloat16", "float32"] | type[np.generic] | np.dtype[Any] | HasItemSize
)
ColorMode: TypeAlias = Literal["rgb", "gray", "rgba", "graya"]
Alpha: TypeAlias = Literal["drop", "black", "white"]
Depth: TypeAlias = Literal["uint8", "native"]
Icc: TypeAlias = Literal["ignore", "srgb"]
Decoder: TypeAlias = Literal["auto", "nvimagecodec", "gpuimg"]
OnError: TypeAlias = Literal["raise", "fill"]
OnSampleError: TypeAlias = Literal["raise", "skip", "fill"]
PaddingMode: TypeAlias = Literal["constant", "edge", "reflect", "symmetric"]
UprightBoxFormat: TypeAlias = Literal["xyxy", "xywh", "cxcywh"]
BoxFormat: TypeAlias = Literal["xyxy", "xywh", "cxcywh", "xyxyxyxy", "xywhr", "cxcywhr"]
ShortClips: TypeAlias = Literal["repeat", "wrap", "error"]
Policy: TypeAlias = Literal["imagenet", "cifar10", "svhn"] | EnumMember
#: ``"cpu"``, ``"cuda"`` or ``f"cuda:{number}"``: any string, because programs format the number into it.
Device: TypeAlias = str

Progress: TypeAlias = Callable[[int, int], None]
