"""Numba and llvmlite, as the modules of this package import them.

Where a compiled library is in use neither is imported: stand-ins accept what modules do with them when they are
imported, and the bodies of loops never run.
"""

import gc
from contextlib import suppress
from typing import Any, Self

from .native import LIBRARY, missing

__all__ = [
    "CFunc", "cgutils", "compiler", "cpu_target", "from_dtype", "global_compiler_lock", "intrinsic", "ir", "llvmlite",
    "njit", "numba", "populate_array", "set_compiler_process", "sigutils", "types",
]  # fmt: skip


def set_compiler_process() -> None:
    """Save time in a process that does nothing but compile.

    Numba makes millions of objects, and most of them stay, so that collections find little. Without analyzing the
    code again after each of its passes, the machine code is the same.
    """
    gc.set_threshold(200_000, 20, 50)
    with suppress(ImportError):  # it is private to Numba
        from numba.core.compiler_machinery import PassManager

        PassManager._ENFORCING = False


if LIBRARY is None:
    try:
        import llvmlite
        import numba
    except ImportError as error:
        raise ImportError(missing() or f"Numba cannot be imported: {error}") from error
    from llvmlite import ir
    from numba import from_dtype, njit, types
    from numba.core import cgutils, compiler, sigutils
    from numba.core.ccallback import CFunc
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.registry import cpu_target
    from numba.extending import intrinsic
    from numba.np.arrayobj import populate_array
else:

    class _StandIn:
        """Any attribute, item or result of a call is a stand-in again."""

        def __getattr__(self, name: str) -> Self:
            if name.startswith("__"):
                raise AttributeError(name)
            return self

        def __call__(self, *args: Any, **kwargs: Any) -> Self:
            return self

        def __getitem__(self, key: Any) -> Self:
            return self

    globals().update(dict.fromkeys(__all__, _StandIn()))

    def intrinsic(*args: Any, **options: Any) -> Any:
        """Return the function as it is."""
        return args[0] if args else lambda function: function

    njit = intrinsic
