"""The fake GPU itself: it finds what is put out of order, and nothing else."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from gpuimg.kernels.cuda import MIX
from tests.fakecuda import FakeGpu, Order
from tests.fakecuda.work import (
    Source,
    epoch,
    files,
    growing,
    load,
    mixed,
    opened,
    ragged,
    small,
    turned_files,
    two_statistics,
    waits_of_loaders,
)


def much_work(gpu: FakeGpu) -> None:
    """The work in which every fault below shows."""
    for sources in [*(files([(size, size)] * 3) for size in (30, 50, 20)), *[turned_files([6, 3, 8])] * 2]:
        for _ in range(2):
            for image in gi.decode_batch(sources, device="cuda:0"):
                gpu.use(image)
            del image
            gpu.use(gi.resize(gi.open_batch(sources, device="cuda:0"), (8, 8)).array())
    with gpu.stream():
        gpu.use(two_statistics(gpu.cupy.zeros((1, 9, 9, 3), np.uint8)).array())
        for preprocess in (small, ragged, mixed, growing):
            epoch(gpu, load(Source(40), preprocess, decoders=2))
        epoch(gpu, load(Source(40), None, decoders=1))


def test_work_in_order_is_not_reported(gpu: FakeGpu) -> None:
    much_work(gpu)


def _nothing(*_: Any) -> None:
    """Instead of a wait."""


def _ring(gpu: FakeGpu) -> Any:
    """The owner of arenas and pinned memory."""
    return type(gpu.runtime.CudaRuntime(0)._resources.arenas)


def _blocks_at_once(gpu: FakeGpu, patch: pytest.MonkeyPatch, pinned: bool) -> None:
    take = _ring(gpu).take

    def at_once(self: Any, size: int) -> Any:
        found = next((block for block in self._spare if block.size >= size), None)
        if found is None or hasattr(found.memory, "words") != pinned:
            return take(self, size)
        self._spare.remove(found)
        return found

    patch.setattr(_ring(gpu), "take", at_once)


def _marks_without_an_event(gpu: FakeGpu, patch: pytest.MonkeyPatch) -> None:
    write = gpu.decode.Marks.write

    def without(self: Any, memory: Any) -> Any:
        write(self, memory)
        return SimpleNamespace(synchronize=_nothing)

    patch.setattr(gpu.decode.Marks, "write", without)


FAULTS: dict[str, tuple[Callable[[FakeGpu, pytest.MonkeyPatch], None], str]] = {
    "the host does not wait for events": (
        lambda gpu, patch: patch.setattr(gpu.cupy.cuda.Event, "synchronize", _nothing),
        r"decode .* writes what .* launch .* reads: the host did not wait",
    ),
    "results are not ordered after their last readers": (
        lambda gpu, patch: patch.setattr(gpu.runtime.CudaRuntime, "_order_results", _nothing),
        r"launch .* writes what .* use .* reads: nothing puts them in order",
    ),
    "the host does not wait for the copies of turned images": (
        _marks_without_an_event,
        r"decode .* writes what .* copy .* reads: the host did not wait",
    ),
    "pinned memory is used again at once": (
        lambda gpu, patch: _blocks_at_once(gpu, patch, pinned=True),
        r"pinned memory was changed before its copy was done",
    ),
    "arenas are used again at once": (
        lambda gpu, patch: _blocks_at_once(gpu, patch, pinned=False),
        r"decode .* writes what .* launch .* reads: the host did not wait",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found(faulty: FakeGpu, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    put_in, words = FAULTS[fault]
    put_in(faulty, monkeypatch)
    much_work(faulty)
    assert any(re.search(words, problem) for problem in faulty.problems)


def test_a_loader_that_waits_for_its_consumer_is_found(gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    take = _ring(gpu).take
    monkeypatch.setattr(
        _ring(gpu), "take", lambda self, size: [gpu.cupy.cuda.Device().synchronize(), take(self, size)][1]
    )
    with gpu.stream() as stream:
        kept = []
        for batch in load(Source(40)):
            gpu.use(batch.images)
            kept.append(batch)
    assert waits_of_loaders(gpu, gpu.key(stream))


def test_unwritten_images_that_are_read_are_found(gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are of an earlier batch."""
    monkeypatch.setattr(gpu.decode.Marks, "left", lambda self: np.zeros(4, np.bool_))
    gpu.use(gi.resize(opened(kinds=("good", "skipped")), (8, 8)).array())
    assert any("reads what nobody wrote" in problem for problem in gpu.problems)
    gpu.problems.clear()


A, B = (0, 1), (0, 2)


