"""CUDA kernels on their way to a GPU: compiled once, kept on disk, arguments packed as the machine code reads them."""

import hashlib
import json
import os
import re
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.libraries import needs

needs("numba_cuda")

from gpuimg.kernels import cuda as kernels
from gpuimg.kernels import disk
from gpuimg.kernels.cuda import compiler
from gpuimg.kernels.cuda import kernel as kernel_module
from gpuimg.kernels.cuda.sources import files
from tests.fakecuda import FakeGpu

from ..processes import ROOT
from ..processes import python as python_process
from ..ptx import variants
from ..watchdog import on_threads

CAPABILITY = (8, 0)
IMAGES = kernels.Kernel.images  # which the fake replaces
KERNELS = {
    "transform": lambda: kernels.transform_kernel((), "uint8", 2, ""),
    "statistics": lambda: kernels.statistics_kernel((), "float32", ""),
    "mix": lambda: kernels.MIX,
    "huffman": lambda: kernels.JPEG["huffman"],
    "colors": lambda: kernels.JPEG["colors"],
}

SMALL = """
import sys
import numba
from numba import cuda
from gpuimg.kernels.cuda import Kernel

FACTOR = float(sys.argv[1])

@numba.njit
def scaled(x):
    return x * FACTOR

def small(values, n):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < n:
        values[i] = scaled(values[i])

KERNEL = Kernel("small", lambda package: small, ("float32[]", "int32"), 64)
"""
PRINT = """
import hashlib
image = KERNEL.image((8, 0))
print(hashlib.sha256(image.code).hexdigest(), Kernel.compile_count)
"""


def small() -> Any:
    """A kernel that is compiled in a moment."""
    namespace: dict[str, Any] = {"__name__": "gpuimg.kernels.example"}
    exec(SMALL.replace("sys.argv[1]", "2"), namespace)
    kernel = namespace["KERNEL"]
    if kernel in kernels.Kernel.all:  # not a new list: another thread may add to this one
        kernels.Kernel.all.remove(kernel)
    return kernel


