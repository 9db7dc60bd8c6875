"""A seek index read, and a JPEG's stream followed, in plain Python: from docs/architecture.md and ITU-T T.81."""

import struct
import zlib
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from .jpegs import DHT, header_segments, scan_start

_MASK = (1 << 64) - 1
KINDS = ("", "indexed", "restart", "progressive", "other jpeg", "other format", "too large", "refused")
SAMPLINGS = ("", "gray", "4:4:4", "4:2:2", "4:2:0", "4:4:0")


class Sample(NamedTuple):
    """An index's record of one sample."""

    kind: str
    sampling: str
    content: bytes


class Point(NamedTuple):
    """Start of an MCU row: bit of the file, and the DC predictors."""

    bit: int
    predictors: tuple[int, ...]


def read_index(data: bytes) -> list[Sample]:
    """The samples of an index."""
    magic, order, version, finished, samples, size, largest, _, found = struct.unpack_from("<8sIIQQQQII", data)
    assert (magic, order, version, finished) == (b"\x89GPSI\r\n\x1a", 0x01020304, 2, 1)
    assert found == zlib.crc32(data[:52])
    assert size == len(data)
    words = struct.unpack_from(f"<{samples + 1}Q", data, 56)
    places = [word & (1 << 48) - 1 for word in words]
    assert places[0] == 56 + 8 * (samples + 1)
    assert places[-1] == size
    result = []
    for i, word in enumerate(words[:-1]):
        kind = word >> 48
        content = data[places[i] : places[i + 1]]
        result.append(Sample(KINDS[kind & 15], SAMPLINGS[kind >> 4], content))
    assert largest == max((len(one.content) for one in result if one.kind == "indexed"), default=0)
    return result


def checksum(data: bytes) -> int:
    """The 64-bit checksum of entries."""
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
    return ((x << 29 | x >> 35) & _MASK) * 0x9E3779B97F4A7C15 & _MASK


def checksum_of_entry(entry: bytes) -> int:
    """The 32-bit checksum that an entry has at byte 12."""
    file_sum, file_bytes = struct.unpack_from("<QI", entry)
    total = _mixed(_mixed(checksum(entry[16:]), file_sum), file_bytes)
    return (total ^ total >> 32) & 0xFFFFFFFF


def read_entry(entry: bytes, data: bytes) -> list[Point]:
    """The points of an entry; its checksums and sizes must be right."""
    rows, _ = grid_of(data)
    file_sum, file_bytes, entry_sum = struct.unpack_from("<QII", entry)
    assert (file_sum, file_bytes) == (checksum(data), len(data))
    assert entry_sum == checksum_of_entry(entry)
    assert len(entry) == 16 + 10 * rows
    bits = struct.unpack_from(f"<{rows}I", entry, 16)
    return [Point(*one) for one in zip(bits, struct.iter_unpack("<3h", entry[16 + 4 * rows :]), strict=True)]


def grid_of(data: bytes) -> tuple[int, int]:
    """MCU rows, and MCUs of a row."""
    frame = next(body for marker, body in header_segments(data) if marker in (0xC0, 0xC1))
    height, width = struct.unpack_from(">HH", frame, 1)
    across, down = divmod(frame[7], 16) if frame[5] == 3 else (1, 1)
    return -(-height // (8 * down)), -(-width // (8 * across))


def points_of(data: bytes) -> list[Point]:
    """Return the starts of the MCU rows of an intact baseline file without restart markers."""
    rows, columns = grid_of(data)
    walk = (point for point, _, number in blocks_of(data) if number == 0)
    return list(islice(walk, 0, rows * columns, columns))


def blocks_of(data: bytes) -> Iterator[tuple[Point, int, int]]:
    """The point in front of each block, its bit without stuffed bytes, and the block's number in its MCU."""
    segments = header_segments(data)
    codes = dict(one for marker, body in segments if marker == DHT for one in _tables(body))
    frame = next(body for marker, body in segments if marker in (0xC0, 0xC1))
    scan = segments[-1][1]
    parts = []
    for c in range(frame[5]):
        across, down = divmod(frame[7 + 3 * c], 16) if frame[5] == 3 else (1, 1)
        selector = scan[2 + 2 * c]
        parts += [(c, codes[0, selector >> 4], codes[1, selector & 15])] * (across * down)
    clean, raw = _cleaned(data, scan_start(data))
    bits = "".join(f"{byte:08b}" for byte in clean)
    at = 0
    predictors = [0, 0, 0]

    def symbol(table: dict[str, int]) -> int:
        nonlocal at
        end = at + 1
        while bits[at:end] not in table:
            end += 1
        found = table[bits[at:end]]
        at = end
        return found

    while True:
        for number, (c, dc, ac) in enumerate(parts):
            yield Point(8 * raw[at >> 3] + (at & 7), tuple(predictors)), at, number
            size = symbol(dc)
            value = int(bits[at : at + size] or "0", 2)
            at += size
            predictors[c] += value if not size or value >> size - 1 else value - (1 << size) + 1
            k = 1
            while k < 64:
                run, size = divmod(symbol(ac), 16)
                at += size
                k = k + run + 1 if size or run == 15 else 64


def _tables(body: bytes) -> Iterator[tuple[tuple[int, int], dict[str, int]]]:
    """Class and number of each table of a segment, and its symbols by their codes."""
    while body:
        symbols = iter(body[17:])
        table, code = {}, 0
        for length in range(1, 17):
            for _ in range(body[length]):
                table[f"{code:0{length}b}"] = next(symbols)
                code += 1
            code <<= 1
        yield divmod(body[0], 16), table
        body = body[17 + sum(body[1:17]) :]


def _cleaned(data: bytes, at: int) -> tuple[bytes, list[int]]:
    """The bytes of a scan without stuffing, and where in the file each is."""
    clean, places = bytearray(), []
    while at < len(data) and data[at : at + 2] != b"\xff\xd9":
        clean.append(data[at])
        places.append(at)
        at += 2 if data[at] == 0xFF else 1
    return bytes(clean), [*places, at]
