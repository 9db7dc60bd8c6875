"""Loops compiled for a level, in several parts: each is merged and stripped of what nobody calls."""

import pickle
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import llvmlite.binding as llvm
from numba.core import sigutils

from . import entrances
from .codegen import Compiled, compile_for, compile_function, target_machine
from .levels import Level

_LLVM: Final = (20,)  # of llvmlite 0.45; that of 0.44 cannot parse the text of entrances
#: Exceptions that loops may raise, which are lost where one loop calls another by its address.
KNOWN_EXCEPTIONS: Final = {"range() arg 3 must not be zero"}
_PICKLED: Final = re.compile(rb'@\.const\.pickledata\.[0-9a-f]+(?:\.\d+)? = .*?constant \[\d+ x i8\] c"(.*?)"')


class BuildError(Exception):
    """The code must not be shipped."""


class Source(NamedTuple):
    """Functions that a library is made of."""

    loops: Sequence[Any]  # NativeFunction: other loops call them by their addresses
    entrances: Sequence[Any]  # Entrance: Python calls them
    options: dict[str, Any]  # of Numba


def kernels() -> Source:
    """All functions of the package."""
    from gpuimg.kernels.compiled import ENTRANCES, NativeFunction, import_all
    from gpuimg.kernels.scalar import LOOP

    import_all()
    loops = sorted(NativeFunction.all, key=lambda one: one.name)
    return Source(loops, sorted(ENTRANCES, key=lambda one: one.name), LOOP)


def compile_part(
    level: Level, path: Path, part: int = 0, parts: int = 1, source: Callable[[], Source] = kernels
) -> None:
    """Compile one of several parts of the loops to an object file.

    Once in a process that has not imported the kernels; ``source`` does.
    """
    if llvm.llvm_version_info < _LLVM:
        needed = "building takes llvmlite 0.45 or later, not one with LLVM " + ".".join(
            map(str, llvm.llvm_version_info)
        )
        raise BuildError(f"{needed}: pip install -r buildtools/requirements.txt")
    from gpuimg.kernels.lang import set_compiler_process

    set_compiler_process()
    compile_for(level)
    code = _merge(level, *_compile(_divided(source(), parts)[part]))
    check_exceptions(str(code).encode())
    path.write_bytes(target_machine(level).emit_object(code))


def _divided(source: Source, count: int) -> list[Source]:
    """Divide loops into parts that take about equally long to compile, the same ones on every machine.

    Functions of a module stay together: what they call is compiled once for a part.
    """
    modules: dict[str, list[Any]] = {}
    for one in (*source.loops, *source.entrances):
        modules.setdefault(one.function.__module__, []).append(one)
    parts: list[list[Any]] = [[] for _ in range(count)]
    sizes = [0] * count
    weights = {name: code_size(*(one.function for one in members)) for name, members in modules.items()}
    for name in sorted(modules, key=lambda name: (-weights[name], name)):
        part = sizes.index(min(sizes))
        sizes[part] += weights[name]
        parts[part] += modules[name]
    return [
        source._replace(
            loops=[one for one in source.loops if one in part],
            entrances=[one for one in source.entrances if one in part],
        )
        for part in parts
    ]


def code_size(*functions: Any) -> int:
    """Bytes of byte code of functions and of all that they call: about what compiling them takes."""
    from gpuimg.kernels.compiled import called_by

    return sum(len(one.__code__.co_code) for one in called_by(*functions))


def _compile(source: Source) -> tuple[list[Compiled], list[str]]:
    """Compiled functions, and LLVM text of their entrances."""
    compiled, texts = list[Compiled](), list[str]()
    for function in source.loops:
        arguments, result = sigutils.normalize_signature(function.signature)
        loop = compile_function(function.function, result(*arguments), source.options)
        compiled.append(loop)
        texts.append(entrances.loop_entrance(function.name, loop))
    for one in source.entrances:
        loops = [compile_function(one.function.py_func, kind, source.options) for kind in one.numba_signatures()]
        compiled += loops
        texts.append(entrances.python_entrance(one.name, one.signatures, loops, one.records, one.nogil))
    return compiled, texts


def _merge(level: Level, compiled: Iterable[Compiled], texts: list[str]) -> Any:
    """One module, in which only entrances are visible and everything is used."""
    head = f'target triple = "{level.triple}"\n'
    machine = target_machine(level)
    layout = str(machine.target_data)
    whole = llvm.parse_assembly(head)
    whole.data_layout = layout
    for one in compiled:
        module = one.module.clone()
        for function in module.functions:  # helpers that several loops call are in the module of each
            if function.name != one.name and not function.is_declaration and function.linkage == llvm.Linkage.external:
                function.linkage = "linkonce_odr"
        whole.link_in(module)
    lines = "\n".join([head, entrances.common(), *texts]).split("\n")
    declared = dict.fromkeys(line for line in lines if line.startswith("declare"))  # each once
    last = llvm.parse_assembly("\n".join([*(line for line in lines if line not in declared), *declared]))
    last.data_layout = layout
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    builder.getModulePassManager().run(last, builder)
    whole.link_in(last)
    for value in (*whole.functions, *whole.global_variables):
        if not value.is_declaration and not value.name.startswith("gpuimg_"):
            value.linkage = "internal"
    manager = llvm.create_new_module_pass_manager()
    manager.add_global_dead_code_eliminate_pass()
    manager.run(whole, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1)))
    whole.verify()
    return whole


def check_exceptions(code: bytes) -> None:
    """Refuse LLVM text that can raise an exception other than the known ones."""
    for escaped in _PICKLED.findall(code):
        content = re.sub(rb"\\([0-9A-Fa-f]{2})", lambda match: bytes([int(match[1], 16)]), escaped)
        kind, arguments, *_ = pickle.loads(content)
        if not arguments or str(arguments[0]) not in KNOWN_EXCEPTIONS:
            raise BuildError(f"a loop can raise {kind.__name__}{arguments}, and nobody would notice")
