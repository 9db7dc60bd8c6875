"""Images of any number of channels, with alpha, and of 16 bits per value."""

import io
import pickle
import re
import zlib
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

import gpuimg as gi
from tests.decoding import pngs
from tests.decoding.tiffs import of_array
from tests.fakecuda import FakeGpu
from tests.fakecuda.work import files
from tests.libraries import needs

from .. import references
from ..processes import python
from ..samples import file_of, png_chunk, with_orientation
from .calls import CALLS, MOVING


def noise(*shape: int, dtype: Any = np.uint8) -> Any:
    return np.random.default_rng().integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def deep_png(pixels: Any, orientation: int = 1) -> bytes:
    color = ("gray", "gray and alpha", "rgb", "rgb and alpha")[pixels.shape[2] - 1]
    exif = with_orientation(orientation).tobytes().removeprefix(b"Exif\0\0")
    return pngs.encode(pixels, color, 16, chunks=[(b"eXIf", exif)])


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
@pytest.mark.parametrize("name", [*MOVING, "elastic edge", "erase", "grid_mask", "gaussian_blur", "motion_blur"])
def test_each_channel_is_as_a_separate_image(name: str, dtype: str, layout: str) -> None:
    rng, call = np.random.default_rng(), CALLS[name]
    channels = int(rng.choice([2, 4, 5, 16]))
    x = noise(3, 30, 40, channels, dtype=np.uint16 if dtype == "uint16" else np.uint8).astype(dtype)
    if dtype == "float32":
        x /= 255
    each = call.each(rng, 3, 1.0)
    all_at_once = call.run(x, each).compute(layout=layout)
    for c in range(channels):
        alone = call.run(np.ascontiguousarray(x[..., c : c + 1]), each).compute(layout=layout)
        for one, other in zip(all_at_once, alone, strict=True):
            part = one[..., c : c + 1] if layout == "NHWC" else one[c : c + 1]
            np.testing.assert_array_equal(part, other)


@pytest.mark.parametrize("channels", [1, 3, 6])
def test_resizing_16_bits_is_pillows(channels: int) -> None:
    x = noise(2, 40, 50, channels, dtype=np.uint16)
    found = gi.resize(x, (23, 31)).array()
    assert found.dtype == np.uint16
    assert np.abs(found - [references.resize(one, 23, 31) for one in x]).max() < 0.6  # 0.5 by rounding


def test_values_of_16_bits() -> None:
    x = np.arange(65536, dtype=np.uint16).reshape(1, 256, 256, 1)
    np.testing.assert_array_equal(gi.horizontal_flip(x).array(), x[:, :, ::-1])
    np.testing.assert_allclose(gi.horizontal_flip(x).array("float32"), x[:, :, ::-1] / 65535, rtol=1e-6)
    np.testing.assert_array_equal(gi.vertical_flip(x).array("uint8"), np.rint(x[:, ::-1] / 257.0))
    beyond = np.array([-0.5, 0.25, 1.5, np.nan], np.float32).reshape(1, 4, 1, 1)
    assert gi.vertical_flip(beyond).array("uint16").ravel().tolist() == [0, 65535, 16384, 0]
    of_bytes = np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1)
    np.testing.assert_array_equal(gi.vertical_flip(of_bytes).array("uint16"), of_bytes[:, ::-1].astype(np.uint16) * 257)


def test_color_ops_and_mixing_work_on_16_bits() -> None:
    x = noise(2, 20, 30, 3, dtype=np.uint16)
    np.testing.assert_allclose(gi.adjust_brightness(x, 1.5).array(), np.minimum(x * 1.5, 65535), atol=0.51)
    np.testing.assert_array_equal(gi.invert(x).array(), 65535 - x)
    assert (gi.erase(x, 0, 0, 5, 5, (65535, 0, 1000)).array()[:, :5, :5] == (65535, 0, 1000)).all()
    assert gi.normalize(x, 0.5, 0.5).dtype == "float32"
    five = noise(2, 8, 9, 5)
    mixed = gi.blend(five, five, 0.25, partner=[1, 0]).array()
    np.testing.assert_allclose(mixed * 255, 0.25 * five + 0.75 * five[::-1], atol=1e-3)


