"""What of a batch on the CPU goes into a pickle, and how it comes out again."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from .._checks.types import Ints
from .._decoding import nvimgcodec
from .._decoding.decoder import EncodedImage
from .._decoding.stderr import silence_stderr
from .._plan.plan import Plan
from .._runtimes.images import EncodedImages, Pixels
from .._runtimes.protocol import Runtime
from ..errors import Failure


class PackedImages(NamedTuple):
    """Encoded images without the decoding library's objects for them."""

    data: list[bytes | None]  # None where the header could not be read
    names: list[str]
    sizes: Ints
    channels: int
    on_error: str
    failures: dict[int, Failure]


def packed(source: EncodedImages | Pixels) -> PackedImages | Pixels:
    """A batch's source as what can be pickled."""
    if isinstance(source, Pixels):
        return source
    data = [None if image is None else bytes(image.data) for image in source.images]
    return PackedImages(data, list(source.names), source.sizes, source.channels, source.on_error, dict(source.failures))


def unpacked(source: PackedImages | Pixels, runtime: Runtime) -> EncodedImages | Pixels:
    """The source again; pixels in memory of their own."""
    if isinstance(source, Pixels):
        flat = runtime.empty(len(source.flat), source.dtype)  # aligned, as a pickle's is not
        flat[:] = source.flat
        return replace(source, flat=flat, failures=dict(source.failures))
    with silence_stderr():
        images = [_opened(data, size) for data, size in zip(source.data, source.sizes, strict=True)]
    return EncodedImages(images, source.names, source.sizes, source.channels, source.on_error, source.failures)


def _opened(data: bytes | None, size: Any) -> EncodedImage | None:
    if data is None:
        return None
    height, width = (int(side) for side in size)
    image = nvimgcodec.open_image(data, height * width)
    if (image.height, image.width) != (height, width):
        raise ValueError(f"pickled as {height} x {width}, but its header says {image.height} x {image.width} here")
    return image


def check_functions(segments: Sequence[Plan]) -> None:
    """Refuse users' functions that cannot be pickled, with their names.

    Raises
    ------
    TypeError
        For the first such function.
    """
    for function in (function for plan in segments for function in plan.functions):
        try:
            pickle.dumps(function)
        except Exception as error:  # whatever the function refers to raises
            name = getattr(function, "__name__", type(function).__name__)
            raise TypeError(
                f"the batch cannot be pickled: {name}, given to pointwise, refers to what cannot be: {error}"
            ) from error
