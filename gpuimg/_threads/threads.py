"""Number of worker threads: the cores that this process may use, shared with its peer processes on the machine."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ..kernels.native import allowed_cores

MOST_THREADS = 1024  # that a caller may request of one kind: thousands leave no memory for anything else

_ROOT = Path("/")

# Numbers of processes on a machine that share its cores, by launcher: torchrun, Accelerate; Open MPI; MPICH, Intel MPI.
_PEERS = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")

_ANCESTORS = 32  # processes examined between this one and its launcher


class Allowed(NamedTuple):
    """Number of threads, and the reason as text."""

    threads: int
    reason: str


def threads() -> int:
    """Return the number of worker threads: ``GPUIMG_NUM_THREADS``, or the cores this process may use."""
    return allowed().threads


def allowed() -> Allowed:
    """Return the number of threads and its reason; raise ValueError for a bad ``GPUIMG_NUM_THREADS``."""
    text = os.environ.get("GPUIMG_NUM_THREADS")
    return _from_variable(text) if text else _from_machine()


@cache
def _from_variable(text: str) -> Allowed:
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise ValueError(f"GPUIMG_NUM_THREADS must be a whole number of at least 1, not {text!r}")
    return Allowed(int(text), "GPUIMG_NUM_THREADS")


@cache
def _from_machine() -> Allowed:
    """Return the machine's limit; computed once per process, because limits are set when it starts."""
    return share(allowed_cores(), os.environ, _ROOT)


@cache
def usable_cores() -> int:
    """Return the number of cores that this process and its peers may use together."""
    quota = cpu_quota(_ROOT)
    return allowed_cores() if quota is None else min(allowed_cores(), math.ceil(quota))


