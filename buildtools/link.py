"""An object file to a shared library, with the system's compiler driver or PyPI's ziglang."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Final

from .levels import linker

_OPTIONS: Final = ("-shared", "-nostartfiles", "-s", "-Wl,-z,now", "-Wl,-z,noexecstack", "-Wl,--build-id=none")


def link(code: bytes, path: Path, triple: str) -> None:
    """Link the content of an object file to a library.

    Raises
    ------
    RuntimeError
        Without a linker, or with the linker's message where it fails.
    """
    command = linker(triple)
    if not command:
        raise RuntimeError(f"no linker for {triple}: install a C compiler, or ziglang with pip")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "loops.o")
        file.write_bytes(code)
        done = subprocess.run([*command, *_OPTIONS, "-o", path, file, "-lm"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr}")
