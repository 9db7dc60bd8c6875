"""Processing a source on several threads, with the results delivered in the order of the samples."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from .prefetch import Prefetcher, stop
from .stats import progress_bar

#: Called with the number of samples done and their total number.
Progress: TypeAlias = Callable[[int, int], None]

_CHUNK_BYTES = 2 << 20  # file bytes per chunk, by the mean size of the files so far
_MOST = 64  # samples per chunk at most
_FIRST = 16  # samples per chunk before any file size is known
_AHEAD = 4  # chunks per thread that are in progress, or wait for an earlier chunk

T = TypeVar("T")


class Chunk(NamedTuple, Generic[T]):
    """Result of a chunk of samples."""

    result: T
    bytes: int  # of the files that were read for it


#: Processes a range of samples.
Work: TypeAlias = Callable[[range], Chunk[T]]
#: Returns True if work should end early; its result is then not used.
IsStopped: TypeAlias = Callable[[], bool]


def process_in_order(
    samples: range, workers: int, make: Callable[[IsStopped], Work[T]], add: Callable[[T], None],
    seen: Callable[[int], None],
) -> None:  # fmt: skip
    """Process chunks of samples on several threads; an exception of any thread is raised here.

    ``make`` is called once per thread and returns the function that processes chunks. On this thread, ``add`` is called
    with the result of each chunk, in order, and ``seen`` with the number of samples done.
    """
    of_thread = threading.local()
    counted = read = 0  # samples that were processed, and bytes of their files

    def run(chunk: range) -> tuple[range, T]:
        nonlocal counted, read
        if not hasattr(of_thread, "work"):
            of_thread.work = make(lambda: prefetcher.is_stopping)
        done: Chunk[T] = of_thread.work(chunk)
        counted, read = counted + len(chunk), read + done.bytes  # two threads at a time may lose one of the sums
        return chunk, done.result

    def jobs() -> Iterator[Callable[[], tuple[range, T]]]:
        left = samples
        while left:
            size = min(max(_CHUNK_BYTES * counted // max(read, 1), 1), _MOST) if counted else _FIRST
            yield partial(run, left[:size])
            left = left[size:]

    prefetcher = Prefetcher(jobs(), _AHEAD * workers, workers, "in-order")
    seen(samples.start)
    try:
        prefetcher.start()
        with suppress(StopIteration):
            while True:
                chunk, result = prefetcher.get()
                add(result)
                seen(chunk.stop)
    finally:
        stop((prefetcher,))


@contextmanager
def shown(progress: bool | Progress, total: int) -> Iterator[Callable[[int], None]]:
    """Show progress; yields the function to call with the number of samples done."""
    if callable(progress):
        yield lambda done: progress(done, total)
    elif not progress:
        yield lambda done: None
    else:
        with progress_bar()(total=total) as bar:
            yield lambda done: bar.update(done - bar.n)
