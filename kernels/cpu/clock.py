"""A monotonic clock and a pause for code that runs without the GIL, from the C library."""

import time

import numpy as np

from ..lang import types
from ..scalar import loop
from .intrinsics import address_of

_CLOCK = int(getattr(time, "CLOCK_MONOTONIC", 1))  # that of time.perf_counter on Linux
_clock_gettime = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.int64))
_usleep = types.ExternalFunction("usleep", types.int32(types.uint32))
_PAUSE = 50  # microseconds: far below the time of an image, far above that of a system call


if hasattr(time, "clock_gettime"):

    @loop
    def now(scratch):
        """Return the time in nanoseconds; ``scratch`` has two int64, a timespec of seconds and nanoseconds."""
        # Both fields of a timespec have 64 bits on the 64-bit systems that gpuimg runs on.
        _clock_gettime(np.int32(_CLOCK), address_of(scratch))
        return scratch[0] * 1_000_000_000 + scratch[1]

    @loop
    def pause():
        """Let other threads run for a while."""
        _usleep(np.uint32(_PAUSE))

else:  # there are no times without POSIX, and no limit on a call

    @loop
    def now(scratch):
        """Return 0."""
        return 0

    @loop
    def pause():
        """Return at once."""
        return
