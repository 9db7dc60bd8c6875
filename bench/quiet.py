"""A machine without other work: waits for it, and watches it while a part of the benchmarks runs."""

import os
import threading
import time
from collections import deque
from typing import Any, NamedTuple

import psutil

LOAD = 0.7  # of the machine, before the first part: later it is that of the parts
SHARE = 0.02  # of a core that another process may use, and of all cores that other virtual machines may
WINDOW_S = 30.0  # for which no other process may use more
_LOOK_S = 2.0
_MARK = "GPUIMG_BENCH_BY"  # environment variable of the processes that are ours
_KERNEL = 2  # process whose children are threads of the kernel, which work for the measured part, too


class Look(NamedTuple):
    """The CPU seconds so far of all other processes, by process."""

    time: float
    seconds: dict[tuple[int, str], float]


def look() -> Look:
    """Read the CPU time of all processes except this one and those that it started, also by others that have ended."""
    os.environ[_MARK] = mark = str(os.getpid())
    found = {
        (process.pid, process.info["name"]): sum(process.info["cpu_times"][:2])
        for process in psutil.process_iter(["name", "ppid", "status", "cpu_times", "environ"])
        if process.pid != os.getpid() and (process.info["environ"] or {}).get(_MARK) != mark
        and process.info["ppid"] != _KERNEL and process.info["cpu_times"]
        and process.info["status"] != psutil.STATUS_ZOMBIE  # which has no environment any more
    }  # fmt: skip
    return Look(time.monotonic(), found)


def busiest(before: Look, after: Look) -> tuple[float, str]:
    """Return the share of a core that the busiest other process used between two looks, and its name."""
    shares = {
        key: (seconds - before.seconds.get(key, 0.0)) / (after.time - before.time)
        for key, seconds in after.seconds.items()
    }
    key = max(shares, key=shares.__getitem__, default=(0, "none"))
    return shares.get(key, 0.0), f"{key[1]} (process {key[0]})"


def stolen() -> float:
    """Return the core seconds so far that the host gave to other virtual machines while this one had work."""
    return getattr(psutil.cpu_times(), "steal", 0.0)


class Watch:
    """Looks at the other processes every two seconds, in a thread."""

    def __init__(self) -> None:
        self._looks = deque([look()])
        self.start()
        threading.Thread(target=self._run, daemon=True).start()

    def start(self) -> None:
        """Forget what was observed so far."""
        self.busiest: tuple[float, str] = 0.0, ""  # other process: its share of a core, and its name
        self._load, self._start = 0.0, (time.monotonic(), stolen())

    def _run(self) -> None:
        while True:
            time.sleep(_LOOK_S)
            self._looks.append(look())
            while self._looks[-1].time - self._looks[1].time > WINDOW_S:
                self._looks.popleft()
            self.busiest = max(self.busiest, self.recent())
            self._load = max(self._load, os.getloadavg()[0])

    def recent(self) -> tuple[float, str]:
        """Return the busiest other process of the last seconds."""
        looks = list(self._looks)
        return busiest(looks[0], looks[-1]) if len(looks) > 1 else (0.0, "")

    def problem(self, first: bool) -> str:
        """Return why the machine is not quiet, or an empty string."""
        looks, load = list(self._looks), os.getloadavg()[0]
        share, name = self.recent()
        if share > SHARE:
            return f"{name} uses {100 * share:.0f} % of a core; at most {100 * SHARE:.0f} % are allowed"
        if first and load >= LOAD:
            return f"the load is {load:.2f}; it must be below {LOAD}"
        if looks[-1].time - looks[0].time < WINDOW_S - 2 * _LOOK_S:
            return f"it has been watched for less than {WINDOW_S:.0f} s"
        return ""

    def wait(self, limit: float, first: bool) -> str:
        """Wait until the machine is quiet; return why it is not after ``limit`` seconds, or an empty string."""
        end = time.monotonic() + limit
        while (problem := self.problem(first)) and time.monotonic() < end:
            time.sleep(_LOOK_S)
        return problem

    def record(self) -> dict[str, Any]:
        """Return what was observed since the start of the part."""
        share = self.busiest[0]
        start, before = self._start
        taken = (stolen() - before) / (time.monotonic() - start) / (os.cpu_count() or 1)
        return {
            "load_during": round(self._load, 2),
            "load_after": round(os.getloadavg()[0], 2),
            "busiest_other": round(share, 3),
            "stolen": round(taken, 3),
            "quiet": max(share, taken) <= SHARE,
        }
