"""Kernel launches that write down what they would read and write, as the records of their plan say."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuimg.kernels import layout, ops

from .order import Order, Range, Stream

_MOST_BLOCKS = 65535  # along y


class Numba:
    """What the runtime takes from ``numba.cuda``."""

    def __init__(self, order: Order, cupy: Any) -> None:
        self._order = order
        self._cupy = cupy

    def external_stream(self, address: int) -> Stream:
        """A stream to launch on."""
        stream: Stream = self._cupy.cuda.ExternalStream(address).key
        return stream

    def as_cuda_array(self, array: Any, sync: bool = True) -> Any:
        """An array as an argument."""
        if sync:
            self._order.found("the host waits for an argument's stream")
        return array


class Kernel:
    """A compiled kernel."""

    def __init__(self, order: Order, name: str) -> None:
        self._order = order
        self._name = name
        self._grid: Any = None

    def __getitem__(self, grid: Any) -> Any:
        (blocks, images), block, stream = grid

        def launch(*arguments: Any) -> None:
            if not 0 < images <= _MOST_BLOCKS:
                self._order.found(f"{self._name} is launched for {images} images")
            touched = _mixed if self._name == "mix" else _sampled
            reads, perhaps, writes, threads = touched(images, *arguments)
            if blocks * block < threads:
                self._order.found(f"{self._name} has {blocks * block} threads for {threads} pixels")
            self._order.enqueue(stream, "launch", reads=reads, perhaps=perhaps, writes=writes, name=self._name)

        return launch


Touched = tuple[list[Range], list[Range], list[Range], int]


def _part(array: Any, first: int, stop: int) -> Range:
    """Addresses of the elements from ``first`` to ``stop``."""
    if not 0 <= first <= stop <= array.size:
        raise AssertionError(f"elements {first} to {stop} of an array of {array.size}")
    itemsize = array.dtype.itemsize
    return array.data.ptr + first * itemsize, array.data.ptr + stop * itemsize


def _sampled(
    n: int, source: Any, channels: Any, scale: Any, ints: Any, floats: Any, programs: Any, program_words: Any,
    tables: Any, table_words: Any, *rest: Any,
) -> Touched:  # fmt: skip
    """Memory that a launch of the transform or of a statistic touches."""
    records = ints.values.view(layout.RECORD)
    if len(records) != n or programs.size != n * int(program_words) or floats.range != ints.range:
        raise AssertionError(f"a plan of {len(records)} images, {programs.size} program words, for {n}")
    table = int(table_words)
    reads = [ints.range, programs.range]
    perhaps, writes = [], []
    for i, record in enumerate(records):
        x0, y0, x1, y1 = (int(v) for v in record["window"])
        if not (x0 < x1 and y0 < y1):
            raise AssertionError(f"image {i} has the empty window {record['window']}")
        at, stride = int(record["source"]), int(record["stride"])
        # From the window's first pixel to its last.
        reads.append(_part(source, at + y0 * stride + x0 * int(channels), at + (y1 - 1) * stride + x1 * int(channels)))
    pixels = records["height"].astype(np.int64) * records["width"]
    if len(rest) == 3:
        out, out_channels, _ = rest
        for record, count in zip(records, pixels.tolist(), strict=True):
            first = int(record["output"])
            writes.append(_part(out, first, first + count * int(out_channels)))
        perhaps.append(_part(tables, 0, n * table))
    else:
        slot, sums, extremes, counts, tickets = rest
        gathered = [sums.range, extremes.range, counts.range, tickets.range]
        reads += gathered
        writes += gathered
        for i in range(n):
            own = i * table + int(slot) * ops.STATISTICS_WORDS
            perhaps.append(_part(tables, i * table, own))
            writes.append(_part(tables, own, own + ops.STATISTICS_WORDS))
    return reads, perhaps, writes, int(pixels.max())


def _mixed(
    n: int, one: Any, other: Any, width: Any, channels: Any, elements: Any, weights: Any, starts: Any, partners: Any,
    boxes: Any, out: Any,
) -> Touched:  # fmt: skip
    """Memory that mixing touches."""
    reads = [array.range for array in (width, elements, weights, starts, partners, boxes)]
    writes = []
    for start, partner, count in zip(
        starts.values.tolist(), partners.values.tolist(), elements.values.tolist(), strict=True
    ):
        reads += [_part(one, start, start + count), _part(other, partner, partner + count)]
        writes.append(_part(out, start, start + count))
    return reads, [], writes, int(elements.values.max())
