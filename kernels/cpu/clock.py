"""The time, and pauses, in code that holds no GIL."""

from __future__ import annotations

import time

import numpy as np

from ..lang import types
from ..scalar import loop
from .intrinsics import address_of

_CLOCK = int(getattr(time, "CLOCK_MONOTONIC", 1))  # that of time.perf_counter on Linux
_clock_gettime = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.int64))
_usleep = types.ExternalFunction("usleep", types.int32(types.uint32))
_PAUSE = 50  # microseconds


@loop
def _read_clock(scratch):
    """Nanoseconds; ``scratch`` are two int64, a timespec of seconds and nanoseconds."""
    _clock_gettime(np.int32(_CLOCK), address_of(scratch))
    return scratch[0] * 1_000_000_000 + scratch[1]


@loop
def _no_clock(scratch):
    """Where the system has no POSIX: no times, and no limit on a call."""
    return 0


@loop
def _pause():
    """Let others run."""
    _usleep(np.uint32(_PAUSE))


@loop
def _no_pause():
    """Where the system has no POSIX: go on at once."""
    return


_POSIX = hasattr(time, "clock_gettime")
now = _read_clock if _POSIX else _no_clock
pause = _pause if _POSIX else _no_pause
