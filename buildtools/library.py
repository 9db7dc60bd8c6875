"""One library: all loops compiled for a level, merged, stripped of what nobody calls, linked and checked."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import llvmlite.binding as llvm
from numba.core import sigutils

from . import entrances
from .codegen import Compiled, compile_for, compile_function, target_machine
from .elf import check
from .levels import LEVELS, OTHERS, Level
from .link import link

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


def build_library(name: str, path: Path, source: Callable[[], Source] = kernels) -> None:
    """Build the library of a level, or the object file for another system.

    Once in a process that has not imported the kernels; ``source`` does.
    """
    level = (LEVELS | OTHERS)[name]
    compile_for(level)
    code = _merge(level, *_compile(source()))
    check_exceptions(str(code).encode())
    path.parent.mkdir(parents=True, exist_ok=True)
    content = target_machine(level).emit_object(code)
    if name in OTHERS:
        path.write_bytes(content)
    else:
        link(content, path, level.triple)
        check(path, level.triple)


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
    text = _without_repeats("\n".join([head, entrances.common(level.triple), *texts]))
    last = llvm.parse_assembly(text)
    last.data_layout = layout
    _run_passes(last, machine, speed_level=2)
    whole.link_in(last)
    for value in (*whole.functions, *whole.global_variables):
        if not value.is_declaration and not value.name.startswith("gpuimg_"):
            value.linkage = "internal"
    manager = llvm.create_new_module_pass_manager()
    manager.add_global_dead_code_eliminate_pass()
    manager.run(whole, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1)))
    whole.verify()
    return whole


def _run_passes(module: Any, machine: Any, speed_level: int) -> None:
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=speed_level))
    builder.getModulePassManager().run(module, builder)


def _without_repeats(text: str) -> str:
    """LLVM text in which nothing is declared twice."""
    seen, lines = set[str](), []
    for line in text.split("\n"):
        if not line.startswith("declare") or line not in seen:
            lines.append(line)
        seen.add(line)
    return "\n".join(lines)


def check_exceptions(code: bytes) -> None:
    """Refuse LLVM text that can raise an exception other than the known ones."""
    for escaped in _PICKLED.findall(code):
        content = re.sub(rb"\\([0-9A-Fa-f]{2})", lambda match: bytes([int(match[1], 16)]), escaped)
        kind, arguments, *_ = pickle.loads(content)
        if not arguments or str(arguments[0]) not in KNOWN_EXCEPTIONS:
            raise BuildError(f"a loop can raise {kind.__name__}{arguments}, and nobody would notice")
