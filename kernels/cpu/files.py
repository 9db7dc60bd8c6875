"""Files read without the GIL: a chunk of them, or of parts of open ones, in one call, through the C library.

Beside a thread that is busy in Python every ``os.open``, ``os.read`` and ``os.close`` waits up to 5 ms to get the GIL
back, for a few microseconds of work. Here nothing is said of errors: what did not go smoothly is left to Python.
"""

from __future__ import annotations

import os
import stat

import numpy as np

from ..compiled import cached_jit
from ..lang import intrinsic, ir, types
from ..scalar import loop
from .clock import now
from .intrinsics import pointer

# Not to wait for a writer of a FIFO, which is then not read.
_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
_LINE = 64  # bytes: where files begin in memory

# ``open`` takes a third argument only where it makes a file.
_open = types.ExternalFunction("open", types.int32(types.voidptr, types.int32))
_close = types.ExternalFunction("close", types.int32(types.int32))
_statx = types.ExternalFunction(
    "statx", types.int32(types.int32, types.voidptr, types.int32, types.uint32, types.voidptr)
)
_pread = types.ExternalFunction("pread", types.int64(types.int32, types.voidptr, types.uintp, types.int64))

# Linux ``struct statx``, which is the same on every machine, in words of 8 bytes.
STATUS_WORDS = 32
_MODE, _MODE_SHIFT, _SIZE = 3, 32, 5  # 16 bits at byte 28; 64 bits at byte 40
_EMPTY_PATH = 0x1000  # AT_EMPTY_PATH: the status of the descriptor itself
_WANTED = 0x1 | 0x200  # STATX_TYPE, STATX_SIZE
_REGULAR = stat.S_IFREG >> 12


@intrinsic
def _at(typing_context, array, index):
    """Address of an element for C."""

    def generate(context, builder, signature, args):
        return pointer(context, builder, signature.args[0], args[0], args[1], ir.IntType(8))

    return types.voidptr(array, types.intp), generate


@loop
def _fill(descriptor, offset, size, out, begin, most):
    """Bytes read into ``out`` from ``begin`` on: ``size`` to ``most``, or fewer at the end; -1 for an error."""
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
    """Bytes of an open regular file; -1 for anything else, or where that is not known. ``names[end]`` is 0."""
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
        Paths, each with a zero byte behind it.
    out : (M,) uint8
        Their bytes, while there is room.
    table : (N, 3) int64
        Filled, for each file: its descriptor, where in ``out`` it is, and its bytes. The descriptor is -1 for what is
        read and closed. A regular file that is not read is left open, at its start: one that has no size, is larger
        than the room, grows or shrinks, or cannot be read. The size is -1 for what could not be opened and for anything
        but a regular file, which is closed.
    status : (STATUS_WORDS,) int64
        Scratch.
    clock : (2,) int64
        Filled: the nanoseconds it took, and scratch.
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
        if size <= 0 or size >= out.size - begin or _fill(descriptor, 0, size, out, begin, size + 1) != size:
            continue
        _close(descriptor)
        table[k, 0] = -1
        begin += (size + _LINE) // _LINE * _LINE
    clock[0] = now(clock) - start


@cached_jit("none(int64[:, ::1], uint8[::1], int64[::1])")
def read_parts(table, out, clock):
    """Read parts of open files; ``table`` (N, 4) has descriptors, offsets, sizes, and places in ``out``.

    A size becomes the bytes that are there, or -1 where they cannot be read or would not lie within ``out``.
    """
    start = now(clock)
    for k in range(table.shape[0]):
        offset, size, begin = table[k, 1], table[k, 2], table[k, 3]
        table[k, 2] = -1
        if offset >= 0 and 0 <= begin <= out.size and 0 <= size <= out.size - begin:
            table[k, 2] = _fill(table[k, 0], offset, size, out, begin, size)
    clock[0] = now(clock) - start
