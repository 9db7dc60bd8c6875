"""Tools for measuring: rounds, CUDA events after a spinning kernel, copies of arrays, memory."""

from __future__ import annotations

import math
import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

LEAST_ROUNDS = 5
_LEAST_ROUND_S = 0.1  # shorter rounds are of several passes
_MOST_PASSES = 32
_SWITCH_S = 1e-4  # for which a thread waits until it takes the GIL: less than by default, so that rates stay alike

_SPIN = """
extern "C" __global__ void spin(long long cycles) {
    long long start = clock64();
    while (clock64() - start < cycles) { }
}
"""


def to_device(images: Sequence[Any], device: str) -> list[Any]:
    """Copy NumPy arrays to a device, also to the CPU."""
    packed = [np.array(image, order="C") for image in images]
    if device == "cpu":
        return packed
    import cupy

    return [cupy.asarray(image) for image in packed]


def to_host(array: Any) -> Any:
    """Return any result as a NumPy array, after the work of CuPy's current stream."""
    return array.get() if hasattr(array, "get") else np.asarray(array)


def mean_difference(one: Any, other: Any) -> float:
    """Return the mean absolute difference of two results on any devices; infinity if it is not a number."""
    with np.errstate(all="ignore"):  # unwritten memory may contain anything
        found = float(np.abs(to_host(one).astype(np.float64) - to_host(other)).mean())
    return found if np.isfinite(found) else np.inf


def synchronize(device: str) -> None:
    """Wait for all work on all streams of the GPU."""
    if device != "cpu":
        import cupy

        cupy.cuda.Device(0).synchronize()


def wait_for_stream(device: str) -> None:
    """Wait for the work on CuPy's current stream, after which its results are complete."""
    if device != "cpu":
        import cupy

        cupy.cuda.get_current_stream().synchronize()


def cpu_seconds() -> float:
    """Return user and system time so far of this process, all its threads together."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def resident_mib() -> float:
    """Return the resident memory of this process in MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def rate(
    run: Callable[[], object], images: int, *, rounds: int = LEAST_ROUNDS, passes: int | None = None
) -> dict[str, Any]:
    """Measure images/s of a function that returns after its results are complete: the median of warm rounds.

    The first call compiles and allocates. The second determines the number of passes that make a round long
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
        "calls": 2 + rounds * passes,
    }


def gil_seconds(run: Callable[[], object]) -> float:
    """Measure for how long a function holds the GIL: the time in which a thread that only wants the GIL does not run.

    On a machine with a core for each of the two; others make it too long.
    """
    done, used, begun = False, 0.0, threading.Event()

    def wanting() -> None:
        nonlocal used
        begin = time.thread_time()
        begun.set()
        while not done:
            pass
        used = time.thread_time() - begin

    thread = threading.Thread(target=wanting)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    try:
        thread.start()
        begun.wait()
        begin = time.perf_counter()
        run()
        taken = time.perf_counter() - begin
    finally:
        done = True
        sys.setswitchinterval(interval)
        thread.join()
    return max(taken - used, 0.0)


def attempted(measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return a measurement, or its error, so that a failure does not lose the other measurements."""
    try:
        return measure()
    except Exception as error:
        return {"images_per_second": 0.0, "error": f"{type(error).__name__}: {error}"[:400]}


class Spin:
    """A kernel that keeps a stream busy for a time, so that work enqueued after it does not wait for the host."""

    def __init__(self) -> None:
        import cupy

        self._cupy = cupy
        self._kernel = cupy.RawKernel(_SPIN, "spin")
        self._per_ms = 1_000_000.0
        for _ in range(4):  # the first launch compiles and loads the kernel, and takes far longer
            taken = self.time(lambda: self(1.0), busy_ms=0.0)
            self._per_ms *= 1.0 / max(taken, 1e-3)

    def __call__(self, milliseconds: float) -> None:
        """Enqueue the kernel on CuPy's current stream."""
        self._kernel((1,), (1,), (np.int64(milliseconds * self._per_ms),))

    def time(self, enqueue: Callable[[], object], busy_ms: float = 1.0) -> float:
        """Measure milliseconds of the GPU for the work that a function enqueues on CuPy's current stream."""
        cupy = self._cupy
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        if busy_ms:
            self(busy_ms)
        start.record()
        enqueue()
        end.record()
        end.synchronize()
        return float(cupy.cuda.get_elapsed_time(start, end))


@contextmanager
def replaced(owner: Any, name: str, function: Any) -> Iterator[None]:
    """Replace a function during the block, for a check that must fail."""
    original = getattr(owner, name)
    setattr(owner, name, function)
    try:
        yield
    finally:
        setattr(owner, name, original)
