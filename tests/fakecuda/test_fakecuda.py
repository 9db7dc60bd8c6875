"""The fake GPU itself: it finds what is put out of order, and what CUDA refuses.

Most of its checks are tried by the faults that ``tests/faults.py`` plants in the runtime.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from tests.fakecuda import FakeGpu, Order
from tests.fakecuda.work import Source, load, waits_of_loaders

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
    order.enqueue(B, "decode", writes=[(low, low + 8)], file="a file")  # when it is called, whatever the stream does
    assert "the host did not wait" in order.problems.pop()
    order.problems.clear()
    order.enqueue(B, "write", writes=[(low + 60, low + 65)])
    assert "behind its array's end" in order.problems.pop(0)


def test_a_loader_that_waits_for_its_consumer_is_found(gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = type(gpu.runtime.CudaRuntime(0)._resources.arenas)
    take = ring.take
    monkeypatch.setattr(ring, "take", lambda self, size: [gpu.cupy.cuda.Device().synchronize(), take(self, size)][1])
    with gpu.stream() as stream:
        kept = []
        for batch in load(Source(40)):
            gpu.use(batch.images)
            kept.append(batch)
    assert waits_of_loaders(gpu, gpu.key(stream))


def _an_event_of_another_device(gpu: FakeGpu) -> None:
    event = gpu.cupy.cuda.Event()
    with gpu.cupy.cuda.Device(1):
        event.record(gpu.stream())


def _a_stream_of_another_device(gpu: FakeGpu) -> None:
    memory, stream = gpu.cupy.zeros(8, np.uint8), gpu.stream()
    with gpu.cupy.cuda.Device(1):
        memory.data.memset_async(0, 8, stream)


def _too_many_blocks(gpu: FakeGpu) -> None:
    module = gpu.cupy.cuda.function.Module()
    module.load(b"code\0")
    gpu.cupy.cuda.driver.launchKernel(module.get_function("f").ptr, 1, 65536, 1, 32, 1, 1, 0, 0, 0, 0)


def _freed_memory(gpu: FakeGpu) -> None:
    memory = gpu.cupy.cuda.runtime.malloc(512)
    gpu.cupy.cuda.runtime.free(memory)
    gpu.cupy.cuda.runtime.memsetAsync(memory, 0, 512, 0)


MISUSE: list[tuple[Callable[[FakeGpu], Any], str]] = [
    (_an_event_of_another_device, "an event of device 0 is recorded on stream (1, "),
    (_a_stream_of_another_device, "on device 1"),
    (_too_many_blocks, "f is launched with (1, 65536, 1) blocks"),
    (_freed_memory, "cudaMemsetAsync: MemoryError: "),
    (lambda gpu: gpu.cupy.cuda.runtime.mallocManaged(8), "cudaMallocManaged is not a part of the fake"),
]


@pytest.mark.parametrize(("call", "words"), MISUSE)
def test_misuse_is_an_error_of_the_call(faulty: FakeGpu, call: Callable[[FakeGpu], Any], words: str) -> None:
    with suppress(RuntimeError):  # CuPy's of the status, where the call has one
        call(faulty)
    assert any(words in problem for problem in faulty.problems)
