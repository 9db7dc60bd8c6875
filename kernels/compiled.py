"""Compiled loops, each compiled when it is first needed and cached in a file.

The name of a loop's file has a checksum of everything that the loop depends on: its code and that of every function it
calls, their constants, its types, the versions of Python and Numba, and the processor. A changed formula compiles the
loops that use it again, and no others, and a file is never stale. Damaged files are removed and written again.

:mod:`.disk` says where these files are, and which are read.
"""

import hashlib
import importlib
import os
import pickle
import pkgutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from . import disk, lang
from .lang import CFunc, compiler, cpu_target, from_dtype, llvmlite, njit, numba, set_compiler_process, sigutils, types
from .native import LIBRARY, allowed_cores
from .scalar import LOOP

_PACKAGE = __name__.rpartition(".")[0]
_ENDING = ".kernel"
_MADE = "_made"  # at the end of the names of functions that were made by others

# A process forks when no other thread compiles: the child would wait for ever for a lock that such a thread held.
if LIBRARY is None and hasattr(os, "register_at_fork"):
    _lock, _free = lang.global_compiler_lock.acquire, lang.global_compiler_lock.release
    os.register_at_fork(before=_lock, after_in_parent=_free, after_in_child=_free)


# -- what a loop depends on ------------------------------------------------------------------------------------------


def fingerprint(*parts: Any) -> str:
    """Checksum of functions, with everything in this package that they refer to, and of plain values."""
    seen: dict[int, tuple[int, Any]] = {}
    digest = hashlib.sha256()
    for part in parts:
        _update(digest, part, seen)
    return digest.hexdigest()


def _update(digest: Any, obj: Any, seen: dict[int, tuple[int, Any]]) -> None:
    options = getattr(obj, "targetoptions", None)  # of a function that Numba compiles: fastmath and so on
    obj = getattr(obj, "py_func", None) or getattr(obj, "_defn", None) or obj
    if id(obj) in seen:
        digest.update(b"again %d;" % seen[id(obj)][0])
        return
    if isinstance(options, dict):
        _update(digest, sorted(options.items()), seen)
    if isinstance(obj, FunctionType):
        seen[id(obj)] = len(seen), obj
        _update_function(digest, obj, seen)
    elif isinstance(obj, CodeType):
        digest.update(obj.co_code + repr((obj.co_names, obj.co_varnames, obj.co_freevars)).encode())
        for constant in obj.co_consts:
            _update(digest, constant, seen)
    elif isinstance(obj, np.ndarray):  # whose text is shortened
        digest.update(repr((obj.dtype, obj.shape)).encode() + obj.tobytes())
    elif isinstance(obj, (tuple, list)):
        digest.update(b"%d of;" % len(obj))
        for item in obj:
            _update(digest, item, seen)
    elif isinstance(obj, (set, frozenset)):
        digest.update(repr(sorted(map(repr, obj))).encode())
    elif isinstance(obj, ModuleType):
        # Of its package only: parts of Numba go by other names once numba-cuda is imported.
        digest.update(obj.__name__.partition(".")[0].encode())
    elif isinstance(obj, (BuiltinFunctionType, type)):
        digest.update(f"{obj.__module__}.{obj.__qualname__}".encode())
        if str(obj.__module__).startswith(_PACKAGE + "."):  # such as one whose methods emit instructions
            seen[id(obj)] = len(seen), obj
            methods = [one for one in vars(obj).values() if getattr(one, "__module__", "") == obj.__module__]
            for method in methods:
                _update(digest, method, seen)
    else:
        digest.update(repr(obj).encode())
    digest.update(b";")


def _update_function(digest: Any, function: FunctionType, seen: dict[int, tuple[int, Any]]) -> None:
    _update(digest, function.__code__, seen)
    names = _names(function.__code__)
    for name in sorted(names & function.__globals__.keys()):
        value = function.__globals__[name]
        if isinstance(value, ModuleType) and value.__name__.startswith(_PACKAGE + "."):
            for attribute in sorted(names & vars(value).keys()):
                _update(digest, getattr(value, attribute), seen)
        else:
            _update(digest, value, seen)
    for value in _bound(function):
        _update(digest, value, seen)


