"""Costs of a peer in addition to its speed: import time, the first batch, memory, and disk space."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import threading
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import gpuimg
from bench.peers import module_of, peer_class
from bench.peers.host import Host, PeerError, descendants, environment

_CODE = re.compile(r".*\.(?:pyc?|so[.\d]*|kernel)")  # names of files that an import reads, or a first call
_LOOK_S = 0.02  # between two looks at the memory
_IMPORT = """
import sys, time
start = time.perf_counter()
import importlib
importlib.import_module(sys.argv[1])
print(time.perf_counter() - start)
"""
_FIRST = """
import pickle, sys, time
files = pickle.load(open(sys.argv[4], "rb"))
start = time.perf_counter()
from bench.peers import peer_class
epoch = peer_class(sys.argv[1])(int(sys.argv[2]), int(sys.argv[3])).start(sys.argv[5], files)
next(iter(epoch()))
print(time.perf_counter() - start, flush=True)
import os
os._exit(0)  # without waiting for workers that are still at the next batches
"""


def _timed(threads: int, tries: int, script: str, *arguments: object) -> float:
    """Return the seconds that a script in a new process measures, the best of several."""
    command = [sys.executable, "-W", "ignore", "-c", script, *map(str, arguments)]
    found = []
    for _ in range(tries):
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment(threads), timeout=300, check=False
        )  # fmt: skip
        if done.returncode:
            raise PeerError((done.stderr.strip().splitlines() or ["no output"])[-1])
        found.append(float(done.stdout.split()[-1]))
    return round(min(found), 2)


def drop_code() -> None:
    """Remove all code from the page cache, so that it is read from the disk."""
    package = Path(gpuimg.__file__).parent
    places = [sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), package, package.parent / "kernels"]
    for folder in {*map(Path, places), *map(Path, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))}:
        for path in folder.rglob("*") if folder != package.parent else ():
            if _CODE.fullmatch(path.name) and path.is_file():
                descriptor = os.open(path, os.O_RDONLY)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(descriptor)


def memory_mib(pid: int) -> float:
    """Return the memory of a process and its descendants; a page that several share counts once."""
    total = 0
    for each in [pid, *descendants(pid)]:
        try:
            lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def peak_mib(name: str, work: str, threads: int, batch: int, files: Path) -> float:
    """Measure the peak memory of a new process and its workers over two epochs, the encoded files included."""
    peak, done = 0.0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(_LOOK_S):
            peak = max(peak, memory_mib(host.pid))

    with Host(name, threads, batch, files) as host:
        thread = threading.Thread(target=watch)
        thread.start()
        try:
            for _ in range(2):
                host.request("epoch", work)
        finally:
            done.set()
            thread.join()
    return round(peak)


def _installed(names: tuple[str, ...] | list[str]) -> list[Distribution]:
    found = []
    for name in names:
        try:
            found.append(distribution(name))
        except PackageNotFoundError:
            continue
    return found


def _megabytes(found: list[Distribution]) -> int:
    paths = [Path(str(one.locate_file(file))) for one in found for file in one.files or []]
    return round(sum(path.stat().st_size for path in paths if path.is_file() and path.suffix != ".pyc") / 1e6)


def installed_megabytes(name: str) -> dict[str, int]:
    """Return the size of a peer's own distributions, and with all their dependencies, without extras."""
    own = queue = _installed(peer_class(name).distributions)
    seen: dict[str, Distribution] = {}
    while queue:
        found, *queue = queue
        key = re.sub(r"[-_.]+", "-", found.metadata["Name"]).lower()
        if key not in seen:
            seen[key] = found
            needs = [re.match(r"[\w.-]+", text) for text in found.requires or [] if "extra ==" not in text]
            queue += _installed([match[0] for match in needs if match])
    return {"own": _megabytes(own), "with_all_it_needs": _megabytes([*seen.values()])}


def costs_of(name: str, work: str, threads: int, batch: int, files: Path, tries: int) -> dict[str, Any]:
    """Measure all, one by one, so that a failure does not lose the others."""
    start = _FIRST, name, threads, batch, files, work

    def cold() -> float:
        drop_code()
        return _timed(threads, 1, *start)

    measures: dict[str, Any] = {
        "import_seconds": lambda: _timed(threads, tries, _IMPORT, module_of(name)),
        "first_batch_cold_seconds": cold,
        "first_batch_seconds": lambda: _timed(threads, tries, *start),
        "peak_mib": lambda: peak_mib(name, work, threads, batch, files),
        "installed_megabytes": lambda: installed_megabytes(name),
    }
    result: dict[str, Any] = {"costs_of": work}
    for cost, measure in measures.items():
        try:
            result[cost] = measure()
        except Exception as error:
            result[cost] = f"failed: {error}"
    return result
