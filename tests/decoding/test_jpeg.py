"""Our decoder of baseline JPEGs: Pillow's pixels (libjpeg-turbo's) bit for bit, whole images and regions."""

import re
import struct
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from PIL import Image, ImageOps

import gpuimg as gi
from gpuimg._batch.batch import recording_of
from gpuimg._data.images import Pixels, whole_regions
from gpuimg._decoding import exif
from gpuimg._runtimes.jpeg_upload import Upload
from gpuimg.kernels.jpeg import layout as words

from ..samples import PHOTOS, file_of
from . import jpegs
from .jpegs import DHT, DQT, DRI, SAMPLINGS, SOS, Decoder, assert_pillows, encoded, noise, pillow_pixels, rebuilt

# -- whole images ------------------------------------------------------------------------------------------------------


def test_made_files(decoders: tuple[Decoder, Decoder], photo: Image.Image) -> None:
    narrow = ours = 0
    for k, (name, data) in enumerate(jpegs.made(photo)):
        if jpegs.is_ours(data):
            ours += 1
            assert_pillows(decoders[k % 2], data, name)
        else:
            narrow += 1
            assert gi.image_info(data).width < 5, name
            assert gi.image_info(data).chroma_subsampling in ("4:2:0", "4:2:2"), name
            np.testing.assert_array_equal(gi.decode_batch([data], device="cpu")[0], pillow_pixels(data))
    assert ours >= 300
    assert narrow == 2 * 2 * len(jpegs.OPTIONS)


@pytest.mark.parametrize("path", PHOTOS, ids=lambda path: path.stem)
def test_photos(path: Path, decoders: tuple[Decoder, Decoder]) -> None:
    data = path.read_bytes()
    assert_pillows(decoders[0], data)
    np.testing.assert_array_equal(gi.decode_batch([path], device="cpu")[0], jpegs.upright_pixels(data))


@pytest.mark.parametrize("factor", [1, 9, 101, 255, 1021, 5001])
def test_sums_wrap_as_libjpegs(factor: int, decoders: tuple[Decoder, Decoder], photo: Image.Image) -> None:
    """Of absurd coefficients, by quantization steps of 16 bits."""
    for k, quality in enumerate((20, 60, 90, 100)):
        for sampling in SAMPLINGS:
            for image in (photo.resize((90, 71)), noise(71, 90, quality)):
                assert_pillows(decoders[k % 2], with_wide_steps(encoded(image, sampling, quality=quality), factor))


# -- what a file may be like -------------------------------------------------------------------------------------------

Segments = list[tuple[int, bytes]]


def tables_in(marker: int, body: bytes) -> Iterator[bytes]:
    while body:
        size = 17 + sum(body[1:17]) if marker == DHT else 65
        yield body[:size]
        body = body[size:]


def each_table(data: bytes, change: Callable[[int, bytes], list[bytes]]) -> bytes:
    def changed(marker: int, body: bytes) -> Segments:
        if marker not in (DHT, DQT):
            return [(marker, body)]
        return [(marker, new) for one in tables_in(marker, body) for new in change(marker, one)]

    return rebuilt(data, changed)


def in_one_segment(data: bytes) -> bytes:
    segments = jpegs.header_segments(data)
    whole = [(kind, b"".join(body for marker, body in segments if marker == kind)) for kind in (DHT, DQT)]
    rest = [one for one in segments if one[0] not in (DHT, DQT)]
    return jpegs.joined([*rest[:-1], *whole, rest[-1]], data[jpegs.scan_start(data) :])


def with_wide_steps(data: bytes, factor: int) -> bytes:
    def change(marker: int, one: bytes) -> list[bytes]:
        steps = np.frombuffer(one[1:], np.uint8).astype(">u2") * factor
        return [bytes((0x10 | one[0],)) + steps.astype(">u2").tobytes()] if marker == DQT else [one]

    return each_table(data, change)


def with_table_ids(data: bytes, ids: dict[int, int]) -> bytes:
    def changed(marker: int, body: bytes) -> Segments:
        if marker == DHT:
            return [(DHT, bytes((one[0] & 16 | ids[one[0] & 15],)) + one[1:]) for one in tables_in(DHT, body)]
        if marker == SOS:
            scan = bytearray(body)
            for k in range(2, 1 + 2 * body[0], 2):
                scan[k] = ids[scan[k] >> 4] << 4 | ids[scan[k] & 15]
            body = bytes(scan)
        return [(marker, body)]

    return rebuilt(data, changed)


def redefined(data: bytes) -> bytes:
    return each_table(data, lambda marker, one: [one[:1] + bytes(len(one) - 1) if marker == DQT else one, one])


def filled(data: bytes) -> bytes:
    parts = [b"\xff" * (k % 4) + jpegs.segment(*one) for k, one in enumerate(jpegs.header_segments(data))]
    return b"\xff\xd8" + b"".join(parts) + data[jpegs.scan_start(data) :]


