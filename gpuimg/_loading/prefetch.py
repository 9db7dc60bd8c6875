"""Running a producer ahead of its consumer on threads, in order, with bounded memory, and ending cleanly."""

from __future__ import annotations

import _thread
import os
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Generic, Self, TypeVar

from .._checks.arguments import whole_number

T = TypeVar("T")

# Seconds that a stop waits for a thread that is inside somebody's code: a read from a dead file system, say. A batch
# that is being made may take a few, where a kernel is compiled or the machine has other work.
_PATIENCE = 15.0

# Seconds that a consumer waits for one result before spare threads are woken.
_HURRY = 0.01


class Stopped(Exception):  # noqa: N818 - not an error, as StopIteration
    """Somebody wants the next result of what was stopped."""


class Prefetcher(Generic[T]):
    """Threads that draw jobs one after another and run them side by side; results are given in the jobs' order.

    Drawing a job may take its time (it may wait for another one's results); one thread at a time draws. A job is drawn
    only while less than ``depth`` results wait or are being made. An exception, of a job or of the drawing, is given in
    the place of the result, and is the last.

    With ``spare`` all threads but one sleep until the consumer has had to wait, and from then on while half of the
    depth is ready or being made: more threads than keep up with the consumer are in each other's way.
    """

    def __init__(
        self, jobs: Iterator[Callable[[], T]], depth: int, workers: int, name: str, *, spare: bool = False
    ) -> None:
        self._jobs = jobs
        self._depth = depth
        self._woken = depth // 2 if spare else depth
        self._behind = not spare
        self._turn = threading.Lock()
        self._process = os.getpid()
        self._state = threading.RLock()  # a garbage collection inside it may stop this very Prefetcher
        self._filled = threading.Condition(self._state)  # awaited by the consumer,
        self._space = threading.Condition(self._state)  # by the thread whose turn it is,
        self._need = threading.Condition(self._state)  # and by the others: to wake one of them for nothing is dear
        self._ready: dict[int, tuple[T | None, BaseException | None]] = {}
        self._drawn = 0
        self._given = 0
        self._end: int | None = None
        self._stopping = False
        self.busy = 0.0  # seconds in jobs, of all threads together
        self.waited = 0.0  # seconds that the consumer waited for a result,
        self.waited_first = 0.0  # and of them for the first one, with which everything starts
        self.depths = 0  # sum of the number of results that were ready when one was asked for
        self._threads = [
            threading.Thread(target=self._work, args=(k == 0,), name=f"gpuimg-{name}-{k}", daemon=True)
            for k in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def given(self) -> int:
        """Results given so far."""
        return self._given

    @property
    def is_from_parent(self) -> bool:
        """Whether this is a forked child: it has none of the threads, and its locks may be held for ever."""
        return self._process != os.getpid()

    def _work(self, first: bool) -> None:
        while True:
            if not first:
                self._await_need()
            with self._turn:
                number = self._draw()
                if number is None:
                    return
                try:
                    job = next(self._jobs)
                except StopIteration:
                    self._finish(number)
                    return
                except BaseException as error:
                    self._put(number, None, error)
                    return
            start = time.perf_counter()
            try:
                result = job()
            except BaseException as error:
                self._put(number, None, error)
                return
            self._put(number, result, None, time.perf_counter() - start)
            del job, result  # what a consumer has dropped must not live on here

    @property
    def _over(self) -> bool:
        """Whether nothing more is drawn."""
        return self._stopping or self._end is not None

    @property
    def _needs_help(self) -> bool:
        """Whether more threads than the first are to work."""
        return self._behind and self._drawn < self._given + self._woken

    def _await_need(self) -> None:
        with self._state:
            while not self._over and not self._needs_help:
                self._need.wait()

    def _draw(self) -> int | None:
        with self._state:
            while not self._over and self._drawn >= self._given + self._depth:
                self._space.wait()
            if self._over:
                return None
            self._drawn += 1
            return self._drawn - 1

    def _finish(self, number: int) -> None:
        with self._state:
            self._end = number if self._end is None else min(self._end, number)
            self._wake_all()

    def _put(self, number: int, result: T | None, error: BaseException | None, seconds: float = 0.0) -> None:
        with self._state:
            self._ready[number] = result, error
            self.busy += seconds
            if error is not None:
                self._finish(number + 1)
            self._filled.notify()

    def get(self) -> T:
        """Give the next result, or raise what was raised in its place.

        Raises
        ------
        StopIteration
            After the last one.
        Stopped
            Once it was stopped.
        RuntimeError
            In a forked child.
        """
        if self.is_from_parent:
            raise RuntimeError(
                f"this iterator was begun in process {self._process}, whose threads a forked child does not have; "
                "begin a new loop in the child"
            )
        start = time.perf_counter()
        with self._state:
            self.depths += len(self._ready)
            while self._stopping or self._given not in self._ready:
                if self._stopping:
                    raise Stopped
                if self._end is not None and self._given >= self._end:
                    raise StopIteration
                if not self._filled.wait(None if self._behind else _HURRY):
                    self._behind = True
                    self._need.notify_all()
            result, error = self._ready.pop(self._given)
            self._given += 1
            self.waited += time.perf_counter() - start
            if self._given == 1:
                self.waited_first = self.waited
            self._space.notify()
            if self._needs_help:
                self._need.notify_all()
        if error is not None:
            try:
                if isinstance(error, StopIteration):  # would end the consumer's loop silently
                    raise RuntimeError("StopIteration was raised where the next result was being made") from error
                raise error
            finally:
                del error  # the traceback refers to this frame
        return result  # type: ignore[return-value]  # there is one where there is no error

    def signal(self) -> None:
        """Tell the threads to end; those in a job end after it. A forked child has none to tell."""
        if self.is_from_parent:
            return
        with self._state:
            self._stopping = True
            self._ready.clear()
            self._wake_all()

    def _wake_all(self) -> None:
        for condition in (self._filled, self._space, self._need):
            condition.notify_all()

    def join(self) -> None:
        """Wait for the threads to end, after :meth:`signal`."""
        if self.is_from_parent:
            return
        deadline = time.monotonic() + _PATIENCE
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(deadline - time.monotonic(), 0.0))
                if thread.is_alive():
                    warnings.warn(f"thread {thread.name} is still busy; it ends when its call returns", stacklevel=2)
                    return
        close = getattr(self._jobs, "close", None)
        if close is not None:
            close()


