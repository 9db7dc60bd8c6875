"""The variants of the CUDA kernels, compiled for three architectures without a GPU, and what their code takes.

Of the file that a build left in ``kernels/_lib``, else as the installed numba-cuda and nvJitLink make them.
"""

from __future__ import annotations

import functools
import hashlib
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest

from buildtools import cuda as build
from gpuimg._data.images import KINDS
from gpuimg.kernels import ops
from gpuimg.kernels.cuda import shipped

CAPABILITIES = [(7, 5), (8, 0), (9, 0)]
SOURCES = ("uint8", "float32")
BUILDS = (ops.PLAIN, ops.FULL, ops.MOVING)


@numba.njit
def dim(r, g, b, y, x, value):  # type: ignore[no-untyped-def]
    """A user's function."""
    return r * value, g * value + x * np.float32(0.001), b * value + y * np.float32(0.001)


JPEG_KERNELS = ("find", "recoded", "huffman", "inverse_dct", "reduced_dct", "colors")
MARK_KERNELS = ("mark", "compare")
VIDEO_KERNELS = ("frame8", "frame16")
ARTEFACT_KERNELS = ("code_blocks", "code_pixels")


class Variant(NamedTuple):
    """One kernel that a batch can ask for; of those of JPEGs, of marks and of videos ``source`` is the name."""

    kernel: str
    source: str
    kind: str = ""
    functions: tuple[Any, ...] = ()
    build: str = ops.PLAIN

    def __str__(self) -> str:
        words = [self.kernel, self.source, self.kind, "user" if self.functions else "plain"]
        return "-".join(word for word in [*words, self.build] if word)


VARIANTS = [
    *(Variant("transform", source, kind, (), build) for source in SOURCES for kind in KINDS for build in BUILDS),
    *(Variant("statistics", source, "", (), build) for source in SOURCES for build in BUILDS),
    Variant("transform", "uint8", "float16", (dim,)),
    Variant("statistics", "uint8", "", (dim,)),
    Variant("mix", "float32", "float32"),
    Variant("exact", "uint8", "uint8"),
    Variant("copy", "int32", "int32"),
    *(Variant("jpeg", name) for name in JPEG_KERNELS),
    *(Variant("marks", name) for name in MARK_KERNELS),
    *(Variant("video", name) for name in VIDEO_KERNELS),
    *(Variant(kernel, source) for kernel in (*ARTEFACT_KERNELS, "elastic") for source in SOURCES),
]


def parameters(chosen: list[Variant] = VARIANTS) -> list[Any]:
    """Variants as parameters of a test; all but the first of each kernel and build are slow."""
    seen: set[tuple[str, str]] = set()
    made = []
    for variant in chosen:
        name = variant.source if variant.kernel in ("jpeg", "marks", "video") else variant.kernel
        marks = [pytest.mark.slow] if (name, variant.build) in seen else []
        seen.add((name, variant.build))
        made.append(pytest.param(variant, marks=marks, id=str(variant)))
    return made


class Code(NamedTuple):
    """A compiled kernel."""

    ptx: str
    registers: int
    stack: int  # bytes, of what is spilled too


def target(capability: tuple[int, int]) -> str:
    """Name of an architecture."""
    return f"sm_{capability[0]}{capability[1]}"


@functools.cache
def kernel_of(variant: Variant) -> Any:
    """The kernel that the CUDA runtime launches for a variant."""
    from gpuimg.kernels import cuda as kernels

    kernel, source, kind, functions, build = variant
    tables: dict[str, Any] = {"jpeg": kernels.JPEG, "marks": kernels.MARKS, "video": kernels.FRAMES}
    tables |= {"elastic": kernels.ELASTIC, **kernels.ARTEFACTS}
    single = {"mix": kernels.MIX, "copy": kernels.COPY, "exact": kernels.EXACT}
    if kernel in tables:
        return tables[kernel][source]
    if kernel in single:
        return single[kernel]
    if kernel == "statistics":
        return kernels.statistics_kernel(functions, source, build)
    return kernels.transform_kernel(functions, source, KINDS[kind], build)


_BUILDER = hashlib.sha256(Path(build.__file__).read_bytes()).hexdigest()
_USERS_KEPT = 4  # texts with functions of users that stay on disk, of each variant


@functools.cache
def ptx_of(kernel: Any, capability: tuple[int, int]) -> str:
    """PTX of a kernel: as it ships, or with functions of users as the runtime compiles it.

    What ships is read from the file that a build left, else made as a build does. It is cached on disk, as machine code
    is: several tests read it, in several processes.
    """
    from gpuimg.kernels.cuda.compiler import retargeted

    return runtimes_ptx(kernel, capability) if kernel.users else retargeted(_shipped_ptx(kernel), capability)


def runtimes_ptx(kernel: Any, capability: tuple[int, int]) -> str:
    """PTX of a kernel as the runtime compiles what does not ship."""
    from gpuimg.kernels.cuda import compiler

    # For all capabilities at once, since what takes longest, Numba's inference of types, is then done once.
    makers = {one: functools.partial(compiler.compile_ptx, kernel, one) for one in {capability, *CAPABILITIES}}
    return _cached(kernel, capability, makers)


@functools.cache
def _shipped_ptx(kernel: Any) -> str:
    opened = shipped.opened()
    if not isinstance(opened, str):
        return opened.code(opened.best((99, 0)))[kernel.name].rstrip(b"\0").decode()
    return _cached(kernel, _BUILDER, {_BUILDER: functools.partial(build.ptx_of, kernel)})


def _cached(kernel: Any, wanted: Any, texts: dict[Any, Any]) -> str:
    """One of some texts, all of which are made where that one is not on disk."""
    from gpuimg.kernels import disk
    from gpuimg.kernels.cuda import compiler

    names = {one: f"{compiler.key_of(kernel, toolchain(), one)}.ptx" for one in texts}
    found = disk.read(names[wanted], bytes.decode) if compiler.is_stored(kernel) else None
    if found is None:
        made = {one: make() for one, make in texts.items()}
        found = made[wanted]
        if compiler.is_stored(kernel):
            for one, text in made.items():
                disk.store(names[one], text.encode(), _USERS_KEPT if kernel.users else 0)
    return str(found)


@functools.cache
def compiled(variant: Variant, capability: tuple[int, int]) -> Code:
    """Code of a variant for an architecture, and what nvJitLink says that its machine code takes; needs no GPU."""
    from gpuimg.kernels.cuda import compiler

    ptx = ptx_of(kernel_of(variant), capability)
    said = compiler.assembled(ptx, capability)[1]
    ((registers, stack),) = re.findall(r"used (\d+) registers, .*?(\d+) stack", said)
    return Code(ptx, int(registers), int(stack))


def ptx_instructions(ptx: str) -> int:
    """Statements of a PTX text that are no directives."""
    lines = (line.strip() for line in ptx.splitlines())
    return sum(line.endswith(";") and not line.startswith((".", "//")) for line in lines)


def toolchain() -> dict[str, str]:
    """Return the versions of the compilers."""
    from cuda.bindings import nvjitlink

    return {"numba-cuda": version("numba-cuda"), "nvJitLink": ".".join(map(str, nvjitlink.version()))}
