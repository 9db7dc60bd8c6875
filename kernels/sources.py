"""The checksum of these sources, which what was compiled from them carries: it is used with no others."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent


@cache
def digest() -> str:
    """SHA-256 of all modules of this package, their names and their contents."""
    found = hashlib.sha256()
    for path in sorted(_FOLDER.rglob("*.py"), key=lambda path: path.relative_to(_FOLDER).as_posix()):
        content = path.read_bytes()
        found.update(f"{path.relative_to(_FOLDER).as_posix()} {len(content)}\n".encode() + content)
    return found.hexdigest()
