"""Shared code of the scripts: results as lines of JSON, photos, rates, and times by CUDA events."""

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import gpuimg as gi

ROOT = Path(__file__).parents[2]
SIZE, DTYPE, LAYOUT = 224, "float16", "NCHW"
_ROUNDS = 5
_ROUND_S = 0.1  # a shorter round has several passes
_MOST_PASSES = 32

_SPIN = """
extern "C" __global__ void spin(long long cycles) {
    long long start = clock64();
    while (clock64() - start < cycles) { }
}
"""


def arguments(description: str | None, seconds: float) -> argparse.Namespace:
    """Parse ``--seconds``, and exit with one line where no GPU works."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=seconds, help="after which nothing new is begun (%(default)s)")
    options = parser.parse_args()
    from gpuimg._runtimes.probe import gpu_problem

    if (problem := gpu_problem()) is not None:
        raise SystemExit(f"no usable GPU: {problem.reason}")
    options.end = time.monotonic() + options.seconds
    return options


def show(what: str, **found: Any) -> None:
    """Print a result; one with a ``problem`` is a failure."""
    print(json.dumps({"what": what, **found}), flush=True)


def attempt(what: str, measure: Callable[[], dict[str, Any]], remedy: str = "") -> dict[str, Any]:
    """Measure and print the result or, so that a failure does not lose the other results, the error and a remedy."""
    try:
        found = measure()
    except ImportError as error:
        found = {"absent": str(error)}
    except Exception as error:
        found = {"problem": f"{type(error).__name__}: {error}"[:400] + remedy}
    show(what, **found)
    return found


def photos(name: str, count: int) -> list[bytes]:
    """Return files of a set that ``make gpu-photos`` made, or the example photos, repeated, if there are none."""
    paths = sorted((ROOT / "bench" / ".photos" / name).glob("*.jpg"))[:count]
    if len(paths) < count:
        examples = sorted((ROOT / "examples" / "photos").glob("*.jpg"))
        show(f"photos of set {name}", problem=f"{len(paths)} of {count}: example photos are used; make gpu-photos")
        paths = (examples * -(-count // len(examples)))[:count]
    return [path.read_bytes() for path in paths]


@contextmanager
def seek_index(files: list[bytes]) -> Iterator[gi.SeekIndex]:
    with TemporaryDirectory() as folder:
        gi.build_index([(data, 0) for data in files], Path(folder, "index"))
        yield gi.SeekIndex(Path(folder, "index"))


def wait() -> None:
    """Wait for the work on CuPy's current stream, after which its results are complete: a launch is no result."""
    import cupy

    cupy.cuda.get_current_stream().synchronize()


def rate(run: Callable[[], object], images: int, passes: int | None = None) -> dict[str, Any]:
    """Measure images/s of a function that returns after its results are complete: the median of the rounds.

    The first call compiles and allocates. The second determines the number of passes that make a round long enough.
    """
    run()
    begin = time.perf_counter()
    run()
    once = max(time.perf_counter() - begin, 1e-6)
    passes = passes or min(max(math.ceil(_ROUND_S / once), 1), _MOST_PASSES)
    walls, cpus = [], []
    for _ in range(_ROUNDS):
        begin, used = time.perf_counter(), time.process_time()
        for _ in range(passes):
            run()
        walls.append(time.perf_counter() - begin)
        cpus.append(time.process_time() - used)
    total = images * passes
    return {
        "images_per_second": round(total / float(np.median(walls)), 1),
        "range": [round(total / max(walls), 1), round(total / min(walls), 1)],
        "cpu_seconds_per_1000_images": round(1000 * float(np.median(cpus)) / total, 3),
        "rounds": _ROUNDS,
    }


class Spin:
    """A kernel that keeps a stream busy for a time, so that work enqueued after it does not wait for the host."""

    def __init__(self) -> None:
        import cupy

        self._kernel = cupy.RawKernel(_SPIN, "spin")
        self._per_ms = 1_000_000.0
        for _ in range(4):  # the first launch compiles and loads the kernel, and takes far longer
            self._per_ms *= 1.0 / max(self.time(lambda: self(1.0), busy_ms=0.0), 1e-3)

    def __call__(self, milliseconds: float) -> None:
        """Enqueue the kernel on CuPy's current stream."""
        self._kernel((1,), (1,), (np.int64(milliseconds * self._per_ms),))

    def time(self, enqueue: Callable[[], object], busy_ms: float) -> float:
        """Measure milliseconds of the GPU for the work that a function enqueues on CuPy's current stream."""
        import cupy

        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        if busy_ms:
            self(busy_ms)
        start.record()
        enqueue()
        end.record()
        end.synchronize()
        return float(cupy.cuda.get_elapsed_time(start, end))
