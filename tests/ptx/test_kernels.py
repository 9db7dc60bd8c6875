"""Every kernel, as it is compiled, launched by the runtime on awkward images: the CPU's pixels."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, product
from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from gpuimg.kernels import cuda as kernels
from gpuimg.kernels import ops
from tests.fakecuda.work import files, turned_files
from tests.operations.calls import CALLS

pytest.importorskip("numba_cuda")

from . import variants
from .device import Launches
from .pixels import (
    RANDOM,
    SIZES,
    Chain,
    assert_close,
    assert_few_apart,
    contrasted,
    enlarged,
    equalized,
    images_of,
    measured,
    mirrored,
    moved,
    noisy,
    on_device,
    sharpened,
    shrunk,
    turned,
    use_small_blocks,
)

pytestmark = pytest.mark.usefixtures("watched")

LAYOUTS = [(3, "NCHW"), (3, "NHWC"), (1, "NHWC")]  # channels, and order of the result


# -- every function ----------------------------------------------------------------------------------------------------


_CALLS = [name for name in CALLS if name != "pointwise"]  # which the variants with functions of users are for


@pytest.mark.parametrize(("name", "source"), list(zip(_CALLS, cycle(variants.SOURCES), strict=False)))
def test_every_function_has_the_cpus_pixels(launches: Launches, name: str, source: str) -> None:
    images = images_of(source)
    each = CALLS[name].each(RANDOM, len(images), 255.0 if source == "uint8" else 1.0)
    expected = CALLS[name].run(images, each).compute("float32")
    found = CALLS[name].run(on_device(launches, images), each).compute("float32")
    for one, other in zip(found, expected, strict=True):
        assert_close(one.values, other)


# -- every variant -----------------------------------------------------------------------------------------------------


def _of_the_users(chain: Chain) -> Chain:
    return lambda x: gi.adjust_contrast(gi.pointwise(chain(x), variants.dim, 0.8), 1.2)


def _normalized(chain: Chain) -> Chain:
    return lambda x: gi.normalize(chain(x), 0.5, 0.25)


def _chains(variant: variants.Variant) -> list[Chain]:
    statistics = variant.kernel == "statistics"
    chains: list[Chain] = [measured, equalized] if statistics else [shrunk, turned, enlarged]
    if variant.build == ops.FULL:
        chains = [sharpened, noisy, mirrored]
    if variant.build == ops.MOVING:
        chains = [moved]
    if variant.build and statistics:
        chains = [_after(chain, gi.equalize if chain is mirrored else contrasted) for chain in chains]
    if variant.functions:
        chains = [_of_the_users(chain) for chain in chains[:2]]
    return chains if variant.kind == "uint8" else [chains[0], *(_normalized(chain) for chain in chains[1:])]


def _after(chain: Chain, other: Chain) -> Chain:
    return lambda x: other(chain(x))


@pytest.mark.parametrize(
    "variant", variants.parameters([v for v in variants.VARIANTS if v.kernel in ("transform", "statistics")])
)
def test_every_variant_has_the_cpus_pixels(launches: Launches, variant: variants.Variant) -> None:
    dtype = variant.kind or "float32"
    found, expected, exact = [], [], []
    layouts = LAYOUTS[:2] if variant.functions else LAYOUTS
    for (channels, order), chain in zip(layouts, cycle(_chains(variant)), strict=False):
        images = images_of(variant.source, channels, [(11, 13)] * 3 if variant.build else SIZES)
        exact.append(chain(images).array("float32", order))
        expected.append(chain(images).array(dtype, order))
        result = chain(on_device(launches, images)).array(dtype, order)
        found.append(result.values.view(expected[-1].dtype).copy())  # its memory is used again
        assert_close(found[-1], exact[-1])
    assert variants.kernel_of(variant) in launches.kernels
    if dtype == "uint8":
        assert_few_apart(found, expected, exact)


@pytest.mark.slow
@pytest.mark.parametrize("source", variants.SOURCES)
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
    names = {f"{name}_{source}" for name in variants.ARTEFACT_KERNELS}
    assert names <= {kernel.name for kernel in launches.kernels}


@pytest.mark.parametrize("source", variants.SOURCES)
@pytest.mark.parametrize("channels", [1, 3])
def test_displaced_pixels_are_the_cpus(launches: Launches, source: str, channels: int) -> None:
    """With colors around the images, their border repeated, the nearest pixels, and images that stay as they are."""
    images = images_of(source, channels)
    where, seeds = np.arange(len(images)) % 3 > 0, RANDOM.integers(0, 2**48, len(images))
    for options in ({"fill": 0.5}, {"fill": None}, {"interpolation": "nearest"}):
        exact, found = (
            gi.elastic(x, 60, 3, **options, seed=seeds, where=where).compute("float32")
            for x in (images, on_device(launches, images))
        )
        for one, other in zip(found, exact, strict=True):
            apart = np.abs(one.values - other) > 1e-4  # none but where two pixels are as near
            assert apart.mean() <= (0.01 if "interpolation" in options else 0.0)
    assert f"elastic_{source}" in {kernel.name for kernel in launches.kernels}


@pytest.mark.parametrize("rule", ["pillow", "pillow12", "torch"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_exact_resizes_are_the_cpus_to_the_last_bit(launches: Launches, rule: Any, channels: int) -> None:
    """Both orders of the passes, crops before and after, chains, and what float32 segments precede and follow."""
    images = images_of("uint8", channels, [(31, 9), (9, 31), (16, 16), (1, 40), (40, 1), (13, 12)])
    sizes = RANDOM.integers(1, 24, (len(images), 2))
    filters = ("bilinear", "bicubic", "lanczos") if rule == "torch" else ("bicubic", "box", "hamming")

    def chains(x: Any) -> Iterator[Any]:
        one = gi.resize(x, sizes, filters[0], exact=rule)
        yield one.compute()
        yield gi.horizontal_flip(
            gi.resize(gi.crop(one, 0, 0, 1, sizes[:, 1]), (7, 9), filters[1], exact=rule)
        ).compute()
        # By a third of a pixel along both axes: ninths of a level, which lie far from where rounding decides.
        shifted = gi.affine(x, 0, (1 / 3, 1 / 3), 1.0, 0, "bilinear")
        cut = gi.center_crop(gi.resize(shifted, (20, 18), filters[2], exact=rule), (11, 7))
        yield gi.pad(cut, 2, fill=99).compute()
        yield cut.array("uint8", "NCHW")
        if channels != 4:
            yield gi.equalize(cut).array("uint8")

    for found, expected in zip(chains(on_device(launches, images)), chains(images), strict=True):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one.values, other)
    assert kernels.EXACT in launches.kernels


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


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
def test_every_way_to_pad(launches: Launches, mode: str) -> None:
    images, sides = images_of("uint8", sizes=[(5, 7)] * 3), ([0, 3, 4], 2, [5, 2, 1], -1)
    both = images, on_device(launches, images)
    exact, found = (gi.pad(x, sides, padding_mode=mode).array("float32") for x in both)
    assert_close(found.values, exact)


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


@pytest.mark.parametrize("color", ["rgb", "gray"])
def test_files_go_through_the_arena(launches: Launches, color: str) -> None:
    """Turned ones, ones that the CPU decodes, and segments that are computed in between."""
    sources = [*files(), *turned_files([3, 6, 8]), *files([(7, 9)], ("png",))]

    def chain(device: str) -> gi.Batch:
        x = gi.open_batch(sources, device=device, color=color)
        return gi.resize(gi.gaussian_blur(gi.resized_crop(x, 0, 1, 20, 8, (16, 15)), 3, 1.5), (8, 9))

    assert_close(chain("cuda:0").array("uint8").values, chain("cpu").array("float32"))


@pytest.mark.parametrize("chain", [contrasted, lambda x: gi.equalize(gi.pad(x, 1))], ids=["contrasts", "equalize"])
@pytest.mark.parametrize("behind", [None, (3, 3)], ids=["together", "one warp late"])
def test_many_blocks(launches: Launches, monkeypatch: pytest.MonkeyPatch, chain: Chain, behind: Any) -> None:
    """Images of more pixels than a block of statistics has threads, in two orders of the threads."""
    use_small_blocks(monkeypatch)
    launches.behind = behind
    images = images_of("uint8", sizes=((1, 1), (9, 7), (16, 17)))
    found, exact = chain(on_device(launches, images)).compute("uint8"), chain(images).compute("float32")
    for one, other in zip(found, exact, strict=True):
        assert_close(one.values, other)
