"""What of a batch on the CPU goes into a pickle, and how it comes out again."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .._checks.types import Ints
from .._plan.plan import Plan
from .._runtimes.images import EncodedImages, Pixels
from .._runtimes.protocol import Runtime
from ..errors import Failure
from .encoded import open_images


class PackedImages(NamedTuple):
    """Encoded images by their files."""

    data: list[bytes]  # empty where the header could not be read
    names: list[str]
    sizes: Ints
    color: str
    alpha: str
    on_error: str
    failures: dict[int, Failure]
    draft: float | None = None
    rows: Ints | None = None  # which of them stand in the batch, see Batch.take


def packed(source: EncodedImages | Pixels) -> PackedImages | Pixels:
    """A batch's source as what can be pickled."""
    if isinstance(source, Pixels):
        return source
    images, rows = source.views_of or (source, None)
    data = [bytes(one) for one in images.data]
    return PackedImages(
        data, list(images.names), images.sizes, images.color, images.alpha, images.on_error, dict(images.failures),
        images.draft, rows,
    )  # fmt: skip


def unpacked(source: PackedImages | Pixels, runtime: Runtime) -> EncodedImages | Pixels:
    """The source again; pixels in memory of their own."""
    if isinstance(source, Pixels):
        flat = runtime.empty(len(source.flat), source.dtype)  # aligned, as a pickle's is not
        flat[:] = source.flat
        return replace(source, flat=flat, failures=dict(source.failures))
    most = int(np.max(source.sizes[:, 0] * source.sizes[:, 1], initial=1))
    opened = open_images(source.data, source.color, source.alpha, "fill", most, source.names, source.draft)
    for i in np.flatnonzero(np.any(opened.sizes != source.sizes, 1)).tolist():
        if i not in source.failures:
            raise ValueError(
                f"{source.names[i]} was pickled as {tuple(source.sizes[i].tolist())} pixels, but its header says "
                f"{tuple(opened.sizes[i].tolist())} here"
            )
    images = replace(opened, on_error=source.on_error, sizes=source.sizes, failures=source.failures)
    return images if source.rows is None else images.views(source.rows)


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
