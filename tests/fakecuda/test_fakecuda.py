"""The fake GPU itself: it finds what is put out of order.

Its other checks are tried by the faults that ``tests/faults.py`` plants in the runtime.
"""

import pytest

from tests.fakecuda import FakeGpu, Order
from tests.fakecuda.work import Source, load, waits_of_loaders
from tests.libraries import needs

needs("numba_cuda")

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
