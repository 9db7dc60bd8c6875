"""Shared code of the benchmarks: rounds, ratios, the command line, and the result file with its origin."""

import argparse
import ast
import hashlib
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

Key = TypeVar("Key")
Times = tuple[float, float]  # wall-clock and CPU seconds

_STARTED, _LOAD = time.monotonic(), os.getloadavg()[0]
ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
BATCH = 64
SPREAD = 0.15  # of the median round: rows whose rounds differ by more are measured again


def interleaved(
    runs: Mapping[Key, Callable[[], object]], rounds: int
) -> tuple[dict[Key, list[float]], dict[Key, list[float]]]:
    """Call functions in turn; return wall-clock and CPU seconds of all threads, by round.

    Each round begins with a different function, and the first one warms up. See :func:`in_turn`.
    """

    def timed(key: Key) -> tuple[float, float]:
        start, cpu = time.perf_counter(), time.process_time()
        runs[key]()
        return time.perf_counter() - start, time.process_time() - cpu

    found = in_turn(list(runs), timed, rounds)
    walls, worked = ({key: [pair[k] for pair in pairs] for key, pairs in found.items()} for k in (0, 1))
    return walls, worked


def in_turn(keys: list[Key], timed: Callable[[Key], Times | None], rounds: int) -> dict[Key, list[Times]]:
    """Return the times that ``timed`` gives, by round, each of which begins with another key, after one to warm up.

    Keys for which it returns None are left out from then on. If the rounds of one key differ by more than SPREAD, all
    are measured again, and the calmer measurement counts.
    """

    def widest(found: dict[Key, list[Times]]) -> float:
        return max((spread([wall for wall, _ in times]) for times in found.values()), default=0)

    found = _rounds(keys, timed, rounds)
    if widest(found) > SPREAD and (again := _rounds(list(found), timed, rounds)).keys() == found.keys():
        found = min(found, again, key=widest)
    return found


def _rounds(keys: list[Key], timed: Callable[[Key], Times | None], rounds: int) -> dict[Key, list[Times]]:
    found: dict[Key, list[Times]] = {key: [] for key in keys}
    for k in range(rounds + 1):
        first = k % max(len(keys), 1)
        for key in keys[first:] + keys[:first]:
            taken = timed(key) if key in found else None
            if taken is None:
                found.pop(key, None)
            elif k:
                found[key].append(taken)
    return found


@contextmanager
def usual_priority() -> Iterator[None]:
    """Restore the scheduling of this thread at the end of the block.

    SVT-AV1 makes the thread that encodes a real-time one, where it may, and it stays so, as do the threads and
    processes that it starts from then on: all other processes of the machine get one twentieth of its cores.
    """
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        yield
    finally:
        os.sched_setscheduler(0, *before)


def drain(batches: Any) -> None:
    for _ in batches:
        pass


def per_second(images: int, seconds: Sequence[float]) -> int:
    return round(images / float(np.median(seconds)))


def spread(seconds: Sequence[float]) -> float:
    """Return the difference of the slowest and the fastest round, as a part of the median."""
    return float(np.ptp(seconds) / np.median(seconds))


def ratio(one: Sequence[float], other: Sequence[float]) -> tuple[float, list[float]]:
    """Return the median seconds of ``one`` over those of ``other``, and the range of this over the rounds."""
    ratios = np.array(one) / np.array(other)
    middle = float(np.median(one) / np.median(other))
    return round(middle, 3), [round(float(ratios.min()), 3), round(float(ratios.max()), 3)]


def rated(images: int, own: Sequence[float], ours: Sequence[float] | None = None) -> dict[str, Any]:
    """Return images/s of the median round with the spread; with gpuimg's seconds also how much faster that is."""
    entry: dict[str, Any] = {"images_per_second": per_second(images, own), "spread": round(spread(own), 3)}
    if ours is not None:
        entry["gpuimg_over_this"], entry["range"] = ratio(own, ours)
    return entry


def processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def environment(photos: dict[str, object], rounds: int, batch: int = BATCH) -> dict[str, Any]:
    from gpuimg._threads.threads import threads  # not above: importing gpuimg is no cost of another library

    return {
        "machine": {"processor": processor(), "cores": os.cpu_count(), "threads": threads()},
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("gpuimg", "numpy", "numba", "pillow")},
        },
        "photos": photos,
        "batch": batch,
        "rounds": rounds,
    }


def code_digest() -> str:
    """Return a digest of gpuimg's code without comments and docstrings, which do not change a measurement."""
    digest = hashlib.sha256()
    for folder in ("gpuimg", "kernels"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            tree = ast.parse(path.read_text())
            for node in ast.walk(tree):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
                    del node.body[0]
            digest.update(f"{path.relative_to(ROOT)} {ast.dump(tree)}".encode())
    return digest.hexdigest()[:12]


def commit() -> str:
    """Return the commit of the measured code, with a plus sign if files other than results have changed since."""
    packed = ROOT / "COMMIT"  # of `make gpu-pack`, which has no repository
    if packed.exists():
        return packed.read_text().strip()
    git = ["git", "-C", str(ROOT)]
    known = subprocess.run([*git, "rev-parse", "--short=7", "HEAD"], capture_output=True, text=True, check=False)
    if known.returncode:
        return "unknown"
    changes = [*git, "diff", "--quiet", "HEAD", "--", ".", ":!bench/results"]
    return known.stdout.strip() + "+" * bool(subprocess.run(changes, check=False).returncode)


def _command() -> str:
    """Return the command line of this process, without the place of the result."""
    spec = sys.modules["__main__"].__spec__
    name = "bench" if spec is None else spec.name.removesuffix(".__main__")
    given = sys.argv[1:]
    if "--out" in given:
        at = given.index("--out")
        del given[at : at + 2]
    return shlex.join(["python", "-m", name, *given])


def run_record() -> dict[str, Any]:
    """Return how, where and when a result came about; ``python -m bench`` compares ``version`` and ``code``."""
    from gpuimg._version import __version__  # not above: see environment
    from gpuimg.kernels import native

    return {
        "command": _command(),
        "version": __version__,
        "commit": commit(),
        "code": code_digest(),
        "loops": native.describe(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "seconds": round(time.monotonic() - _STARTED),
        "load_before": round(_LOAD, 2),
    }


def write(result: dict[str, Any], path: Path) -> None:
    text = json.dumps({"run": run_record(), **result}, indent=1)
    print(text)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def arguments(description: str | None, name: str, rounds: int = 5, count: bool = False) -> argparse.ArgumentParser:
    """Return the command line of a benchmark: ``--rounds``, ``--out`` and, where it makes a difference, ``--count``."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--out", type=Path, default=RESULTS / name)
    if count:
        parser.add_argument("--count", type=int, help="use only the first photos, for a try")
    return parser
