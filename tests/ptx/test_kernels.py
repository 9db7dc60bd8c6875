"""Every kernel, as it is compiled, launched by the runtime on awkward images: the CPU's pixels."""

from collections.abc import Callable
from itertools import cycle, product
from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from gpuimg.kernels import cuda as kernels
from gpuimg.kernels import ops
from gpuimg.kernels.layout import RESULTS
from tests.libraries import needs

needs("numba_cuda")

from . import variants
from .device import Launches
from .launch import run
from .pixels import RANDOM, SIZES, assert_close, assert_few_apart, images_of, on_device

pytestmark = pytest.mark.usefixtures("watched")

Chain = Callable[[Any], gi.Batch]

LAYOUTS = [(3, "NCHW"), (3, "NHWC"), (1, "NHWC")]  # channels, and order of the result


# -- chains ------------------------------------------------------------------------------------------------------------


def shrunk(x: Any) -> gi.Batch:
    """A filter that mirrors nothing, and colors."""
    return gi.horizontal_flip(gi.adjust_saturation(gi.resize(x, (15, 17), "bicubic"), 1.7))


def measured(x: Any) -> gi.Batch:
    """Means and ranges, over two grids."""
    x = gi.adjust_contrast(gi.resize(x, (12, 11)), 0.6)
    x = gi.autocontrast(gi.rotate(x, 20, "bilinear"), where=np.arange(len(x)) % 2 == 0)
    return gi.adjust_contrast(x, 1.4)


def equalized(x: Any) -> gi.Batch:
    """Histograms, of two blocks of threads.

    Of values that the images hold: an interpolated one may lie so close to the border of two levels that CPU and GPU,
    1e-6 apart, count it on either side, and then all pixels of a level differ by 1/255.
    """
    return gi.equalize(gi.resize(x, (33, 34), "nearest"), where=np.arange(len(x)) % 3 > 0)


# For images of one size, because earlier resizing would be resampled in a separate pass.


def mirrored(x: Any) -> gi.Batch:
    """Pad with mirrored pixels by more than the image, change colors by the rare formulas, and permute the channels.

    The threshold is no value that HSV makes of bytes: CPU and GPU, 1e-6 apart, could be on either side of one.
    """
    x = gi.pad(x, (9, 2, 0, 7), padding_mode="reflect", where=np.arange(len(x)) >= 0)
    x = gi.adjust_hsv(x, np.linspace(-1.0, 1.0, len(x)), np.linspace(0.0, 3.0, len(x)), 1.2)
    x = gi.solarize_add(x, 0.3, 0.61803)
    return gi.permute_channels(x, (1, 2, 0) if x.channels == 3 else (0,))


def moved(x: Any) -> gi.Batch:
    """Averaged along lines."""
    return gi.adjust_saturation(gi.motion_blur(x, np.arange(len(x)) * 3 + 1, np.arange(len(x)) * 77.0), 1.3)


def contrasted(x: Any) -> gi.Batch:
    """Ranges and means."""
    return gi.adjust_contrast(gi.autocontrast(x), 1.4)


# -- every variant -----------------------------------------------------------------------------------------------------


CHAINS: dict[tuple[str, str], list[Chain]] = {
    ("make_transform", ops.PLAIN): [shrunk],
    ("make_transform", ops.FULL): [mirrored],
    ("make_transform", ops.MOVING): [moved],
    ("make_statistics", ops.PLAIN): [measured, equalized],
    ("make_statistics", ops.FULL): [lambda x: gi.equalize(mirrored(x))],
    ("make_statistics", ops.MOVING): [lambda x: contrasted(moved(x))],
}
OF_PLANS = [
    kernel
    for kernel in reversed([*variants.USERS, *kernels.every_kernel()])  # those of bytes first
    if kernel.name.startswith(("transform", "statistics"))
]


