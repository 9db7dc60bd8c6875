"""JPEGs with any codes, and progressive ones with any script of scans: a writer that shares nothing with the decoder.

Encoders write a few scripts; libjpeg decodes every order of scans that the standard allows. Reference: T.81, annexes C,
F and G.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .jpegs import DHT, DQT, DRI, SOS, Bits, segment

Blocks = NDArray[np.int64]  # (rows, columns, 64) coefficients in the order of the file
Rng = np.random.Generator

_LONGEST_RUN = 0x7FFF  # blocks of a run of ends of blocks


class Scan(NamedTuple):
    """A scan: components, first and last position, the lowest known bit before it (0: first scan) and after it.

    One of positions 0 to 63 is that of a baseline file.
    """

    components: tuple[int, ...]
    first: int
    last: int
    high: int
    low: int


class Picture(NamedTuple):
    height: int
    width: int
    factors: tuple[int, ...]  # of each component: horizontal << 4 | vertical
    blocks: tuple[Blocks, ...]  # of each component, up to whole MCUs

    @property
    def most(self) -> tuple[int, int]:
        return max(one & 15 for one in self.factors), max(one >> 4 for one in self.factors)

    def size(self, c: int) -> tuple[int, int]:
        """Rows and columns of the blocks that a component has in scans of its own."""
        down, across = self.most
        return (
            -(-self.height * (self.factors[c] & 15) // (8 * down)),
            -(-self.width * (self.factors[c] >> 4) // (8 * across)),
        )


def picture(rng: Rng, height: int, width: int, factors: Sequence[int]) -> Picture:
    """Draw coefficients: few or many, small ones or large ones."""
    down, across = max(one & 15 for one in factors), max(one >> 4 for one in factors)
    rows, columns = -(-height // (8 * down)), -(-width // (8 * across))
    share, size = rng.choice((0.02, 0.2, 0.6, 0.95)), rng.choice((2, 30, 1023))
    every = []
    for one in factors:
        shape = rows * (one & 15), columns * (one >> 4), 64
        values = rng.integers(-size, size + 1, shape) * (rng.random(shape) < share * rng.random(64))
        values[..., 0] = np.clip(rng.integers(-size, size + 1, shape[:2]).cumsum(1), -1023, 1023)
        every.append(values.astype(np.int64))
    return Picture(height, width, tuple(factors), tuple(every))


def script(rng: Rng, count: int, lowest: int = 4) -> list[Scan]:
    """Draw a complete script: how DC scans interleave, the bands of each component, their bits and the order."""
    every, each = [tuple(range(count))], [(c,) for c in range(count)]
    groups = every if rng.random() < 0.5 else each
    if count == 3 and rng.random() < 0.2:
        groups = [(0,), (1, 2)] if rng.random() < 0.5 else [(0, 2), (1,)]
    depth = int(rng.integers(lowest))
    dc = [Scan(group, 0, 0, 0, depth) for group in groups]
    together = every if rng.random() < 0.5 else each
    chains = [[Scan(group, 0, 0, low + 1, low) for low in range(depth - 1, -1, -1) for group in together]]
    for c in range(count):
        cuts = sorted(rng.choice(np.arange(2, 64), int(rng.integers(4)), replace=False).tolist())
        for first, end in zip([1, *cuts], [*cuts, 64], strict=True):
            depth = int(rng.integers(lowest))
            lows = range(depth, -1, -1)
            chains.append([Scan((c,), first, end - 1, 0 if low == depth else low + 1, low) for low in lows])
    # Chains are merged at random; each keeps its order.
    turns = rng.permutation(np.repeat(np.arange(len(chains)), [len(chain) for chain in chains]))
    return dc + [chains[k].pop(0) for k in turns]


Event = tuple[int | None, int, int]  # a symbol, or None; then a value and its bits


def _units(image: Picture, scan: Scan) -> Iterator[list[tuple[int, Any]]]:
    if len(scan.components) == 1:
        (c,) = scan.components
        rows, columns = image.size(c)
        yield from ([(0, image.blocks[c][y, x])] for y in range(rows) for x in range(columns))
        return
    down, across = image.most
    for y in range(-(-image.height // (8 * down))):
        for x in range(-(-image.width // (8 * across))):
            unit = []
            for k, c in enumerate(scan.components):
                h, v = image.factors[c] >> 4, image.factors[c] & 15
                unit += [(k, image.blocks[c][y * v + j, x * h + i]) for j in range(v) for i in range(h)]
            yield unit


def _sized(value: int) -> tuple[int, int]:
    size = abs(value).bit_length()
    return size, value if value > 0 else value + (1 << size) - 1


class _Coder:
    """Turns the MCUs of a scan into events; state lasts to the next restart marker."""

    def __init__(self, scan: Scan, longest_run: int) -> None:
        self.scan, self._longest = scan, longest_run
        self.events: list[tuple[int, Event]] = []  # with the number of the table; of AC 4 and more in a baseline file
        self._band, self._table = slice(max(scan.first, 1), scan.last + 1), 0
        self.reset()

    def reset(self) -> None:
        self._before = [0] * len(self.scan.components)
        self._run, self._bits = 0, list[int]()  # blocks without symbols, and their correction bits

    def _put(self, symbol: int | None, value: int = 0, count: int = 0) -> None:
        self.events.append((self._table, (symbol, value, count)))

    def unit(self, blocks: list[tuple[int, Any]]) -> None:
        for k, block in blocks:
            if self.scan.first == 0:
                self._table = k if self.scan.last == 0 else min(k, 1)
                self._dc(k, int(block[0]))
                self._table = 4 + self._table if self.scan.last else 0
            if self.scan.last == 0:
                continue
            if self.scan.high:
                self._refine(block)
            else:
                self._first(block)

    def flush(self) -> None:
        """End a run of blocks without symbols, if there is one."""
        if self._run:
            size = self._run.bit_length() - 1
            self._put(size << 4, self._run - (1 << size), size)
        self._correct(self._bits)
        self._run, self._bits = 0, []

    def _correct(self, bits: list[int]) -> None:
        for bit in bits:
            self._put(None, bit, 1)

    def _dc(self, k: int, value: int) -> None:
        value >>= self.scan.low
        if self.scan.high:
            self._put(None, value & 1, 1)
            return
        size, bits = _sized(value - self._before[k])
        self._before[k] = value
        self._put(size, bits, size)

    def _end(self, bits: list[int]) -> None:
        self._run += 1
        self._bits += bits
        if self._run == self._longest or len(self._bits) > 900:
            self.flush()

    def _magnitudes(self, block: Any) -> list[int]:
        return [abs(int(value)) >> self.scan.low for value in block[self._band]]

    def _first(self, block: Any) -> None:
        zeros = 0
        for value, now in zip(block[self._band], self._magnitudes(block), strict=True):
            if now == 0:
                zeros += 1
                continue
            self.flush()
            while zeros > 15:
                self._put(0xF0)
                zeros -= 16
            size, bits = _sized(now if value > 0 else -now)
            self._put(zeros << 4 | size, bits, size)
            zeros = 0
        if zeros:
            self._end([])

    def _refine(self, block: Any) -> None:
        values = block[self._band]
        now = self._magnitudes(block)
        end = max((k for k, one in enumerate(now) if one == 1), default=-1)
        zeros, bits = 0, list[int]()
        for k, one in enumerate(now):
            if one > 1:
                bits.append(one & 1)
                continue
            if one == 0:
                zeros += 1
                if zeros == 16 and k < end:
                    self.flush()
                    self._put(0xF0)
                    self._correct(bits)
                    zeros, bits = 0, []
                continue
            self.flush()
            self._put(zeros << 4 | 1, int(values[k] > 0), 1)
            self._correct(bits)
            zeros, bits = 0, []
        if zeros or bits:
            self._end(bits)


Table: TypeAlias = tuple[bytes, dict[int, tuple[int, int]]]  # its definition, and code and length of each symbol
Coding: TypeAlias = Callable[[Counter[int], bool], Table]  # of symbols that occur, of AC coefficients or not


def _codes(symbols: Counter[int], of_ac: bool) -> Table:
    """A table's definition and its codes: up to 7 bits for frequent symbols, up to 15 for others, none of all ones."""
    order = [symbol for symbol, _ in symbols.most_common()] or [0]
    short = min(len(order), 7)
    longer = (len(order) - short).bit_length()
    counts, codes, code, before = [0] * 16, dict[int, tuple[int, int]](), 0, 0
    for k, symbol in enumerate(order):
        length = k + 1 if k < short else short + longer
        code, before = code << length - before, length
        codes[symbol] = code, length
        counts[length - 1] += 1
        code += 1
    return bytes(counts) + bytes(order), codes


