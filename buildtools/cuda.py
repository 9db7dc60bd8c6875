"""Compile the CUDA kernels: ``python -m buildtools --cuda`` writes ``cuda.xz``; needs no GPU.

Numba compiles each kernel to NVVM's intermediate language once, libNVVM makes one PTX text of it, and nvJitLink
assembles that text for each architecture. So machine code for all of them comes from the text that the tests interpret,
and code for one more architecture takes 3 s of CPU time rather than 30.
"""

import hashlib
import json
import lzma
import os
import re
import site
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

#: Compute capabilities that machine code is built for; a GPU takes the highest one of its generation not above its own.
CAPABILITIES: Final = ((7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0))

# What Numba counts: functions that it compiles, arrays in shared memory.
_COUNTERS: Final = re.compile(r"B\d+v\d+|(?<=\$)\d+|(?<=_cudapy_smem_)\d+")
_NAMES: Final = re.compile(r"\b(?:_ZN|_cudapy_)\w+")
_ENVIRONMENTS: Final = re.compile(r"(?m)^\.common .*NumbaEnv.*\n")  # of Python, which nothing refers to


def ptx_of(kernel: Any) -> str:
    """PTX of a kernel, the same in every process: nothing in it depends on what was compiled before."""
    from numba.cuda import compiler
    from numba.cuda.cudadrv import nvvm

    from gpuimg.kernels.cuda.compiler import COMPILED_FOR, function_of, pretended_gpu, signature_of

    with pretended_gpu(COMPILED_FOR):
        library, _ = compiler._compile_pyfunc_with_fixup(
            function_of(kernel), signature_of(kernel), device=False, abi="numba", fastmath=True,
            launch_bounds=kernel.bounds, cc=COMPILED_FOR,
        )  # fmt: skip
    made: bytes = nvvm.compile_ir(_modules(library), **library._nvvm_options, arch="compute_{}{}".format(*COMPILED_FOR))
    text = _ENVIRONMENTS.sub("", made.decode().strip("\0").strip()) + "\n"
    names = {library._entry_name: entry_of(kernel)}
    parameter = re.escape(library._entry_name) + r"(?=_param_)"
    text = re.sub(parameter, entry_of(kernel), text)
    return _NAMES.sub(lambda found: names.setdefault(found[0], f"name{len(names)}"), text)


def _modules(library: Any) -> list[str]:
    """The modules of a kernel and of all functions that it calls, each once: callers first, as libNVVM wants them.

    Numba holds the functions that one calls in a set, and the order of modules has an influence on the code.
    """
    found: dict[Any, str] = {}

    def visit(one: Any, text: str) -> None:
        found[one] = text
        called = {other: str(other._module) for other in one._linking_libraries if other not in found}
        for other in sorted(called, key=lambda other: _COUNTERS.sub("", called[other])):
            if other not in found:
                visit(other, called[other])

    visit(library, str(library._module))
    return list(found.values())


def entry_of(kernel: Any) -> str:
    """Name of a kernel in its PTX and its machine code."""
    return f"gpuimg_{kernel.name}"


def write(path: Path, texts: dict[str, str], capabilities: tuple[tuple[int, int], ...]) -> None:
    """Write the file of kernels, given the PTX of each by its name."""
    from gpuimg.kernels import cuda, native
    from gpuimg.kernels.cuda import shipped
    from gpuimg.kernels.cuda.compiler import linked, retargeted

    kernels = {kernel.name: kernel for kernel in cuda.every_kernel()}
    records = {name: shipped.record_of(kernels[name], entry_of(kernels[name])) for name in texts}
    codes = []
    for one in capabilities:
        cubins = [linked(retargeted(text, one).encode(), "sm_{}{}".format(*one))[0] for text in texts.values()]
        codes.append((shipped.CUBIN, one, cubins))
    # For GPUs of other generations; with the zero at its end that the driver wants.
    ptx = [retargeted(text, CAPABILITIES[0]).encode() + b"\0" for text in texts.values()]
    codes.append((shipped.PTX, CAPABILITIES[0], ptx))
    images, streams = [], []
    for kind, capability, parts in codes:
        packed = lzma.compress(b"".join(parts))
        streams.append(packed)
        images.append(
            {"capability": capability, "kind": kind, "length": len(packed),
             "sha256": hashlib.sha256(packed).hexdigest(), "sizes": [len(part) for part in parts]}
        )  # fmt: skip
    manifest = {
        "format": shipped.FORMAT, "sources": native.source_digest(), "made_with": toolchain(), "kernels": records,
        "images": images,
    }  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(b"".join([lzma.compress(json.dumps(manifest).encode()), *streams]))
    os.replace(unfinished, path)


def toolchain() -> dict[str, str]:
    """Versions of what compiles; raise RuntimeError where something is missing or too old."""
    # NVIDIA's packages look for their libraries in these folders, of which pip's environment for a build is none.
    site.getsitepackages = lambda prefixes=None: list(sys.path)
    try:
        from cuda.bindings import nvjitlink, nvvm

        from gpuimg.kernels.cuda import load_compiler

        load_compiler()
        libraries = {"libNVVM": nvvm.version(), "nvJitLink": nvjitlink.version()}
        versions = {name: version(name) for name in ("numba", "numba-cuda")}
    except Exception as error:  # for each of them something else
        raise RuntimeError(
            f"the CUDA kernels cannot be built, which need numba-cuda with libNVVM and nvJitLink: {error}"
        ) from error
    return versions | {name: ".".join(map(str, numbers)) for name, numbers in libraries.items()}


def build(out: Path) -> None:
    """Compile all kernels for all architectures into a folder's ``cuda.xz``."""
    from gpuimg.kernels import cuda
    from gpuimg.kernels.cuda import shipped

    toolchain()  # which has the libraries found
    start, path = time.process_time(), out / shipped.FILE.name
    write(path, {kernel.name: ptx_of(kernel) for kernel in cuda.every_kernel()}, CAPABILITIES)
    print(f"{path}: {path.stat().st_size} bytes, {time.process_time() - start:.0f} s of CPU", flush=True)
