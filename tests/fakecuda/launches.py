"""Kernel launches that write down what they would read and write, as the records of their plan say.

Arguments are read from where a launch packed them, as the driver does.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuimg._data.patches import PatchLayout
from gpuimg.kernels import layout, ops
from gpuimg.kernels.cuda import Image, Kernel
from gpuimg.kernels.jpeg import upload

from .order import Order, Range, Stream

Dim = tuple[int, int, int]
_WORD = 8  # bytes


class Array(NamedTuple):
    """A flat array, as a kernel is given it."""

    low: int
    size: int
    values: Any

    @property
    def range(self) -> Range:
        """Its addresses."""
        return self.low, self.low + self.values.nbytes


class Driver:
    """Launches of gpuimg's kernels, whose code is only a name."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self.kernels: dict[str, Kernel] = {}  # by their keys

    def image(self, kernel: Kernel, capability: tuple[int, int]) -> Image:
        """Instead of compiling."""
        self.kernels[kernel.key] = kernel
        return Image(kernel.key, b"\0")

    def launch(self, entry: str, stream: Stream, grid: Dim, block: Dim, extra: int) -> None:
        """Write down what a kernel reads and writes."""
        kernel, (blocks, images, _) = self.kernels[entry], grid
        name = next((known for known in _BY_NAME if kernel.name.startswith(known)), kernel.name.partition("_")[0])
        arguments = self.unpacked(kernel, packed(extra))
        if name in _BY_NAME:
            touched = _BY_NAME[name](blocks, images, *arguments)
        else:
            touched = (_mixed if name == "mix" else _sampled)(images, *arguments)
        if blocks * block[0] < touched.threads:
            self._order.found(f"{name} has {blocks * block[0]} threads for {touched.threads} things")
        self._order.enqueue(
            stream, "marks" if name in _MARKS else "launch", reads=touched.reads, perhaps=touched.perhaps,
            seen=touched.seen, writes=touched.writes, name=name,
        )  # fmt: skip
        if name == "huffman":
            _report(self._order.damaged, _segments(*arguments[:2], blocks), arguments[-1])
        if name == "recoded":
            _report(self._order.damaged, _recoded_scans(*arguments[:2], images), arguments[-1])

    def unpacked(self, kernel: Kernel, content: bytes) -> list[Any]:
        """Arguments, by the rules for a C structure of them."""
        at, found = 0, []
        for kind in kernel.arguments:
            is_array, dtype = kind.endswith("[]"), np.dtype(kind.removesuffix("[]"))
            width = _WORD if is_array else dtype.itemsize
            at = -(-at // width) * width
            found.append((at, is_array, dtype))
            at += 7 * _WORD if is_array else width
        if at != len(content):
            raise AssertionError(f"{kernel.name} takes {at} bytes of parameters, not {len(content)}")
        return [
            self._array(np.frombuffer(content, np.int64, 7, begin).tolist(), dtype)
            if is_array
            else np.frombuffer(content, dtype, 1, begin)[0]
            for begin, is_array, dtype in found
        ]

    def _array(self, words: list[int], dtype: Any) -> Array:
        """An array of one dimension from its two owners, its size and item size, its address, shape and stride."""
        low, size = words[4], words[2]
        assert words == [0, 0, size, dtype.itemsize, low, size, dtype.itemsize]
        assert low % dtype.itemsize == 0
        return Array(low, size, self._order.content(low, low + size * dtype.itemsize).view(dtype))


def packed(extra: int) -> bytes:
    """A launch's arguments, from the list at this address that tells the driver where they are."""
    begin, address, size, length, end = (ctypes.c_size_t * 5).from_address(extra)
    assert (begin, size, end) == (1, 2, 0)
    return ctypes.string_at(address, ctypes.c_size_t.from_address(length).value)


class Touched(NamedTuple):
    """Memory that a launch touches, as :meth:`Order.enqueue` takes it, and the threads that it needs."""

    reads: list[Range]
    perhaps: list[Range]
    writes: list[Range]
    threads: int
    seen: Sequence[Range] = ()


def _part(array: Any, first: int, stop: int) -> Range:
    """Addresses of the elements from ``first`` to ``stop``."""
    if not 0 <= first <= stop <= array.size:
        raise AssertionError(f"elements {first} to {stop} of an array of {array.size}")
    itemsize = array.values.itemsize
    return array.low + first * itemsize, array.low + stop * itemsize


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
    perhaps, writes, seen = [], [], []
    for i, record in enumerate(records):
        x0, y0, x1, y1 = (int(v) for v in record["window"])
        if not (x0 < x1 and y0 < y1):
            raise AssertionError(f"image {i} has the empty window {record['window']}")
        at, stride = int(record["source"]), int(record["stride"])
        # From the window's first pixel to its last; of other columns between them nothing is read.
        first, row = x0 * int(channels), (x1 - x0) * int(channels)
        perhaps.append(_part(source, at + y0 * stride + first, at + (y1 - 1) * stride + first + row))
        starts = [at + y * stride + first for y in range(y0, y1)]
        seen += [_part(source, start, start + row) for start in starts]
    pixels = records["height"].astype(np.int64) * records["width"]
    if len(rest) == 12:
        out, out_channels, form, *patch = rest
        for record, count in zip(records, pixels.tolist(), strict=True):
            first = int(record["output"])
            if form == layout.PATCHES:
                size = int(record["height"]), int(record["width"])
                writes += _in_patches(out, first, (int(out_channels), *size), PatchLayout(*map(int, patch)))
            else:
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
    return Touched(reads, perhaps, writes, int(pixels.max()), seen)


def _in_patches(out: Any, first: int, shape: tuple[int, int, int], patches: PatchLayout) -> list[Range]:
    """Addresses of the elements of an image in patches, by runs."""
    touched = np.zeros(out.size, np.bool_)
    patches.put(np.ones(shape, np.bool_), touched, first)
    ends = np.flatnonzero(np.diff(np.concatenate([[False], touched, [False]]))).reshape(-1, 2)
    return [_part(out, begin, end) for begin, end in ends.tolist()]


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
    return Touched(reads, [], writes, int(elements.values.max()))


def _copy_words(_: int, n: int, source: Any, target: Any, runs: Any) -> Touched:
    """The words are copied."""
    reads, writes = [runs.range], []
    for first, to, count in runs.values.reshape(n, 3).tolist():
        reads.append(_part(source, first, first + count))
        writes.append(_part(target, to, to + count))
        target.values[to : to + count] = source.values[first : first + count]
    return Touched(reads, [], writes, n)


# -- JPEGs -------------------------------------------------------------------------------------------------------------


def _records(words: Any, at: Any, n: int, size: int) -> Any:
    """Return the records, of a number of words, in an upload."""
    return words.values[int(at) : int(at) + n * size].reshape(n, size)


def _segments(words: Any, groups: Any, n: int) -> Any:
    """The segments of some blocks of threads."""
    found = [
        _records(words, first, count, upload.SEGMENT_WORDS).view(upload.SEGMENT)[:, 0]
        for _, first, count in _records(words, groups, n, upload.GROUP_WORDS)
    ]
    return np.concatenate(found)


def _words_of(words: Any, at: Any, n: int, size: int) -> Range:
    """Addresses of the records, of a number of words, in an upload."""
    return _part(words, int(at), int(at) + n * size)


def _data_of(words: Any, record: Any) -> Range:
    """Addresses of the bytes of a segment or of a scan."""
    return _part(words, int(record["word"]), int(record["word"]) - (-int(record["end"]) // 32))


def _find(scans: int, _: int, words: Any, at: Any, status: Any) -> Touched:
    """One segment has all blocks of a scan's window afterwards, the others none."""
    reads, writes = [_words_of(words, at, scans, upload.SCAN_WORDS)], [status.range]
    for scan in _records(words, at, scans, upload.SCAN_WORDS).view(upload.SCAN)[:, 0]:
        if scan["each"]:  # a recoded file
            continue
        reads += [_words_of(words, scan["set"], 1, upload.SET_WORDS), _data_of(words, scan)]
        writes.append(_words_of(words, scan["found"], int(scan["count"]), upload.SEGMENT_WORDS))
        found = _records(words, scan["found"], int(scan["count"]), upload.SEGMENT_WORDS).view(upload.SEGMENT)[:, 0]
        found[:] = np.zeros(1, upload.SEGMENT)
        for name in ("word", "block", "image"):
            found[name] = scan[name]
        found[0]["blocks"] = scan["blocks"]
    return Touched(reads, [], writes, scans * upload.PARTS)


def _recoded(segments: int, scans: int, words: Any, at: Any, books: Any, symbols: Any, *arrays: Any) -> Touched:
    """The coefficients of windows are written, and scratch for their symbols."""
    coefficients, status = arrays
    reads, writes = [_words_of(words, at, scans, upload.SCAN_WORDS), books.range], [status.range]
    for scan in _recoded_scans(words, at, scans):
        reads += [_words_of(words, scan["record"], 1, upload.IMAGE_WORDS), _data_of(words, scan)]
        image = _records(words, scan["record"], 1, upload.IMAGE_WORDS).view(upload.IMAGE)[0, 0]
        assert segments >= -(-int(image["rows"]) // int(scan["each"]))
        first, count = int(scan["block"]), int(scan["blocks"])
        for array, size in ((symbols, upload.SAMPLES), (coefficients, upload.COEFFICIENTS)):
            writes.append(_part(array, size * first, size * (first + count)))
    return Touched([*reads, writes[-1]], [], writes, 0)


def _recoded_scans(words: Any, at: Any, n: int) -> Any:
    scans = _records(words, at, n, upload.SCAN_WORDS).view(upload.SCAN)[:, 0]
    return scans[scans["each"] > 0]


def _huffman(groups: int, _: int, words: Any, at: Any, coefficients: Any, status: Any) -> Touched:
    reads = [_words_of(words, at, groups, upload.GROUP_WORDS)]
    for set_, first, count in _records(words, at, groups, upload.GROUP_WORDS).tolist():
        reads += [_words_of(words, set_, 1, upload.SET_WORDS), _words_of(words, first, count, upload.SEGMENT_WORDS)]
    segments = _segments(words, at, groups)
    reads += [_data_of(words, segment) for segment in segments]
    writes = [
        _part(coefficients, upload.COEFFICIENTS * first, upload.COEFFICIENTS * (first + count))
        for first, count in segments[["block", "blocks"]].tolist()
    ]
    return Touched([*reads, *writes], [], [*writes, status.range], groups * upload.THREADS)


def _report(damaged: set[int], decoded: Any, status: Any) -> None:
    """Mark images as damaged."""
    for image in damaged & set(decoded["image"].tolist()):
        status.values[image] = 1


def _samples(record: Any) -> list[tuple[int, int, int]]:
    """The sides of the blocks of an image's components, and the first and the last byte of their planes."""
    height = -(-int(record["rows"] * record["down"] * record["planes"][0]["side"]) // 2) * 2
    heights = height, *[height // int(record["halved"][1])] * 2
    return [
        (int(plane["side"]), int(plane["begin"]), int(plane["begin"]) + int(plane["stride"]) * rows)
        for plane, rows in zip(record["planes"], heights, strict=True)
    ][: 3 if record["per"] > record["across"] * record["down"] else 1]


def _transformed(whole: bool, n: int, words: Any, at: Any, coefficients: Any, planes: Any) -> Touched:
    """Blocks become samples: those of full size, or the others."""
    reads, writes, threads = [_words_of(words, at, n, upload.IMAGE_WORDS)], [], 0
    for record in _records(words, at, n, upload.IMAGE_WORDS).view(upload.IMAGE)[:, 0]:
        first, count = int(record["first_block"]), int(record["whole" if whole else "reduced"])
        reads.append(_part(coefficients, upload.COEFFICIENTS * first, upload.COEFFICIENTS * (first + count)))
        own = [(low, high) for side, low, high in _samples(record) if (side == 8) == whole]
        assert bool(own) == (count > 0)
        writes += [
            _part(planes, low // planes.values.itemsize, -(-high // planes.values.itemsize)) for low, high in own
        ]
        threads = max(threads, count * upload.LANES)
    return Touched(reads, [], writes, threads)


def _inverse_dct(_: int, *arguments: Any) -> Touched:
    return _transformed(True, *arguments)


def _reduced_dct(_: int, *arguments: Any) -> Touched:
    return _transformed(False, *arguments)


def _colors(_: int, n: int, words: Any, at: Any, planes: Any, channels: Any, out: Any) -> Touched:
    """All pixels of the regions are 77 afterwards."""
    reads, writes = [_words_of(words, at, n, upload.IMAGE_WORDS)], []
    threads = 0
    for record in _records(words, at, n, upload.IMAGE_WORDS).view(upload.IMAGE)[:, 0]:
        reads += [_part(planes, low, high) for _, low, high in _samples(record)]
        x0, y0, x1, y1 = record["region"].tolist()
        low, high = record["out"].tolist()
        start = low & 0xFFFFFFFF | high << 32
        step_x, step_y = int(record["step_x"]), int(record["step_y"])
        x, y = np.arange(x0, x1), np.arange(y0, y1)[:, None]
        places = start + x * step_x + y * step_y
        # As shown, a row at a time.
        rows = places if abs(step_x) < abs(step_y) else places.T
        writes += [_part(out, int(row.min()), int(row.max()) + int(channels)) for row in rows]
        for channel in range(int(channels)):
            out.values[places + channel] = 77
        threads = max(threads, (-(-x1 // 2) - x0 // 2) * (-(-y1 // 2) - y0 // 2))  # one for two by two pixels
    return Touched(reads, [], writes, threads)


# -- frames of videos --------------------------------------------------------------------------------------------------


def _frame(
    _: int, __: int, luma: Any, chroma: Any, luma_row: Any, chroma_row: Any, x0: Any, y0: Any, width: Any, pixels: Any,
    *rest: Any,
) -> Touched:  # fmt: skip
    """All pixels of the region are 77 afterwards; of the frame, which samples are read is for tests/ptx."""
    channels, start, step_x, step_y, out = rest[-5:]
    x, y = np.arange(int(x0), int(x0) + int(width)), int(y0) + np.arange(int(pixels) // int(width))[:, None]
    places = int(start) + x * int(step_x) + y * int(step_y)
    lines = places if abs(int(step_x)) < abs(int(step_y)) else places.T
    for channel in range(int(channels)):
        out.values[places + channel] = 77
    writes = [_part(out, int(line.min()), int(line.max()) + int(channels)) for line in lines]
    return Touched([], [luma.range, chroma.range], writes, places.size)


# -- passes from one array to another ----------------------------------------------------------------------------------


def _pass(_: int, __: int, *arguments: Any) -> Touched:
    """A pass over all images of an array: what it reads there, and whether threads are enough, is for tests/ptx."""
    *given, out = (one for one in arguments if isinstance(one, Array))
    return Touched([], [one.range for one in given], [out.range], 0)


# -- marks -------------------------------------------------------------------------------------------------------------


def _marks(out: Any, places: Any) -> tuple[list[tuple[int, Any]], list[Range]]:
    """Return the images with a mark in some memory, its bytes, and its address."""
    found = [(i, at) for i, at in enumerate(places.values.tolist()) if at >= 0]
    return [(i, out.values[at : at + 16]) for i, at in found], [_part(out, at, at + 16) for _, at in found]


def _bytes_of(*mark: Any) -> Any:
    return np.frombuffer(b"".join(int(word).to_bytes(8, "little") for word in mark), np.uint8)


def _mark(_: int, __: int, out: Any, places: Any, first: Any, second: Any) -> Touched:
    marks, where = _marks(out, places)
    for _, content in marks:
        content[:] = _bytes_of(first, second)
    return Touched([places.range], [], where, places.size)


def _compare(_: int, __: int, out: Any, places: Any, first: Any, second: Any, status: Any) -> Touched:
    marks, where = _marks(out, places)
    for i, content in marks:
        status.values[i] |= np.array_equal(content, _bytes_of(first, second))
    return Touched([places.range], where, [status.range], places.size)


_MARKS = "mark", "compare"
_BY_NAME: dict[str, Callable[..., Touched]] = {
    "find": _find, "recoded": _recoded,
    "huffman": _huffman, "inverse_dct": _inverse_dct, "reduced_dct": _reduced_dct, "colors": _colors,
    "mark": _mark, "compare": _compare,
    "frame8": _frame, "frame16": _frame,
    "elastic": _pass, "code_blocks": _pass, "code_pixels": _pass, "exact_pass": _pass, "copy_words": _copy_words,
}  # fmt: skip
