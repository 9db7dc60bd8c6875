"""Compile the CUDA kernels: ``python -m buildtools.cuda --out kernels/_lib`` writes ``cuda.xz``; needs no GPU.

Numba compiles each kernel to NVVM's intermediate language once, libNVVM makes one PTX text of it, and nvJitLink
assembles that text for each architecture. So machine code for all of them comes from the text that the tests interpret.
Compiling for each architecture instead makes the same text up to 9.0, and takes four times as long.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import os
import re
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

#: Compute capabilities that machine code is built for; a GPU takes the highest one of its generation not above its own.
CAPABILITIES: Final = ((7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0))

# Names with Numba's counters, of functions and of shared memory. Numbers in their place make equal builds.
_COUNTED: Final = re.compile(r"_ZN[\w.$]+|_?cudapy_[\w.$]+")


def ptx_of(kernel: Any) -> str:
    """PTX of a kernel for the lowest of these capabilities."""
    from gpuimg.kernels.cuda.compiler import function_of, pretended_gpu, signature_of
    from numba.cuda import compiler
    from numba.cuda.cudadrv import nvvm

    lowest = CAPABILITIES[0]
    with pretended_gpu(lowest):
        library, _ = compiler._compile_pyfunc_with_fixup(
            function_of(kernel), signature_of(kernel), device=False, abi="numba", fastmath=True,
            launch_bounds=kernel.bounds, cc=lowest,
        )  # fmt: skip
    names = {library._entry_name: entry_of(kernel)}
    modules = [
        _COUNTED.sub(lambda found: names.setdefault(found[0], f"name{len(names)}"), text) for text in library.llvm_strs
    ]
    ptx: bytes = nvvm.compile_ir(modules, **library._nvvm_options, arch="compute_%d%d" % lowest)
    return ptx.decode().strip("\0").strip() + "\n"


def entry_of(kernel: Any) -> str:
    """Name of a kernel in its PTX and its machine code."""
    return f"gpuimg_{kernel.name}"


def retargeted(ptx: str, capability: tuple[int, int]) -> str:
    """The same PTX for another capability."""
    return re.sub(r"(?m)^\.target sm_\d+", ".target sm_%d%d" % capability, ptx, count=1)


def write(path: Path, texts: dict[str, str], capabilities: tuple[tuple[int, int], ...]) -> None:
    """Write the file of kernels, given the PTX of each by its name."""
    from gpuimg.kernels import cuda, sources
    from gpuimg.kernels.cuda import shipped
    from gpuimg.kernels.cuda.compiler import supported

    if missing := set(capabilities) - set(supported()):
        raise RuntimeError(f"the installed CUDA toolkit does not compile for {sorted(missing)}")
    kernels = {kernel.name: kernel for kernel in cuda.every_kernel()}
    records = {name: shipped.record_of(kernels[name], entry_of(kernels[name])) for name in texts}
    codes = [(shipped.CUBIN, one, [_cubin(name, text, one) for name, text in texts.items()]) for one in capabilities]
    # With the zero at its end that the driver wants.
    codes.append((shipped.PTX, CAPABILITIES[0], [text.encode() + b"\0" for text in texts.values()]))
    images, streams = [], []
    for kind, capability, parts in codes:
        packed = lzma.compress(b"".join(parts))
        streams.append(packed)
        images.append(
            {"capability": capability, "kind": kind, "length": len(packed),
             "sha256": hashlib.sha256(packed).hexdigest(), "sizes": [len(part) for part in parts]}
        )  # fmt: skip
    manifest = {
        "format": shipped.FORMAT, "sources": sources.digest(), "made_with": toolchain(), "kernels": records,
        "images": images,
    }  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(b"".join([lzma.compress(json.dumps(manifest).encode()), *streams]))
    os.replace(unfinished, path)


def _cubin(name: str, text: str, capability: tuple[int, int]) -> bytes:
    from gpuimg.kernels.cuda.compiler import assembled

    code = assembled(retargeted(text, capability), capability)[0].code
    if not code.startswith(b"\x7fELF"):
        raise RuntimeError(f"kernel {name} was not assembled for {capability}: nvJitLink is not installed")
    return code


def toolchain() -> dict[str, str]:
    """Versions of what compiles."""
    from cuda.bindings import nvjitlink, nvvm

    return {
        "numba": version("numba"), "numba-cuda": version("numba-cuda"), "libNVVM": "%d.%d" % nvvm.version(),
        "nvJitLink": "%d.%d" % nvjitlink.version(),
    }  # fmt: skip


def build(out: Path) -> None:
    """Compile all kernels for all architectures into a folder's ``cuda.xz``."""
    from gpuimg.kernels import cuda
    from gpuimg.kernels.cuda import shipped

    start, path = time.process_time(), out / shipped.FILE.name
    write(path, {kernel.name: ptx_of(kernel) for kernel in cuda.every_kernel()}, CAPABILITIES)
    print(f"{path}: {path.stat().st_size} bytes, {time.process_time() - start:.0f} s of CPU", flush=True)


def main() -> None:
    """Build the file that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m buildtools.cuda", description="Compile gpuimg's CUDA kernels.")
    parser.add_argument("--out", type=Path, default=Path("kernels/_lib"), help="folder for the file")
    # The device code is compiled by Numba, whatever lies in kernels/_lib.
    os.environ["GPUIMG_NATIVE"] = "jit"
    build(parser.parse_args().out)


if __name__ == "__main__":
    main()
