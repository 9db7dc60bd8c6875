"""Images written as files: the bytes of Pillow's JPEGs from every source, other formats, metadata, what is refused."""

import io
import struct
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image, features

import gpuimg as gi
from gpuimg._encoding.nvimgcodec import GpuEncoder, with_metadata
from gpuimg._encoding.options import file_options

from ..decoding import jpegs
from ..decoding.test_icc import profile
from ..libraries import needs
from ..processes import python
from ..samples import BUILDS, PHOTOS, file_of, rebuilt, smooth

SAMPLINGS = ("4:4:4", "4:2:2", "4:2:0")
_ARTIST = 0x13B
EXIF = b"Exif\0\0II*\0\x08\0\0\0\x01\0" + struct.pack("<HHI4s", _ARTIST, 2, 3, b"me\0") + bytes(4)


def pillows(image: Any, quality: int = 90, sampling: str = "4:2:0", **options: Any) -> bytes:
    """Pillow's file of an image; empty if it fails, as at noise with codes made for it: its memory is too small."""
    file = io.BytesIO()
    try:
        Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(
            file, "JPEG", quality=quality, subsampling=sampling, **options
        )
    except OSError:
        return b""
    return file.getvalue()


def made(rng: np.random.Generator, height: int, width: int) -> np.ndarray[Any, Any]:
    """An image of any kind: noise, a photo, a ramp, one color, black and white."""
    shape = height, width, int(rng.choice((1, 3, 3, 3)))
    kind = rng.integers(5)
    if kind == 0:
        return rng.integers(0, 256, shape, np.uint8)
    if kind == 1:
        return np.asarray(smooth(height, width))[..., : shape[2]].copy()
    if kind == 2:
        steps = rng.random(2) * 4
        ramp = np.add.outer(np.arange(height) * steps[0], np.arange(width) * steps[1])
        return np.asarray(ramp[..., None] + rng.random(shape[2]) * 99, np.uint8)
    return (
        np.full(shape, rng.integers(0, 256), np.uint8)
        if kind == 3
        else (rng.random(shape) < 0.5).astype(np.uint8) * 255
    )


def assert_pillows(files: list[bytes], images: Any, quality: Any, **options: Any) -> int:
    """Return how many were compared."""
    count = 0
    for file, image, one in zip(files, images, quality, strict=True):
        if expected := pillows(image, int(one), **options):
            assert file == expected, (image.shape, int(one), options)
            count += 1
    return count


# -- bytes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_every_file_is_pillows(sampling: str, optimize: bool) -> None:
    rng = np.random.default_rng()
    count = 0
    for restart, most in (("none", 40), ("rows", 40), ("none", 300), ("rows", 300)):
        sizes = rng.integers(1, most + 1, (40 if most < 100 else 6, 2)).tolist()
        images = [made(rng, *size) for size in sizes]
        for channels in (1, 3):
            some = [image for image in images if image.shape[2] == channels] or [np.zeros((9, 9, channels), np.uint8)]
            quality = rng.integers(1, 101, len(some))
            files = gi.encode_batch(some, quality=quality, subsampling=sampling, optimize=optimize, restart=restart)
            rows = {"restart_marker_rows": 1} if restart == "rows" else {}
            count += assert_pillows(files, some, quality, sampling=sampling, optimize=optimize, **rows)
            assert_decoded(files, some)
    assert count > 70


def assert_decoded(files: list[bytes], images: Any) -> None:
    """Files have their sizes, and the pixels that Pillow finds in them."""
    channels = images[0].shape[2]
    found = gi.decode_batch(files, device="cpu", color="gray" if channels == 1 else "rgb")
    assert found.sizes.tolist() == [list(image.shape[:2]) for image in images]
    for file, pixels in zip(files, found, strict=True):
        np.testing.assert_array_equal(pixels, jpegs.pillow_pixels(file, channels))


@pytest.mark.parametrize("quality", range(1, 101))
def test_every_quality(quality: int, photo: Image.Image) -> None:
    image = np.asarray(photo)[:50, :70]
    for optimize in (False, True):
        files = [gi.encode_image(np.ascontiguousarray(image), quality=quality, optimize=optimize)]
        assert assert_pillows(files, [image], [quality], optimize=optimize)


@pytest.mark.parametrize("size", [(1, 1), (1, 65500), (65500, 1), (65500, 3), (8, 17), (16, 16), (17, 16), (15, 33)])
def test_sizes_at_the_limits(size: tuple[int, int]) -> None:
    image = np.random.default_rng().integers(0, 256, (*size, 3), np.uint8)
    for sampling in SAMPLINGS:
        for optimize in (False, True):
            chosen: Any = {"subsampling": sampling, "optimize": optimize}
            if expected := pillows(image, sampling=sampling, optimize=optimize):
                assert gi.encode_image(image, **chosen) == expected
            assert gi.encode_batch(image[None], **chosen) == [gi.encode_image(image, **chosen)]


