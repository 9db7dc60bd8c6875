"""Every kernel, as it is compiled, launched by the runtime on awkward images: the CPU's pixels."""

from __future__ import annotations

from itertools import cycle, product
from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from gpuimg.kernels import cuda as kernels
from gpuimg.kernels import ops

pytest.importorskip("numba_cuda")

from . import variants
from .device import Launches
from .launch import run
from .pixels import (
    RANDOM,
    SIZES,
    Chain,
    assert_close,
    assert_few_apart,
    contrasted,
    equalized,
    images_of,
    measured,
    mirrored,
    moved,
    on_device,
    shrunk,
    use_small_blocks,
)

pytestmark = pytest.mark.usefixtures("watched")

LAYOUTS = [(3, "NCHW"), (3, "NHWC"), (1, "NHWC")]  # channels, and order of the result


# -- every variant -----------------------------------------------------------------------------------------------------


CHAINS: dict[tuple[str, str], list[Chain]] = {
    ("transform", ops.PLAIN): [shrunk],
    ("transform", ops.FULL): [mirrored],
    ("transform", ops.MOVING): [moved],
    ("statistics", ops.PLAIN): [measured, equalized],
    ("statistics", ops.FULL): [lambda x: gi.equalize(mirrored(x))],
    ("statistics", ops.MOVING): [lambda x: contrasted(moved(x))],
}


def _of_the_users(chain: Chain) -> Chain:
    return lambda x: gi.adjust_contrast(gi.pointwise(chain(x), variants.dim, 0.8), 1.2)


def _normalized(chain: Chain) -> Chain:
    return lambda x: gi.normalize(chain(x), 0.5, 0.25)


def _chains(variant: variants.Variant) -> list[Chain]:
    chains = CHAINS[variant.kernel, variant.build]
    if variant.functions:
        chains = [_of_the_users(chain) for chain in chains]
    return chains if variant.kind == "uint8" else [*chains, *map(_normalized, chains)]


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


@pytest.mark.parametrize("chain", [contrasted, lambda x: gi.equalize(gi.pad(x, 1))], ids=["contrasts", "equalize"])
@pytest.mark.parametrize("behind", [None, (3, 3), (1, 3)], ids=str)
def test_many_blocks(launches: Launches, monkeypatch: pytest.MonkeyPatch, chain: Chain, behind: Any) -> None:
    """Images of more pixels than a block of statistics has threads; ``behind``: a warp, and how long it stays so.

    All that the barrier in front of the ticket orders are atomics, which are no race: only the order of warps shows it.
    """
    use_small_blocks(monkeypatch)
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
    run(variants.ptx_of(kernels.MARKS["mark"], (9, 0)), 1, kernels.MARKS["mark"].block, [out, places, *halves])
    np.testing.assert_array_equal(out, expected)
    changed = (places >= 0) & (RANDOM.random(40) < 0.5)
    bits = np.uint8(1) << RANDOM.integers(0, 8, changed.sum(), np.uint8)
    out[places[changed] + RANDOM.integers(0, 16, changed.sum())] ^= bits
    status = np.zeros(40, np.int32)
    run(
        variants.ptx_of(kernels.MARKS["compare"], (9, 0)),
        1,
        kernels.MARKS["compare"].block,
        [out, places, *halves, status],
    )
    np.testing.assert_array_equal(status, (places >= 0) & ~changed)
