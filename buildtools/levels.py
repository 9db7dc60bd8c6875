"""Processors and systems that loops are compiled for."""

from __future__ import annotations

import platform
from typing import Final, NamedTuple


class Level(NamedTuple):
    """One target of the compiler."""

    triple: str
    cpu: str
    features: str = ""


#: By the names that libraries have. LLVM's own model of v4 prefers vectors of 256 bits, which lose 10 to 20 % in color.
LEVELS: Final = {
    "x86-64-v2": Level("x86_64-unknown-linux-gnu", "x86-64-v2"),
    "x86-64-v3": Level("x86_64-unknown-linux-gnu", "x86-64-v3"),
    "x86-64-v4": Level("x86_64-unknown-linux-gnu", "x86-64-v4", "-prefer-256-bit"),
    "aarch64": Level("aarch64-unknown-linux-gnu", "generic", "+neon"),
}

#: Levels of a wheel, by machine.
WHEELS: Final = {"x86_64": ("x86-64-v2", "x86-64-v3", "x86-64-v4"), "aarch64": ("aarch64",)}


def own_levels() -> tuple[str, ...]:
    """The level of this processor, none where it has no library."""
    machine = platform.machine()
    if platform.system() != "Linux" or platform.libc_ver()[0] != "glibc":
        return ()
    if machine != "x86_64":
        return WHEELS.get(machine, ())
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    if all(features.get(name) for name in ("avx512f", "avx512dq", "avx512cd", "avx512bw", "avx512vl", "avx512vbmi2")):
        return ("x86-64-v4",)
    if all(features.get(name) for name in ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")):
        return ("x86-64-v3",)
    return ("x86-64-v2",)