def test_only_what_an_event_follows_is_in_order() -> None:
    order = Order()
    low = order.new_chunk(64)
    order.enqueue(A, "read", reads=[(low, low + 8)])
    assert "nobody wrote" in order.problems.pop()
    order.enqueue(A, "write", writes=[(low, low + 32)])
    recorded, clock = order.record(A)
    order.enqueue(A, "write", writes=[(low + 32, low + 64)])
    order.stream_waits(B, recorded, clock)
    order.enqueue(B, "read", reads=[(low, low + 32)])
    assert order.problems == []
    order.enqueue(B, "read", reads=[(low, low + 33)])  # after the event
    assert "nothing puts them in order" in order.problems.pop()
    order.enqueue(B, "write", writes=[(low + 60, low + 65)])
    assert "behind its array's end" in order.problems.pop(0)


# -- calls that CUDA refuses -------------------------------------------------------------------------------------------


def _function(gpu: FakeGpu, entry: str = "f") -> int:
    module = gpu.cupy.cuda.function.Module()
    module.load(b"code\0")
    return int(module.get_function(entry).ptr)


def _launch(gpu: FakeGpu, function: int, grid: tuple[int, int] = (1, 1), stream: int = 0, extra: int = 0) -> None:
    gpu.cupy.cuda.driver.launchKernel(function, *grid, 1, 32, 1, 1, 0, stream, 0, extra)


def _of_a_destroyed_event(gpu: FakeGpu) -> None:
    event = gpu.cupy.cuda.runtime.eventCreateWithFlags(0)
    gpu.cupy.cuda.runtime.eventDestroy(event)
    gpu.cupy.cuda.runtime.eventQuery(event)


def _of_a_destroyed_stream(gpu: FakeGpu) -> None:
    stream = gpu.cupy.cuda.runtime.streamCreateWithPriority(1, 0)
    gpu.cupy.cuda.runtime.streamDestroy(stream)
    gpu.cupy.cuda.runtime.streamSynchronize(stream)


def _an_event_of_another_device(gpu: FakeGpu) -> None:
    event = gpu.cupy.cuda.Event()
    with gpu.cupy.cuda.Device(1):
        event.record(gpu.stream())


def _a_stream_of_another_device(gpu: FakeGpu) -> None:
    memory, stream = gpu.cupy.zeros(8, np.uint8), gpu.stream()
    with gpu.cupy.cuda.Device(1):
        memory.data.memset_async(0, 8, stream)


def _another_context(gpu: FakeGpu) -> None:
    function = _function(gpu)
    with gpu.cupy.cuda.Device(1):
        _launch(gpu, function)


def _no_context(gpu: FakeGpu) -> None:
    function = _function(gpu)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(_launch, gpu, function).result()


def _parameters_of_a_wrong_size(gpu: FakeGpu) -> None:
    gpu.driver.image(MIX, (9, 0))
    size, words = ctypes.c_size_t(40), ctypes.create_string_buffer(600)
    given = (ctypes.c_void_p * 5)(1, ctypes.addressof(words), 2, ctypes.addressof(size), 0)
    _launch(gpu, _function(gpu, MIX.key), extra=ctypes.addressof(given))


def _freed_memory(gpu: FakeGpu) -> None:
    memory = gpu.cupy.cuda.runtime.malloc(512)
    gpu.cupy.cuda.runtime.free(memory)
    gpu.cupy.cuda.runtime.memsetAsync(memory, 0, 512, 0)


def _memory_during_a_capture(gpu: FakeGpu) -> None:
    gpu.cupy.cuda.runtime.streamBeginCapture(gpu.stream().ptr)
    gpu.cupy.cuda.runtime.malloc(512)


MISUSE: list[tuple[Callable[[FakeGpu], Any], str]] = [
    (_of_a_destroyed_event, "an event is used that was destroyed"),
    (_of_a_destroyed_stream, "a stream is used that was destroyed"),
    (_an_event_of_another_device, "an event of device 0 is recorded on stream (1, "),
    (_a_stream_of_another_device, "on device 1"),
    (_another_context, "f is launched on stream (1, 0), loaded to device 0"),
    (_no_context, "without a context"),
    (lambda gpu: _launch(gpu, _function(gpu), (1, 65536)), "f is launched with (1, 65536, 1) blocks"),
    (_parameters_of_a_wrong_size, "mix takes"),
    (_freed_memory, "cudaMemsetAsync: MemoryError: "),
    (_memory_during_a_capture, "cudaMalloc is called while a stream captures"),
    (lambda gpu: gpu.cupy.cuda.runtime.mallocManaged(8), "cudaMallocManaged is not a part of the fake"),
]


@pytest.mark.parametrize(("call", "words"), MISUSE)
def test_misuse_is_an_error_of_the_call(faulty: FakeGpu, call: Callable[[FakeGpu], Any], words: str) -> None:
    with suppress(RuntimeError):  # CuPy's of the status, where the call has one
        call(faulty)
    faulty.cuda.capturing = None
    assert any(words in problem for problem in faulty.problems)