def test_noise_with_more_bytes_than_pixels() -> None:
    """Memory for these is too small at first, whether arrays, files that Python decodes, or views of them."""
    rng = np.random.default_rng()
    images = rng.integers(0, 2, (4, 90, 70, 3), np.uint8) * np.uint8(255)
    expected = [pillows(image, 100, "4:4:4") for image in images]
    assert min(map(len, expected)) > images[0].size // 2 + 4096
    sources: Any = [file_of(image, "PNG") for image in images] + [file_of(smooth(50, 60))]
    opened = gi.open_batch(sources, device="cpu").take([4, 0, 1, 1, 2, 3, 0])
    decoded = gi.decode_batch(sources[:4], device="cpu")
    for x, rows in ((images, [0, 1, 2, 3]), (opened, [None, 0, 1, 1, 2, 3, 0]), (decoded, [0, 1, 2, 3])):
        files = gi.encode_batch(x, quality=100, subsampling="4:4:4")
        assert [file for file, row in zip(files, rows, strict=True) if row is not None] == [
            expected[row] for row in rows if row is not None
        ]
    assert gi.encode_image(images[2], quality=100, subsampling="4:4:4") == expected[2]


# -- sources -----------------------------------------------------------------------------------------------------------


_TURNED = Image.Exif()
_TURNED[0x112] = 6
FILES = [path.read_bytes() for path in PHOTOS[:5]]
FILES += [file_of(smooth(31, 40), "PNG"), file_of(smooth(50, 33), exif=_TURNED)]
RGBA = file_of(np.full((20, 30, 4), 90, np.uint8), "PNG")
ARRAY = np.random.default_rng().integers(0, 256, (4, 23, 37, 3), np.uint8)


def batches() -> dict[str, Callable[[], Any]]:
    """Batches that take different ways, most of which compute pixels as they are encoded."""

    def opened(*more: bytes, **options: Any) -> Any:
        return gi.open_batch([*FILES, *more], device="cpu", **options)

    def computed() -> Any:
        x = gi.resize(opened(), 40)
        x.compute("uint8")
        return x

    return {
        "files": opened,
        "one file": lambda: gi.open_batch(FILES[:1], device="cpu"),
        "gray": lambda: opened(color="gray"),
        "resized": lambda: gi.resize(opened(), (33, 57)),
        "two segments": lambda: gi.rotate(gi.gaussian_blur(gi.resize(opened(), 48), 5, 1.5), 20.0),
        "drafted": lambda: gi.resize(opened(draft=1.5), 40),
        "an exact resize": lambda: gi.resize(opened(), 40, exact="pillow"),
        "taken twice": lambda: gi.center_crop(opened(), 30).take([2, 0, 2, 5, 5]),
        "whole files twice": lambda: opened().take([5, 2, 2, 0, 5]),
        "computed before": computed,
        "on white": lambda: opened(RGBA, alpha="white"),
        "gray of colors": lambda: gi.rgb_to_grayscale(gi.resize(opened(), 30)),
        "an array": lambda: gi.horizontal_flip(ARRAY),
        "arrays": lambda: gi.decode_batch(FILES[:5], device="cpu").take([1, 3, 0]),
        "decoded with a bad one": lambda: opened(b"no image", on_error="fill"),
    }


