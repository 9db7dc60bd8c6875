"""A process for each peer, so that their libraries, threads and crashes are separate, and its protocol.

The others wait in their processes while one of them runs. A process is started with ``python -m bench.peers.host``,
reads the files from one pickle, and answers requests on a socket.
"""

import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

import psutil

from bench.peers import peer_class
from bench.peers.base import Epoch

_PATIENCE = 180.0  # seconds for one answer


def environment(threads: int) -> dict[str, str]:
    """Return environment variables by which libraries have this number of threads; Rust's calls have one each."""
    names = {"GPUIMG_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads), "RAYON_NUM_THREADS": "1"}
    return os.environ | names


class PeerError(Exception):
    """A failure of a peer; the message has the reason."""


class Host:
    """The client of a peer's process."""

    def __init__(self, name: str, threads: int, batch: int, files: Path) -> None:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-W", "ignore", "-m", "bench.peers.host"]
        self._process = subprocess.Popen(
            [*command, name, str(threads), str(batch), str(files), str(theirs.fileno())], env=environment(threads),
            pass_fds=(theirs.fileno(),), start_new_session=True,
        )  # fmt: skip
        theirs.close()
        self._connection = Connection(ours.detach())
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        if self._process.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def request(self, request: str, *arguments: Any) -> Any:
        """Return the result of a request; it is an error if the peer raises, ends, or does not answer in time."""
        try:
            self._connection.send((request, *arguments))
            if not self._connection.poll(_PATIENCE):
                raise PeerError(f"no answer in {_PATIENCE:.0f} s")
            error, answer = self._connection.recv()
        except (EOFError, OSError):
            raise PeerError(f"its process ended with {self._process.wait(10)}") from None
        if error:
            raise PeerError(error)
        return answer


def cpu_seconds() -> float:
    """Return user and system time so far of this process and its descendants: worker processes count for their peer."""
    own, ended = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    total = own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has ended
            total += sum(process.cpu_times()[:4])  # its own, and those of its children that have ended
    return total


class _Service:
    """The handlers of requests, in the peer's process."""

    def __init__(self, name: str, threads: int, batch: int, files: list[bytes]) -> None:
        self._peer = peer_class(name)(threads, batch)
        self._files = files
        self._epochs: dict[str, Epoch] = {}

    def describe(self) -> dict[str, Any]:
        peer, installed = self._peer, "unknown"
        for name in reversed(peer.distributions):
            try:
                installed = version(name)
            except PackageNotFoundError:
                continue
        return {"name": peer.name, "version": installed, "lacks": dict(peer.lacks), "notes": peer.notes}

    def first(self, work: str) -> Any:
        return self._peer.first(work, self._files[: self._peer.batch])

    def epoch(self, work: str) -> tuple[float, float]:
        """Return wall-clock and CPU seconds of one pass over the files; the first pass also prepares the work."""
        if work not in self._epochs:
            self._epochs[work] = self._peer.start(work, self._files)
        used, begin = cpu_seconds(), time.perf_counter()
        count = sum(1 for _ in self._epochs[work]())
        taken = time.perf_counter() - begin
        if count != -(-len(self._files) // self._peer.batch):
            raise RuntimeError(f"{count} batches for {len(self._files)} files")
        return taken, cpu_seconds() - used

    def forget(self, work: str) -> None:
        """Release a work's workers and memory."""
        self._epochs.pop(work, None)


def _serve(name: str, threads: str, batch: str, files: str, descriptor: str) -> None:
    connection = Connection(int(descriptor))
    service: _Service | None = None
    while True:
        try:
            request, *arguments = connection.recv()
        except EOFError:
            return
        try:
            if service is None:
                service = _Service(name, int(threads), int(batch), pickle.loads(Path(files).read_bytes()))
            answer = getattr(service, request)(*arguments)
        except Exception as error:
            traceback.print_exc()
            connection.send((f"{type(error).__name__}: {error}".splitlines()[0][:300], None))
        else:
            connection.send((None, answer))


if __name__ == "__main__":
    _serve(*sys.argv[1:])
