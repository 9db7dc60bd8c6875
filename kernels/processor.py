"""Level of this processor's instruction set; imports nothing that a build has not yet installed."""

from typing import Final

# Features of levels, by Linux's names: those of which a system does not save the registers are not in its list.
_V3: Final = {"abm", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}
# VBMI2 is not in this level: Xeons without it, before Ice Lake, lower their clock for 512-bit vectors.
_V4: Final = {"avx512f", "avx512dq", "avx512cd", "avx512bw", "avx512vl", "avx512_vbmi2"}


def x86_level() -> int:
    """Level of this x86-64 processor: 2, 3 or 4."""
    try:
        with open("/proc/cpuinfo") as file:
            features = set(next((line for line in file if line.startswith("flags")), "").split())
    except OSError:
        return 2
    return 2 if not features >= _V3 else 4 if features >= _V4 else 3
