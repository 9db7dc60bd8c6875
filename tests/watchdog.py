"""Watchdog for tests with threads: none may hang or leave a thread running."""

import faulthandler
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Where the stacks go: pytest's capture would lose them with the process.
_stderr = 2


def keep_stderr() -> None:
    """Remember this process's standard error; to be called where pytest doesn't capture it."""
    global _stderr
    _stderr = os.dup(2)


def ours() -> list[str]:
    """Names of gpuimg's threads that are alive."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("gpuimg")]


def system_threads() -> int:
    """Threads of this process, those that Python has not begun to run, too."""
    return len(os.listdir("/proc/self/task"))


@contextmanager
def ends_after(seconds: float) -> Iterator[None]:
    """End the test run with all stacks if the block takes longer. There is one clock: a block inside one stops its."""
    faulthandler.dump_traceback_later(seconds, exit=True, file=_stderr)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def on_threads(work: Callable[[], object], count: int = 4) -> None:
    """Call ``work`` on several threads at once, and raise what one of them raises."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def becomes_true(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Wait until a condition holds: threads end a moment after what they did; return whether it does."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return condition()


@contextmanager
def no_hang(seconds: float = 400.0) -> Iterator[None]:
    """End the test run with all stacks if the block takes longer, and fail if it leaves a thread."""
    with ends_after(seconds):
        yield
    assert becomes_true(lambda: not ours()), ours()
