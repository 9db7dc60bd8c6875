"""Costs of a peer in addition to its speed: import time, the first batch, memory, and disk space."""

import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from bench.peers import module_of
from bench.peers.host import Host, PeerError, environment

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


def memory_mib(pid: int) -> float:
    """Return the memory of a process and its descendants; a page that several share counts once."""
    total, process = 0, psutil.Process(pid)
    for each in [process, *process.children(recursive=True)]:
        with suppress(psutil.Error):  # it has ended
            total += each.memory_full_info().pss
    return total / (1 << 20)


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


def costs_of(name: str, work: str, threads: int, batch: int, files: Path, tries: int) -> dict[str, Any]:
    """Measure all, one by one, so that a failure does not lose the others."""
    start = _FIRST, name, threads, batch, files, work

    measures: dict[str, Any] = {
        "import_seconds": lambda: _timed(threads, tries, _IMPORT, module_of(name)),
        "first_batch_seconds": lambda: _timed(threads, tries, *start),
        "peak_mib": lambda: peak_mib(name, work, threads, batch, files),
    }
    result: dict[str, Any] = {"costs_of": work}
    for cost, measure in measures.items():
        try:
            result[cost] = measure()
        except Exception as error:
            result[cost] = f"failed: {error}"
    return result
