"""Damaged files of the formats that Pillow decodes: each has its pixels or a reason, within limits of memory."""

import io
import re
import warnings
import zlib
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from gpuimg._decoding import exif, pillow
from gpuimg._decoding.decoder import BYTES_PER_IMAGE, BYTES_PER_PIXEL
from gpuimg._decoding.options import DecodeOptions

from ..decoding.tiffs import of_array
from ..samples import file_of, with_orientation
from .mutate import Draw, changed
from .originals import picture

MAX_PIXELS = 1 << 22


@lru_cache(maxsize=1)
def originals() -> dict[str, list[bytes]]:
    color, gray, other = picture(61, 83, 1), picture(45, 52, 2).convert("L"), picture(40, 56, 3)
    clear, palette, black = color.copy(), color.quantize(50), gray.convert("1")
    clear.putalpha(gray.resize(color.size))
    deep = Image.fromarray(np.asarray(gray).astype(np.uint16) * 257)
    turn = with_orientation(6)
    tiles = of_array(np.asarray(color), 2, tile=(32, 16), tags={274: 6})
    packed = ("tiff_lzw", "tiff_adobe_deflate", "packbits", "lzma", "jpeg")
    return {
        "png": [
            *(file_of(image, "PNG") for image in (color, gray, clear, palette, black, deep)),
            file_of(color, "PNG", exif=turn), file_of(palette, "PNG", transparency=3),
        ],
        "webp": [
            file_of(color, "WEBP"), file_of(color, "WEBP", lossless=True), file_of(clear, "WEBP", exif=turn),
            file_of(color, "WEBP", save_all=True, append_images=[other.resize(color.size)]),
        ],
        "avif": [*(file_of(image, "AVIF") for image in (color, clear, gray)), file_of(other, "AVIF", exif=turn)],
        "gif": [
            file_of(palette, "GIF"), file_of(gray, "GIF"), file_of(palette, "GIF", transparency=5),
            file_of(palette, "GIF", save_all=True, append_images=[other.quantize(9)], comment=b"x" * 300),
        ],
        "tiff": [
            *(file_of(image, "TIFF") for image in (color, gray, clear, palette, black, deep, color.convert("CMYK"))),
            *(file_of(other, "TIFF", compression=name) for name in packed),
            file_of(color.convert("YCbCr"), "TIFF"), file_of(color.convert("LAB"), "TIFF"),
            tiles, file_of(other, "TIFF", big_tiff=True),
            file_of(black, "TIFF", compression="group4"),
            file_of(other, "TIFF", strip_size=1000, compression="tiff_lzw"),
        ],
        "bmp": [file_of(image, "BMP") for image in (color, gray, palette, black, clear)],
        "pnm": [
            *(file_of(image, "PPM") for image in (color, gray, black, deep)),
            b"P2\n# text\n4 3\n15\n" + b" ".join(b"%d" % k for k in range(12)), b"P5 8 8 1000\n" + bytes(range(128)),
            b"P6 4 4 15\n" + bytes(48), b"P3 2 2 255 1 2 3 4 5 6 7 8 9 10 11 12\n", b"P1 3 2\n1 0 1 0 1 0\n",
        ],
        "jpeg2k": [
            *(file_of(image, "JPEG2000") for image in (color, gray, clear, deep)),
            file_of(color, "JPEG2000", no_jp2=True), file_of(other, "JPEG2000", tile_size=(32, 32)),
            file_of(other, "JPEG2000", irreversible=True, quality_layers=[30, 10], precinct_size=(64, 64)),
        ],
        "jpeg": [
            file_of(color, "JPEG", progressive=True), file_of(gray, "JPEG", progressive=True),
            file_of(color.convert("CMYK"), "JPEG"), file_of(other, "JPEG", progressive=True, subsampling=0, exif=turn),
        ],
    }  # fmt: skip


def mutation(form: str, number: int) -> tuple[bytes, str]:
    draw, files = Draw(number), originals()[form]
    which = draw.below(len(files))
    data, words = changed(draw, files[which], draw.pick(files))
    if form == "png" and draw.below(3):
        data = with_checksums(data)
    return data, f"{form} {which}; {words}"


def with_checksums(data: bytes) -> bytes:
    """A PNG with the right checksum in every chunk that is whole."""
    result, at = bytearray(data), 8
    while at + 12 <= len(data):
        end = at + 8 + int.from_bytes(data[at : at + 4], "big")
        if end + 4 > len(data):
            break
        result[end : end + 4] = zlib.crc32(data[at + 4 : end]).to_bytes(4, "big")
        at = end + 4
    return bytes(result)


def theirs(data: bytes, orientation: int) -> NDArray[np.uint8] | None:
    """Pixels by the public way through Pillow, None where it refuses or does not read a damaged orientation."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = Image.open(io.BytesIO(data))
            if image.size[0] * image.size[1] > MAX_PIXELS:
                return None
            if image.format != "TIFF" and image.getexif().get(0x0112, 1) != orientation:
                return None
            if image.format == "GIF" and image.tile[0][1] != (0, 0, *image.size):  # it does not cover its screen
                return None
            if image.format == "BMP" and {"1": 1, "L": 8}.get(image.mode, data[28]) != data[28]:  # taken for gray
                return None
            image = ImageOps.exif_transpose(image)
            if image.mode.startswith("I") or image.mode == "F":
                return None
            return np.asarray(image.convert("RGB"))
    except Exception:
        return None


def check(folder: Path) -> Callable[[int], str]:
    forms = [form for form in originals() if form != "tiff"]
    _warm()
    return lambda number: _decoded(forms[number % len(forms)], number)


def check_tiff(folder: Path) -> Callable[[int], str]:
    """Return the check of a TIFF file: libtiff prints a line for a damaged one, which Pillow has no way to stop."""
    _warm()
    return partial(_decoded, "tiff")


def _warm() -> None:
    """Import what every format needs, which is not the memory of a file."""
    exif.orientation_in(bytes(8))
    for files in originals().values():
        for data in files:
            pillow.decode(data, pillow.read_header(data, MAX_PIXELS), DecodeOptions())


def _decoded(form: str, number: int) -> str:
    data, words = mutation(form, number)
    Path("/proc/self/clear_refs").write_text("5")  # begin to measure the peak
    before, pixels, size, turn, outcome = peak(), None, 0, 1, "decoded"
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            header = pillow.read_header(data, MAX_PIXELS)
            size, turn = header.height * header.width, header.orientation
            pixels = exif.turned(pillow.decode(data, header, DecodeOptions()), turn)
        except ValueError as error:
            outcome, reason = "refused", str(error)
            if len(reason) < 8 or re.search(r"0x[0-9a-f]{6}|Error\(|\n", reason):
                raise AssertionError(f"{words}: {reason!r} is no reason") from error
    memory = peak() - before
    assert not warned, f"{words}: {warned[0].message}"
    assert memory <= BYTES_PER_PIXEL * size + BYTES_PER_IMAGE, f"{words}: {memory >> 20} MiB for {size} pixels"
    reference = None if pixels is None else theirs(data, turn)
    assert reference is None or np.array_equal(pixels, reference), f"{words}: other pixels than Pillow's"
    return f"{form}: {outcome}"


def peak() -> int:
    return int(re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[0]) * 1024
