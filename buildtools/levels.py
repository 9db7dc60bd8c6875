"""Processors and systems that loops are compiled for."""

import importlib.util
import os
import platform
import runpy
import shlex
import shutil
import sys
from pathlib import Path
from typing import Final, NamedTuple

_PROCESSOR: Final = Path(__file__).resolve().parents[1] / "gpuimg" / "kernels" / "processor.py"


class Level(NamedTuple):
    """One target of the compiler."""

    triple: str
    cpu: str
    features: str = ""


# v4 is compiled as for Ice Lake servers, without what these have beyond the level, except for VBMI2, which is required
# (kernels/processor.py). LLVM's own model of the level prefers vectors of 256 bits and knows no costs: with vectors of
# 512 bits it is still 1 to 4 % slower on Zen 4.
_V4: Final = (
    "prefer-256-bit", "adx", "aes", "avx512bitalg", "avx512ifma", "avx512vbmi", "avx512vnni",
    "avx512vpopcntdq", "gfni", "pclmul", "prfchw", "rdrnd", "rdseed", "sha", "vaes", "vpclmulqdq",
)  # fmt: skip

# What the processors have anyway, and loops look for by name (bits.py, deposit.py, products.py in kernels).
_NAMED_V2: Final = "+sse2"
_NAMED_V3: Final = f"{_NAMED_V2},+bmi2,+avx2"
_NAMED_V4: Final = f"{_NAMED_V3},+avx512bw,+avx512vbmi2"

#: By the names that libraries have.
LEVELS: Final = {
    "x86-64-v2": Level("x86_64-unknown-linux-gnu", "x86-64-v2", _NAMED_V2),
    "x86-64-v3": Level("x86_64-unknown-linux-gnu", "x86-64-v3", _NAMED_V3),
    "x86-64-v4": Level(
        "x86_64-unknown-linux-gnu", "icelake-server", ",".join([_NAMED_V4, *(f"-{name}" for name in _V4)])
    ),
    "aarch64": Level("aarch64-unknown-linux-gnu", "generic", "+neon"),
}

#: Levels of a wheel, by machine.
WHEELS: Final = {"x86_64": ("x86-64-v2", "x86-64-v3", "x86-64-v4"), "aarch64": ("aarch64",)}


#: Parts of a library, compiled at once. Each takes 2 s to start, and what two parts call is compiled in both.
PARTS: Final = 2


class Chosen(NamedTuple):
    """Machine and levels of a wheel."""

    machine: str
    levels: tuple[str, ...]  # none: Numba compiles the loops where the wheel is installed
    cuda: bool = False  # with the kernels of GPUs

    @property
    def is_portable(self) -> bool:
        """Return True where compiled loops serve every processor of the machine; otherwise the wheel needs Numba."""
        return bool(self.levels) and self.levels == WHEELS[self.machine]

    @property
    def platform(self) -> str:
        """Platform tag of the wheel."""
        return f"{'manylinux_2_28' if self.is_portable else 'linux'}_{self.machine}" if self.levels else "any"


def levels_to_build() -> Chosen:
    """Levels of the wheel that is built, by the environment variable ``GPUIMG_BUILD``.

    ``pure`` for none; a machine, such as ``aarch64``, for all of its levels, and ``aarch64+cuda`` for CUDA kernels in
    addition; by default the level of this processor, or none on a system other than Linux with glibc.
    """
    own, chosen = platform.machine(), os.environ.get("GPUIMG_BUILD", "")
    if chosen == "pure":
        return Chosen(own, ())
    if chosen:
        machine, plus, kernels = chosen.partition("+")
        if machine not in WHEELS or (plus and kernels != "cuda"):
            known = ", ".join(f"{one}, {one}+cuda" for one in WHEELS)
            raise ValueError(f"GPUIMG_BUILD must be one of pure, {known}, not {chosen!r}")
        return Chosen(machine, WHEELS[machine], bool(plus))
    if platform.system() != "Linux" or platform.libc_ver()[0] != "glibc" or own not in WHEELS:
        return Chosen(own, ())
    return Chosen(own, (own_level(),))


def own_level() -> str:
    """The best level that this processor runs."""
    if platform.machine() != "x86_64":
        return WHEELS[platform.machine()][-1]
    # By its path: importing the package takes NumPy, which this part of a build does without.
    return f"x86-64-v{runpy.run_path(str(_PROCESSOR))['x86_level']()}"


def compiler_driver(triple: str) -> list[str]:
    """Command of the system's compiler driver for a target, which links; empty where there is none."""
    own = platform.system() == "Linux" and triple.startswith(platform.machine())
    names = [os.environ.get("CC", ""), "cc", "gcc", "clang"] if own else [f"{triple.partition('-')[0]}-linux-gnu-gcc"]
    commands = (shlex.split(name) for name in names)
    return next((command for command in commands if command and shutil.which(command[0])), [])


def linker(triple: str) -> list[str]:
    """Command that links for a target; raise RuntimeError where there is none."""
    if command := compiler_driver(triple):
        return command
    if importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "cc", "-target", f"{triple.partition('-')[0]}-linux-gnu.2.28"]
    raise RuntimeError(f"no linker for {triple}: install gcc or clang, or run: pip install ziglang")
