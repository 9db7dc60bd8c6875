"""A monotonic clock, and waiting for other threads, for code that runs without the GIL, from the C library."""

import platform
import sys
import time

import numpy as np

from ..lang import types
from ..scalar import loop
from .intrinsics import address_of

_CLOCK = int(getattr(time, "CLOCK_MONOTONIC", 1))  # that of time.perf_counter on Linux
_clock_gettime = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.int64))
_usleep = types.ExternalFunction("usleep", types.int32(types.uint32))
_syscall = types.ExternalFunction("syscall", types.int64(*[types.int64] * 7))
_PAUSE = 50  # microseconds: far below the time of an image, far above that of a system call
_SECOND = 1_000_000_000

# Number of the system call "futex", and operations of it: wait until a time of _CLOCK, and wake, threads of this
# process that wait with one of some bits.
_FUTEX = {"x86_64": 202, "aarch64": 98}.get(platform.machine(), 0) if sys.platform == "linux" else 0
_WAIT, _WAKE = 9 | 128, 10 | 128


if hasattr(time, "clock_gettime"):

    @loop
    def now(scratch):
        """Return the time in nanoseconds; ``scratch`` has two int64, a timespec of seconds and nanoseconds."""
        # Both fields of a timespec have 64 bits on the 64-bit systems that gpuimg runs on.
        _clock_gettime(np.int32(_CLOCK), address_of(scratch))
        return scratch[0] * _SECOND + scratch[1]

    @loop
    def _pause():
        """Let other threads run for a while."""
        _usleep(np.uint32(_PAUSE))

else:  # there are no times without POSIX, and no limit on a call

    @loop
    def now(scratch):
        """Return 0."""
        return 0

    @loop
    def _pause():
        """Return at once."""


if _FUTEX:

    @loop
    def wait(word, value, kind, until, scratch):
        """Wait while the int64 at the address ``word`` has a value, for :func:`wake` with a bit of ``kind``, or a time.

        ``until`` is that time, 0 for none; ``scratch`` has two int64. It may also return for no reason.
        """
        scratch[0], scratch[1] = until // _SECOND, until % _SECOND
        # The system compares 32 bits, the lower ones on the processors above.
        _syscall(_FUTEX, word, _WAIT, value & 0xFFFFFFFF, address_of(scratch) if until else 0, 0, kind)

    @loop
    def wake(word, kind, most):
        """Let threads go on that wait with a bit of ``kind``, those first that have waited longest."""
        _syscall(_FUTEX, word, _WAKE, most, 0, 0, kind)

else:

    @loop
    def wait(word, value, kind, until, scratch):
        """Return after a short while."""
        _pause()

    @loop
    def wake(word, kind, most):
        """Do nothing, as nothing waits longer than that."""
