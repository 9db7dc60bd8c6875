"""Two versions side by side: the work of bench_core and bench_random, by turns, on the same photos.

    pip install --no-deps --target before <an earlier checkout>
    python -m bench.bench_versions --before before [--rounds 15] [--out bench/results/versions.json]

Each version has a separate process, which stays warm; they take every round of every chain one after the other, the
first in one round being the second in the next. What is taken is the better of two passes, since a shared machine's
other work slows single ones by a fifth. Ratios are images/s of this version over those of the earlier one, round by
round; also of recording alone.
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

# The version's own folder is looked into first, so that its gpuimg is imported; the benchmark is this one's.
_CHILD = "import sys; sys.path[0] = {folder!r}; sys.path.append({root!r}); import bench.bench_versions as b; b.child()"


def child() -> None:
    """Do what each line on standard input names, and print the seconds it took."""
    import gpuimg as gi
    from bench import chains

    files = photos.load()
    work = chains.core() | chains.RANDOM
    out = np.zeros((BATCH, 3, chains.SIZE, chains.SIZE), np.float32)
    opened = gi.open_batch(files[:_RECORDED], device="cpu")
    print(Path(gi.__file__).parents[1], flush=True)
    for line in sys.stdin:
        name = line.strip()
        start = time.perf_counter()
        if name.startswith("record "):
            for _ in range(_RECORDINGS):
                work[name.removeprefix("record ")](opened, 0)
        else:
            for at in range(0, len(files), BATCH):
                x = gi.open_batch(files[at : at + BATCH], device="cpu")
                work[name](x, at).array("float32", "NCHW", out=out)
        print(time.perf_counter() - start, flush=True)


class Version:
    """A process with one version."""

    def __init__(self, folder: Path) -> None:
        code = _CHILD.format(folder=str(folder.resolve()), root=str(ROOT))
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

    def seconds(self, name: str) -> float:
        """Of one round: the better of two passes."""
        assert self._process.stdin is not None
        self._process.stdin.write(2 * (name + "\n"))
        self._process.stdin.flush()
        return min(float(self._answer()), float(self._answer()))


def compared(before: Version, after: Version, names: list[str], rounds: int) -> dict[str, Any]:
    """Ratios of the two versions for each piece of work."""
    seconds: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in names}
    for k in range(rounds + 1):
        for name in names:
            pair = [(before, 0), (after, 1)]
            for version, which in pair if k % 2 else reversed(pair):
                taken = version.seconds(name)
                if k:  # the first round warms up
                    seconds[name][which].append(taken)
    result = {}
    for name, (one, other) in seconds.items():
        ratio, ratio_range = common.ratio(one, other)
        result[name] = {
            "before_s": round(float(np.median(one)), 4),
            "after_s": round(float(np.median(other)), 4),
            "ratio": ratio,
            "ratio_range": ratio_range,
        }
    return result


def main() -> None:
    """Measure, print, and write the result."""
    parser = common.arguments(__doc__, "versions.json", rounds=15)
    parser.add_argument("--before", type=Path, required=True, help="folder with an installed earlier version")
    options = parser.parse_args()
    from bench import chains

    files = photos.load()
    names = [*chains.core(), *chains.RANDOM]
    names += [f"record {name}" for name in names]
    result = compared(Version(options.before), Version(ROOT), names, options.rounds)
    about = common.environment(photos.summary(files), options.rounds)
    common.write({**about, "before": _named(options.before), "ratios": result}, options.out)


def _named(folder: Path) -> str:
    """The earlier version's commit or number, as its installation tells."""
    found = sorted(folder.glob("gpuimg-*.dist-info"))
    commit = folder / "COMMIT"
    return commit.read_text().strip() if commit.exists() else json.dumps([path.name for path in found])


if __name__ == "__main__":
    main()
