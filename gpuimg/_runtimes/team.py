"""Threads that help with one call: they neither hold it up when they begin late nor outlive it."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable


def side_by_side(work: Callable[[], None], helpers: int) -> None:
    """Call ``work`` on this thread and on some others, until it has returned here and wherever it was begun.

    A helper that comes when all is done does nothing. ``threading.Thread.start`` would wait until the thread runs,
    which takes milliseconds beside one that is busy in Python. What any of them raises is raised.
    """
    state = threading.Condition()
    running = 0
    over = False
    raised: list[BaseException] = []

    def help_out() -> None:
        nonlocal running
        with state:
            if over:
                return
            running += 1
        try:
            work()
        except BaseException as error:
            raised.append(error)
        finally:
            with state:
                running -= 1
                state.notify()

    for _ in range(helpers):
        try:
            _thread.start_new_thread(help_out, ())
        except RuntimeError:  # no more threads are allowed: it takes longer, then
            break
    try:
        work()
    finally:
        with state:
            over = True
            while running:
                state.wait()
    if raised:
        raise raised[0]
