"""JPEG files made for the tests, what Pillow makes of them, and our decoder by itself with guards around its memory."""

import ctypes
import io
import math
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from gpuimg._decoding.jpeg import read_headers
from gpuimg.kernels.jpeg import decode as jpeg
from gpuimg.kernels.jpeg import layout as words
from gpuimg.kernels.jpeg import progressive, recoded
from gpuimg.kernels.jpeg.books import books
from gpuimg.kernels.jpeg.rows import FINISH_ROW_FUNCTION

from ..samples import file_of

Pixels = NDArray[np.uint8]
Region = tuple[int, int, int, int]  # x0, y0, x1, y1

SOS, DQT, DHT, DRI = 0xDA, 0xDB, 0xC4, 0xDD
SCALES = (8, 4, 2, 1)  # eighths of an image's size
REGIONS = int(os.environ.get("GPUIMG_TEST_REGIONS", "500"))


def pillow_pixels(data: bytes, channels: int = 3, scale: int = 8) -> Pixels:
    """Pillow's pixels at ``scale`` eighths of the size, not rotated; gray is libjpeg's luma."""
    image = Image.open(io.BytesIO(data))
    if channels == 1:
        image.draft("L", image.size)
    if scale < 8:  # as draft does it, also where the sides are shorter than 8 / scale
        image._size = tuple(-(-side * scale // 8) for side in image.size)
        codec, _, offset, rest = image.tile[0]
        image.tile = [(codec, (0, 0, *image.size), offset, rest)]
        image.decoderconfig = (8 // scale, 0)
    pixels = np.asarray(image.convert("L" if channels == 1 else "RGB"))
    return pixels.reshape(*pixels.shape[:2], channels)


def upright_pixels(data: bytes) -> Pixels:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a palette's transparency
        return np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB"))


def segment(marker: int, body: bytes) -> bytes:
    return bytes((0xFF, marker)) + (len(body) + 2).to_bytes(2, "big") + body


def header_segments(data: bytes) -> list[tuple[int, bytes]]:
    """Marker and body of each segment of an intact file, the first scan's header the last one."""
    found: list[tuple[int, bytes]] = []
    at = 2
    while not found or found[-1][0] != SOS:
        while data[at + 1] == 0xFF:  # fill bytes
            at += 1
        size = int.from_bytes(data[at + 2 : at + 4], "big")
        found.append((data[at + 1], data[at + 4 : at + 2 + size]))
        at += 2 + size
    return found


def scan_start(data: bytes) -> int:
    return 2 + sum(4 + len(body) for _, body in header_segments(data))


def joined(segments: list[tuple[int, bytes]], scan: bytes) -> bytes:
    return b"\xff\xd8" + b"".join(segment(*one) for one in segments) + scan


def resized(data: bytes, height: int, width: int) -> bytes:
    at = max(data.find(b"\xff\xc0"), data.find(b"\xff\xc2")) + 5
    return data[:at] + height.to_bytes(2, "big") + width.to_bytes(2, "big") + data[at + 4 :]


def rebuilt(data: bytes, change: Any) -> bytes:
    """A file with each segment exchanged for those that ``change`` gives for its marker and body."""
    parts = [one for marker, body in header_segments(data) for one in change(marker, body)]
    return joined(parts, data[scan_start(data) :])


class Bits:
    def __init__(self) -> None:
        self._value, self._count, self.bytes = 0, 0, bytearray()

    def put(self, value: int, count: int) -> None:
        self._value, self._count = self._value << count | value, self._count + count
        while self._count >= 8:
            self._count -= 8
            byte = self._value >> self._count & 0xFF
            self.bytes += b"\xff\0" if byte == 0xFF else bytes((byte,))
        self._value &= (1 << self._count) - 1

    def restart(self, marker: bytes) -> None:
        if self._count:
            self.put((1 << 8 - self._count) - 1, 8 - self._count)
        self.bytes += marker


SIZES = [
    (1, 1), (5, 3), (6, 1), (7, 9), (1, 40), (8, 8), (16, 16), (17, 31), (9, 200), (33, 100), (64, 64), (63, 65),
    (250, 187), (300, 200),
]  # fmt: skip
_PILLOW_SAMPLING = {"4:4:4": 0, "4:2:2": 1, "4:2:0": 2}
SAMPLINGS = (*_PILLOW_SAMPLING, "4:4:0", "gray", "rgb")
OPTIONS: tuple[dict[str, Any], ...] = (
    {}, {"optimize": True}, {"restart_marker_blocks": 3}, {"restart_marker_rows": 1},
    {"restart_marker_blocks": 1, "optimize": True},
)  # fmt: skip
QUALITIES = (1, 5, 20, 50, 75, 85, 92, 95, 99, 100)


def noise(height: int, width: int, seed: int | None = None) -> Image.Image:
    """Random values, which set all the coefficients; new ones in each call without a seed."""
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8))


def encoded(image: Image.Image, sampling: str = "4:2:0", **options: Any) -> bytes:
    """A JPEG file by Pillow; by OpenCV for 4:4:0."""
    if sampling == "4:4:0":
        return by_opencv(image, **options)
    if sampling == "gray":
        image = image.convert("L")
    elif sampling == "rgb":
        options["keep_rgb"] = True
    else:
        options["subsampling"] = _PILLOW_SAMPLING[sampling]
    return file_of(image, **options)


def by_opencv(
    image: Image.Image, quality: int = 75, optimize: bool = False, restart_marker_blocks: int = 0, factor: str = "440",
    **_: Any,
) -> bytes:  # fmt: skip
    import cv2

    options = [
        cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_OPTIMIZE, int(optimize),
        cv2.IMWRITE_JPEG_RST_INTERVAL, restart_marker_blocks,
        cv2.IMWRITE_JPEG_SAMPLING_FACTOR, getattr(cv2, f"IMWRITE_JPEG_SAMPLING_FACTOR_{factor}"),
    ]  # fmt: skip
    return bytes(cv2.imencode(".jpg", np.asarray(image)[:, :, ::-1], options)[1])


def made(photo: Image.Image) -> Iterator[tuple[str, bytes]]:
    """Files of every size, sampling and way of encoding, each quality among them; by turns of a photo and of noise."""
    k = 0
    for size in SIZES:
        for sampling in SAMPLINGS:
            for options in OPTIONS:
                k += 1
                quality = QUALITIES[k % len(QUALITIES)] if k % 3 else 1 + k % 100
                hard = k % 2 and ("optimize" not in options or max(size) < 100)  # Pillow has no room for all of noise
                image = noise(size[1], size[0], k) if hard else photo.resize(size)
                name = f"{size[0]} x {size[1]} {sampling} quality {quality} {options}"
                yield name, encoded(image, sampling, quality=quality, **options)


_GUARD = 4096
_BYTE = 0xA5


class Guarded:
    """Memory of an exact number of bytes between two guards."""

    def __init__(self, size: int, fill: int) -> None:
        self._all = np.full(size + 2 * _GUARD + 64, _BYTE, np.uint8)
        self._start = _GUARD + -(self._all.ctypes.data + _GUARD) % 64
        self.bytes: Pixels = self._all[self._start : self._start + size]
        self.bytes[:] = fill

    def broken(self) -> str:
        around = self._all[: self._start], self._all[self._start + self.bytes.size :]
        written = sum(np.count_nonzero(part != _BYTE) for part in around)
        return f"{written} bytes written beside it" if written else ""


class Decoded(NamedTuple):
    """Pixels of a region, how decoding ended: why, in which MCU row, of how many."""

    pixels: Pixels
    how: int
    row: int
    rows: int


TABLE_BYTES = words.TABLES * words.TABLE.itemsize
_CALL = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64,
    ctypes.c_void_p,
)  # fmt: skip


