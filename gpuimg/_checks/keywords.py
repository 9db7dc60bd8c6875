"""Unknown keyword arguments: renamed parameters, and names used by other libraries."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from typing import ParamSpec, TypeVar

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def renamed(**new: str) -> Callable[[Callable[_Parameters, _Result]], Callable[_Parameters, _Result]]:
    """Accept the old name of a parameter, with a DeprecationWarning: ``@renamed(old="new")``."""

    def decorated(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
        @wraps(function)
        def called(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
            for old in new.keys() & kwargs.keys():
                name = function.__name__
                if new[old] in kwargs:
                    raise TypeError(f"{name}() got both {new[old]} and {old}, its old name")
                warnings.warn(
                    f"{name}({old}=...) is deprecated, and an error in the next version: use {new[old]}=",
                    DeprecationWarning,
                    stacklevel=2,
                )
                kwargs[new[old]] = kwargs.pop(old)
            return function(*args, **kwargs)

        return called

    return decorated


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
