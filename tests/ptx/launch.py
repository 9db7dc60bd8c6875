"""A launch: its parameters as the runtime packs them, its blocks some at a time, its races at the end."""

import ctypes
from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from . import races
from .machine import Clock, Grid, Machine, named
from .memory import Memory, Region
from .parse import Fault
from .program import Program, program
from .values import Array

_THREADS = 1 << 14  # that run at a time
_MOST_STEPS = 1_000_000


class Buffer(NamedTuple):
    """Memory as an argument: with a name for messages, and the bytes that hold something where not all do."""

    array: Any
    name: str = ""
    known: Any = None

    @property
    def range(self) -> tuple[int, int]:
        """Addresses on the host."""
        low = int(self.array.__array_interface__["data"][0])
        return low, low + self.array.nbytes


def _packed(made: Program, memory: Memory, given: Sequence[Any]) -> Array:
    """Put arrays into memory, and pack all arguments; the sizes of the parameters must be the kernel's."""
    arguments = [Buffer(one, f"array {k}") if isinstance(one, np.ndarray) else one for k, one in enumerate(given)]
    addresses = _placed(memory, [one for one in arguments if isinstance(one, Buffer)])
    values: list[bytes] = []
    for one in arguments:
        if isinstance(one, Buffer):  # as Numba takes it: two owners, the size and item size, the address, shape, stride
            array = one.array
            if array.ndim != 1 or not array.flags.c_contiguous:
                raise Fault(f"{one.name} is not flat, or not contiguous")
            size, step = array.size, array.itemsize
            values += (np.int64(word).tobytes() for word in (0, 0, size, step, addresses[id(one)], size, step))
        else:
            values.append(one.tobytes())
    sizes = [parameter.size for parameter in made.kernel.parameters]
    if [len(value) for value in values] != sizes:
        raise Fault(f"wrong parameters: the kernel takes {sizes} bytes, given are {[len(value) for value in values]}")
    content = np.zeros(made.parameter_bytes, np.uint8)
    for start, value in zip(made.offsets, values, strict=True):
        content[start : start + len(value)] = np.frombuffer(value, np.uint8)
    return content


def _placed(memory: Memory, buffers: list[Buffer]) -> dict[int, int]:
    """Put buffers into memory, those that share bytes into one region; return their addresses by their identity."""
    groups: list[list[Buffer]] = []
    for one in sorted(buffers, key=lambda one: one.range):
        if groups and one.range[0] < max(other.range[1] for other in groups[-1]):
            groups[-1].append(one)
        else:
            groups.append([one])
    addresses: dict[int, int] = {}
    for group in groups:
        low, high = group[0].range[0], max(one.range[1] for one in group)
        content = np.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(low))
        writable = all(one.array.flags.writeable for one in group)
        base = memory.add(" = ".join(one.name for one in group), content, low, _known(low, high, group), writable)
        addresses |= {id(one): base + one.range[0] - low for one in group}
    return addresses


def _known(low: int, high: int, group: list[Buffer]) -> Any:
    if len(group) == 1:  # the caller's own, which tells afterwards what was written
        return group[0].known
    known = np.zeros(high - low, np.bool_)
    for one in group:
        known[one.range[0] - low : one.range[1] - low] |= True if one.known is None else one.known
    return known


def run(ptx: str, grid: Grid, size: int, arguments: Sequence[Any], *, behind: tuple[int, int] | None = None) -> None:
    """Run a kernel on arrays, which hold its results afterwards; raise :class:`Fault` for what it must not do.

    ``grid`` is the number of blocks in x and y, each of ``size`` threads. ``arguments`` are flat arrays,
    :class:`Buffer`, and NumPy scalars of the size of their parameter. With ``behind`` warps run one by one until they
    must wait, and the warp of this number falls behind all others after so many turns: orders that may be, too.
    """
    made = program(ptx)
    memory = Memory()
    parameters = _packed(made, memory, arguments)
    clock = Clock(_MOST_STEPS)
    blocks = prod(grid)
    at_a_time = max(_THREADS // size, 1)
    with np.errstate(all="ignore"):
        for first in range(0, blocks, at_a_time):
            count = min(at_a_time, blocks - first)
            Machine(made, grid, size, first, count, memory, parameters, clock, behind).run()
            _check(clock, [memory.shared], grid[0], size, shared=True)
        _check(clock, memory.regions, grid[0], size, shared=False)


def _check(clock: Clock, regions: list[Region], columns: int, size: int, *, shared: bool) -> None:
    warps = -(-size // 32)
    order = races.Order(
        lambda threads: threads // size,
        lambda threads: threads // size * warps + threads % size // 32,
        _sorted(clock.barriers),
        _sorted(clock.warp_barriers),
        lambda thread: named(thread, columns, size),
    )
    for region in regions:
        races.check(region.name, region.log, order, shared)


def _sorted(events: list[tuple[int, Any]]) -> races.Ints:
    keys = [owners.astype(np.int64) << 40 | step for step, owners in events]
    return np.sort(np.concatenate(keys)) if keys else np.zeros(0, np.int64)
