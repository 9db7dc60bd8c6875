"""Plans applied to other images, and told in words."""

import pickle
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gpuimg as gi

from ..compare import assert_same
from ..operations.calls import CALLS
from ..samples import image, images


def everything(x: Any) -> gi.Batch:
    """A chain with statistics over several grids, neighbours, stages and different ops for each image."""
    x = gi.adjust_contrast(gi.resize(x, (40, 30)), 1.4)
    x = gi.equalize(gi.rotate(x, np.linspace(-40, 40, len(x)), "bilinear", fill=(9, 80, 200)))
    x = gi.gaussian_blur(gi.erase(x, 3, 4, 5, 6, 7), (3, 5), 1.5, where=np.arange(len(x)) % 2 == 0)
    x = gi.adjust_contrast(gi.crop(x, 2, 3, 20, 20), 0.5)
    x = gi.autocontrast(gi.adjust_sharpness(x, 2.0), where=np.arange(len(x)) % 3 == 0)
    x = gi.rand_augment(x, rng=3)
    return gi.normalize(gi.rgb_to_grayscale(x), 0.5, 0.25)


def others(pictures: list[NDArray[Any]]) -> list[NDArray[Any]]:
    return [image(np.random.default_rng(99), *p.shape[:2], 3, str(p.dtype)) for p in pictures]


def restored(x: gi.Batch) -> gi.Batch:
    again: gi.Batch = pickle.loads(pickle.dumps(x))
    return again


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("name", CALLS)
def test_a_plan_does_what_was_recorded(name: str, dtype: str) -> None:
    """Also one that was pickled."""
    rng = np.random.default_rng(1)
    pictures = images(rng, dtype, 3, 13)
    call = CALLS[name]
    each = call.each(rng, 13, 255.0 if dtype == "uint8" else 1.0)
    where = rng.random(13) < 0.7 if name != "normalize" else None
    x, new = call.run(pictures, each, where=where), others(pictures)
    expected = list(call.run(new, each, where=where).compute())
    for plan in (x, restored(x)):
        assert_same(list(gi.apply_plan(plan, new).compute()), expected)


def test_segments_and_statistics_are_replayed() -> None:
    pictures = images(np.random.default_rng(2), "uint8", 3, 13)
    x = everything(pictures)
    plan = restored(x)
    new = others(pictures)
    expected, result = everything(new), gi.apply_plan(plan, new)
    assert_same(list(result.compute()), list(expected.compute()))
    assert (result.channels, result.dtype) == (1, "float32")
    assert [gi.describe(plan, i) for i in range(13)] == [gi.describe(x, i) for i in range(13)]
    nothing = np.zeros((0, 5, 6, 3), np.uint8)
    empty = restored(gi.rotate(gi.resize(nothing, 4), 30))
    assert gi.apply_plan(empty, nothing).array().shape == (0, 4, 4, 3)


@pytest.mark.parametrize(
    ("name", "given"), [("adjust_sharpness", (2.0,)), ("gaussian_blur", (3, 1.0)), ("normalize", (0.5, 0.1))]
)
def test_recording_goes_on_after_a_plan(name: str, given: Any) -> None:
    pictures = images(np.random.default_rng(8), "uint8", 3, 13)[3:]
    x = getattr(gi, name)(pictures, *given)
    result = gi.adjust_sharpness(gi.resize(gi.apply_plan(restored(x), pictures), (9, 9)), 0.5)
    assert_same(list(result), list(gi.adjust_sharpness(gi.resize(x, (9, 9)), 0.5)))


def test_a_recorded_batch_goes_on_from_its_results() -> None:
    picture = np.arange(6, dtype=np.uint8).reshape(1, 2, 3, 1)
    plan = gi.crop(picture, 0, 1, 2, 2)
    result = gi.apply_plan(plan, gi.horizontal_flip(picture))
    assert result.array()[0, :, :, 0].tolist() == [[1, 0], [4, 3]]
    assert gi.transform_boxes(result, [[(0, 0, 1, 2), (1, 0, 2, 2)]])[0][0].tolist() == [[1, 0, 2, 2], [0, 0, 1, 2]]


