"""Damaged bytes by number: a seed gives the same bytes on every run.

:func:`changed` damages the bytes of any format. :func:`mutation` makes a damaged JPEG: it does one to three things to
an intact file, each of one of :data:`KINDS`, aimed at what decoders read: the order of the segments, the fields of each
header (ITU-T T.81, annex B), and scans.
"""

import random
import re
from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from ..decoding.jpegs import segment
from .originals import is_baseline, originals

T = TypeVar("T")

SOI, EOI, SOS, DQT, DHT, DRI, APP1 = 0xD8, 0xD9, 0xDA, 0xDB, 0xC4, 0xDD, 0xE1
FRAMES = (0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF)
_ALONE = (0x01, *range(0xD0, 0xDA))  # markers without a length
_SIDES = (0, 1, 2, 7, 8, 9, 16, 17, 255, 256, 1000, 2048, 4095, 8192, 20000, 32768, 65500, 65535)
_LENGTHS = (0, 1, 2, 3, 255, 256, 32767, 65534, 65535)
#: Numbers at which the arithmetic of readers has its limits.
NUMBERS = (
    (1 << 64) - 1, 0, 1, 2, 3, 7, 8, 9, 16, 31, 32, 127, 128, 255, 256, 257, 4096, (1 << 15) - 1, 1 << 15,
    (1 << 16) - 1, 1 << 20, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 40, 1 << 47, (1 << 48) - 1,
    (1 << 63) - 1, 1 << 63,
)  # fmt: skip
_LEAST = 32  # bytes that are left for a further change


