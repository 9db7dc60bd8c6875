"""Compiled loops, each kept on disk by itself and compiled when it is first called for.

A loop's file is named after a checksum of all it is made of: its code and that of every function it calls, their
constants, its types, the versions of Python and Numba, and the processor. So a change of one formula compiles the
loops that use it anew, and no others; and a file is never stale. Damaged files are thrown away and written again.

Whoever can write such a file can run code in the process that loads it. The checksum in it does not prevent that, so
files and their folders must belong to this user, to root or to the owner of this package's code, and nobody else may
have the permission to write to them. That goes for machine code of GPUs too, which :func:`read` and :func:`keep` serve.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import stat
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, ClassVar

import llvmlite
import numba
import numpy as np
from numba import njit
from numba.core import compiler, sigutils
from numba.core.ccallback import CFunc

from .scalar import LOOP

_PACKAGE = __name__.rpartition(".")[0]
_DIGEST = 32  # bytes in front of a file's content: its SHA-256
_ENDING = ".kernel"
_READABLE = 0o644  # by other users too: a container image is warmed by root and run by somebody else
_FOLDER = 0o755
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_compiling = threading.RLock()


# -- what a loop is made of --------------------------------------------------------------------------------------------


def fingerprint(*parts: Any) -> str:
    """Checksum of functions, with everything in this package that they refer to, and of plain values."""
    found: dict[int, tuple[int, Any]] = {}
    told = hashlib.sha256()
    for part in parts:
        _tell(part, told, found)
    return told.hexdigest()


def _tell(thing: Any, told: Any, found: dict[int, tuple[int, Any]]) -> None:
    options = getattr(thing, "targetoptions", None)  # of a function that Numba compiles: fastmath and so on
    thing = getattr(thing, "py_func", None) or getattr(thing, "_defn", None) or thing
    if id(thing) in found:
        told.update(b"again %d;" % found[id(thing)][0])
        return
    if isinstance(options, dict):
        _tell(sorted(options.items()), told, found)
    if isinstance(thing, FunctionType):
        found[id(thing)] = len(found), thing
        _tell_function(thing, told, found)
    elif isinstance(thing, CodeType):
        told.update(thing.co_code + repr((thing.co_names, thing.co_varnames, thing.co_freevars)).encode())
        for constant in thing.co_consts:
            _tell(constant, told, found)
    elif isinstance(thing, (tuple, list)):
        told.update(b"%d of;" % len(thing))
        for one in thing:
            _tell(one, told, found)
    elif isinstance(thing, (set, frozenset)):
        told.update(repr(sorted(map(repr, thing))).encode())
    elif isinstance(thing, ModuleType):
        # Of its package only: parts of Numba go by other names once numba-cuda is imported.
        told.update(thing.__name__.partition(".")[0].encode())
    elif isinstance(thing, (BuiltinFunctionType, type)):
        told.update(f"{thing.__module__}.{thing.__qualname__}".encode())
    else:
        told.update(repr(thing).encode())
    told.update(b";")


def _tell_function(function: FunctionType, told: Any, found: dict[int, tuple[int, Any]]) -> None:
    _tell(function.__code__, told, found)
    names = _names(function.__code__)
    for name in sorted(names & function.__globals__.keys()):
        value = function.__globals__[name]
        if isinstance(value, ModuleType) and value.__name__.startswith(_PACKAGE + "."):
            for attribute in sorted(names & vars(value).keys()):
                _tell(getattr(value, attribute), told, found)
        else:
            _tell(value, told, found)
    for value in _bound(function):
        _tell(value, told, found)


def _bound(function: FunctionType) -> list[Any]:
    """What a function holds besides its code and its module: its closure and its defaults."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    return [*cells, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]


def _names(code: CodeType) -> set[str]:
    """Names that a piece of code looks up, and those of the functions in it."""
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*inner)


_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic, np.ufunc)
_STABLE = {"builtins", "math", "numpy", "numba"}  # packages that say the same as long as their versions do


