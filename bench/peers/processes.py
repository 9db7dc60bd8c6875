"""CPU time and memory of a process and its descendants: worker processes count for their peer."""

from __future__ import annotations

import os
import resource
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

_TICKS = os.sysconf("SC_CLK_TCK")
_INTERVAL = 0.02  # seconds between two looks at the memory


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the third on: the second is a name that may contain anything."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []  # it has ended


def descendants(pid: int) -> list[int]:
    """Return the descendants of this process."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and (fields := _stat(int(path.name))):
            parents.setdefault(int(fields[1]), []).append(int(path.name))
    found, queue = [], [pid]
    while queue:
        children = parents.get(queue.pop(), [])
        found += children
        queue += children
    return found


def cpu_seconds() -> float:
    """Return user and system time so far of this process and its descendants, ended ones included."""
    own, ended = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    total = own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime
    for pid in descendants(os.getpid()):
        # utime, stime, and the same of its ended children.
        total += sum(int(field) for field in _stat(pid)[11:15]) / _TICKS
    return total


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


class Peak:
    """The highest memory of a process and its descendants while inside the ``with``."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.mib = 0.0

    def _watch(self) -> None:
        while True:
            self.mib = max(self.mib, memory_mib(self._pid))
            if self._done.wait(_INTERVAL):
                return

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()