@pytest.mark.parametrize("name", batches())
def test_every_source(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a batch are those of its pixels, on any number of threads; a batch keeps nothing of them."""
    x, again = batches()[name](), batches()[name]()
    quality = np.arange(len(x)) + 60
    expected = [pillows(image, int(one)) for image, one in zip(again.compute("uint8"), quality, strict=True)]
    assert gi.encode_batch(x, quality=quality) == expected
    assert gi.encode_batch(x, quality=quality) == expected
    monkeypatch.setenv("GPUIMG_NUM_THREADS", "1")
    assert gi.encode_batch(batches()[name](), quality=quality) == expected


@pytest.mark.parametrize("build_name", BUILDS)
def test_memory_of_every_layout(build_name: str) -> None:
    image = rebuilt(np.random.default_rng().integers(0, 256, (25, 41, 3), np.uint8), build_name)
    expected = pillows(np.ascontiguousarray(image))
    assert gi.encode_image(image) == expected
    assert gi.encode_batch([image, image]) == [expected] * 2


def test_no_images() -> None:
    assert gi.encode_batch(np.zeros((0, 8, 8, 3), np.uint8)) == []
    assert gi.encode_batch(gi.open_batch([], device="cpu")) == []


def test_images_that_cannot_be_decoded() -> None:
    photo, bad = PHOTOS[0].read_bytes(), PHOTOS[1].read_bytes()[:5000]
    with pytest.raises(gi.DecodeError, match="1 of 2 images"):
        gi.encode_batch(gi.resize(gi.open_batch([photo, bad], device="cpu"), 30))
    x = gi.resize(gi.open_batch([photo, bad], device="cpu", on_error="fill"), (30, 40))
    assert gi.encode_batch(x)[1] == pillows(np.zeros((30, 40, 3), np.uint8))
    assert [status == "ok" for status in x.status] == [True, False]


# -- other formats, metadata -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["png", "webp", "avif"])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_other_formats(form: Any, channels: int) -> None:
    if not (form == "png" or features.check(form)) or (channels == 2 and form != "png"):
        return
    images = np.random.default_rng().integers(0, 256, (3, 20, 30, channels), np.uint8)
    files = gi.encode_batch(images, format=form, exif=EXIF, icc=profile())
    for image, file in zip(images, files, strict=True):
        found = Image.open(io.BytesIO(file))
        assert (found.format, found.size) == (form.upper(), (30, 20))
        assert found.info["icc_profile"] == profile()
        assert found.getexif()[_ARTIST] == "me"
        if form == "png":
            np.testing.assert_array_equal(np.asarray(found).reshape(image.shape), image)
    if form != "png":
        small, large = (gi.encode_batch(images, format=form, quality=q) for q in (5, 95))
        assert all(len(one) < len(other) for one, other in zip(small, large, strict=True))


def test_metadata_is_where_pillow_has_it() -> None:
    image, icc = np.full((20, 30, 3), 77, np.uint8), profile()
    long = icc + bytes(200_000)
    assert gi.encode_image(image, exif=EXIF) == pillows(image, exif=EXIF)
    assert gi.encode_image(image, exif=EXIF[6:]) == pillows(image, exif=EXIF)
    assert gi.encode_image(image, exif=bytearray(EXIF), icc=memoryview(icc)) == pillows(
        image, exif=EXIF, icc_profile=icc
    )
    files = gi.encode_batch([image] * 4, exif=[None, EXIF, b"", EXIF], icc=[long, None, icc, long])
    own: list[dict[str, bytes]] = [
        {"icc_profile": long},
        {"exif": EXIF},
        {"icc_profile": icc},
        {"exif": EXIF, "icc_profile": long},
    ]
    assert files == [pillows(image, **one) for one in own]


# -- what is refused ---------------------------------------------------------------------------------------------------

RGB = np.zeros((2, 8, 9, 3), np.uint8)
REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "quality 0": (RGB, {"quality": 0}, "quality must be a whole number from 1 to 100, not 0"),
    "quality 101": (RGB, {"quality": [90, 101]}, r"quality\[1\] must be a whole number from 1 to 100, not 101"),
    "a fraction": (RGB, {"quality": 75.5}, "not 75.5"),
    "three qualities": (RGB, {"quality": [1, 2, 3]}, r"shape \(2,\)"),
    "subsampling": (RGB, {"subsampling": "420"}, "'4:2:0', not '420'"),
    "restart": (RGB, {"restart": 1}, "restart must be"),
    "format": (RGB, {"format": "gif"}, "format must be"),
    "encoder": (RGB, {"encoder": "turbo"}, "encoder must be"),
    "optimize": (RGB, {"optimize": "yes"}, "optimize must be"),
    "floats": (RGB.astype(np.float32), {}, r'not float32: encode the result of .array\(dtype="uint8"\)'),
    "16 bits": (RGB.astype(np.uint16), {}, "not uint16"),
    "normalized": (lambda: gi.normalize(RGB, 0.5, 0.2), {}, "normalized images do not fit .* encode them before"),
    "RGBA": (np.zeros((1, 8, 9, 4), np.uint8), {}, 'have 4 channels, and JPEG files have 1 or 3: .*alpha="white"'),
    "two channels": (np.zeros((1, 8, 9, 2), np.uint8), {"format": "webp"}, "WEBP files have 1, 3, 4"),
    "a long side": (np.zeros((1, 65501, 1, 3), np.uint8), {}, "image 0 is 65501 x 1, .* at most 65,500"),
    "a long side of WebP": (np.zeros((1, 1, 16384, 3), np.uint8), {"format": "webp"}, "image 0: 1 x 16384 cannot be"),
    "restarts of PNG": (RGB, {"restart": "rows", "format": "png"}, "restart='rows' is for JPEGs"),
    "subsampled WebP": (RGB, {"subsampling": "4:4:4", "format": "webp"}, "subsampling='4:4:4' is for JPEGs"),
    "text as EXIF": (RGB, {"exif": b"hello world"}, "exif must be EXIF data"),
    "a path as EXIF": (RGB, {"exif": "a.bin"}, "exif must be bytes, or a list of 2"),
    "EXIF of one": (RGB, {"exif": [EXIF]}, "not 1 items"),
    "EXIF of others": (RGB, {"exif": [EXIF, 3]}, r"exif\[1\] must be bytes or None, not int"),
    "long EXIF": (RGB, {"exif": EXIF + bytes(65_600)}, "room for 65,533"),
    "a long profile": (RGB, {"icc": bytes(17_000_000)}, "icc has 17,000,000 bytes"),
    "the GPU's encoder": (RGB, {"encoder": "nvimagecodec"}, "for images on a GPU"),
    "its restarts": (RGB, {"encoder": "nvimagecodec", "restart": "rows"}, "without restart markers"),
    "files": ([b"\xff\xd8"], {}, "open_batch"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    images, options, message = REFUSED[name]
    with pytest.raises((ValueError, TypeError), match=message):
        gi.encode_batch(images() if callable(images) else images, **options)
    if isinstance(images, np.ndarray) and not any(isinstance(one, list) for one in options.values()):
        with pytest.raises((ValueError, TypeError)):
            gi.encode_image(images[0], **options)


def test_a_batch_is_no_image() -> None:
    image: Any = gi.resize(RGB, 4)
    with pytest.raises(TypeError, match="use encode_batch"):
        gi.encode_image(image)


# -- threads, memory ---------------------------------------------------------------------------------------------------


def test_threads_that_encode_at_the_same_time(watched: None) -> None:
    x = gi.resize(gi.open_batch([path.read_bytes() for path in PHOTOS], device="cpu"), 64)
    expected = gi.encode_batch(x)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(gi.encode_batch(gi.resize(x, 64)))) for _ in range(6)]
    for thread in threads:
        thread.start()
    one = gi.encode_image(np.ascontiguousarray(x[0]))
    for thread in threads:
        thread.join()
    assert one == expected[0]
    assert found == [expected] * 6


INTERRUPTED = """
import os, signal, threading, time
import numpy as np, gpuimg
images = np.random.default_rng(0).integers(0, 256, (600, 300, 400, 3), np.uint8)
expected = gpuimg.encode_batch(images[:2])
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
begin = time.monotonic()
try:
    for _ in range(100):
        gpuimg.encode_batch(images, subsampling="4:4:4", optimize=True)
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - begin < 3, gpuimg.encode_batch(images[:2]) == expected)
"""


def test_ctrl_c_ends_a_call_between_images() -> None:
    assert python("-c", INTERRUPTED) == "interrupted True True\n"


IN_LITTLE_MEMORY = """
import resource, sys
import numpy as np, gpuimg
from PIL import Image
import io
file = io.BytesIO()
Image.fromarray(np.zeros((1000, 1000, 3), np.uint8)).save(file, "JPEG")
x = gpuimg.resize(gpuimg.open_batch([file.getvalue()] * 150, device="cpu"), (1200, 1200))
gpuimg.encode_batch(x.take([0, 1]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert len(gpuimg.encode_batch(x)) == 150
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 250_000)
"""


def test_results_are_not_all_in_memory() -> None:
    """150 of 4.3 MB each: 650 MB if they were."""
    assert python("-c", IN_LITTLE_MEMORY) == "True\n"


# -- nvImageCodec ------------------------------------------------------------------------------------------------------


def test_nvimagecodecs_encoder() -> None:
    """Its CPU's, which is OpenCV's: the same bytes."""
    needs("nvidia")
    from gpuimg._decoding import nvimgcodec

    library = nvimgcodec.library()
    encoder = GpuEncoder(
        library.Encoder(device_id=library.NVIMGCODEC_DEVICE_CPU_ONLY, backends=[library.Backend(library.CPU_ONLY)])
    )
    rng = np.random.default_rng()
    images = [np.ascontiguousarray(made(rng, 40, 50)) for _ in range(12)]
    for sampling in SAMPLINGS:
        for optimize in (False, True):
            quality = [75, 90, 30] * 4
            options = file_options(12, quality, sampling, optimize, "none", None, None, "jpeg", "nvimagecodec")
            files = encoder.encode(images, options.jpeg, 0)
            for file, image, one in zip(files, images, quality, strict=True):
                assert file == pillows(image, one, sampling if image.shape[2] == 3 else "4:4:4", optimize=optimize)


def test_metadata_of_its_files() -> None:
    image = np.full((20, 30, 3), 77, np.uint8)
    assert with_metadata(pillows(image), EXIF, profile()) == pillows(image, exif=EXIF, icc_profile=profile())
    assert with_metadata(b"\xff\xd8\xff\xdb", EXIF, None).startswith(b"\xff\xd8\xff\xe1")
    assert with_metadata(b"\xff\xd8", None, None) == b"\xff\xd8"
