"""Compile the loops: ``python -m buildtools --out kernels/_lib x86-64-v3 x86-64-v4``."""

import argparse
from pathlib import Path

from .build import build
from .levels import LEVELS, own_level


def main() -> None:
    """Build the libraries that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m buildtools", description="Compile gpuimg's loops.")
    parser.add_argument("levels", nargs="*", metavar="LEVEL", help=f"{', '.join(LEVELS)}; this machine's by default")
    parser.add_argument("--cuda", action="store_true", help="CUDA kernels, too: needs numba-cuda, but no GPU")
    parser.add_argument("--out", type=Path, default=Path("kernels/_lib"), help="folder for libraries and manifest")
    parser.add_argument("--symbols", action="store_true", help="keep the names of functions, for a profiler")
    given = parser.parse_args()
    for name in given.levels:
        if name not in LEVELS:
            parser.error(f"a level must be one of {', '.join(LEVELS)}, not {name!r}")
    build(given.levels or [own_level()], given.out, given.cuda, given.symbols)


if __name__ == "__main__":
    main()
