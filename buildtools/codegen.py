"""Numba as a compiler for another processor: it types and lowers a function, LLVM optimizes it, and nothing runs.

What is replaced here is private to Numba; the version that wheels are built with is pinned in pyproject.toml.
"""

from typing import Any, NamedTuple

import llvmlite.binding as llvm
from numba.core import codegen, compiler, cpu, registry, typing
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import _FunctionCompiler  # type: ignore[attr-defined]

from .levels import Level


class Compiled(NamedTuple):
    """A function with everything that it calls."""

    module: Any  # of llvmlite, optimized
    name: str  # of the function in it: ``i32 name(result *, exception **, arguments...)``
    arguments: list[str]  # LLVM types of the arguments after those two
    result: str  # Numba's name of the result's type
    written: list[bool]  # of each argument: does it point to memory that the function writes


def target_machine(level: Level) -> Any:
    """A compiler of position-independent code for a level."""
    target = llvm.Target.from_triple(level.triple)
    return target.create_target_machine(cpu=level.cpu, features=level.features, opt=3, reloc="pic", codemodel="small")


class _NoEngine:
    """Stands in for the engine that would run the code."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **options: 0


def compile_for(level: Level) -> None:
    """Have Numba compile for a level, in the rest of this process, where it has not begun to for this processor."""
    if "_toplevel_target_context" in vars(registry.cpu_target):
        raise RuntimeError("Numba compiles for this processor already: import the kernels after compile_for")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()

    def initialize(self: Any, module: Any) -> None:
        self._tm_features = level.features
        self._tm = target_machine(level)
        self._engine = _NoEngine()
        self._target_data = self._tm.target_data
        self._data_layout = str(self._target_data)
        self._loopvect, self._opt_level = False, 0

    def finalized_address(library: Any, name: str) -> int:
        library._ensure_finalized()
        return 1  # nobody calls it

    def finalized_function(context: Any, library: Any, description: Any, environment: Any) -> Any:
        library._ensure_finalized()
        return [].append  # a builtin function, which Numba requires; nobody calls it

    llvm.get_process_triple = lambda: level.triple
    codegen.CPUCodegen._init = initialize
    codegen.JITCPUCodegen._add_module = lambda self, module: None
    codegen.JITCPUCodegen._check_llvm_bugs = lambda self: None
    codegen.JITCPUCodegen._get_host_cpu_name = lambda self: level.cpu
    codegen.JITCPUCodegen.set_env = lambda *args: None
    codegen.JITCodeLibrary._finalize_specific = lambda self: None
    codegen.JITCodeLibrary.get_pointer_to_function = finalized_address
    cpu.CPUContext.get_executable = finalized_function


class _Compiler(_FunctionCompiler):  # type: ignore[misc]
    """Numba's compiler without entrances for Python and C."""

    def _customize_flags(self, flags: Any) -> Any:
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        flags.enable_pyobject = False
        return flags


def compile_function(function: Any, signature: typing.Signature, options: dict[str, Any]) -> Compiled:
    """Compile a Python function for the level of :func:`compile_for`."""
    with global_compiler_lock:
        maker = _Compiler(function, registry.cpu_target, options, {}, compiler.Compiler)
        result = maker.compile(signature.args, signature.return_type)
        result.library._ensure_finalized()
    description = result.fndesc
    kind = result.target_context.call_conv.get_function_type(description.restype, description.argtypes)
    arguments = ["ptr" if str(one).endswith("*") else str(one) for one in kind.args[2:]]
    module, name = result.library._final_module, description.llvm_func_name
    written = [_is_written(set(one.attributes)) for one in list(module.get_function(name).arguments)[2:]]
    return Compiled(module, name, arguments, str(description.restype), written)


def _is_written(attributes: set[bytes]) -> bool:
    """Whether LLVM follows a pointer everywhere, and finds a store. It cannot where the address is kept as a number."""
    return bool(attributes & {b"captures(none)", b"nocapture"}) and not attributes & {b"readonly", b"readnone"}
