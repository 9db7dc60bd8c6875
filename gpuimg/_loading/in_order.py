"""Going through a source on several threads, with what they make handed in in the order of the samples."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from .._threads.team import side_by_side
from .stats import progress_bar

#: Called with the samples that are done, and their number.
Progress: TypeAlias = Callable[[int, int], None]

_CHUNK_BYTES = 2 << 20  # that a thread reads at a time,
_MOST = 64  # samples at most,
_FIRST = 16  # and this many while nothing is known of them
_AHEAD = 4  # chunks of each thread that may be done before one that is not

T = TypeVar("T")


class Chunk(NamedTuple, Generic[T]):
    """What was made of a chunk of samples, and the bytes that were read for it."""

    made: T
    bytes: int


#: Makes something of samples.
Work: TypeAlias = Callable[[range], Chunk[T]]
#: Whether to end early, with whatever result.
Stopped: TypeAlias = Callable[[], bool]


class InOrder(Generic[T]):
    """Chunks of samples, dealt to threads and handed in in their order.

    Parameters
    ----------
    samples : int
    first : int
        The first sample that is not done.
    make : function
        Gives the function that makes something of samples, of which each thread has one.
    add : function
        Is called with what was made in its order, by one thread at a time.
    seen : function
        Called with the samples that are done.
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
        self._dealt = self._done = first  # samples
        self._ready: dict[int, tuple[range, T]] = {}  # by their first sample
        self._bytes = self._counted = 0  # of samples that were read
        self._most_ready = _AHEAD
        self._stopped = False
        self._state = threading.Condition()

    def run(self, workers: int) -> None:
        """Do all that is left; what any thread raises is raised."""
        self._most_ready = _AHEAD * workers
        self._seen(self._done)
        side_by_side(self._work, workers - 1)

    def _work(self) -> None:
        try:
            work = self._make(lambda: self._stopped)
            while chunk := self._next():
                self._hand_in(chunk, work(chunk))
        except BaseException:
            with self._state:
                self._stopped = True
                self._state.notify_all()
            raise

    def _next(self) -> range:
        """Samples to be done next; none at the end."""
        with self._state:
            while len(self._ready) >= self._most_ready and not self._stopped:
                self._state.wait()
            first = self._dealt
            count = _FIRST
            if self._counted:
                count = min(max(_CHUNK_BYTES * self._counted // max(self._bytes, 1), 1), _MOST)
            self._dealt = first if self._stopped else min(first + count, self._samples)
            return range(first, self._dealt)

    def _hand_in(self, chunk: range, made: Chunk[T]) -> None:
        """Note what was made of samples, and add what is in order."""
        with self._state:
            self._ready[chunk.start] = chunk, made.made
            self._counted += len(chunk)
            self._bytes += made.bytes
            while not self._stopped and self._done in self._ready:
                done, one = self._ready.pop(self._done)
                self._add(one)
                self._done = done.stop
                self._seen(self._done)
            self._state.notify_all()


@contextmanager
def shown(progress: bool | Progress, total: int) -> Iterator[Callable[[int], None]]:
    """A function to be called with the samples that are done."""
    if callable(progress):
        yield lambda done: progress(done, total)
    elif not progress:
        yield lambda done: None
    else:
        with progress_bar()(total=total, unit="image", unit_scale=True, dynamic_ncols=True) as bar:
            yield lambda done: bar.update(done - bar.n)
