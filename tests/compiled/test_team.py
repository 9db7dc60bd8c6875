"""Threads of all calls and batches are one team: see ``kernels/cpu/team.py``."""

import itertools
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from gpuimg._batch.batch import recording_of
from gpuimg._runtimes import cpu_call
from gpuimg._runtimes.cpu_team import team
from gpuimg.kernels.cpu import batch

from ..data_sets import jpeg
from ..processes import python
from ..samples import file_of
from ..watchdog import becomes_true, ends_after, on_threads, system_threads

FILES = [jpeg(k, (8 + 7 * k % 40, 9 + 11 * k % 50)) for k in range(40)]


def noise(height: int, width: int) -> bytes:
    """A file that takes long to decode."""
    return file_of(np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8), "JPEG", quality=90)


OTHERS = [file_of(gi.decode_image(data, device="cpu"), "PNG") for data in FILES[:6]]


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """Every thread leaves its place, and every job its offer."""
    with ends_after(120):
        yield
    assert becomes_true(lambda: not team.records["running"][0])
    assert team.records[["running", "waiting"]].tolist() == [(0, 0)]
    assert not any(team.offers[name].any() for name in ("taken", "job", "inside", "wanted"))


def most_running(end: threading.Event) -> int:
    most = 0
    while not end.wait(1e-4):
        most = max(most, int(team.records["running"][0]))
    return most


