"""Functions that presets and models return, which are shown as the call that returned them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar

from .docstrings import documented

_Maker = TypeVar("_Maker", bound=Callable[..., Callable[..., Any]])


class Recipe(partial[Any]):
    """A function of images with the options of its maker; ``repr`` is the maker's call."""

    call: str

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except TypeError:
            try:
                inspect.signature(self).bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{self.call} is a function of images and rng: {error}") from None
            raise

    def __repr__(self) -> str:
        return self.call


def of_recipes(*shared: str, returns: str, example: str) -> Callable[[_Maker], _Maker]:
    """Return a decorator of functions that return a :class:`Recipe`; see :func:`documented`."""
    described = documented(*shared, returns=returns, example=example)
    return lambda make: _returning_recipe(described(make))


def _returning_recipe(make: _Maker) -> _Maker:
    @wraps(make)
    def made(*args: Any, **kwargs: Any) -> Recipe:
        recipe = Recipe(make(*args, **kwargs))
        given = [*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
        recipe.call = f"{make.__module__}.{make.__name__}({', '.join(given)})"
        return recipe

    return made  # type: ignore[return-value]
