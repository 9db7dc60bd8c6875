"""Our decoder of progressive JPEGs: Pillow's pixels bit for bit, and Pillow where libjpeg guesses, warns or refuses."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit
from PIL import Image, ImageOps

import gpuimg as gi
from gpuimg._decoding.jpeg import read_headers
from gpuimg.kernels.jpeg import deposit, progressive
from gpuimg.kernels.jpeg import layout as words

from . import jpegs
from .jpegs import DQT, DRI, SOS, Decoder, encoded, pillow_pixels, segment
from .progressive_jpegs import Scan, made, picture, written

PHOTOS = sorted((Path(__file__).parents[2] / "examples" / "photos").glob("*.jpg"))
SAMPLINGS = ("4:4:4", "4:2:2", "4:2:0", "gray", "rgb")
OPTIONS: tuple[dict[str, Any], ...] = (
    {"quality": 88}, {"quality": 20, "restart_marker_rows": 1}, {"quality": 97, "restart_marker_blocks": 7},
)  # fmt: skip


def assert_pillows(decoder: Decoder, data: bytes, rng: np.random.Generator, name: str = "") -> None:
    """The whole image and a region, at some scale, in color or gray."""
    header = jpegs.header_of(data)
    assert header["kind"] == words.PROGRESSIVE, name
    channels = 3 if header["color"] == words.RGB else int(rng.choice((3, 1)))
    scale = int(rng.choice((8, 8, 4, 2, 1)))
    expected = pillow_pixels(data, channels, scale)
    height, width = expected.shape[:2]
    x0, y0 = int(rng.integers(width)), int(rng.integers(height))
    for region in (
        (0, 0, width, height),
        (x0, y0, int(rng.integers(x0, width)) + 1, int(rng.integers(y0, height)) + 1),
    ):
        found = decoder(data, region, channels, scale=scale)
        assert found.how == words.DONE, name
        x, y, right, below = region
        np.testing.assert_array_equal(found.pixels, expected[y:below, x:right], err_msg=f"{name} {region} {scale}")


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("path", PHOTOS, ids=lambda path: path.stem)
def test_photos(path: Path, sampling: str, decoders: tuple[Decoder, Decoder]) -> None:
    rng = np.random.default_rng()
    photo = Image.open(path).convert("RGB")
    for k, options in enumerate(OPTIONS):
        data = encoded(photo, sampling, progressive=True, **options)
        for _ in range(3):
            assert_pillows(decoders[k % 2], data, rng, f"{options}")


def test_scripts(decoders: tuple[Decoder, Decoder]) -> None:
    """Every order of scans, and restart intervals that change from scan to scan."""
    ours = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        data = made(rng, 300 if seed % 25 == 0 else 60)
        if jpegs.is_ours(data):
            ours += 1
            assert_pillows(decoders[seed % 2], data, rng, str(seed))
        else:
            assert gi.image_info(data).width < 5  # narrow, with chroma of half the columns
    assert ours > 130


@pytest.mark.parametrize("value", range(1, 9))
def test_batches(value: int, photo: Image.Image) -> None:
    """Beside other files, turned, and in crops."""
    exif = Image.Exif()
    exif[0x0112] = value
    options = [{"progressive": True, "exif": exif}, {"exif": exif}, {"progressive": True}]
    files = [encoded(photo.resize((90 + 9 * k, 61)), **one) for k, one in enumerate(options * 2)]
    upright = [np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data)))) for data in files]
    for found, expected in zip(gi.decode_batch(files, device="cpu"), upright, strict=True):
        np.testing.assert_array_equal(found, expected)
    parts = gi.crop(gi.open_batch(files, device="cpu"), 5, 11, 40, 37).compute("uint8")
    for found, expected in zip(parts, upright, strict=True):
        np.testing.assert_array_equal(found, expected[5:45, 11:48])


# -- what is not read --------------------------------------------------------------------------------------------------


def spoiled(data: bytes, scans: Callable[[int, bytes], bool], where: float) -> bytes:
    """A file with bits of some scans flipped; ``scans`` chooses them by the number and the header's contents."""
    parts = data.split(bytes((0xFF, SOS)))
    for k, part in enumerate(parts[1:], 1):
        size = int.from_bytes(part[:2], "big")
        if scans(k - 1, part[2:size]):
            end = part.find(b"\xff\xc4", size) if b"\xff\xc4" in part[size:] else len(part) - 2
            at = size + int((end - size) * where)
            while part[at] >= 0xFE or part[at - 1] == 0xFF or part[at] ^ 0x3C == 0xFF:
                at -= 1
            parts[k] = part[:at] + bytes((part[at] ^ 0x3C,)) + part[at + 1 :]
    return bytes((0xFF, SOS)).join(parts)


def test_scans_are_read_down_to_the_region(decoders: tuple[Decoder, Decoder], photo: Image.Image) -> None:
    data = encoded(photo, quality=95, progressive=True)
    expected = pillow_pixels(data)
    damaged = spoiled(data, lambda k, _: k > 0, 0.9)
    assert decoders[0](damaged).how == words.IRREGULAR
    found = decoders[0](damaged, (10, 0, 250, 60))
    assert found.how == words.DONE
    np.testing.assert_array_equal(found.pixels, expected[:60, 10:250])