def with_segments(data: bytes, *new: tuple[int, bytes]) -> bytes:
    return rebuilt(data, lambda marker, body: [(marker, body)] if marker == SOS else [(marker, body), *new])


def with_colors(data: bytes, jfif: bool, adobe: int, ids: bytes) -> bytes:
    def changed(marker: int, body: bytes) -> Segments:
        if marker == 0xE0:
            app14 = [(0xEE, b"Adobe\0\x64\0\0\0\0" + bytes((adobe,)))] if adobe >= 0 else []
            return ([(marker, body)] if jfif else []) + app14
        if marker == 0xC0:
            body = b"".join([body[:6], *(bytes((ids[c],)) + body[7 + 3 * c : 9 + 3 * c] for c in range(3))])
        if marker == SOS:
            body = b"".join([body[:1], *(bytes((ids[c], body[2 + 2 * c])) for c in range(3)), body[7:]])
        return [(marker, body)]

    return rebuilt(data, changed)


MADE: dict[str, Callable[[bytes], bytes]] = {
    "tables in one segment": in_one_segment,
    "tables one by one": lambda data: each_table(in_one_segment(data), lambda _, one: [one]),
    "tables defined twice": redefined,
    "Huffman tables 2 and 3": lambda data: with_table_ids(data, {0: 2, 1: 3}),
    "Huffman tables 3 and 1": lambda data: with_table_ids(data, {0: 3, 1: 1}),
    "fill bytes": filled,
    "comments": lambda data: with_segments(data, (0xFE, b"a comment"), (0xFE, b"")),
    "applications": lambda data: with_segments(data, (0xE2, b"x" * 5000), (0xEF, b"\xff\xda\xff\xc0"), (0xE0, b"")),
    "no JFIF": lambda data: with_colors(data, False, -1, b"\1\2\3"),
    "ids from 0": lambda data: with_colors(data, False, -1, b"\0\1\2"),
    "ids of letters": lambda data: with_colors(data, True, -1, b"RGB"),
    "Adobe YCbCr": lambda data: with_colors(data, False, 1, b"\1\2\3"),
    "Adobe unknown": lambda data: with_colors(data, False, 7, b"\1\2\3"),
    "JFIF and Adobe": lambda data: with_colors(data, True, 0, b"\1\2\3"),
    "restart interval 0": lambda data: with_segments(data, (DRI, b"\0\0")),
    "restart interval beyond the image": lambda data: with_segments(data, (DRI, b"\xff\xff")),
    "extended": lambda data: rebuilt(data, lambda marker, body: [(0xC1 if marker == 0xC0 else marker, body)]),
    "junk after the end": lambda data: data + b"junk \xff\xd8\xff\xda" + bytes(1000),
    "fill bytes before the end": lambda data: data[:-2] + b"\xff\xff\xff\xff\xd9",
}


@pytest.mark.parametrize("how", MADE)
def test_what_a_file_may_be_like(how: str, decoders: tuple[Decoder, Decoder], photo: Image.Image) -> None:
    for k, sampling in enumerate(("4:2:0", "4:4:4", "4:2:2")):
        data = MADE[how](encoded(photo.resize((90, 70 + k)), sampling, quality=70 + k))
        assert_pillows(decoders[k % 2], data, f"{how}, {sampling}")


@pytest.mark.parametrize("ids", [b"RGB", b"\1\2\3"])
def test_rgb_by_marker_and_by_names(ids: bytes, decoders: tuple[Decoder, Decoder], photo: Image.Image) -> None:
    data = with_colors(encoded(photo.resize((70, 55)), "4:4:4"), False, -1 if ids == b"RGB" else 0, ids)
    assert jpegs.header_of(data)["color"] == words.RGB
    assert_pillows(decoders[0], data)


# -- orientation -------------------------------------------------------------------------------------------------------


WIDTHS = {3: 2, 4: 4, 8: 2, 9: 4, 13: 4}  # bytes of TIFF types; of others one


def exif_block(order: bytes, magic: bytes, kind: int, count: int, value: int) -> bytes:
    """A directory of one entry, the orientation, after another one."""
    way: Literal["little", "big"] = "little" if order[:1] == b"I" else "big"
    number = value.to_bytes(WIDTHS.get(kind, 1), way).ljust(4, b"\0")
    entries = (0x010F, 2, 4, b"abc\0"), (0x0112, kind, count, number)
    directory = b"".join(
        tag.to_bytes(2, way) + type_.to_bytes(2, way) + many.to_bytes(4, way) + content
        for tag, type_, many, content in entries
    )
    return order + magic + (8).to_bytes(4, way) + (2).to_bytes(2, way) + directory + bytes(4)


