"""A process for each peer, so that their libraries, threads and crashes are separate, and its protocol.

The others wait in their processes while one of them runs. A process is started with ``python -m bench.peers.host``,
receives the files as one pickle, and answers requests on a pipe.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench.peers import processes
from bench.peers.base import Epoch, Peer
from bench.peers.registry import peer_class

_PATIENCE = 180.0  # seconds for one answer


def threads_environment(threads: int) -> dict[str, str]:
    """Return the environment variables by which libraries have this number of threads; Rust's calls have one each."""
    return {"GPUIMG_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads), "RAYON_NUM_THREADS": "1"}


class PeerError(Exception):
    """A failure of a peer; the message has the reason."""


class Host:
    """The client of a peer's process."""

    def __init__(self, name: str, threads: int, batch: int, files: Path) -> None:
        ours, theirs = os.pipe(), os.pipe()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - it is read when the process has ended; see close
        arguments = [name, str(threads), str(batch), str(files), str(theirs[0]), str(ours[1])]
        # Equal threads for what reads these, and nothing more than those for what would take every core.
        environment = os.environ | threads_environment(threads)
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "bench.peers.host", *arguments],
            pass_fds=(theirs[0], ours[1]),
            env=environment,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        os.close(theirs[0])
        os.close(ours[1])
        self._inbox = Connection(ours[0], writable=False)
        self._outbox = Connection(theirs[1], readable=False)
        self.pid = self._process.pid

    def request(self, request: str, *arguments: Any) -> Any:
        """Send a request and wait for its result.

        Raises
        ------
        PeerError
            If it raised, ended, or did not answer in time.
        """
        try:
            self._outbox.send((request, *arguments))
            if not self._inbox.poll(_PATIENCE):
                self.kill()
                raise PeerError(f"no answer in {_PATIENCE:.0f} s")
            error, answer = self._inbox.recv()
        except (EOFError, OSError):
            raise PeerError(f"its process ended: {self._last_words()}") from None
        if error:
            raise PeerError(error)
        return answer

    def _last_words(self) -> str:
        code = self._process.wait(10)
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return f"{lines[-1] if lines else 'nothing said'} (exit code {code})"

    def kill(self) -> None:
        """Kill the process and its workers."""
        if self._process.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """End the process."""
        try:
            self._outbox.send(("quit",))
            self._process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            pass
        self.kill()
        self._inbox.close()
        self._outbox.close()
        self._log.close()


class _Service:
    """The handlers of requests, in the peer's process."""

    def __init__(self, peer: Peer, files: list[bytes]) -> None:
        self._peer = peer
        self._files = files
        self._epochs: dict[str, Epoch] = {}

    def describe(self) -> dict[str, Any]:
        """Return name, version, and differences."""
        peer = self._peer
        return {"name": peer.name, "version": version_of(peer), "lacks": dict(peer.lacks), "notes": peer.notes}

    def first(self, work: str) -> Any:
        """Return the results of the first batch."""
        return self._peer.first(work, self._files[: self._peer.batch])

    def epoch(self, work: str) -> tuple[float, float]:
        """Return wall-clock and CPU seconds of one pass over the files; the first pass also prepares the work."""
        if work not in self._epochs:
            self._epochs[work] = self._peer.start(work, self._files)
        before = processes.cpu_seconds()
        start = time.perf_counter()
        count = sum(1 for _ in self._epochs[work]())
        taken = time.perf_counter() - start
        if count != -(-len(self._files) // self._peer.batch):
            raise RuntimeError(f"{count} batches for {len(self._files)} files")
        return taken, processes.cpu_seconds() - before

    def forget(self, work: str) -> None:
        """Release a work's workers and memory."""
        self._epochs.pop(work, None)


def version_of(peer: Peer | type[Peer]) -> str:
    """Return the version of the first of a peer's distributions that is installed."""
    for name in peer.distributions:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "unknown"


def _short(error: BaseException) -> str:
    lines = "".join(traceback.format_exception_only(error)).strip().splitlines()
    text = next((line.strip() for line in lines if line.strip()), "")
    return text if len(text) <= 300 else f"{text[:300]}..."


def _serve() -> None:
    name, threads, batch, path = sys.argv[1:5]
    inbox = Connection(int(sys.argv[5]), writable=False)
    outbox = Connection(int(sys.argv[6]), readable=False)
    service: _Service | None = None
    while True:
        try:
            request, *arguments = inbox.recv()
        except EOFError:
            return
        if request == "quit":
            return
        try:
            if service is None:
                with open(path, "rb") as file:
                    files = pickle.load(file)
                service = _Service(peer_class(name)(int(threads), int(batch)), files)
            answer = getattr(service, request)(*arguments)
        except Exception as error:
            traceback.print_exc()
            outbox.send((_short(error), None))
        else:
            outbox.send((None, answer))


if __name__ == "__main__":
    _serve()
