"""From files to pixels: every kind of source, every kind of failure."""

import io
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageCms

import gpuimg as gi

from ..compare import assert_same
from ..libraries import library
from ..robustness.originals import jpeg, picture
from ..samples import file_of, with_orientation
from .jpegs import resized, upright_pixels


def test_every_kind_of_source(tmp_path: Path) -> None:
    """In a batch, and alone on many threads."""
    path = tmp_path / "photo.jpg"
    path.write_bytes(GOOD)
    array = np.frombuffer(GOOD, np.uint8)
    row = np.stack([array] * 2)[:, ::1][1]
    sources: list[Any] = [path, str(path), GOOD, bytearray(GOOD), memoryview(GOOD), array, row]
    sources.append(memoryview(bytes(np.repeat(array, 2)))[::2])  # not in one piece
    with path.open("rb") as file, path.open("rb") as again:
        batch = gi.decode_batch([*sources, file, io.BytesIO(GOOD)], device="cpu")
        images = [gi.decode_image(again, device="cpu")]
    with ThreadPoolExecutor(8) as pool:
        images += pool.map(gi.decode_image, sources * 10)
    for image in (*batch, *images):
        np.testing.assert_array_equal(image, batch[0])


@pytest.mark.parametrize("form", ["JPEG", "progressive", "PNG", "WEBP", "AVIF", "TIFF"])
@pytest.mark.parametrize("value", range(1, 9))
def test_exif_orientation(value: int, form: str) -> None:
    options: dict[str, Any] = {"progressive": True} if form == "progressive" else {}
    name = "JPEG" if options else form
    data = file_of(picture(40, 56, 0), name, exif=with_orientation(value), **options)
    height, width, turn = (40, 56, value) if value < 5 else (56, 40, value)
    info = gi.image_info(data)
    assert (info.height, info.width, info.orientation) == (height, width, turn)
    batch = gi.open_batch([data], device="cpu")
    assert batch.sizes.tolist() == [[height, width]]
    np.testing.assert_array_equal(batch[0], upright_pixels(data))
    np.testing.assert_array_equal(gi.decode_image(data, device="cpu"), upright_pixels(data))


def test_details_of_a_file() -> None:
    """Bits, ICC profile and resolution; Pillow writes them all."""
    icc = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    colors, deep = Image.new("RGB", (30, 20)), Image.fromarray(np.zeros((20, 30), np.uint16))
    plain = (8, 1, False, None)
    for form, pictured in (("JPEG", colors), ("PNG", colors), ("TIFF", colors), ("PNG", deep), ("TIFF", deep)):
        assert gi.image_info(file_of(pictured, form))[6:] == (8 if pictured is colors else 16, *plain[1:])
        info = gi.image_info(file_of(pictured, form, dpi=(300, 150), icc_profile=icc))
        assert (info.pages, info.has_icc) == (1, True)
        assert info.dpi == pytest.approx((300, 150), rel=1e-3)
    for form in ("WEBP", "BMP", "PPM", "GIF", "JPEG2000"):
        info = gi.image_info(file_of(colors, form))
        assert (info.bits, info.pages, info.has_icc) == plain[:3]


@pytest.mark.parametrize("source", [None, 3, [1, 2], np.zeros(9), np.zeros((2, 2), np.uint8), io.StringIO("x")])
def test_what_is_not_a_source(source: object) -> None:
    with pytest.raises(TypeError, match=r"sources\[1\]"):
        gi.open_batch([jpeg(picture(8, 8, 0)), source], device="cpu")


