"""Prefetching on threads: results in order, bounded memory, and clean termination."""

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
from .._threads.helpers import raise_interruption
from .._threads.threads import MOST_THREADS

__all__ = ["prefetch"]

T = TypeVar("T")

# Seconds that a stop waits for a thread that is in foreign code, such as a read from a file system that hangs. A batch
# may take a few seconds itself while a kernel is compiled or the machine is busy.
_PATIENCE = 15.0

# Seconds that a consumer waits for one result before the spare threads are woken.
_HURRY = 0.01


class Stopped(Exception):  # noqa: N818 - not an error, as StopIteration
    """Raised by ``get`` after the prefetcher was stopped."""


class Prefetcher(Generic[T]):
    """Threads that run jobs concurrently; the consumer gets the results in the order of the jobs.

    A thread takes the next job from the iterator ``jobs``, one thread at a time, and then runs it. Taking a job may
    block, for instance on the results of another prefetcher. A job is taken only while fewer than ``depth`` results are
    ready or in progress. An exception, of a job or of the iterator, is raised in place of the result and ends the
    sequence.

    With ``spare``, all threads but the first sleep until the consumer has had to wait once. From then on they sleep
    while half of ``depth`` results are ready or in progress: more threads than needed slow each other down.

    :meth:`start` begins: what ends the threads must know them first, as Ctrl-C may be raised in between.
    """

    def __init__(
        self, jobs: Iterator[Callable[[], T]], depth: int, workers: int, name: str, *, spare: bool = False
    ) -> None:
        self._jobs = jobs
        self._depth = depth
        self._low = depth // 2 if spare else depth  # results below which the other threads help
        self._is_slow = not spare  # the consumer had to wait
        self._turn = threading.Lock()  # of the thread that takes a job
        self._process = os.getpid()
        # Reentrant: a garbage collection while it is locked may stop this very Prefetcher.
        self._state = threading.RLock()
        self._filled = threading.Condition(self._state)  # a result is ready; awaited by the consumer
        self._space = threading.Condition(self._state)  # fewer than depth results; awaited by the thread taking a job
        # More threads are needed; awaited by the spare ones. Separate conditions, as needless wake-ups are expensive.
        self._need = threading.Condition(self._state)
        self._ready: dict[int, tuple[T | None, BaseException | None]] = {}
        self._taken = 0  # jobs taken
        self.given = 0  # results given to the consumer
        self._end: int | None = None  # number of results, once known
        self.is_stopping = False  # after signal: jobs may end early
        self._failure: BaseException | None = None  # to start the threads
        self.waited = 0.0  # seconds that the consumer waited for results
        self.waited_first = 0.0  # of these, seconds for the first result, which includes start-up
        self.depths = 0  # sum over get() of the number of results that were ready
        self._threads = [
            threading.Thread(target=self._work, args=(k == 0,), name=f"gpuimg-{name}-{k}", daemon=True)
            for k in range(workers)
        ]

    def start(self) -> None:
        """Start the threads.

        Another thread does so: Ctrl-C in ``Thread.start`` would leave one that never runs in ``threading.enumerate``.
        """
        _thread.start_new_thread(self._start, ())

    def _start(self) -> None:
        with self._state:
            try:
                for thread in self._threads if not self.is_stopping else ():
                    thread.start()
            except BaseException as error:  # no more threads are possible
                self._failure = error
                self._filled.notify_all()

    @property
    def is_from_parent(self) -> bool:
        """True in a forked child, which has none of the threads and whose locks may stay locked forever."""
        return self._process != os.getpid()

    def _work(self, first: bool) -> None:
        while True:
            with self._state:
                while not (first or self._over or self._needs_help):
                    self._need.wait()
            with self._turn:
                number = self._reserve()
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
            try:
                result = job()
            except BaseException as error:
                self._put(number, None, error)
                return
            self._put(number, result, None)
            del job, result  # else a result would stay alive here after the consumer released it

    @property
    def _over(self) -> bool:
        """True if no more jobs are taken."""
        return self.is_stopping or self._end is not None

    @property
    def _needs_help(self) -> bool:
        """True if the spare threads are to work."""
        return self._is_slow and self._taken < self.given + self._low

    def _reserve(self) -> int | None:
        """Wait for room and return the number of the next job; None if there are no more."""
        with self._state:
            while not self._over and self._taken >= self.given + self._depth:
                self._space.wait()
            if self._over:
                return None
            self._taken += 1
            return self._taken - 1

    def _finish(self, number: int) -> None:
        with self._state:
            self._end = number if self._end is None else min(self._end, number)
            self._wake_all()

    def _put(self, number: int, result: T | None, error: BaseException | None) -> None:
        with self._state:
            self._ready[number] = result, error
            if error is not None:
                self._finish(number + 1)
            self._filled.notify()

    def get(self) -> T:
        """Return the next result, or raise the exception in its place; StopIteration after the last one, or Stopped."""
        if self.is_from_parent:
            raise RuntimeError(
                f"this iterator was started in process {self._process}, whose threads a forked child does not have; "
                "start a new loop in the child"
            )
        try:
            result, error = self._wait_for_next()
        except RuntimeError as raised:
            raise_interruption(raised)
            raise
        if error is not None:
            try:
                if isinstance(error, StopIteration):  # would end the consumer's loop silently
                    raise RuntimeError("StopIteration was raised while the next result was computed") from error
                raise error
            finally:
                del error  # the traceback refers to this frame
        return result  # type: ignore[return-value]  # None only with an error

    def _wait_for_next(self) -> tuple[T | None, BaseException | None]:
        start = time.perf_counter()
        with self._state:
            self.depths += len(self._ready)
            while self.is_stopping or self.given not in self._ready:
                if self.is_stopping:
                    raise Stopped
                if self._failure is not None:
                    raise self._failure
                if self._end is not None and self.given >= self._end:
                    raise StopIteration
                if not self._filled.wait(None if self._is_slow else _HURRY):
                    self._is_slow = True
                    self._need.notify_all()
            result, error = self._ready.pop(self.given)
            self.given += 1
            self.waited += time.perf_counter() - start
            if self.given == 1:
                self.waited_first = self.waited
            self._space.notify()
            if self._needs_help:
                self._need.notify_all()
        return result, error

    def signal(self) -> None:
        """Signal the threads to end, after the job they are in. Does nothing in a forked child."""
        if self.is_from_parent:
            return
        with self._state:
            self.is_stopping = True
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
            if thread is not threading.current_thread() and thread.is_alive():  # not if it was to end before it began
                thread.join(max(deadline - time.monotonic(), 0.0))
                if thread.is_alive():
                    warnings.warn(f"thread {thread.name} is still busy; it ends when its call returns", stacklevel=2)
                    return
        close = getattr(self._jobs, "close", None)
        if close is not None:
            with self._state:  # a generator refuses to be closed by two threads at a time
                close()


