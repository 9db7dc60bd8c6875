"""Processing a source on several threads, with the results delivered in the order of the samples."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from .._threads.team import side_by_side
from .stats import progress_bar

#: Called with the number of samples done and their total number.
Progress: TypeAlias = Callable[[int, int], None]

_CHUNK_BYTES = 2 << 20  # file bytes per chunk, by the mean size of the files so far
_MOST = 64  # samples per chunk at most
_FIRST = 16  # samples per chunk before any file size is known
_AHEAD = 4  # finished chunks per thread that may wait for an earlier chunk

T = TypeVar("T")


class Chunk(NamedTuple, Generic[T]):
    """Result of a chunk of samples."""

    result: T
    bytes: int  # of the files that were read for it


#: Processes a range of samples.
Work: TypeAlias = Callable[[range], Chunk[T]]
#: Returns True if work should end early; its result is then not used.
Stopped: TypeAlias = Callable[[], bool]


class InOrder(Generic[T]):
    """Chunks of samples, processed on several threads and delivered in order.

    Parameters
    ----------
    samples : int
        Number of samples.
    first : int
        The first sample to be processed.
    make : function
        Called once per thread; returns the function that processes chunks.
    add : function
        Called with the result of each chunk, in order, by one thread at a time.
    seen : function
        Called with the number of samples done.
    """

    def __init__(
        self,
        samples: int,
        first: int,
        make: Callable[[Stopped], Work[T]],
        add: Callable[[T], None],
        seen: Callable[[int], None],
    ) -> None:
        self._samples, self._make, self._add, self._seen = samples, make, add, seen
        self._next_sample = self._done = first  # the first sample not yet assigned, and the first not yet delivered
        self._ready: dict[int, tuple[range, T]] = {}  # finished chunks by their first sample
        self._bytes = self._counted = 0  # file bytes, and samples that they are of
        self._most_ready = _AHEAD
        self._stopped = False
        self._state = threading.Condition()

    def run(self, workers: int) -> None:
        """Process all remaining samples; an exception of any thread is raised here."""
        self._most_ready = _AHEAD * workers
        self._seen(self._done)
        side_by_side(self._work, workers - 1)

    def _work(self) -> None:
        try:
            work = self._make(lambda: self._stopped)
            while samples := self._next():
                self._deliver(samples, work(samples))
        except BaseException:
            with self._state:
                self._stopped = True
                self._state.notify_all()
            raise

    def _next(self) -> range:
        """Return the next samples to be processed; an empty range at the end."""
        with self._state:
            while len(self._ready) >= self._most_ready and not self._stopped:
                self._state.wait()
            first = self._next_sample
            count = _FIRST
            if self._counted:
                count = min(max(_CHUNK_BYTES * self._counted // max(self._bytes, 1), 1), _MOST)
            self._next_sample = first if self._stopped else min(first + count, self._samples)
            return range(first, self._next_sample)

    def _deliver(self, samples: range, chunk: Chunk[T]) -> None:
        """Store the result of a chunk, and deliver all results that are next in order."""
        with self._state:
            self._ready[samples.start] = samples, chunk.result
            self._counted += len(samples)
            self._bytes += chunk.bytes
            while not self._stopped and self._done in self._ready:
                done, result = self._ready.pop(self._done)
                self._add(result)
                self._done = done.stop
                self._seen(self._done)
            self._state.notify_all()


@contextmanager
def shown(progress: bool | Progress, total: int) -> Iterator[Callable[[int], None]]:
    """Show progress; yields the function to call with the number of samples done."""
    if callable(progress):
        yield lambda done: progress(done, total)
    elif not progress:
        yield lambda done: None
    else:
        with progress_bar()(total=total, unit="image", unit_scale=True, dynamic_ncols=True) as bar:
            yield lambda done: bar.update(done - bar.n)