@pytest.mark.parametrize("value", range(1, 9))
@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"subsampling": 0}], ids=str)
def test_region_decode_changes_nothing(value: int, options: dict[str, Any]) -> None:
    """The decoded part of a file depends on the plan; the result does not."""
    files = [jpeg(picture(150 + i, 200 - 5 * i, i), orientation=value, **options) for i in range(4)]

    def preprocess(x: gi.Batch) -> np.ndarray:
        x = gi.resized_crop(x, [3, 50, 90, 0], [60, 4, 100, 0], [40, 33, 20, 128], 40, (32, 24))
        x = gi.rotate(x, [0, 20, 90, -135], interpolation="bilinear")
        return np.asarray(gi.adjust_contrast(x, 1.3).array("float32"))

    lazily = preprocess(gi.open_batch(files, device="cpu"))
    np.testing.assert_array_equal(lazily, preprocess(gi.decode_batch(files, device="cpu")))


def test_opening_decodes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("decoded")

    for name in ("decode", "run"):
        monkeypatch.setattr(f"gpuimg._runtimes.cpu.CpuRuntime.{name}", fail)
    opened = gi.open_batch([jpeg(picture(20, 30, 0))], device="cpu")
    x = gi.resize(opened, 8)
    assert (x.sizes.tolist(), x.channels) == ([[8, 12]], 3)
    assert repr(opened) == "<gpuimg.Batch of 1 image, 20x30, 3 channels, encoded, on cpu>"
    assert repr(x) == "<gpuimg.Batch of 1 image, 8x12, 3 channels, encoded, operations recorded, on cpu>"