def _bound(function: FunctionType) -> list[Any]:
    """Values that a function holds besides its code and its module: its closure and its defaults."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    return [*cells, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]


def _names(code: CodeType) -> set[str]:
    """Names that a piece of code looks up, and those of the functions in it."""
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*inner)


_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic, np.ufunc)
_STABLE = {"builtins", "math", "numpy", "numba"}  # packages that do the same as long as their versions do


def is_cacheable(obj: Any, seen: set[int] | None = None) -> bool:
    """Return True where the :func:`fingerprint` of a user's compiled function covers everything that it does.

    It may use plain constants, other such functions, ``math``, ``numpy`` and ``numba``. Arrays, the user's modules and
    extensions of Numba may do something else in the next process.
    """
    seen = set() if seen is None else seen
    function = getattr(obj, "py_func", None)
    if isinstance(function, FunctionType):
        if id(function) in seen:
            return True
        seen.add(id(function))
        names = _names(function.__code__) & function.__globals__.keys()
        used = [*(function.__globals__[name] for name in names), *_bound(function)]
        return not obj.targetoptions.get("link") and all(is_cacheable(value, seen) for value in used)
    if isinstance(obj, (tuple, frozenset)):
        return all(is_cacheable(value, seen) for value in obj)
    if isinstance(obj, ModuleType):
        return obj.__name__.partition(".")[0] in _STABLE
    if isinstance(obj, (type, BuiltinFunctionType)):
        return str(obj.__module__).partition(".")[0] in _STABLE
    return isinstance(obj, _PLAIN)


def called_by(*functions: Any) -> list[FunctionType]:
    """Return functions and all of this package that they call."""
    found: dict[int, FunctionType] = {}
    pending = [*functions]
    while pending:
        function = pending.pop()
        function = getattr(function, "py_func", None) or getattr(function, "_defn", None) or function
        if isinstance(function, FunctionType) and id(function) not in found:
            found[id(function)] = function
            pending += [function.__globals__.get(name) for name in function.__code__.co_names]
            pending += [cell.cell_contents for cell in function.__closure__ or ()]
    return list(found.values())


def name_made_functions(function: Any) -> None:
    """Give each function that was made by another one, among those that are called, a name of its own.

    Numba makes the symbol of its code of the place in the source, which those share, and of a number that counts the
    functions of a process. So files of two processes would have one symbol for different code, and a process that reads
    both uses the first one for either.
    """
    for one in called_by(function):
        is_made = one.__closure__ or not one.__module__  # of variables of the other one, or of text
        if is_made and not one.__qualname__.endswith(_MADE):
            one.__qualname__ += f"_{fingerprint(one)[:16]}{_MADE}"


# -- cached files ------------------------------------------------------------------------------------------------------


class DiskCache:
    """The cache of a Numba function: one file for each fingerprint.

    The content is a pickle: to rebuild a function Numba needs the object code and objects that it can only pickle
    (types, the signature, a descriptor of the function, its environments). :func:`read` returns no file that another
    user could have written.
    """

    def __init__(self, function: Any, name: str, options: dict[str, Any]) -> None:
        self._function = function
        self._name = name
        self._options = [part for item in options.items() for part in item]

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return the compiled function, or None where no file can be used: it is then compiled."""
        target.refresh()
        found = disk.read(
            self._file_name(signature, target.codegen()),
            lambda content: compiler.CompileResult._rebuild(target, *pickle.loads(content)),
        )
        if found is None:
            name_made_functions(self._function)
        return found

    def has(self, signature: Any) -> bool:
        """Return True where a file has the function, whether or not it can be used."""
        name = self._file_name(signature, cpu_target.target_context.codegen())
        return disk.has(name)

    def save_overload(self, signature: Any, result: Any) -> None:
        """Store a compiled function."""
        content = pickle.dumps(result._reduce(), protocol=pickle.HIGHEST_PROTOCOL)
        disk.store(self._file_name(signature, result.codegen), content)

    def _file_name(self, signature: Any, codegen: Any) -> str:
        checked = numba.config.BOUNDSCHECK
        machine = (sys.version, numba.__version__, llvmlite.__version__, codegen.magic_tuple(), checked, _MADE)
        types = hashlib.sha256(repr((machine, str(signature))).encode()).hexdigest()[:12]
        return f"{self._name}-{types}-{self._fingerprint[:24]}{_ENDING}"

    @cached_property
    def _fingerprint(self) -> str:
        return fingerprint(self._function, *self._options)

    def _nothing(self) -> None:
        pass

    cache_path, enable, disable, flush = None, _nothing, _nothing, _nothing  # other members that Numba uses


