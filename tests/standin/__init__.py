"""A stand-in for a GPU: the CUDA runtime runs on it unchanged, and its order of operations is checked.

Images and frames are decoded, uploaded and copied; nothing else is computed. What is not modelled: nvImageCodec's,
PyAV's and CuPy's own faults, the null stream's implicit order with blocking streams (leaving it out is the stricter),
and what ``cudaMalloc`` and ``cudaFree`` wait for.
"""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gpuimg._decoding import nvimgcodec
from gpuimg._runtimes import devices as runtimes
from gpuimg._runtimes import probe
from gpuimg._video import files
from gpuimg.kernels import cuda as kernels

from . import arrays, decoder, launches, video
from .decoder import FATES, LEFT_TO_THE_CPU, UNWRITTEN, file
from .order import Op, Order, Stream

# What imports CuPy.
_PARTS = (
    "cuda", "cuda_exact", "cuda_prepass", "cuda_decode", "cuda_jpeg", "cuda_launch", "cuda_marks", "cuda_memory",
    "cuda_resident", "cuda_video",
)  # fmt: skip
_MODULES = tuple(f"gpuimg._runtimes.{name}" for name in _PARTS)


class Standin:
    """The stand-in's interface for tests."""

    def __init__(self) -> None:
        self.order = Order()
        self.cupy: Any
        self.cupy, self.pools = arrays.make(self.order)
        self.driver = launches.Driver(self.order, self.cupy)
        launches.install(self.driver, self.cupy.cuda)
        self.runtime: Any = None  # the module under test,
        self.decode: Any = None  # and the one that it decodes with
        self.clips: Any = None  # clips too
        self.library: Any = None  # what passes for nvImageCodec
        self.nvdec = video.Nvdec(self.order, self.cupy.cuda.current_context)  # and for PyAV

    @property
    def problems(self) -> list[str]:
        """Return the problems found."""
        return self.order.problems

    @property
    def damaged(self) -> set[int]:
        """Images of a batch whose segments the kernels find damaged."""
        return self.order.damaged

    def use(self, array: Any) -> Op:
        """Let the caller's current stream read an array."""
        stream = self.cupy.cuda.get_current_stream()
        return self.order.enqueue(stream.key, "use", reads=[array.range])

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
        """A stream of the caller's."""
        return self.cupy.cuda.Stream(non_blocking=True)


@contextmanager
def installed() -> Iterator[Standin]:
    """Let ``device="cuda:0"`` and ``"cuda:1"`` be stand-ins."""
    standin = Standin()
    standin.library = library = decoder.make(standin.order, standin.cupy.cuda.Device)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "cupy", standin.cupy)
        patch.setitem(sys.modules, "cupy.cuda", standin.cupy.cuda)
        patch.setattr(probe, "gpu_problem", lambda *_: None)
        patch.setattr(nvimgcodec, "library", lambda: library)
        patch.setattr(files, "library", lambda: standin.nvdec)
        patch.setattr(kernels.Kernel, "images", lambda kernel, at, _: [standin.driver.image(kernel, at)])
        before = {name: sys.modules.pop(name) for name in _MODULES if name in sys.modules}
        runtimes._cuda.cache_clear()
        nvimgcodec.decode_params.cache_clear()
        gc.disable()  # memory is then given back at the same places in every run
        gc.freeze()  # a test's own gc.collect() looks at what it made
        try:
            parts = ("cuda", "cuda_decode", "cuda_video")
            standin.runtime, standin.decode, standin.clips = (
                importlib.import_module(f"gpuimg._runtimes.{name}") for name in parts
            )
            yield standin
        finally:
            gc.unfreeze()
            gc.enable()
            runtimes._cuda.cache_clear()
            nvimgcodec.decode_params.cache_clear()
            for name in _MODULES:
                sys.modules.pop(name, None)
            sys.modules.update(before)


__all__ = ["FATES", "LEFT_TO_THE_CPU", "UNWRITTEN", "Op", "Order", "Standin", "Stream", "file", "installed"]
