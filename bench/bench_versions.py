"""Two versions side by side: decoding, and the work of bench_core and bench_random, alternately, on the same photos.

    pip install --no-deps --target before <an earlier checkout>
    python -m bench.bench_versions --before before [--rounds 15] [--set S-4.8] [--works decode,train]
        [--out bench/results/versions.json]

The photos are those of ``photos.load``, or a set. Each version has a separate process, which stays warm; they take
every round of every chain one after the other, the first in one round being the second in the next. A round's time is
the better of two passes, since a shared machine's other work slows single ones by a fifth. Ratios are images/s of this
version over those of the earlier one, round by round, by the wall clock and by CPU time; also of recording alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench import common, photos
from bench.common import BATCH

ROOT = Path(__file__).parents[1]
_RECORDED = 256  # images of a recording
_RECORDINGS = 20  # of one round

# The version's folder comes first on the path, so that its gpuimg is imported; the benchmark is this one.
_CHILD = """
import sys
sys.path[0] = {folder!r}
sys.path.insert(1, {root!r})
import bench.bench_versions as b
b.child({name!r})
"""

Seconds = tuple[float, float]  # by the wall clock, and of all threads on a core


def _files(name: str | None) -> list[bytes]:
    """The photos of a set, or those of one size."""
    return photos.load() if name is None else photos.load_set(name)


def child(name: str | None) -> None:
    """Do the work that each line on standard input names, and print the seconds it took."""
    import gpuimg as gi
    from bench import chains

    files = _files(name)
    work = chains.core() | chains.RANDOM
    out = np.zeros((BATCH, 3, chains.SIZE, chains.SIZE), np.float32)
    opened = gi.open_batch(files[:_RECORDED], device="cpu")
    print(Path(gi.__file__).parents[1], flush=True)
    for line in sys.stdin:
        name = line.strip()
        start, worked = time.perf_counter(), time.process_time()
        if name.startswith("record "):
            for _ in range(_RECORDINGS):
                work[name.removeprefix("record ")](opened, 0)
        elif name == "decode":
            for at in range(0, len(files), BATCH):
                gi.decode_batch(files[at : at + BATCH], device="cpu")
        else:
            for at in range(0, len(files), BATCH):
                x = gi.open_batch(files[at : at + BATCH], device="cpu")
                work[name](x, at).array("float32", "NCHW", out=out)
        print(time.perf_counter() - start, time.process_time() - worked, flush=True)


class Version:
    """A process with one version."""

    def __init__(self, folder: Path, name: str | None) -> None:
        code = _CHILD.format(folder=str(folder.resolve()), root=str(ROOT), name=name)
        self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": ""},
        )
        where = self._answer()
        if Path(where) != folder.resolve():
            raise RuntimeError(f"gpuimg was imported from {where}, not from {folder}")

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def seconds(self, name: str) -> Seconds:
        """Of one round: the better of two passes, by each clock."""
        assert self._process.stdin is not None
        self._process.stdin.write(2 * (name + "\n"))
        self._process.stdin.flush()
        passes = [[float(value) for value in self._answer().split()] for _ in range(2)]
        wall, worked = (min(values) for values in zip(*passes, strict=True))
        return wall, worked


def compared(before: Version, after: Version, names: list[str], rounds: int) -> dict[str, Any]:
    """Ratios of the two versions for each piece of work."""
    seconds: dict[str, tuple[list[Seconds], list[Seconds]]] = {name: ([], []) for name in names}
    for k in range(rounds + 1):
        for name in names:
            pair = [(before, 0), (after, 1)]
            for version, which in pair if k % 2 else reversed(pair):
                taken = version.seconds(name)
                if k:  # the first round warms up
                    seconds[name][which].append(taken)
    result = {}
    for name, (one, other) in seconds.items():
        (walls, works), (walls_after, works_after) = zip(*one, strict=True), zip(*other, strict=True)
        ratio, ratio_range = common.ratio(walls, walls_after)
        cpu_ratio, cpu_ratio_range = common.ratio(works, works_after)
        result[name] = {
            "before_s": round(float(np.median(walls)), 4),
            "after_s": round(float(np.median(walls_after)), 4),
            "ratio": ratio,
            "ratio_range": ratio_range,
            "before_cpu_s": round(float(np.median(works)), 4),
            "after_cpu_s": round(float(np.median(works_after)), 4),
            "cpu_ratio": cpu_ratio,
            "cpu_ratio_range": cpu_ratio_range,
        }
    return result


def main() -> None:
    """Measure, print, and write the result."""
    parser = common.arguments(__doc__, "versions.json", rounds=15)
    parser.add_argument("--before", type=Path, required=True, help="folder with an installed earlier version")
    parser.add_argument("--set", choices=list(photos.SETS), help="instead of files of one size")
    parser.add_argument("--works", type=lambda text: text.split(","), help="such as decode,train; otherwise all")
    options = parser.parse_args()
    from bench import chains

    files = _files(options.set)
    names = [*chains.core(), *chains.RANDOM]
    names = options.works or ["decode", *names, *(f"record {name}" for name in names)]
    result = compared(Version(options.before, options.set), Version(ROOT, options.set), names, options.rounds)
    summary = photos.summary(files) if options.set is None else photos.summary_of_set(options.set, files)
    about = common.environment(summary, options.rounds)
    command = " ".join(["python -m bench.bench_versions", *sys.argv[1:]])
    common.write({"command": command, **about, "before": _named(options.before), "ratios": result}, options.out)


def _named(folder: Path) -> str:
    """The earlier version's commit or number, as its installation tells."""
    found = sorted(folder.glob("gpuimg-*.dist-info"))
    commit = folder / "COMMIT"
    return commit.read_text().strip() if commit.exists() else json.dumps([path.name for path in found])


if __name__ == "__main__":
    main()
