"""``draft="planes"``: luma and chroma as stored, resampled at their own sizes, and converted at the result's size."""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import gpuimg as gi
from gpuimg.kernels.jpeg import layout as words

from ..samples import file_of
from ..standin import Standin
from ..standin.work import SIZES, opened
from . import jpegs
from .jpegs import Decoder, Region, encoded, noise
from .test_draft import upright, weights
from .test_jpeg import oriented

REGIONS = int(os.environ.get("GPUIMG_TEST_REGIONS", "500"))
PHOTOS = sorted((Path(__file__).parents[2] / "examples" / "photos").glob("*.jpg"))
COLOR = ("4:2:0", "4:2:2", "4:4:0", "4:4:4")
SAYS = "luma and chroma resampled at their own sizes"

Pixels = NDArray[Any]


def planar(files: Any, **options: Any) -> gi.Batch:
    return gi.open_batch(files, device="cpu", draft="planes", **options)


def exact(files: Any, **options: Any) -> gi.Batch:
    return gi.open_batch(files, device="cpu", **options)


def is_planar(x: gi.Batch, i: int = 0) -> bool:
    return SAYS in gi.describe(x, i).splitlines()


# -- the decoder -------------------------------------------------------------------------------------------------------


def planes_of(decoder: Decoder, data: bytes, region: Region | None = None) -> list[Pixels]:
    """The planes of a region of an intact file."""
    header = jpegs.header_of(data)
    found = decoder(data, region, channels=words.PLANES)
    assert found.how == words.DONE
    sizes = jpegs.plane_sizes(header, region or (0, 0, int(header["width"]), int(header["height"])))
    ends = np.cumsum([height * width for height, width in sizes])
    return [part.reshape(size) for part, size in zip(np.split(found.pixels, ends[:-1]), sizes, strict=True)]


def mixed(plane: Pixels, axis: int) -> Pixels:
    """Three times each value and its neighbor before it, and after it, along an axis of twice the length."""
    moved = np.moveaxis(plane.astype(np.int64), axis, 0)
    before, after = np.concatenate([moved[:1], moved[:-1]]), np.concatenate([moved[1:], moved[-1:]])
    pairs = np.stack([3 * moved + before, 3 * moved + after], 1)
    found: Pixels = np.moveaxis(pairs.reshape(-1, *moved.shape[1:]), 0, axis)
    return found


def upsampled(plane: Pixels, across: int, down: int, height: int, width: int) -> Pixels:
    """Chroma at the size of luma, by the formulas of libjpeg's jdsample.c."""
    by_column, by_row = np.arange(2 * plane.shape[1]) % 2, np.arange(2 * plane.shape[0])[:, None] % 2
    full = plane
    if across == 2 and down == 2:
        full = (mixed(mixed(plane, 0), 1) + 8 - by_column) >> 4
    elif across == 2:
        full = (mixed(plane, 1) + 1 + by_column) >> 2
    elif down == 2:
        full = (mixed(plane, 0) + 1 + by_row) >> 2
    return full[:height, :width]


def pillow_ycc(data: bytes) -> Pixels:
    image = Image.open(io.BytesIO(data))
    image.draft("YCbCr", image.size)
    return np.asarray(image)


@pytest.mark.parametrize("sampling", COLOR)
def test_upsampled_they_are_pillows_pixels(
    sampling: str, decoders: tuple[Decoder, Decoder], photo: Image.Image
) -> None:
    for k, (width, height) in enumerate([(300, 240), (61, 44), (16, 16), (7, 9), (33, 100), (250, 187)]):
        for options in ({}, {"progressive": True}, {"restart_marker_blocks": 3}):
            if sampling == "4:4:0" and "progressive" in options:
                continue  # OpenCV writes these
            hard = [] if "progressive" in options else [noise(height, width, k)]  # Pillow has no room for all of noise
            for image in (photo.resize((width, height)), *hard):
                data = encoded(image, sampling, quality=90, **options)
                across, down = divmod(int(jpegs.header_of(data)["sampling"][0]), 16)
                planes = planes_of(decoders[k % 2], data)
                full = [upsampled(plane, across, down, height, width) for plane in planes[1:]]
                np.testing.assert_array_equal(np.stack([planes[0], *full], 2), pillow_ycc(data))


