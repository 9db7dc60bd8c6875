"""Rates without each operation of a function in turn: what each costs, for ``gpuimg bench --operations``."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import gpuimg

from .._batch.batch import Batch
from .._random.rng import Rng

#: A function of a recording, which public functions of images have as ``record``.
_Record = Callable[..., Any]


@contextmanager
def _changed(changed: Callable[[str, _Record], _Record]) -> Iterator[None]:
    """Have public functions record something else, also where presets and other functions call them."""
    functions = {name: function for name, function in vars(gpuimg).items() if hasattr(function, "record")}
    kept = {name: function.record for name, function in functions.items()}
    try:
        for name, function in functions.items():
            function.record = changed(name, kept[name])
        yield
    finally:
        for name, function in functions.items():
            function.record = kept[name]


@contextmanager
def left_out(name: str) -> Iterator[None]:
    """Have a public function return images as they are."""
    with _changed(lambda other, record: (lambda recording, *_, **__: recording) if other == name else record):
        yield


def called(preprocess: Callable[..., Any], images: Batch) -> list[str]:
    """Return the public functions that a function calls, but not those that these call; in the order of the calls."""
    found: dict[str, None] = {}
    inside = False

    def noted(name: str, record: _Record) -> _Record:
        def noting(*args: Any, **kwargs: Any) -> Any:
            nonlocal inside
            if inside:
                return record(*args, **kwargs)
            found[name], inside = None, True
            try:
                return record(*args, **kwargs)
            finally:
                inside = False

        return noting

    with _changed(noted):
        preprocess(images, Rng(0, indices=range(len(images))))
    return list(found)


def can_be_left_out(preprocess: Callable[..., Any], images: Batch) -> dict[str, bool]:
    """Return the functions of :func:`called`, and True for those without which the results have the same sizes."""

    def sizes() -> Any:
        result = preprocess(images, Rng(0, indices=range(len(images))))
        return result.sizes if isinstance(result, Batch) else np.shape(result)

    whole, found = sizes(), dict[str, bool]()
    for name in called(preprocess, images):
        with left_out(name):
            try:
                found[name] = np.array_equal(sizes(), whole)
            except (ValueError, TypeError):  # what follows needs it
                found[name] = False
    return found