def _of_the_users(chain: Chain) -> Chain:
    return lambda x: gi.adjust_contrast(gi.pointwise(chain(x), variants.dim, 0.8), 1.2)


def _normalized(chain: Chain) -> Chain:
    return lambda x: gi.normalize(chain(x), 0.5, 0.25)


@pytest.mark.parametrize("kernel", variants.parameters(OF_PLANS))
def test_every_variant_has_the_cpus_pixels(launches: Launches, kernel: Any) -> None:
    _, *kinds, build = kernel.code.arguments
    dtype = RESULTS[kinds[0]] if kinds else "float32"
    chains = CHAINS[kernel.code.name, build]
    if kernel.users:
        chains = [_of_the_users(chain) for chain in chains]
    if dtype != "uint8":
        chains = [*chains, *map(_normalized, chains)]
    found, expected, exact = [], [], []
    layouts = LAYOUTS[:2] if kernel.users else LAYOUTS
    for (channels, order), chain in zip(layouts, cycle(chains), strict=False):
        images = images_of(kernel.arguments[0].removesuffix("[]"), channels, [(11, 13)] * 3 if build else SIZES)
        exact.append(chain(images).array("float32", order))
        expected.append(chain(images).array(dtype, order))
        result = chain(on_device(launches, images)).array(dtype, order)
        found.append(result.values.view(expected[-1].dtype).copy())  # its memory is used again
        assert_close(found[-1], exact[-1])
    assert kernel in launches.kernels
    if dtype == "uint8":
        assert_few_apart(found, expected, exact)


@pytest.mark.slow
@pytest.mark.parametrize("source", ["uint8", "float32"])
@pytest.mark.parametrize("channels", [1, 3])
def test_artefacts_are_the_cpus_to_the_last_bit(launches: Launches, source: str, channels: int) -> None:
    """Blocks at every edge, and images that do not change."""
    sizes = [*SIZES, (16, 16), (17, 40), (2, 4), (33, 5)]
    images = images_of(source, channels, sizes)
    quality, where = RANDOM.integers(1, 101, len(images)), np.arange(len(images)) % 4 > 0
    x = gi.jpeg(images, quality, where=where).compute("float32")
    found = gi.jpeg(on_device(launches, images), quality, where=where).compute("float32")
    for one, other in zip(found, x, strict=True):
        assert_close(one.values, other)
        np.testing.assert_array_equal(np.rint(one.values * 255), np.rint(other * 255))
    assert {kernels.ARTEFACTS[name][source] for name in kernels.ARTEFACTS} <= set(launches.kernels)


def _every_other(x: Any) -> Any:
    return np.arange(len(x)) % 4 > 0


#: Ops on whole images, of a random generator and channels.
AREAS: list[Callable[[Any, np.random.Generator, int], gi.Batch]] = [
    lambda x, rng, c: gi.median_blur(x, rng.choice((3, 5), len(x)), where=_every_other(x)),
    lambda x, rng, c: gi.median_blur(x[:1], 7),
    lambda x, rng, c: gi.morphology(x, "open", rng.integers(1, 6, (len(x), 2)), "ellipse", where=_every_other(x)),
    lambda x, rng, c: gi.morphology(x, "dilate", (4, 3)),
    lambda x, rng, c: gi.filter2d(x, [rng.normal(0.1, 0.3, rng.integers(1, 5, 2)) for _ in x], "constant", 0.2),
    lambda x, rng, c: gi.box_blur(x, (11, 3)),
    lambda x, rng, c: gi.clahe(x, rng.uniform(0, 4, len(x)), (2, 3), where=_every_other(x)),
    lambda x, rng, c: gi.remap(x, rng.uniform(-5, 20, (5, 7, 2)), padding_mode="reflect"),
    lambda x, rng, c: gi.remap(x, rng.uniform(-5, 20, (len(x), 3, 4, 2)), "nearest", fill=0.5),
    lambda x, rng, c: gi.lookup_table(x, rng.random((256, c)) * (255 if x[0].dtype == "uint8" else 1)),
]  # fmt: skip