@pytest.mark.parametrize("order", [b"II", b"MM", b"IM", b"MI", b"\0\0"])
@pytest.mark.parametrize("magic", [b"\0*", b"*\0", b"\0+", b"+\0", b"\0\0", b"**", b"\0U", b"\0\x29"])
def test_orientation_is_where_pillow_sees_one(order: bytes, magic: bytes) -> None:
    """For every type and number of values. None of the fractions among them is a whole number."""
    if (order, magic) == (b"MM", b"\0+"):
        pytest.skip("Pillow takes a BigTIFF header of this byte order for a plain one")
    pixels = np.arange(6, dtype=np.uint8).reshape(2, 3)
    for kind in (*range(21), 129, 255, 0xFFFF):
        for count in (0, 1, 2, 3, 4, 5, 0xDA, 0x100, 0x10000, 0xC0000100, 0xFFFFFFFF):
            for value in (0, 1, 2, 6, 8, 9, 128, 255):
                block = exif_block(order, magic, kind, count, value)
                image = Image.fromarray(pixels)
                image.info["exif"] = b"Exif\0\0" + block
                with warnings.catch_warnings(), suppress(SyntaxError, struct.error):  # no TIFF file, or a BigTIFF
                    warnings.simplefilter("ignore")  # of damaged blocks
                    image = ImageOps.exif_transpose(image)
                found = exif.turned(pixels[..., None], exif.orientation_in(block))[..., 0]
                np.testing.assert_array_equal(found, np.asarray(image), err_msg=f"{kind} {count} {value}")


