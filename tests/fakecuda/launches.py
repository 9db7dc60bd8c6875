"""Kernel launches that write down what they would read and write, as the records of their plan say.

Arguments are read from where a launch packed them, as the driver does.
"""

import ctypes
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from gpuimg._data.patches import PatchLayout
from gpuimg.kernels import layout, ops
from gpuimg.kernels.cuda import Image, Kernel
from gpuimg.kernels.jpeg import upload

from .order import Order, Range, Stream, span_of

Dim = tuple[int, int, int]
Content: TypeAlias = Callable[[int, int], Any]  # of these addresses
_WORD = 8  # bytes


class Array(NamedTuple):
    low: int
    size: int
    values: Any

    @property
    def range(self) -> Range:
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
        kernel, (blocks, images, _) = self.kernels[entry], grid
        name = kernel.name if kernel.name in _BY_NAME else kernel.name.partition("_")[0]
        arguments = self.unpacked(kernel, packed(extra))
        touched = _BY_NAME.get(name, _pass)(images, *arguments)
        kind = "marks" if name in ("mark", "compare") else "launch"
        self._order.enqueue(stream, kind, name=name, **touched._asdict())
        if name in _DECODED:
            for image in self._order.damaged & set(_DECODED[name](blocks, images, *arguments[:2]).tolist()):
                arguments[-1].values[image] = 1

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
    begin, address, size, length, end = (ctypes.c_size_t * 5).from_address(extra)
    assert (begin, size, end) == (1, 2, 0)
    return ctypes.string_at(address, ctypes.c_size_t.from_address(length).value)


class Touched(NamedTuple):
    """Memory that a launch touches, as :meth:`Order.enqueue` takes it."""

    reads: list[Range]
    perhaps: list[Range]
    writes: list[Range]
    seen: Sequence[Range] = ()


def _pass(_: int, *arguments: Any, written: int = 1) -> Touched:
    """A kernel that writes its last arrays: what it reads and where it writes is for tests/ptx."""
    arrays = [one.range for one in arguments if isinstance(one, Array)]
    return Touched([], arrays, arrays[-written:])


def _part(array: Any, first: int, stop: int) -> Range:
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
    return Touched(reads, perhaps, writes, seen)


def _in_patches(out: Any, first: int, shape: tuple[int, int, int], patches: PatchLayout) -> list[Range]:
    touched = np.zeros(out.size, np.bool_)
    patches.put(np.ones(shape, np.bool_), touched, first)
    ends = np.flatnonzero(np.diff(np.concatenate([[False], touched, [False]]))).reshape(-1, 2)
    return [_part(out, begin, end) for begin, end in ends.tolist()]


# -- JPEGs -------------------------------------------------------------------------------------------------------------