@pytest.mark.parametrize("source", ["uint8", "float32"])
@pytest.mark.parametrize("channels", [1, 3])
def test_ops_on_whole_images_are_the_cpus_to_the_last_bit(launches: Launches, source: str, channels: int) -> None:
    images = images_of(source, channels)
    for op in AREAS:
        seed = int(RANDOM.integers(1 << 31))
        found, expected = (op(x, np.random.default_rng(seed), channels) for x in (on_device(launches, images), images))
        for dtype in ("float32", "uint8"):
            for one, other in zip(found.compute(dtype), expected.compute(dtype), strict=True):
                np.testing.assert_array_equal(one.values.reshape(other.shape), other)
        # After and before others, with bytes that are not rounded between.
        chain = [gi.normalize(gi.median_blur(gi.adjust_contrast(x, 0.7), 3), 0.5, 0.25) for x in (found, expected)]
        for one, other in zip(*(x.compute("float32") for x in chain), strict=True):
            assert_close(one.values.reshape(other.shape), other)
    assert {kernels.AREAS[name][source] for name in kernels.AREAS} <= set(launches.kernels)


#: Noise, weather and channels: what only the full kernels have.
PATTERNS: list[Callable[[Any], gi.Batch]] = [
    lambda x: gi.salt_and_pepper(gi.gaussian_noise(x, 0.0, 0.2, seed=range(len(x))), 0.3, 0.4, seed=3),
    lambda x: gi.salt_and_pepper(x, 0.5, np.linspace(0, 1, len(x)), per_channel=True, seed=range(len(x))),
    lambda x: gi.fog(x, np.linspace(0, 1, len(x)), np.linspace(1, 30, len(x)), 0.3, seed=range(2**47, 2**47 + len(x))),
    lambda x: gi.rain(x, 0.9, np.linspace(2, 9, len(x)), 1.5, np.linspace(-90, 90, len(x)), 0.1, 0.8, seed=5),
    lambda x: gi.shadow(x, np.linspace(-3, 17, 12 * len(x)).reshape(len(x), 6, 2) ** 2 % 13, 0.4),
    lambda x: gi.shot_noise(x, np.geomspace(1, 900, len(x)), seed=range(len(x))),
    lambda x: gi.color_matrix(x, np.linspace(-1, 1, x.channels * (x.channels + 1)).reshape(x.channels, -1)),
]


@pytest.mark.parametrize("source", ["uint8", "float32"])
@pytest.mark.parametrize("channels", [1, 3])
def test_noise_and_weather_are_the_cpus(launches: Launches, source: str, channels: int) -> None:
    """But for a few pixels on an edge or between two numbers of photons, where rounding decides."""
    images = images_of(source, channels)
    for pattern in PATTERNS:
        found, expected = (
            pattern(gi.horizontal_flip(x)).compute("float32") for x in (on_device(launches, images), images)
        )
        apart = np.concatenate([
            np.any(np.abs(one.values.reshape(other.shape) - other) > 1e-5, 2).ravel()
            for one, other in zip(found, expected, strict=True)
        ])  # fmt: skip
        assert apart.sum() <= 2


@pytest.mark.parametrize("rule", ["pillow", "torch"])
def test_normalized_bytes_are_the_cpus_to_the_last_bit(launches: Launches, rule: Any) -> None:
    """Every byte, with divisions rounded once: also over deviations that are no power of two, and in full kernels."""
    levels = np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1).repeat(3, 3)
    for mean, std in (((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)), (RANDOM.random(3), RANDOM.random(3) + 0.01)):
        found, expected = (
            gi.normalize(gi.pad(gi.resize(x, 16, exact=rule), 1, fill=9), mean, std).array(layout="NCHW")
            for x in (on_device(launches, levels), levels)
        )
        np.testing.assert_array_equal(found.values, expected)
        found, expected = (
            gi.gaussian_noise(gi.normalize(gi.resize(x, 16, exact=rule), mean, std), 0, 0, False, seed=3).array()
            for x in (on_device(launches, levels), levels)
        )
        np.testing.assert_array_equal(found.values, expected)