def test_planes_of_regions_are_parts_of_the_whole(decoders: tuple[Decoder, Decoder], photo: Image.Image) -> None:
    """GPUIMG_TEST_REGIONS says how many."""
    rng = np.random.default_rng()
    state = rng.bit_generator.state["state"]
    options: list[dict[str, Any]] = [{}, {"restart_marker_blocks": 5}, {"optimize": True, "quality": 96}]
    files = [encoded(photo.resize((203 - k, 170 + k)), COLOR[k % 4], **options[k % 3]) for k in range(12)]
    files.append(encoded(photo.resize((99, 121)), progressive=True))
    wholes = [planes_of(decoders[0], data) for data in files]
    for k in range(REGIONS):
        data, whole = files[k % len(files)], wholes[k % len(files)]
        (height, width), across, down = whole[0].shape, *divmod(int(jpegs.header_of(data)["sampling"][0]), 16)
        x0, y0 = int(rng.integers(width)), int(rng.integers(height))
        largest = (1, 2, 12, 1000)[k // len(files) % 4]
        x1, y1 = (int(rng.integers(a, min(b, a + largest))) + 1 for a, b in ((x0, width), (y0, height)))
        found = planes_of(decoders[k % 2], data, (x0, y0, x1, y1))
        part = slice(y0 // down, -(-y1 // down)), slice(x0 // across, -(-x1 // across))
        for one, plane, here in zip(found, whole, ((slice(y0, y1), slice(x0, x1)), part, part), strict=True):
            np.testing.assert_array_equal(one, plane[here], err_msg=f"{(x0, y0, x1, y1)}, {state}")


def test_damaged_files_stay_in_their_memory(decoders: tuple[Decoder, Decoder], photo: Image.Image) -> None:
    rng = np.random.default_rng()
    state = rng.bit_generator.state["state"]
    files = [encoded(photo.resize((61, 54)), sampling) for sampling in COLOR]
    for k in range(400):
        data = bytearray(files[k % len(files)])
        for at in rng.integers(jpegs.scan_start(bytes(data)), len(data), 3):
            data[at] = rng.integers(256)
        found = decoders[k % 2](bytes(data), channels=words.PLANES)
        assert 0 <= found.row <= found.rows, state


# -- resampling, by formulas -------------------------------------------------------------------------------------------


def converted(y: Pixels, cb: Pixels, cr: Pixels) -> Pixels:
    """Levels of red, green and blue: JFIF, section 7."""
    red = y + 1.402 * (cr - 128)
    green = y - 0.344136286 * (cb - 128) - 0.714136286 * (cr - 128)
    return np.clip(np.stack([red, green, y + 1.772 * (cb - 128)], 2), 0, 255)


def resampled(planes: list[Pixels], box: tuple[int, int, int, int], size: tuple[int, int]) -> tuple[Pixels, Pixels]:
    """Levels of a box (top, left, height, width) resized bilinearly, with antialiasing; and how far ours may differ.

    Weights are rounded to 1/32768, a weight of 1 is one step less, and products are rounded down to 1/64 of a level,
    for which half a step is added: so many times as a pixel has taps along each axis.
    """
    top, left, height, width = box
    results, apart = [], []
    for plane in planes:
        down, across = (round(a / b) for a, b in zip(planes[0].shape, plane.shape, strict=True))
        rows = weights(top, height, size[0], 1 / down, 0.0, plane.shape[0])
        columns = weights(left, width, size[1], 1 / across, 0.0, plane.shape[1])
        results.append(rows @ plane.astype(np.float64) @ columns.T)
        taps = np.count_nonzero(rows, 1)[:, None] + np.count_nonzero(columns, 1)
        apart.append(taps * (0.5 / 64 + 255 * 0.5 / 32768) + 2 * (1 / 64 + 255 / 32768))
    luma, cb, cr = apart
    in_colors = np.stack([luma + 1.402 * cr, luma + 0.344 * cb + 0.714 * cr, luma + 1.772 * cb], 2)
    return converted(*results), in_colors + 0.03  # positions in float32, and weights below 1e-4, which are left out


@pytest.mark.parametrize("sampling", COLOR)
@pytest.mark.parametrize("value", range(1, 9))
def test_resized_crops_of_every_orientation(
    value: int, sampling: str, decoders: tuple[Decoder, Decoder], photo: Image.Image
) -> None:
    rng = np.random.default_rng()
    state = rng.bit_generator.state["state"]
    for k in range(4):
        source = photo.resize((203 + k // 2, 157 + k % 2))
        data = oriented(source, value, "<", sampling=sampling) if sampling != "4:4:0" else encoded(source, sampling)
        raw = Image.open(io.BytesIO(data))
        planes = planes_of(decoders[0], data)
        height, width = gi.image_info(data)[:2]
        h, w = int(rng.integers(1, height + 1)), int(rng.integers(1, width + 1))
        top, left = int(rng.integers(height - h + 1)), int(rng.integers(width - w + 1))
        size = int(rng.integers(8, 120)), int(rng.integers(8, 120))
        x = gi.resized_crop(planar([data]), top, left, h, w, size)
        assert is_planar(x)
        # The box in the file's coordinates, and the result there, which is turned afterwards.
        turn = partial(upright, like=raw) if "exif" in raw.info else np.asarray
        rows, columns = (turn(one.astype(np.int32)) for one in np.indices(planes[0].shape))
        ends = [sorted((int(one[top, left]), int(one[top + h - 1, left + w - 1]))) for one in (rows, columns)]
        (y0, y1), (x0, x1) = ends
        swapped = (y1 - y0 + 1, x1 - x0 + 1) != (h, w) or (value > 4 and sampling != "4:4:0")
        stored = resampled(planes, (y0, x0, y1 - y0 + 1, x1 - x0 + 1), size[::-1] if swapped else size)
        expected, most = (np.stack([turn(one[..., c].astype(np.float32)) for c in range(3)], 2) for one in stored)
        found = x.array("float32")[0] * 255.0
        assert found.shape == expected.shape
        assert (np.abs(found - expected) <= most).all(), f"{state}, {(top, left, h, w)} to {size}"


def test_flips_and_scales_along_the_axes(decoders: tuple[Decoder, Decoder], photo: Image.Image) -> None:
    data = encoded(photo)
    planes = planes_of(decoders[0], data)
    x = gi.vertical_flip(gi.horizontal_flip(gi.resize(planar([data]), (100, 77))))
    assert is_planar(x)
    expected, most = (one[::-1, ::-1] for one in resampled(planes, (0, 0, 240, 300), (100, 77)))
    differences = np.abs(x.array("float32")[0] * 255.0 - expected)
    assert (differences <= most).all()
    assert differences.mean() <= most.mean() / 5  # errors of both signs


@pytest.mark.parametrize("interpolation", ["bicubic", "box", "hamming", "lanczos"])
@pytest.mark.parametrize("size", [(60, 50), (100, 222), (300, 400)])
def test_other_filters_are_near_the_exact_decode(interpolation: Any, size: tuple[int, int], photo: Image.Image) -> None:
    smooth = photo.resize((38, 30)).resize((301, 239), Image.Resampling.BICUBIC)
    for sampling in COLOR:
        data = encoded(smooth, sampling, quality=97)
        x, whole = (gi.resize(of([data]), size, interpolation) for of in (planar, exact))
        assert is_planar(x)
        differences = np.abs(x.array("float32") - whole.array("float32")) * 255.0
        assert differences.mean() < 0.8
        assert differences.max() < (18.0 if interpolation == "box" else 9.0)


def test_a_photo_is_as_near_as_documented() -> None:
    """docs/performance.md has the measured differences."""
    indices = np.arange(len(PHOTOS))
    results = [
        gi.random_resized_crop(of(PHOTOS), 224, rng=gi.Rng(0, indices=indices)).array("float32")
        for of in (planar, exact)
    ]
    for path, one, other in zip(PHOTOS, *results, strict=True):
        differences = np.abs(one - other) * 255.0
        if jpegs.jpeg_mode(path.read_bytes()) == "L":
            assert not differences.any()
        else:
            assert 0.0 < differences.mean() < 0.6, path
            assert np.quantile(differences, 0.99) < 5.0, path


# -- where it applies --------------------------------------------------------------------------------------------------

CHAINS: dict[str, tuple[bool, Callable[[gi.Batch], gi.Batch]]] = {
    "resize": (True, lambda x: gi.resize(x, (30, 30))),
    "enlarged": (True, lambda x: gi.resize(x, (330, 430))),
    "not antialiased": (True, lambda x: gi.resize(x, (30, 30), antialias=False)),
    "gray after": (True, lambda x: gi.rgb_to_grayscale(gi.resize(x, (30, 30)))),
    "quarter turn": (False, lambda x: gi.resize(gi.rotate(x, 90, expand=True), (30, 30))),
    "rotated": (False, lambda x: gi.rotate(gi.resize(x, (30, 30)), 30, "bilinear")),
    "padded before": (True, lambda x: gi.resize(gi.pad(x, 20, 9), (30, 30))),
    "contrast after": (True, lambda x: gi.adjust_contrast(gi.resize(x, (30, 30)), 1.5)),
    "blurred after": (True, lambda x: gi.gaussian_blur(gi.resize(x, (30, 30)), 3, 1.0)),
    "in a second segment": (True, lambda x: gi.resize(gi.gaussian_blur(x, 3, 1.0, where=[False]), (30, 30))),
    "nothing": (False, lambda x: x),
    "crop": (False, lambda x: gi.crop(x, 10, 20, 31, 41)),
    "nearest": (False, lambda x: gi.resize(x, (30, 30), "nearest")),
    "blurred before": (False, lambda x: gi.resize(gi.gaussian_blur(x, 3, 1.0), (30, 30))),
    "equalized before": (False, lambda x: gi.resize(gi.equalize(x), (30, 30))),
}  # fmt: skip


@pytest.mark.parametrize("name", CHAINS)
def test_programs(name: str, photo: Image.Image) -> None:
    """Near the exact result where it applies, the same elsewhere."""
    applies, chain = CHAINS[name]
    smooth = encoded(photo.resize((30, 24)).resize((241, 193), Image.Resampling.BICUBIC), quality=95)
    x = chain(planar([smooth]))
    assert is_planar(x) == applies
    found, expected = x.array("float32"), chain(exact([smooth])).array("float32")
    if applies:
        assert np.abs(found - expected).mean() * 255.0 < 1.0
        assert not np.array_equal(found, expected)
    else:
        np.testing.assert_array_equal(found, expected)


def test_other_files_are_decoded_as_without(photo: Image.Image) -> None:
    """Gray, components of RGB, CMYK, and other formats, among others of their batch."""
    others = [encoded(photo, "gray"), encoded(photo, "rgb"), file_of(photo.convert("CMYK"))]
    others += [file_of(photo, kind) for kind in ("PNG", "WEBP", "BMP")]
    files = [encoded(photo), *others]
    x, whole = (gi.horizontal_flip(gi.resize(of(files), (50, 60))) for of in (planar, exact))
    assert [is_planar(x, k) for k in range(len(files))] == [True] + [False] * len(others)
    np.testing.assert_array_equal(x.array()[1:], whole.array()[1:])
    assert not np.array_equal(x[0], whole[0])


@pytest.mark.parametrize("options", [{"color": "gray"}, {"color": "rgba"}, {"depth": "native"}])
def test_other_colors_are_decoded_as_without(options: dict[str, Any], photo: Image.Image) -> None:
    x, whole = (gi.resize(of([encoded(photo)], **options), (50, 60)) for of in (planar, exact))
    assert not is_planar(x)
    np.testing.assert_array_equal(x.array(), whole.array())


@pytest.mark.parametrize("sampling", ["4:2:0", "4:2:2", "4:4:4"])
def test_progressive_files_give_the_same(sampling: str, photo: Image.Image) -> None:
    """Of the same coefficients."""
    files = [oriented(photo.resize((205, 163)), 6, "<", sampling=sampling, progressive=one) for one in (False, True)]
    x = gi.resized_crop(
        planar(files * 2), [0, 0, 40, 40], [3, 3, 9, 9], [180, 180, 91, 91], [101, 101, 90, 90], (48, 52)
    )
    assert all(is_planar(x, k) for k in range(4))
    np.testing.assert_array_equal(x[0], x[1])
    np.testing.assert_array_equal(x[2], x[3])


def test_damage_is_reported_as_without(photo: Image.Image) -> None:
    """And what Pillow makes of such a file is resized as its pixels."""
    data = encoded(photo)
    truncated = data[: len(data) // 2]
    extra = encoded(photo, restart_marker_rows=1).replace(b"\xff\xd3", b"\xff\xd4", 1)
    files = [data, truncated, data, extra]
    x, whole = (gi.resize(of(files, on_error="fill"), (20, 20)) for of in (planar, exact))
    found, expected = x.array(), whole.array()
    assert x.status == whole.status
    assert not found[1].any()
    np.testing.assert_array_equal(found[[1, 3]], expected[[1, 3]])
    np.testing.assert_array_equal(found[0], found[2])


# -- batches -----------------------------------------------------------------------------------------------------------


def test_neighbors_in_a_batch_do_not_matter(photo: Image.Image, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor threads, nor a rotation that only some of them get."""
    files = [encoded(photo.resize((150 + 41 * k, 240 - 7 * k)), COLOR[k % 4]) for k in range(8)]
    angles = np.where(np.arange(8) % 3 == 0, 20.0, 0.0)

    def chain(files: list[bytes], angles: Any) -> gi.Batch:
        x = gi.rotate(gi.resize(planar(files), (150, 130)), angles, "bilinear")
        return gi.equalize(x, where=np.arange(len(files)) == 1)

    x = chain(files, angles)
    assert [is_planar(x, k) for k in range(8)] == (angles == 0).tolist()
    for count in ("1", "3"):
        monkeypatch.setenv("GPUIMG_NUM_THREADS", count)
        whole = chain(files, angles).array("float32")
        for k, data in enumerate(files):
            if k != 1:
                np.testing.assert_array_equal(whole[k], chain([data], angles[k : k + 1]).array("float32")[0])


@pytest.mark.parametrize("value", [1, 2, 7])
def test_views_equal_images_opened_once_for_each(value: int, photo: Image.Image) -> None:
    data = [oriented(photo.resize((205, 163)), value, "<"), encoded(photo.resize((101, 77)), "4:2:2")]
    numbers = [0, 1, 0, 0, 1]
    top, left = np.array([0, 3, 41, 7, 5]), np.array([5, 0, 12, 33, 8])
    height, width = np.array([90, 60, 55, 33, 44]), np.array([91, 70, 66, 32, 43])
    views = gi.resized_crop(planar(data).take(numbers), top, left, height, width, (40, 50))
    assert all(is_planar(views, k) for k in range(5))
    found = views.array("float32")
    for k, i in enumerate(numbers):
        one = slice(k, k + 1)
        single = gi.resized_crop(planar([data[i]]), top[one], left[one], height[one], width[one], (40, 50))
        np.testing.assert_array_equal(found[one], single.array("float32"))


def test_one_view_that_needs_pixels_decides_for_all(photo: Image.Image) -> None:
    data = [encoded(photo)] * 2
    x = planar(data).take([0, 0, 1])
    x = gi.rotate(gi.resize(x, (60, 50)), [0.0, 10.0, 0.0], "bilinear")
    assert [is_planar(x, k) for k in range(3)] == [False, False, True]
    whole = gi.rotate(gi.resize(exact(data).take([0, 0, 1]), (60, 50)), [0.0, 10.0, 0.0], "bilinear")
    np.testing.assert_array_equal(x.array()[:2], whole.array()[:2])


def test_a_seek_index_gives_the_same(photo: Image.Image, tmp_path: Path) -> None:
    files = [encoded(photo.resize((200 + 9 * k, 180)), COLOR[k]) for k in range(4)]
    path = tmp_path / "photos.gpuimg-index"
    gi.build_index([(data, 0) for data in files], path)
    results = [
        gi.resized_crop(planar(files, **options), 90, 100, 70, 80, (50, 60)).array()
        for options in ({}, {"index": gi.SeekIndex(path)})
    ]
    np.testing.assert_array_equal(*results)


def test_large_and_small_results(photo: Image.Image) -> None:
    """Wider than what is turned at a time, of single pixels, and shrunk so much that it does not apply."""
    wide = photo.resize((38, 5)).resize((2500, 30), Image.Resampling.BICUBIC)
    for size in ((7, 2300), (1, 79), (17, 800), (1, 78), (30, 1), (1, 1)):
        x, whole = (gi.resize(of([encoded(wide)]), size) for of in (planar, exact))
        assert is_planar(x) == (size[1] >= 79)
        assert np.abs(x.array("float32") - whole.array("float32")).mean() * 255.0 < 1.0


def test_pickles_and_plans_keep_it(photo: Image.Image, tmp_path: Path) -> None:
    x = gi.resize(planar([encoded(photo)]), (40, 40))
    other = pickle.loads(pickle.dumps(x))
    assert is_planar(other)
    np.testing.assert_array_equal(other.array(), x.array())
    gi.save_plan(x, tmp_path / "plan")
    again = gi.apply_plan(gi.load_plan(tmp_path / "plan"), planar([encoded(photo)]))
    np.testing.assert_array_equal(again.array(), x.array())


def test_load(photo: Image.Image) -> None:
    files = [encoded(photo.resize((300 + 9 * k, 240)), COLOR[k]) for k in range(4)]
    (batch,) = gi.load(
        [(data, 0) for data in files], lambda x: gi.resize(x, (50, 50)), batch_size=4, device="cpu", draft="planes"
    )
    np.testing.assert_array_equal(batch.images, gi.resize(planar(files), (50, 50)).array())


def test_an_exact_resize_is_refused(photo: Image.Image) -> None:
    with pytest.raises(ValueError, match="an exact resize needs images that were opened without draft="):
        gi.resize(planar([encoded(photo)]), (20, 20), exact="pillow")


def test_a_gpu_ignores_it(gpu: Standin) -> None:
    """The device decodes whole images."""
    x = gi.resize(opened(draft="planes"), (8, 8))
    assert not is_planar(x)
    x.array()
    sizes = [high - low for low, high in sorted(op.told["writes"][0] for op in gpu.order.of("decode"))]
    assert sizes == [height * width * 3 for height, width in SIZES]
