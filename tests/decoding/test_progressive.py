"""Our decoder of progressive JPEGs: Pillow's pixels bit for bit, and Pillow where libjpeg guesses, warns or refuses."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gpuimg as gi
from gpuimg._decoding.jpeg import read_headers
from gpuimg.kernels.jpeg import deposit, progressive
from gpuimg.kernels.jpeg import layout as words

from ..samples import PHOTOS
from . import jpegs
from .jpegs import DQT, DRI, SOS, Decoder, assert_pillows, encoded, pillow_pixels, segment
from .progressive_jpegs import Scan, made, picture, written

SAMPLINGS = ("4:4:4", "4:2:2", "4:2:0", "gray", "rgb")
OPTIONS: tuple[dict[str, Any], ...] = (
    {"quality": 88}, {"quality": 20, "restart_marker_rows": 1}, {"quality": 97, "restart_marker_blocks": 7},
)  # fmt: skip


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("path", PHOTOS, ids=lambda path: path.stem)
def test_photos(path: Path, sampling: str, decoders: tuple[Decoder, Decoder]) -> None:
    photo = Image.open(path).convert("RGB")
    for k, options in enumerate(OPTIONS):
        data = encoded(photo, sampling, progressive=True, **options)
        assert jpegs.header_of(data)["kind"] == words.PROGRESSIVE
        assert_pillows(decoders[k % 2], data, f"{options}")


def test_scripts(decoders: tuple[Decoder, Decoder]) -> None:
    """Every order of scans, and restart intervals that change from scan to scan."""
    ours = 0
    for seed in range(150):
        data = made(np.random.default_rng(seed), 300 if seed % 25 == 0 else 60)
        if jpegs.is_ours(data):
            ours += 1
            assert_pillows(decoders[seed % 2], data, str(seed))
        else:
            assert gi.image_info(data).width < 5  # narrow, with chroma of half the columns
    assert ours > 130


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


@pytest.mark.parametrize(("scans", "how"), [
    (lambda k, _: k > 0, {"region": (10, 0, 250, 60)}),  # damage below the region
    (lambda _, header: header[0] == 1 and header[1] != 1, {"channels": 1}),  # of chroma
    (lambda _, header: header[0] == 1 and header[3] > 0, {"scale": 1}),  # of all but DC
], ids=["region", "gray", "eighth"])  # fmt: skip
def test_scans_that_are_not_read(scans: Any, how: Any, decoders: tuple[Decoder, Decoder], photo: Image.Image) -> None:
    data = encoded(photo, "4:4:4", quality=95, progressive=True)
    damaged = spoiled(data, scans, 0.9)
    assert decoders[0](damaged).how == words.IRREGULAR
    found = decoders[0](damaged, **how)
    assert found.how == words.DONE
    x0, y0, x1, y1 = how.pop("region", (0, 0, *found.pixels.shape[1::-1]))
    np.testing.assert_array_equal(found.pixels, pillow_pixels(data, **how)[y0:y1, x0:x1])


def irregular() -> dict[str, bytes]:
    """Files that libjpeg decodes, but with a warning or smoothed."""
    rng = np.random.default_rng(5)
    image = picture(rng, 40, 50, (0x11, 0x11, 0x11))
    image = image._replace(blocks=tuple(np.clip(one, -200, 200) for one in image.blocks))
    bands = [Scan((c,), 1, 63, 0, 0) for c in range(3)]
    plain = [Scan((0, 1, 2), 0, 0, 0, 0), *bands]
    data = written(image, plain, steps=b"\0" + b"\3" * 64)
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


def test_memory_is_limited(photo: Image.Image) -> None:
    """To 64 MiB of coefficients; Pillow decodes larger images."""
    data = encoded(photo, progressive=True)
    side = 16 * int((words.KEPT_BLOCKS / 6) ** 0.5)
    files = [jpegs.resized(data, side, side), jpegs.resized(data, side + 16, side + 16)]
    headers = read_headers(files).records
    assert headers["kind"].tolist() == [words.PROGRESSIVE, words.JPEG]
    coefficients = words.KEPT_BLOCKS * 128
    assert 0.99 * coefficients < progressive.coefficient_bytes(headers[0]) < 1.1 * coefficients


def test_processors_whose_instructions_are_slow() -> None:
    """Zen 1 and 2 have BMI2 in microcode."""
    assert [deposit.is_fast("+avx2,+bmi2", cpu) for cpu in ("znver1", "znver2", "znver3", "haswell")] == [0, 0, 1, 1]
    assert not deposit.is_fast("+avx2,-bmi2", "znver3")
