"""Costs of a peer besides its speed: import time, the first batch, memory, and disk space."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import gpuimg
from bench.peers.base import Peer
from bench.peers.host import Host, PeerError, threads_environment
from bench.peers.processes import Peak
from bench.peers.registry import PEERS

_CODE = re.compile(r".*\.(?:pyc?|so[.\d]*|kernel)")  # names of files that an import reads, or a first call
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
from bench.peers.registry import peer_class
epoch = peer_class(sys.argv[1])(int(sys.argv[2]), int(sys.argv[3])).start(sys.argv[5], files)
next(iter(epoch()))
print(time.perf_counter() - start, flush=True)
import os
os._exit(0)  # without waiting for workers that are still at the next batches
"""


def _timed(script: str, *arguments: str, threads: int) -> float:
    environment = os.environ | threads_environment(threads)
    command = [sys.executable, "-W", "ignore", "-c", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    if done.returncode:
        raise PeerError((done.stderr.strip().splitlines() or ["no output"])[-1])
    return float(done.stdout.strip().splitlines()[-1])


def import_seconds(name: str, threads: int, tries: int) -> float:
    """Measure the import time of a script with this peer, NumPy included, in a new process; the best of several."""
    module = PEERS[name].partition(":")[0]
    return round(min(_timed(_IMPORT, module, threads=threads) for _ in range(tries)), 2)


def first_batch_seconds(name: str, work: str, threads: int, batch: int, files: Path, tries: int) -> float:
    """Measure the time from the import to the first batch in a new process; the best of several, with cached code."""
    arguments = (name, str(threads), str(batch), str(files), work)
    return round(min(_timed(_FIRST, *arguments, threads=threads) for _ in range(tries)), 2)


def cold_seconds(name: str, work: str, threads: int, batch: int, files: Path) -> float:
    """Measure the same once, with code that is read from the disk: its files are not in the page cache."""
    package = Path(gpuimg.__file__).parent
    places = [sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), package, package.parent / "kernels"]
    for folder in {*map(Path, places), *map(Path, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))}:
        for path in folder.rglob("*") if folder != package.parent else ():
            if _CODE.fullmatch(path.name) and path.is_file():
                descriptor = os.open(path, os.O_RDONLY)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(descriptor)
    return first_batch_seconds(name, work, threads, batch, files, 1)


def peak_mib(name: str, work: str, threads: int, batch: int, files: Path) -> float:
    """Measure the peak memory of a new process and its workers over two epochs, the encoded files included."""
    host = Host(name, threads, batch, files)
    try:
        with Peak(host.pid) as peak:
            for _ in range(2):
                host.request("epoch", work)
    finally:
        host.close()
    return round(peak.mib)


def _installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _required(found: Distribution) -> list[str]:
    """Return the names of a distribution's dependencies, without extras and those of other systems."""
    needs = [text for text in found.requires or [] if "extra ==" not in text]
    return [match[0] for text in needs if (match := re.match(r"[A-Za-z0-9._-]+", text))]


def _megabytes(found: Distribution) -> float:
    sizes = 0
    for file in found.files or []:
        path = Path(str(found.locate_file(file)))
        if path.is_file() and path.suffix != ".pyc":
            sizes += path.stat().st_size
    return sizes / 1e6


def installed_megabytes(peer: type[Peer]) -> dict[str, Any]:
    """Return the size of a peer's own distributions, and with all their dependencies."""
    own = [found for name in peer.distributions if (found := _installed(name))]
    seen: dict[str, Distribution] = {}
    queue = list(own)
    while queue:
        found = queue.pop()
        key = re.sub(r"[-_.]+", "-", found.metadata["Name"]).lower()
        if key not in seen:
            seen[key] = found
            queue += [need for name in _required(found) if (need := _installed(name))]
    return {
        "own": round(sum(map(_megabytes, own))),
        "with_all_it_needs": round(sum(map(_megabytes, seen.values()))),
    }