# -- loops -------------------------------------------------------------------------------------------------------------


class Entrance(NamedTuple):
    """A function that Python calls."""

    name: str  # its place in this package
    function: Any  # as Numba compiles it
    signatures: tuple[str, ...]
    records: dict[str, np.dtype[Any]]
    nogil: bool

    def numba_signatures(self) -> list[Any]:
        """The signatures in Numba's types."""
        names = vars(types) | {name: from_dtype(dtype) for name, dtype in self.records.items()}
        return [eval(text, names) for text in self.signatures]

    def is_cached(self) -> bool:
        """Return True where files have its machine code."""
        return all(map(self.function._cache.has, self.numba_signatures()))

    def compile(self) -> None:
        """Compile it for all its signatures, or read it from disk."""
        for signature in self.numba_signatures():
            self.function.compile(signature)


#: All functions that Python calls; empty where a library is in use.
ENTRANCES: Final[list[Entrance]] = []


def cached_jit(*signatures: str, nogil: bool = True, **records: np.dtype[Any]) -> Callable[[Any], Any]:
    """Compile a function that Python calls, for these types of arguments and no others.

    Parameters
    ----------
    *signatures
        As ``"none(float32[::1], RECORD[:, ::1], int64)"``, all arrays contiguous. The first one that fits is called.
    nogil
        False for a function that takes less time than getting the GIL back from a thread that is busy in Python, 5 ms.
    **records
        The dtypes that signatures name, besides NumPy's.
    """
    options = LOOP | {"nogil": nogil}

    def decorate(function: Any) -> Any:
        name = f"{function.__module__.removeprefix(_PACKAGE + '.')}.{function.__name__}"
        if LIBRARY is not None:
            return LIBRARY.function(name, signatures, records)
        dispatcher = njit(**options)(function)
        dispatcher._cache = DiskCache(function, function.__name__, options)
        entrance = Entrance(name, dispatcher, signatures, records, nogil)
        ENTRANCES.append(entrance)
        declared = {one.args: one.return_type for one in entrance.numba_signatures()}
        dispatcher.compile = partial(_compile_declared, dispatcher, declared)
        return dispatcher

    return decorate


def _compile_declared(dispatcher: Any, declared: dict[Any, Any], signature: Any) -> Any:
    """Compile a function for arguments of a declared signature; Numba would compile it for any."""
    given, _ = sigutils.normalize_signature(signature)
    writable = tuple(one.copy(readonly=False) if isinstance(one, types.Array) else one for one in given)
    if writable not in declared:
        takes = " or ".join(", ".join(map(str, one)) for one in declared)
        raise TypeError(f"{dispatcher.py_func.__name__} takes {takes}, not {', '.join(map(str, given))}")
    return type(dispatcher).compile(dispatcher, declared[writable](*given))


