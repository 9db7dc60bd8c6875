"""Sizes of vision-language models: against transformers' functions, and laws of the others."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import gpuimg as gi

from ..libraries import cases
from . import processors

Ints = np.ndarray[Any, np.dtype[np.int64]]

COUNT = 20_000


def random_sizes(largest: int = 8000, shape: float = 150) -> Ints:
    """Sizes up to ``largest``, many of them small, none more than ``shape`` times as long as wide."""
    rng = np.random.default_rng()
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
    found = getattr(import_module(f"transformers.{module}"), name)
    return getattr(found, "__wrapped__", found)  # type: ignore[no-any-return]


def of_image(theirs: Any, size: Any, side: int, multiple: int) -> Any:
    """Of a function that takes an image, of which it reads the shape."""
    return theirs(np.broadcast_to(np.uint8(0), (3, *size)), side, multiple, "channels_first")


GRIDS = [(336, 672), (672, 336), (672, 672), (1008, 336), (336, 1008)]
_QWEN, _QWEN3 = "models.qwen2_vl.image_processing_qwen2_vl", "models.qwen3_vl.video_processing_qwen3_vl"
_PIXTRAL = "models.pixtral.image_processing_pixtral"
#: Ours, theirs, how theirs is called, arguments, and how many of the sizes (some searches take 30 us an image).
TABLE: dict[str, tuple[Any, tuple[str, str], Any, list[tuple[int, ...]], int]] = {
    "smart": (gi.sizes.smart, (_QWEN, "smart_resize"), lambda f, size, *given: f(*size, *given),
              [(28, 56 * 56, 28 * 28 * 1280), (32, 65536, 16777216), (28, 4 * 784, 12845056)], 1),
    "smart_video": (lambda sizes, frames, *limits: gi.sizes.smart_video(sizes, frames, 32, 2, *limits),
                    (_QWEN3, "smart_resize"), lambda f, size, frames, *limits: f(frames, *size, 2, 32, *limits),
                    [(2, 128 * 32 * 32, 32 * 32 * 768), (5, 4096, 25165824), (64, 4096, 25165824)], 4),
    "naflex": (gi.sizes.naflex, ("models.siglip2.image_processing_siglip2", "get_image_size_for_max_num_patches"),
               lambda f, size, *given: f(*size, *given), [(16, 256), (14, 1024), (16, 729)], 4),
    "navit": (lambda sizes, *given: np.stack(gi.sizes.navit(sizes, 14, 2, *given), 1),
              ("models.kimi_k25.image_processing_kimi_k25", "navit_resize"),
              lambda f, size, *given: f(*size, 14, 2, *given), [(16384, 512), (1024, 512), (4096, 40)], 1),
    "longest": (gi.sizes.longest, (_PIXTRAL, "get_resize_output_image_size"), of_image,
                [(1024, 16), (1540, 14), (336, 14)], 1),
    "tiles": (gi.sizes.tiles, ("models.got_ocr2.image_processing_got_ocr2", "get_optimal_tiled_canvas"),
              lambda f, size, tile, most, least: f(size, (tile, tile), least, most)[::-1],
              [(448, 12, 1), (384, 6, 1), (448, 40, 2)], 4),
    "best_grid": (lambda sizes: gi.sizes.best_grid(sizes, GRIDS), ("image_processing_utils", "select_best_resolution"),
                  lambda f, size: f(size, GRIDS), [()], 1),
}  # fmt: skip


@cases("transformers", "name", TABLE)
def test_sizes_are_those_of_transformers(name: str) -> None:
    rule, source, call, arguments, step = TABLE[name]
    theirs = published(*source)
    for given in arguments:
        sizes = random_sizes(shape=100)[::step]
        want = [call(theirs, tuple(size), *given) for size in sizes.tolist()]
        np.testing.assert_array_equal(rule(sizes, *given), want, err_msg=str(given))


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


def test_nearest_size_has_the_nearest_aspect() -> None:
    allowed = gi.sizes.buckets()
    sizes = random_sizes()[:1000]
    found = gi.sizes.nearest(sizes, allowed)
    ratio = np.maximum.outer(sizes[:, 1] / sizes[:, 0], allowed[:, 1] / allowed[:, 0])
    ratio /= np.minimum.outer(sizes[:, 1] / sizes[:, 0], allowed[:, 1] / allowed[:, 0])
    here = sizes[:, 1] / sizes[:, 0] / (found[:, 1] / found[:, 0])
    assert np.allclose(np.maximum(here, 1 / here), ratio.min(1), rtol=1e-9)
    assert gi.sizes.nearest([(5, 5)], [(3, 4), (4, 3)]).tolist() == [[3, 4]]  # the first of two equally near


RULES = {
    "smart": gi.sizes.smart, "smart_video": lambda sizes: gi.sizes.smart_video(sizes, 2), "naflex": gi.sizes.naflex,
    "navit": lambda sizes: gi.sizes.navit(sizes)[1], "longest": gi.sizes.longest, "tiles": gi.sizes.tiles,
    "best_grid": lambda sizes: gi.sizes.best_grid(sizes, [(3, 4)]),
    "nearest": lambda sizes: gi.sizes.nearest(sizes, [(3, 4)]),
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_no_images_and_wrong_sizes(rule: Callable[[Any], Ints]) -> None:
    assert rule(np.zeros((0, 2), np.int64)).shape == (0, 2)
    for wrong in ([3, 4], [(3.0, 4.0)], [(1, 2, 3)], [(0, 4)]):
        with pytest.raises(ValueError, match="sizes must be"):
            rule(wrong)
