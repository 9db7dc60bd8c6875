"""Threads that help with one call: they neither hold it up when they begin late nor outlive it.

``threading.Thread.start`` would wait until the thread runs, which takes milliseconds beside one that is busy in Python.
So helpers are started and not waited for, and one that begins late helps whoever wants help by then. Without that a
loop of small calls would have hundreds of threads that wait for Python's lock, each to find that its call is over.
"""

from __future__ import annotations

import _thread
import os
import threading
from collections.abc import Callable
from contextlib import suppress


class _Call:
    """Work that threads do side by side."""

    def __init__(self, work: Callable[[], None], helpers: int, stop: Callable[[], None] | None) -> None:
        self._work: Callable[[], None] | None = work
        self._stop = stop
        self._state = threading.Condition()
        self._running = 0
        self._raised: list[BaseException] = []
        self.wanted = helpers  # that have not begun

    def help_out(self) -> bool:
        """Work with it, if help is wanted still."""
        with self._state:
            work = self._work
            if work is None or self.wanted <= 0:
                return False
            self.wanted -= 1
            self._running += 1
        try:
            work()
        except BaseException as error:
            self._raised.append(error)
        finally:
            del work  # what it works on must not live on here
            with self._state:
                self._running -= 1
                self._state.notify()
        return True

    def run(self) -> None:
        """Get help, work, and wait for those who have begun to."""
        assert self._work is not None
        try:
            if self.wanted > 0:
                _open.append(self)
                _start_helpers()
            self._work()
        except BaseException:
            if self._stop is not None:
                self._stop()
            raise
        finally:
            with self._state:
                self._work = None
                while self._running:
                    self._state.wait()
            with suppress(ValueError):
                _open.remove(self)
        if self._raised:
            raise self._raised[0]


# Both are changed by single operations of lists, which are atomic. A call is in its list before helpers on their way
# are counted, and a helper is on its way no more before it looks for calls: one that was counted sees the call.
_open: list[_Call] = []
_on_their_way: list[None] = []  # helpers that have not begun


def _in_child() -> None:
    """A forked child has none of the threads."""
    _open.clear()
    _on_their_way.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def _help_somebody() -> None:
    _on_their_way.pop()
    any(call.help_out() for call in tuple(_open))


def _start_helpers() -> None:
    """As many as calls want and are not on their way."""
    for _ in range(sum(call.wanted for call in tuple(_open)) - len(_on_their_way)):
        _on_their_way.append(None)
        try:
            _thread.start_new_thread(_help_somebody, ())
        except RuntimeError:  # no more threads are allowed: it takes longer, then
            _on_their_way.pop()
            return


def side_by_side(work: Callable[[], None], helpers: int, stop: Callable[[], None] | None = None) -> None:
    """Call ``work`` on this thread and on some others, until it has returned here and wherever it was begun.

    A helper that comes when all is done does nothing. What any of them raises is raised. ``stop`` is called where this
    thread cannot go on, as by an interrupt, so that the others need not do all of it.
    """
    _Call(work, helpers, stop).run()
