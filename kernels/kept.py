"""A cache for results whose addresses native code keeps."""

from collections.abc import Callable, Hashable
from functools import wraps
from typing import ParamSpec, TypeVar

_Args = ParamSpec("_Args")
_Result = TypeVar("_Result")


def kept(function: Callable[_Args, _Result]) -> Callable[_Args, _Result]:
    """Keep the first result of a function for the same positional arguments as long as the process lives.

    ``functools.cache`` replaces, and so frees, a result that several threads compute at the same time.
    """
    results: dict[Hashable, _Result] = {}

    @wraps(function)
    def known(*args: _Args.args, **kwargs: _Args.kwargs) -> _Result:
        # Without a lock, which might stay locked in a forked child: setdefault is atomic.
        return results[args] if args in results else results.setdefault(args, function(*args, **kwargs))

    return known
