"""Public functions of images: each is written as a function of a recording, and takes images and returns a batch."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from types import SimpleNamespace
from typing import Any, Concatenate, ParamSpec, Protocol

import numpy as np

from .._checks import docstrings
from .._data.images import Pixels, numpy_dtype
from .._plan.plan import evolve
from .batch import Batch, Images, recording_of
from .recording import Recording

_Options = ParamSpec("_Options")
_Record = Callable[Concatenate[Recording, _Options], Recording]
_TRIALS = (1, (512, 768)), (30, (1024, 640))  # values for each image, and sizes where none is known


class OfImages(Protocol[_Options]):
    """A function of images, and as ``record`` the same function of a recording."""

    record: _Record[_Options]

    def __call__(self, images: Images, *args: _Options.args, **kwargs: _Options.kwargs) -> Batch: ...


def of_images(record: _Record[_Options]) -> OfImages[_Options]:
    """Make a function of a recording one of images, and add the entries of docstrings that these share."""
    return docstrings.of_images(_public(record))


def of_resized(record: _Record[_Options]) -> OfImages[_Options]:
    """Do the same for a function that changes sizes, and find the size of its results where there are no images."""

    @wraps(record)
    def sized(recording: Recording, /, *args: _Options.args, **kwargs: _Options.kwargs) -> Recording:
        result = record(recording, *args, **kwargs)
        return result if len(result) else _of_no_images(record, recording, result, args, kwargs)

    return docstrings.of_resized(_public(sized))


def _public(record: _Record[_Options]) -> Any:
    @wraps(record)
    def called(images: Images, *args: _Options.args, **kwargs: _Options.kwargs) -> Batch:
        return Batch(public.record(recording_of(images), *args, **kwargs))

    public: Any = called
    signature = inspect.signature(record)
    first, *others = signature.parameters.values()
    first = first.replace(name="images", annotation="Images", kind=first.POSITIONAL_OR_KEYWORD)
    public.record = record
    public.__signature__ = signature.replace(parameters=[first, *others], return_annotation="Batch")
    public.__annotations__ = {one.name: one.annotation for one in (first, *others)} | {"return": "Batch"}
    inspect.unwrap(record).__globals__.update(Batch=Batch, Images=Images)  # for typing.get_type_hints
    return public


def _of_no_images(record: Any, recording: Recording, result: Recording, args: Any, kwargs: dict[str, Any]) -> Recording:
    """Return a result without images, of the size that one image would have had."""
    sizes = set()
    for value, unknown in _TRIALS:
        named = {name: _for_one(given, value) for name, given in kwargs.items()}
        try:
            one = record(_one_image(recording, unknown), *(_for_one(given, value) for given in args), **named)
            sizes.add(one.plan.first_size)
        except ValueError:  # such as an image that is smaller than a crop
            sizes.add((0, 0))
    return result.with_plan(evolve(result.plan, empty_size=sizes.pop() if len(sizes) == 1 else (0, 0)))


def _one_image(like: Recording, unknown: tuple[int, int]) -> Recording:
    """Return an image, or a clip, of the size that a batch without images has: without pixels, to be recorded on."""
    size = like.plan.empty_size if any(like.plan.empty_size) else unknown
    frames, flat = like.frames or 1, SimpleNamespace(dtype=numpy_dtype(like.dtype))
    sizes = np.array([size] * frames, np.int64)
    return Recording.start(like.runtime, Pixels(flat, np.arange(frames), sizes, like.channels, frames=like.frames))


def _for_one(given: Any, value: int) -> Any:
    """Return an argument for one image: a seed for a generator, and a row of a value for an array of no rows."""
    if type(given) is tuple:
        return tuple(_for_one(one, value) for one in given)
    array = np.array(given) if isinstance(given, list) and not given else given
    if isinstance(array, np.ndarray) and array.shape[:1] == (0,):
        return "bilinear" if array.dtype.kind == "U" else np.full((1, *array.shape[1:]), value, array.dtype)
    return getattr(given, "seed", given)
