"""Files read without the GIL: a chunk of them, or of parts of open ones, in one call, through the C library.

While another thread is busy in Python, every ``os.open``, ``os.read`` and ``os.close`` waits up to 5 ms to get the GIL
back, for a few microseconds of work. Errors are not reported here: the caller tries again, in Python, what failed.
"""

import os
import stat

import numpy as np

from ..compiled import cached_jit
from ..lang import types
from ..scalar import loop
from .clock import now
from .intrinsics import I8, emitted

# O_NONBLOCK: opening a FIFO must not wait for a writer. Only regular files are read, for which it has no effect.
_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
_LINE = 64  # bytes of a cache line; files begin at multiples of it

# ``open`` takes a third argument only where it creates a file.
_open = types.ExternalFunction("open", types.int32(types.voidptr, types.int32))
_close = types.ExternalFunction("close", types.int32(types.int32))
_statx = types.ExternalFunction(
    "statx", types.int32(types.int32, types.voidptr, types.int32, types.uint32, types.voidptr)
)
_pread = types.ExternalFunction("pread", types.int64(types.int32, types.voidptr, types.uintp, types.int64))

# Linux ``struct statx``, 256 bytes that are the same on every architecture, as 32 int64; indices are in those.
STATUS_WORDS = 32
_MODE, _MODE_SHIFT, _SIZE = 3, 32, 5  # stx_mode: 16 bits at byte 28; stx_size: 64 bits at byte 40
_EMPTY_PATH = 0x1000  # AT_EMPTY_PATH: the status of the descriptor itself
_WANTED = 0x1 | 0x200  # STATX_TYPE, STATX_SIZE
_REGULAR = stat.S_IFREG >> 12  # the type of a file is in the upper 4 bits of its mode


@emitted(types.voidptr, None, types.intp)
def _at(builder, array, index):
    """Return the address of an element, for C."""
    return builder.bitcast(array.place(index), I8.as_pointer())


@loop
def _fill(descriptor, offset, size, out, begin, most):
    """Read into ``out`` from ``begin`` on; return the bytes read, or -1 for an error.

    These are ``size`` to ``most``, or fewer at the end of the file. The caller has checked that ``most`` fit.
    """
    got = 0
    while got < size:  # a read may stop early: at a signal, or at 2 GiB
        count = _pread(descriptor, _at(out, begin + got), most - got, offset + got)
        if count < 0:
            return -1
        if count == 0:
            break
        got += count
    return got


@loop
def _size_of(descriptor, names, end, status):
    """Return the bytes of an open regular file; -1 for anything else, or on an error. ``names[end]`` is 0."""
    # That zero byte serves as the empty path which AT_EMPTY_PATH wants.
    if _statx(descriptor, _at(names, end), np.int32(_EMPTY_PATH), np.uint32(_WANTED), _at(status, 0)) != 0:
        return -1
    if (status[_MODE] >> (_MODE_SHIFT + 12)) & 15 != _REGULAR:
        return -1
    return status[_SIZE]


@cached_jit("none(uint8[::1], uint8[::1], int64[:, ::1], int64[::1], int64[::1])")
def read_files(names, out, table, status, clock):
    """Open, read and close files one after another.

    Parameters
    ----------
    names : (B,) uint8
        Paths, each followed by a zero byte.
    out : (M,) uint8
        Filled with the bytes of files, as far as they fit.
    table : (N, 3) int64
        Filled, for each file: its descriptor, its offset in ``out``, and its size in bytes. The descriptor is -1 for a
        file that was read and closed. A regular file that was not read is left open, at its start: one that has no
        size, is larger than the room, grows or shrinks, or cannot be read. The size is -1 for what could not be opened
        and for anything but a regular file, which is closed.
    status : (STATUS_WORDS,) int64
        Scratch.
    clock : (2,) int64
        Filled: the nanoseconds that the call took, and scratch.
    """
    start = now(clock)
    name = 0
    begin = 0
    for k in range(table.shape[0]):
        descriptor = _open(_at(names, name), _FLAGS)
        while names[name] != 0:
            name += 1
        table[k, 0] = descriptor
        table[k, 1] = begin
        table[k, 2] = -1
        if descriptor >= 0:
            table[k, 2] = _size_of(descriptor, names, name, status)
            if table[k, 2] < 0:
                _close(descriptor)
                table[k, 0] = -1
        name += 1
        size = table[k, 2]
        # One byte more than the size is requested, and must not come: the file has not grown. So there must be room
        # for it. pread leaves the position of the descriptor at the start.
        if size <= 0 or size >= out.size - begin or _fill(descriptor, 0, size, out, begin, size + 1) != size:
            continue
        _close(descriptor)
        table[k, 0] = -1
        begin += (size + _LINE) // _LINE * _LINE
    clock[0] = now(clock) - start


@cached_jit("none(int64[:, ::1], uint8[::1], int64[::1])")
def read_parts(table, out, clock):
    """Read parts of open files; ``table`` (N, 4) holds descriptors, offsets, sizes, and offsets in ``out``.

    Each size is replaced by the number of bytes read, or -1 where reading failed or the part would not lie in ``out``.
    """
    start = now(clock)
    for k in range(table.shape[0]):
        offset, size, begin = table[k, 1], table[k, 2], table[k, 3]
        table[k, 2] = -1
        if offset >= 0 and 0 <= begin <= out.size and 0 <= size <= out.size - begin:  # no overflow
            table[k, 2] = _fill(table[k, 0], offset, size, out, begin, size)
    clock[0] = now(clock) - start
