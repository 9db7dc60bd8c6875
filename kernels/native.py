"""Compiled loops that a wheel brings: choose the library for this processor, check it, and call into it.

``_lib`` holds a shared library for each level of the instruction set. Its ``manifest.json`` has the checksum of the
sources that they were built from and the checksum of each library. Where the sources were edited, and in an editable
installation, Numba compiles the loops instead; also with ``GPUIMG_NATIVE=jit``, and with checked bounds
(``NUMBA_BOUNDSCHECK=1``). ``GPUIMG_NATIVE=v3`` and the like choose a level.
"""

import ctypes
import hashlib
import importlib
import importlib.util
import json
import os
import platform
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from .processor import x86_level

_HERE: Final = Path(__file__).resolve().parent
_PACKAGE: Final = __name__.rpartition(".")[0]
_JIT: Final = f"{_PACKAGE}_jit"  # the second instance of this package, whose loops Numba compiles
FOLDER: Final = _HERE / "_lib"
MANIFEST: Final = "manifest.json"


class UnusableError(Exception):
    """A library is not used; the message is the reason."""


def allowed_cores() -> int:
    """Return the number of cores that this process may use, as far as the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# -- names that the libraries and their builder share ------------------------------------------------------------------

#: Functions of Python's C API that entrances call, in the order of the table that a library has for their addresses.
PYTHON_FUNCTIONS: Final = (
    "PyLong_AsLongLong", "PyLong_AsUnsignedLongLongMask", "PyFloat_AsDouble", "PyLong_FromLongLong", "PyBool_FromLong",
    "PyObject_RichCompareBool", "PyErr_Occurred", "PyErr_SetString", "PyEval_SaveThread", "PyEval_RestoreThread",
    "Py_IncRef",
)  # fmt: skip
#: Objects that entrances use, in the order of the table after those functions.
PYTHON_OBJECTS: Final = (np.ndarray, None, TypeError, RuntimeError)


def library_name(level: str) -> str:
    """File name of the library for a level, such as ``x86-64-v3``."""
    return f"gpuimg-{level}.so"


def parse(signature: str) -> tuple[str, list[tuple[str, int]]]:
    """Split ``"none(RECORD[:, ::1], int64)"`` into its result and, of each argument, the type and the dimensions."""
    result, _, arguments = signature.partition("(")
    found = re.findall(r"(\w+)(\[[^]]*\])?(?:, |\))", arguments)
    return result, [(name, shape.count(",") + 1 if shape else 0) for name, shape in found]


def symbol(kind: str, name: str) -> str:
    """Symbol of a function, by its dotted place in this package: an ``entrance``, its ``dtypes``, a ``loop``."""
    return f"gpuimg_{kind}_{name.replace('.', '_')}"


def source_digest() -> str:
    """Checksum of all sources of this package, which the libraries were built from."""
    digest = hashlib.sha256()
    for path in sorted(_HERE.rglob("*.py"), key=lambda path: path.relative_to(_HERE).as_posix()):
        digest.update(path.relative_to(_HERE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


# -- calling into a library --------------------------------------------------------------------------------------------


class _MethodDef(ctypes.Structure):
    """``PyMethodDef`` of Python's C API."""

    _fields_ = (("name", ctypes.c_char_p), ("call", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


_FASTCALL: Final = 0x80  # METH_FASTCALL
_new_function = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)


class Library:
    """A shared library: functions for Python, and addresses of loops that other loops call."""

    def __init__(self, path: Path) -> None:
        try:
            self._library = ctypes.CDLL(str(path))
        except OSError as error:  # as on a file system without execution
            raise UnusableError(str(error)) from None
        addresses = [ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for name in PYTHON_FUNCTIONS]
        try:
            self._fill("gpuimg_python", [*addresses, *map(id, PYTHON_OBJECTS)])
            # Bytes of an object before its own fields; more in a free-threaded Python.
            ctypes.c_int64.in_dll(self._library, "gpuimg_head").value = object.__basicsize__
        except ValueError as error:
            raise UnusableError(f"{path} is another library: {error}") from None
        self._alive: list[Any] = []  # method definitions and dtypes that the library points to

    def _fill(self, table: str, addresses: list[Any]) -> None:
        (ctypes.c_void_p * len(addresses)).in_dll(self._library, table)[:] = addresses

    def address(self, name: str) -> int:
        """Address of a loop that other loops call."""
        return self._address(symbol("loop", name))

    def _address(self, name: str) -> int:
        return int(ctypes.cast(getattr(self._library, name), ctypes.c_void_p).value or 0)

    def function(self, name: str, signatures: tuple[str, ...], records: Mapping[str, Any]) -> Callable[..., Any]:
        """A function for Python, by its place in this package; see :func:`.compiled.cached_jit`."""
        arrays = [kind for text in signatures for kind, dimensions in parse(text)[1] if dimensions]
        dtypes = [np.dtype(records.get(kind, kind)) for kind in arrays]
        self._fill(symbol("dtypes", name), [id(dtype) for dtype in dtypes])
        title = name.rpartition(".")[2].encode()
        method = _MethodDef(title, self._address(symbol("entrance", name)), _FASTCALL, None)
        self._alive += [method, dtypes]
        return _new_function(ctypes.addressof(method), None, None)  # type: ignore[no-any-return]


# -- which library -----------------------------------------------------------------------------------------------------

#: The loop that a library is tried with.
SELF_TEST: Final = ("gray.gray_bytes", ("none(uint8[::1], uint8[::1])",))


def _open(folder: Path, level: str, digest: str) -> Library:
    path = folder / library_name(level)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UnusableError(str(error)) from None
    if hashlib.sha256(content).hexdigest() != digest:
        raise UnusableError(f"{path} is not the file that was built: its checksum differs")
    return Library(path)


def _try(library: Library, level: str) -> None:
    """Raise where a library computes something else than it should."""
    pixels, grays = np.arange(96, dtype=np.uint8), np.zeros(32, np.uint8)
    try:
        library.function(*SELF_TEST, {})(pixels, grays)
    except Exception as error:  # the file is what was built, so any of them says the same
        raise UnusableError(f"the library for {level} failed its self-test: {type(error).__name__}: {error}") from None
    if not np.array_equal(grays, pixels[1::3]):  # green is the middle of each of these colors
        raise UnusableError(f"the library for {level} failed its self-test: {grays}")


def wanted() -> str:
    """The value of ``GPUIMG_NATIVE``, in lower case."""
    return os.environ.get("GPUIMG_NATIVE", "").lower()


def _wanted_levels() -> list[str]:
    """Levels of this machine that ``GPUIMG_NATIVE`` leaves, best first; raise ValueError for an unknown value."""
    machine = platform.machine().lower().replace("amd64", "x86_64")
    known = {"x86_64": ("x86-64-v4", "x86-64-v3", "x86-64-v2"), "aarch64": ("aarch64",)}.get(machine, ())
    names = {level.rpartition("-")[2]: level for level in known}
    chosen = wanted()
    if chosen not in ("", "jit", *names):
        message = f"GPUIMG_NATIVE must be one of {', '.join(['jit', *names])}, not {chosen!r}"
        if sys.orig_argv[1:3] == ["-m", "gpuimg"]:  # the command, which Python starts by importing the package
            raise SystemExit(f"gpuimg: {message}")
        raise ValueError(message)
    return [level for name, level in names.items() if chosen in ("", name)]


def _levels(libraries: Mapping[str, str]) -> Iterator[str]:
    """Levels of these libraries that this machine can run, best first."""
    here = [level for level in _wanted_levels() if level in libraries]
    if here and here[0].startswith("x86") and not wanted():
        best = x86_level()
        here = [level for level in here if int(level[-1]) <= best]
    if not here:
        raise UnusableError(f"none of the libraries is for this processor: {', '.join(libraries) or 'there are none'}")
    yield from here


def find(folder: Path) -> tuple[Library, str]:
    """The best library of a folder that works here, and its level.

    Raises
    ------
    UnusableError
        Where Numba is to compile the loops.
    ValueError
        For an unknown value of ``GPUIMG_NATIVE``.
    """
    if _PACKAGE.endswith("_jit"):
        raise UnusableError("users' functions are compiled here")
    _wanted_levels()  # whose value is wrong wherever there are no libraries, too
    if wanted() == "jit":
        raise UnusableError("GPUIMG_NATIVE=jit")
    if os.environ.get("NUMBA_BOUNDSCHECK", "0") not in ("", "0"):
        raise UnusableError("NUMBA_BOUNDSCHECK is set")
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        sources, libraries = str(manifest["sources"]), dict(manifest["libraries"])
    except FileNotFoundError:
        raise UnusableError("this installation has no compiled loops") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _refused([f"{folder / MANIFEST}: {type(error).__name__}: {error}"]) from None
    if sources != source_digest():
        raise UnusableError("the sources were changed after the loops were compiled")
    reasons = []
    try:
        for level in _levels(libraries):
            try:
                library = _open(folder, level, libraries[level])
                _try(library, level)
            except UnusableError as error:
                reasons.append(str(error))
                continue
            if reasons:
                _refused(reasons)
            return library, level
    except UnusableError as error:
        reasons.append(str(error))
    raise _refused(reasons)


def _refused(reasons: list[str]) -> UnusableError:
    """Warn of what should not be."""
    text = "; ".join(reasons)
    warnings.warn(f"compiled loops are not used, Numba compiles them: {text}", RuntimeWarning, stacklevel=2)
    return UnusableError(text)


def _folder() -> Path:
    """The folder of libraries: that of this package, or of the one that is installed.

    In a checkout Python imports the package that lies there rather than the installed one, which has the libraries.
    """
    places = (Path(place, *_PACKAGE.split("."), FOLDER.name) for place in sys.path)
    return next((folder for folder in (FOLDER, *places) if (folder / MANIFEST).is_file()), FOLDER)


def _find() -> tuple[Library | None, str | None, str]:
    try:
        library, level = find(_folder())
    except UnusableError as error:
        return None, None, str(error)
    return library, level, ""


#: The library in use and its level, or None where Numba compiles the loops, and why.
LIBRARY, LEVEL, REASON = _find()


def missing() -> str | None:
    """None if there are loops or what compiles them, else what is missing, for users."""
    if LIBRARY is not None or importlib.util.find_spec("numba") is not None:
        return None
    return f'Numba is not installed, and {REASON}; pip install "numba>=0.61"'


def describe() -> str:
    """One line for users: which code runs."""
    lack = missing()
    if lack is not None:
        return f"cannot run: {lack}"
    return f"compiled with the package, for {LEVEL}" if LEVEL else f"compiled by Numba when first used: {REASON}"


def with_numba(module: str) -> Any:
    """A module of this package whose functions Numba compiles: users' functions can only be joined to those.

    Where a library is in use it is of a second instance of the package.
    """
    if LIBRARY is None:
        return importlib.import_module(f"{_PACKAGE}.{module}")
    if _JIT not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            _JIT, _HERE / "__init__.py", submodule_search_locations=[str(_HERE)]
        )
        assert spec is not None
        assert spec.loader is not None
        package = importlib.util.module_from_spec(spec)
        sys.modules[_JIT] = package
        spec.loader.exec_module(package)
    return importlib.import_module(f"{_JIT}.{module}")