def _scan_bytes(image: Picture, scan: Scan, interval: int, longest_run: int, coding: Coding) -> bytes:
    coder = _Coder(scan, longest_run)
    for m, unit in enumerate(_units(image, scan)):
        if interval and m and m % interval == 0:
            coder.flush()
            coder.events.append((-1, (None, m // interval - 1, 0)))
            coder.reset()
        coder.unit(unit)
    coder.flush()
    baseline = scan.first < scan.last and not scan.first
    used = {k: Counter[int]() for k in ((0, 1, 4, 5) if baseline else range(len(scan.components)))}
    for k, (symbol, _, _) in coder.events:
        if symbol is not None:
            used[k][symbol] += 1
    tables = {k: coding(one, k >= 4 or scan.first > 0) for k, one in used.items()}
    found = b""
    if scan.first or not scan.high:
        numbers = {k: 0x10 | k & 3 if k >= 4 or scan.first else k for k in tables}
        found = b"".join(segment(DHT, bytes((numbers[k],)) + table) for k, (table, _) in tables.items())
    chosen = [17 * min(k, 1) if baseline else k << (0 if scan.first else 4) for k in range(len(scan.components))]
    header = b"".join(bytes((c + 1, one)) for c, one in zip(scan.components, chosen, strict=True))
    band = bytes((scan.first, scan.last, scan.high << 4 | scan.low))
    found += segment(SOS, bytes((len(scan.components),)) + header + band)
    bits = Bits()
    for k, (symbol, value, count) in coder.events:
        if k < 0:
            bits.restart(bytes((0xFF, 0xD0 + value % 8)))
            continue
        if symbol is not None:
            bits.put(*tables[k][1][symbol])
        bits.put(value, count)
    bits.restart(b"")
    return found + bytes(bits.bytes)


def written(
    image: Picture, scans: Sequence[Scan], intervals: Sequence[int] = (0,), longest_run: int = _LONGEST_RUN,
    steps: bytes = b"\0" + b"\1" * 64, frame: int = 0xC2, coding: Coding = _codes,
) -> bytes:  # fmt: skip
    """A file of an image; ``intervals`` are the restart intervals of its scans, by turns, ``steps`` a DQT segment."""
    count = len(image.factors)
    components = b"".join(bytes((c + 1, image.factors[c], 0)) for c in range(count))
    size = image.height.to_bytes(2, "big") + image.width.to_bytes(2, "big")
    file = b"\xff\xd8" + segment(DQT, steps) + segment(frame, b"\x08" + size + bytes((count,)) + components)
    before = 0
    for k, scan in enumerate(scans):
        interval = intervals[k % len(intervals)]
        if interval != before:
            file += segment(DRI, interval.to_bytes(2, "big"))
        before = interval
        file += _scan_bytes(image, scan, interval, longest_run, coding)
    return file + b"\xff\xd9"


def baseline(image: Picture, interval: int = 0, frame: int = 0xC0, **options: Any) -> bytes:
    scan = Scan(tuple(range(len(image.factors))), 0, 63, 0, 0)
    return written(image, [scan], (interval,), 1, frame=frame, **options)


FACTORS = ((0x11,), (0x22,), (0x11, 0x11, 0x11), (0x21, 0x11, 0x11), (0x22, 0x11, 0x11), (0x12, 0x11, 0x11))


def made(rng: Rng, most: int = 60) -> bytes:
    height, width = rng.integers(1, most, 2).tolist()
    factors = FACTORS[rng.integers(len(FACTORS))]
    intervals = [int(rng.choice((0, 0, 0, 1, 2, 7, 100))) for _ in range(int(rng.integers(1, 4)))]
    longest = int(rng.choice((1, 2, 5, _LONGEST_RUN, _LONGEST_RUN)))
    image = picture(rng, height, width, factors)
    scans, step = script(rng, len(factors)), int(rng.choice((1, 3, 20)))
    return written(image, scans, intervals, longest, b"\0" + bytes((step,)) * 64)
