"""``draft``: JPEGs decoded at a reduced size, bit for bit as libjpeg scales them, and what is then made of them."""

import io
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import gpuimg as gi
from gpuimg._decoding import exif

from .. import references
from ..fakecuda import FakeGpu
from ..fakecuda.work import epoch, load
from ..libraries import cases
from ..robustness.jpegs import turned
from ..samples import file_of, with_orientation
from .jpegs import SAMPLINGS, SCALES, encoded, pillow_pixels
from .test_jpeg import THEIRS

Pixels = NDArray[Any]


# -- the decoder; test_jpeg.py has its pixels --------------------------------------------------------------------------


def test_the_oracle_is_draft(photo: Image.Image) -> None:
    """The tests set what ``Image.draft`` sets, which takes a size instead of a scale."""
    data = encoded(photo)
    for scale in SCALES[1:]:
        image = Image.open(io.BytesIO(data))
        image.draft("RGB", (300 * scale // 8, 240 * scale // 8))
        assert image.size == tuple(-(-side * scale // 8) for side in photo.size)
        np.testing.assert_array_equal(np.asarray(image), pillow_pixels(data, 3, scale))


# -- what is made of them ----------------------------------------------------------------------------------------------


def weights(start: float, length: float, count: int, factor: float, shift: float, stored: int) -> Pixels:
    """Antialiased weights (count, stored) of a stretch of an axis, counted before it was scaled by ``factor``."""
    low = int(np.floor(start * factor + shift))
    high = min(int(np.ceil((start + length) * factor + shift)), stored)
    stretch = max(length / count * factor, 1.0)
    centers = (start + (np.arange(count) + 0.5) * length / count) * factor + shift
    found = np.maximum(1.0 - np.abs(np.arange(stored) + 0.5 - centers[:, None]) / stretch, 0.0)
    found[:, :low] = found[:, high:] = 0.0
    mixed: Pixels = found / found.sum(1, keepdims=True)
    return mixed


@pytest.mark.parametrize("value", range(1, 9))
def test_resized_crops_of_every_orientation(value: int, photo: Image.Image) -> None:
    """Pillow's scaled image, turned, and resampled by the formula: what rounding a side up adds lies at one end."""
    rng = np.random.default_rng()
    data = encoded(photo.resize((203, 157)), exif=with_orientation(value))
    height, width = gi.image_info(data)[:2]
    near = turned(np.add.outer(np.arange(157), np.arange(203)), value)  # 0 at the origin
    far = near[0, 0] > near[-1, 0], near[0, 0] > near[0, -1]  # axes whose first pixels are the file's last ones
    for draft, scale in ((1.0, 2), (1.5, 4)):
        h, w = int(rng.integers(108, height + 1)), int(rng.integers(108, width + 1))
        top, left = int(rng.integers(height - h + 1)), int(rng.integers(width - w + 1))
        size = int(min(h, w) / draft * scale / 8)
        x = gi.resized_crop(gi.open_batch([data], device="cpu", draft=draft), top, left, h, w, (size, size))
        assert scale_of(x) == scale
        pixels = references.to_unit(turned(pillow_pixels(data, 3, scale), value))
        stored = pixels.shape[:2]
        shifts = (np.array(stored) - np.array([height, width]) * scale / 8) * far
        down = weights(top, h, size, scale / 8, shifts[0], stored[0])
        across = weights(left, w, size, scale / 8, shifts[1], stored[1])
        expected = np.einsum("yi,xj,ijc->yxc", down, across, pixels, optimize=True)
        np.testing.assert_allclose(x.array("float32")[0], expected, rtol=0, atol=2e-5)


def scale_of(x: gi.Batch, i: int = 0) -> int:
    """Eighths of its size that an image is decoded at, as ``describe`` tells."""
    told = gi.describe(x, i)
    if "\ndecoded at 1/" not in told:
        return 8
    size = r"(\d+) x (\d+)"
    found = re.match(rf"image \d+: {size} \(height x width\).*\ndecoded at 1/(\d) of its size: {size}(?:\n|$)", told)
    assert found
    height, width, part, *reduced = map(int, found.groups())
    assert reduced == [-(-height // part), -(-width // part)]
    return 8 // part


@pytest.mark.parametrize(
    ("draft", "size", "scale"),
    [
        (None, (8, 8), 8), (1, (150, 120), 4), (1, (151, 120), 8), (1, (150, 121), 8), (1.5, (100, 80), 4),
        (1.5, (101, 80), 8), (1.5, (50, 40), 2), (1.5, (51, 40), 4), (1.5, (25, 20), 1), (1.5, (26, 20), 2),
        (1.0, (75, 60), 2), (3, (25, 20), 2), (1000, (8, 8), 8), (1.0, (8, 240), 8), (1.0, (300, 8), 8),
    ],
)  # fmt: skip
def test_the_scale_leaves_as_much_shrinking(draft: Any, size: tuple[int, int], scale: int, photo: Image.Image) -> None:
    assert scale_of(gi.resize(gi.open_batch([encoded(photo)], device="cpu", draft=draft), size[::-1])) == scale


CHAINS: dict[str, tuple[int, Callable[[gi.Batch], gi.Batch]]] = {
    "bicubic": (2, lambda x: gi.resize(x, (30, 30), "bicubic")),
    "gray": (2, lambda x: gi.rgb_to_grayscale(gi.resize(x, (30, 30)))),
    "flipped and turned": (2, lambda x: gi.resize(gi.rotate(gi.horizontal_flip(x), 90, expand=True), (30, 30))),
    "rotated": (2, lambda x: gi.rotate(gi.resize(x, (30, 30)), 30, "bilinear")),
    "padded before": (2, lambda x: gi.resize(gi.pad(x, 20, 9), (30, 30))),
    "enlarged again": (2, lambda x: gi.resize(gi.resize(x, (30, 30)), (100, 100))),
    "contrast after": (2, lambda x: gi.adjust_contrast(gi.resize(x, (30, 30)), 1.5)),
    "blurred after": (2, lambda x: gi.gaussian_blur(gi.resize(x, (30, 30)), 3, 1.0)),
    "in a second segment": (2, lambda x: gi.resize(gi.gaussian_blur(x, 3, 1.0, where=[False]), (30, 30))),
    "nothing": (8, lambda x: x),
    "crop": (8, lambda x: gi.crop(x, 10, 20, 31, 41)),
    "crop and enlarge": (8, lambda x: gi.resized_crop(x, 10, 20, 31, 41, (64, 64))),
    "nearest": (8, lambda x: gi.resize(x, (30, 30), "nearest")),
    "not antialiased": (8, lambda x: gi.resize(x, (30, 30), antialias=False)),
    "blurred before": (8, lambda x: gi.resize(gi.gaussian_blur(x, 3, 1.0), (30, 30))),
    "contrast before": (8, lambda x: gi.resize(gi.adjust_contrast(x, 1.5), (30, 30))),
    "equalized before": (8, lambda x: gi.resize(gi.equalize(x), (30, 30))),
}  # fmt: skip


@pytest.mark.parametrize("name", CHAINS)
def test_where_images_are_scaled(name: str, photo: Image.Image) -> None:
    """And near to what comes of the whole image there, the same elsewhere."""
    scale, chain = CHAINS[name]
    smooth = encoded(photo.resize((30, 24)).resize((241, 193), Image.Resampling.BICUBIC), quality=95)
    x = chain(gi.open_batch([smooth], device="cpu", draft=1.5))
    assert scale_of(x) == scale
    expected = chain(gi.open_batch([smooth], device="cpu")).array("float32")
    if scale == 8:
        np.testing.assert_array_equal(x.array("float32"), expected)
    else:
        assert np.abs(x.array("float32") - expected).mean() < 0.01
        assert not np.array_equal(x.array("float32"), expected)


@pytest.mark.parametrize("side", [1, 2, 3, 7])
def test_what_is_not_scaled(side: int, photo: Image.Image) -> None:
    """Other formats, and sides of which nothing would be left: padded so much that even a line is shrunk."""
    for kind in ("PNG", "WEBP", "BMP"):
        assert scale_of(gi.resize(gi.open_batch([file_of(photo, kind)], device="cpu", draft=1.0), (20, 20))) == 8
    for size in ((side, 200), (200, side)):
        x = gi.open_batch([encoded(photo.resize(size), "4:4:4")], device="cpu", draft=1.0)
        x = gi.resize(gi.pad(x, 100), (25, 25))
        assert side * scale_of(x) >= 8 or scale_of(x) == 8
        assert x.array().any()


# -- whichever decoder -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", THEIRS)
def test_what_pillow_decodes(how: str, photo: Image.Image) -> None:
    color, data = "gray" if how == "rgb" else "rgb", THEIRS[how](photo)
    height, width = gi.image_info(data)[:2]
    x = gi.resize(gi.open_batch([data], device="cpu", draft=1.0, color=color), (height // 2, max(width // 2, 1)))
    assert scale_of(x) == 4
    if width % 2 == height % 2 == 0:
        pixels = pillow_pixels(data, 1 if color == "gray" else 3, 4)
        np.testing.assert_array_equal(x.array(), pixels[None])


def test_a_shrink_by_the_scale_alone_gives_the_decoders_pixels(photo: Image.Image) -> None:
    for sampling in SAMPLINGS:
        data = encoded(photo.resize((320, 240)), sampling)
        for scale in SCALES[1:]:
            x = gi.resize(gi.open_batch([data], device="cpu", draft=1), (30 * scale, 40 * scale))
            np.testing.assert_array_equal(x.array()[0], pillow_pixels(data, 3, scale))


def test_damage_is_reported_as_without_draft(photo: Image.Image) -> None:
    data = encoded(photo)
    files = [data, data[: len(data) // 2], data]

    def resized(**options: Any) -> gi.Batch:
        return gi.resize(gi.open_batch(files, device="cpu", on_error="fill", **options), (20, 20))

    x, plain = resized(draft=1.0), resized()
    pixels = x.array()
    plain.array()
    assert x.status == plain.status
    assert not pixels[1].any()
    np.testing.assert_array_equal(pixels[0], pixels[2])


def test_neighbors_in_a_batch_do_not_matter(photo: Image.Image, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor threads, nor a blur that only some of them get."""
    files = [encoded(photo.resize((150 + 40 * k, 240)), SAMPLINGS[k % len(SAMPLINGS)]) for k in range(8)]
    chosen = np.arange(8) % 3 == 0

    def chain(files: list[bytes], where: Any) -> gi.Batch:
        x = gi.gaussian_blur(gi.open_batch(files, device="cpu", draft=1.2), 3, 1.0, where=where)
        return gi.random_horizontal_flip(gi.resize(x, (60, 60)), 1.0, rng=gi.Rng(0, indices=np.arange(len(files))))

    x = chain(files, chosen)
    assert [scale_of(x, k) for k in range(8)] == [8, 4, 4, 8, 4, 4, 8, 4]
    for count in ("1", "3"):
        monkeypatch.setenv("GPUIMG_NUM_THREADS", count)
        whole = chain(files, chosen).array("float32")
        for k, data in enumerate(files):
            np.testing.assert_array_equal(whole[k], chain([data], chosen[k : k + 1]).array("float32")[0])


# -- around it ---------------------------------------------------------------------------------------------------------


def test_load(photo: Image.Image) -> None:
    files = [encoded(photo.resize((300 + 9 * k, 240)), SAMPLINGS[k]) for k in range(4)]

    def shrunk(x: gi.Batch) -> gi.Batch:
        return gi.resize(x, (50, 50))

    found = []
    for draft in (1.5, None):
        (batch,) = gi.load([(data, 0) for data in files], shrunk, batch_size=4, device="cpu", draft=draft)
        found.append(np.array(batch.images))
        np.testing.assert_array_equal(found[-1], shrunk(gi.open_batch(files, device="cpu", draft=draft)).array())
    assert not np.array_equal(*found)


@pytest.mark.parametrize("draft", [0, 0.99, -2.0, float("nan"), float("inf"), "1.5", "planes", True, [1.5], (1.5, 1.5)])
def test_bad_values(draft: Any) -> None:
    for call in (lambda: gi.open_batch([b""], draft=draft), lambda: gi.load([(b"", 0)], batch_size=1, draft=draft)):
        with pytest.raises(ValueError, match="draft must be None or a finite number of at least 1, not"):
            call()


def test_plans_are_as_without(photo: Image.Image) -> None:
    """A plan is scaled when it runs, by the batch that it is applied to."""
    data = [encoded(photo)] * 2
    draft, plain = (
        gi.resized_crop(gi.open_batch(data, device="cpu", draft=one), 3, [5, 9], 201, 203, (64, 64))
        for one in (1.0, None)
    )
    draft.array()
    for plan in (draft, plain):
        again = gi.apply_plan(plan, gi.open_batch(data, device="cpu", draft=1.0))
        assert scale_of(again) == 4
        np.testing.assert_array_equal(again.array(), draft.array())
        whole = gi.apply_plan(plan, gi.open_batch(data, device="cpu"))
        assert gi.describe(whole, 1) == gi.describe(plain, 1)
        np.testing.assert_array_equal(whole.array(), plain.array())


# -- on a GPU; ptx/test_jpeg.py has its kernels' pixels ----------------------------------------------------------------


def shrunk(x: gi.Batch, rng: gi.Rng) -> gi.Batch:
    blurred = gi.gaussian_blur(x, 3, 1.0, where=rng.units(1)[:, 0] < 0.3)
    return gi.horizontal_flip(gi.resize(blurred, (12, 12)), where=rng.units(1)[:, 0] < 0.5)


@cases("numba_cuda", "damaged", [pytest.param((), id="good"), pytest.param((0, 2), id="damaged")])
def test_a_gpu_loads(gpu: FakeGpu, photo: Image.Image, damaged: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No memory is touched that was not decoded; what kernels report the CPU decodes, at the same scale."""
    files = [encoded(photo.resize((60 + 9 * k % 50, 40 + 7 * k % 60)), SAMPLINGS[k % 5]) for k in range(12)]
    files[5:7] = [encoded(photo.resize((90, 70)), exif=with_orientation(6)), file_of(photo.resize((50, 40)), "PNG")]
    scales: list[int] = []
    decode = gpu.decode.CpuRuntime.decode

    def recorded(self: Any, images: Any, regions: Any) -> Any:
        pixels, outcome = decode(self, images, regions)
        for i, data in enumerate(images.data):
            if not data.startswith(b"\x89PNG"):
                scales.append(int(images.scales[i]))
                expected = exif.turned(pillow_pixels(data, 3, scales[-1]), int(images.orientations[i]))
                np.testing.assert_array_equal(pixels.view(i), expected)
        return pixels, outcome

    monkeypatch.setattr(gpu.decode.CpuRuntime, "decode", recorded)
    gpu.damaged.update(damaged)
    source = [(data, k) for k, data in enumerate(files)]
    loader = load(source, shrunk, batch_size=4, draft=1.0)
    for _ in range(2):
        assert epoch(gpu, loader) == 3
    assert "reduced_dct" in [op.told["name"] for op in gpu.order.of("launch")]
    assert bool(scales) == bool(damaged)
    assert not damaged or min(scales) < 8