def test_description_of_everything() -> None:
    x: Any = [np.zeros((30, 40, 3), np.uint8), np.zeros((60, 50, 3), np.uint8)]
    only = np.array([False, True])
    x = gi.vertical_flip(gi.horizontal_flip(gi.crop(x, [1, 10], 4, 20, 30), where=only))
    x = gi.adjust_brightness(gi.resize(x, (40, 60), "bicubic"), [0.5, 1.25])
    x = gi.rotate(x, [0, 12.5], "bilinear", fill=(1, 2, 255))
    x = gi.affine(x, -30, (2, 0), 2.0, 0, fill=None)
    x = gi.affine(x, 0, (2, -3), 1.0, 0, fill=None)
    x = gi.affine(x, 0, (0, 0), 1.0, 20, fill=None)
    x = gi.perspective(x, [(0, 0), (60, 0), (60, 40), (0, 40)], [(1, 2), (60, 0), (60, 40), (0, 40)], fill=None)
    x = gi.adjust_hue(gi.adjust_saturation(gi.adjust_contrast(x, 2), 0), -0.25)
    x = gi.autocontrast(gi.equalize(gi.invert(gi.posterize(gi.solarize(x, 128, where=only), [3, 4]))))
    x = gi.erase(gi.pad(x, (1, 2, 3, 4), 9), 1, 2, 3, 4, 5)
    x = gi.crop(gi.adjust_sharpness(gi.gaussian_blur(x, (3, 5), (0.5, 2.0)), 1.5), -1, 2, 8, 8)
    x = gi.erase(gi.normalize(gi.rgb_to_grayscale(x), 0.4, 0.2), 0, 0, 1, 1, -1.5)
    assert gi.describe(x, 1) == gi.describe(x, -1)
    assert gi.describe(x, 1).splitlines() == [
        "image 1: 60 x 50 (height x width), 3 channels, uint8",
        "crop rows 10 to 30, columns 4 to 34 of 60 x 50",
        "flip left and right",
        "flip top and bottom",
        "resize to 40 x 60",
        "brightness 1.25",
        "fill around the image with 1, 2, 255",
        "rotate by 12.5 degrees",
        "rotate by 30 degrees, scale by 2, 2 (x, y), move the middle by 2, 0 pixels (x, y)",
        "shift by 2, -3 pixels (x, y)",
        "shear by -20 degrees",
        "perspective with corners at (1, 2), (60, 0), (60, 40), (0, 40) (x, y)",
        "contrast 2",
        "saturation 0",
        "hue -0.25 turns",
        "solarize from 128",
        "posterize to 4 bits",
        "invert",
        "equalize",
        "autocontrast",
        "fill around the image with 9",
        "pad rows -2 to 44, columns -1 to 63 of 40 x 60",
        "erase rows 1 to 4, columns 2 to 6, color 5",
        "sampled once, bicubic",
        "segment 2, on the result so far:",
        "gaussian blur 3 x 5 pixels, sigma 0.5, 2 (x, y)",
        "sharpness 1.5",
        "segment 3, on the result so far:",
        "fill around the image with 0",
        "crop and pad rows -1 to 7, columns 2 to 10 of 46 x 64",
        "grayscale",
        "normalize with mean 0.4, std 0.2",
        "erase rows 0 to 1, columns 0 to 1, color -1.5",
        "sampled once, nearest",
        "result: 8 x 8, 1 channel",
    ]
    assert gi.describe(x, 0).splitlines()[1:4] == [
        "crop rows 1 to 21, columns 4 to 34 of 30 x 40",
        "flip top and bottom",
        "resize to 40 x 60",
    ]


def test_description_of_own_functions() -> None:
    x = gi.crop(np.zeros((1, 3, 4, 1), np.float32), 0, 0, 3, 4)
    assert gi.describe(x, 0) == "image 0: 3 x 4 (height x width), 1 channel, float32\nresult: 3 x 4, 1 channel"
    dim = CALLS["pointwise"].fixed["function"]
    assert "pointwise dim, value 0.5" in gi.describe(gi.pointwise(np.zeros((1, 3, 4, 3), np.uint8), dim, 0.5), 0)
    assert "expand" not in gi.describe(gi.rotate(x, 90, expand=True), 0)
    assert "rotate by 90 degrees, onto 4 x 3" in gi.describe(gi.rotate(x, 90, expand=True), 0)
    for i in (1, -2):
        with pytest.raises(IndexError):
            gi.describe(x, i)
