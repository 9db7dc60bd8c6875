"""Every format but baseline JPEG: pixels against Pillow's public way, limits, and what is said of damaged files."""

import io
import re
import struct
import sys
import zlib
from collections import Counter
from itertools import cycle
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageOps

import gpuimg as gi
from gpuimg._decoding import exif
from gpuimg._decoding.options import COLORS, DecodeOptions
from gpuimg._decoding.pillow import decode, read_header

from ..libraries import library
from ..robustness import foreign
from ..robustness.formats import peak
from ..robustness.mutate import Draw
from ..samples import PHOTOS, file_of, png_chunk, smooth, with_orientation
from .jpegs import pillow_pixels, upright_pixels
from .tiffs import of_array, tiff

cv2 = library("cv2")

LIMIT = 1 << 27
HEIGHT, WIDTH = 41, 67


@pytest.fixture(scope="module")
def noise() -> NDArray[np.uint8]:
    return np.random.default_rng().integers(0, 256, (HEIGHT, WIDTH, 4), np.uint8)


def shown(data: bytes, channels: int = 3, alpha: str = "drop") -> NDArray[np.uint8]:
    """Return the module's pixels of a file, rotated upright."""
    header = read_header(data, LIMIT)
    color = next(name for name, count in COLORS.items() if count == channels)
    pixels = decode(data, header, DecodeOptions(color, alpha))
    assert pixels.shape == (header.height, header.width, channels)
    assert pixels.dtype == np.uint8
    assert pixels.flags.c_contiguous
    return np.asarray(exif.turned(pixels, header.orientation))


# -- pixels ------------------------------------------------------------------------------------------------------------

MODES = {
    "PNG": ["1", "L", "LA", "P", "RGB", "RGBA"], "WEBP": ["RGB", "RGBA"], "AVIF": ["L", "RGB", "RGBA"],
    "GIF": ["L", "P"], "TIFF": ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "LAB"],
    "BMP": ["1", "L", "P", "RGB"], "PPM": ["1", "L", "RGB"], "JPEG2000": ["L", "LA", "RGB", "RGBA"],
    "JPEG": ["L", "RGB", "CMYK"],
}  # fmt: skip
CODECS = {"PPM": "pnm", "JPEG2000": "jpeg2k"}
CHANNELS = {"1": 1, "L": 1, "LA": 2, "P": 3, "RGB": 3, "RGBA": 4, "CMYK": 4, "YCbCr": 3, "LAB": 3}


@pytest.mark.parametrize(("form", "mode"), [(form, mode) for form, modes in MODES.items() for mode in modes])
def test_pixels_are_pillows(form: str, mode: str, noise: NDArray[np.uint8]) -> None:
    image = Image.fromarray(noise if mode == "RGBA" else noise[..., :3])
    image = image.convert("L" if mode == "LA" else mode)
    if mode == "LA":
        image.putalpha(Image.fromarray(noise[..., 3]))
    data = file_of(image, form, **({"progressive": True} if form == "JPEG" else {}))
    np.testing.assert_array_equal(shown(data), upright_pixels(data))
    header = read_header(data, LIMIT)
    channels = 3 if form == "GIF" else CHANNELS[mode]
    assert header[:3] == (HEIGHT, WIDTH, channels)
    assert (header.codec, header.orientation) == (CODECS.get(form, form.lower()), 1)
    assert header.chroma_subsampling == {"L": "gray", "RGB": "4:2:0"}.get(mode, "unknown") or form != "JPEG"


@pytest.mark.parametrize("value", [3, 6])
def test_orientation_after_the_pixels_of_a_png(value: int) -> None:
    """ExifTool writes it there."""
    plain, block = file_of(smooth(HEIGHT, WIDTH), "PNG"), with_orientation(value).tobytes()[6:]
    data = plain[:-12] + png_chunk(b"eXIf", block) + plain[-12:]
    assert read_header(data, LIMIT).orientation == value
    np.testing.assert_array_equal(shown(data), upright_pixels(data))


def text_chunk(name: bytes, key: bytes, text: bytes) -> bytes:
    start = {b"tEXt": b"", b"zTXt": b"\0", b"iTXt": b"\0\0\0\0", b"compressed": b"\1\0\0\0"}[name]
    packed = zlib.compress(text) if name in (b"zTXt", b"compressed") else text
    return png_chunk(b"iTXt" if name == b"compressed" else name, key + b"\0" + start + packed)


