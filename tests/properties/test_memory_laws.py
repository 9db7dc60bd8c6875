"""The CPU's loops stay within the memory they are given, which their vectors could leave without a word."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import gpuimg as gi
from gpuimg._runtimes import cpu, cpu_call
from gpuimg._runtimes.cpu_memory import Pool, ThreadMemory
from gpuimg._runtimes.devices import runtime_for

from ..data_sets import jpeg
from ..watchdog import on_threads
from . import chains, strategies

_GUARD = 256  # bytes, a multiple of every alignment
_PATTERN = 0xA5


class Fence:
    """Arrays of exactly the requested size, each between guard bytes that must not change."""

    around: ClassVar[list[NDArray[np.uint8]]] = []

    @classmethod
    def array(cls, elements: int, dtype: Any) -> NDArray[Any]:
        """Memory inside a fence."""
        size = elements * np.dtype(dtype).itemsize
        memory = np.full(size + 2 * _GUARD + 64, _PATTERN, np.uint8)
        start = -memory.ctypes.data % 64 + _GUARD
        cls.around += [memory[:start], memory[start + size :]]
        return memory[start : start + size].view(dtype)

    @classmethod
    def intact(cls) -> bool:
        """Return True if all guard bytes are intact, and forget them."""
        around = list(cls.around)
        cls.around.clear()
        return all(np.all(part == _PATTERN) for part in around)


class Fenced(ThreadMemory):
    """Scratch memory of exactly the requested size."""

    def flat(self, name: str, elements: int, dtype: Any) -> NDArray[Any]:
        return Fence.array(elements, dtype)


class FencedPool(Pool):
    """Memory of results, likewise."""

    def take(self, size: int) -> Any:
        return Fence.array(size, np.uint8)


@contextmanager
def fences(streamed: bool = False) -> Iterator[None]:
    """Memory of the CPU runtime comes with fences, which must stand at the end; all results are streamed or none."""
    runtime = runtime_for("cpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu, "ThreadMemory", Fenced)
        patch.setattr(cpu_call, "_STREAMED", 0 if streamed else 1 << 62)
        patch.setattr(runtime, "_spare", [])
        patch.setattr(runtime, "_pool", FencedPool())
        yield
        assert Fence.intact()


@given(strategies.ragged(), st.data(), st.sampled_from(["NHWC", "NCHW"]))
def test_chains_on_arrays(images: list[NDArray[Any]], data: st.DataObject, layout: str) -> None:
    n = len(images)
    steps = data.draw(chains.chains(n, str(images[0].dtype)))
    with fences():
        chains.run(steps, images, gi.Rng(0, indices=range(n))).compute("float32", layout)


@given(
    sizes=st.lists(st.tuples(strategies.sides, strategies.sides), min_size=1, max_size=4),
    size=st.tuples(strategies.sides, strategies.sides), interpolation=strategies.interpolations,
    color=st.sampled_from(["rgb", "gray"]), seed=st.integers(0, 2**32),
)  # fmt: skip
def test_parts_of_files(
    sizes: list[tuple[int, int]], size: tuple[int, int], interpolation: str, color: str, seed: int
) -> None:
    files = [jpeg(k, side) for k, side in enumerate(sizes)]
    with fences():
        x = gi.open_batch(files, device="cpu", color=color)
        x = gi.random_resized_crop(x, size, interpolation=interpolation, rng=gi.Rng(seed, indices=range(len(files))))
        x.array("float32", "NCHW")


@given(
    x=strategies.arrays(), size=st.tuples(strategies.sides, strategies.sides), start=st.integers(0, 63),
    layout=st.sampled_from(["NHWC", "NCHW"]),
)  # fmt: skip
def test_streaming_past_the_caches_changes_nothing(
    x: NDArray[Any], size: tuple[int, int], start: int, layout: str
) -> None:
    """At whatever byte of a line the result begins, and whatever is left of the last one."""
    expected = gi.resize(x, size).array("float32", layout)
    memory = Fence.array(start + expected.nbytes + 64, np.uint8)
    stop = start + expected.nbytes
    out = memory[start:stop].view(np.float32).reshape(expected.shape)
    with fences(streamed=True):
        gi.resize(x, size).array("float32", layout, out=out)
    np.testing.assert_array_equal(out, expected)
    assert np.all(memory[:start] == _PATTERN)
    assert np.all(memory[stop:] == _PATTERN)


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