def test_gray_needs_no_chroma(decoders: tuple[Decoder, Decoder], photo: Image.Image) -> None:
    data = encoded(photo, progressive=True)
    damaged = spoiled(data, lambda _, header: header[0] == 1 and header[1] != 1, 0.5)
    assert damaged != data
    assert decoders[0](damaged).how == words.IRREGULAR
    np.testing.assert_array_equal(decoders[0](damaged, channels=1).pixels, pillow_pixels(data, 1))


def test_an_eighth_needs_dc_alone(decoders: tuple[Decoder, Decoder], photo: Image.Image) -> None:
    data = encoded(photo, "4:4:4", progressive=True)
    damaged = spoiled(data, lambda _, header: header[0] == 1 and header[3] > 0, 0.5)
    assert decoders[0](damaged).how == words.IRREGULAR
    np.testing.assert_array_equal(decoders[0](damaged, scale=1).pixels, pillow_pixels(data, scale=1))


# -- what is left to Pillow --------------------------------------------------------------------------------------------


def irregular() -> dict[str, bytes]:
    """Files that libjpeg decodes, but with a warning or smoothed."""
    rng = np.random.default_rng(5)
    image = picture(rng, 40, 50, (0x11, 0x11, 0x11))
    image = image._replace(blocks=tuple(np.clip(one, -200, 200) for one in image.blocks))
    bands = [Scan((c,), 1, 63, 0, 0) for c in range(3)]
    plain = [Scan((0, 1, 2), 0, 0, 0, 0), *bands]
    data = written(image, plain, steps=3)
    last = data.rindex(bytes((0xFF, SOS)))
    table = data.rindex(b"\xff\xc4")
    return {
        "lacks the last band": written(image, [plain[0], *(one._replace(last=9) for one in bands)]),
        "lacks AC of a component": written(image, plain[:-1]),
        "lacks the last bit of DC": written(image, [plain[0]._replace(low=1), *bands]),
        "lacks the last bit of AC": written(image, [plain[0], bands[0]._replace(low=1), *bands[1:]]),
        "refined twice": written(image, [plain[0]._replace(low=1), *[plain[0]._replace(high=1)] * 2, *bands]),
        "AC before DC": written(image, [*bands, plain[0]]),
        "other steps after a scan": data[:last] + segment(DQT, b"\0" + b"\7" * 64) + data[last:],
        "junk after a scan": data[:table] + b"junk" + data[table:],
        "a scan cut short": data[: table - 4] + data[table:],
        "a restart marker too many": data[:table] + b"\xff\xd0" + data[table:],
        "restarts that are not there": data[:last] + segment(DRI, b"\0\3") + data[last:],
    }


@pytest.mark.parametrize("name", irregular())
def test_pillow_decodes(name: str, decoders: tuple[Decoder, Decoder]) -> None:
    data = irregular()[name]
    assert decoders[0](data).how == words.IRREGULAR
    np.testing.assert_array_equal(gi.decode_batch([data], device="cpu")[0], pillow_pixels(data))


def test_truncated_files_have_pillows_reason(photo: Image.Image) -> None:
    data = encoded(photo, progressive=True)
    batch = gi.decode_batch([data, data[: len(data) // 2], data[:-2]], device="cpu", on_error="fill")
    assert batch.status[0] == "ok"
    for k in (1, 2):
        assert batch.status[k].startswith("damaged JPEG file: image file is truncated")
        assert not batch[k].any()


def resized(data: bytes, height: int, width: int) -> bytes:
    """A file whose header has another size."""
    at = data.index(b"\xff\xc2") + 5
    return data[:at] + height.to_bytes(2, "big") + width.to_bytes(2, "big") + data[at + 4 :]


def test_memory_is_limited(photo: Image.Image) -> None:
    """To 64 MiB of coefficients; Pillow decodes larger images."""
    data = encoded(photo, progressive=True)
    side = 16 * int((words.KEPT_BLOCKS / 6) ** 0.5)
    files = [resized(data, side, side), resized(data, side + 16, side + 16)]
    headers = read_headers(files).records
    assert headers["kind"].tolist() == [words.PROGRESSIVE, words.JPEG]
    coefficients = words.KEPT_BLOCKS * 128
    assert 0.99 * coefficients < progressive.coefficient_bytes(headers[0]) < 1.1 * coefficients


# -- pieces ------------------------------------------------------------------------------------------------------------


def test_bits_of_masks() -> None:
    """By instructions where the processor has them, and by loops."""
    by_rank = njit(lambda bits, mask: deposit.deposit(bits, mask))
    by_loop, highest = njit(deposit.deposit_bit_by_bit), njit(lambda mask, k: deposit.highest(mask, k))
    highest_by_loop = njit(deposit.highest_bit_by_bit)
    rng = np.random.default_rng()
    for share in (0.0, 0.05, 0.5, 0.95, 1.0):
        for _ in range(100):
            places = np.flatnonzero(rng.random(64) < share)
            mask = np.uint64(sum(1 << int(place) for place in places))
            bits = int(rng.integers(0, 1 << 63)) & (1 << len(places)) - 1
            expected = sum(1 << int(place) for k, place in enumerate(places) if bits >> k & 1)
            assert by_rank(np.uint64(bits), mask) == by_loop(np.uint64(bits), mask) == expected
            for k in (0, 1, 5, 63):
                one = 1 << int(places[-1 - k]) if k < len(places) else 0
                assert highest(mask, k) == highest_by_loop(mask, k) == one
