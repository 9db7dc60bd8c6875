"""Pickling of batches on the CPU: their files or pixels, without results."""

import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .._data.clips import EncodedClips
from .._data.images import Encoded, Pixels
from .._data.selection import Selection
from .._plan.plan import Plan
from .._runtimes.protocol import Runtime
from .encoded import open_images


def packed(source: Encoded | Pixels) -> Any:
    """Return a batch's source in a form that can be pickled."""
    if isinstance(source, Pixels):
        return source
    if source.selection is not None:
        return source.selection._replace(of=packed(source.selection.of))
    data = [one if isinstance(one, str) else bytes(one) for one in source.data]
    alone = replace(source, data=data, names=list(source.names), failures=dict(source.failures))
    if isinstance(alone, EncodedClips):
        return alone
    pages = {i: one for i, one in alone.others.items() if one.page}  # the only headers that are not read again
    return replace(alone, headers=alone.headers.part(slice(0)), others=pages, given_up=set(), scales=None)


def unpacked(source: Any, runtime: Runtime) -> Any:
    """Rebuild the source; pixels are copied into new memory."""
    if isinstance(source, Pixels):
        flat = runtime.empty(len(source.flat), source.dtype)  # aligned, which a pickle's memory is not
        flat[:] = source.flat
        return replace(source, flat=flat, failures=dict(source.failures))
    if isinstance(source, Selection):
        return unpacked(source.of, runtime).take(source.rows)
    if isinstance(source, EncodedClips):
        return replace(source, failures=dict(source.failures))
    pages = np.array([source.others[i].page if i in source.others else 0 for i in range(len(source))], np.int64)
    opened = open_images(source.data, source.options, "fill", source.names, pages)
    for i in np.flatnonzero(np.any(opened.sizes != source.sizes, 1)).tolist():
        if i not in source.failures:
            raise ValueError(
                f"{source.names[i]} was pickled as {tuple(source.sizes[i].tolist())} pixels, but its header here "
                f"gives {tuple(opened.sizes[i].tolist())}"
            )
    return replace(
        source, data=opened.data, headers=opened.headers, others=opened.others, failures=dict(source.failures)
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
