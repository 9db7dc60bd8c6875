"""The number of threads, from files as Linux, Slurm and container runtimes write them."""

import os
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuimg._threads.helpers import side_by_side
from gpuimg._threads.threads import allowed, cpu_quota, share, threads

from ..processes import python
from ..samples import write_files
from ..watchdog import no_hang, on_threads, system_threads

STEP = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_CPUS_PER_TASK": "3"}
MOUNT_1 = "33 31 0:29 {} {} rw,relatime shared:9 - cgroup cgroup rw,{}\n"
MOUNT_2 = "41 31 0:38 {} {} rw,nosuid - cgroup2 cgroup2 rw\n"


def machine(root: Path, group: str, mounts: str, files: dict[str, str]) -> Path:
    """A root folder with these files, and what Linux says of this process's control groups."""
    own = {"proc/self/cgroup": group, "proc/self/mountinfo": "22 1 0:5 / /proc rw - proc proc rw\n" + mounts}
    return write_files(root, {name: text.encode() for name, text in (own | files).items()})


_V2, _V1 = MOUNT_2.format("/", "/cg"), MOUNT_1.format("/", "/cg/mem", "memory") + MOUNT_1.format("/", "/cg/cpu", "cpu")
_BOTH = MOUNT_1.format("/", "/c\\040g/1", "cpu") + MOUNT_2.format("/", "/c\\040g/2")
_NESTED = {"": "max", "a/": "300000", "a/b/": "max", "a/b/c/": "400000", "other/": "100000"}
_OWN = {"cg/cpu.max": "200000 100000", "cg/own/cpu.max": "100000 100000"}
#: Control groups of a process, mounts, files, and the quota of cores.
QUOTAS: list[tuple[str, str, dict[str, str], float | None]] = [
    *(("0::/\n", _V2, {"cg/cpu.max": text}, quota) for text, quota in (
        ("150000 100000\n", 1.5), ("max 100000", None), ("", None), ("-5 100000", None), ("9" * 5000 + " 1", None))),
    *(("4:memory:/x\n3:cpu:/\n", _V1, {"cg/cpu/cpu.cfs_quota_us": text, "cg/cpu/cpu.cfs_period_us": "100000\n"}, quota)
      for text, quota in (("250000\n", 2.5), ("-1\n", None), ("\n", None), ("much\n", None))),
    ("3:cpuacct,cpu:/\n", MOUNT_1.format("/", "/cg", "cpuacct,cpu"),
     {"cg/cpu.cfs_quota_us": "250000", "cg/cpu.cfs_period_us": "100000"}, 2.5),
    ("0::/a/b/c\n", _V2, {f"cg/{group}cpu.max": f"{quota} 100000" for group, quota in _NESTED.items()}, 3.0),
    # In a container the mount is its group.
    ("0::/docker/1/own\n", MOUNT_2.format("/docker/1", "/cg"), _OWN, 1.0),
    ("0::/../elsewhere\n", MOUNT_2.format("/docker/1", "/cg"), _OWN, 2.0),
    ("1:cpu:/\n0::/\n", _BOTH, {"c g/2/cpu.max": "800000 100000", "c g/1/cpu.cfs_quota_us": "700000",
                              "c g/1/cpu.cfs_period_us": "100000"}, 7.0),
]  # fmt: skip


@pytest.mark.parametrize(("groups", "mounts", "files", "quota"), QUOTAS)
def test_quota(tmp_path: Path, groups: str, mounts: str, files: dict[str, str], quota: float | None) -> None:
    assert cpu_quota(machine(tmp_path, groups, mounts, files)) == quota


@pytest.mark.parametrize("text", ["", "0\n", "0::\n", "::::\n", "\x00\xff\n", "0::/../..\n"])
def test_damaged_lists_are_no_limit(tmp_path: Path, text: str) -> None:
    assert cpu_quota(machine(tmp_path, text, text, {})) is None
    assert cpu_quota(machine(tmp_path, text, "1 2 - cgroup2\n - \n" + MOUNT_2.format("/", "/none"), {})) is None