def share(cores: int, environment: Mapping[str, str], root: Path) -> Allowed:
    """Return one process's share of the cores that affinity, control groups and launcher allow; at least one thread.

    ``cores`` are those of the process's affinity mask, and ``root`` is the folder that contains ``proc``.
    """
    found = [Allowed(cores, f"cores that it may run on: {cores}")]
    variable, peers = _peers(environment)
    of_all = f", for {peers} processes ({variable})" if peers > 1 else ""
    own = _number(environment.get("SLURM_CPUS_PER_TASK")) if variable.startswith("SLURM") else None
    if own is not None:
        found.append(Allowed(own, "SLURM_CPUS_PER_TASK"))
    elif peers > 1:
        # A launcher that binds each process to separate cores has divided them already.
        shared = _launcher_cores(variable, root) or cores
        found.append(Allowed(shared // peers, f"cores that it may run on: {max(shared, cores)}{of_all}"))
    quota = cpu_quota(root)
    if quota is not None:
        found.append(Allowed(math.ceil(quota) // peers, f"CPU quota of its control group: {quota:g} cores{of_all}"))
    least = min(found, key=lambda one: one.threads)
    return least._replace(threads=max(least.threads, 1))


# -- control groups ----------------------------------------------------------------------------------------------------


def cpu_quota(root: Path) -> float | None:
    """Return the CPU quota of this process's control groups and their parents, in cores; None without a limit.

    References
    ----------
    Linux ``Documentation/admin-guide/cgroup-v2.rst``, ``cpu.max``, and ``scheduler/sched-bwc.rst`` for version 1;
    ``filesystems/proc.rst``, ``mountinfo``.
    """
    quotas = [quota for folder in _groups(root) if (quota := _quota(folder)) is not None]
    return min(quotas, default=None)


def _groups(root: Path) -> Iterator[Path]:
    """Yield the folders of this process's control groups with a CPU controller, and of their parents."""
    paths = {}
    for line in _lines(root / "proc/self/cgroup"):
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number == "0" and not controllers:
            paths["cgroup2"] = path
        elif "cpu" in controllers.split(","):
            paths["cgroup"] = path
    for line in _lines(root / "proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        where, what = before.split(" "), after.split(" ")
        if len(where) < 5 or what[0] not in paths or (what[0] == "cgroup" and "cpu" not in what[-1].split(",")):
            continue
        mount = root / _unescaped(where[4]).lstrip("/")
        inside = _below(paths[what[0]], _unescaped(where[3]))
        yield mount
        for k in range(len(inside)):
            yield mount.joinpath(*inside[: k + 1])


def _below(path: str, mounted: str) -> tuple[str, ...]:
    """Return a group's path components below the mounted group; empty if it is elsewhere, as in some containers."""
    pure = PurePosixPath(path)
    if ".." in pure.parts or not pure.is_relative_to(mounted):
        return ()
    return pure.relative_to(mounted).parts


def _unescaped(name: str) -> str:
    r"""Decode a name in mountinfo, where ``\040`` stands for a space."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), name)


def _quota(folder: Path) -> float | None:
    fields = " ".join(_lines(folder / "cpu.max")[:1]).split()
    if not fields:
        fields = [*_lines(folder / "cpu.cfs_quota_us")[:1], *_lines(folder / "cpu.cfs_period_us")[:1]]
    quota, period = [*(_number(text) for text in fields), None, None][:2]  # "max" and -1 mean no quota
    return quota / period if quota and period else None


def _lines(path: Path) -> list[str]:
    """Return the lines of a file; none if it cannot be read, as for all of these files outside Linux."""
    with suppress(OSError):
        return path.read_text(errors="replace").splitlines()
    return []


# -- launchers ---------------------------------------------------------------------------------------------------------


def _peers(environment: Mapping[str, str]) -> tuple[str, int]:
    """Return the variable of the first launcher that sets a number of processes on this machine, and that number."""
    found = [(name, _number(environment.get(name))) for name in _PEERS]
    if "SLURM_STEP_NUM_TASKS" in environment:  # outside of a job step, tasks are not peers of this process
        node = _number(environment.get("SLURM_NODEID")) or 0
        names = ("SLURM_STEP_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE")
        found += [(name, _of_node(environment.get(name, ""), node)) for name in names]
    return next(((name, count) for name, count in found if count), ("", 1))


def _of_node(text: str, node: int) -> int | None:
    """Return the tasks on a node, from Slurm's ``"4(x2),3"``: 4 on each of the first two, and 3 on the third."""
    matches = [re.fullmatch(r"(\d{1,6})(?:\(x(\d{1,6})\))?", part.strip()) for part in text.split(",")]
    for match in matches:
        if match is None:
            return None
        node -= int(match[2] or 1)
        if node < 0:
            return int(match[1])
    return int(matches[0][1]) if len(matches) == 1 and matches[0] is not None else None


def _launcher_cores(variable: str, root: Path) -> int | None:
    """Return the launcher's number of cores: the nearest parent process that was started without its variable."""
    mark = f"{variable}=".encode()
    process = "self"
    for _ in range(_ANCESTORS):
        status = dict(line.split(":\t", 1) for line in _lines(root / "proc" / process / "status") if ":\t" in line)
        if process != "self" and not _started_with(mark, root / "proc" / process / "environ"):
            return _listed(status.get("Cpus_allowed_list", ""))
        process = status.get("PPid", "0").strip()
        if process == "0":
            return None
    return None


def _started_with(mark: bytes, environment: Path) -> bool:
    """Return True if a process started with a variable. One that may not be read is another user's, such as Slurm's."""
    with suppress(OSError):
        return any(entry.startswith(mark) for entry in environment.read_bytes().split(b"\0"))
    return False


def _listed(text: str) -> int | None:
    """Return the length of a list such as ``0-3,8``."""
    count = 0
    for part in text.strip().split(","):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part)
        if match is None:
            return None
        count += int(match[2] or match[1]) - int(match[1]) + 1
    return count


def _number(text: str | None) -> int | None:
    """Return a positive integer; None for any other text."""
    if text is None or not re.fullmatch(r"[0-9]{1,18}", text.strip()):
        return None
    return int(text) or None
