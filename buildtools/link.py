"""Object files to a shared library, with the system's compiler driver or PyPI's ziglang."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from .levels import linker

_OPTIONS: Final = ("-shared", "-nostartfiles", "-s", "-Wl,-z,now", "-Wl,-z,noexecstack", "-Wl,--build-id=none")


def link(objects: Sequence[Path], path: Path, triple: str) -> None:
    """Link object files to a library; raise RuntimeError with the linker's message where it fails."""
    command = linker(triple)
    done = subprocess.run([*command, *_OPTIONS, "-o", path, *objects, "-lm"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr}")
