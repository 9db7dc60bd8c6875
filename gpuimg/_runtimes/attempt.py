"""Work on images that kernels decode, repeated where they could not decode some of them.

Kernels that read the pixels are launched right away; the host reads what became of the images when the work is
delivered. The CPU decodes those that kernels report, and the work is done again from the files.
"""

import threading
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")


class Pending(Protocol):
    """Images of which kernels may yet report some."""

    def repair(self) -> bool:
        """Wait for the kernels; from now on, leave images that they report to the CPU. Return True if there are any."""


class Attempt(Generic[T]):
    """Work that was done, but not delivered: some of its images may not be decoded.

    An exception of the work is raised here, unless wrong pixels may have caused it: then the work is repeated. The
    function may be called several times, on several threads.
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._do()

    def result(self) -> T:
        """Return what the work returned, of images that are all decoded; wait for the kernels."""
        while self._has_repaired():
            del self._result
            self._do()
        return self._result

    def _do(self) -> None:
        outer = getattr(_thread, "pending", None)
        while True:
            self._pending = _thread.pending = list[Pending]()
            try:
                self._result = self._work()
                if not self._pending:
                    del self._work  # and the files that it holds
                return
            except Exception:
                if not self._has_repaired():
                    raise
            finally:
                _thread.pending = outer

    def _has_repaired(self) -> bool:
        return sum(pending.repair() for pending in self._pending) > 0  # of all of them


_thread: Any = threading.local()


def defer(pending: Pending) -> None:
    """Have the thread's attempt read later what became of images."""
    _thread.pending.append(pending)


def delivered(work: Callable[[], T]) -> T:
    """Do work; repeat it if kernels report images, unless it is a part of an attempt, which is repeated as a whole."""
    return work() if getattr(_thread, "pending", None) is not None else Attempt(work).result()