GOOD = jpeg(picture(40, 60, 0), quality=100)
BAD = {
    "empty": (b"", "empty: 0 bytes"), "text": (b"hello world" * 40, "not an image"),
    "photoshop": (b"8BPS" + bytes(40), "PSD is not supported"), "heic": (b"\0\0\0\x18ftypheic" + bytes(40), "HEIC"),
    "truncated header": (GOOD[:100], "truncated or damaged"),
    "truncated body": (GOOD[: len(GOOD) // 2], "the data end in MCU row 1 of 3"),
    "last bytes missing": (GOOD[:-9], "the data end in MCU row 3 of 3"),
    "over the limit": (resized(jpeg(picture(16, 16, 0)), 20000, 20000), "max_pixels"),
    "missing file": ("/no/such/file.jpg", "No such file"),
}  # fmt: skip


@pytest.mark.parametrize(("bad", "reason"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("entry", [gi.open_batch, gi.decode_batch], ids=["open", "decode"])
def test_bad_source_is_named(entry: object, bad: object, reason: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert callable(entry)
    with pytest.raises(gi.DecodeError, match=reason) as caught:
        entry([GOOD, bad, GOOD], device="cpu").array()
    (failure,) = caught.value.failures
    assert failure.index == 1
    assert failure.source in (bad, f"{len(bad)} bytes" if isinstance(bad, bytes) else bad)
    assert "1 of 3 images" in str(caught.value)
    with pytest.raises(OSError if isinstance(bad, str) else gi.DecodeError, match=reason):
        gi.decode_image(bad, device="cpu")
    assert capfd.readouterr() == ("", "")


PHOTO = picture(61, 83, 0)
SINGLE = {
    "4:2:0": jpeg(PHOTO, subsampling=2), "4:2:2": jpeg(PHOTO, subsampling=1), "4:4:4": jpeg(PHOTO, subsampling=0),
    "progressive": jpeg(PHOTO, progressive=True), "restart": jpeg(PHOTO, restart_marker_rows=1),
    "gray": jpeg(PHOTO.convert("L")), "cmyk": jpeg(PHOTO.convert("CMYK")), "png": file_of(PHOTO, "PNG"),
    "transparent": file_of(PHOTO.convert("RGBA"), "PNG"), "one pixel": jpeg(picture(1, 1, 0)),
    "deep": file_of(np.arange(63, dtype=np.uint16).reshape(7, 9) * 999, "PNG"),
    "turned": file_of(PHOTO, "TIFF", tiffinfo={0x0112: 6}), "palette": file_of(PHOTO.convert("P"), "GIF"),
    "webp": file_of(PHOTO.convert("RGBA"), "WEBP"), "bmp": file_of(PHOTO, "BMP"), "ppm": file_of(PHOTO, "PPM"),
}  # fmt: skip


@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize(
    "options",
    [{}, {"color": "gray"}, {"color": "rgba"}, {"alpha": "white"}, {"depth": "native"}, {"icc": "srgb"}],
    ids=str,
)
def test_one_image_is_as_in_a_batch(name: str, options: dict[str, Any]) -> None:
    (expected,) = gi.decode_batch([SINGLE[name]], device="cpu", **options)
    image = gi.decode_image(SINGLE[name], device="cpu", **options)
    assert image.dtype == expected.dtype
    np.testing.assert_array_equal(image, expected)


class Decoding(list[bytes]):
    def __getitem__(self, index: Any) -> Any:
        return gi.decode_image(super().__getitem__(index), device="cpu")


@pytest.mark.parametrize("start", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_one_image_in_worker_processes(start: str) -> None:
    data = library("torch.utils.data")
    files = [SINGLE["4:2:0"], SINGLE["progressive"], SINGLE["png"]] * 3
    expected = list(gi.decode_batch(files, device="cpu"))
    options = {"batch_size": 2, "num_workers": 2, "collate_fn": list}
    loader = data.DataLoader(Decoding(files), multiprocessing_context=start, **options)
    images = [image for batch in loader for image in batch]
    assert_same(images, expected)


def test_all_bad_sources_are_in_one_error() -> None:
    with pytest.raises(gi.DecodeError) as caught:
        gi.decode_batch([b"", GOOD, b"nonsense"], device="cpu")
    assert [f.index for f in caught.value.failures] == [0, 2]
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.failures) == (str(caught.value), caught.value.failures)
    with pytest.raises(gi.DecodeError) as caught:
        gi.decode_batch([GOOD[:-9], GOOD, GOOD[:900]], device="cpu")
    assert [f.index for f in caught.value.failures] == [0, 2]


@pytest.mark.parametrize("lazily", [True, False])
def test_fill_keeps_the_good_ones(lazily: bool, capfd: pytest.CaptureFixture[str]) -> None:
    entry = gi.open_batch if lazily else gi.decode_batch
    sources: list[Any] = [GOOD, *(bad for bad, _ in BAD.values()), GOOD]
    batch = gi.resize(entry(sources, device="cpu", on_error="fill"), (20, 30))
    images = batch.array()
    alone = gi.resize(entry([GOOD], device="cpu"), (20, 30)).array()[0]
    np.testing.assert_array_equal(images[0], alone)
    np.testing.assert_array_equal(images[-1], alone)
    assert not images[1:-1].any()
    assert batch.status[0] == batch.status[-1] == "ok"
    assert sorted(batch.errors) == list(range(1, len(BAD) + 1))
    for index, (_, reason) in enumerate(BAD.values(), 1):
        assert reason in batch.status[index]
        assert batch.errors[index].index == index
    assert capfd.readouterr() == ("", "")


def test_device_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUIMG_DEVICE", "cpu")
    assert gi.open_batch([GOOD]).device == "cpu"
    monkeypatch.setenv("GPUIMG_DEVICE", "tpu")
    with pytest.raises(ValueError, match=r"^GPUIMG_DEVICE must be .* not 'tpu'"):
        gi.open_batch([GOOD])


def test_ten_threads_at_once() -> None:
    files = [jpeg(picture(30 + i, 40, i)) for i in range(6)]
    expected, before = gi.resize(gi.open_batch(files, device="cpu"), (16, 16)).array(), threading.enumerate()

    def once(_: int) -> bool:
        images = gi.resize(gi.open_batch([*files, GOOD[:900]], device="cpu", on_error="fill"), (16, 16)).array()
        return bool(np.array_equal(images[:6], expected)) and not images[6].any()

    with ThreadPoolExecutor(10) as pool:
        assert all(pool.map(once, range(40)))
    assert set(threading.enumerate()) <= set(before)  # one of another test may have ended