def test_mixes_and_mosaics_are_the_cpus(launches: Launches) -> None:
    """Also of images of one pixel."""
    seed = int(RANDOM.integers(1 << 31))
    calls: list[Chain] = [
        lambda x: gi.adjust_contrast(gi.mixup(gi.resize(x, (9, 11)), rng=seed).images, 0.7),
        lambda x: gi.adjust_contrast(gi.cutmix(gi.resize(x, (9, 11)), rng=seed).images, 0.7),
        lambda x: gi.mosaic(x, (22, 30), fill=99, rng=seed).images,
        lambda x: gi.blend(gi.resize(x, (1, 1)), gi.invert(gi.resize(x, (1, 1))), 0.3),
    ]
    for channels, call in product((1, 3), calls):
        images = images_of("uint8", channels)
        assert_close(call(on_device(launches, images)).array().values, call(images).array())
    assert kernels.MIX in launches.kernels


def _use_small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Statistics of bytes in blocks of two warps, so that a small image has many."""
    made = kernels.statistics_kernel((), "uint8", ops.PLAIN)
    monkeypatch.setattr(kernels.Kernel, "all", [])
    smaller = kernels.Kernel(made.name, made.code, made.arguments, 64)
    smaller.bounds = made.bounds  # the same code
    monkeypatch.setattr(kernels, "statistics_kernel", lambda *_: smaller)


@pytest.mark.parametrize("chain", [contrasted, lambda x: gi.equalize(gi.pad(x, 1))], ids=["contrasts", "equalize"])
@pytest.mark.parametrize("behind", [None, (3, 3), (1, 3)], ids=str)
def test_many_blocks(launches: Launches, monkeypatch: pytest.MonkeyPatch, chain: Chain, behind: Any) -> None:
    """Images of more pixels than a block of statistics has threads; ``behind``: a warp, and how long it stays so.

    All that the barrier in front of the ticket orders are atomics, which are no race: only the order of warps shows it.
    """
    _use_small_blocks(monkeypatch)
    launches.behind = behind
    images = images_of("uint8", sizes=((16, 17), (9, 7), (1, 1)))
    found, exact = chain(on_device(launches, images)).compute("uint8"), chain(images).compute("float32")
    for one, other in zip(found, exact, strict=True):
        assert_close(one.values, other)


def test_marks_at_any_place() -> None:
    """Each at its place and nowhere else; one changed bit, anywhere in it, and it is another one."""
    places = 17 * RANDOM.permutation(40)
    places[RANDOM.random(40) < 0.2] = -1
    mark = RANDOM.bytes(16)
    halves = [np.frombuffer(half, "<u8")[0] for half in (mark[:8], mark[8:])]
    out = RANDOM.integers(0, 256, 17 * 40, np.uint8)
    expected = out.copy()
    for at in places[places >= 0].tolist():
        expected[at : at + 16] = np.frombuffer(mark, np.uint8)
    run(variants.ptx_of(kernels.MARKS["mark"]), (1, 1), kernels.MARKS["mark"].block, [out, places, *halves])
    np.testing.assert_array_equal(out, expected)
    changed = (places >= 0) & (RANDOM.random(40) < 0.5)
    bits = np.uint8(1) << RANDOM.integers(0, 8, changed.sum(), np.uint8)
    out[places[changed] + RANDOM.integers(0, 16, changed.sum())] ^= bits
    status = np.zeros(40, np.int32)
    compare = kernels.MARKS["compare"]
    run(variants.ptx_of(compare), (1, 1), compare.block, [out, places, *halves, status])
    np.testing.assert_array_equal(status, (places >= 0) & ~changed)