class NativeFunction:
    """A loop that other loops call by its address: a C function of these types, whose arrays are pointers.

    One that calls a user's functions is not cached on disk, and may use all of Numba.
    """

    all: ClassVar[list["NativeFunction"]] = []  # but those that call users' functions
    compile_count: ClassVar[int] = 0  # compiled for this process rather than read from disk

    def __init__(self, name: str, function: Any, signature: Any, *, users: bool = False) -> None:
        self.name = name
        self.function = function
        self.signature = signature
        self._users = users
        self._cache = DiskCache(function, name, LOOP)
        self._address: int | None = None
        if not users:
            NativeFunction.all.append(self)

    @property
    def address(self) -> int:
        """Address of the machine code, which is compiled or read from disk when it is first needed."""
        if self._address is None:
            if LIBRARY is not None:
                self._address = LIBRARY.address(self.name)
            else:
                # Not a cached_property, which Python 3.11 locks, too: that lock may stay locked in a forked child.
                with lang.global_compiler_lock:
                    if self._address is None:
                        self._address = self._compile()
        return self._address

    def _compile(self) -> int:
        options = {} if self._users else LOOP
        compiled: Any = CFunc(self.function, sigutils.normalize_signature(self.signature), {}, options)
        if not self._users:
            compiled._cache = self._cache
        compiled.compile()
        NativeFunction.compile_count += not compiled.cache_hits
        self._compiled = compiled  # keeps the machine code
        return int(compiled.address)

    def is_cached(self) -> bool:
        """Return True where a file has its machine code."""
        arguments, result = sigutils.normalize_signature(self.signature)
        return self._cache.has(result(*arguments))

    def compile(self) -> None:
        """Compile it, or read it from disk."""
        _ = self.address


# -- many at a time ----------------------------------------------------------------------------------------------------


def import_all() -> None:
    """Import every module that defines loops of the CPU."""
    package = sys.modules[_PACKAGE]
    for module in pkgutil.walk_packages(package.__path__, f"{_PACKAGE}."):
        if not module.name.startswith(f"{_PACKAGE}.cuda"):
            importlib.import_module(module.name)


def names() -> list[str]:
    """Names of all loops that are imported, those that take long to compile first."""
    return sorted(_by_name(), key=lambda name: (name not in _LONG, name))


#: The JPEG decoder, its rows of pixels, and the loop over the images of a batch.
RUN_IMAGES: Final = "cpu.batch.run_images"
ALWAYS: Final = ("decode_jpeg", "finish_jpeg_row", RUN_IMAGES)
#: What takes longest to compile: 23 of the 61 seconds of all.
_LONG: Final = (*ALWAYS, "decode_progressive_jpeg")


def _by_name() -> dict[str, NativeFunction | Entrance]:
    every: list[NativeFunction | Entrance] = [*NativeFunction.all, *ENTRANCES]
    return {one.name: one for one in every}


def compile_together(wanted: Iterable[str]) -> None:
    """Compile loops that no file has on all cores, each in one of several processes; later calls read the files."""
    if LIBRARY is not None or _seen.issuperset(wanted):
        return
    unseen = set(wanted) - _seen
    with lang.global_compiler_lock:
        known = _by_name()
        _seen.update(unseen)
        missing = [name for name in names() if name in unseen and not known[name].is_cached()]
        helpers = min(allowed_cores(), len(missing))
        if helpers < 2 or not Path(sys.executable).name.startswith("python") or disk.folder() is None:
            return  # what is called is compiled then
        with tempfile.TemporaryDirectory() as claims:
            code = f"import sys; sys.path[:] = {sys.path}; from {__name__} import help_compile; "
            command = [sys.executable, "-c", code + f"help_compile({claims!r}, {missing})"]
            environment = os.environ | {"GPUIMG_NATIVE": "jit"}  # they need not find out, and warn, again
            processes = [subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment) for _ in range(helpers)]
            for process in processes:
                process.wait()  # what it failed to compile is compiled where it is called
        NativeFunction.compile_count += sum(
            isinstance(one, NativeFunction) and one.is_cached() for one in map(known.__getitem__, missing)
        )


_seen: set[str] = set()  # compiled, cached, or being compiled


def help_compile(claims: str, missing: list[str]) -> None:
    """Compile those of the loops that no other process of :func:`compile_together` has claimed by a file."""
    set_compiler_process()
    import_all()
    known = _by_name()
    for name in missing:
        with suppress(FileExistsError):
            Path(claims, name).touch(exist_ok=False)
            known[name].compile()
