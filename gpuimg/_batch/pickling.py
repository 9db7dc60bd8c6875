"""What of a batch on the CPU goes into a pickle, and how it comes out again."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np

from .._checks.types import Ints
from .._data.clips import EncodedClips
from .._data.images import Encoded, Pixels
from .._decoding.options import DecodeOptions
from .._plan.plan import Plan
from .._runtimes.protocol import Runtime
from ..errors import Failure
from .encoded import open_images


class PackedImages(NamedTuple):
    """Encoded images by their files."""

    data: list[bytes]  # empty where the header could not be read
    names: list[str]
    sizes: Ints
    options: DecodeOptions
    on_error: str
    failures: dict[int, Failure]


class PackedViews(NamedTuple):
    """Images or clips, and which of them stand in the batch, see :meth:`gpuimg.Batch.take`."""

    of: Packed
    rows: Ints


Packed: TypeAlias = PackedImages | EncodedClips | PackedViews | Pixels


def packed(source: Encoded | Pixels) -> Packed:
    """A batch's source as what can be pickled."""
    if isinstance(source, Pixels):
        return source
    if source.views_of is not None:
        return PackedViews(packed(source.views_of.of), source.views_of.rows)
    if isinstance(source, EncodedClips):
        files = [one if isinstance(one, str) else bytes(one) for one in source.data]
        return replace(source, data=files, names=list(source.names), failures=dict(source.failures))
    data = [bytes(one) for one in source.data]
    return PackedImages(data, list(source.names), source.sizes, source.options, source.on_error, dict(source.failures))


def unpacked(source: Packed, runtime: Runtime) -> Encoded | Pixels:
    """The source again; pixels in memory of their own."""
    if isinstance(source, Pixels):
        flat = runtime.empty(len(source.flat), source.dtype)  # aligned, as a pickle's is not
        flat[:] = source.flat
        return replace(source, flat=flat, failures=dict(source.failures))
    if isinstance(source, PackedViews):
        return unpacked(source.of, runtime).views(source.rows)
    if isinstance(source, EncodedClips):
        return replace(source, failures=dict(source.failures))
    opened = open_images(source.data, source.options, "fill", source.names)
    for i in np.flatnonzero(np.any(opened.sizes != source.sizes, 1)).tolist():
        if i not in source.failures:
            raise ValueError(
                f"{source.names[i]} was pickled as {tuple(source.sizes[i].tolist())} pixels, but its header says "
                f"{tuple(opened.sizes[i].tolist())} here"
            )
    return replace(opened, on_error=source.on_error, sizes=source.sizes, failures=source.failures)


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