class Decoder:
    """Our decoders as the CPU runtime calls them, with just as much memory as it allots.

    Scratch and result hold ``fill`` before each call, which must not matter. ``memory`` makes memory of a size and
    with a content; without, it is :class:`Guarded`.
    """

    def __init__(self, fill: Any = 0x55, memory: Callable[[Any, Any], Any] | None = None) -> None:
        self.fill = fill
        self._memory = memory
        self._tables = (memory or Guarded)(TABLE_BYTES, 0)
        # Compiled here, not in the first call, whose time a test may limit.
        loops = {words.BASELINE: jpeg, words.PROGRESSIVE: progressive, words.RECODED: recoded}
        self._decoders = {kind: _CALL(one.DECODE_FUNCTION.address) for kind, one in loops.items()}

    def __call__(
        self, data: bytes | Pixels, region: Region | None = None, channels: int = 3, header: Any = None,
        scale: int = 8,
    ) -> Decoded:  # fmt: skip
        header = header_of(data) if header is None else header
        width, height = (-(-int(header[side]) * scale // 8) for side in ("width", "height"))
        x0, y0, x1, y1 = region or (0, 0, width, height)
        memory = self._memory or Guarded
        shape = y1 - y0, x1 - x0, channels
        out = memory(math.prod(shape), self.fill)
        headers = np.array([header])  # which has to live as long as the call: other threads reuse memory
        size = jpeg.work_bytes(int(header["width"]))
        if header["kind"] == words.PROGRESSIVE:
            size += progressive.coefficient_bytes(header)
        elif header["kind"] == words.RECODED:
            size += recoded.list_bytes(int(header["width"]))
        work = memory(size, self.fill)
        status = memory(words.STATUS.itemsize, self.fill)
        raw = np.frombuffer(data, np.uint8)
        request = np.zeros(1, words.REQUEST)
        request["data"], request["size"] = raw.ctypes.data, raw.size
        request["region"], request["scale"], request["channels"] = (x0, y0, x1, y1), scale, channels
        request["row_maker"], request["books"] = FINISH_ROW_FUNCTION.address, books().ctypes.data
        self._decoders.get(int(header["kind"]), self._decoders[words.BASELINE])(
            headers.ctypes.data, request.ctypes.data, out.bytes.ctypes.data, self._tables.bytes.ctypes.data,
            work.bytes.ctypes.data, work.bytes.size, status.bytes.ctypes.data,
        )  # fmt: skip
        broken = [one for part in (out, work, status, self._tables) if (one := part.broken())]
        if broken:
            raise AssertionError(f"{region} of {width} x {height}: {broken}")
        return Decoded(out.bytes.reshape(shape), *status.bytes.view(words.STATUS)[0].tolist())


def header_of(data: bytes | Pixels) -> Any:
    return read_headers([data]).records[0]


def is_baseline(data: bytes) -> bool:
    return bool(header_of(data)["kind"] == words.BASELINE)


def is_ours(data: bytes) -> bool:
    return header_of(data)["kind"] in (words.BASELINE, words.PROGRESSIVE)


def channels_of(data: bytes) -> tuple[int, ...]:
    """Channels that our decoder gives; gray of an RGB file is Pillow's."""
    return (3,) if header_of(data)["color"] == words.RGB else (3, 1)


def some_region(rng: np.random.Generator, height: int, width: int, largest: int = 1 << 16) -> Region:
    x0, y0 = int(rng.integers(width)), int(rng.integers(height))
    x1, y1 = (int(rng.integers(low, min(side, low + largest))) + 1 for low, side in ((x0, width), (y0, height)))
    return x0, y0, x1, y1


def assert_pillows(
    decoder: Decoder, data: bytes, name: str = "", scales: Sequence[int] = SCALES, recoded: bytes | None = None
) -> None:
    """The whole image and a region, at each scale, in color and gray, of a file or its recoded form."""
    assert is_ours(data), name
    rng = np.random.default_rng()
    for scale in scales:
        for channels in channels_of(data):
            expected = pillow_pixels(data, channels, scale)
            for region in ((0, 0, *expected.shape[1::-1]), some_region(rng, *expected.shape[:2])):
                found = decoder(recoded or data, region, channels, scale=scale)
                label, (x0, y0, x1, y1) = f"{name} {region} {channels} {scale}", region
                assert found.how == words.DONE, label
                np.testing.assert_array_equal(found.pixels, expected[y0:y1, x0:x1], err_msg=label)
