"""A reader of recoded JPEGs in plain Python, as kernels/jpeg/RECODED.md describes them, and changes of such files."""

import io
import struct
import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gpuimg.kernels.jpeg.books import lengths
from gpuimg.kernels.jpeg.usual import USUAL_TABLES

from .jpegs import header_segments

HEAD = struct.Struct("<8sIIIIBBBB")
LAST = struct.Struct("<IQBH")  # at the start of the last part
_WORD = (1 << 64) - 1
Shapes: TypeAlias = list[tuple[int, int]]
Codes: TypeAlias = list[dict[str, int]]


def checksum(data: bytes) -> int:
    sums = [1, 2, 3, 4]
    at = 0
    while at + 32 <= len(data):
        for k, word in enumerate(struct.unpack_from(">4Q", data, at)):
            sums[k] = _mixed(sums[k], word)
        at += 32
    total = sums[0]
    for one in sums[1:]:
        total = _mixed(total, one)
    for byte in data[at:]:
        total = _mixed(total, byte)
    total = _mixed(total, len(data))
    return total ^ total >> 32


def _mixed(total: int, word: int) -> int:
    x = total ^ word
    return ((x << 29 | x >> 35) & _WORD) * 0x9E3779B97F4A7C15 & _WORD


class Recoded(NamedTuple):
    """The parts of a file: its head, the JPEG's header, the segments, and the rest."""

    head: tuple[Any, ...]
    header: bytes
    segments: list[bytes]
    rest: bytes

    def joined(self) -> bytes:
        """The file, with right checksums."""
        magic, _, _, _, _, *rest = self.head
        segments = [sum32(one[4:]) + one[4:] for one in self.segments]
        stops = np.cumsum([len(one) for one in segments]).astype("<u4").tobytes()
        head = HEAD.pack(magic, 0, len(self.header), len(segments), len(self.rest), *rest)
        head += self.header + stops
        return head[:8] + sum32(head[12:]) + head[12:] + b"".join(segments) + self.rest

    def last(self) -> bytes:
        return zlib.decompressobj(zdict=USUAL_TABLES).decompress(self.rest)

    def with_last(self, last: bytes) -> "Recoded":
        packer = zlib.compressobj(9, zdict=USUAL_TABLES)
        return self._replace(rest=packer.compress(last) + packer.flush())


def resummed(data: bytes) -> bytes:
    size, count = struct.unpack_from("<2I", data, 12)
    return data[:8] + sum32(data[12 : HEAD.size + size + 4 * count]) + data[12:]


def sum32(data: bytes) -> bytes:
    return (checksum(data) & 0xFFFFFFFF).to_bytes(4, "little")


def parts_of(data: bytes) -> Recoded:
    head = HEAD.unpack_from(data)
    magic, found, size, count, *_ = head
    assert (magic, head[8] >> 1) == (b"GPUIMGJ\x01", 0)
    begin = HEAD.size + size + 4 * count
    assert found.to_bytes(4, "little") == sum32(data[12:begin])
    stops = [0, *struct.unpack(f"<{count}I", data[begin - 4 * count : begin])]
    segments = [data[begin + first : begin + stop] for first, stop in pairwise(stops)]
    assert all(0 <= first <= stop <= len(data) - begin for first, stop in pairwise(stops))
    assert all(one[:4] == sum32(one[4:]) for one in segments)
    return Recoded(head, data[HEAD.size : HEAD.size + size], segments, data[begin + stops[-1] :])


