"""Pickling of batches on the CPU: their files or pixels, without results."""

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
    """Encoded images, represented by their files."""

    data: list[bytes]  # empty if the header could not be read
    names: list[str]
    sizes: Ints
    options: DecodeOptions
    on_error: str
    failures: dict[int, Failure]
    targets: Ints | None


class PackedSelection(NamedTuple):
    """Images or clips, and the rows of them that a batch selects, see :meth:`gpuimg.Batch.take`."""

    of: Packed
    rows: Ints


Packed: TypeAlias = PackedImages | EncodedClips | PackedSelection | Pixels


def packed(source: Encoded | Pixels) -> Packed:
    """Return a batch's source in a form that can be pickled."""
    if isinstance(source, Pixels):
        return source
    if source.selection is not None:
        return PackedSelection(packed(source.selection.of), source.selection.rows)
    if isinstance(source, EncodedClips):
        files = [one if isinstance(one, str) else bytes(one) for one in source.data]
        return replace(source, data=files, names=list(source.names), failures=dict(source.failures))
    data = [bytes(one) for one in source.data]
    names, failures = list(source.names), dict(source.failures)
    return PackedImages(data, names, source.sizes, source.options, source.on_error, failures, source.targets)


def unpacked(source: Packed, runtime: Runtime) -> Encoded | Pixels:
    """Rebuild the source; pixels are copied into new memory."""
    if isinstance(source, Pixels):
        flat = runtime.empty(len(source.flat), source.dtype)  # aligned, which a pickle's memory is not
        flat[:] = source.flat
        return replace(source, flat=flat, failures=dict(source.failures))
    if isinstance(source, PackedSelection):
        return unpacked(source.of, runtime).take(source.rows)
    if isinstance(source, EncodedClips):
        return replace(source, failures=dict(source.failures))
    opened = open_images(source.data, source.options, "fill", source.names)
    for i in np.flatnonzero(np.any(opened.sizes != source.sizes, 1)).tolist():
        if i not in source.failures:
            raise ValueError(
                f"{source.names[i]} was pickled as {tuple(source.sizes[i].tolist())} pixels, but its header here "
                f"gives {tuple(opened.sizes[i].tolist())}"
            )
    return replace(
        opened, on_error=source.on_error, sizes=source.sizes, failures=source.failures, targets=source.targets
    )


def check_functions(segments: Sequence[Plan]) -> None:
    """Refuse user functions that cannot be pickled, and name the first."""
    for function in (function for plan in segments for function in plan.functions):
        try:
            pickle.dumps(function)
        except Exception as error:  # whatever the function refers to raises
            name = getattr(function, "__name__", type(function).__name__)
            raise TypeError(
                f"the batch cannot be pickled: {name}, passed to pointwise, refers to an object that cannot be: {error}"
            ) from error
