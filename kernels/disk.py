"""Files with compiled code: in which folders they are, whose are read, and how they are written.

Anyone who can write such a file can run code in the process that loads it. The checksum in it does not prevent that, so
files and their folders must belong to this user, to root or to the owner of this package's code, and nobody else may
have permission to write to them.
"""

import hashlib
import os
import stat
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

_DIGEST = 32  # bytes in front of a file's content: its SHA-256
_READABLE = 0o644  # by other users too: a container image is warmed by root and run by another user
_FOLDER = 0o755
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_HAS_OWNERS = hasattr(os, "geteuid")  # else modes do not say who may write: a user's folders are private on Windows
_FLAGS = sum(getattr(os, f"O_{name}", 0) for name in ("RDONLY", "NOFOLLOW", "NONBLOCK", "CLOEXEC", "BINARY"))


def _places() -> list[Path]:
    """Folders with compiled loops: ``NUMBA_CACHE_DIR``, else one next to this file and the user's cache folder."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return [Path(chosen, "gpuimg")] if chosen else [_package_folder(), Path(home, "gpuimg")]


@cache
def folder() -> Path | None:
    """The first of these folders that can be written to; None, with a warning, where none can."""
    places = _places()
    for place in places:
        with suppress(OSError):
            place.mkdir(_FOLDER, parents=True, exist_ok=True)
            if _is_ours(place):
                tempfile.TemporaryFile(dir=place).close()
                return place
    tried = " and ".join(map(str, places))
    warnings.warn(
        f"every process compiles the kernels again, which takes seconds: {tried} cannot be written to, or other "
        "users can write there too; set NUMBA_CACHE_DIR to a folder that belongs to you and that nobody else can write "
        "to",
        RuntimeWarning,
        stacklevel=2,
    )
    return None


def _package_folder() -> Path:
    return Path(__file__).resolve().parent / "__pycache__"


def _is_trusted(status: os.stat_result) -> bool:
    """Return True where only users whose code runs in this process anyway can write to a file or a folder."""
    if not _HAS_OWNERS:
        return True
    owners = os.geteuid(), 0, os.stat(__file__).st_uid
    return status.st_uid in owners and not status.st_mode & _WRITABLE_BY_OTHERS


def _is_ours(place: Path) -> bool:
    """Return True for a folder that can be trusted.

    A folder of this user that others may write to, as one created under a umask of 002, is closed to them first. Files
    that they may have left in it belong to them, and are not read.
    """
    status = place.stat()
    if _HAS_OWNERS and status.st_uid == os.geteuid() and status.st_mode & _WRITABLE_BY_OTHERS:
        place.chmod(stat.S_IMODE(status.st_mode) & ~_WRITABLE_BY_OTHERS)
        status = place.stat()
    return stat.S_ISDIR(status.st_mode) and _is_trusted(status)


def _content(path: Path) -> bytes:
    """The bytes of a file that can be trusted; raises OSError where it is not, or not there."""
    if not _is_ours(path.parent):
        raise PermissionError(f"{path.parent} can be written to by other users")
    with open(os.open(path, _FLAGS), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or not _is_trusted(status):
            raise PermissionError(f"{path} can be written to by other users")
        return file.read()


def read(name: str, rebuild: Callable[[bytes], Any]) -> Any:
    """Return the result of ``rebuild`` for the content stored under a name, or None if it cannot be used."""
    for place in _places():
        try:
            content = _content(place / name)
        except OSError:
            continue
        try:
            if hashlib.sha256(content[_DIGEST:]).digest() != content[:_DIGEST]:
                raise ValueError("damaged")
            return rebuild(content[_DIGEST:])
        except Exception:  # whatever a damaged file leads to
            with suppress(OSError):
                (place / name).unlink()
    return None


def store(name: str, content: bytes, others: int = 0) -> None:
    """Store content under a name, ``function-types-fingerprint.ending``, whole or not at all.

    In the package's folder all but the newest ``others`` with the same name but another fingerprint are removed: they
    are of older code, or of functions that users have changed.
    """
    place = folder()
    if place is None:
        return
    path = place / name
    with suppress(OSError):  # a full disk must not stop anybody
        if place == _package_folder():
            _remove_older([*place.glob(f"{path.stem.rpartition('-')[0]}-*{path.suffix}")], others)
        descriptor, temporary = tempfile.mkstemp(dir=place)
        with os.fdopen(descriptor, "wb") as file:
            file.write(hashlib.sha256(content).digest() + content)
        os.chmod(temporary, _READABLE)
        os.replace(temporary, path)


def _remove_older(paths: list[Path], others: int) -> None:
    times = {}
    for path in paths:
        with suppress(OSError):  # another process was first
            times[path] = path.stat().st_mtime_ns
    for path in sorted(times, key=times.__getitem__, reverse=True)[others:]:
        path.unlink(missing_ok=True)


def has(name: str) -> bool:
    """Return True where something is stored under a name, whether or not it can be used."""
    return any((place / name).exists() for place in _places())