# -- regions -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", jpegs.SCALES)
def test_regions_of_the_whole(scale: int, decoders: tuple[Decoder, Decoder], photo: Image.Image) -> None:
    """GPUIMG_TEST_REGIONS says how many."""
    rng = np.random.default_rng()
    options: list[dict[str, Any]] = [{"restart_marker_blocks": blocks} for blocks in (1, 3, 7, 19, 40)]
    options += [{}, {"optimize": True, "quality": 96}]
    files = [
        encoded(photo.resize((203 - k, 170 + k)), sampling, **options[k % len(options)])
        for k, sampling in enumerate(SAMPLINGS * len(options))  # every pair, as 6 and 7 have no common factor
    ]
    cases = [(data, channels) for data in files for channels in jpegs.channels_of(data)]
    wholes = [pillow_pixels(data, channels, scale) for data, channels in cases]
    for k in range(jpegs.REGIONS):
        (data, channels), whole = cases[k % len(cases)], wholes[k % len(cases)]
        x0, y0, x1, y1 = region = jpegs.some_region(rng, *whole.shape[:2], (1, 2, 40, 1000)[k // len(cases) % 4])
        found = decoders[k % 2](data, region, channels, scale=scale)
        assert found.how == words.DONE
        np.testing.assert_array_equal(found.pixels, whole[y0:y1, x0:x1], err_msg=f"{k} {region}")


# -- headers, and what Pillow decodes ----------------------------------------------------------------------------------


THEIRS: dict[str, Callable[[Image.Image], bytes]] = {
    "4:1:1": lambda image: jpegs.by_opencv(image, factor="411"),
    "narrow 4:2:0": lambda image: encoded(image.resize((3, 50))),
    "narrow 4:2:2": lambda image: encoded(image.resize((4, 50)), "4:2:2"),
    "narrow progressive": lambda image: encoded(image.resize((3, 50)), progressive=True),
    "cmyk": lambda image: file_of(image.convert("CMYK")),
    "rgb": lambda image: encoded(image, "rgb"),  # in gray
}


@pytest.mark.parametrize("how", THEIRS)
def test_what_pillow_decodes(how: str, photo: Image.Image) -> None:
    data = THEIRS[how](photo.resize((57, 43)))
    assert how == "rgb" or not jpegs.is_ours(data)
    np.testing.assert_array_equal(gi.decode_batch([data], device="cpu")[0], pillow_pixels(data))
    part = gi.crop(gi.open_batch([data], device="cpu"), 7, 1, 20, 2).compute("uint8")[0]
    np.testing.assert_array_equal(part, pillow_pixels(data)[7:27, 1:3])
    if how != "cmyk":  # which has no luma
        gray = gi.decode_batch([data], device="cpu", color="gray")[0]
        np.testing.assert_array_equal(gray, pillow_pixels(data, 1))


def test_twelve_bits_are_refused(photo: Image.Image) -> None:
    data = rebuilt(encoded(photo), lambda marker, body: [(marker, b"\x0c" + body[1:] if marker == 0xC0 else body)])
    with pytest.raises(gi.DecodeError, match="12"):
        gi.decode_batch([data], device="cpu")


# -- damaged files -----------------------------------------------------------------------------------------------------


def status_of(data: bytes) -> str:
    (status,) = gi.decode_batch([data], device="cpu", on_error="fill").status
    return status


@pytest.mark.parametrize("sampling", ["4:2:0", "4:4:4", "gray"])
def test_truncated_files(sampling: str, decoders: tuple[Decoder, Decoder], photo: Image.Image) -> None:
    """The reason says in which row; what needs only rows above that decodes."""
    data = encoded(photo, sampling)
    whole, start = pillow_pixels(data), jpegs.scan_start(data)
    side = 16 if sampling == "4:2:0" else 8
    rows, last = -(-whole.shape[0] // side), 0
    for size in range(0, len(data), len(data) // 20):
        cut = data[:size]
        if size < start:
            assert "header" in status_of(cut) or "empty" in status_of(cut)
            continue
        match = re.fullmatch(rf"the data end in MCU row (\d+) of {rows}", status_of(cut))
        assert match, status_of(cut)
        row = int(match[1])
        assert last <= row <= rows
        last = row
        above = (row - 1) * side - (1 if side == 16 else 0)  # chroma between rows needs the next one
        if above > 0:
            part = gi.crop(gi.open_batch([cut], device="cpu"), 0, 3, above, 100).compute("uint8")[0]
            np.testing.assert_array_equal(part, whole[:above, 3:103])
        assert decoders[0](cut).how == words.ENDS
    assert last > rows // 2


def test_an_invalid_code(decoders: tuple[Decoder, Decoder], photo: Image.Image) -> None:
    """Without an end of image Pillow, which would guess, does not take it; of all ones no code is made."""
    data = encoded(photo, "gray", restart_marker_rows=1)
    marker = data.index(b"\xff\xd3")
    broken = data[: marker + 2] + b"\xfe" * 200
    found = decoders[0](broken)
    assert found.how in (words.BAD_CODE, words.OVERRUN)
    assert found.row == 4
    assert re.match("MCU row 5: (invalid Huffman code|a block has more than 64)", status_of(broken))


@pytest.mark.parametrize("how", ["no marker", "out of order", "an interval missing", "eight intervals missing"])
def test_restart_markers(how: str, decoders: tuple[Decoder, Decoder], photo: Image.Image) -> None:
    """Pillow decides; intervals that are passed over unseen would make the rest another part of the image."""
    data = encoded(photo, quality=90, restart_marker_blocks=5)
    at = [one.start() for one in re.finditer(rb"\xff[\xd0-\xd7]", data) if one.start() > jpegs.scan_start(data)]
    stop = {"an interval missing": at[9], "eight intervals missing": at[16]}.get(how, at[8] + 2)
    bad = data[: at[8]] + (b"\xff\xd5" if how == "out of order" else b"") + data[stop:]
    for region in ((120, 230, 160, 240), (120, 100, 160, 110))[: 1 + (how != "eight intervals missing")]:
        assert decoders[0](data, region).how == words.DONE
        assert decoders[0](bad, region).how != words.DONE
    assert decoders[0](bad).how == words.BAD_RESTART if how == "no marker" else decoders[0](bad).how != words.DONE
    if "interval" not in how:
        np.testing.assert_array_equal(gi.decode_batch([bad], device="cpu")[0], pillow_pixels(bad))


def huffman(kind: int, counts: dict[int, int], symbols: bytes) -> bytes:
    return bytes((kind,)) + bytes(counts.get(length, 0) for length in range(1, 17)) + symbols


@pytest.mark.parametrize(
    "table",
    [
        huffman(0x00, {1: 3}, b"\0\1\2"), huffman(0x00, {2: 1, 3: 7}, bytes(8)), huffman(0x00, {2: 1}, b"\x10"),
        huffman(0x10, {1: 2, 2: 1}, b"\0\1\2"), huffman(0x10, {16: 2, 1: 2}, b"\0\1\2\3"),
    ],
)  # fmt: skip
def test_illegal_tables(table: bytes, decoders: tuple[Decoder, Decoder], photo: Image.Image) -> None:
    def change(marker: int, one: bytes) -> list[bytes]:
        return [table] if marker == DHT and one[0] == table[0] else [one]

    data = each_table(encoded(photo, "gray"), change)
    assert decoders[0](data).how == words.BAD_TABLE
    assert decoders[0](encoded(photo, "gray")).how == words.DONE  # with the same memory
    with pytest.raises(OSError, match=r"broken|truncated"):
        pillow_pixels(data)
    assert status_of(data) == "invalid Huffman table"
    images: Any = recording_of(gi.open_batch([data, encoded(photo, "gray")], device="cpu")).source
    pixels = Pixels(np.empty(0, np.uint8), np.zeros(2, np.int64), images.sizes, 3)
    uploaded = Upload(images, pixels, whole_regions(images.sizes))
    assert (uploaded.refused, uploaded.taken) == ([0], [1])  # nor are such files uploaded to a GPU