def is_told(function: Any) -> bool:
    """Whether a function of the users', compiled by Numba, does nothing but what its :func:`fingerprint` is made of.

    It may use plain constants, other such functions, ``math``, ``numpy`` and ``numba``. Arrays, modules of the users'
    and what Numba was taught by extensions may do something else in the next process.
    """
    return _is_told(function, set())


def _is_told(thing: Any, seen: set[int]) -> bool:
    function = getattr(thing, "py_func", None)
    if isinstance(function, FunctionType):
        if id(function) in seen:
            return True
        seen.add(id(function))
        names = _names(function.__code__) & function.__globals__.keys()
        used = [*(function.__globals__[name] for name in names), *_bound(function)]
        return not thing.targetoptions.get("link") and all(_is_told(value, seen) for value in used)
    if isinstance(thing, (tuple, frozenset)):
        return all(_is_told(value, seen) for value in thing)
    if isinstance(thing, ModuleType):
        return thing.__name__.partition(".")[0] in _STABLE
    if isinstance(thing, (type, BuiltinFunctionType)):
        return str(thing.__module__).partition(".")[0] in _STABLE
    return isinstance(thing, _PLAIN)


# -- where they are kept -----------------------------------------------------------------------------------------------


def _places() -> list[Path]:
    """Folders to look for compiled loops in: ``NUMBA_CACHE_DIR``, else beside this file and the user's cache folder."""
    asked = os.environ.get("NUMBA_CACHE_DIR")
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return [Path(asked, "gpuimg")] if asked else [_beside(), Path(home, "gpuimg")]


@cache
def folder() -> Path | None:
    """The first of these folders that can be written to; None where none can, of which a warning tells."""
    places = _places()
    for place in places:
        with suppress(OSError):
            place.mkdir(_FOLDER, parents=True, exist_ok=True)
            if _is_ours(place):
                tempfile.TemporaryFile(dir=place).close()
                return place
    tried = " and ".join(map(str, places))
    warnings.warn(
        f"kernels are compiled anew in every process, which takes seconds: {tried} cannot be written to, or other "
        "users can write there too; set NUMBA_CACHE_DIR to a folder that belongs to you and that nobody else can write "
        "to",
        RuntimeWarning,
        stacklevel=2,
    )
    return None


def _beside() -> Path:
    return Path(__file__).resolve().parent / "__pycache__"


def _is_trusted(status: os.stat_result) -> bool:
    """Whether a file or a folder can only be written to by users whose code runs in this process anyway."""
    owners = os.geteuid(), 0, os.stat(__file__).st_uid
    return status.st_uid in owners and not status.st_mode & _WRITABLE_BY_OTHERS


def _is_ours(place: Path) -> bool:
    """Whether a folder can be trusted.

    One of this user's that others may write to, as one made under a umask of 002, is closed to them first: what they
    may have left in it belongs to them, and is not read.
    """
    status = place.stat()
    if status.st_uid == os.geteuid() and status.st_mode & _WRITABLE_BY_OTHERS:
        place.chmod(stat.S_IMODE(status.st_mode) & ~_WRITABLE_BY_OTHERS)
        status = place.stat()
    return stat.S_ISDIR(status.st_mode) and _is_trusted(status)


def _content(path: Path) -> bytes:
    """The bytes of a file that can be trusted; raises OSError where it is not, or not there."""
    if not _is_ours(path.parent):
        raise PermissionError(f"{path.parent} can be written to by other users")
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or not _is_trusted(status):
            raise PermissionError(f"{path} can be written to by other users")
        return file.read()


def read(name: str, rebuild: Callable[[bytes], Any]) -> Any:
    """What ``rebuild`` makes of the content kept under a name; None where there is none that can be used."""
    for place in _places():
        try:
            content = _content(place / name)
        except OSError:
            continue
        try:
            if hashlib.sha256(content[_DIGEST:]).digest() != content[:_DIGEST]:
                raise ValueError("damaged")
            return rebuild(content[_DIGEST:])
        except Exception:  # whatever a damaged file, or one of another make, leads to
            with suppress(OSError):
                (place / name).unlink()
    return None