@pytest.mark.parametrize("color", ["rgba", "graya"])
def test_alpha_is_kept(color: str) -> None:
    transparent, gray = noise(40, 50, 4), noise(30, 20, 2)
    sources = [
        file_of(transparent, "PNG"), file_of(transparent, "WEBP", lossless=True, exact=True),
        file_of(transparent, "TIFF"), file_of(gray, "PNG"), file_of(gray[..., 0], "PNG"),
        file_of(transparent[..., :3], "BMP"),
    ]  # fmt: skip
    found = gi.decode_batch(sources, color=color, device="cpu")
    for one, source in zip(found, sources, strict=True):
        expected = np.asarray(Image.open(io.BytesIO(source)).convert("RGBA"))
        alpha = ... if color == "rgba" else (..., -1)
        np.testing.assert_array_equal(one[alpha], expected[alpha])
    if color == "graya":
        np.testing.assert_array_equal(found[3], gray)
        np.testing.assert_array_equal(found[0][..., :1], gi.rgb_to_grayscale(transparent[None, ..., :3]).array()[0])


def test_files_without_alpha_are_opaque() -> None:
    photo = cv2.resize(noise(5, 7, 3), (90, 60))
    sources = [file_of(photo, "JPEG", quality=q, exif=with_orientation(6)) for q in (50, 95)]
    for color, plain in (("rgba", "rgb"), ("graya", "gray")):
        found = gi.open_batch(sources, color=color, device="cpu").array()
        np.testing.assert_array_equal(found[..., :-1], gi.open_batch(sources, color=plain, device="cpu").array())
        assert (found[..., -1] == 255).all()


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_16_bits_are_as_they_are_in_the_file(channels: int) -> None:
    if channels > 1:  # a TIFF file with 16-bit color
        needs("nvidia")
    pixels = noise(40, 50, channels, dtype=np.uint16)
    color = {1: "gray", 3: "rgb", 4: "rgba"}[channels]
    order = [2, 1, 0, 3][:channels] if channels > 1 else [0]
    sources = [deep_png(pixels), cv2.imencode(".tiff", pixels[..., order])[1].tobytes()]
    x = gi.open_batch(sources, depth="native", color=color, device="cpu")
    assert x.dtype == "uint16"
    np.testing.assert_array_equal(x.array(), np.stack([pixels, pixels]))
    np.testing.assert_array_equal(gi.vertical_flip(x).array(), np.stack([pixels[::-1]] * 2))


def test_16_bits_turned_gray_and_in_views() -> None:
    pixels = noise(9, 8, 3, dtype=np.uint16)
    found = gi.decode_batch([deep_png(pixels, orientation=6)], depth="native", device="cpu")
    np.testing.assert_array_equal(found[0], np.rot90(pixels, -1))
    found = gi.decode_batch([deep_png(pixels)], depth="native", color="gray", device="cpu")
    np.testing.assert_allclose(found[0][..., 0], pixels @ [0.2989, 0.587, 0.114], atol=0.51)
    two = noise(2, 9, 8, 3, dtype=np.uint16)
    x = gi.open_batch([deep_png(one) for one in two], depth="native", device="cpu").take([1, 0, 1])
    np.testing.assert_array_equal(gi.horizontal_flip(x).array(), two[[1, 0, 1], :, ::-1])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(x)).array(), two[[1, 0, 1]])


def test_8_bits_are_257_times_as_many() -> None:
    photo = cv2.resize(noise(5, 7, 3), (90, 60))
    sources = [file_of(photo, "JPEG"), file_of(photo, "PNG")]
    found = gi.open_batch(sources, depth="native", device="cpu").array()
    np.testing.assert_array_equal(found, gi.decode_batch(sources, device="cpu").array().astype(np.uint16) * 257)


