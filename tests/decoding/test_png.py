"""Our PNG decoder: its pixels and its outcome are Pillow's, for every build, every filter and any damage."""

import io
import struct
import sys
import tracemalloc
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import gpuimg as gi
from gpuimg._decoding import one_file, pillow, png
from gpuimg._decoding.options import DecodeOptions
from gpuimg._decoding.png import part_of

from ..libraries import needs
from ..robustness.formats import with_checksums
from ..robustness.mutate import Draw, changed
from ..samples import file_of, png_chunk, with_orientation
from .pngs import BUILDS, COLORS, FILTERS, OPTIONS, SIGNATURE, encode, made

LIMIT = 1 << 27
PLAIN = DecodeOptions()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng()


def pillows(data: bytes, options: DecodeOptions = PLAIN) -> NDArray[np.uint8]:
    return pillow.decode(data, pillow.read_header(data, LIMIT), options)


def ours(data: bytes, options: DecodeOptions = PLAIN) -> NDArray[np.uint8]:
    part = part_of(data, options)
    assert part is not None
    return part.pixels()


def of_file(data: bytes, options: DecodeOptions) -> NDArray[Any]:
    return one_file.decode(data, pillow.read_header(data, LIMIT), options)


@pytest.fixture(params=["deflate", "isal", "zlib"])
def inflater(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if request.param != "zlib":
        needs(request.param)
    for name in {"deflate", "isal"} - {request.param}:
        monkeypatch.setitem(sys.modules, name, None)
    png.inflater.cache_clear()
    assert png.inflater().name.startswith(request.param)
    yield request.param
    png.inflater.cache_clear()


@pytest.mark.parametrize("filters", [*((kind,) for kind in FILTERS), tuple(FILTERS), (4, 3, 1, 2, 0)], ids=str)
@pytest.mark.parametrize(("color", "depth"), BUILDS)
def test_every_build_and_filter(color: str, depth: int, filters: tuple[int, ...], rng: np.random.Generator) -> None:
    for height, width in ((1, 1), (1, 7), (9, 1), (13, 21), (5, 33)):
        data = made(rng, height, width, color, depth, filters, part=int(rng.integers(1, 300)))
        for options in OPTIONS:
            np.testing.assert_array_equal(ours(data, options), pillows(data, options), err_msg=str(options))
    for width in range(1, 20):  # up to several vectors
        data = made(rng, 4, width, color, depth, filters)
        np.testing.assert_array_equal(ours(data), pillows(data))


@pytest.mark.parametrize("color", ["gray", "rgb", "gray and alpha", "rgb and alpha"])
@pytest.mark.parametrize("kind", FILTERS)
def test_16_bits_as_stored(color: str, kind: int, rng: np.random.Generator) -> None:
    values = rng.integers(0, 1 << 16, (14, 23, {"gray": 1, "rgb": 3, "gray and alpha": 2, "rgb and alpha": 4}[color]))
    data = encode(values, color, 16, (kind, 4))
    found = png.decode16(data)
    assert found is not None
    np.testing.assert_array_equal(found, values)
    name = {1: "gray", 2: "graya", 3: "rgb", 4: "rgba"}[values.shape[2]]
    np.testing.assert_array_equal(gi.decode_batch([data], color=name, depth="native", device="cpu")[0], values)


@pytest.mark.parametrize("size", [(1, 1), (13, 21)], ids=["whole", "too short"])
def test_interlaced_files_are_pillows(size: tuple[int, int], rng: np.random.Generator) -> None:
    """One pixel is stored as if it were not interlaced."""
    data = bytearray(made(rng, *size, "rgb", 8, (0,)))
    data[28] = 1
    assert part_of(with_checksums(bytes(data)), PLAIN) is None
    assert_as_pillow(with_checksums(bytes(data)))
    assert (outcome(with_checksums(bytes(data)))[0] == "ok") == (size == (1, 1))


@pytest.mark.parametrize("interlaced", [False, True], ids=["ours", "Pillow's"])
@pytest.mark.parametrize(("color", "depth"), [build for build in BUILDS if build[0] in ("gray", "rgb")])
def test_a_transparent_color(color: str, depth: int, interlaced: bool, rng: np.random.Generator) -> None:
    """It is compared with all bits of the file (PNG, 11.3.1.1), whose higher ones in the chunk do not count."""
    samples, key = COLORS[color][1], 1 << depth - 1 | 1 << 15
    values = rng.choice([key & (1 << depth) - 1, 0, (1 << depth) - 1], (9, 20, samples))
    values[:, ::2] = values[:, ::2, :1]  # some are the key in all samples
    near = (key ^ 1) & (1 << depth) - 1
    values[::3] = np.where(values[::3] == values.max(), near, values[::3])
    transparency = struct.pack(">H", key) * samples
    data = encode(values, color, depth, (0, 2), transparency=transparency, interlaced=interlaced)
    clear = (values == key & (1 << depth) - 1).all(2)
    colors = (values >> 8 if depth == 16 else values * 255 // ((1 << depth) - 1)).astype(int)
    shown = np.broadcast_to(colors, (9, 20, 3))
    assert clear.any()
    if interlaced and (color, depth) == ("rgb", 16):
        with pytest.raises(ValueError, match="a transparent color of a 16-bit RGB file"):
            of_file(data, DecodeOptions("rgba"))
        return
    whole = of_file(data, DecodeOptions("rgba"))
    np.testing.assert_array_equal(whole, np.dstack([shown, np.where(clear, 0, 255)]))
    for alpha, level in (("black", 0), ("white", 255)):
        laid = of_file(data, DecodeOptions(alpha=alpha))
        np.testing.assert_array_equal(laid, np.where(clear[..., None], level, shown))
    np.testing.assert_array_equal(of_file(data, DecodeOptions()), shown)
    if depth == 16:
        deep = of_file(data, DecodeOptions("rgba", depth="native"))
        np.testing.assert_array_equal(deep, np.dstack([np.broadcast_to(values, (9, 20, 3)), np.where(clear, 0, 65535)]))


def test_triples_of_neighbors(rng: np.random.Generator) -> None:
    """Pairs of rows c, b and x, a: the second pixel is predicted from a, b and c, here all a and b, and some c."""
    a, b, c = (values.ravel() for values in np.mgrid[:256, :256, rng.integers(40) : 256 : 40])
    top, below = np.stack([c, b], -1)[None], np.stack([a, np.zeros_like(a)], -1)[None]
    values = np.concatenate([top, below]).reshape(2, -1, 1)
    np.testing.assert_array_equal(ours(encode(values, "gray", 8, (4,)), DecodeOptions("gray")), values)


@pytest.mark.parametrize("kind", FILTERS)
def test_areas_of_one_value(kind: int, rng: np.random.Generator) -> None:
    areas = np.kron(rng.integers(0, 3, (60, 90, 1)), np.ones((3, 8, 1), int))  # eight pixels are looked at together
    areas[rng.integers(0, 180, 2000), 8 * rng.integers(0, 90, 2000) + 7] = 9
    for filters in ((kind,), (kind, 2, 2, 2)):  # four rows together, and one by one
        np.testing.assert_array_equal(ours(encode(areas, "gray", 8, filters), DecodeOptions("gray")), areas)


# -- regions; robustness/guard_pages.py has those of any file ----------------------------------------------------------


@pytest.mark.parametrize("orientation", range(1, 9))
def test_crops_of_turned_files(orientation: int, rng: np.random.Generator, inflater: str) -> None:
    data = file_of(rng.integers(0, 256, (41, 67, 3), np.uint8), "PNG", exif=with_orientation(orientation))
    whole = gi.decode_batch([data], device="cpu")[0]
    for top, left, height, width in ((0, 0, 12, 17), (3, 5, 20, 9), (20, 11, 21, 30), (40, 0, 1, 30)):
        x = gi.crop(gi.open_batch([data], device="cpu"), top, left, height, width)
        np.testing.assert_array_equal(x.array()[0], whole[top : top + height, left : left + width])


def outcome(data: bytes, options: DecodeOptions = PLAIN) -> tuple[str, Any]:
    """What Pillow's decoder makes of a file: a reason, or pixels."""
    try:
        return "ok", pillows(data, options)
    except ValueError as error:
        return str(error), None


def assert_as_pillow(data: bytes) -> None:
    reason, pixels = outcome(data)
    found = gi.decode_batch([data], on_error="fill", device="cpu")
    assert found.status[0] == reason
    if pixels is not None:
        np.testing.assert_array_equal(found[0], pixels)


@pytest.mark.parametrize("sealed", [False, True])
def test_damaged_files_end_as_with_pillow(sealed: bool, rng: np.random.Generator, inflater: str) -> None:
    for color, depth in BUILDS:
        data = made(rng, 17, 19, color, depth, tuple(FILTERS), part=100)
        for _ in range(20):
            broken = changed(Draw(int(rng.integers(1 << 40))), data)[0]
            assert_as_pillow(with_checksums(broken) if sealed else broken)


def test_damage_below_a_crop_is_found(rng: np.random.Generator, inflater: str) -> None:
    data = file_of(rng.integers(0, 256, (60, 50, 3), np.uint8), "PNG")
    at = data.index(b"IDAT")
    end = at + 4 + int.from_bytes(data[at - 4 : at], "big")
    bodies = data[at + 4 : end - 99], data[end - 99 : end]
    data = data[: at - 4] + b"".join(png_chunk(b"IDAT", body) for body in bodies) + png_chunk(b"IEND", b"")
    end += 12
    for place in (end - 2, end - 80, end - 102):  # the checksum, pixels, and the name of the last chunk of pixels
        broken = data[:place] + bytes([data[place] ^ 8]) + data[place + 1 :]
        reason, _ = outcome(broken)
        assert reason.startswith("damaged PNG file")
        x = gi.open_batch([broken], on_error="fill", device="cpu")
        cropped = gi.crop(x, 0, 0, 10, 10)
        cropped.compute()
        assert cropped.status[0] == reason


def with_rows(rows: bytes, **header: int) -> bytes:
    """A gray file of 8 x 8 with these bytes for its rows."""
    head = struct.pack(">IIBBBBB", header.get("width", 8), header.get("height", 8), 8, 0, 0, 0, 0)
    chunks = (b"IHDR", head), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b"")
    return SIGNATURE + b"".join(png_chunk(*chunk) for chunk in chunks)


@pytest.mark.parametrize("rows", [*map(bytes, (0, 71, 73, 720)), b"\5" + bytes(71), bytes(63) + b"\xff" + bytes(8)])
def test_rows_that_are_not_those_of_the_header(rows: bytes, inflater: str) -> None:
    assert part_of(with_rows(rows), PLAIN) is None
    assert_as_pillow(with_rows(rows))


def test_irregular_files_end_as_with_pillows_open(rng: np.random.Generator) -> None:
    plain = made(rng, 8, 8, "gray", 8, (0,), part=50)
    end = plain.index(b"IEND") - 4
    key = png_chunk(b"tRNS", b"\0\7")
    text, middle = png_chunk(b"tEXt", b"k\0v"), plain.index(b"IDAT") + 8 + 50
    for data in (plain[:33] + text + plain[33:], plain[:end] + text + plain[end:]):
        assert part_of(data, PLAIN) is not None
    irregular = [plain[:end], plain[:end] + b"\0\0\0\0\0\1\2\3junk", plain.replace(b"IDAT", b"IDA\1")]
    irregular.append(plain[:29] + bytes(4) + plain[33:])  # with another checksum of the header
    keys = key, key[:-1] + b"?", png_chunk(b"tRNS", b"\7")
    irregular += [plain[:33] + one + plain[33:] for one in (*keys, plain[8:33])]  # of which one is a second header
    irregular += [plain[:middle] + one + plain[middle:] for one in (text, png_chunk(b"abCd", b""))]  # between two IDAT
    for data in (*irregular, plain[:8] + text + plain[8:]):  # before the header
        found = gi.decode_batch([data], on_error="fill", device="cpu")
        try:
            pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
        except (OSError, SyntaxError, ValueError):
            assert found.status != ["ok"], data
            assert part_of(data, PLAIN) is None
        else:
            assert found.status == ["ok"], data
            np.testing.assert_array_equal(found[0], pixels)


def test_profiles_are_pillows(rng: np.random.Generator) -> None:
    plain = made(rng, 8, 8, "rgb", 8, (0,))
    srgb = DecodeOptions(icc="srgb")
    np.testing.assert_array_equal(ours(plain, srgb), pillows(plain, srgb))
    assert part_of(plain[:33] + png_chunk(b"iCCP", b"k\0\0" + zlib.compress(b"x")) + plain[33:], srgb) is None


def test_a_bomb_takes_no_memory(inflater: str) -> None:
    """300 MB in 300 KB, for 8 x 8 pixels; and a header of 100 megapixels with nothing behind it."""
    bomb, huge = with_rows(bytes(300_000_000)), with_rows(bytes(10), width=10_000, height=10_000)
    tracemalloc.start()
    try:
        assert part_of(bomb, PLAIN) is None
        assert part_of(bomb, PLAIN, np.array([0, 0, 4, 4])) is None or inflater != "deflate"
        assert part_of(huge, PLAIN) is None
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()
    assert_as_pillow(bomb)