class Ending:
    """Ends an object's threads once: when called, when the object is garbage, or at interpreter exit."""

    def __init__(self, owner: object, end: Callable[[], None]) -> None:
        self._end = end
        self._finalizer = weakref.finalize(owner, _dropped, end)

    def __call__(self) -> None:
        """End them now."""
        if self._finalizer.alive:
            self._end()
            self._finalizer.detach()  # only now: Ctrl-C may be raised while they end


def _dropped(end: Callable[[], None]) -> None:
    """End threads; unless called on the main thread, do so in the background.

    A garbage collection, which deletes objects in reference cycles, may run on any thread: on one of those to be ended,
    or on one that has locked what they wait for. Waiting there would deadlock.
    """
    if threading.get_ident() == threading.main_thread().ident:
        end()
    else:
        # On a Thread, as joining others on a raw thread leaves a dummy in threading.enumerate for ever; so would the
        # constructor without daemon=. Thread.start waits for the thread, so another one calls it.
        _thread.start_new_thread(lambda: threading.Thread(target=end, name="gpuimg-end", daemon=True).start(), ())


class Prefetched(Iterator[T]):
    """Iterator returned by :func:`gpuimg.prefetch`; as a context manager it stops the threads at the end."""

    def __init__(self, prefetcher: Prefetcher[T]) -> None:
        self._prefetcher = prefetcher
        self._end = Ending(self, partial(stop, (prefetcher,)))
        prefetcher.start()

    def __next__(self) -> T:
        try:
            return self._prefetcher.get()
        except Stopped:
            raise StopIteration from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the threads; the iterator is then exhausted."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def stop(prefetchers: tuple[Prefetcher[Any], ...]) -> None:
    """End the threads of several prefetchers that may wait for one another."""
    for one in prefetchers:
        one.signal()
    for one in prefetchers:
        one.join()


def prefetch(iterable: Iterable[T], depth: int = 2, *, workers: int = 1) -> Prefetched[T]:
    """Run a producer ahead of its consumer.

    Parameters
    ----------
    iterable : iterable
        With several workers, a sequence (``len`` and items by index) whose items several threads may get at once.
    depth : int
        Number of items prepared ahead, at least 1; it bounds the memory.
    workers : int
        Number of threads.

    Returns
    -------
    iterator
        The same items in the same order. An exception of the producer is raised in place of its item and ends the
        iterator. The threads end after the last item, with ``close()``, at the end of a ``with`` block, and when the
        iterator is garbage.

    Raises
    ------
    ValueError
        For a depth or a number of workers below 1, and for more than 1,024 workers.
    TypeError
        If the object is not iterable or, with several workers, not a sequence.
    RuntimeError
        From the iterator, if a forked child continues one of its parent.

    Examples
    --------
    >>> import gpuimg
    >>> list(gpuimg.prefetch((k * k for k in range(4)), depth=2))
    [0, 1, 4, 9]
    """
    depth, workers = whole_number(depth, "depth"), whole_number(workers, "workers", 1, MOST_THREADS)
    if workers == 1:
        ready = (lambda item=item: item for item in iterable)  # the work is done when this advances
        return Prefetched(Prefetcher(ready, depth, 1, "prefetch"))
    items: Any = iterable
    if not (hasattr(items, "__len__") and hasattr(items, "__getitem__")):
        raise TypeError(
            f"several workers need a sequence (len and items by index), not {type(iterable).__name__}; use workers=1"
        )
    jobs = (partial(items.__getitem__, k) for k in range(len(items)))
    return Prefetched(Prefetcher(jobs, depth, workers, "prefetch"))
