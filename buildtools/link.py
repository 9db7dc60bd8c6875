"""An object file to a shared library, with the system's compiler driver or PyPI's ziglang."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_CROSS = {"aarch64-unknown-linux-gnu": "aarch64-linux-gnu-gcc"}
_ZIG = {"x86_64-unknown-linux-gnu": "x86_64-linux-gnu.2.28", "aarch64-unknown-linux-gnu": "aarch64-linux-gnu.2.28"}


def linker(triple: str) -> list[str]:
    """Command that links for a target; empty where this system has none."""
    import platform

    own = triple.startswith(platform.machine()) and platform.system() == "Linux"
    driver = shutil.which("cc" if own else _CROSS.get(triple, ""))
    if driver:
        return [driver]
    if importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "cc", "-target", _ZIG[triple]]
    return []


def link(code: bytes, path: Path, triple: str, command: list[str] | None = None) -> None:
    """Link an object file's content to a library.

    Raises
    ------
    RuntimeError
        Without a linker, or with the linker's message where it fails.
    """
    command = command or linker(triple)
    if not command:
        raise RuntimeError(f"no linker for {triple}: install a C compiler, or ziglang with pip")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "loops.o")
        file.write_bytes(code)
        options = ["-shared", "-nostartfiles", "-s", "-Wl,-z,now", "-Wl,-z,noexecstack", "-Wl,--build-id=none"]
        done = subprocess.run([*command, *options, "-o", str(path), str(file), "-lm"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr}")
