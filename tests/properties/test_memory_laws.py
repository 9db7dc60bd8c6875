"""The CPU's loops stay within the memory they are given, which their vectors could leave without a word."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import gpuimg as gi
from gpuimg._runtimes import cpu, cpu_call
from gpuimg._runtimes.cpu_memory import CallMemory, Pool
from gpuimg._runtimes.devices import runtime_for

from ..data_sets import jpeg
from ..decoding.jpegs import Guarded
from ..watchdog import on_threads
from . import chains, strategies


@contextmanager
def fences(streamed: bool = False) -> Iterator[None]:
    """Memory of the CPU runtime has its exact size, between guards; all results are streamed or none."""
    memory: list[Guarded] = []

    def take(size: int) -> NDArray[np.uint8]:
        memory.append(Guarded(size, 0xA5))
        return memory[-1].bytes

    class Scratch(CallMemory):
        def flat(self, name: str, elements: int, dtype: Any, thread: int = 0) -> NDArray[Any]:
            return take(elements * np.dtype(dtype).itemsize).view(dtype)

    runtime, pool = runtime_for("cpu"), Pool()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu, "CallMemory", Scratch)
        patch.setattr(cpu_call, "_STREAMED", 0 if streamed else 1 << 62)
        patch.setattr(runtime, "_spare", [])
        patch.setattr(pool, "take", take)
        patch.setattr(runtime, "_pool", pool)
        yield
        broken = [one.broken() for one in memory]
        memory.clear()  # the class above is kept until a garbage collection, and what it refers to
        assert not any(broken)


@given(strategies.ragged(), st.data(), st.sampled_from(["NHWC", "NCHW"]))
def test_chains_on_arrays(images: list[NDArray[Any]], data: st.DataObject, layout: str) -> None:
    n = len(images)
    steps = data.draw(chains.chains(n, str(images[0].dtype)))
    with fences():
        chains.run(steps, images, gi.Rng(0, indices=range(n))).compute("float32", layout)


@given(
    sizes=st.lists(strategies.sizes, min_size=1, max_size=4),
    size=strategies.sizes, interpolation=strategies.interpolations,
    color=st.sampled_from(["rgb", "gray"]), seed=st.integers(0, 2**32),
)  # fmt: skip
def test_parts_of_files(sizes: list[Any], size: tuple[int, int], interpolation: str, color: str, seed: int) -> None:
    files = [jpeg(k, side) for k, side in enumerate(sizes)]
    with fences():
        x = gi.open_batch(files, device="cpu", color=color)
        x = gi.random_resized_crop(x, size, interpolation=interpolation, rng=gi.Rng(seed, indices=range(len(files))))
        x.array("float32", "NCHW")


@given(
    x=strategies.arrays(), size=strategies.sizes, start=st.integers(0, 63),
    layout=st.sampled_from(["NHWC", "NCHW"]),
)  # fmt: skip
def test_streaming_past_the_caches_changes_nothing(x: NDArray[Any], size: Any, start: int, layout: str) -> None:
    """At whatever byte of a line the result begins, and whatever is left of the last one."""
    expected = gi.resize(x, size).array("float32", layout)
    memory = Guarded(start + expected.nbytes, 0xA5)
    out = memory.bytes[start:].view(np.float32).reshape(expected.shape)
    with fences(streamed=True):
        gi.resize(x, size).array("float32", layout, out=out)
    np.testing.assert_array_equal(out, expected)
    assert np.all(memory.bytes[:start] == 0xA5)
    assert not memory.broken()


def test_many_threads_take_memory() -> None:
    """Results are given back wherever their last reference goes, also while another thread looks for memory."""
    pool = Pool()

    def work() -> None:
        for _ in range(5000):
            pool.take(1 << 20)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        on_threads(work)
    finally:
        sys.setswitchinterval(before)
