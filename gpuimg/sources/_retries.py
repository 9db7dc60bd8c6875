"""Retries of failed requests, and the rate of requests, which falls when the storage asks for fewer."""

from __future__ import annotations

import errno
import os
import random
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0  # seconds between two attempts at most
_FEWER = frozenset((429, 503))  # HTTP statuses that ask for fewer requests
_LEAST_RATE = 10.0  # requests per second
_LESS = 0.7  # of the rate that was too high
_MEASURED = 2.0  # seconds over which the rate is measured at least
_SLOW_GROWTH = 0.05  # of the rate per second, from there on
# HTTP statuses after which a retry may succeed: timeout, too early, too many requests; and all of 500 and above.
_TRANSIENT = frozenset((408, 425, 429))
_PERMANENT = (
    FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, ValueError, TypeError, LookupError,
    AttributeError, ImportError, NotImplementedError,
)  # fmt: skip
_ERRNO = {401: errno.EACCES, 403: errno.EACCES, 404: errno.ENOENT, 410: errno.ENOENT}


class Retries:
    """Attempts of requests by many threads.

    The pauses between the attempts of a request are random, up to a limit that doubles: those of many processes do not
    coincide. If the storage asks for fewer requests, the threads share 0.7 of the rate until then. The rate doubles
    each second up to 0.7 of the one that was too high, then grows by 5 % a second, and is unlimited again at twice of
    it.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.count, self.waited = 0, 0.0  # requests that were repeated, and seconds of pauses
        self._renew()

    def _renew(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._rate = self._too_high = float("inf")
        self._next = 0.0  # time of the next request
        self._begin, self._begun = time.monotonic(), 0.0  # requests since a time

    def run(self, url: str, what: str, attempt: Callable[[], T]) -> T:
        """Return the result of ``attempt``, with retries; errors name the URL and the request (``what``)."""
        if self._process != os.getpid():  # another thread may have held the lock during the fork
            self._renew()
        tries, first = 0, 0.0
        while True:
            self._wait_for_turn()
            try:
                found = attempt()
            except Exception as error:
                failure = _cause(error)
                if not _is_transient(failure):
                    raise _with_url(failure, url, what) from error
                if status_of(failure) in _FEWER or "SlowDown" in str(failure):
                    self._slow_down()
                tries, now = tries + 1, time.monotonic()
                first = first or now
                pause = random.uniform(0.0, min(_FIRST_PAUSE * 2.0 ** min(tries, 10), _LONGEST_PAUSE))
                if now + pause - first > self._seconds:
                    text = f"{what} failed {tries} times in {self._seconds:g} s, finally with {_describe(failure)}"
                    raise OSError(errno.EIO, text, url) from error
            else:
                self._succeeded()
                return found
            with self._lock:
                self.count += 1
                self.waited += pause
            time.sleep(pause)

    def _wait_for_turn(self) -> None:
        with self._lock:
            now = time.monotonic()
            if now - self._begin > 2.0 * _MEASURED:
                self._begun *= _MEASURED / (now - self._begin)
                self._begin = now - _MEASURED
            self._begun += 1.0
            at = max(now, self._next)
            self._next = at + 1.0 / self._rate
            self.waited += at - now
        if at > now:
            time.sleep(at - now)

    def _slow_down(self) -> None:
        with self._lock:
            now = time.monotonic()
            if now - self._begin < 1.0:  # the requests under way were sent at the earlier rate
                return
            self._too_high = min(self._rate, self._begun / (now - self._begin))
            self._rate = max(self._too_high * _LESS, _LEAST_RATE)
            self._begin, self._begun, self._next = now, 0.0, now

    def _succeeded(self) -> None:
        if self._rate < float("inf"):
            with self._lock:
                self._rate += 1.0 if self._rate < self._too_high * _LESS else _SLOW_GROWTH
                if self._rate > 2.0 * self._too_high:
                    self._rate = float("inf")


# -- failures ----------------------------------------------------------------------------------------------------------


def _cause(error: Exception) -> Exception:
    """Return the actual failure: fsspec reports every HTTP failure of a size request as "not found"."""
    cause = error.__cause__
    packages = {kind.__module__.partition(".")[0] for kind in type(cause).__mro__}
    is_hidden = isinstance(error, FileNotFoundError) and "aiohttp" in packages
    return cause if is_hidden and isinstance(cause, Exception) else error


def status_of(error: Exception) -> int | None:
    """Return the HTTP status of an error, None for other errors."""
    status = getattr(error, "status", None)
    return status if isinstance(status, int) else None


def _is_transient(error: Exception) -> bool:
    """Return whether a retry may succeed: True for all errors that are not known to be caused by the request itself."""
    status = status_of(error)
    if status is not None:
        return status in _TRANSIENT or status >= 500
    if isinstance(error, OSError) and error.errno == errno.ESTALE:
        return False
    return not isinstance(error, _PERMANENT) and "Credentials" not in type(error).__name__


def _with_url(error: Exception, url: str, what: str) -> Exception:
    """Return a permanent error with the URL in it."""
    if isinstance(error, ImportError) or (isinstance(error, OSError) and error.filename == url):
        return error
    number = error.errno if isinstance(error, OSError) else None
    for kind, code in ((FileNotFoundError, errno.ENOENT), (PermissionError, errno.EACCES)):
        number = code if isinstance(error, kind) else number
    number = number or _ERRNO.get(status_of(error) or 0, errno.EIO)
    text = os.strerror(errno.ENOENT) if number == errno.ENOENT else f"{what}: {_describe(error)}"
    return OSError(number, text, url)


def _describe(error: Exception) -> str:
    status = status_of(error)
    if status is not None:
        return f"HTTP status {status} {getattr(error, 'message', '')}".rstrip()
    text = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