def keep(name: str, content: bytes, others: int = 0) -> None:
    """Keep content under a name, ``what-types-fingerprint.ending``, whole or not at all.

    In the package's own folder all but the newest ``others`` of the same name but for the fingerprint are removed:
    they are of older code, or of functions that users have changed.
    """
    place = folder()
    if place is None:
        return
    path = place / name
    with suppress(OSError):  # a full disk must not stop anybody
        if place == _beside():
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


class DiskCache:
    """What a Numba function asks for its machine code: one file for each fingerprint.

    The content is a pickle: besides the object code, what Numba needs to rebuild a function are its own objects (types,
    the signature, a descriptor of the function, its environments), which it can only pickle. :func:`read` gives no file
    that somebody else could have written.
    """

    def __init__(self, function: Any, name: str, options: dict[str, Any]) -> None:
        self._function = function
        self._name = name
        self._options = [part for item in options.items() for part in item]

    def load_overload(self, signature: Any, target: Any) -> Any:
        """The compiled function, or None where there is none that can be used."""
        target.refresh()
        return read(
            self._file_name(signature, target.codegen()),
            lambda content: compiler.CompileResult._rebuild(target, *pickle.loads(content)),
        )

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep a compiled function."""
        content = pickle.dumps(result._reduce(), protocol=pickle.HIGHEST_PROTOCOL)
        keep(self._file_name(signature, result.codegen), content)

    def _file_name(self, signature: Any, codegen: Any) -> str:
        checked = numba.config.BOUNDSCHECK
        machine = (sys.version, numba.__version__, llvmlite.__version__, codegen.magic_tuple(), checked)
        types = hashlib.sha256(repr((machine, str(signature))).encode()).hexdigest()[:12]
        return f"{self._name}-{types}-{self._made_of[:24]}{_ENDING}"

    @cached_property
    def _made_of(self) -> str:
        return fingerprint(self._function, *self._options)

    # Numba's other questions.

    cache_path = None

    def enable(self) -> None:
        """Nothing to do."""

    def disable(self) -> None:
        """Nothing to do."""

    def flush(self) -> None:
        """Nothing to do."""


# -- loops -------------------------------------------------------------------------------------------------------------


def kept(function: Any, **options: Any) -> Any:
    """Compile a function that Python calls, for the types it is called with.

    It runs without Python's lock, unless ``nogil=False``: for what takes less time than getting the lock back from a
    thread that is busy in Python, 5 ms.
    """
    dispatcher = njit(**(LOOP | options))(function)
    dispatcher._cache = DiskCache(function, function.__name__, LOOP | options)
    return dispatcher


class Piece:
    """A loop that other loops call by its address: a C function of these types, whose arrays are pointers.

    One with code of the ``users`` is not kept on disk, and may use all of Numba.
    """

    all: ClassVar[list[Piece]] = []  # but those of the users
    made: ClassVar[int] = 0  # compiled in this process rather than read from disk

    def __init__(self, name: str, function: Any, signature: Any, *, users: bool = False) -> None:
        self.name = name
        self._function = function
        self._signature = signature
        self._users = users
        if not users:
            Piece.all.append(self)

    @cached_property
    def address(self) -> int:
        """Where the machine code is, compiled or read from disk at the first call for it."""
        with _compiling:
            if "address" in self.__dict__:  # another thread was first
                return int(self.__dict__["address"])
            options = {} if self._users else LOOP
            compiled: Any = CFunc(self._function, sigutils.normalize_signature(self._signature), {}, options)
            if not self._users:
                compiled._cache = DiskCache(self._function, self.name, options)
            compiled.compile()
            Piece.made += not compiled.cache_hits
            self._compiled = compiled  # keeps the machine code
            return int(compiled.address)
