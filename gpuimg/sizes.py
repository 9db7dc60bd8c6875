"""Sizes that images are resized to before a model sees them: rules that vision-language models publish.

All functions take sizes (N, 2), height and width in pixels, such as :attr:`gpuimg.Batch.sizes`, and return NumPy
arrays. They compute all images at once and read no pixels.

>>> import gpuimg, numpy as np
>>> x = gpuimg.resize(np.zeros((2, 300, 500, 3), np.uint8), gpuimg.sizes.smart([[300, 500]] * 2), "bicubic")
>>> x.sizes.tolist()
[[308, 504], [308, 504]]
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._checks import arguments
from ._checks.docstrings import documented
from ._checks.types import Floats, Ints
from .errors import ImageError
from .kernels import layout

_LONGEST_SHAPE = 200  # times the shorter side: the limit of Qwen's rule
_SMALLEST, _LARGEST = 1e-5 / 10, 100.0  # scales between which SigLIP 2's rule searches
_STEPS = 24  # of that search: as many as leave an interval below 1e-5
_MOST_TILES = 1 << 10  # all of whose some 7000 grids are compared

_documented = documented(
    "sizes : (N, 2) int\n    Height and width of images in pixels.",
    "factor : int\n    Pixels of a patch times patches that are merged: 28 for Qwen2-VL and 2.5, 32 for Qwen3-VL.",
    "min_pixels, max_pixels : int\n    Limits of height times width.",
    "patch : int\n    Side of a patch in pixels.",
    "patches : int\n    Most patches of an image.",
    returns="(N, 2) int64",
    raises="ValueError\n    For arguments out of range.",
)


@_documented
def smart(sizes: ArrayLike, factor: int = 28, min_pixels: int = 56 * 56, max_pixels: int = 28 * 28 * 1280) -> Ints:
    """Return Qwen-VL's sizes: multiples of a factor, with a number of pixels within limits.

    Raises
    ------
    ValueError
        For an image more than 200 times as long as wide, or arguments out of range.

    References
    ----------
    Hugging Face transformers, ``models/qwen2_vl/image_processing_qwen2_vl.py``, ``smart_resize``.

    Examples
    --------
    >>> gpuimg.sizes.smart([(375, 500), (20, 30)]).tolist()
    [[364, 504], [56, 84]]
    """
    old = _checked(sizes)
    (factor,) = arguments.sides(factor=factor)
    least, most = arguments.areas(min_pixels=min_pixels, max_pixels=max_pixels)
    return _multiples(old, factor, least, most)


@_documented
def smart_video(
    sizes: ArrayLike, frames: int, factor: int = 32, temporal: int = 2, min_pixels: int = 128 * 32 * 32,
    max_pixels: int = 32 * 32 * 768,
) -> Ints:  # fmt: skip
    """Return Qwen3-VL's sizes of frames: multiples of a factor, with a number of pixels of the clip within limits.

    Parameters
    ----------
    sizes : (N, 2) int
        Height and width of frames in pixels.
    frames : int
        Frames of a clip, at least ``temporal``.
    temporal : int
        Frames of a patch.
    min_pixels, max_pixels : int
        Limits of height times width times frames.

    Raises
    ------
    ValueError
        For a frame more than 200 times as long as wide, a clip of too few frames, or arguments out of range.

    Notes
    -----
    Clips of Qwen2-VL and Qwen2.5-VL have the sizes of :func:`smart`, whatever their length.

    References
    ----------
    Hugging Face transformers, ``models/qwen3_vl/video_processing_qwen3_vl.py``, ``smart_resize``.

    Examples
    --------
    >>> gpuimg.sizes.smart_video([(375, 500)], 4).tolist(), gpuimg.sizes.smart_video([(375, 500)], 16).tolist()
    ([[384, 512]], [[192, 256]])
    """
    old = _checked(sizes)
    frames, factor, temporal = arguments.sides(frames=frames, factor=factor, temporal=temporal)
    least, most = arguments.areas(min_pixels=min_pixels, max_pixels=max_pixels)
    if frames < temporal:
        raise ValueError(f"a clip must have at least {temporal} frames, those of a patch, not {frames}")
    enlarged = (old * (factor / old).max(1, initial=0.0)[:, None]).astype(np.int64)
    old = np.where(np.any(old < factor, 1, keepdims=True), enlarged, old)
    return _multiples(old, factor, least, most, frames, round(frames / temporal) * temporal)


def _multiples(old: Ints, factor: int, least: int, most: int, frames: int = 1, counted: int = 1) -> Ints:
    """Return multiples of a factor with the pixels of a clip within limits; ``counted`` of its frames are compared."""
    side = old.astype(np.float64)
    shape = side.max(1, initial=1.0) / side.min(1, initial=np.inf)
    if np.any(shape > _LONGEST_SHAPE):
        i = int(np.argmax(shape))
        raise ImageError(i, f"{shape[i]:.1f} times as long as wide; at most {_LONGEST_SHAPE} are allowed")
    new = np.rint(side / factor) * factor
    area, pixels = counted * new.prod(1), frames * side.prod(1)
    shrink = np.sqrt(pixels / most)[:, None]
    grow = np.sqrt(least / pixels)[:, None]
    smaller = np.maximum(factor, np.floor(side / shrink / factor) * factor)
    larger = np.ceil(side * grow / factor) * factor
    chosen = np.where((area < least)[:, None], larger, new)
    return np.where((area > most)[:, None], smaller, chosen).astype(np.int64)


@_documented
def naflex(sizes: ArrayLike, patch: int = 16, patches: int = 256) -> Ints:
    """Return NaFlex sizes: multiples of a patch, as large as a number of patches allows, near the aspect ratio.

    References
    ----------
    Hugging Face transformers, ``models/siglip2/image_processing_siglip2.py``, ``get_image_size_for_max_num_patches``.

    Examples
    --------
    >>> gpuimg.sizes.naflex([(375, 500)]).tolist()
    [[224, 288]]
    """
    old = _checked(sizes)
    (patch,), (patches,) = arguments.sides(patch=patch), arguments.areas(patches=patches)

    def scaled(scale: Floats) -> Floats:
        whole: Floats = np.maximum(patch, np.ceil(old * scale[:, None] / patch) * patch)
        return whole

    low, high = np.full(len(old), _SMALLEST), np.full(len(old), _LARGEST)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        fits = (scaled(middle) / patch).prod(1) <= patches
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return scaled(low).astype(np.int64)


@_documented
def navit(
    sizes: ArrayLike, patch: int = 14, merge: int = 2, patches: int = 16384, side: int = 512
) -> tuple[Ints, Ints]:
    """Return Kimi's sizes, which are never larger than the image, and those after padding to whole patches.

    Parameters
    ----------
    merge : int
        Padded sizes are multiples of ``patch * merge``.
    patches : int
        Most patches of an image, before padding.
    side : int
        Most patches along a side.

    Returns
    -------
    new, padded : (N, 2) int64
        Sizes to resize to, and sizes with padding to the right and at the bottom.

    References
    ----------
    Hugging Face transformers, ``models/kimi_k25/image_processing_kimi_k25.py``, ``navit_resize``.

    Examples
    --------
    >>> new, padded = gpuimg.sizes.navit([(375, 500)])
    >>> new.tolist(), padded.tolist()
    ([[375, 500]], [[392, 504]])
    """
    old = _checked(sizes)
    patch, merge, side = arguments.sides(patch=patch, merge=merge, side=side)
    (patches,) = arguments.areas(patches=patches)
    count = np.maximum(1.0, old // patch).prod(1)
    scale = np.minimum(np.minimum(1.0, np.sqrt(patches / count))[:, None], (side * patch) / old).min(1, initial=1.0)
    new = np.clip((old * scale[:, None]).astype(np.int64), 1, side * patch)
    step = merge * patch
    return new, -(-new // step) * step


@_documented
def longest(sizes: ArrayLike, side: int = 1024, multiple: int = 16) -> Ints:
    """Return Pixtral's sizes: shrunk until no side is longer than a limit, then up to multiples of a patch.

    Parameters
    ----------
    side : int
        Longest side in pixels. Shorter images are only rounded to the multiples.
    multiple : int
        Side of a patch in pixels.

    Raises
    ------
    ValueError
        For arguments out of range, or an image of which less than a pixel would be left.

    References
    ----------
    Hugging Face transformers, ``models/pixtral/image_processing_pixtral.py``, ``get_resize_output_image_size``.

    Examples
    --------
    >>> gpuimg.sizes.longest([(375, 500), (3000, 4000)]).tolist()
    [[384, 512], [768, 1024]]
    """
    old = _checked(sizes)
    side, multiple = arguments.sides(side=side, multiple=multiple)
    ratio = np.maximum(old / side, 1.0).max(1, initial=1.0)[:, None]
    new: Ints = np.floor(old / ratio).astype(np.int64)
    if np.any(new < 1):
        i = int(np.argmax(np.any(new < 1, 1)))
        raise ImageError(i, f"{old[i, 0]} x {old[i, 1]} pixels are too narrow for a longest side of {side}")
    return -(-new // multiple) * multiple


@_documented
def tiles(sizes: ArrayLike, tile: int = 448, most: int = 12, least: int = 1) -> Ints:
    """Return InternVL's grids: the numbers of square tiles, down and across, nearest to the aspect ratio.

    Parameters
    ----------
    tile : int
        Side of a tile in pixels.
    most, least : int
        Limits of the number of tiles, at most 1024.

    Returns
    -------
    (N, 2) int64
        Rows and columns of tiles; the image is resized to ``tile`` times these.

    Notes
    -----
    Among grids of one shape, such as 1 x 2 and 2 x 4, the larger is chosen where the image has more than half of its
    pixels.

    References
    ----------
    Hugging Face transformers, ``models/got_ocr2/image_processing_got_ocr2.py``, ``get_optimal_tiled_canvas``.

    Examples
    --------
    >>> gpuimg.sizes.tiles([(375, 500), (1080, 1920)]).tolist()
    [[3, 4], [2, 4]]
    """
    old = _checked(sizes)
    (tile,) = arguments.sides(tile=tile)
    most = arguments.whole_number(most, "most", high=_MOST_TILES)
    least = arguments.whole_number(least, "least", high=most)
    shapes = [(w, h) for w in range(1, most + 1) for h in range(1, most // w + 1) if w * h >= least]
    aspect, area = old[:, 1] / old[:, 0], old.prod(1)
    best, distance = np.ones((len(old), 2), np.int64), np.full(len(old), np.inf)
    for w, h in sorted(shapes, key=lambda shape: shape[0] * shape[1]):
        here = np.abs(aspect - w / h)
        taken = (here < distance) | ((here == distance) & (area > 0.5 * tile * tile * w * h))
        best[taken] = h, w
        distance = np.minimum(distance, here)
    return best


@_documented
def best_grid(sizes: ArrayLike, grids: ArrayLike) -> Ints:
    """Return LLaVA's choice among sizes: the one that keeps most of the image's pixels, and wastes least.

    Parameters
    ----------
    grids : (M, 2) int
        Sizes to choose from, in pixels.

    Returns
    -------
    (N, 2) int64
        Rows of ``grids``.

    References
    ----------
    Hugging Face transformers, ``image_processing_utils.py``, ``select_best_resolution``.

    Examples
    --------
    >>> gpuimg.sizes.best_grid([(375, 500)], [(336, 672), (672, 336), (672, 672)]).tolist()
    [[672, 672]]
    """
    old = _checked(sizes)
    allowed = _filled(grids, "grids")
    pixels = old.prod(1)
    best = np.repeat(allowed[:1], len(old), 0)
    kept, wasted = np.zeros(len(old), np.int64), np.full(len(old), np.inf)
    for grid in allowed:
        scale = (grid / old).min(1, initial=np.inf)
        here = np.minimum((old * scale[:, None]).astype(np.int64).prod(1), pixels)
        waste = grid.prod() - here
        taken = (here > kept) | ((here == kept) & (waste < wasted))
        best[taken] = grid
        kept, wasted = np.where(taken, here, kept), np.where(taken, waste, wasted)
    return best


@_documented
def buckets(area: int = 1024 * 1024, step: int = 64, aspect: float = 2.0) -> Ints:
    """Return sizes of about one area, for training on batches of several aspect ratios.

    Parameters
    ----------
    area : int
        Most pixels of a size.
    step : int
        Heights and widths are multiples of this.
    aspect : float
        Longer side through shorter side at most, at least 1.

    Returns
    -------
    (M, 2) int64
        Heights and widths, tall ones first. For each multiple of ``step``, taken as a height and as a width, the other
        side is the largest that the area allows.

    Examples
    --------
    >>> gpuimg.sizes.buckets(256 * 256).tolist()
    [[320, 192], [256, 256], [192, 320]]
    """
    (area,), (step,) = arguments.areas(area=area), arguments.sides(step=step)
    aspect = arguments.number(aspect, "aspect", low=1.0, high=layout.EXACT)
    if area < step * step:
        raise ValueError(f"area must be at least {step * step}, which is step * step, not {area}")
    side = np.arange(step, int(np.sqrt(area * aspect)) + 1, step)
    other = area // side // step * step
    both = np.concatenate([np.stack([side, other], 1), np.stack([other, side], 1)])
    both = both[(both.max(1) <= aspect * both.min(1)) & (both.min(1) > 0)]
    found = np.unique(both, axis=0)
    return found[np.lexsort((found[:, 0], found[:, 1] / found[:, 0]))]


@_documented
def nearest(sizes: ArrayLike, allowed: ArrayLike) -> Ints:
    """Return for each image the size of a list with the nearest aspect ratio.

    Parameters
    ----------
    allowed : (M, 2) int
        Sizes to choose from, such as those of :func:`buckets`.

    Returns
    -------
    (N, 2) int64
        Rows of ``allowed``; the first of those that are equally near.

    Notes
    -----
    The distance of two aspect ratios is that of their logarithms: 2:1 is as far from 1:1 as 1:2.

    Examples
    --------
    >>> gpuimg.sizes.nearest([(375, 500), (640, 480)], gpuimg.sizes.buckets()).tolist()
    [[896, 1152], [1152, 896]]
    """
    old = _checked(sizes)
    choices = _filled(allowed, "allowed")
    own, aspects = (np.log(each[:, 1] / each[:, 0]) for each in (old, choices))
    best, distance = np.zeros(len(old), np.int64), np.full(len(old), np.inf)
    for k, aspect in enumerate(aspects):
        # Rounded, so that equal distances compare equal: the logarithm of 3/4 is not exactly that of 4/3 with a minus.
        here = np.round(np.abs(own - aspect), 12)
        best[here < distance] = k
        distance = np.minimum(distance, here)
    chosen: Ints = choices[best]
    return chosen


def _checked(sizes: Any, name: str = "sizes") -> Ints:
    """Return sizes (N, 2) as int64."""
    array = np.asarray(sizes)
    if array.size == 0 and array.ndim < 3:
        array = np.zeros((0, 2), np.int64)
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be whole numbers of shape (N, 2), not {array.dtype} of shape {array.shape}")
    if np.any(array < 1):
        raise ValueError(f"{name} must be at least 1 x 1, not {array[np.any(array < 1, 1)][0].tolist()}")
    return array.astype(np.int64)


def _filled(sizes: Any, name: str) -> Ints:
    """Return sizes (M, 2) to choose from, at least one."""
    array = _checked(sizes, name)
    if not len(array):
        raise ValueError(f"{name} must hold at least one size")
    return array
