"""The parts of CuPy and nvImageCodec that only the benchmarks use: indices, clocks, plain CUDA kernels.

Comparisons and indices by arrays are computed, as the checks of pixels are made of them; kernels still compute nothing,
and every clock says that a millisecond passed.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from bench.gpu.child import Context
from gpuimg._decoding import nvimgcodec

from . import Standin, file

SIZES = [(41, 57), (48, 64), (56, 40), (64, 64)]  # of the first, rows and images do not end at a multiple of anything


def photos(count: int) -> list[bytes]:
    """Files that the stand-in's decoders take, all of them or half of them of one size."""
    return [file(*SIZES[max(k - count // 2, 0) % len(SIZES)], progressive=False) for k in range(count)]


class Tried(Context):
    """A part's context with the stand-in's photos."""

    def photos(self, name: str, count: int) -> list[bytes]:
        """A few."""
        return photos(8)


@contextmanager
def extended(gpu: Standin) -> Iterator[None]:
    """Let the benchmarks find what they use."""
    with pytest.MonkeyPatch.context() as patch:
        _arrays(gpu, patch)
        _devices(gpu)
        _decoders(patch)
        yield


def _arrays(gpu: Standin, patch: pytest.MonkeyPatch) -> None:
    cupy = gpu.cupy
    array_class = cupy.ndarray
    plain_get, plain_set = array_class.__getitem__, array_class.__setitem__

    def key() -> Any:
        return cupy.cuda.get_current_stream().key

    def get(self: Any) -> Any:
        """Copy in the order of the current stream and wait, as CuPy does."""
        gpu.order.enqueue(key(), "download", reads=[self.range])
        cupy.cuda.get_current_stream().synchronize()
        return self.values.copy()

    def getitem(self: Any, index: Any) -> Any:
        if not isinstance(index, array_class):
            return plain_get(self, index)
        gpu.order.enqueue(key(), "gather", perhaps=[self.range])
        return cupy.asarray(self.values[index.values])

    def setitem(self: Any, index: Any, value: Any) -> None:
        if not isinstance(index, array_class):
            return plain_set(self, index, value)  # type: ignore[no-any-return]
        self.values[index.values] = value.values
        gpu.order.enqueue(key(), "scatter", writes=[self.range])
        return None

    def interface(self: Any) -> dict[str, Any]:
        """Of contiguous arrays."""
        assert self.flags.c_contiguous
        return {
            "version": 3, "shape": self.shape, "typestr": self.dtype.str, "data": (self.data.ptr, False),
            "strides": None, "stream": cupy.cuda.get_current_stream().ptr or 1,
        }  # fmt: skip

    patch.setattr(array_class, "__cuda_array_interface__", property(interface))
    patch.setattr(array_class, "get", get, raising=False)
    patch.setattr(array_class, "__getitem__", getitem)
    patch.setattr(array_class, "__setitem__", setitem)
    cupy.empty_like = lambda array: cupy.empty(array.shape, array.dtype)
    cupy.asnumpy = lambda array: array.get()

    def copy_from_device_async(self: Any, source: Any, size: int, stream: Any = None) -> None:
        order = gpu.order
        order.content(self.ptr, self.ptr + size)[:] = order.content(source.ptr, source.ptr + size)
        reads, writes = [(source.ptr, source.ptr + size)], [(self.ptr, self.ptr + size)]
        order.enqueue((stream or cupy.cuda.get_current_stream()).key, "copy", reads=reads, writes=writes)

    cupy.cuda.MemoryPointer.copy_from_device_async = copy_from_device_async


def _devices(gpu: Standin) -> None:
    cupy = gpu.cupy
    cuda, runtime = cupy.cuda, cupy.cuda.runtime

    class RawKernel:
        def __init__(self, source: str, name: str) -> None:
            assert f" {name}(" in source
            self._name = name

        def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
            assert all(size > 0 for size in (*grid, *block))
            touched = [argument.range for argument in arguments if isinstance(argument, cupy.ndarray)]
            gpu.order.enqueue(cuda.get_current_stream().key, "launch", name=self._name, writes=touched)

    cupy.RawKernel = RawKernel
    cuda.get_elapsed_time = lambda start, end: 1.0
    cuda.Device.attributes = {"MultiProcessorCount": 132, "L2CacheSize": 50 << 20}
    runtime.memGetInfo = lambda: (1 << 30, 1 << 31)
    runtime.runtimeGetVersion = runtime.driverGetVersion = lambda: 12090


def _decoders(patch: pytest.MonkeyPatch) -> None:
    """Let decoders take options and several backends, and fail at damaged files."""
    library = nvimgcodec.library()
    made: Any = library.Decoder
    opened: Any = library.CodeStream
    known = inspect.signature(made).parameters

    class Decoder(made):  # type: ignore[misc]
        def __init__(self, *, backends: Any, options: str = "", **others: Any) -> None:
            for option in options.split():
                module, _, setting = option.partition(":")
                assert module in ("", "nvjpeg_hw_decoder", "nvjpeg_cuda_decoder")
                assert int(setting.partition("=")[2]) >= 0
            super().__init__(backends=backends[:1], **others, **({"options": options} if "options" in known else {}))

        def _one(self, source: Any, target: Any, cuda_stream: int) -> Any:
            try:
                return super()._one(source, target, cuda_stream)
            except OSError:  # of Pillow's, for a file that is cut off
                return None

    class CodeStream(opened):  # type: ignore[misc]
        def __init__(self, data: Any) -> None:
            end = bytes(data).rfind(b"\xff\xd9") + 2  # decoders do not read the bytes after it
            try:
                super().__init__(data[:end] if end > 1 else data)
            except (AssertionError, OSError) as error:  # the runtime gives decoders no such files; the benchmarks do
                raise RuntimeError(str(error)) from error

    patch.setattr(library, "Decoder", Decoder)
    patch.setattr(library, "CodeStream", CodeStream)


@contextmanager
def leaving_out(every: int) -> Iterator[None]:
    """Let decoders skip every ``n``-th image: reported as decoded, and not written."""
    library = nvimgcodec.library()
    made: Any = library.Decoder
    seen = itertools.count()

    class Decoder(made):  # type: ignore[misc]
        def _one(self, source: Any, target: Any, cuda_stream: int) -> Any:
            values = target.values if hasattr(target, "values") else target.array.values
            before = values.copy()
            found = super()._one(source, target, cuda_stream)
            if next(seen) % every == 0:
                values[...] = before
            return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "Decoder", Decoder)
        yield