class Draw:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def word(self) -> int:
        return self._random.getrandbits(64)

    def below(self, stop: int) -> int:
        """0 to ``stop`` - 1; 0 if that is empty."""
        return self.word() % max(stop, 1)

    def between(self, low: int, high: int) -> int:
        """``low`` to ``high``, both included."""
        return low + self.below(high - low + 1)

    def pick(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def region(self, height: int, width: int) -> tuple[int, int, int, int]:
        x0, y0 = self.below(width), self.below(height)
        return x0, y0, self.between(x0 + 1, width), self.between(y0 + 1, height)

    def text(self, size: int) -> bytes:
        return self._random.randbytes(size)


#: What a kind does: file and another intact one -> damaged file.
Kind: TypeAlias = Callable[[Draw, bytes, bytes], bytes]


# -- any bytes -----------------------------------------------------------------------------------------------------


def place(draw: Draw, data: bytes) -> int:
    """Anywhere, but more often near the start or the end, where most formats have their headers and tables."""
    n = len(data)
    return draw.pick((draw.below(n), draw.below(n), draw.below(min(n, 200)), draw.below(min(n, 600)),
                      max(n - 1 - draw.below(3000), 0)))  # fmt: skip


def patched(data: bytes, at: int, new: bytes) -> bytes:
    """The same file with other bytes at one place; never longer."""
    return (data[:at] + new + data[at + len(new) :])[: len(data)]


def bit_flips(draw: Draw, data: bytes, _: bytes) -> bytes:
    result = bytearray(data)
    for _i in range(draw.pick((1, 1, 2, 3, draw.between(1, 100)))):
        result[place(draw, data)] ^= 1 << draw.below(8)
    return bytes(result)


def numbers(draw: Draw, data: bytes, _: bytes) -> bytes:
    size = draw.pick((1, 2, 4, 8))
    value = draw.pick((*NUMBERS, len(data), draw.word() >> draw.below(64))) & ((1 << 8 * size) - 1)
    return patched(data, place(draw, data), value.to_bytes(size, "big" if draw.below(2) else "little"))


def splices(draw: Draw, data: bytes, other: bytes) -> bytes:
    """Bytes put in place of others, or between them, or taken away: random, equal, or from this file or the other."""
    for _i in range(draw.pick((1, 1, 2, 5, draw.between(1, 20)))):
        at, size, source = place(draw, data), draw.pick((1, 1, 2, draw.between(1, 400))), draw.pick((data, other))
        start, byte = draw.below(len(source)), draw.pick((b"\0", b"\x7f", b"\x80", b"\xff"))
        new = draw.pick((draw.text(size), byte * size, b"\xff\xd0" * size, source[start : start + size]))
        data = draw.pick((patched(data, at, new), data[:at] + new + data[at:], data[:at] + data[at + size :] or data))
    return data


def truncation(draw: Draw, data: bytes, _: bytes) -> bytes:
    return data[: draw.pick((draw.below(len(data)), place(draw, data), max(len(data) - draw.between(1, 3), 0)))]


ANYWHERE: tuple[Kind, ...] = (*(bit_flips,) * 2, *(numbers,) * 3, *(splices,) * 6, truncation)


def changed(draw: Draw, data: bytes, other: bytes = b"", kinds: Sequence[Kind] = ANYWHERE) -> tuple[bytes, str]:
    words = []
    for _ in range(draw.pick((1, 1, 1, 1, 2, 3))):
        if len(data) >= _LEAST:
            kind = draw.pick(kinds)
            data = kind(draw, data, other or data)
            words.append(kind.__name__.replace("_", " "))
    return data, "; ".join(words)


# -- the parts of a JPEG -------------------------------------------------------------------------------------------


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
    """Return the positions of marker segments with one of these markers; [0] if there is none."""
    found, at = [], 0
    for piece in segments(data):
        if piece[0] == 0xFF and len(piece) > 1 and piece[1] in markers:
            found.append(at)
        at += len(piece)
    return found or [0]


def scan_damage(draw: Draw, data: bytes, _: bytes) -> bytes:
    """Bytes of a scan, which stay clear of markers, so that nothing but codes and coefficients is wrong."""
    scan = draw.pick(places(data, (SOS,)))
    result = bytearray(data)
    for _i in range(draw.pick((1, 1, 2, 10, 100))):
        at = draw.between(scan, len(data) - 2)
        if 0xFF not in result[at - 1 : at + 1]:
            result[at] = draw.below(255)
    return bytes(result)


def other_segments(draw: Draw, data: bytes, other: bytes) -> bytes:
    """Segments that are removed, repeated, moved, or of another file."""
    pieces, new = segments(data), draw.pick(segments(other))
    for _ in range(draw.between(1, 3)):
        at, piece = draw.below(len(pieces)), draw.pick(pieces)
        pieces[at : at + draw.below(2)] = draw.pick(([], [piece], [pieces[at]] * draw.pick((2, 3, 31)), [new], [new]))
        pieces = pieces or [new]
    return b"".join(pieces)


def junk_around(draw: Draw, data: bytes, other: bytes) -> bytes:
    size = draw.pick((1, 2, 3, 100, 5000))
    junk = draw.pick((draw.text(size), bytes(size), b"\xff" * size, b"\xff\xd8" * size, b"\xff\xd9" * size, other))
    return draw.pick((data + junk, junk + data, junk[:20]))


def segment_length(draw: Draw, data: bytes, _: bytes) -> bytes:
    at = draw.pick(places(data, [m for m in range(256) if m not in _ALONE]))
    size = int.from_bytes(data[at + 2 : at + 4], "big")
    size = draw.pick((*_LENGTHS, max(size - 1, 0), size + 1, size + 2, size // 2, draw.below(65536))) & 0xFFFF
    return patched(data, at + 2, size.to_bytes(2, "big"))


def marker_in_scan(draw: Draw, data: bytes, _: bytes) -> bytes:
    at = draw.between(min(places(data, (SOS,))[-1] + 14, len(data)), len(data))
    marker = draw.pick((*range(0xD0, 0xD8), SOI, EOI, 0xDC, DRI, DHT, 0xFF, 0x02, 0xC0, draw.below(256)))
    return data[:at] + bytes((0xFF, marker)) + draw.pick((b"", b"", b"\0\4\0\1", b"\xff\xff")) + data[at:]


# -- fields of headers ---------------------------------------------------------------------------------------------

#: Single bytes: markers of the segments, offsets in them, values.
FIELDS: tuple[tuple[Sequence[int], Sequence[int], Sequence[int]], ...] = (
    (range(256), (1,), (SOI, EOI, SOS, DQT, DHT, DRI, 0x00, 0x01, 0xCC, 0xDC, 0xDE, 0xDF, 0xFF)),  # another marker
    (FRAMES, (1,), FRAMES),
    (FRAMES, (4,), (0, 1, 7, 9, 12, 12, 16, 255)),  # bits
    (FRAMES, (9,), (0, 1, 2, 3, 4, 5, 255)),  # components
    (FRAMES, (10, 13, 16), (0, 1, 2, 3, 4, 82, 255)),  # their numbers
    (FRAMES, (11, 14, 17, 20), (0x11, 0x12, 0x21, 0x22, 0x13, 0x31, 0x14, 0x41, 0x44, 0, 0x01, 0x10, 0x1F, 0xF1)),
    (FRAMES, (12, 15, 18), (1, 2, 3, 4, 5, 15, 0x22, 0xFF)),  # quantization tables
    ((DQT, DHT), (4,), (1, 2, 3, 4, 5, 15, 16, 17, 0x22, 0x33, 0xFF)),
    ((SOS,), range(4, 14), (0, 1, 2, 3, 4, 5, 63, 64, 0x10, 0x11, 0x21, 0xD0, 0xFF)),
    ((DRI,), (4, 5), (0, 1, 2, 3, 7, 255)),
)  # fmt: skip


def header_field(draw: Draw, data: bytes, _: bytes) -> bytes:
    markers, offsets, values = draw.pick(FIELDS)
    for _i in range(draw.pick((1, 1, 3))):
        at = draw.pick(places(data, markers))
        data = patched(data, at + draw.pick(offsets), bytes((draw.pick(values),)))
    return data


def frame_size(draw: Draw, data: bytes, _: bytes) -> bytes:
    at, only = draw.pick(places(data, FRAMES)), draw.below(3)  # both sides or one
    for side, offset in enumerate((5, 7), 1):
        old = int.from_bytes(data[at + offset : at + offset + 2], "big")
        new = draw.pick((*_SIDES, old - 1, old + 1, old + 8, 2 * old, draw.below(65536))) & 0xFFFF
        data = data if only == side else patched(data, at + offset, new.to_bytes(2, "big"))
    return data


def frame_components(draw: Draw, data: bytes, _: bytes) -> bytes:
    """Another number of components, with a body to match."""
    at, count = draw.pick(places(data, FRAMES)), draw.below(5)
    body = data[at + 4 : at + 9] + bytes((count,)) + b"".join(bytes((k + 1, 0x11, 0)) for k in range(count))
    size = int.from_bytes(data[at + 2 : at + 4], "big")
    return data[:at] + segment(data[at + 1], body) + data[at + 2 + size :]


def hidden_frame(draw: Draw, data: bytes, other: bytes) -> bytes:
    """A file of two sizes.

    A marker without a length comes first. A reader that skips what would be its length meets only the second frame
    header, which lies in a comment; others (libjpeg) decode by the first.
    """
    pieces = segments(data)
    scans = [k for k, piece in enumerate(pieces) if piece[:2] == b"\xff\xda"]
    frames = [piece for piece in pieces if len(piece) > 9 and piece[0] == 0xFF and piece[1] in FRAMES]
    if not scans or not frames:
        return data
    height, width = draw.pick((1, 8, 24, 100, 1000)), draw.pick((1, 8, 24, 100, 1000))
    kind = draw.pick((frames[0][1], frames[0][1], 0xC3, draw.pick(FRAMES)))
    frame = bytes((0xFF, kind)) + frames[0][2:5] + height.to_bytes(2, "big") + width.to_bytes(2, "big") + frames[0][9:]
    scan = pieces[scans[0]]
    comment = segment(0xFE, frame + scan[: 2 + int.from_bytes(scan[2:4], "big")])
    skipped = b"".join(pieces[1 : scans[0]]) + comment[:4]
    marker = bytes((0xFF, draw.pick((0x01, 0xD0, 0xD7)))) + (len(skipped) + 2 & 0xFFFF).to_bytes(2, "big")
    return data[:2] + marker + skipped + comment[4:] + b"".join(pieces[scans[0] :])


def huffman_table(draw: Draw, data: bytes, _: bytes) -> bytes:
    at = draw.pick(places(data, (DHT,)))
    offset, new = draw.pick((
        (5, b"\xff" * 16), (5, bytes(16)), (5 + draw.below(16), bytes((draw.pick((0, 1, 2, 0xFF, draw.below(256))),))),
        (21, draw.text(draw.between(1, 40))),
    ))  # fmt: skip
    return patched(data, at + offset, new)


KINDS: tuple[Kind, ...] = (
    *dict.fromkeys(ANYWHERE), scan_damage, junk_around, other_segments, segment_length, marker_in_scan, header_field,
    frame_size, frame_components, hidden_frame, huffman_table,
)  # fmt: skip
# More often: bit flips and truncation, the damage of real life; damage with many variants; and damage of scans, as most
# damage of headers keeps our decoders from reading the file.
_CHOICES = (
    *KINDS, *(bit_flips,) * 2, *(splices,) * 8, *(scan_damage,) * 36, *(truncation,) * 3, *(header_field,) * 6,
    *(other_segments,) * 6, *(junk_around,) * 2, frame_size, huffman_table,
)  # fmt: skip


def mutation(seed: int) -> tuple[bytes, str]:
    """Damaged JPEG number ``seed``, and what was done to which original: "name; kind; kind"."""
    files = originals()
    draw = Draw(seed)
    name = draw.pick([name for name in files if is_baseline(name)])
    data, words = changed(draw, files[name], files[draw.pick(tuple(files))], _CHOICES)
    return data, f"{name}; {words}"
