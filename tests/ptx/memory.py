"""Memory that checks every access: its bounds, its alignment, and that what is read was written before.

Each buffer lies far from all others, and each shared variable is followed by a gap, so that one word too far is found.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .parse import Fault, Instruction, Variable
from .races import ATOMIC, WRITE, Log
from .values import Array, Lanes

_SLOT = 36  # bits of an address within a buffer's part of the global memory
_GAP = 64  # bytes after a shared variable
_UNSIGNED: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class Region:
    """Bytes that belong together: a buffer, or the shared memory of all blocks."""

    def __init__(self, name: str, content: Array, base: int, known: Array | None, writable: bool) -> None:
        self.name = name
        self.content = content
        self.base = base
        self.known = known  # bytes that hold something; None: all
        self.writable = writable
        self.log = Log()
        self._views: dict[int, tuple[int, Array]] = {}

    def words(self, size: int) -> tuple[int, Array]:
        """The aligned words of a size, and at which byte the first one is."""
        if size not in self._views:
            first = -self.base % size
            count = max(len(self.content) - first, 0) // size
            self._views[size] = first, self.content[first : first + count * size].view(_UNSIGNED[size])
        return self._views[size]


class Layout:
    """Addresses and bytes of shared variables."""

    def __init__(self, variables: list[Variable]) -> None:
        self.places: dict[str, int] = {}
        end = 0
        ranges = []
        for one in variables:
            start = -(-end // 16) * 16
            start = -(-start // one.align) * one.align
            self.places[one.name] = start
            ranges.append((start, start + one.size))
            end = start + one.size + _GAP
        self.size = -(-end // 16) * 16
        self.valid = np.zeros(self.size, np.bool_)
        for start, stop in ranges:
            self.valid[start:stop] = True


class Memory:
    def __init__(self) -> None:
        self._regions: dict[int, Region] = {}

    def add(self, name: str, content: Array, align: int = 0, known: Array | None = None, writable: bool = True) -> int:
        """Give bytes an address, ``align`` beyond a multiple of 4096."""
        slot = len(self._regions) + 1
        base = (slot << _SLOT) + align % 4096
        self._regions[slot] = Region(name, content, base, known, writable)
        return base

    @property
    def regions(self) -> list[Region]:
        return list(self._regions.values())

    def share(self, layout: Layout, owners: Array) -> None:
        """Create shared memory; ``owners`` are the blocks of the threads."""
        size = (int(owners.max()) + 1) * layout.size
        # Unwritten bytes must not look like zeros.
        self.shared = Region("shared memory", np.full(size, 0xCD, np.uint8), 0, np.zeros(size, np.bool_), True)
        self._layout, self._owners = layout, owners

    # -- where addresses are -----------------------------------------------------------------------------------

    def _pieces(self, space: str, lanes: Lanes, at: Array, size: int, does: str) -> Iterator[tuple[Region, Any, Array]]:
        """Regions, which of the lanes are in each (None: all), and at which bytes."""
        if space == "shared":
            yield self._in_shared(lanes, at, size, does)
            return
        low, high = int(at.min()), int(at.max())
        region = self._near(low)
        if region is not None and low >= region.base and high + size <= region.base + len(region.content):
            yield region, None, at.astype(np.int64) - region.base
            return
        slots = (at + np.uint64(1 << _SLOT - 1)) >> np.uint64(_SLOT)
        for slot in np.unique(slots):
            chosen = np.flatnonzero(slots == slot)
            region = self._near(int(slot) << _SLOT)
            if region is None:
                raise Fault(f"{lanes.machine.who(lanes.ids[chosen[0]])} {does} at {int(at[chosen[0]]):#x}: no buffer")
            offsets = at[chosen].astype(np.int64) - region.base
            self._check(region.name, lanes, offsets, chosen, size, len(region.content), does)
            yield region, chosen, offsets

    def _near(self, address: int) -> Region | None:
        return self._regions.get(address + (1 << _SLOT - 1) >> _SLOT)

    def _in_shared(self, lanes: Lanes, at: Array, size: int, does: str) -> tuple[Region, None, Array]:
        layout, offsets = self._layout, at.astype(np.int64)
        self._check(self.shared.name, lanes, offsets, np.arange(len(offsets)), size, layout.size, does)
        outside = ~(layout.valid[offsets] & layout.valid[offsets + size - 1])
        if outside.any():
            one = int(np.flatnonzero(outside)[0])
            start, name = max((start, name) for name, start in layout.places.items() if start <= offsets[one])
            self._refuse(name, lanes, offsets - start, outside, size, does)
        return self.shared, None, offsets + self._owners[lanes.ids] * layout.size

    def _check(self, name: str, lanes: Lanes, offsets: Array, chosen: Array, size: int, end: int, does: str) -> None:
        outside = (offsets < 0) | (offsets > end - size)
        if outside.any():
            self._refuse(f"{name} ({end} bytes)", Lanes(lanes.machine, lanes.ids[chosen]), offsets, outside, size, does)

    @staticmethod
    def _refuse(name: str, lanes: Lanes, offsets: Array, outside: Array, size: int, does: str) -> None:
        one = int(np.flatnonzero(outside)[0])
        raise Fault(
            f"{lanes.machine.who(lanes.ids[one])} {does} {size} bytes at byte {int(offsets[one])} of {name}, out of "
            f"bounds; so do {int(outside.sum())} threads"
        )

    # -- accesses ----------------------------------------------------------------------------------------------

    def _words(
        self, i: Instruction, space: str, lanes: Lanes, at: Array, size: int, flags: int
    ) -> Iterator[tuple[Region, Any, Array, Array]]:
        """For each region: the lanes in it, its words, and the number of each lane's word."""
        does = "writes" if flags & WRITE else "reads"
        crooked = (at & np.uint64(size - 1)) != 0
        if crooked.any():
            one = int(np.flatnonzero(crooked)[0])
            raise Fault(
                f"{lanes.machine.who(lanes.ids[one])} {does} {size} bytes at {int(at[one]):#x}, misaligned; so do "
                f"{int(crooked.sum())} threads"
            )
        for region, chosen, offsets in self._pieces(space, lanes, at, size, does):
            if flags & WRITE and not region.writable:
                raise Fault(f"writes to {region.name}, which may only be read")
            ids = lanes.ids if chosen is None else lanes.ids[chosen]
            self._known(region, lanes, ids, offsets, size, flags)
            region.log.add(lanes.machine.steps, i, flags, ids + lanes.machine.first_thread, offsets, size)
            first, words = region.words(size)
            yield region, chosen, words, (offsets - first) // size

    def _known(self, region: Region, lanes: Lanes, ids: Array, offsets: Array, size: int, flags: int) -> None:
        known = region.known
        if known is None:
            return
        if not flags & WRITE or flags & ATOMIC:
            missing = ~(known[offsets] & known[offsets + size - 1])
            if missing.any():
                one = int(np.flatnonzero(missing)[0])
                raise Fault(
                    f"{lanes.machine.who(ids[one])} reads {size} bytes of {region.name} that nothing wrote; so do "
                    f"{int(missing.sum())} threads"
                )
        if flags & WRITE:
            for k in range(size):
                known[offsets + k] = True

    def load(self, i: Instruction, space: str, lanes: Lanes, at: Array, size: int) -> Array:
        found = np.empty(len(at), _UNSIGNED[size])
        for _, chosen, words, index in self._words(i, space, lanes, at, size, 0):
            if chosen is None:
                found = words[index]
            else:
                found[chosen] = words[index]
        return found

    def store(self, i: Instruction, space: str, lanes: Lanes, at: Array, value: Array) -> None:
        for _, chosen, words, index in self._words(i, space, lanes, at, value.dtype.itemsize, WRITE):
            words[index] = value if chosen is None or value.ndim == 0 else value[chosen]

    def update(
        self, i: Instruction, space: str, lanes: Lanes, at: Array, dtype: Any,
        apply: Callable[[Array, Array, Any], Any],
    ) -> Array:  # fmt: skip
        """Return the words before ``apply(words, index, lanes)`` changes them, one lane after another."""
        old = np.zeros(len(at), dtype)
        flags = WRITE | ATOMIC
        for _, chosen, words, index in self._words(i, space, lanes, at, np.dtype(dtype).itemsize, flags):
            found = apply(words.view(dtype), index, chosen)
            if found is not None:
                old[slice(None) if chosen is None else chosen] = found
        return old
