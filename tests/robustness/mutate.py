"""Damaged JPEG files by number: a seed gives the same bytes on every run.

A mutation takes an intact file and does one to three things to it, each of one of :data:`KINDS`. They aim at what
decoders read: bytes anywhere, the order of the segments, the fields of each header (ITU-T T.81, annex B), and EXIF.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from .originals import is_baseline
from .originals import originals as intact_files

T = TypeVar("T")
#: What a kind does: file and another intact one -> damaged file, in words.
Kind = Callable[["Draw", bytes, bytes], tuple[bytes, str]]

SOI, EOI, SOS, DQT, DHT, DRI, APP1 = 0xD8, 0xD9, 0xDA, 0xDB, 0xC4, 0xDD, 0xE1
FRAMES = (0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF)
_ALONE = (0x01, *range(0xD0, 0xDA))  # markers without a length
_SIDES = (0, 1, 2, 7, 8, 9, 16, 17, 255, 256, 1000, 2048, 4095, 8192, 20000, 32768, 65500, 65535)
_LENGTHS = (0, 1, 2, 3, 255, 256, 32767, 65534, 65535)
_MASK = (1 << 64) - 1
_LEAST = 32  # bytes that are left for a further mutation


class Draw:
    """Whole numbers from a seed, by SplitMix64 (Steele, Lea and Flood 2014): no library's version changes them."""

    def __init__(self, seed: int) -> None:
        self._state = seed * 0xD1342543DE82EF95 & _MASK

    def word(self) -> int:
        """64 random bits."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        z = self._state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & _MASK
        return z ^ z >> 31

    def below(self, stop: int) -> int:
        """0 to ``stop`` - 1; 0 if that is empty."""
        return self.word() % max(stop, 1)

    def between(self, low: int, high: int) -> int:
        """``low`` to ``high``, both included."""
        return low + self.below(high - low + 1)

    def pick(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[self.below(len(items))]

    def text(self, size: int) -> bytes:
        """Random bytes."""
        return b"".join(self.word().to_bytes(8, "big") for _ in range(-(-size // 8)))[:size]


# -- the parts of a file ------------------------------------------------------------------------------------------


def segments(data: bytes) -> list[bytes]:
    """The file in pieces that join to it: a marker with its body, a scan's header with the scan's data."""
    pieces = []
    at = 0
    while at < len(data):
        marker = data[at + 1] if data[at] == 0xFF and at + 1 < len(data) else -1
        if marker < 0:
            end = len(data)  # not JPEG from here on
        elif marker == 0xFF:
            end = at + 1  # a fill byte
        elif marker in _ALONE:
            end = at + 2
        else:
            end = at + 2 + max(int.from_bytes(data[at + 2 : at + 4], "big"), 2)
        if marker == SOS:
            following = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]").search(data, end)
            end = following.start() if following else len(data)
        pieces.append(data[at:end])
        at = end
    return pieces


def places(data: bytes, markers: Sequence[int]) -> list[int]:
    """Return the positions of marker segments with one of these markers."""
    found, at = [], 0
    for piece in segments(data):
        if piece[0] == 0xFF and len(piece) > 1 and piece[1] in markers:
            found.append(at)
        at += len(piece)
    return found


def segment(marker: int, body: bytes) -> bytes:
    """A segment with its length."""
    return bytes((0xFF, marker)) + (len(body) + 2).to_bytes(2, "big") + body


def patched(data: bytes, at: int, new: bytes) -> bytes:
    """The same file with other bytes at one place; never longer."""
    return (data[:at] + new + data[at + len(new) :])[: len(data)]


def _byte(draw: Draw) -> bytes:
    return bytes((draw.pick((0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF, draw.below(256), draw.below(256))),))


# -- anywhere in the file -------------------------------------------------------------------------------------------


def bit_flips(draw: Draw, data: bytes, _: bytes) -> tuple[bytes, str]:
    count = draw.pick((1, 1, 2, 3, draw.between(1, 100)))
    first = draw.pick((0, 0, (places(data, (SOS,)) or [0])[-1]))  # anywhere, or in the last scan
    result = bytearray(data)
    for _i in range(count):
        result[draw.between(first, len(data) - 1)] ^= 1 << draw.below(8)
    return bytes(result), f"{count} from byte {first} on"


def scan_damage(draw: Draw, data: bytes, _: bytes) -> tuple[bytes, str]:
    """Bytes of the first scan, which stay clear of markers, so that nothing but codes and coefficients is wrong."""
    scan = (places(data, (SOS,)) or [0])[0]
    result = bytearray(data)
    count = draw.pick((1, 1, 2, 10, 100))
    for _i in range(count):
        at = draw.between(scan, len(data) - 2)
        if 0xFF not in result[at - 1 : at + 1]:
            result[at] = draw.below(255)
    return bytes(result), f"{count} bytes from {scan} on"


def overwrites(draw: Draw, data: bytes, _: bytes) -> tuple[bytes, str]:
    count = draw.pick((1, 2, 5, draw.between(1, 100)))
    result = bytearray(data)
    for _i in range(count):
        result[draw.below(len(data))] = _byte(draw)[0]
    return bytes(result), f"{count} bytes"


def runs(draw: Draw, data: bytes, _: bytes) -> tuple[bytes, str]:
    at, size = draw.below(len(data)), draw.between(2, 400)
    run = draw.pick((bytes(size), b"\xff" * size, draw.text(size), b"\xff\xd0" * (size // 2)))
    return patched(data, at, run), f"{size} bytes at {at}"


def insertions(draw: Draw, data: bytes, _: bytes) -> tuple[bytes, str]:
    at, size = draw.below(len(data) + 1), draw.pick((1, 1, 2, draw.between(1, 300)))
    return data[:at] + draw.pick((draw.text(size), bytes(size), b"\xff" * size)) + data[at:], f"{size} bytes at {at}"


def deletions(draw: Draw, data: bytes, _: bytes) -> tuple[bytes, str]:
    at, size = draw.below(len(data)), draw.pick((1, 1, 2, draw.between(1, 300)))
    return data[:at] + data[at + size :], f"{size} bytes at {at}"


def truncation(draw: Draw, data: bytes, _: bytes) -> tuple[bytes, str]:
    scan = (places(data, (SOS,)) or [0])[-1]
    starts = places(data, range(256))
    inside = draw.pick(starts or [0]) + draw.between(0, 5)  # in a marker, its length, or the first bytes of its body
    end = draw.pick((draw.below(len(data)), draw.between(scan, len(data)), inside, len(data) - draw.between(1, 2)))
    return data[: max(end, 0)], f"at {end} of {len(data)}"


def trailing_junk(draw: Draw, data: bytes, other: bytes) -> tuple[bytes, str]:
    size = draw.pick((1, 2, 100, 5000))
    junk = draw.pick(
        (draw.text(size), bytes(size), b"\xff" * size, b"\xff\xd9" * size, other, other[: len(other) // 2])
    )
    return data + junk, f"{len(junk)} bytes"


def leading_junk(draw: Draw, data: bytes, other: bytes) -> tuple[bytes, str]:
    size = draw.pick((1, 2, 3, 100))
    junk = draw.pick((draw.text(size), bytes(size), b"\xff" * size, b"\xff\xd8" * size, other))
    return junk + data, f"{len(junk)} bytes"


def nearly_nothing(draw: Draw, data: bytes, _: bytes) -> tuple[bytes, str]:
    size = draw.pick((0, 0, 1, 2, 3, 4, 11, 12, 20))
    return draw.pick((data, b"\xff" * 20, bytes(20), b"\xff\xd8\xff\xd9" * 5))[:size], f"{size} bytes"


# -- segments -------------------------------------------------------------------------------------------------------


def foreign_segment(draw: Draw, data: bytes, other: bytes) -> tuple[bytes, str]:
    pieces, new = segments(data), draw.pick(segments(other))
    at = draw.below(len(pieces) + 1)
    instead = draw.below(2)
    return b"".join([*pieces[:at], new, *pieces[at + instead :]]), f"{new[:2].hex()} at piece {at}"


def foreign_scans(draw: Draw, data: bytes, other: bytes) -> tuple[bytes, str]:
    mine, theirs = places(data, (SOS,)), places(other, (SOS,))
    if not mine or not theirs:
        return data + other, "the whole file behind, for want of scans"
    at, start = draw.pick((mine[0], mine[0], draw.pick(mine))), draw.pick((theirs[0], theirs[0], draw.pick(theirs)))
    return data[:at] + other[start:], f"from byte {at} on"


def duplicates(draw: Draw, data: bytes, _: bytes) -> tuple[bytes, str]:
    pieces = segments(data)
    at = draw.below(len(pieces))
    times = draw.pick((1, 1, 2, 30))
    return b"".join(pieces[:at] + pieces[at : at + 1] * (times + 1) + pieces[at + 1 :]), f"piece {at}, {times} more"


def removal(draw: Draw, data: bytes, _: bytes) -> tuple[bytes, str]:
    pieces = segments(data)
    at = draw.below(len(pieces))
    return b"".join(pieces[:at] + pieces[at + 1 :]), f"piece {at}, {pieces[at][:2].hex()}"


def reordering(draw: Draw, data: bytes, _: bytes) -> tuple[bytes, str]:
    pieces = segments(data)
    for _i in range(draw.between(1, 4)):
        pieces.insert(draw.below(len(pieces)), pieces.pop(draw.below(len(pieces))))
    return b"".join(pieces), f"{len(pieces)} pieces"


def many_scans(draw: Draw, data: bytes, _: bytes) -> tuple[bytes, str]:
    """Many scans of one image: each is a pass over all its blocks."""
    scans = [piece for piece in segments(data) if piece[:2] == b"\xff\xda"]
    if not scans:
        return data, "none"
    count = draw.pick((5, 20, 100))
    more = b"".join(draw.pick(scans) for _i in range(count))
    at = (places(data, (EOI,)) or [len(data)])[-1]
    return data[:at] + more + data[at:], f"{count} more"


def segment_length(draw: Draw, data: bytes, _: bytes) -> tuple[bytes, str]:
    at = draw.pick(places(data, [m for m in range(256) if m not in _ALONE]) or [0])
    size = int.from_bytes(data[at + 2 : at + 4], "big")
    size = draw.pick((*_LENGTHS, max(size - 1, 0), size + 1, size + 2, size // 2, draw.below(65536))) & 0xFFFF
    return patched(data, at + 2, size.to_bytes(2, "big")), f"{size} at byte {at}"


def wrong_marker(draw: Draw, data: bytes, _: bytes) -> tuple[bytes, str]:
    at = draw.pick(places(data, range(256)) or [0])
    marker = draw.pick((SOI, EOI, SOS, DQT, DHT, DRI, 0x00, 0x01, 0xCC, 0xDC, 0xDE, 0xDF, 0xFF, draw.below(256)))
    return patched(data, at, bytes((0xFF, marker))), f"{marker:02x} at byte {at}"


def marker_in_scan(draw: Draw, data: bytes, _: bytes) -> tuple[bytes, str]:
    start = (places(data, (SOS,)) or [0])[-1]
    marker = draw.pick((*range(0xD0, 0xD8), SOI, EOI, 0xDC, DRI, DHT, 0xFF, 0x02, 0xC0, draw.below(256)))
    at = draw.between(min(start + 14, len(data)), len(data))
    length = draw.pick((b"", b"", b"\0\4\0\1", b"\xff\xff"))
    return data[:at] + bytes((0xFF, marker)) + length + data[at:], f"{marker:02x} at byte {at}"


# -- fields of headers ----------------------------------------------------------------------------------------------


def frame_size(draw: Draw, data: bytes, _: bytes) -> tuple[bytes, str]:
    at = draw.pick(places(data, FRAMES) or [0])
    height, width = (int.from_bytes(data[at + k : at + k + 2], "big") for k in (5, 7))
    sides = [draw.pick((*_SIDES, old - 1, old + 1, old + 8, 2 * old, draw.below(65536))) for old in (height, width)]
    only = draw.below(3)  # both sides or one
    height, width = (height if only == 1 else sides[0]) & 0xFFFF, (width if only == 2 else sides[1]) & 0xFFFF
    return patched(data, at + 5, height.to_bytes(2, "big") + width.to_bytes(2, "big")), f"{height} x {width}"


def frame_components(draw: Draw, data: bytes, _: bytes) -> tuple[bytes, str]:
    at = draw.pick(places(data, FRAMES) or [0])
    count = draw.pick((0, 1, 2, 3, 4, 5, 255))
    if draw.below(2) and count < 5:  # with a body to match
        size = int.from_bytes(data[at + 2 : at + 4], "big")
        body = data[at + 4 : at + 9] + bytes((count,)) + b"".join(bytes((k + 1, 0x11, 0)) for k in range(count))
        return data[:at] + segment(data[at + 1], body) + data[at + 2 + size :], f"{count}, rewritten"
    return patched(data, at + 9, bytes((count,))), f"{count}"


def frame_sampling(draw: Draw, data: bytes, _: bytes) -> tuple[bytes, str]:
    at = draw.pick(places(data, FRAMES) or [0])
    factors = bytearray()
    for k in range(draw.between(1, 4)):
        low, high = draw.pick(((1, 4), (0, 15)))
        factors.append(draw.between(low, high) << 4 | draw.between(low, high))
        data = patched(data, at + 11 + 3 * k, bytes(factors[-1:]))
    return data, factors.hex()


def frame_precision(draw: Draw, data: bytes, _: bytes) -> tuple[bytes, str]:
    at = draw.pick(places(data, FRAMES) or [0])
    bits = draw.pick((0, 1, 7, 9, 12, 12, 16, 255))
    return patched(data, at + 4, bytes((bits,))), f"{bits} bits"


def frame_type(draw: Draw, data: bytes, _: bytes) -> tuple[bytes, str]:
    at = draw.pick(places(data, FRAMES) or [0])
    marker = draw.pick(FRAMES)
    return patched(data, at, bytes((0xFF, marker))), f"{marker:02x}"


def hidden_frame(draw: Draw, data: bytes, other: bytes) -> tuple[bytes, str]:
    """A file of two sizes.

    A marker without a length comes first. Who skips what would be its length meets only the second frame header, which
    lies in a comment; who does not (libjpeg) decodes by the first.
    """
    pieces = segments(data)
    scans = [k for k, piece in enumerate(pieces) if piece[:2] == b"\xff\xda"]
    frames = [piece for piece in pieces if len(piece) > 9 and piece[0] == 0xFF and piece[1] in FRAMES]
    if not scans or not frames:
        return data, "none"
    height, width = draw.pick((1, 8, 24, 100, 1000)), draw.pick((1, 8, 24, 100, 1000))
    kind = draw.pick((frames[0][1], frames[0][1], 0xC3, draw.pick(FRAMES)))
    frame = bytes((0xFF, kind)) + frames[0][2:5] + height.to_bytes(2, "big") + width.to_bytes(2, "big") + frames[0][9:]
    scan = pieces[scans[0]]
    comment = segment(0xFE, frame + scan[: 2 + int.from_bytes(scan[2:4], "big")])
    skipped = b"".join(pieces[1 : scans[0]]) + comment[:4]
    marker = bytes((0xFF, draw.pick((0x01, 0xD0, 0xD7)))) + (len(skipped) + 2 & 0xFFFF).to_bytes(2, "big")
    result = data[:2] + marker + skipped + comment[4:] + b"".join(pieces[scans[0] :])
    return result, f"{kind:02x}, {height} x {width}, behind {marker[:2].hex()}"


def component_ids(draw: Draw, data: bytes, _: bytes) -> tuple[bytes, str]:
    at = draw.pick(places(data, (*FRAMES, SOS)) or [0])
    first = at + (10 if data[at + 1 : at + 2] != b"\xda" else 5)
    step = 3 if data[at + 1 : at + 2] != b"\xda" else 2
    k, value = draw.below(3), draw.pick((0, 1, 2, 3, 4, 82, 255))
    return patched(data, first + step * k, bytes((value,))), f"component {k} is {value}"


def table_ids(draw: Draw, data: bytes, _: bytes) -> tuple[bytes, str]:
    frame, scan = draw.pick(places(data, FRAMES) or [0]), draw.pick(places(data, (SOS,)) or [0])
    table = draw.pick(places(data, (DQT, DHT)) or [0])
    at = draw.pick((frame + 12 + 3 * draw.below(3), scan + 6 + 2 * draw.below(3), table + 4))
    value = draw.pick((1, 2, 3, 4, 5, 15, 16, 17, 0x22, 0x33, 0x44, 0xFF))
    return patched(data, at, bytes((value,))), f"{value} at byte {at}"


def huffman_table(draw: Draw, data: bytes, _: bytes) -> tuple[bytes, str]:
    at = draw.pick(places(data, (DHT,)) or [0])
    length = draw.below(16)
    what = draw.below(4)
    if what == 0:
        return patched(data, at + 5, b"\xff" * 16), "255 codes of every length"
    if what == 1:
        return patched(data, at + 5, bytes(16)), "no codes"
    if what == 2:
        return patched(data, at + 5 + length, _byte(draw)), f"another count of length {length + 1}"
    return patched(data, at + 21, draw.text(draw.between(1, 40))), "other symbols"


def quantisation_table(draw: Draw, data: bytes, _: bytes) -> tuple[bytes, str]:
    at = draw.pick(places(data, (DQT,)) or [0])
    value = draw.pick((b"\0", b"\xff", draw.text(1)))
    return patched(data, at + 5, value * 64), f"all {value.hex()}"


def scan_header(draw: Draw, data: bytes, _: bytes) -> tuple[bytes, str]:
    at = draw.pick(places(data, (SOS,)) or [0])
    count = data[at + 4] if at + 4 < len(data) else 0
    field = draw.pick((4, 5, 6, 5 + 2 * count, 6 + 2 * count, 7 + 2 * count))  # count, id, tables, Ss, Se, AhAl
    value = draw.pick((0, 1, 2, 3, 4, 5, 63, 64, 0x10, 0x21, 0xD0, 0xFF))
    return patched(data, at + field, bytes((value,))), f"byte {field} of that at {at} is {value}"


def restart_interval(draw: Draw, data: bytes, _: bytes) -> tuple[bytes, str]:
    interval = draw.pick((0, 1, 2, 3, 7, 1000, 65535))
    new = segment(DRI, interval.to_bytes(2, "big"))
    at = draw.pick(places(data, (SOS,)) or [len(data)])
    old = places(data, (DRI,))
    if old and draw.below(2):
        return patched(data, old[0], new), f"{interval} instead"
    return data[:at] + new + data[at:], f"{interval} at byte {at}"


# -- EXIF -----------------------------------------------------------------------------------------------------------


def tiff(order: str, entries: Sequence[tuple[int, int, int, bytes]], *, count: int | None = None, at: int = 8) -> bytes:
    """A TIFF header ("II" or "MM") and a directory of (tag, type, count, value of 4 bytes) that points at itself."""
    way = "<" if order == "II" else ">"
    head = order.encode() + struct.pack(way + "HIH", 42, at, len(entries) if count is None else count)
    body = b"".join(struct.pack(way + "HHI", tag, kind, amount) + value for tag, kind, amount, value in entries)
    return head + body + struct.pack(way + "I", 8)


def _exif(draw: Draw) -> tuple[bytes, str]:
    order, value = draw.pick(("II", "MM")), draw.pick((0, 1, 2, 3, 5, 6, 7, 8, 9, 255, 0xFFFF))
    short = value.to_bytes(2, "little" if order == "II" else "big") + bytes(2)
    good = (0x0112, 3, 1, short)
    block = tiff(order, [good])
    other = b"MM" if order == "II" else b"II"
    choices = {
        f"orientation {value}": block,
        "wrong byte order": other + block[2:],
        "unknown byte order": draw.text(2) + block[2:],
        "no magic number": block[:2] + draw.text(2) + block[4:],
        "directory out of range": tiff(order, [good], at=draw.pick((9, 100, 65535, 0x7FFFFFFF, 0xFFFFFFFF))),
        "directory in the header": tiff(order, [good], at=draw.below(8)),
        "65535 entries": tiff(order, [good], count=65535),
        "no entries": tiff(order, [good], count=0),
        "another type": tiff(order, [(0x0112, draw.pick((0, 1, 2, 4, 5, 9, 13, 255)), 1, short)]),
        "another count": tiff(order, [(0x0112, 3, draw.pick((0, 2, 3, 0xFFFFFFFF)), short)]),
        "twice": tiff(order, [good, (0x0112, 3, 1, short[::-1])]),
        "a later entry": tiff(order, [(0x010F, 2, 0xFFFFFFFF, b"\xff" * 4), (0x8769, 4, 1, bytes(4)), good]),
        "upper half set": tiff(order, [(0x0112, 3, 1, short[:2] + b"\xff\xff")]),
        "cut off": block[: draw.below(len(block))],
        "junk": draw.text(draw.below(200)),
    }
    name = draw.pick(tuple(choices))
    return choices[name], f"{order} {name}"


def orientation(draw: Draw, data: bytes, _: bytes) -> tuple[bytes, str]:
    block, words = _exif(draw)
    prefix = draw.pick((*(b"Exif\0\0",) * 8, b"Exif\0\xff", b"Exif", b"exif\0\0"))
    new = segment(APP1, prefix + block)
    if draw.below(6) == 0:
        new = b"\xff" * draw.between(1, 3) + new  # fill bytes
    if draw.below(6) == 0:
        again, more = _exif(draw)
        new, words = new + segment(APP1, b"Exif\0\0" + again), f"{words}, then {more}"
    if draw.below(8) == 0:
        new = patched(new, 2, draw.pick(_LENGTHS).to_bytes(2, "big"))
    first = places(data, range(256))[1:2] or [len(data)]
    last = places(data, (SOS,))[:1] or first  # behind the frame header
    at = draw.pick((*first, *first, *last))
    return data[:at] + new + data[at:], words


KINDS: dict[str, Kind] = {
    function.__name__.replace("_", " "): function
    for function in (
        bit_flips, scan_damage, overwrites, runs, insertions, deletions, truncation, trailing_junk, leading_junk,
        nearly_nothing, foreign_segment, foreign_scans, duplicates, removal, reordering, many_scans, segment_length,
        wrong_marker, marker_in_scan, frame_size, frame_components, frame_sampling, frame_precision, frame_type,
        hidden_frame, component_ids, table_ids, huffman_table, quantisation_table, scan_header, restart_interval,
        orientation,
    )
}  # fmt: skip

# One thing is done to most files; bit flips and truncation, the damage of real life, come more often.
_CHOICES = (
    *KINDS, *("bit flips",) * 3, *("scan damage",) * 8, *("truncation",) * 3, "overwrites", "orientation", "frame size",
    "quantisation table", "huffman table",
)  # fmt: skip


def mutation(seed: int, originals: Mapping[str, bytes] | None = None) -> tuple[bytes, str]:
    """Damaged file number ``seed``, and what was done to which original: "name; kind: how; kind: how"."""
    files = intact_files() if originals is None else originals
    draw = Draw(seed)
    names = tuple(files)
    name = draw.pick([name for name in names if is_baseline(name)])
    data, words = files[name], [name]
    for _ in range(draw.pick((1, 1, 1, 1, 2, 3))):
        if len(data) < _LEAST:
            break
        kind = draw.pick(_CHOICES)
        data, how = KINDS[kind](draw, data, files[draw.pick(names)])
        words.append(f"{kind}: {how}")
    return data, "; ".join(words)


def kinds_of(description: str) -> tuple[str, ...]:
    """Names of the kinds in a description."""
    return tuple(part.split(":")[0] for part in description.split("; ")[1:])
