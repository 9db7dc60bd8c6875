"""Compiled loops of an installed wheel against Numba's: the first batch of a process, alternating speed, and sizes.

    make test-wheel                       # or any environment with the wheel
    python -m bench.bench_native --python .venv-wheel/bin/python [--rounds 12] [--levels v3,v4]

Works on the photos of ``examples``, four times each, on one thread. Each level, and Numba in this environment, has a
separate process, which stays warm; they alternate. Times are CPU seconds; ratios are Numba's over the
level's, by round, so that more than 1 is faster than Numba. Processes that run the same code differ by some percent, so
all are started several times. Freed memory stays theirs: what Numba leaves on the heap would keep it from the system
in its process alone.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench import common

ROOT = Path(__file__).parents[1]
PHOTOS = ROOT / "examples" / "photos"
_COPIES = 4
_SIZE = 224
_STARTS = 5
_HEAP = {"MALLOC_TRIM_THRESHOLD_": str(1 << 30), "MALLOC_MMAP_THRESHOLD_": str(1 << 30)}
#: What the first batch of a process does, and when it was imported and made: seconds since its start, and on a core.
_FIRST = """
import time, glob, sys
start, spent = time.perf_counter(), time.process_time()
import gpuimg
imported = time.perf_counter() - start, time.process_time() - spent
files = (sorted(glob.glob({photos!r} + "/*.jpg")) * 6)[:64]
batch = gpuimg.presets.imagenet_train(224)(gpuimg.open_batch(files, device="cpu"), gpuimg.Rng(0, indices=range(64)))
batch.array("float32", "NCHW")
print(*imported, time.perf_counter() - start, time.process_time() - spent, "numba" in sys.modules)
"""
# This folder has the benchmark and the sources, which Numba compiles; the wheel's package comes before it.
_CHILD = "import sys; sys.path[{place}:{place}] = [{root!r}]; import bench.bench_native as b; b.child()"


def _work() -> dict[str, Any]:
    """Timed functions by name; a call is one round."""
    import numpy as np

    import gpuimg as gi

    files = [path.read_bytes() for path in sorted(PHOTOS.glob("*.jpg"))] * _COPIES
    n = len(files)
    train, evaluate = gi.presets.imagenet_train(_SIZE), gi.presets.imagenet_eval(_SIZE)
    pixels = gi.resize(gi.open_batch(files, device="cpu"), (_SIZE, _SIZE)).array("uint8", "NHWC")
    angles = np.linspace(-30, 30, n)

    def rng() -> gi.Rng:
        return gi.Rng(5, indices=range(n))

    def colors(images: Any) -> gi.Batch:
        return gi.adjust_saturation(gi.adjust_contrast(gi.adjust_brightness(images, 1.2), 0.8), 1.3)

    def encoded() -> gi.Batch:
        return gi.open_batch(files, device="cpu")

    return {
        "decode": lambda: gi.decode_batch(files, device="cpu"),
        "train": lambda: train(encoded(), rng()).array("float32", "NCHW"),
        "eval": lambda: evaluate(encoded()).array("float32", "NCHW"),
        "rotate and color": lambda: colors(gi.rotate(pixels, angles)).array("float32", "NCHW"),
        "randaugment": lambda: gi.rand_augment(pixels, rng=rng()).array("float32", "NCHW"),
    }


def child() -> None:
    """Do the work that each line on standard input names, and print the CPU seconds it took."""
    from gpuimg.kernels import native

    work = _work()
    for function in work.values():
        function()
    print(native.describe(), flush=True)
    for line in sys.stdin:
        start = time.process_time()
        work[line.strip()]()
        print(time.process_time() - start, flush=True)


class _Process:
    def __init__(self, python: str, native: str) -> None:
        environment = os.environ | {"GPUIMG_NATIVE": native, "GPUIMG_NUM_THREADS": "1"} | _HEAP
        place = 1 if native == "jit" else 1000
        command = [python, "-c", _CHILD.format(place=place, root=str(ROOT))]
        self._process = subprocess.Popen(
            command, cwd="/", env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.runs = self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def __call__(self, name: str) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{name}\n")
        self._process.stdin.flush()
        return float(self._line())

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def first(python: str) -> dict[str, Any]:
    """Medians over fresh processes."""
    code, found = _FIRST.format(photos=str(PHOTOS)), []
    for _ in range(_STARTS):
        done = subprocess.run([python, "-c", code], cwd="/", capture_output=True, text=True, check=True)
        found.append(done.stdout.split())
    names = ("import_s", "import_cpu_s", "first_batch_s", "first_batch_cpu_s")
    medians = {name: round(statistics.median(float(one[k]) for one in found), 3) for k, name in enumerate(names)}
    return medians | {"numba_imported": found[0][4] == "True"}


def speeds(python: str, levels: list[str], rounds: int) -> dict[str, Any]:
    """Milliseconds an image and ratios to Numba's loops, by work and level."""
    images = len(list(PHOTOS.glob("*.jpg"))) * _COPIES
    names = ["jit", *levels]
    times: dict[str, dict[str, list[float]]] = {work: {name: [] for name in names} for work in _work()}
    for start in range(_STARTS):
        processes = {name: _Process(sys.executable if name == "jit" else python, name) for name in names}
        for number in range(rounds):
            for work, seconds in times.items():
                for name in names[:: -1 if (number + start) % 2 else 1]:
                    seconds[name].append(processes[name](work))
        for process in processes.values():
            process.close()
    return {
        work: {
            name: {
                "cpu_ms_an_image": round(statistics.median(seconds[name]) * 1000 / images, 4),
                "ratio": round(statistics.median(a / b for a, b in zip(seconds["jit"], seconds[name], strict=True)), 3),
            }
            for name in names
        }
        for work, seconds in times.items()
    }


def installed(python: str) -> dict[str, float]:
    """Megabytes of the packages that a wheel needs."""
    code = "import numpy, PIL, gpuimg; print(*(m.__path__[0] for m in (numpy, PIL, gpuimg)))"
    done = subprocess.run([python, "-c", code], cwd="/", capture_output=True, text=True, check=True)
    folders = [Path(one) for one in done.stdout.split()]
    folders += [one for folder in folders[:2] for one in folder.parent.glob(f"{folder.name.lower()[:3]}*.libs")]
    return {
        folder.name: round(sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6, 1)
        for folder in folders
    }


def levels(python: str) -> str:
    """Return the levels of the installed wheel: of one that ``pip install .`` has built, that of this machine."""
    code = "from gpuimg.kernels import native; print(*sorted(p.name for p in native.FOLDER.iterdir()))"
    done = subprocess.run([python, "-c", code], cwd="/", capture_output=True, text=True, check=True)
    return ",".join(name.rpartition("-")[2].removesuffix(".so") for name in done.stdout.split() if name.endswith(".so"))


def main() -> None:
    """Measure, print, write."""
    parser = common.arguments(__doc__, "native.json", 12)
    parser.add_argument("--python", default=".venv-wheel/bin/python", help="of the environment with the wheel")
    parser.add_argument("--levels", help="v3,v4 for example; by default those of the wheel")
    given = parser.parse_args()
    python = str(Path(given.python).absolute())
    machine = {"processor": common.processor(), "rounds": given.rounds}
    result = machine | {"first": first(python), "megabytes": installed(python)}
    result["works"] = speeds(python, (given.levels or levels(python)).split(","), given.rounds)
    common.write(result, given.out)


if __name__ == "__main__":
    main()
