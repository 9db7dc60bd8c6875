"""A launch: its parameters as the launcher packs them, its blocks some at a time, its races at the end."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from . import races
from .fault import Fault
from .machine import Clock, Dim, Machine, named
from .memory import Memory, Region
from .program import Program, program
from .values import Array

_THREADS = 1 << 14  # that run at a time
_MOST_STEPS = 1_000_000


def array_parameters(array: Any, address: int) -> list[Any]:
    """An array as numba-cuda's launcher takes it, 8 bytes each."""
    return [0, 0, array.size, array.dtype.itemsize, address, *array.shape, *array.strides]


def pointer(array: Any, address: int) -> list[Any]:
    """An array as CUDA C takes it."""
    return [address]


@dataclass(frozen=True)
class Buffer:
    """Memory as an argument: with a name for messages, and the bytes that hold something where not all do."""

    array: Any
    name: str = ""
    known: Any = None
    pack: Callable[[Any, int], list[Any]] = array_parameters  # the parameters it becomes, from its address


class _Arguments:
    """Arguments in memory; those that share bytes share a buffer."""

    def __init__(self, memory: Memory, given: Sequence[Any]) -> None:
        self._memory = memory
        buffers = [a if isinstance(a, Buffer) else Buffer(a) for a in given if isinstance(a, (Buffer, np.ndarray))]
        self._bases: list[tuple[int, int, int]] = []  # address of the host's, its end, address here
        self._place(buffers)
        self.values: list[Any] = []
        for one in given:
            if isinstance(one, (Buffer, np.ndarray)):
                self._append(one if isinstance(one, Buffer) else Buffer(one))
            else:
                self.values.append(one)

    def _place(self, buffers: list[Buffer]) -> None:
        ranges: list[tuple[int, int, list[tuple[int, Buffer]]]] = []
        for k, one in sorted(enumerate(buffers), key=lambda item: host_address(item[1].array)):
            low = host_address(one.array)
            high = low + one.array.nbytes
            if ranges and low < ranges[-1][1]:
                start, stop, group = ranges[-1]
                ranges[-1] = start, max(stop, high), [*group, (k, one)]
            else:
                ranges.append((low, high, [(k, one)]))
        for low, high, group in ranges:
            name = " = ".join(one.name or f"array {k}" for k, one in group)
            content = np.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(low))
            known = _known(low, high, [one for _, one in group])
            writable = all(one.array.flags.writeable for _, one in group)
            base = self._memory.add(name, content, low, known, writable)
            self._bases.append((low, high, base))

    def _append(self, one: Buffer) -> None:
        at = host_address(one.array)
        low, _, base = next(b for b in self._bases if b[0] <= at < b[1] or (b[0] == at and one.array.nbytes == 0))
        address = base + at - low
        if not one.array.flags.c_contiguous:
            raise Fault(f"{one.name or 'an array'} is not contiguous")
        self.values += one.pack(one.array, address)


def host_address(array: Any) -> int:
    """Return the address of an array on the host."""
    return int(array.__array_interface__["data"][0])


def _known(low: int, high: int, group: list[Buffer]) -> Array | None:
    if all(one.known is None for one in group):
        return None
    if len(group) == 1:  # the caller's own, which tells afterwards what was written
        alone: Array = group[0].known
        return alone
    known = np.zeros(high - low, np.bool_)
    for one in group:
        start = host_address(one.array) - low
        known[start : start + one.array.nbytes] |= True if one.known is None else one.known
    return known


def _bytes(value: Any) -> bytes:
    """A parameter as the launcher packs it."""
    if isinstance(value, int):
        return (value & (2**64 - 1)).to_bytes(8, "little")
    if isinstance(value, np.generic):
        return value.tobytes()
    return bytes(value)  # of ctypes


def packed(made: Program, values: list[Any]) -> Array:
    """Pack all parameters; their number and sizes must be the kernel's."""
    sizes = [parameter.size for parameter in made.kernel.parameters]
    given = [_bytes(value) for value in values]
    if [len(one) for one in given] != sizes:
        raise Fault(f"wrong parameters: the kernel takes {sizes} bytes, given are {[len(one) for one in given]}")
    content = np.zeros(made.parameter_bytes, np.uint8)
    for start, one in zip(made.offsets, given, strict=True):
        content[start : start + len(one)] = np.frombuffer(one, np.uint8)
    return content


def _dims(given: Any) -> Dim:
    sizes = (given,) if isinstance(given, (int, np.integer)) else tuple(given)
    x, y, z = (int(size) for size in (*sizes, 1, 1)[:3])
    return x, y, z


def run(
    kernel: str | Program, grid: Any, block: Any, arguments: Sequence[Any], *, behind: tuple[int, int] | None = None
) -> None:
    """Run a kernel on arrays, which hold its results afterwards; raise :class:`Fault` for what it must not do.

    ``arguments`` are arrays and :class:`Buffer` (passed as numba-cuda passes arrays, or as they say), NumPy scalars
    and objects of ctypes of the size of their parameter, and Python's integers of 8 bytes. With ``behind`` warps run
    one by one until they must wait, and the warp of this number falls behind all others after so many turns: orders
    that may be, too.
    """
    made = kernel if isinstance(kernel, Program) else program(kernel)
    grid, block = _dims(grid), _dims(block)
    memory = Memory()
    parameters = packed(made, _Arguments(memory, arguments).values)
    clock = Clock(_MOST_STEPS)
    blocks, size = prod(grid), prod(block)
    at_a_time = max(_THREADS // size, 1)
    with np.errstate(all="ignore"):
        for first in range(0, blocks, at_a_time):
            count = min(at_a_time, blocks - first)
            Machine(made, grid, block, first, count, memory, parameters, clock, behind).run()
            _check(clock, [memory.shared], grid, block, shared=True)
        _check(clock, memory.regions, grid, block, shared=False)


def _check(clock: Clock, regions: list[Region], grid: Dim, block: Dim, *, shared: bool) -> None:
    size = prod(block)
    warps = -(-size // 32)
    order = races.Order(
        lambda threads: threads // size,
        lambda threads: threads // size * warps + threads % size // 32,
        _sorted(clock.barriers),
        _sorted(clock.warp_barriers),
        lambda thread: named(thread, grid, block),
    )
    for region in regions:
        races.check(region.name, region.log, order, shared)


def _sorted(events: list[tuple[int, Any]]) -> races.Ints:
    keys = [owners.astype(np.int64) << 40 | step for step, owners in events]
    return np.sort(np.concatenate(keys)) if keys else np.zeros(0, np.int64)