def shapes_of(parts: Recoded) -> list[Shapes]:
    """Of each segment, the rows and columns of blocks of each component."""
    frame = next(body for marker, body in header_segments(parts.header) if marker in (0xC0, 0xC1))
    height, width, count = struct.unpack_from(">HHB", frame, 1)
    blocks = [divmod(frame[7 + 3 * c], 16) for c in range(count)] if count > 1 else [(1, 1)]
    rows, columns = -(-height // (8 * blocks[0][1])), -(-width // (8 * blocks[0][0]))
    each = min(parts.head[5], rows)
    assert each
    assert each == 1 or each * columns * sum(across * down for across, down in blocks) <= 1536
    heights = [min(each, rows - row) for row in range(0, rows, each)]
    return [[(here * down, columns * across) for across, down in blocks] for here in heights]


def codes_of(parts: Recoded) -> Codes:
    """The tables of a file's 18 runs: symbols by their canonical codes."""
    _, luma, chroma, _ = parts.head[5:]
    return [_codes(one) for one in (*lengths()[luma, 0], *lengths()[chroma, 1])]


def coefficients(data: bytes) -> list[NDArray[np.int16]]:
    """The coefficients of each component, (block rows, block columns, 64), not dequantized."""
    parts = parts_of(data)
    shapes, codes = shapes_of(parts), codes_of(parts)
    assert len(shapes) == len(parts.segments)
    found = [_segment(*one, codes) for one in zip(parts.segments, shapes, strict=True)]
    return [np.concatenate(one) for one in zip(*found, strict=True)]


def is_taken(data: bytes) -> bool:
    """Whether a decoder of the whole image takes a file whose JPEG header is in order."""
    try:
        coefficients(data)
    except (AssertionError, IndexError, StopIteration, struct.error):
        return False
    return True


def _codes(sizes: Any) -> dict[str, int]:
    found, code = {}, 0
    for size in range(1, 11):
        for symbol in np.flatnonzero(sizes == size).tolist():
            found[f"{code:0{size}b}"] = symbol
            code += 1
        code <<= 1
    return found


def _segment(data: bytes, shapes: Shapes, codes: Codes) -> list[NDArray[np.int16]]:
    form = struct.Struct("<4I" if len(data) >= 1 << 16 else "<4H")
    sizes, at, streams = form.unpack_from(data, 4), 4 + form.size, []
    for size in sizes:
        assert at + size <= len(data)
        streams.append(iter("".join(f"{byte:08b}" for byte in data[at : at + size])))
        at += size
    planes = io.BytesIO(data[at:])

    def symbols(codes: dict[str, int], n: int) -> list[int]:
        """The next symbols of a table, from the four streams in turn."""
        found = []
        for k in range(n):
            code = next(streams[k % 4])
            while code not in codes:
                code += next(streams[k % 4])
            found.append(codes[code])
        return found

    def take(n: int) -> list[int]:
        """The next list of bits, lowest first, which begins at a byte."""
        part = planes.read((n + 7) // 8)
        return [part[k >> 3] >> (k & 7) & 1 for k in range(n)]

    found, values = read(symbols, take, shapes, codes)
    assert not planes.read()
    assert max(len(list(rest)) for rest in streams) < 8
    assert max(map(abs, values), default=0) < 1024
    return found


def read(symbols: Any, take: Any, shapes: Shapes, codes: Codes) -> tuple[list[NDArray[np.int16]], list[int]]:
    """The coefficients of a segment, and its values, of the next symbols of a table and the next bits."""
    counts = [height * width for height, width in shapes]
    masks, dc_sizes, differences = list[int](), list[int](), list[int]()
    for first, n in ((0, counts[0]), (9, sum(counts[1:]))):
        heads = symbols(codes[first], n)
        found = [0] * n
        for r in range(8):
            those = [b for b, head in enumerate(heads) if head >> 4 > r]
            for b, symbol in zip(those, symbols(codes[first + 1 + r], len(those)), strict=True):
                found[b] |= symbol << 8 * r
        masks += found
        dc_sizes += [head & 15 for head in heads]
    bits = iter(take(sum(dc_sizes)))
    for size in dc_sizes:
        value = sum(next(bits) << k for k in range(size))
        differences.append(value if not size or value >> size - 1 else value - (1 << size) + 1)
    n = sum(mask.bit_count() for mask in masks)
    signs = take(n)
    values = [-v if sign else v for v, sign in zip(_magnitudes(take, n), signs, strict=True)]
    left, out, b = iter(values), list[NDArray[np.int16]](), 0
    for height, width in shapes:
        part = np.zeros((height, width, 64), np.int16)
        for y, x in np.ndindex(height, width):
            before = int(part[y, x - 1, 0] if x else part[y - 1, 0, 0] if y else 0)
            part[y, x, 0] = wrapped(before + differences[b])
            for k in range(64):
                if masks[b] >> k & 1:
                    part[y, x, k] = wrapped(next(left))
            b += 1
        out.append(part)
    return out, values


def wrapped(value: int) -> int:
    return (value + (1 << 15)) % (1 << 16) - (1 << 15)


def drawn(random: Any, ones: float, shapes: Shapes, codes: Codes) -> tuple[list[bytes], bytes, int]:
    """Streams and planes of random symbols and bits, as a reader takes them; and the largest magnitude, of any size."""
    streams, planes = [list[str]() for _ in range(4)], list[Any]()

    def symbols(codes: dict[str, int], n: int) -> list[int]:
        chosen = random.choices(list(codes), [0.5 ** len(code) for code in codes], k=n)
        for k, code in enumerate(chosen):
            streams[k % 4].append(code)
        return [codes[code] for code in chosen]

    def take(n: int) -> list[int]:
        planes.append([random.random() < ones for _ in range(n)])
        return list(map(int, planes[-1]))

    _, values = read(symbols, take, shapes, codes)
    packed = [np.packbits(np.array(one, bool), bitorder="little").tobytes() for one in planes]
    coded = [np.packbits(np.array(list("".join(one))) == "1").tobytes() for one in streams]
    return coded, b"".join(packed), max(map(abs, values), default=0)


def put_together(streams: list[bytes], planes: bytes, sizes: Sequence[int] = ()) -> bytes:
    """A segment, whose checksum is left out."""
    data = b"".join(streams) + planes
    return struct.pack("<I4I" if len(data) + 12 >= 1 << 16 else "<I4H", 0, *(sizes or map(len, streams))) + data


def _magnitudes(take: Any, n: int) -> list[int]:
    found = [1] * n
    those = list(range(n))
    for bit in range(3):
        larger = take(len(those))
        those = [k for k, one in zip(those, larger, strict=True) if one]
        for k, one in zip(those, take(len(those)), strict=True):
            found[k] = (found[k] if bit else 0) & (1 << bit) - 1 | one << bit | 2 << bit
    if those:
        for k, upper in zip(those, _magnitudes(take, len(those)), strict=True):
            found[k] = found[k] & 7 | upper << 3
    return found
