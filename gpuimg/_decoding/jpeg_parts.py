"""The parts of a JPEG file that affect its pixels, found as by libjpeg: junk between marker segments is skipped.

Pillow reads byte by byte what lies between marker segments, and all metadata of cameras. Without these, a file costs
what its pixels cost.
Format: JPEG (ITU-T T.81, annex B).
"""

import re
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from . import exif
from .decoder import MAX_SCANS, PillowHeader, RefusedError

_MARKER = re.compile(rb"\xff([^\x00\xff])", re.DOTALL)
_ALONE = {0x01, *range(0xD0, 0xD9)}  # markers without a length
_EOI, _SOS, _DNL, _APP0, _APP1, _APP14, _APP15, _COMMENT = 0xD9, 0xDA, 0xDC, 0xE0, 0xE1, 0xEE, 0xEF, 0xFE
_SCAN = b"\xff\xda"
_TABLES = {0xC4, 0xCC, 0xDB, 0xDD}  # Huffman, arithmetic conditioning, quantization, restart interval
_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
_DECODED_FRAMES = {0xC0, 0xC1, 0xC2, 0xC9, 0xCA}  # baseline, extended, progressive; the last two arithmetic
_SIGNATURES = {_APP0: b"JFIF\0", _APP14: b"Adobe"}  # segments that determine the color space
_SUBSAMPLINGS = {
    (1, 1): "4:4:4", (2, 1): "4:2:2", (2, 2): "4:2:0", (1, 2): "4:4:0", (4, 1): "4:1:1", (4, 2): "4:1:0",
}  # fmt: skip


class _Segment(NamedTuple):
    marker: int
    start: int  # offset of the marker
    body: memoryview


class _Frame(NamedTuple):
    height: int
    width: int
    sampling: list[tuple[int, int]]  # horizontal and vertical factor of each component


def jpeg_contents(data: bytes) -> PillowHeader:
    """Read the headers of a JPEG file."""
    view = memoryview(data)
    parts: list[bytes | memoryview] = [b"\xff\xd8"]
    frame, orientation = None, 0
    for segment in segments(data):
        if segment.marker == _SOS and frame:
            parts.append(view[segment.start :])
            _check_scans(data, segment.start)
            return PillowHeader(
                frame.height, frame.width, len(frame.sampling), parts, orientation or 1, chroma(frame.sampling)
            )  # fmt: skip
        if segment.marker in _FRAMES:
            if frame:
                raise ValueError("two frame headers")
            frame = _frame(segment)
            parts.append(_whole(view, segment))
        elif segment.marker == _APP1 and not orientation and bytes(segment.body[:6]) == b"Exif\0\0":
            orientation = exif.orientation_in(segment.body[6:])
        elif segment.marker in _TABLES or _has_color_info(segment):
            parts.append(_whole(view, segment))
        elif not _APP0 <= segment.marker <= _APP15 and segment.marker not in (_COMMENT, _DNL):  # libjpeg skips DNL
            raise ValueError(f"marker {segment.marker:#04x} before the first scan")
    raise ValueError("the header is truncated or damaged: the file ends before its first scan")


def _check_scans(data: bytes, at: int) -> None:
    """Limit the number of scans; bytes after the image, or in tables between scans, may only look like one."""
    if data.count(_SCAN, at) <= MAX_SCANS:
        return
    scans = 0
    for segment in segments(data, at):
        scans += segment.marker == _SOS
        if scans > MAX_SCANS:
            raise RefusedError(f"more than {MAX_SCANS} scans, which is the limit")


def segments(data: bytes, at: int = 2) -> Iterator[_Segment]:
    """Yield marker segments with a length, up to the end of the image or to a truncated segment."""
    view = memoryview(data)
    while found := _MARKER.search(data, at):
        marker, at = found[1][0], found.end()
        if marker in _ALONE:
            continue
        if marker == _EOI:
            return
        size = int.from_bytes(data[at : at + 2], "big")
        if size < 2 or at + size > len(data):
            return  # nothing after it can be found
        yield _Segment(marker, found.start(), view[at + 2 : at + size])
        at += size


def _whole(view: memoryview, segment: _Segment) -> memoryview:
    return view[segment.start : segment.start + 4 + len(segment.body)]


def _has_color_info(segment: _Segment) -> bool:
    signature = _SIGNATURES.get(segment.marker)
    return signature is not None and bytes(segment.body[: len(signature)]) == signature


def _frame(segment: _Segment) -> _Frame:
    if segment.marker not in _DECODED_FRAMES:
        raise RefusedError("lossless and hierarchical JPEG files are not supported")
    body = segment.body
    try:
        bits, height, width, count = struct.unpack_from(">BHHB", body)
    except struct.error:
        raise ValueError("its frame header is too short") from None
    if bits != 8:
        raise RefusedError(f"JPEG files with {bits} bits per sample are not supported, only with 8")
    if count not in (1, 3, 4) or len(body) != 6 + 3 * count:
        raise ValueError(f"a frame header of {count} components in {len(body)} bytes")
    sampling = [divmod(factors, 16) for factors in body[7::3]]
    if not all(1 <= factor <= 4 for factors in sampling for factor in factors):
        raise ValueError(f"its sampling factors are {sampling}")
    return _Frame(height, width, sampling)


def chroma(sampling: Sequence[tuple[int, int]]) -> str:
    """Return the name in :class:`gpuimg.typing.ImageInfo` for the sampling factors of all components."""
    if len(sampling) == 1:
        return "gray"
    if len(sampling) != 3 or sampling[1] != sampling[2]:
        return "unknown"
    (h, v), (chroma_h, chroma_v), _ = sampling
    if 0 in (chroma_h, chroma_v) or h % chroma_h or v % chroma_v:
        return "unknown"
    return _SUBSAMPLINGS.get((h // chroma_h, v // chroma_v), "unknown")
