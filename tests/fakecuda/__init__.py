"""Real CuPy on a fake CUDA: the runtime runs on it unchanged, and its order of operations is checked.

Images and frames are decoded, uploaded and copied; gpuimg's kernels are written down, or run by the interpreter of
tests/ptx. What is not modelled: nvImageCodec's and PyAV's own faults, the null stream's implicit order with blocking
streams (leaving it out is the stricter), and what ``cudaMalloc`` and ``cudaFree`` wait for.
"""

import atexit
import ctypes
import gc
import importlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpuimg._decoding import nvimgcodec
from gpuimg._runtimes import devices as runtimes
from gpuimg._runtimes import probe
from gpuimg._video import files
from gpuimg.kernels import cuda as kernels

from ..libraries import unavailable
from . import decoder, launches, video
from .api import Cuda
from .build import UnavailableError, built, libraries
from .decoder import FATES, LEFT_TO_THE_CPU, UNWRITTEN, file, other
from .order import Op, Order, Range, Stream, span_of

# What imports CuPy.
_PARTS = (
    "cuda", "cuda_exact", "cuda_prepass", "cuda_decode", "cuda_jpeg", "cuda_launch", "cuda_marks", "cuda_memory",
    "cuda_nvimgcodec", "cuda_video",
)  # fmt: skip
_MODULES = tuple(f"gpuimg._runtimes.{name}" for name in _PARTS)
_CUPY = ("cupy", "cupyx", "cupy_backends")


@cache
def _loaded() -> tuple[Cuda, str, dict[str, Any]] | str:
    """The fake library of this process, its CuPy's folder, and CuPy's modules while no test uses them; or why not."""
    with suppress(OSError):
        ctypes.CDLL("libcuda.so.1")
        return "this machine has CUDA's driver, which a process cannot have besides a fake one"
    try:
        folder = built()
    except UnavailableError as reason:
        return str(reason)
    install = [ctypes.CDLL(str(library)).fake_install for library in libraries(folder)]  # CuPy finds them by name
    for one in install:
        atexit.register(one, None)
    return Cuda(install), str(folder / "site"), {}


@contextmanager
def _cupy(patch: pytest.MonkeyPatch) -> Iterator[tuple[Cuda, Any]]:
    """Let ``import cupy`` find CuPy on the fake."""
    loaded = _loaded()
    if isinstance(loaded, str):
        unavailable(loaded)
    cuda, site, modules = loaded
    patch.setenv("CUPY_CACHE_IN_MEMORY", "1")
    patch.setenv("CUPY_ACCELERATORS", "")
    patch.syspath_prepend(site)
    before = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in _CUPY}
    sys.modules.update(modules)
    cuda.is_on = True
    try:
        cupy = importlib.import_module("cupy")
        if not modules:
            _use_the_fakes_compiler(cupy)
        yield cuda, cupy
    finally:
        cuda.is_on = False
        modules.update({name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in _CUPY})
        sys.modules.update(before)


def _use_the_fakes_compiler(cupy: Any) -> None:
    """Let CuPy, which looks for NVRTC once, find the fake's."""
    from cuda import pathfinder

    found = SimpleNamespace(_handle_uint=ctypes.CDLL("libcuda.so.1")._handle)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pathfinder, "load_nvidia_dynamic_lib", lambda name: found)
        cupy.cuda.nvrtc.getVersion()


