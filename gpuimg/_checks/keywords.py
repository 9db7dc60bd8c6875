"""Hints for unknown keyword arguments: names used by other libraries."""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import ParamSpec, TypeVar

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def explained(hints: Mapping[str, str]) -> Callable[[Callable[_Parameters, _Result]], Callable[_Parameters, _Result]]:
    """Add a hint to the TypeError for an unknown keyword: ``hints`` maps names to explanations."""

    def decorated(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
        known = inspect.signature(function).parameters

        @wraps(function)
        def called(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
            for name in kwargs:
                if name not in known and name in hints:
                    raise TypeError(f"{function.__name__}() has no parameter {name!r}: {hints[name]}")
            return function(*args, **kwargs)

        return called

    return decorated