XMP = b'<x:xmpmeta><rdf:Description tiff:Orientation="%d"/></x:xmpmeta>'
TAGS = b"<x:xmpmeta><tiff:Orientation>%d</tiff:Orientation></x:xmpmeta>"
HEX = with_orientation(6).tobytes().hex().encode()
MAGICK = b"\nexif\n%8d\n%s\n" % (len(HEX) // 2, b"\n".join(HEX[k : k + 72] for k in range(0, len(HEX), 72)))
CAMERA = Image.Exif()
CAMERA[0x010F] = "a camera"
#: Kind of chunk, its key and text, and EXIF next to it, which counts first if it has an orientation; what counts.
TEXTS: list[tuple[bytes, bytes, bytes, Image.Exif | None, int]] = [
    *(
        (name, b"XML:com.adobe.xmp", form % value, None, value if 1 <= value <= 8 else 1)
        for name in (b"tEXt", b"zTXt", b"iTXt", b"compressed")
        for form in (XMP, TAGS)
        for value in (0, 1, 3, 6, 8, 9)
    ),
    *((name, b"Raw profile type exif", MAGICK, None, 6) for name in (b"tEXt", b"zTXt", b"iTXt")),
    *((b"iTXt", b"XML:com.adobe.xmp", XMP % 6, with_orientation(value), value) for value in (1, 3)),
    (b"iTXt", b"XML:com.adobe.xmp", XMP % 6, CAMERA, 6),
]


@pytest.mark.parametrize(("name", "key", "text", "block", "value"), TEXTS)
def test_orientation_in_text_of_a_png(name: bytes, key: bytes, text: bytes, block: Any, value: int) -> None:
    plain = file_of(smooth(HEIGHT, WIDTH), "PNG", **({} if block is None else {"exif": block}))
    data = plain[:33] + text_chunk(name, key, text) + plain[33:]
    np.testing.assert_array_equal(shown(data), upright_pixels(data))
    assert read_header(data, LIMIT).orientation == value


@pytest.mark.parametrize("text", [b"", b"\0", b"\1", b"\1\0\0\0not zlib", b"\1\5\0\0xx", b"\0\0\0"])
@pytest.mark.parametrize("name", [b"iTXt", b"zTXt", b"tEXt"])
@pytest.mark.parametrize("key", [b"XML:com.adobe.xmp", b"Raw profile type exif"])
def test_damaged_text_of_a_png_is_ignored(name: bytes, key: bytes, text: bytes) -> None:
    plain, chunk = file_of(smooth(HEIGHT, WIDTH), "PNG"), png_chunk(name, key + b"\0" + text)
    assert read_header(plain[:33] + chunk + plain[33:], LIMIT).orientation == 1


@pytest.mark.parametrize("block", [b"", b"MM", b"II*\0\xff\xff\xff\xff", b"Exif\0\0MM\0*\0\0\0\x08\xff\xff", b"x" * 40])
@pytest.mark.parametrize("form", ["PNG", "WEBP", "JPEG"])
def test_damaged_exif_is_ignored(form: str, block: bytes) -> None:
    data = file_of(smooth(HEIGHT, WIDTH), form, exif=block)
    header = read_header(data, LIMIT)
    assert header.orientation == 1
    assert decode(data, header, DecodeOptions()).shape == (HEIGHT, WIDTH, 3)


#: What robustness/foreign.py has only within a tolerance.
TIFFS: dict[str, tuple[int, int, dict[str, Any]]] = {
    "premultiplied alpha": (2, 4, {"tags": {338: [1]}}), "cmyk tiled": (5, 4, {"tile": (16, 16)}), "lab": (8, 3, {}),
    "palette": (3, 1, {"tags": {320: [(k * 7919) % 65536 for k in range(768)]}}),
}  # fmt: skip


@pytest.mark.parametrize("kind", TIFFS)
@pytest.mark.parametrize("order", ["<", ">"])
def test_tiff(kind: str, order: Literal["<", ">"], noise: NDArray[np.uint8]) -> None:
    photometric, samples, options = TIFFS[kind]
    data = of_array(noise[..., :samples], photometric, order=order, **options)
    assert read_header(data, LIMIT)[:3] == (HEIGHT, WIDTH, samples + 2 * (kind == "palette"))
    np.testing.assert_array_equal(shown(data), upright_pixels(data))


@pytest.mark.parametrize("sizes", [(255,), (255, 255, 254), (1,), (7, 255, 255, 255, 1, 254), (254, 253)])
def test_sub_blocks_of_a_gif(sizes: tuple[int, ...], noise: NDArray[np.uint8]) -> None:
    """They may have any sizes."""
    data = file_of(Image.fromarray(noise[..., 0]), "GIF")
    start = data.index(b",\0\0\0\0") + 11
    at, codes = start, b""
    while size := data[at]:
        codes, at = codes + data[at + 1 : at + 1 + size], at + 1 + size
    blocks, left = b"", codes
    for size in cycle(sizes):
        if not left:
            break
        blocks, left = blocks + bytes([len(left[:size])]) + left[:size], left[size:]
    cut = data[:start] + blocks + b"\0" + data[at + 1 :]
    np.testing.assert_array_equal(shown(cut), upright_pixels(data))
    with pytest.raises(ValueError, match="the data ends in the first image"):
        gi.decode_image(data[:start] + blocks, device="cpu")


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("strips", ["in order", "apart", "backwards", "counted too long"])
def test_uncompressed_tiff(strips: str, channels: int, noise: NDArray[np.uint8]) -> None:
    """Pixels are those of the strips' offsets, wherever they lie."""
    pixels = noise[..., :channels]
    height, width, _ = pixels.shape
    blocks = [pixels[y : y + 7].tobytes() for y in range(0, height, 7)]
    numbers = range(len(blocks))[:: -1 if strips == "backwards" else 1]
    space = b"space" if strips == "apart" else b""
    offsets, body = dict[int, int](), b""
    for k in numbers:
        offsets[k] = 8 + len(body)
        body += blocks[k] + space
    longer = 4 if strips == "counted too long" else 0
    data = tiff([body], {
        256: width, 257: height, 258: [8] * channels, 259: 1, 262: 1 if channels == 1 else 2, 277: channels, 278: 7,
        273: [offsets[k] for k in range(len(blocks))], 279: [len(block) + longer for block in blocks],
    })  # fmt: skip
    color: Literal["gray", "rgb"] = "gray" if channels == 1 else "rgb"
    np.testing.assert_array_equal(gi.decode_image(data, device="cpu", color=color), pixels)


@pytest.mark.parametrize(
    "compression", ["tiff_lzw", "tiff_adobe_deflate", "packbits", "lzma", "zstd", "jpeg", "group4"]
)
@pytest.mark.parametrize("value", [1, 6])
@pytest.mark.parametrize("predictor", [1, 2])
def test_compressed_tiff(compression: str, value: int, predictor: int, noise: NDArray[np.uint8]) -> None:
    image = smooth(HEIGHT, WIDTH).resize((300, 200))
    image.paste(Image.fromarray(noise[..., :3]), (20, 30))
    tags = {274: value} | ({317: predictor} if compression in ("tiff_lzw", "tiff_adobe_deflate", "lzma") else {})
    image = image.convert("1") if compression == "group4" else image
    data = file_of(image, "TIFF", compression=compression, tiffinfo=tags)
    np.testing.assert_array_equal(shown(data), upright_pixels(data))


@pytest.mark.parametrize("form", ["PNG", "TIFF", "WEBP", "BMP", "PPM", "GIF", "JPEG2000"])
def test_gray(form: str, noise: NDArray[np.uint8]) -> None:
    """Of a file in color, that of rgb_to_grayscale; of a gray one, its own."""
    if form in ("PNG", "TIFF", "WEBP", "BMP", "PPM"):
        data = file_of(Image.fromarray(noise[..., :3]), form, **({"lossless": True} if form == "WEBP" else {}))
        np.testing.assert_array_equal(shown(data, 1), gi.rgb_to_grayscale(noise[None, ..., :3]).array("uint8")[0])
    if form != "WEBP":
        np.testing.assert_array_equal(shown(file_of(noise[..., 0], form), 1)[..., 0], noise[..., 0])


@pytest.mark.parametrize("form", ["PNG", "WEBP", "TIFF", "GIF", "JPEG2000", "palette"])
def test_alpha_is_dropped_or_laid_on_a_color(form: str, noise: NDArray[np.uint8]) -> None:
    options: dict[str, Any] = {"lossless": True, "exact": True} if form == "WEBP" else {}
    image = Image.fromarray(noise)
    if form == "GIF":
        image = image.convert("RGB").quantize(20)
        options = {"transparency": 3}
    if form == "palette":
        form, image, options = "PNG", image.convert("RGB").quantize(16), {"transparency": bytes(range(0, 256, 16))}
    data = file_of(image, form, **options)
    rgba = np.asarray(Image.open(io.BytesIO(data)).convert("RGBA")).astype(float)
    color, alpha = rgba[..., :3], rgba[..., 3:] / 255
    np.testing.assert_array_equal(shown(data), upright_pixels(data))
    for name, level in (("black", 0), ("white", 255)):
        np.testing.assert_array_equal(shown(data, 3, name), np.rint((color - level) * alpha + level))
    assert read_header(data, LIMIT).channels == 4


def test_large_images_are_laid_out_in_bands() -> None:
    values = np.random.default_rng().integers(0, 256, (900, 1100, 3), np.uint8)
    data = file_of(Image.fromarray(values), "TIFF")
    np.testing.assert_array_equal(shown(data), values)
    np.testing.assert_array_equal(shown(data, 1), gi.rgb_to_grayscale(values[None]).array("uint8")[0])


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_bmp_rows_from_either_side(width: int) -> None:
    values = np.random.default_rng().integers(0, 256, (5, width, 3), np.uint8)
    data = bytearray(file_of(values, "BMP"))
    np.testing.assert_array_equal(shown(bytes(data)), values)
    struct.pack_into("<i", data, 22, -5)
    np.testing.assert_array_equal(shown(bytes(data)), values[::-1])
    with pytest.raises(ValueError, match="damaged BMP file: image file is truncated"):
        shown(bytes(data[:-5]))


@pytest.mark.parametrize("form", ["GIF", "PNG", "WEBP", "AVIF", "TIFF"])
def test_of_several_pictures_the_first(form: str) -> None:
    others = [Image.new("RGB", (WIDTH, HEIGHT), (k, 0, 0)) for k in (90, 180)]
    data = file_of(smooth(HEIGHT, WIDTH), form, save_all=True, append_images=others)
    np.testing.assert_array_equal(shown(data), upright_pixels(data))


def test_opencv_shows_what_those_files_are_made_of() -> None:
    """Where it has the same rules: it does not scale by PNM's largest value, nor fill a GIF's screen."""
    compared: Counter[str] = Counter()
    for number in range(2000):
        form = ("png", "bmp", "tiff", "jpeg2k")[number % 4]
        made = foreign.FILES[form](Draw(number))
        plain = {"bmp": r"(8|24) bits, packing=0", "jpeg2k": r"kind=([4-9]|1\d)",
                 "tiff": r"8 bits, photometric=[012], extra=\[\].*turn=1"}  # fmt: skip
        if not re.search(plain.get(form, ""), made.words) or made.tolerance < 0 or made.data[10:14] == bytes(4):
            continue
        found = cv2.imdecode(np.frombuffer(made.data, np.uint8), cv2.IMREAD_COLOR_RGB)
        if found is not None:  # it does not read all TIFF files
            assert np.abs(found - made.pixels[..., :3] * 255).max() <= 1, made.words
            compared[form] += 1
    assert len(compared) == 4, compared
    assert min(compared.values()) > 20, compared


# -- what is refused ---------------------------------------------------------------------------------------------------

FILES = {form: file_of(smooth(HEIGHT, WIDTH), form, progressive=True) for form in MODES}  # of JPEG, others ignore it


@pytest.mark.parametrize("form", FILES)
def test_max_pixels(form: str) -> None:
    limit = HEIGHT * WIDTH
    assert read_header(FILES[form], limit).height == HEIGHT
    with pytest.raises(ValueError, match=f"41 x 67 is 2747 pixels, over the limit of max_pixels={limit - 1}"):
        read_header(FILES[form], limit - 1)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"%PDF-1.4", "PDF is not supported"),
        (b"hello world" * 9, r"not an image file \(starts with b'hello world"),
        (b"\0\0\1\0" + bytes(40), "ICO is not supported"),
        (b"\0\0\0\x18ftypisom" + bytes(40), "video"),
        (of_array(np.zeros((4, 4, 1), np.uint32), 1), "samples of 32 bits are not supported, only of 1 to 16"),
        (of_array(np.zeros((4, 4, 1), np.float32), 1, tags={339: [3]}), "floating-point samples"),
        (of_array(np.zeros((4, 4, 1), np.int16), 1, tags={339: [2]}), "signed samples of 16 bits"),
        (of_array(np.zeros((4, 4, 3), np.uint8), 2, tags={254: 1, 330: 8}), "raw photos are not supported"),
        (of_array(np.zeros((4, 4, 3), np.uint8), 8, tags={318: [0.3127, 0.329]}), r"L\*a\*b\* colors of another white"),
        (of_array(np.zeros((4, 4, 3), np.uint8), 6, tags={530: [1, 1], 529: [0.2126, 0.7152, 0.0722]}), "coefficients"),
        (of_array(np.zeros((4, 4, 3), np.uint8), 6, tags={530: [1, 1], 532: [16.0, 235.0, *[128.0, 240.0] * 2]}),
         "reference levels"),
    ],
)  # fmt: skip
def test_what_is_not_supported(data: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_header(data, LIMIT)


def test_heic_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(ValueError, match=r"HEIC needs pillow-heif, .*; pip install"):
        read_header(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(60), LIMIT)


@pytest.mark.parametrize("bits", [8, 16])
def test_high_throughput_jpeg2k(bits: int) -> None:
    if bits > 8:
        library("nvidia")
    y, x = np.mgrid[:9, :11]
    wanted = np.stack([20 * x + y, 25 * y, 255 - x * y], 2) * (1 if bits == 8 else 257)
    depth: Any = "uint8" if bits == 8 else "native"
    found = gi.decode_image(Path(__file__).parent / "golden" / f"htj2k-{bits}.j2k", device="cpu", depth=depth)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA"])
@pytest.mark.parametrize("container", [False, True])
def test_jpeg_xl(noise: NDArray[np.uint8], mode: str, container: bool) -> None:
    library("pillow_jxl")
    pixels = Image.fromarray(np.ascontiguousarray(noise[..., : len(mode)].squeeze()), mode)
    for size in ((WIDTH, HEIGHT), (64, 48), (300, 300), (2000, 1)):
        image, file = pixels.resize(size), io.BytesIO()
        image.save(file, "JXL", lossless=True, use_container=container)
        info = gi.image_info(file.getvalue())
        assert (info.width, info.height, info.codec) == (*size, "jxl")
        assert np.array_equal(gi.decode_image(file.getvalue(), device="cpu"), image.convert("RGB"))
        if "A" in mode:
            assert np.array_equal(gi.decode_image(file.getvalue(), color="rgba", device="cpu"), image.convert("RGBA"))


def test_jpegs_in_jpeg_xl() -> None:
    """Have the pixels of the JPEG."""
    library("pillow_jxl")
    data, file = PHOTOS[0].read_bytes(), io.BytesIO()
    Image.open(PHOTOS[0]).save(file, "JXL", lossless_jpeg=True)
    assert len(file.getvalue()) < len(data)
    assert np.array_equal(gi.decode_image(file.getvalue(), device="cpu"), pillow_pixels(data, 3))


def test_jpeg_xl_that_is_not_supported(monkeypatch: pytest.MonkeyPatch) -> None:
    library("pillow_jxl")
    file = io.BytesIO()
    Image.fromarray(np.zeros((5, 7), np.uint16)).save(file, "JXL", lossless=True)
    with pytest.raises(ValueError, match="JPEG XL with 16 bits per value is not supported, only with 8"):
        gi.image_info(file.getvalue())
    with pytest.raises(ValueError, match="32768 x 32768 is 1073741824 pixels, over the limit"):  # before it is decoded
        gi.image_info(b"\xff\x0a" + (0b10 << 1 | (1 << 15) - 1 << 3 | 1 << 21 | 1 << 24).to_bytes(4, "little"))
    good = io.BytesIO()
    Image.new("RGB", (60, 40)).save(good, "JXL")
    for stop in (2, 3, 20, len(good.getvalue()) - 5):
        with pytest.raises(ValueError, match=r"damaged JPEG XL file|truncated|no codestream"):
            gi.decode_image(good.getvalue()[:stop], device="cpu")
    monkeypatch.setitem(sys.modules, "pillow_jxl", None)
    with pytest.raises(ValueError, match=r"JPEG XL needs pillow-jxl-plugin, .*; pip install"):
        gi.decode_image(good.getvalue(), device="cpu")


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "RGB;16"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_heic(noise: NDArray[np.uint8], mode: str, orientation: int) -> None:
    """Without loss: matrix 0 stores R, G and B. The encoder keeps 10 of 16 bits, and turns images by boxes."""
    pixels = np.ascontiguousarray(noise[..., : len(mode.split(";")[0])].squeeze())
    stored = pixels.astype(np.uint16) << 8 | 0xC0 if mode == "RGB;16" else pixels
    kept = {"chroma": 444, "exif": with_orientation(orientation).tobytes(), "matrix_coefficients": 2 * (mode == "L")}
    file, turned = io.BytesIO(), Image.fromarray(pixels)
    library("pillow_heif").from_bytes(mode, (WIDTH, HEIGHT), stored.tobytes()).save(file, quality=-1, **kept)
    turned.getexif()[0x0112] = orientation
    upright = ImageOps.exif_transpose(turned)
    assert (info := gi.image_info(file.getvalue())).codec == "heic"
    assert (info.width, info.height, info.orientation) == (*upright.size, 1)
    assert np.array_equal(gi.decode_image(file.getvalue(), device="cpu"), upright.convert("RGB"))
    if mode == "RGBA":
        assert np.array_equal(gi.decode_image(file.getvalue(), color="rgba", device="cpu"), upright)
    if mode == "RGB;16":
        with pytest.raises(gi.DecodeError, match='values of 10 bits are not supported with depth="native"'):
            gi.decode_image(file.getvalue(), depth="native", device="cpu")


def test_nothing_is_warned_of(noise: NDArray[np.uint8]) -> None:
    """Tags that are wrong and have nothing to do with the pixels; every test here turns warnings into errors."""
    data = of_array(noise[..., :3], 2, tags={305: [1 << 31] * 3, 34665: [7] * 4})
    np.testing.assert_array_equal(shown(data), noise[..., :3])
    junk = file_of(smooth(HEIGHT, WIDTH), "JPEG", progressive=True)
    junk = junk[:2] + b"\xff\xe1\0\x0cExif\0\0MM\0\0junk\xff\xed\0\x02\0\0" + junk[2:]
    assert shown(junk).shape == (HEIGHT, WIDTH, 3)


# -- what a file may cost ----------------------------------------------------------------------------------------------


def with_chunks(chunks: bytes) -> bytes:
    plain = file_of(Image.new("RGB", (8, 8)), "PNG")
    return plain[:33] + chunks + plain[33:]


def with_length(data: bytes, name: bytes, length: int) -> bytes:
    at = data.index(name) - 4
    return data[:at] + struct.pack(">I", length) + data[at + 4 :]


def jpeg2k(side: int, *, tile: int = 0, precinct: int | None = None) -> bytes:
    """A JPEG 2000 of 64 x 64 that says it is larger."""
    data = bytearray(file_of(Image.new("RGB", (64, 64)), "JPEG2000", precinct_size=(64, 64)))
    header, box = data.index(b"\xff\x51"), data.index(b"ihdr")
    data[header + 6 : header + 14] = struct.pack(">II", side, side)
    data[header + 22 : header + 30] = struct.pack(">II", *(tile or side,) * 2)
    data[box + 4 : box + 12] = struct.pack(">II", side, side)
    if precinct is not None:
        at = data.index(b"\xff\x52") + 14
        data[at : at + 6] = bytes([precinct * 17]) * 6
    return bytes(data)


def scans(count: int) -> bytes:
    """A progressive JPEG of 2000 x 2000 with many scans that hold nothing."""
    data = file_of(Image.new("L", (2000, 2000)), "JPEG", progressive=True)
    last = data.rindex(b"\xff\xda")
    return data[:last] + b"\xff\xda\0\x08\x01\x01\0\x01\x3f\x21" * count + data[last:]


def costly() -> dict[str, tuple[bytes, str]]:
    """Small files that would cost much, and what is said of them; nothing where they are cheap."""
    tile = of_array(np.zeros((16, 16, 1), np.uint8), 1, tile=(16, 16), pack=zlib.compress, tags={259: 8})
    at = tile.index(struct.pack("<HHII", 322, 4, 1, 16))
    side = struct.pack("<I", 20000)
    huge = tile[: at + 8] + side + tile[at + 12 : at + 20] + side + tile[at + 24 :]
    text = png_chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(7_000_000), 9))
    profile = png_chunk(b"iCCP", b"k\0\0" + zlib.compress(bytes(100_000_000), 9))
    photo = file_of(Image.new("RGB", (64, 64)), "JPEG", progressive=True)
    png = file_of(Image.new("RGB", (61, 45)), "PNG")
    run = struct.pack("<2sIHHIIiiHHIIIIII", b"BM", 0, 0, 0, 1078, 40, 60000, 2000, 1, 8, 1, 0, 0, 0, 0, 0)
    return {
        "TIFF of one tile": (huge, "decoding a tile of 20000 x 20000 needs .* over the limit"),
        "PNG, forged length": (with_length(png, b"IDAT", 0x7FFFFFF0), "the data ends in chunk IDAT"),
        "PNG, forged size": (with_length(png, b"\0\0\0\x2d\x08\x02", 30000), "the data ends|over the limit|checksum"),
        "PNG with texts": (with_chunks(text * 900), ""),
        "PNG with a profile": (with_chunks(profile), ""),
        "PNG of many chunks": (with_chunks(png_chunk(b"tEXt", b"k\0v") * 300_000), ""),
        "JPEG of 20,000 scans": (scans(20_000), "more than 256 scans"),
        "JPEG of 200 scans": (scans(200), ""),
        "JPEG with fill bytes": (photo[:2] + b"\xff" * 30_000_000 + photo[2:], ""),
        "JPEG with zeros": (photo[:2] + b"\xff\0" * 15_000_000 + photo[2:], ""),
        "JPEG with markers": (photo[:2] + b"\xff\xe5\0\x02" * 1_000_000 + photo[2:], ""),
        "JPEG with junk after it": (photo + b"\xff\xda\0\x08" * 1_000_000, ""),
        "JPEG 2000 of small tiles": (jpeg2k(1000, tile=4), "decoding 62500 tiles needs"),
        "JPEG 2000 of small precincts": (jpeg2k(5000, precinct=1), "decoding small code blocks or precincts needs"),
        "JPEG 2000, forged size": (jpeg2k(2000), "|damaged JPEG 2000 file"),
        "JPEG 2000, tiles of nothing": (jpeg2k(64, tile=0).replace(b"\0\0\0\x40" * 2 + b"\0" * 8 + b"\0\3",
                                        bytes(16) + b"\0\3"), "damaged JPEG 2000"),
        "BMP of runs": (run + bytes(1024) + b"\0\0" * 2000, "120000000 run-length encoded pixels, over the limit"),
        "PNM with comments": (b"P6\n#" + b"c" * 30_000_000 + b"\n" + b"#\n" * 10_000 + b"2 2 255\n" + bytes(12), ""),
        "GIF with comments": (FILES["GIF"][:13 + 768] + b"!\xfe" + b"\1x" * 2_000_000 + b"\0" +
                              FILES["GIF"][13 + 768 :], ""),
    }  # fmt: skip


@pytest.mark.slow
def test_files_that_would_cost_much_are_refused_or_cheap() -> None:
    for name, (data, words) in costly().items():
        Path("/proc/self/clear_refs").write_text("5")  # begin to measure the peak
        before, reason, size = peak(), "", 0
        try:
            header = read_header(data, LIMIT)
            size = header.height * header.width
            decode(data, header, DecodeOptions())
        except ValueError as error:
            reason = str(error)
        assert re.search(words, reason) if words else not reason, (name, reason)
        assert peak() - before <= 24 * size + 64_000_000 + len(data), name
