"""Small libraries for tests, each built in a separate process, in which Numba compiles for nothing else."""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from buildtools.levels import LEVELS
from buildtools.library import Source, compile_part
from buildtools.link import link

PAIR = np.dtype([("first", "<i8"), ("second", "<f4")], align=True)


def _define() -> None:
    from gpuimg.kernels.compiled import cached_jit

    @cached_jit("int64(uint8[::1])", "int64(uint16[::1])")
    def total(values: Any) -> Any:
        found = 0
        for k in range(values.size):
            found += values[k]
        return found

    @cached_jit("none(PAIR[::1], int64, float32)", PAIR=PAIR)
    def fill(pairs: Any, first: Any, second: Any) -> None:
        for k in range(pairs.size):
            pairs[k].first, pairs[k].second = first, second

    @cached_jit("boolean(uint64, uint64[::1])", nogil=False)
    def is_there(value: Any, values: Any) -> Any:
        found = False
        for k in range(values.size):
            found |= values[k] == value
        return found

    @cached_jit("int64(int64[::1], int64)")
    def every(values: Any, step: Any) -> Any:
        found = 0
        for k in range(0, values.size, step):
            found += values[k]
        return found


def _define_raising() -> None:
    from gpuimg.kernels.compiled import cached_jit

    @cached_jit("int64(int64)")
    def checked(value: Any) -> Any:
        if value < 0:
            raise ValueError("negative")
        return value


def _source(what: str) -> Source:
    import gpuimg.kernels.gray  # noqa: F401  # what a library is tried with
    from gpuimg.kernels.compiled import ENTRANCES
    from gpuimg.kernels.native import SELF_TEST
    from gpuimg.kernels.scalar import LOOP

    {"working": _define, "raising": _define_raising}[what]()
    return Source([], [one for one in ENTRANCES if one.name.startswith((SELF_TEST[0], "__main__"))], LOOP)


if __name__ == "__main__":
    what, name, out = sys.argv[1:]
    level, part = LEVELS[name], Path(f"{out}.o")
    compile_part(level, part, source=lambda: _source(what))
    link([part], Path(out), level.triple)
