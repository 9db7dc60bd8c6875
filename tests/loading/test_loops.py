"""Loops over a loader: memory and threads that end, whoever ends them, and what limits a loop."""

import gc
import re
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from tests.data_sets import FILES, Altered, Source, cpu, valid_indices
from tests.libraries import needs
from tests.processes import Forks, forks
from tests.samples import write_files
from tests.watchdog import no_hang

pytestmark = pytest.mark.usefixtures("watched")


def test_memory_is_used_again_but_not_under_results() -> None:
    """Of so large results that their memory comes from the pool, of which a view keeps it too."""
    kept, copies, addresses = [], [], set()
    for k, batch in enumerate(cpu(Source(64), lambda x: gi.resize(x, (400, 400)), batch_size=4, epochs=4)):
        addresses.add(batch.images.ctypes.data)
        if k < 30 and k % 3 == 0:
            kept.append(batch.images[1:3])
            copies.append(batch.images[1:3].copy())
    np.testing.assert_array_equal(kept, copies)
    assert len(addresses) < 64


@pytest.mark.slow
def test_thousands_of_batches_in_flat_memory() -> None:
    loader = cpu(Source(64), lambda x: gi.resize(x, (4, 4)), batch_size=1, epochs=4000 // 64 + 1)
    memory = []  # KiB of this process now; its peak may be another test's
    for k, _ in enumerate(loader):
        if k in (1000, 4000):
            gc.collect()
            memory += re.findall(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert int(memory[1]) - int(memory[0]) < 1400  # 480 bytes a batch


@pytest.mark.slow
def test_loops_in_cycles_end_wherever_they_are_collected() -> None:
    """Also in a thread of theirs that begins, draws a batch or holds a lock."""
    thresholds = gc.get_threshold()
    draws = np.random.default_rng()
    gc.collect()
    gc.freeze()  # rather than go through all that the run of the tests has made, each time
    try:
        for k in range(200):
            loader = cpu(Source(64), on_error="skip" if k % 2 else "raise", epochs=None, batch_size=4)
            cycle: list[Any] = [iter(loader), loader]
            for _ in range(draws.integers(3)):
                next(cycle[0])
            cycle.append(cycle)
            gc.set_threshold(int(draws.integers(1, 400)), 1, 1)
            del cycle, loader
            time.sleep(0.004 * draws.random())
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
        gc.collect()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Ctrl-C within a destructor
@pytest.mark.parametrize("loops", [60, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("policy", ["raise", "skip"])
def test_interrupted_loops_end_their_threads(loops: int, policy: str) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    list(cpu(Source(8), on_error=policy))  # imports, which Ctrl-C leaves half done
    draws = np.random.default_rng()
    handler = signal.signal(signal.SIGALRM, interrupt)
    interrupted = 0
    try:
        for _ in range(loops):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.03 * draws.uniform(0.02, 1.0) ** 4)  # most while threads start
                list(cpu(Source(64), on_error=policy, epochs=100, batch_size=4))
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupted += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
    for thread in threading.enumerate():
        if thread.name.startswith("gpuimg") and thread.is_alive():
            thread.join(20.0)
            assert not thread.is_alive()
    assert interrupted > loops // 2


def test_a_new_loop_ends_the_old_one() -> None:
    """With an error where that is continued, which must not look like the end of its samples."""
    loader = cpu(Source(64))
    old = iter(loader)
    next(old)
    assert len(valid_indices(loader)) == 64
    for _ in range(2):
        with pytest.raises(RuntimeError, match="two loops at a time need two loaders"):
            next(old)
    with pytest.raises(RuntimeError, match="ended by another one over the same loader"):
        list(zip(loader, loader, strict=True))
    ended = iter(loader)
    list(ended)
    assert len(valid_indices(loader)) == 64
    assert next(ended, None) is None


def test_stats_say_what_limits() -> None:
    cpu(Source(8)).close()
    slow = cpu(Altered(48, lambda *sample: threading.Event().wait(0.01) or sample), readers=1)
    list(slow)
    assert slow.stats()["limit"] == "read"
    loader = cpu(Source(32))
    for _ in loader:
        time.sleep(0.2)  # far longer than a batch takes, on a busy machine too
    stats = loader.stats()
    assert (stats["limit"], stats["images"]) == ("consumer", 32)
    assert stats["consumer"]["seconds"] > 0.7
    assert stats["ready"] > 0.5
    assert min(stats["decode"]["seconds"], stats["kernels"]["seconds"], stats["cores"]) > 0


@contextmanager
def busy() -> Iterator[None]:
    """A thread that holds the GIL as long as it can."""
    ended = threading.Event()

    def work() -> None:
        while not ended.is_set():
            for _ in range(1000):
                pass

    with ThreadPoolExecutor(1) as pool:
        pool.submit(work)
        try:
            yield
        finally:
            ended.set()


@pytest.mark.parametrize("kind", ["paths", "bytes", "table"])
def test_waiting_for_python_is_not_reading(tmp_path: Path, kind: str) -> None:
    """Files in memory while other threads are busy in Python: storage is not the limit."""
    # Each wait for the GIL takes 5 ms and more; of fewer files their sum varies too much.
    write_files(tmp_path, {f"{k}.jpg": FILES[k % len(FILES)] for k in range(128)})
    paths = [tmp_path / f"{k}.jpg" for k in range(128)]
    sources = {
        "paths": [(path, k) for k, path in enumerate(paths)], "table": gi.file_list(paths, range(len(paths))),
        "bytes": Altered(128, lambda _, k: (paths[k].read_bytes(), k)),
    }  # fmt: skip
    loader = cpu(sources[kind], lambda x: gi.resize(x, (8, 8)), readers=1)
    list(loader)  # compiled
    with busy(), busy():
        list(loader)
    assert loader.stats()["limit"] != "read"
    assert kind != "bytes" or loader.stats()["read"]["held"] > 0


def test_progress(capsys: pytest.CaptureFixture[str]) -> None:
    needs("tqdm")
    list(cpu(Source(64), progress=True))
    shown = capsys.readouterr().err
    assert "64.0/64.0" in shown
    assert "limited by" in shown
    expected = "<gpuimg.Loader of 20 samples, batches of 8 on cpu, rank 1 of 2, epoch 0>"
    assert repr(cpu(Source(20), shard=(1, 2))) == expected
    assert repr(cpu(Source(1_281_167))).startswith("<gpuimg.Loader of 1,281,167 samples, ")


# -- processes ---------------------------------------------------------------------------------------------------------

IMPORTS = """
import itertools, os, signal, sys, threading
import gpuimg as gi
from tests.data_sets import FILES, Source, cpu, valid_indices


"""


@pytest.fixture(scope="module")
def processes() -> Iterator[Forks]:
    with forks(IMPORTS, "-W", "ignore::DeprecationWarning") as processes:
        yield processes


@pytest.mark.slow
@pytest.mark.parametrize(("body", "status"), [
    ("it = iter(loader); next(it)", 0), ("next(loader); sys.exit(3)", 3),
    ("it = gi.prefetch(itertools.count()); next(it)", 0),
    (
        "try:\n    for k, _ in enumerate(loader):\n        if k == 3: os.kill(os.getpid(), signal.SIGINT)\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(7 if not [t for t in threading.enumerate() if t.name.startswith('gpuimg')] else 8)", 7,
    ),
])  # fmt: skip
def test_the_process_ends(processes: Forks, body: str, status: int) -> None:
    with no_hang():
        done = processes.run(f"{IMPORTS}loader = cpu(Source(64), epochs=None)\n{body}")
    assert (done.returncode, done.stderr) == (status, "")


# A child that waits for ever is ended by its alarm, with its own exit status.
FORKED = """
loader = cpu(Source(64), epochs=2)
it = {begin}
next(it)
child = os.fork()
if child == 0:
    signal.alarm(60)
    for _ in range(2):
        try:
            next(it)
        except RuntimeError as error:
            print(error, flush=True)
    {then}
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), next(it) is not None)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("begin", "then"), [
    ("iter(loader)", "assert len(valid_indices(loader)) == 128"), ("iter(loader)", "loader.close()"),
    ("gi.prefetch(iter(range(9)))", "it.close()"),
    ("gi.prefetch(range(9), workers=2)", "assert list(gi.prefetch(range(9), workers=2)) == list(range(9))"),
])  # fmt: skip
def test_a_forked_child_does_not_continue_a_loop(processes: Forks, begin: str, then: str) -> None:
    """The child raises an error instead of hanging, can start again, and ends; the parent continues."""
    with no_hang():
        done = processes.run(IMPORTS + FORKED.format(begin=begin, then=then))
    *said, last = done.stdout.splitlines()
    assert (done.stderr, last, len(said)) == ("", "7 True", 2)
    assert all("start a new loop in the child" in line for line in said)