def _records(words: Any, at: Any, n: int, dtype: Any) -> Any:
    return words.values[int(at) : int(at) + n * dtype.itemsize // 4].view(dtype)


def _scans(n: int, words: Any, at: Any, *, recoded: bool) -> Any:
    """Images whose segments are looked for, or of recoded files."""
    records = _records(words, at, n, upload.SCAN)
    return records["image"][(records["each"] > 0) == recoded]


def _in_segments(blocks: int, _: int, words: Any, at: Any) -> Any:
    """Images of segments; those that are looked for are not there, and have none."""
    groups = _records(words, at, blocks, upload.GROUP).tolist()
    return np.concatenate([_records(words, first, count, upload.SEGMENT)["image"] for _, first, count in groups])


_DECODED: dict[str, Callable[..., Any]] = {
    "find": lambda scans, _, *upload: _scans(scans, *upload, recoded=False),
    "recoded": lambda _, scans, *upload: _scans(scans, *upload, recoded=True),
    "huffman": _in_segments,
}


def _colors(n: int, words: Any, at: Any, planes: Any, channels: Any, out: Any) -> Touched:
    """All pixels of the regions are 77 afterwards."""
    writes = []
    for record in _records(words, at, n, upload.IMAGE):
        x0, y0, x1, y1 = record["region"].tolist()
        low, high = record["out"].tolist()
        steps = int(record["step_x"]), int(record["step_y"])
        writes += _painted(out, low & 0xFFFFFFFF | high << 32, np.arange(x0, x1), np.arange(y0, y1), steps, channels)
    return Touched([], [words.range, planes.range], writes)


def _painted(out: Any, start: int, x: Any, y: Any, steps: tuple[int, int], channels: Any) -> list[Range]:
    """Make the pixels of a region 77; return their addresses, a row at a time as shown."""
    places = start + x * steps[0] + y[:, None] * steps[1]
    rows = places if abs(steps[0]) < abs(steps[1]) else places.T
    for channel in range(int(channels)):
        out.values[places + channel] = 77
    return [_part(out, int(row.min()), int(row.max()) + int(channels)) for row in rows]


def _frame(
    _: int, luma: Any, chroma: Any, luma_row: Any, chroma_row: Any, x0: Any, y0: Any, width: Any, pixels: Any,
    *rest: Any,
) -> Touched:  # fmt: skip
    """All pixels of the region of a video's frame are 77 afterwards; which samples are read is for tests/ptx."""
    channels, start, step_x, step_y, out = rest[-5:]
    x, y = np.arange(int(x0), int(x0) + int(width)), int(y0) + np.arange(int(pixels) // int(width))
    writes = _painted(out, int(start), x, y, (int(step_x), int(step_y)), channels)
    return Touched([], [luma.range, chroma.range], writes)


# -- marks -------------------------------------------------------------------------------------------------------------


def _marks(out: Any, places: Any) -> tuple[list[tuple[int, Any]], list[Range]]:
    """Return the images with a mark in some memory, its bytes, and its address."""
    found = [(i, at) for i, at in enumerate(places.values.tolist()) if at >= 0]
    return [(i, out.values[at : at + 16]) for i, at in found], [_part(out, at, at + 16) for _, at in found]


def _bytes_of(*mark: Any) -> Any:
    return np.frombuffer(b"".join(int(word).to_bytes(8, "little") for word in mark), np.uint8)


def _mark(_: int, out: Any, places: Any, first: Any, second: Any) -> Touched:
    marks, where = _marks(out, places)
    for _, content in marks:
        content[:] = _bytes_of(first, second)
    return Touched([places.range], [], where)


def _compare(_: int, out: Any, places: Any, first: Any, second: Any, status: Any) -> Touched:
    marks, where = _marks(out, places)
    for i, content in marks:
        status.values[i] |= np.array_equal(content, _bytes_of(first, second))
    return Touched([places.range], where, [status.range])


_BY_NAME: dict[str, Callable[..., Touched]] = {
    "transform": _sampled, "statistics": _sampled,
    "find": partial(_pass, written=2), "recoded": partial(_pass, written=3), "huffman": partial(_pass, written=2),
    "inverse_dct": _pass, "reduced_dct": _pass, "colors": _colors, "frame8": _frame, "frame16": _frame,
    "mark": _mark, "compare": _compare,
}  # fmt: skip


# -- CuPy's own kernels, which NumPy computes: their source says which function, and what the parameters are -----------

_DTYPES = {
    "bool": "?", "signed char": "i1", "unsigned char": "u1", "short": "i2", "unsigned short": "u2", "int": "i4",
    "unsigned int": "u4", "long long": "i8", "unsigned long long": "u8", "long": "i8", "unsigned long": "u8",
    "float16": "f2", "float": "f4", "double": "f8",
}  # fmt: skip
_PARAMETER = re.compile(r"(?:CArray<([\w ]+), (\d+)[^>]*>|([\w ]+?)) \w+$")


def run_cupys(source: str, name: str, parameters: int, content: Content) -> tuple[list[Range], list[Range], str]:
    """Compute a kernel; return the addresses it reads and writes, and whether it is a copy or arithmetic."""
    signature = re.search(rf"void {name}\(([^)]*)\)", source)
    function = re.fullmatch(r"cupy_(\w+?)(?:__\w+)?", name)
    if signature is None or function is None:
        raise NotImplementedError(f"CuPy's kernel {name}")
    texts = [one.strip() for one in re.split(r",(?![^<]*>)", signature[1])]
    out: Any = None
    inputs, reads, writes = list[Any](), list[Range](), list[Range]()
    for k, text in enumerate(texts):
        if text.startswith(("CIndexer", "const CIndexer")):
            continue
        found = _PARAMETER.fullmatch(text.removeprefix("const "))
        if found is None:
            raise NotImplementedError(f"parameter {text} of CuPy's kernel {name}")
        address = ctypes.c_uint64.from_address(parameters + 8 * k).value
        if found[1] is None:
            inputs.append(np.frombuffer(ctypes.string_at(address, 8), _DTYPES[found[3]], 1)[0])
            continue
        values, span = _described(address, np.dtype(_DTYPES[found[1]]), int(found[2]), content)
        if text.startswith("const "):
            inputs.append(values)
            reads.append(span)
        else:
            out = values
            writes.append(span)
    with np.errstate(all="ignore"):  # of memory that nothing was written to
        if function[1] in ("copy", "fill"):
            out[...] = inputs[0]
        else:
            getattr(np, function[1])(*inputs, out=out, casting="unsafe")
    return reads, writes, "copy" if function[1] == "copy" and reads else "arithmetic"


def _described(at: int, dtype: Any, ndim: int, content: Content) -> tuple[Any, Range]:
    """An array as CuPy describes it to a kernel: its address, size, shape and strides."""
    low, _, *rest = np.frombuffer(ctypes.string_at(at, 8 * (2 + 2 * ndim)), np.int64).tolist()
    shape, strides = rest[:ndim], rest[ndim:]
    first, last = span_of(low, shape, strides, dtype.itemsize)
    return np.ndarray(shape, dtype, content(first, last), low - first, strides), (first, last)
