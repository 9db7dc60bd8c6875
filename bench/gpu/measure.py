"""What the parts measure with: rounds, CUDA events behind a spinning kernel, moving arrays, memory."""

from __future__ import annotations

import math
import os
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

LEAST_ROUNDS = 5
_LEAST_ROUND_S = 0.1  # shorter rounds are of several passes
_MOST_PASSES = 32

_SPIN = """
extern "C" __global__ void spin(long long cycles) {
    long long start = clock64();
    while (clock64() - start < cycles) { }
}
"""


def to_device(images: Sequence[Any], device: str) -> list[Any]:
    """NumPy arrays on a device; on the CPU copies, as they are on a GPU."""
    packed = [np.array(image, order="C") for image in images]
    if device == "cpu":
        return packed
    import cupy

    return [cupy.asarray(image) for image in packed]


def to_host(array: Any) -> Any:
    """Any result as NumPy's array; of a GPU's it waits for the work of CuPy's current stream."""
    return array.get() if hasattr(array, "get") else np.asarray(array)


def mean_apart(one: Any, other: Any) -> float:
    """Mean absolute difference of two results on any devices; of what is no number, infinity."""
    with np.errstate(all="ignore"):  # memory that nobody wrote holds anything
        found = float(np.abs(to_host(one).astype(np.float64) - to_host(other)).mean())
    return found if np.isfinite(found) else np.inf


def synchronize(device: str) -> None:
    """Wait for all that was enqueued on any stream of the GPU."""
    if device != "cpu":
        import cupy

        cupy.cuda.Device(0).synchronize()


def settle(device: str) -> None:
    """Wait for what CuPy's current stream still has to do: results that were handed to it are then there."""
    if device != "cpu":
        import cupy

        cupy.cuda.get_current_stream().synchronize()


def cpu_seconds() -> float:
    """User and system time so far of this process, all its threads together."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def resident_mib() -> float:
    """Memory of this process that is in RAM."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def rate(
    run: Callable[[], object], images: int, *, rounds: int = LEAST_ROUNDS, passes: int | None = None
) -> dict[str, Any]:
    """Images/s of a function that ends when its results are there: the median of some rounds, warmed up before.

    The first call warms up whatever is compiled or allocated; the second says how many passes make a round long
    enough to time.
    """
    run()
    begin = time.perf_counter()
    run()
    once = max(time.perf_counter() - begin, 1e-6)
    passes = passes or min(max(math.ceil(_LEAST_ROUND_S / once), 1), _MOST_PASSES)
    walls, cpus = [], []
    for _ in range(rounds):
        begin, used = time.perf_counter(), cpu_seconds()
        for _ in range(passes):
            run()
        walls.append(time.perf_counter() - begin)
        cpus.append(cpu_seconds() - used)
    total = images * passes
    return {
        "images_per_second": round(total / float(np.median(walls)), 1),
        "range": [round(total / max(walls), 1), round(total / min(walls), 1)],
        "cpu_seconds_per_1000_images": round(1000 * float(np.median(cpus)) / total, 3),
        "rounds": rounds,
        "images_per_round": total,
    }


def kept(measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A measurement, or why there is none: one that fails must not lose the others."""
    try:
        return measure()
    except Exception as error:
        return {"images_per_second": 0.0, "error": f"{type(error).__name__}: {error}"[:400]}


class Spin:
    """A kernel that keeps a stream busy for a time: what is enqueued behind it runs without gaps of the host's."""

    def __init__(self) -> None:
        import cupy

        self._cupy = cupy
        self._kernel = cupy.RawKernel(_SPIN, "spin")
        self._per_ms = 1_000_000.0
        for _ in range(4):  # the first launch compiles and loads the kernel, and takes far longer
            taken = self.time(lambda: self(1.0), behind=0.0)
            self._per_ms *= 1.0 / max(taken, 1e-3)

    def __call__(self, milliseconds: float) -> None:
        """Enqueue it on CuPy's current stream."""
        self._kernel((1,), (1,), (np.int64(milliseconds * self._per_ms),))

    def time(self, enqueue: Callable[[], object], behind: float = 1.0) -> float:
        """Milliseconds of the GPU for what a function enqueues on CuPy's current stream."""
        cupy = self._cupy
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        if behind:
            self(behind)
        start.record()
        enqueue()
        end.record()
        end.synchronize()
        return float(cupy.cuda.get_elapsed_time(start, end))


@contextmanager
def replaced(owner: Any, name: str, function: Any) -> Iterator[None]:
    """Another function in the place of one, for a check that must fail."""
    original = getattr(owner, name)
    setattr(owner, name, function)
    try:
        yield
    finally:
        setattr(owner, name, original)
