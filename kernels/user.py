"""Users' own functions, joined to one that picks by index: what both runtimes compile into the program."""

from functools import cache
from typing import Any

from .lang import njit
from .native import with_numba
from .scalar import f32, i32, scalar

_PIXEL = 5  # parameters before the values: r, g, b, y, x


def count(function: Any) -> int:
    """Number of values that a function takes after ``(r, g, b, y, x)``."""
    return int(function.py_func.__code__.co_argcount) - _PIXEL


def _without_checks(function: Any) -> Any:
    """The same function, in which a division by zero is an infinity or a NaN as in NumPy and on a GPU, not an error."""
    options = {name: value for name, value in function.targetoptions.items() if name != "nopython"}
    return njit(**options | {"error_model": "numpy"})(function.py_func)


def chain(functions: tuple[Any, ...]) -> Any:
    """A scalar function ``(r, g, b, y, x, values) -> (r, g, b)`` of these functions; ``values`` begin with an index."""
    # Generated as source, as a function may take any number of values.
    namespace: dict[str, Any] = {"f32": f32, "i32": i32}
    lines = ["def joined(r, g, b, y, x, values):", "    index = i32(values[0])"]
    for k, function in enumerate(functions):
        namespace[f"f{k}"] = _without_checks(function)
        values = "".join(f", values[{1 + n}]" for n in range(count(function)))
        lines += [f"    if index == {k}:", f"        red, green, blue = f{k}(r, g, b, y, x{values})"]
        lines += ["        return f32(red), f32(green), f32(blue)"]
    exec("\n".join([*lines, "    return r, g, b"]), namespace)
    return scalar(namespace["joined"])


def gray_formula(function: Any) -> Any:
    """A function for one-channel images: its first value three times, as everything after it expects."""
    return with_numba("user").compile_gray_formula(function)


@cache
def compile_gray_formula(function: Any) -> Any:
    """As :func:`gray_formula`, in this instance of the package."""
    code = function.py_func.__code__
    names = ", ".join(code.co_varnames[: code.co_argcount])
    namespace = {"function_": _without_checks(function)}
    exec(f"def {code.co_name}({names}):\n    red_, _, _ = function_({names})\n    return red_, red_, red_", namespace)
    return scalar(namespace[code.co_name])