@pytest.mark.parametrize(("threads", "callers"), [(1, 3), (2, 2), (3, 5), (8, 3), (4, 40)])
def test_every_image_is_computed_once(monkeypatch: pytest.MonkeyPatch, threads: int, callers: int) -> None:
    """By however many calls at a time, whose threads are never more than are allowed; Python decodes some files."""
    expected = {data: gi.decode_batch([data], device="cpu")[0].copy() for data in FILES + OTHERS}
    monkeypatch.setenv("GPUIMG_NUM_THREADS", str(threads))
    numbers, end, most = itertools.count(), threading.Event(), list[int]()

    def caller() -> None:
        draw = random.Random(next(numbers))
        for _ in range(600 // callers):
            some = draw.choices(FILES if draw.random() < 0.7 else FILES[:8] + OTHERS, k=draw.choice((1, 2, 5, 40)))
            for found, data in zip(gi.decode_batch(some, device="cpu"), some, strict=True):
                np.testing.assert_array_equal(found, expected[data])

    watching = threading.Thread(target=lambda: most.append(most_running(end)))
    watching.start()
    on_threads(caller, callers)
    end.set()
    watching.join()
    assert 1 <= most[0] <= threads


class Jobs:
    """Records of the jobs of calls, in the order in which they began."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[Any] = []
        begin = cpu_call.Call.run

        def run(call: Any, *given: Any) -> None:
            self.calls.append(call)
            begin(call, *given)

        monkeypatch.setattr(cpu_call.Call, "run", run)

    def left(self, k: int) -> int:
        job = self.calls[k]._job[0]
        return int(job["size"] - job["next"])


def test_the_oldest_job_has_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next ones wait, without a thread, until one finds no image left."""
    monkeypatch.setenv("GPUIMG_NUM_THREADS", "2")
    jobs, files, calls = Jobs(monkeypatch), [noise(700, 900)] * 300, list[threading.Thread]()
    for waiting in (0, 1, 2):
        calls.append(threading.Thread(target=lambda: gi.decode_batch(files, device="cpu")))
        calls[-1].start()
        while team.records[["running", "waiting"]].tolist() != [(2, waiting)]:
            time.sleep(1e-4)
    overtaken = 0
    while any(call.is_alive() for call in calls):
        for one, next_one in ((0, 1), (1, 2)):
            begun = jobs.left(next_one) < len(files)
            overtaken += begun and jobs.left(one) > 1
        time.sleep(1e-4)
    assert overtaken == 0


def test_small_batches_are_computed_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUIMG_NUM_THREADS", "4")
    large, end, most = [noise(900, 1200)] * 2, threading.Event(), list[int]()
    watching = threading.Thread(target=lambda: most.append(most_running(end)))
    watching.start()
    on_threads(lambda: [gi.decode_batch(large, device="cpu") for _ in range(5)], 2)
    end.set()
    watching.join()
    assert most == [4]


def test_an_interrupt_ends_a_call_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """For another one, which goes on."""
    monkeypatch.setenv("GPUIMG_NUM_THREADS", "1")
    large = [noise(1000, 1000)] * 400
    done: list[int] = []
    other = threading.Thread(target=lambda: done.append(len(gi.decode_batch(large, device="cpu"))))
    other.start()
    while not team.records["running"][0]:
        time.sleep(1e-4)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            gi.decode_batch(FILES, device="cpu")
        assert not done  # it was not waited for
        assert time.monotonic() - start < 5
    finally:
        signal.signal(signal.SIGALRM, before)
    other.join()
    assert done == [len(large)]


@pytest.mark.parametrize("files", [FILES, OTHERS], ids=["jpegs", "pngs"])
def test_an_error_of_a_thread_ends_the_job(monkeypatch: pytest.MonkeyPatch, files: list[bytes]) -> None:
    """Whatever that thread was at: its workers leave, and its place is free."""
    monkeypatch.setenv("GPUIMG_NUM_THREADS", "3")
    run, calls = batch.run_images, itertools.count()

    def fails(*given: Any) -> Any:
        if next(calls) % 3 == 2:
            raise MemoryError("of a test")
        return run(*given)

    monkeypatch.setattr(batch, "run_images", fails)
    for _ in range(6):
        with suppress(MemoryError):
            x = gi.resize(gi.open_batch(files, device="cpu"), (9, 9))
            assert x.array().shape == (len(files), 9, 9, 3)
    assert next(calls) >= 6


def test_workers_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A while after the last call; the next one begins others."""
    monkeypatch.setenv("GPUIMG_NUM_THREADS", "5")
    before = system_threads() - len(team.workers)
    for _ in range(2):
        gi.decode_batch(FILES, device="cpu")
        assert becomes_true(lambda: system_threads() <= before and team.workers == [])  # other threads may end first


def test_times_are_those_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of one before it, which had more threads."""
    monkeypatch.setenv("GPUIMG_NUM_THREADS", "6")
    for number in (200, 2, 1):
        start = time.perf_counter()
        x = gi.open_batch([noise(300, 400)] * number, device="cpu").compute()
        timings = recording_of(x).timings
        assert 0 < timings.decode + timings.kernels <= min(number, 6) * (time.perf_counter() - start)


def test_without_threads_a_call_takes_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUIMG_NUM_THREADS", "7")

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    while team.workers:
        time.sleep(0.05)
    monkeypatch.setattr("gpuimg._runtimes.cpu_team._thread.start_new_thread", refuse)
    assert len(gi.decode_batch(FILES, device="cpu")) == len(FILES)


def test_a_forked_child_has_a_team_of_its_own() -> None:
    """Forked while workers wait, and while they work; both processes end."""
    code = """
import os, threading
import gpuimg as gi
from tests.data_sets import jpeg
files = [jpeg(k, (200, 300)) for k in range(30)]
expected = gi.decode_batch(files, device="cpu")
busy = threading.Thread(target=lambda: [gi.decode_batch(files, device="cpu") for _ in range(20)])
busy.start()
children = []
for _ in range(4):
    if not (child := os.fork()):
        same = all((a == b).all() for a, b in zip(gi.decode_batch(files, device="cpu"), expected))
        os._exit(0 if same else 1)
    children.append(child)
print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
busy.join()
"""
    assert python("-W", "ignore", "-c", code, GPUIMG_NUM_THREADS="3").strip() == "[0, 0, 0, 0]"


def test_a_process_ends_while_workers_wait_or_work() -> None:
    code = """
import threading
import gpuimg as gi
from tests.data_sets import jpeg
files = [jpeg(k, (300, 400)) for k in range(40)]
gi.decode_batch(files, device="cpu")
{}
print("ends")
"""
    for rest in ("", 'threading.Thread(target=lambda: gi.decode_batch(20 * files, device="cpu"), daemon=True).start()'):
        assert python("-c", code.format(rest), GPUIMG_NUM_THREADS="4").strip() == "ends"
