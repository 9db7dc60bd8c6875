"""Tests of threads: no test may hang, and none may leave a thread behind."""

from __future__ import annotations

import faulthandler
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


def ours() -> list[str]:
    """Names of gpuimg's threads that are alive."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("gpuimg")]


@contextmanager
def no_hang(seconds: float = 120.0) -> Iterator[None]:
    """End the test run with all stacks if the block takes longer, and fail if it leaves a thread."""
    faulthandler.dump_traceback_later(seconds, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
    deadline = time.monotonic() + 5.0
    while ours() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert ours() == []
