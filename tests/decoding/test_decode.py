"""From files to pixels: every kind of source, every kind of failure."""

import io
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gpuimg as gi

from ..samples import file_of


def photo(height: int, width: int, seed: int = 0) -> Image.Image:
    """A smooth image with some noise, as a photo has."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (height // 8 + 2, width // 8 + 2, 3), np.uint8)
    smooth = np.asarray(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC), np.int16)
    noisy = smooth + rng.integers(-6, 7, smooth.shape)
    return Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))


def encode(image: Image.Image, form: str = "JPEG", **options: Any) -> bytes:
    return file_of(image, form, **({"quality": 90} if form == "JPEG" else {}) | options)


def with_orientation(image: Image.Image, value: int, form: str = "JPEG") -> bytes:
    exif = Image.Exif()
    exif[0x0112] = value
    return encode(image, form, exif=exif)


def reference(data: bytes, mode: str = "RGB") -> np.ndarray:
    from PIL import ImageOps

    pixels = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert(mode))
    return pixels if pixels.ndim == 3 else pixels[..., None]


def assert_close(actual: np.ndarray, expected: np.ndarray) -> None:
    """libjpeg variants differ by a level or two in a few pixels."""
    assert actual.shape == expected.shape
    difference = np.abs(actual.astype(int) - expected.astype(int))
    assert np.mean(difference <= 2) >= 0.99
    assert difference.max() <= 12


VARIANTS = {
    "420": {"subsampling": 2},
    "422": {"subsampling": 1},
    "444": {"subsampling": 0},
    "progressive": {"progressive": True},
    "restart": {"restart_marker_rows": 1},
    "low quality": {"quality": 20},
}


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("size", [(1, 1), (7, 9), (31, 33), (120, 161)])
def test_jpeg_is_what_pillow_decodes(options: dict[str, Any], size: tuple[int, int]) -> None:
    data = encode(photo(*size), **options)
    assert_close(gi.decode_batch([data], device="cpu")[0], reference(data))


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("value", range(1, 9))
def test_exif_orientation(value: int, form: str) -> None:
    data = with_orientation(photo(40, 56), value, form)
    upright = (40, 56) if value < 5 else (56, 40)
    assert gi.image_info(data)[:2] == upright
    assert gi.image_info(data).orientation == value
    batch = gi.open_batch([data], device="cpu")
    assert batch.sizes.tolist() == [list(upright)]
    assert_close(batch[0], reference(data))


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_gray_and_rgb(mode: str) -> None:
    data = encode(photo(33, 47).convert(mode))
    assert_close(gi.decode_batch([data], device="cpu")[0], reference(data))
    gray = gi.decode_batch([data], device="cpu", color="gray")[0]
    expected = np.asarray(Image.open(io.BytesIO(data)).convert("YCbCr"))[..., :1] if mode == "RGB" else None
    assert_close(gray, expected if expected is not None else reference(data, "L"))


def test_every_kind_of_source(tmp_path: Path) -> None:
    data = encode(photo(20, 30))
    path = tmp_path / "photo.jpg"
    path.write_bytes(data)
    array = np.frombuffer(data, np.uint8)
    with path.open("rb") as file:
        sources = [path, str(path), data, bytearray(data), memoryview(data), array, np.stack([array, array])[:, ::1][1]]
        sources.append(memoryview(bytes(np.repeat(array, 2)))[::2])  # not in one piece
        batch = gi.decode_batch([*sources, file, io.BytesIO(data)], device="cpu")
    assert len(batch) == 10
    for image in batch:
        np.testing.assert_array_equal(image, batch[0])


@pytest.mark.parametrize("source", [None, 3, [1, 2], np.zeros(9), np.zeros((2, 2), np.uint8), io.StringIO("x")])
def test_what_is_not_a_source(source: object) -> None:
    with pytest.raises(TypeError, match=r"sources\[1\]"):
        gi.open_batch([encode(photo(8, 8)), source], device="cpu")  # type: ignore[list-item]


def test_batch_is_the_loop_over_its_images() -> None:
    files = [encode(photo(20 + 7 * i, 50 - 3 * i, i)) for i in range(6)]
    batch = gi.decode_batch(files, device="cpu")
    for i, file in enumerate(files):
        np.testing.assert_array_equal(batch[i], gi.decode_batch([file], device="cpu")[0])


@pytest.mark.parametrize("value", [1, 3, 6, 8])
@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"subsampling": 0}], ids=str)
def test_region_decode_changes_nothing(value: int, options: dict[str, Any]) -> None:
    """The decoded part of a file depends on the plan; the result does not."""
    exif = Image.Exif()
    exif[0x0112] = value
    files = [encode(photo(150 + i, 200 - 5 * i, i), exif=exif, **options) for i in range(4)]

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
    opened = gi.open_batch([encode(photo(20, 30))], device="cpu")
    x = gi.resize(opened, 8)
    assert x.sizes.tolist() == [[8, 12]]
    assert x.channels == 3
    assert repr(opened) == "<gpuimg.Batch of 1 image, 20x30, 3 channels, encoded, on cpu>"
    assert repr(x) == "<gpuimg.Batch of 1 image, 8x12, 3 channels, encoded, operations recorded, on cpu>"


# -- failures ----------------------------------------------------------------------------------------------------


def forged(height: int, width: int) -> bytes:
    """A small JPEG whose header claims another size."""
    data = encode(photo(16, 16))
    at = data.find(b"\xff\xc0") + 5
    return data[:at] + height.to_bytes(2, "big") + width.to_bytes(2, "big") + data[at + 4 :]


GOOD = encode(photo(40, 60))
BAD = {
    "empty": (b"", "empty"),
    "text": (b"hello world" * 40, "not an image"),
    "photoshop": (b"8BPS" + bytes(40), "PSD is not supported"),
    "truncated header": (GOOD[:100], "truncated or damaged"),
    "truncated body": (GOOD[: len(GOOD) // 2], "the data end in MCU row 1 of 3"),
    "last bytes missing": (GOOD[:-9], "the data end in MCU row 3 of 3"),
    "over the limit": (forged(20000, 20000), "max_pixels"),
    "missing file": ("/no/such/file.jpg", "No such file"),
    "heic": (b"\0\0\0\x18ftypheic" + bytes(40), "HEIC"),
}


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
    assert capfd.readouterr() == ("", "")


SINGLE = {
    **{name: encode(photo(61, 83), **options) for name, options in VARIANTS.items()},
    "gray": encode(photo(61, 83).convert("L")),
    "cmyk": encode(photo(61, 83).convert("CMYK")),
    "png": encode(photo(61, 83), "PNG"),
    "transparent": encode(photo(61, 83).convert("RGBA"), "PNG"),
    "deep": encode(Image.fromarray(np.arange(63, dtype=np.uint16).reshape(7, 9) * 999), "PNG"),
    "one pixel": encode(photo(1, 1)),
}


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


@pytest.mark.parametrize("value", range(1, 9))
@pytest.mark.parametrize("progressive", [False, True])
def test_one_image_is_turned(value: int, progressive: bool) -> None:
    exif = Image.Exif()
    exif[0x0112] = value
    data = encode(photo(40, 72), exif=exif, progressive=progressive)
    assert_close(gi.decode_image(data, device="cpu"), reference(data))


def test_one_image_of_every_source_on_many_threads(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(GOOD)
    expected = gi.decode_batch([GOOD], device="cpu")[0]
    sources = [path, str(path), GOOD, bytearray(GOOD), memoryview(GOOD), np.frombuffer(GOOD, np.uint8)]
    with ThreadPoolExecutor(8) as pool:
        for image in pool.map(gi.decode_image, sources * 20):
            np.testing.assert_array_equal(image, expected)
    with path.open("rb") as file:
        np.testing.assert_array_equal(gi.decode_image(file, device="cpu"), expected)


class Decoding:
    """A map-style data set that decodes one image a call."""

    def __init__(self, files: list[bytes]) -> None:
        self._files = files

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> Any:
        return gi.decode_image(self._files[index], device="cpu")


@pytest.mark.parametrize("start", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_one_image_in_worker_processes(start: str) -> None:
    data = pytest.importorskip("torch.utils.data")
    files = [SINGLE["420"], SINGLE["progressive"], SINGLE["png"]] * 3
    expected = list(gi.decode_batch(files, device="cpu"))
    options = {"batch_size": 2, "num_workers": 2, "collate_fn": list}
    loader = data.DataLoader(Decoding(files), multiprocessing_context=start, **options)
    images = [image for batch in loader for image in batch]
    assert len(images) == len(files)
    for image, one in zip(images, expected, strict=True):
        np.testing.assert_array_equal(image, one)


@pytest.mark.parametrize(("bad", "reason"), BAD.values(), ids=BAD)
def test_one_bad_image_is_an_error(bad: Any, reason: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises((gi.DecodeError, OSError), match=reason) as caught:
        gi.decode_image(bad, device="cpu")
    assert isinstance(caught.value, OSError) == isinstance(bad, str)
    assert capfd.readouterr() == ("", "")


def test_all_bad_sources_are_in_one_error() -> None:
    with pytest.raises(gi.DecodeError) as caught:
        gi.decode_batch([b"", GOOD, b"nonsense"], device="cpu")
    assert [f.index for f in caught.value.failures] == [0, 2]
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


def test_damage_in_the_middle_stays_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    """libjpeg decodes on after damaged data and warns on stderr; the warning goes no further."""
    data = bytearray(GOOD)
    start = data.find(b"\xff\xda") + 60
    for at in range(start, start + 200, 7):
        data[at] = 0x55
    batch = gi.decode_batch([bytes(data), GOOD], device="cpu", on_error="fill")
    np.testing.assert_array_equal(batch[1], gi.decode_batch([GOOD], device="cpu")[0])
    assert capfd.readouterr() == ("", "")


def test_forged_size_takes_no_memory() -> None:
    import resource

    gi.decode_batch([GOOD], device="cpu")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(gi.DecodeError):
        gi.decode_batch([forged(20000, 20000)], device="cpu")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB; the pixels would be 1.2 GB


def test_unknown_words() -> None:
    with pytest.raises(ValueError, match="color"):
        gi.open_batch([GOOD], device="cpu", color="bgr")
    with pytest.raises(ValueError, match="on_error"):
        gi.open_batch([GOOD], device="cpu", on_error="ignore")
    with pytest.raises(ValueError, match="device"):
        gi.open_batch([GOOD], device="gpu")


def test_error_survives_pickling() -> None:
    import pickle

    with pytest.raises(gi.DecodeError) as caught:
        gi.open_batch([b""], device="cpu")
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.failures == caught.value.failures


# -- the machine -------------------------------------------------------------------------------------------------


def test_device_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUIMG_DEVICE", "cpu")
    assert gi.open_batch([GOOD]).device == "cpu"
    monkeypatch.setenv("GPUIMG_DEVICE", "tpu")
    with pytest.raises(ValueError, match=r"^GPUIMG_DEVICE must be .* not 'tpu'"):
        gi.open_batch([GOOD])


def test_a_device_that_does_not_work_says_why() -> None:
    try:
        gi.open_batch([GOOD], device="cuda")
    except RuntimeError as error:
        assert "does not work here: " in str(error)  # noqa: PT017  (a GPU may work)
    else:
        pytest.skip("this machine has a working GPU")


def test_empty_batch() -> None:
    assert len(gi.open_batch([], device="cpu")) == 0
    assert gi.resize(gi.decode_batch([], device="cpu"), (8, 8)).array().shape[0] == 0


@pytest.mark.parametrize("count", ["1", "2", "5"])
def test_thread_count_changes_nothing_and_threads_end(count: str, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [encode(photo(30 + i, 40, i)) for i in range(8)]
    expected = gi.resize(gi.open_batch(files, device="cpu"), (16, 16)).array()
    monkeypatch.setenv("GPUIMG_NUM_THREADS", count)
    before = threading.active_count()
    np.testing.assert_array_equal(gi.resize(gi.open_batch(files, device="cpu"), (16, 16)).array(), expected)
    assert threading.active_count() == before


def test_ten_threads_at_once() -> None:
    files = [encode(photo(30 + i, 40, i)) for i in range(6)]
    expected = gi.resize(gi.open_batch(files, device="cpu"), (16, 16)).array()

    def once(_: int) -> bool:
        images = gi.resize(gi.open_batch([*files, GOOD[:900]], device="cpu", on_error="fill"), (16, 16)).array()
        return bool(np.array_equal(images[:6], expected)) and not images[6].any()

    with ThreadPoolExecutor(10) as pool:
        assert all(pool.map(once, range(40)))


def test_runs_once_and_keeps_the_result() -> None:
    x = gi.resize(gi.open_batch([GOOD] * 2, device="cpu"), (8, 8))
    first = x.array()
    assert x.array() is not None
    assert np.shares_memory(first, x.array())
    assert x.launches == 1
    assert np.shares_memory(x[1], first)