def test_16_bit_files_that_fail_have_reasons() -> None:
    needs("nvidia")  # says what is wrong with color
    good = deep_png(noise(30, 30, 3, dtype=np.uint16))
    short = good[: good.index(b"IDAT") - 4] + png_chunk(b"IDAT", zlib.compress(b"\0")) + png_chunk(b"IEND", b"")
    x = gi.open_batch([good, good[:-40], short], depth="native", on_error="fill", device="cpu")
    x.compute()
    assert x.status[0] == "ok"
    assert all("damaged PNG file" in reason for reason in x.status[1:])
    sample = of_array(noise(8, 8, 1, dtype=np.uint16) >> 4, 1, tags={258: 12}, pack=lambda data: data)
    with pytest.raises(gi.DecodeError, match="values of 12 bits are not supported"):
        gi.decode_batch([sample], depth="native", device="cpu")


def test_nvimagecodec_prints_nothing(tmp_path: Path) -> None:
    needs("nvidia")
    pixels = noise(40, 40, 3, dtype=np.uint16)
    lossless = [cv2.IMWRITE_JPEG2000_COMPRESSION_X1000, 1000]
    (tmp_path / "color.jp2").write_bytes(cv2.imencode(".jp2", pixels, lossless)[1].tobytes())
    decode = 'gpuimg.decode_batch(["color.jp2"], depth="native", device="cpu")[0].astype(int).sum()'
    code = f"import os; os.dup2(1, 2); import gpuimg; print({decode})"
    assert python("-c", code, folder=tmp_path) == f"{pixels.astype(int).sum()}\n"


WITHOUT = """
import sys
sys.modules["nvidia"] = None
import gpuimg
for name in ("color.jp2", "broken.png", "good.png", "color.tiff"):
    try:
        print(gpuimg.decode_batch([name], depth="native", device="cpu")[0].astype(int).sum())
    except gpuimg.DecodeError as error:
        print(*str(error).split())
"""


def test_16_bit_color_names_the_missing_decoder(tmp_path: Path) -> None:
    pixels = noise(8, 8, 3, dtype=np.uint16)
    good = deep_png(pixels)
    (tmp_path / "color.jp2").write_bytes(cv2.imencode(".jp2", noise(40, 40, 3, dtype=np.uint16))[1].tobytes())
    (tmp_path / "color.tiff").write_bytes(of_array(pixels, 2))
    (tmp_path / "broken.png").write_bytes(good[:-20] + bytes(4) + good[-16:])
    (tmp_path / "good.png").write_bytes(good)
    color, broken, *sums = python("-c", WITHOUT, folder=tmp_path).splitlines()
    assert re.search("16-bit color of JPEG 2000 needs nvImageCodec.*pip install", color)
    assert "16-bit color of damaged and interlaced PNG files needs" in broken
    assert [int(one) for one in sums] == [pixels.sum(dtype=int)] * 2


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_the_order_of_work_on_a_gpu(gpu: FakeGpu, dtype: Any) -> None:
    with gpu.stream():
        sized = [gpu.cupy.zeros((height, 20, 4), dtype) for height in (30, 40)]
        for x in (gpu.cupy.zeros((3, 40, 50, 4), dtype), sized):
            for image in gi.horizontal_flip(x).compute():
                gpu.use(image)
    several: list[dict[str, Any]] = [{"color": "rgba"}, {"depth": "native"}, {"color": "graya", "depth": "native"}]
    for options in several:
        x = gi.open_batch([*files(), file_of(noise(8, 9, 4), "PNG")], device="cuda", **options)
        gpu.use(gi.resize(x, (20, 20)).array())
    assert not gpu.problems


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_the_order_of_work_of_copy_paste(gpu: FakeGpu, share: float) -> None:
    objects = np.tile(np.arange(600).reshape(20, 30) // 90, (3, 1, 1))
    with gpu.stream():
        gpu.use(gi.copy_paste(gpu.cupy.zeros((3, 20, 30, 3), np.uint8), objects, share, rng=1).images.array())
