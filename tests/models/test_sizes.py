"""Sizes of vision-language models: against transformers' functions where it is installed, and literal examples."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import gpuimg as gi

from . import processors

Ints = np.ndarray[Any, np.dtype[np.int64]]

COUNT = 100_000


def random_sizes(seed: int, largest: int = 8000, shape: float = 150) -> Ints:
    """Sizes up to ``largest``, many of them small, none more than ``shape`` times as long as wide."""
    rng = np.random.default_rng(seed)
    short = np.exp(rng.uniform(0, np.log(largest), COUNT))
    long = np.minimum(short * np.exp(rng.uniform(0, np.log(shape), COUNT) * rng.random(COUNT)), largest)
    both = np.maximum(np.stack([short, long], 1).astype(np.int64), 1)
    turned = rng.random(COUNT) < 0.5
    both[turned] = both[turned, ::-1]
    both[:: COUNT // 1000] = both[:: COUNT // 1000, :1]  # squares, and sizes of whole patches
    both[1 :: COUNT // 1000] = np.maximum(both[1 :: COUNT // 1000] // 28 * 28, 28)
    kept: Ints = both[both.max(1) < 199 * both.min(1)]
    return kept


def published(module: str, name: str) -> Callable[..., Any]:
    processors.needs_transformers()
    found: Callable[..., Any] = getattr(import_module(f"transformers.{module}"), name)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("factor", "low", "high"), [(28, 56 * 56, 28 * 28 * 1280), (32, 65536, 16777216), (28, 4 * 784, 12845056)]
)
def test_smart_sizes_are_qwens(factor: int, low: int, high: int) -> None:
    theirs = published("models.qwen2_vl.image_processing_qwen2_vl", "smart_resize")
    sizes = random_sizes(1)
    want = [theirs(h, w, factor, low, high) for h, w in sizes.tolist()]
    assert np.array_equal(gi.sizes.smart(sizes, factor, low, high), want)


@pytest.mark.parametrize("frames", [2, 5, 64])
@pytest.mark.parametrize(("low", "high"), [(128 * 32 * 32, 32 * 32 * 768), (4096, 25165824)])
def test_sizes_of_frames_are_those_of_qwen_3(frames: int, low: int, high: int) -> None:
    theirs = published("models.qwen3_vl.video_processing_qwen3_vl", "smart_resize")
    sizes = random_sizes(8, shape=100)[::4]  # small ones are enlarged, which may make them longer
    want = [theirs(frames, h, w, 2, 32, low, high) for h, w in sizes.tolist()]
    assert np.array_equal(gi.sizes.smart_video(sizes, frames, 32, 2, low, high), want)


@pytest.mark.slow
@pytest.mark.parametrize(("patch", "patches"), [(16, 256), (14, 1024), (16, 729)])
def test_naflex_sizes_are_those_of_siglip_2(patch: int, patches: int) -> None:
    theirs = published("models.siglip2.image_processing_siglip2", "get_image_size_for_max_num_patches")
    sizes = random_sizes(2)
    some = sizes if patches == 256 else sizes[::10]  # the search takes them 30 us an image
    assert np.array_equal(
        gi.sizes.naflex(some, patch, patches), [theirs(*size, patch, patches) for size in some.tolist()]
    )


@pytest.mark.parametrize(("patches", "side"), [(16384, 512), (1024, 512), (4096, 40)])
def test_navit_sizes_are_kimis(patches: int, side: int) -> None:
    theirs = published("models.kimi_k25.image_processing_kimi_k25", "navit_resize")
    sizes = random_sizes(3)
    want = np.array([theirs(*size, 14, 2, patches, side) for size in sizes.tolist()])
    assert np.array_equal(np.stack(gi.sizes.navit(sizes, 14, 2, patches, side), 1), want)


@pytest.mark.parametrize(("side", "multiple"), [(1024, 16), (1540, 14), (336, 14)])
def test_longest_sizes_are_pixtrals(side: int, multiple: int) -> None:
    theirs = published("models.pixtral.image_processing_pixtral", "get_resize_output_image_size")
    sizes = random_sizes(4)
    got = gi.sizes.longest(sizes, side, multiple)
    # The published function takes an image, of which it reads the shape.
    flat = np.broadcast_to(np.uint8(0), (3, 8000, 8000))
    want = [theirs(flat[:, :h, :w], side, multiple, "channels_first") for h, w in sizes.tolist()]
    assert np.array_equal(got, want)


@pytest.mark.parametrize(("tile", "most", "least"), [(448, 12, 1), (384, 6, 1), (448, 40, 2)])
def test_grids_of_tiles_are_internvls(tile: int, most: int, least: int) -> None:
    theirs = published("models.got_ocr2.image_processing_got_ocr2", "get_optimal_tiled_canvas").__wrapped__  # type: ignore[attr-defined]
    sizes = random_sizes(5)[:: 1 if most == 12 else 10]
    want = [theirs(tuple(size), (tile, tile), least, most)[::-1] for size in sizes.tolist()]
    assert np.array_equal(gi.sizes.tiles(sizes, tile, most, least), want)


def test_the_best_grid_is_llavas() -> None:
    theirs = published("image_processing_utils", "select_best_resolution")
    grids = [(336, 672), (672, 336), (672, 672), (1008, 336), (336, 1008)]
    sizes = random_sizes(6)
    assert np.array_equal(gi.sizes.best_grid(sizes, grids), [theirs(tuple(size), grids) for size in sizes.tolist()])


def test_examples() -> None:
    """Of each rule, by hand or by transformers 5.23: these run without it."""
    sizes = [(375, 500), (1080, 1920), (20, 30), (4000, 90), (28, 28)]
    assert gi.sizes.smart(sizes).tolist() == [[364, 504], [728, 1316], [56, 84], [4004, 84], [56, 56]]
    assert gi.sizes.smart_video(sizes, 4).tolist() == [[384, 512], [320, 576], [160, 224], [2944, 64], [192, 192]]
    assert gi.sizes.smart_video([(8, 400)], 4).tolist() == [[32, 1600]]  # enlarged to 32 x 1600 before
    assert gi.sizes.naflex(sizes).tolist() == [[224, 288], [192, 336], [208, 304], [1424, 32], [256, 256]]
    assert gi.sizes.navit(sizes)[1].tolist() == [[392, 504], [1092, 1932], [28, 56], [4004, 112], [28, 28]]
    assert gi.sizes.longest(sizes).tolist() == [[384, 512], [576, 1024], [32, 32], [1024, 32], [32, 32]]
    assert gi.sizes.tiles(sizes).tolist() == [[3, 4], [2, 4], [2, 3], [12, 1], [1, 1]]
    grids = [(336, 672), (672, 336), (672, 672), (1008, 336), (336, 1008)]
    assert gi.sizes.best_grid(sizes, grids).tolist() == [[672, 672], [672, 672], [336, 672], [1008, 336], [336, 672]]


def test_buckets_fill_the_area_within_the_aspect() -> None:
    for area, step, aspect in ((1024 * 1024, 64, 2.0), (512 * 512, 32, 4.0), (640 * 640, 8, 1.3)):
        found = gi.sizes.buckets(area, step, aspect)
        assert np.all(found % step == 0)
        assert np.all(found.prod(1) <= area)
        assert np.all(found.max(1) <= aspect * found.min(1))
        assert {tuple(size) for size in found.tolist()} == {tuple(size[::-1]) for size in found.tolist()}
        # One side cannot grow by a step: else the area would do for it.
        assert np.all((found * (found[:, ::-1] + step) > area).any(1))
        assert np.all(np.diff(found[:, 1] / found[:, 0]) >= 0)


def test_the_nearest_size_is_that_of_the_nearest_aspect() -> None:
    allowed = gi.sizes.buckets()
    sizes = random_sizes(7)[:1000]
    found = gi.sizes.nearest(sizes, allowed)
    ratio = np.maximum.outer(sizes[:, 1] / sizes[:, 0], allowed[:, 1] / allowed[:, 0])
    ratio /= np.minimum.outer(sizes[:, 1] / sizes[:, 0], allowed[:, 1] / allowed[:, 0])
    here = sizes[:, 1] / sizes[:, 0] / (found[:, 1] / found[:, 0])
    assert np.allclose(np.maximum(here, 1 / here), ratio.min(1), rtol=1e-9)
    assert gi.sizes.nearest([(5, 5)], [(3, 4), (4, 3)]).tolist() == [[3, 4]]  # the first of two equally near


RULES = {
    "smart": gi.sizes.smart,
    "smart_video": lambda sizes: gi.sizes.smart_video(sizes, 2),
    "naflex": gi.sizes.naflex,
    "navit": lambda sizes: gi.sizes.navit(sizes)[1],
    "longest": gi.sizes.longest,
    "tiles": gi.sizes.tiles,
    "best_grid": lambda sizes: gi.sizes.best_grid(sizes, [(3, 4)]),
    "nearest": lambda sizes: gi.sizes.nearest(sizes, [(3, 4)]),
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_no_images_and_wrong_sizes(rule: Callable[[Any], Ints]) -> None:
    assert rule(np.zeros((0, 2), np.int64)).shape == (0, 2)
    for wrong in ([3, 4], [(3.0, 4.0)], [(1, 2, 3)], [(0, 4)]):
        with pytest.raises(ValueError, match="sizes must be"):
            rule(wrong)


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match=r"image 1: 201\.0 times as long as wide"):
        gi.sizes.smart([(10, 10), (1, 201)])
    with pytest.raises(ValueError, match="at least 2 frames, those of a patch, not 1"):
        gi.sizes.smart_video([(10, 10)], 1)
    with pytest.raises(ValueError, match="image 1: 1 x 2000 pixels are too narrow for a longest side of 1024"):
        gi.sizes.longest([(10, 10), (1, 2000)])
    with pytest.raises(ValueError, match="factor must be a whole number from 1 to 16777216, not 0"):
        gi.sizes.smart([(10, 10)], 0)
    with pytest.raises(ValueError, match="least must be a whole number from 1 to 3, not 4"):
        gi.sizes.tiles([(10, 10)], most=3, least=4)
    with pytest.raises(ValueError, match="grids must hold at least one"):
        gi.sizes.best_grid([(10, 10)], np.zeros((0, 2), np.int64))
    with pytest.raises(ValueError, match=r"aspect must be a number from 1 to 16777216, not 0\.5"):
        gi.sizes.buckets(aspect=0.5)
    with pytest.raises(ValueError, match="area must be at least 4096"):
        gi.sizes.buckets(100)
    with pytest.raises(ValueError, match="most must be a whole number from 1 to 1024, not 1025"):
        gi.sizes.tiles([(10, 10)], most=1025)