@pytest.mark.parametrize(
    ("quota", "environment", "count", "said"),
    [
        ("max 100000", {}, 16, "may run on: 16"), ("150000 100000", {}, 2, "1.5 cores"),
        ("10000 100000", {}, 1, "0.1 cores"), ("max 100000", STEP, 16, "may run on: 16"),
        ("max 100000", {"LOCAL_WORLD_SIZE": "4"}, 4, "16, for 4 processes (LOCAL_WORLD_SIZE)"),
        ("max 100000", {"LOCAL_WORLD_SIZE": "5"}, 3, "LOCAL_WORLD_SIZE"),
        ("max 100000", {"LOCAL_WORLD_SIZE": "many"}, 16, "may run on: 16"),
        ("800000 100000", {"LOCAL_WORLD_SIZE": "4"}, 2, "8 cores, for 4 processes"),
        ("max 100000", {"OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, 8, "OMPI_COMM_WORLD_LOCAL_SIZE"),
        ("max 100000", {"SLURM_NTASKS_PER_NODE": "8"}, 16, "may run on: 16"),  # not in a step
        ("max 100000", {"SLURM_STEP_NUM_TASKS": "8", "SLURM_NTASKS_PER_NODE": "8"}, 2, "SLURM_NTASKS_PER_NODE"),
        ("max 100000", STEP | {"SLURM_STEP_TASKS_PER_NODE": "2"}, 3, "SLURM_CPUS_PER_TASK"),
    ],
)  # fmt: skip
def test_share(tmp_path: Path, quota: str, environment: dict[str, str], count: int, said: str) -> None:
    files = {"cg/cpu.max": quota}
    found = share(16, environment, machine(tmp_path, "0::/\n", MOUNT_2.format("/", "/cg"), files))
    assert found.threads == count
    assert said in found.reason


@pytest.mark.parametrize(
    ("text", "node", "count"),
    [("4(x2),3", "0", 3), ("4(x2),3", "3", 12), ("6", "0", 2), ("2(x128)", "127", 6), ("4(x2", "0", 12), ("", "0", 12)],
)
def test_tasks_of_a_slurm_node(tmp_path: Path, text: str, node: str, count: int) -> None:
    step = {"SLURM_STEP_NUM_TASKS": "8", "SLURM_STEP_TASKS_PER_NODE": text, "SLURM_NODEID": node}
    assert share(12, step, tmp_path).threads == count


def process(root: Path, name: str, parent: int, cores: str, *environment: str) -> None:
    folder = root / "proc" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "status").write_text(f"Name:\tpython\nPPid:\t{parent}\nCpus_allowed_list:\t{cores}\n")
    (folder / "environ").write_bytes(b"".join(entry.encode() + b"\0" for entry in environment))


@pytest.mark.parametrize(("launcher", "count"), [("0-15", 4), ("0-3", 1), ("0-2,8,10-31", 4), ("damaged", 1)])
def test_cores_are_divided_once(tmp_path: Path, launcher: str, count: int) -> None:
    process(tmp_path, "self", 30, "0-3", "LOCAL_WORLD_SIZE=4")
    process(tmp_path, "30", 20, "0-3", "A=1", "LOCAL_WORLD_SIZE=4")  # a shell between
    process(tmp_path, "20", 10, launcher, "NO_LOCAL_WORLD_SIZE=4")
    process(tmp_path, "10", 0, "0-63")
    assert share(4, {"LOCAL_WORLD_SIZE": "4"}, tmp_path).threads == count


def test_variable_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUIMG_NUM_THREADS", "37")
    assert allowed() == (37, "GPUIMG_NUM_THREADS")
    monkeypatch.setenv("GPUIMG_NUM_THREADS", "")
    assert 1 <= threads() <= (os.cpu_count() or 1)
    for text in ("0", "-1", "two", "1.5", "²", " "):
        monkeypatch.setenv("GPUIMG_NUM_THREADS", text)
        with pytest.raises(ValueError, match="GPUIMG_NUM_THREADS must be a whole number of at least 1"):
            threads()


@pytest.mark.slow
def test_affinity_and_launcher_of_a_real_process() -> None:
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
        "from gpuimg._threads.threads import allowed; print(*allowed())"
    )
    for peers in (1, 2 * len(os.sched_getaffinity(0))):
        assert python("-c", code, GPUIMG_NUM_THREADS=None, LOCAL_WORLD_SIZE=str(peers)).split()[0] == "1"


@pytest.mark.parametrize("helpers", [0, 1, 3])
def test_work_is_done_once(helpers: int) -> None:
    """By several callers at a time."""
    done, crowds = list[int](), list[int]()

    def caller() -> None:
        for _ in range(100):
            jobs, own = iter(range(5)), set[int]()

            def work(jobs: Iterator[int] = jobs, own: set[int] = own) -> None:
                own.add(threading.get_ident())
                for job in jobs:
                    time.sleep(0)
                    done.append(job)

            side_by_side(work, helpers)
            crowds.append(len(own))

    on_threads(caller, 3)
    assert sorted(done) == sorted([*range(5)] * 300)
    assert max(crowds) <= helpers + 1


@pytest.mark.parametrize("caller", [True, False])
def test_what_a_caller_or_helper_raises_is_raised(caller: bool) -> None:
    """A caller that cannot go on stops its helpers."""
    begun, stopped = threading.Event(), threading.Event()

    def work() -> None:
        if (threading.current_thread() is threading.main_thread()) == caller:
            begun.wait() if caller else begun.set()
            raise KeyError("work")
        begun.set() if caller else begun.wait()
        if caller:
            stopped.wait()

    with no_hang(), pytest.raises(KeyError, match="work"):
        side_by_side(work, 1, stopped.set)


def test_memory_is_free_after_the_call() -> None:
    class Memory:
        pass

    for _ in range(300):
        memory = Memory()
        alive = weakref.ref(memory)
        side_by_side(lambda memory=memory: None, 3)  # type: ignore[misc]
        del memory
        assert alive() is None


def test_small_calls_leave_no_crowd_of_threads() -> None:
    """Helpers that wait for the GIL serve later calls, so that no more of them are started."""
    before = most = system_threads()
    for _ in range(3000):
        side_by_side(lambda: None, 3)
        most = max(most, system_threads())
    assert most <= before + 20