class Ending:
    """Ends an object's threads, once: when it is called, when the object is dropped, or at the interpreter's exit."""

    def __init__(self, owner: object, end: Callable[[], None]) -> None:
        self._end = end
        self._finalizer = weakref.finalize(owner, _dropped, end)

    def __call__(self) -> None:
        """End them now."""
        if self._finalizer.detach() is not None:
            self._end()


def _dropped(end: Callable[[], None]) -> None:
    """End threads; on any thread but the main one without waiting for it.

    An object in a reference cycle is dropped by a garbage collection, which may happen in any thread: in one of those
    to be ended, or in one that holds what they wait for.
    """
    if threading.get_ident() == threading.main_thread().ident:
        end()
    else:
        _thread.start_new_thread(_end_on_a_thread, (end,))  # Thread.start would wait, too


def _end_on_a_thread(end: Callable[[], None]) -> None:
    """End threads on a ``Thread``: joining them on a raw one leaves a dummy in ``threading.enumerate`` for ever."""
    # Without ``daemon`` the constructor would look for this thread, and make that dummy.
    threading.Thread(target=end, name="gpuimg-end", daemon=True).start()


class Prefetched(Iterator[T]):
    """What :func:`gpuimg.prefetch` gives: an iterator; also a context manager, whose end stops the threads."""

    def __init__(self, prefetcher: Prefetcher[T]) -> None:
        self._prefetcher = prefetcher
        self._end = Ending(self, partial(stop, (prefetcher,)))

    def __next__(self) -> T:
        try:
            return self._prefetcher.get()
        except Stopped:
            raise StopIteration from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop and end the threads; the iterator is then at its end."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def stop(stages: tuple[Prefetcher[Any], ...]) -> None:
    """End the threads of several stages that wait for one another."""
    for stage in stages:
        stage.signal()
    for stage in stages:
        stage.join()


def prefetch(iterable: Iterable[T], depth: int = 2, *, workers: int = 1) -> Prefetched[T]:
    """Run a producer ahead of its consumer.

    Parameters
    ----------
    iterable : iterable
        With several workers a sequence, that is with ``len`` and items by index, whose items may be got on several
        threads at a time.
    depth : int
        Items made ahead, at least 1: what bounds the memory.
    workers : int
        Threads.

    Returns
    -------
    iterator
        Of the same items in the same order. An exception of the producer is raised in the place of its item and ends
        the iterator. Its threads end at the end of the items, with ``close()``, at the end of a ``with`` block, and
        when the iterator is dropped.

    Raises
    ------
    ValueError
        For a depth or a number of workers below 1.
    TypeError
        For what cannot be iterated over, or not by several workers.
    RuntimeError
        From the iterator, where a forked child goes on with its parent's.

    Examples
    --------
    >>> import gpuimg
    >>> list(gpuimg.prefetch((k * k for k in range(4)), depth=2))
    [0, 1, 4, 9]
    """
    depth, workers = whole_number(depth, "depth"), whole_number(workers, "workers")
    if workers == 1:
        return Prefetched(Prefetcher(_drawn(iter(iterable)), depth, 1, "prefetch"))
    items: Any = iterable
    if not (hasattr(items, "__len__") and hasattr(items, "__getitem__")):
        raise TypeError(
            f"several workers need a sequence (len and items by index), not {type(iterable).__name__}; use workers=1"
        )
    jobs = (partial(items.__getitem__, k) for k in range(len(items)))
    return Prefetched(Prefetcher(jobs, depth, workers, "prefetch"))


def _drawn(items: Iterator[T]) -> Iterator[Callable[[], T]]:
    """Jobs of items whose making is the drawing itself."""
    for item in items:
        yield partial(_same, item)


def _same(item: T) -> T:
    return item