# -- what runs is what is tested ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KERNELS)
def test_arguments_are_packed_as_the_machine_code_reads_them(name: str, gpu: FakeGpu) -> None:
    from gpuimg._runtimes.cuda_launch import Arguments

    kernel = KERNELS[name]()
    ptx = variants.ptx_of(kernel, CAPABILITY)
    widths = [int(bits) // 8 for bits in re.findall(r"\.param \.[a-z](\d+) \w+_param_\d+[,\n]", ptx)]
    layout = Arguments(kernel).layout
    assert [struct.calcsize(letter) for letter in layout.format] == widths
    ends = [0]
    for width in widths:
        ends.append(-(-ends[-1] // width) * width + width)
    assert layout.size == ends[-1]


@pytest.mark.parametrize("capability", [(8, 6), (8, 9), (12, 0), (99, 0)])
def test_kernels_are_compiled_for_any_gpu_the_toolkit_knows(capability: tuple[int, int]) -> None:
    """And left to the driver for a newer one."""
    image = compiler.assembled(compiler.compile_ptx(small(), capability), capability)[0]
    if capability < (99, 0):
        assert image.code.startswith(b"\x7fELF")
    else:
        assert image.code.endswith(b"}\0")
        assert b".visible .entry " + image.entry.encode() in image.code


# -- once --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_other_processes_compile_only_what_differs(kernel_cache: Path) -> None:
    """Two at the same time agree."""

    def started(factor: float, before: str = "") -> subprocess.Popen[str]:
        arguments = [sys.executable, "-W", "error", "-c", before + SMALL + PRINT, str(factor)]
        environment = os.environ | {"NUMBA_CACHE_DIR": str(kernel_cache), "PYTHONPATH": str(ROOT)}
        return subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, text=True)

    several = [started(2.0), started(2.0), started(3.0)]
    (code, _), (again, _), (other, made) = (process.communicate(timeout=300)[0].split() for process in several)
    assert code == again != other
    assert made == "1"
    later = started(2.0, "from numba import cuda\ndel cuda.compile_ptx\n")
    assert later.communicate(timeout=300)[0].split() == [code, "0"]
    assert [path.suffix for path in kernel_cache.rglob("*") if path.is_file()] == [".cubin"] * 2


def test_a_driver_is_not_given_what_a_newer_cuda_made(kernel_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = kernels.Kernel.compile_count
    for toolkit, driver, compiled in [(13, 13, 1), (13, 13, 1), (12, 12, 2), (12, 12, 2), (12, 14, 2)]:
        monkeypatch.setattr(compiler, "toolkit", lambda toolkit=toolkit: toolkit)
        kernel_module._images.clear()
        next(kernels.MARKS["mark"].images(CAPABILITY, driver))
        assert kernels.Kernel.compile_count == made + compiled
    assert len([*kernel_cache.rglob("*.cubin")]) == 2


@pytest.mark.parametrize(("status", "compiled"), [(209, 1), (2, 0)])
def test_what_a_driver_refuses_is_compiled_anew(
    kernel_cache: Path, gpu: FakeGpu, capsys: pytest.CaptureFixture[str], status: int, compiled: int
) -> None:
    """Once, and only if it is not for this driver: it may have no memory. The first time a line says so."""
    from gpuimg._runtimes.cuda_launch import Loaded

    def load(module: int, image: int) -> int:
        tried.append(image)
        return status

    tried, made = list[int](), kernels.Kernel.compile_count
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels.Kernel, "images", IMAGES)
        patch.setattr(gpu.cuda, "cuModuleLoadData", load)
        patch.setattr(gpu.cuda, "_known", {})
        for _ in range(2):
            with pytest.raises(gpu.cupy.cuda.driver.CUDADriverError):
                Loaded(kernels.MARKS["mark"])
    assert capsys.readouterr().err.count("gpuimg compiles CUDA kernels, once for this machine") == 1
    assert (kernels.Kernel.compile_count - made, len(tried)) == (1 + 2 * compiled, 2 + 2 * compiled)


def test_threads_compile_a_kernel_once(kernel_cache: Path) -> None:
    made, barrier, images = kernels.Kernel.compile_count, threading.Barrier(4), list[Any]()

    def lane() -> None:
        kernel = small()  # each its own, as after a cache of kernels was full
        barrier.wait()
        images.append(kernel.image(CAPABILITY))

    on_threads(lane, 4)
    assert kernels.Kernel.compile_count == made + 1
    assert all(image == images[0] for image in images)


def test_a_hit_needs_no_compiler(kernel_cache: Path) -> None:
    """In a process that can import none of them, and has other versions of Python and of NumPy."""
    made = {kernel.name: kernel.image((9, 0)) for kernel in kernels.MARKS.values()}
    said = python_process("-c", WITHOUT_COMPILERS, *made, NUMBA_CACHE_DIR=str(kernel_cache), GPUIMG_NATIVE=None)
    sums = {name: hashlib.sha256(image.entry.encode() + image.code).hexdigest() for name, image in made.items()}
    assert json.loads(said) == {"found": sums, "missing": "ImportError: numba is a compiler"}


WITHOUT_COMPILERS = """
import hashlib, json, sys
import numpy
COMPILERS = "numba", "numba_cuda", "llvmlite", "cuda"
before = set(sys.modules)  # a .pth file of CUDA's packages imports one of them

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in COMPILERS:
            raise ImportError(name + " is a compiler")

sys.meta_path.insert(0, Refused())
sys.version = "3.99.0 (another)"
numpy.__version__ = "9.9.9"
from gpuimg.kernels import cuda

kernels = {kernel.name: kernel for kernel in cuda.every_kernel()}
images = {name: kernels[name].image((9, 0)) for name in sys.argv[1:]}
found = {name: hashlib.sha256(image.entry.encode() + image.code).hexdigest() for name, image in images.items()}
try:
    cuda.MIX.image((9, 0))
except ImportError as error:
    missing = ": ".join(str(error).split(": ")[-2:])
assert not any(name.partition(".")[0] in COMPILERS for name in set(sys.modules) - before)
print(json.dumps({"found": found, "missing": missing}))
"""

IMPORTED = """
import importlib, json, os, sys
from numba import cuda
importlib.import_module("gpuimg.kernels.cuda")
before = set(sys.modules)
for module in sys.argv[1:]:
    if os.fork() == 0:
        importlib.import_module(f"gpuimg.kernels.cuda.{module}")
        loaded = [sys.modules[one].__file__ for one in set(sys.modules) - before if one.startswith("gpuimg.kernels.")]
        print(json.dumps([module, loaded]), flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.mark.slow
def test_the_sources_of_a_kernel_are_all_that_it_imports() -> None:
    """But for the packages above its modules, and for what ``gpuimg.kernels.cuda`` imports and no kernel does."""
    codes = [kernel.code for kernel in kernels.every_kernel()]
    modules = {code.module for code in codes if isinstance(code, kernel_module.DeviceCode)}
    said = python_process("-c", IMPORTED, *modules).splitlines()
    assert len(said) == len(modules) > 5
    for module, loaded in map(json.loads, said):
        named = files(module)
        assert {path for name in loaded if (path := Path(name).resolve()).name != "__init__.py"} <= named
        assert Path(kernels.__file__).with_name(f"{module}.py").resolve() in named
        assert not {path.stem for path in named} & {"compiled", "disk", "compiler", "kernel", "shipped"}


# -- functions of users ------------------------------------------------------------------------------------------------


def test_the_same_function_made_again_is_the_same_kernel() -> None:
    import numba

    def dimmed(factor: float) -> Any:
        @numba.njit
        def function(r: float, g: float, b: float, y: float, x: float, value: float) -> Any:
            return r * factor, g * factor, b * factor

        return function

    one, again, other = (kernels.transform_kernel((dimmed(factor),), "uint8", 1, "").key for factor in (0.5, 0.5, 0.25))
    assert one == again != other


def test_as_many_kernels_of_users_stay_as_are_of_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "_package_folder", lambda: tmp_path)
    monkeypatch.setattr(disk, "folder", lambda: tmp_path)
    for k in range(5):
        disk.store(f"small-types-{k}.cubin", b"code", others=2)
        os.utime(tmp_path / f"small-types-{k}.cubin", ns=(k, k))
    disk.store("other-types-0.cubin", b"code")
    (tmp_path / "other-types-0.cubin").unlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"small-types-{k}.cubin" for k in (2, 3, 4)]
