"""Helper threads for one call: late helpers do not delay the call, and none runs longer than it.

``threading.Thread.start`` would wait until the thread runs, which takes milliseconds next to a busy Python thread. So
helpers are started without waiting, and a helper that starts late helps whichever call needs one by then. Otherwise a
loop of small calls would accumulate hundreds of threads waiting for the GIL, each to find that its call is over.
"""

import _thread
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Generic, Self, TypeVar

T = TypeVar("T")


def raise_interruption(error: RuntimeError) -> None:
    """Raise the exception of a signal handler if an error of code that waits for a condition hides it.

    Such an exception may leave ``Condition.wait`` before it has its lock again; ``with`` then fails to release it.
    """
    if error.__context__ is not None and str(error) == "cannot release un-acquired lock":
        raise error.__context__ from None


class _Call:
    """Work that several threads run concurrently."""

    def __init__(self, work: Callable[[], None], helpers: int, stop: Callable[[], None] | None) -> None:
        self._work: Callable[[], None] | None = work
        self._stop = stop
        self._state = threading.Condition()
        self._running = 0
        self._raised: list[BaseException] = []
        self.wanted = helpers  # still to start

    def help_out(self) -> bool:
        """Run the work on this thread if helpers are still wanted; return True if it ran."""
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
            del work  # do not keep alive the objects it refers to
            with self._state:
                self._running -= 1
                self._state.notify()
        return True

    def run(self) -> None:
        """Run the work here and on helpers; wait for helpers that have started."""
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
            try:
                with self._state:
                    self._work = None
                    while self._running:
                        self._state.wait()
            except RuntimeError as error:
                raise_interruption(error)
                raise
            with suppress(ValueError):
                _open.remove(self)
        if self._raised:
            raise self._raised[0]


# Both lists change only by single list operations, which are atomic, also in a free-threaded Python. A call is appended
# to _open before pending helpers are counted, and a helper is removed from _pending_starts before it looks for calls: a
# counted helper sees the call.
_open: list[_Call] = []
_pending_starts: list[None] = []  # one item per helper that was started but does not run yet


def _in_child() -> None:
    """Forget all threads: a forked child has none of them."""
    _open.clear()
    _pending_starts.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def _help_any_call() -> None:
    _pending_starts.pop()
    any(call.help_out() for call in tuple(_open))


def _start_helpers() -> None:
    """Start as many helpers as all calls want, less those pending."""
    for _ in range(sum(call.wanted for call in tuple(_open)) - len(_pending_starts)):
        _pending_starts.append(None)
        try:
            _thread.start_new_thread(_help_any_call, ())
        except RuntimeError:  # no more threads are allowed: the call takes longer
            _pending_starts.pop()
            return


def side_by_side(work: Callable[[], None], helpers: int, stop: Callable[[], None] | None = None) -> None:
    """Call ``work`` on this thread and on up to ``helpers`` others; return when it has ended on every thread.

    A helper that starts after the end does nothing. Exceptions of any thread are raised. ``stop`` is called if this
    thread cannot continue, for example after an interrupt, so that the others need not do all of the work.
    """
    _Call(work, helpers, stop).run()


def each_side_by_side(work: Callable[[T], object], items: Iterable[T], workers: int) -> None:
    """Call ``work`` with each item, on this thread and on others, ``workers`` in all."""
    left = SharedIterator(items)

    def share() -> None:
        for item in left:
            work(item)

    side_by_side(share, workers - 1)


class SharedIterator(Generic[T]):
    """An iterator for several threads: each item goes to one of them.

    A free-threaded Python does not promise that of the iterators of ranges, lists and dicts; the GIL does.
    """

    def __init__(self, items: Iterable[T]) -> None:
        self._items: Iterator[T] = iter(items)
        self._lock = threading.Lock()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        with self._lock:
            return next(self._items)
