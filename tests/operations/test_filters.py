"""Blur and sharpness against their formulas and other libraries, and the segments they end."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import gpuimg as gi

from .. import references
from ..compare import FORMULA, assert_close, assert_same
from ..references import to_unit
from ..samples import file_of, pictures, smooth

FLOAT = 2e-6  # a few roundings of float32 at 1

SIZES = [(7, 9), (31, 32), (33, 31), (12, 40), (8, 8), (64, 7)]


def test_blur_in_x_and_y() -> None:
    images = pictures(SIZES, "float32")
    x = gi.gaussian_blur(images, (5, 3), (0.7, 2.0))
    assert_close(x, [references.gaussian_blur(to_unit(picture), (5, 3), (0.7, 2.0)) for picture in images], FORMULA)
    default = [references.gaussian_blur(to_unit(picture), (5, 3), (1.1, 0.8)) for picture in images]
    assert_close(gi.gaussian_blur(images, (5, 3)), default, FORMULA)
    sizes = np.array([(1, 7), (3, 5), (5, 1), (7, 3), (3, 3), (1, 9)])
    sigma = np.random.default_rng(2).uniform(0.2, 3, (len(images), 2))
    each = zip(images, map(tuple, sizes.tolist()), map(tuple, sigma.tolist()), strict=True)
    expected = [references.gaussian_blur(to_unit(picture), size, deviation) for picture, size, deviation in each]
    assert_close(gi.gaussian_blur(images, (sizes[:, 0], sizes[:, 1]), (sigma[:, 0], sigma[:, 1])), expected, FORMULA)


def test_largest_blur_an_image_can_reflect() -> None:
    images = pictures([(4, 9)], "float32")
    largest = references.gaussian_blur(to_unit(images[0]), (17, 7), (2, 2))
    assert_close(gi.gaussian_blur(images, (17, 7), 2.0), [largest], FORMULA)
    small = pictures([(1, 1), (9, 9)], "float32")
    assert_same(list(gi.gaussian_blur(small, 5, where=[False, True]))[:1], small[:1])


def as_jpeg(picture: NDArray[Any], quality: int) -> NDArray[Any]:
    data = file_of(picture if picture.shape[2] == 3 else picture[..., 0], quality=quality)
    return np.asarray(Image.open(io.BytesIO(data))).reshape(picture.shape)


# With edges at each place of a block, and so narrow that libjpeg repeats their chroma.
CODED_SIZES = [
    (1, 1), (2, 4), (4, 5), (8, 8), (15, 17), (17, 33), (31, 7), (1, 40), (61, 1), (33, 24), (64, 50), (97, 230),
]  # fmt: skip


@pytest.mark.parametrize("channels", [1, 3])
def test_artefacts_are_libjpegs(channels: int) -> None:
    generator = np.random.default_rng()
    images = pictures(CODED_SIZES, channels=channels)
    # Pictures with few frequencies, whose blocks keep some of them at any quality.
    images += [np.asarray(smooth(*size).convert("L" if channels == 1 else "RGB")) for size in CODED_SIZES]
    images = [picture.reshape(*picture.shape[:2], channels) for picture in images]
    for quality in (np.full(len(images), 1), generator.integers(1, 101, len(images)), np.full(len(images), 100)):
        expected = [as_jpeg(picture, int(q)) for picture, q in zip(images, quality, strict=True)]
        assert_same(list(gi.jpeg(images, quality)), expected)
        floats = [to_unit(picture).astype(np.float32) + generator.uniform(-0.4, 0.4) / 255 for picture in images]
        assert_close(gi.jpeg(floats, quality), [to_unit(picture) for picture in expected], FLOAT)


def test_artefacts_start_and_end_a_segment() -> None:
    images = pictures([(40, 33)] * 3)
    x = gi.autocontrast(gi.jpeg(gi.horizontal_flip(images), 40, where=[True, False, True]))
    flipped = [picture[:, ::-1] for picture in images]
    assert_same(list(x), list(gi.autocontrast([as_jpeg(flipped[0], 40), flipped[1], as_jpeg(flipped[2], 40)])))
    again = gi.jpeg(gi.jpeg(images, 20), [30, 90, 50])
    assert_same(list(again), [as_jpeg(as_jpeg(p, 20), q) for p, q in zip(images, (30, 90, 50), strict=True)])
    gray = gi.rgb_to_grayscale(gi.jpeg(images, 5))
    assert_same(list(gray), list(gi.rgb_to_grayscale([as_jpeg(picture, 5) for picture in images])))
    assert ["jpeg quality 40" in gi.describe(x, i) for i in range(3)] == [True, False, True]


STEPS: dict[str, Callable[[Any], gi.Batch]] = {
    "blur": lambda x: gi.gaussian_blur(x, 5, 1.2), "sharpen": lambda x: gi.adjust_sharpness(x, 2.5),
    "soften": lambda x: gi.adjust_sharpness(x, 0.3), "move": lambda x: gi.motion_blur(x, 5, 30),
    "compress": lambda x: gi.jpeg(x, 40), "bend": lambda x: gi.elastic(x, 50, 5, seed=3), "stretch": gi.autocontrast,
    "resize": lambda x: gi.resize(x, (20, 11)), "turn": lambda x: gi.rotate(x, 20, "bilinear", fill=0.4),
    "contrast": lambda x: gi.adjust_contrast(x, 0.5), "brighten": lambda x: gi.adjust_brightness(x, 1.5),
    "paint": lambda x: gi.erase(x, 1, 2, 3, 3, 0.7), "hue": lambda x: gi.adjust_hue(x, 0.2),
    "saturation": lambda x: gi.adjust_saturation(x, 0.3), "cut": lambda x: gi.crop(x, 0, 1, 6, 6),
    "pad": lambda x: gi.pad(x, 3, 0.5), "invert": gi.invert, "flip": gi.horizontal_flip, "upside": gi.vertical_flip,
    "quarter": lambda x: gi.rotate(x, 270, expand=True),
}  # fmt: skip
#: Launches on a GPU, which tests/cuda/test_cuda_host.py counts, and the steps of a chain.
CHAINS = [
    (1, "blur"), (1, "blur hue invert"), (2, "blur resize"), (2, "resize blur"), (2, "brighten blur"), (2, "blur blur"),
    (1, "flip resize"), (2, "blur flip"), (2, "blur pad"), (1, "sharpen"), (1, "brighten sharpen saturation"),
    (1, "turn sharpen"), (1, "cut flip sharpen"), (2, "sharpen turn"), (2, "sharpen cut"), (2, "sharpen soften"),
    (2, "sharpen brighten soften"), (1, "blur sharpen"), (2, "sharpen blur"), (2, "sharpen contrast"),
    (2, "contrast sharpen"), (2, "blur contrast"), (1, "blur paint sharpen"),
    (2, "contrast cut resize"), (2, "resize stretch flip quarter"), (2, "turn contrast upside flip"),
    (5, "contrast cut stretch brighten contrast pad flip contrast cut"),
    (3, "resize move flip"), (2, "move sharpen"), (2, "move stretch"), (3, "flip bend invert"), (3, "bend resize"),
    (5, "flip compress stretch"),  # the flip, blocks, colors, a statistic and the result
]  # fmt: skip


@pytest.mark.parametrize("steps", [steps for _, steps in CHAINS])
def test_a_chain_is_its_functions_one_at_a_time(steps: str) -> None:
    single: Any = pictures(SIZES, "float32")
    chain = single
    for step in steps.split():
        chain, single = STEPS[step](chain), STEPS[step](single).compute("float32")
    assert_close(chain.compute("float32"), list(single), FLOAT * 5)