class FakeGpu:
    def __init__(self, cuda: Cuda, cupy: Any) -> None:
        self.cuda, self.cupy = cuda, cupy
        self.order = cuda.order = Order(cuda.order)
        self.problems, self.damaged = self.order.problems, self.order.damaged
        self.driver = launches.Driver(self.order)
        cuda.launch, cuda.capturing = self.driver.launch, None
        self.refuse_above: int | None = None  # bytes
        cupy.cuda.set_allocator(self._allocate)
        self.runtime: Any = None  # the module under test,
        self.decode: Any = None  # the one that it decodes with,
        self.nvimgcodec: Any = None  # and its adapter of nvImageCodec
        self.library: Any = decoder.make(self.order, lambda: cupy.cuda.Device().id)  # what passes for nvImageCodec
        self.nvdec = video.Nvdec(self.order, cuda.current_context)  # and for PyAV

    def _allocate(self, size: int) -> Any:
        """Memory of CuPy's pool, in which nothing means anything."""
        if self.refuse_above is not None and size > self.refuse_above:
            raise self.cupy.cuda.memory.OutOfMemoryError(size, 0, 0)
        with self.order.lock:
            memory = self.cupy.get_default_memory_pool().malloc(size)
            self.order.poison(memory.ptr, memory.ptr + size)
            self.order.note("allocate", self.key(), size=size, address=memory.ptr)
        return memory

    def key(self, stream: Any = None) -> Stream:
        """The stream of CuPy's, by default the current one, as operations name it."""
        address = (stream or self.cupy.cuda.get_current_stream()).ptr
        return self.cuda.stream_of(address)

    def values(self, array: Any) -> Any:
        low, high = self.range_of(array)
        content = self.order.content(low, high)
        return np.ndarray(array.shape, array.dtype, content, array.data.ptr - low if content.size else 0, array.strides)

    def range_of(self, array: Any) -> Range:
        return span_of(array.data.ptr, array.shape, array.strides, array.itemsize)

    def use(self, array: Any) -> Op:
        return self.order.enqueue(self.key(), "use", reads=[self.range_of(array)])

    def use_all(self, arrays: Iterable[Any]) -> list[Any]:
        """Use each, and return copies of their values."""
        return [values for _, values in ((self.use(array), self.values(array).copy()) for array in arrays)]

    @property
    def uploads(self) -> list[Op]:
        """Copies to the device but those of where marks are, which a kernel on the same stream reads next."""
        following: dict[Stream | None, str] = {}
        found = []
        for op in reversed(self.order.log):
            if op.kind == "upload" and following.get(op.stream) != "marks":
                found.append(op)
            following[op.stream] = op.kind
        return found[::-1]

    @property
    def waits(self) -> list[Op]:
        """Waits of the host, but those on streams that only decode: for the marks of images and what became of them."""
        decoding = {op.stream for op in self.order.of("decode")}

        def of_decoding(op: Op) -> bool:
            recorded = op.told["recorded"]
            return recorded.stream in decoding if recorded is not None else op.told["pending"] <= decoding

        return [op for op in self.order.of("host wait") if not of_decoding(op)]

    def stream(self) -> Any:
        return self.cupy.cuda.Stream(non_blocking=True)


def _forget_devices() -> None:
    for one in (runtimes._cuda, runtimes.default_device, probe._driver, probe.driver_devices, nvimgcodec.decode_params):
        one.cache_clear()


@contextmanager
def installed() -> Iterator[FakeGpu]:
    with pytest.MonkeyPatch.context() as patch, _cupy(patch) as (cuda, cupy):
        gpu = FakeGpu(cuda, cupy)
        patch.setattr(probe, "gpu_problem", lambda *_: None)
        patch.setattr(nvimgcodec, "library", lambda: gpu.library)
        patch.setattr(files, "library", lambda: gpu.nvdec)
        patch.setattr(kernels.Kernel, "images", lambda kernel, at, _: [gpu.driver.image(kernel, at)])
        before = {name: sys.modules.pop(name) for name in _MODULES if name in sys.modules}
        _forget_devices()
        gc.disable()  # memory is then given back at the same places in every run
        gc.freeze()  # a test's own gc.collect() looks at what it made
        try:
            gpu.runtime = importlib.import_module("gpuimg._runtimes.cuda")
            gpu.decode = importlib.import_module("gpuimg._runtimes.cuda_decode")
            gpu.nvimgcodec = importlib.import_module("gpuimg._runtimes.cuda_nvimgcodec")
            yield gpu
        finally:
            _forget_devices()
            for name in _MODULES:
                sys.modules.pop(name, None)
            sys.modules.update(before)
            del gpu.runtime, gpu.decode, gpu.nvimgcodec
            gc.collect()
            cupy.get_default_memory_pool().free_all_blocks()
            cupy.get_default_pinned_memory_pool().free_all_blocks()
            gc.unfreeze()
            gc.enable()


__all__ = ["FATES", "LEFT_TO_THE_CPU", "UNWRITTEN", "FakeGpu", "Op", "Order", "Stream", "file", "installed", "other"]
