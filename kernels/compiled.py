"""Compiled loops, each kept on disk by itself and compiled when it is first called for.

A loop's file is named after a checksum of all it is made of: its code and that of every function it calls, their
constants, its types, the versions of Python and Numba, and the processor. So a change of one formula compiles the
loops that use it anew, and no others; and a file is never stale. Damaged files are thrown away and written again.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import tempfile
import threading
import warnings
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, ClassVar

import llvmlite
import numba
from numba import njit
from numba.core import compiler, sigutils
from numba.core.ccallback import CFunc

from .scalar import LOOP

_PACKAGE = __name__.rpartition(".")[0]
_DIGEST = 32  # bytes in front of a file's content: its SHA-256
_ENDING = ".kernel"
_READABLE = 0o644  # by other users too: a container image is warmed by root and run by somebody else
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
    thing = getattr(thing, "py_func", None) or getattr(thing, "_defn", None) or thing
    if id(thing) in found:
        told.update(b"again %d;" % found[id(thing)][0])
        return
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
    elif isinstance(thing, (ModuleType, BuiltinFunctionType, type)):
        told.update(getattr(thing, "__qualname__", thing.__name__).encode())
    else:
        told.update(repr(thing).encode())
    told.update(b";")


def _tell_function(function: FunctionType, told: Any, found: dict[int, tuple[int, Any]]) -> None:
    _tell(function.__code__, told, found)
    names = _names(function.__code__)
    for name in sorted(names & function.__globals__.keys()):
        value = function.__globals__[name]
        if not isinstance(value, ModuleType):
            _tell(value, told, found)
        elif value.__name__.startswith(_PACKAGE + "."):
            for attribute in sorted(names & vars(value).keys()):
                _tell(getattr(value, attribute), told, found)
    for cell in function.__closure__ or ():
        _tell(cell.cell_contents, told, found)


def _names(code: CodeType) -> set[str]:
    """Names that a piece of code looks up, and those of the functions in it."""
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*inner)


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
            place.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=place).close()
            return place
    tried = " and ".join(map(str, places))
    warnings.warn(
        f"kernels are compiled anew in every process, which takes seconds: {tried} cannot be written to; set "
        "NUMBA_CACHE_DIR to a folder that can",
        RuntimeWarning,
        stacklevel=2,
    )
    return None


def _beside() -> Path:
    return Path(__file__).resolve().parent / "__pycache__"


class DiskCache:
    """What a Numba function asks for its machine code: one file for each fingerprint."""

    def __init__(self, function: Any, name: str, options: dict[str, Any]) -> None:
        self._function = function
        self._name = name
        self._options = [part for item in options.items() for part in item]

    def load_overload(self, signature: Any, target: Any) -> Any:
        """The compiled function, or None where there is none that can be used."""
        target.refresh()
        name = self._file_name(signature, target.codegen())
        found = (self._load(place / name, target) for place in _places())
        return next((result for result in found if result is not None), None)

    def _load(self, path: Path, target: Any) -> Any:
        try:
            content = path.read_bytes()
        except OSError:
            return None
        try:
            if hashlib.sha256(content[_DIGEST:]).digest() != content[:_DIGEST]:
                raise ValueError("damaged")
            return compiler.CompileResult._rebuild(target, *pickle.loads(content[_DIGEST:]))
        except Exception:  # whatever a damaged file, or one of another make, leads to
            with suppress(OSError):
                path.unlink()
            return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep a compiled function; those of the same name in the package's own folder are of older code."""
        place = folder()
        if place is None:
            return
        path = place / self._file_name(signature, result.codegen)
        content = pickle.dumps(result._reduce(), protocol=pickle.HIGHEST_PROTOCOL)
        with suppress(OSError):  # a full disk must not stop anybody
            if place == _beside():
                for old in place.glob(f"{path.name.rpartition('-')[0]}-*{_ENDING}"):
                    old.unlink(missing_ok=True)
            descriptor, temporary = tempfile.mkstemp(dir=place)
            with os.fdopen(descriptor, "wb") as file:
                file.write(hashlib.sha256(content).digest() + content)
            os.chmod(temporary, _READABLE)
            os.replace(temporary, path)

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
    """Compile a function that Python calls, for the types it is called with; it runs without the GIL."""
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
