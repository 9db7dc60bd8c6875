"""Object files to a shared library, with the system's compiler driver or PyPI's ziglang."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from .levels import linker

#: With ``defs`` all functions that loops call must be in the C library.
_OPTIONS: Final = (
    "-shared", "-nostartfiles", "-Wl,-z,defs", "-Wl,-z,now", "-Wl,-z,noexecstack", "-Wl,--build-id=none",
)  # fmt: skip
_NEWEST_GLIBC: Final = (2, 28)  # that of manylinux_2_28


def link(objects: Sequence[Path], path: Path, triple: str, symbols: bool = False) -> None:
    """Link object files to a library; raise RuntimeError where it fails, or the library needs a newer glibc.

    ``symbols`` keeps the names of all functions, for profilers.
    """
    command = [*linker(triple), *([] if symbols else ["-s"])]
    done = subprocess.run([*command, *_OPTIONS, "-o", path, *objects, "-lm"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr}")
    versions = re.findall(rb"\0GLIBC_(\d+)\.(\d+)", path.read_bytes())
    if any((int(major), int(minor)) > _NEWEST_GLIBC for major, minor in versions):
        raise RuntimeError(f"{path.name} needs a glibc newer than {_NEWEST_GLIBC[0]}.{_NEWEST_GLIBC[1]}")
