"""Sizes of batches that have no images: those that one image would have had."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import numpy as np

from .._checks import docstrings
from .._data.images import Pixels, numpy_dtype
from .._plan.plan import evolve
from .batch import Batch, Images, recording_of
from .recording import Recording

_Function = TypeVar("_Function", bound=Callable[..., Batch])
_TRIALS = (1, (512, 768)), (30, (1024, 640))  # values for each image, and sizes where none is known


def of_resized(function: _Function) -> _Function:
    """Decorate a function that changes sizes: its docstring, and the size of its results if there are none."""

    @wraps(function)
    def called(images: Images, *args: Any, **kwargs: Any) -> Batch:
        result = function(images, *args, **kwargs)
        if len(result):
            return result
        sizes = set()
        for value, unknown in _TRIALS:
            named = {name: _for_one(given, value) for name, given in kwargs.items()}
            try:
                one = function(_one_image(images, unknown), *(_for_one(given, value) for given in args), **named)
                sizes.add(recording_of(one).plan.first_size)
            except ValueError:  # such as an image that is smaller than a crop
                sizes.add((0, 0))
        batch = recording_of(result)
        return Batch(batch.with_plan(evolve(batch.plan, empty_size=sizes.pop() if len(sizes) == 1 else (0, 0))))

    return cast(_Function, docstrings.of_resized(called))


def _one_image(images: Images, unknown: tuple[int, int]) -> Batch:
    """Return an image, or a clip, of the size that a batch without images has: without pixels, to be recorded on."""
    like = recording_of(images)
    size = like.plan.empty_size if any(like.plan.empty_size) else unknown
    frames, flat = like.frames or 1, SimpleNamespace(dtype=numpy_dtype(like.dtype))
    sizes = np.array([size] * frames, np.int64)
    return Batch(
        Recording.start(like.runtime, Pixels(flat, np.arange(frames), sizes, like.channels, frames=like.frames))
    )


def _for_one(given: Any, value: int) -> Any:
    """Return an argument for one image: a seed for a generator, and a row of a value for an array of no rows."""
    if type(given) is tuple:
        return tuple(_for_one(one, value) for one in given)
    array = np.array(given) if isinstance(given, list) and not given else given
    if isinstance(array, np.ndarray) and array.shape[:1] == (0,):
        return "bilinear" if array.dtype.kind == "U" else np.full((1, *array.shape[1:]), value, array.dtype)
    return getattr(given, "seed", given)
