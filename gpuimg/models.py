"""Preprocessing of published models, value for value: what transformers, timm and open_clip give a model.

Each function returns a function of images, which can be pickled. Those with results of one size return a batch, for
:func:`gpuimg.load` too. Those with patches or tiles return a dict of arrays, named as the outputs of the model's
processor in transformers, on the batch's device; masks and counts are NumPy arrays.

``exact`` is the rule by which bytes are resized, as in :func:`gpuimg.resize`. By default it is that of the model's
home: ``"torch"`` for transformers' default backend, ``"pillow"`` for its backend "pil", for timm and open_clip.
transformers lays transparent pixels over white: open such files with ``alpha="white"``.

>>> import gpuimg, numpy as np
>>> prepare = gpuimg.models.qwen_vl()
>>> outputs = prepare(np.zeros((1, 60, 90, 3), np.uint8))
>>> outputs["pixel_values"].shape, outputs["image_grid_thw"].tolist()
((24, 1176), [[1, 4, 6]])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from . import sizes
from ._batch import tokens as several
from ._batch.batch import Batch, Images, as_batch, recording_of, run_into
from ._batch.clips import as_clips
from ._batch.recording import Recording
from ._checks import arguments
from ._checks.recipe import of_recipes
from ._checks.types import Array, Exact, Interpolation, Ints
from ._ops.pixels import CLIP_MEAN as CLIP_MEAN
from ._ops.pixels import CLIP_STD as CLIP_STD
from ._ops.pixels import IMAGENET_MEAN, IMAGENET_STD, normalize
from ._ops.resize_crop import center_crop, crop, pad, resize
from ._ops.timm_resize import central_corner, configuration, crop_or_pad, input_size, kept_ratio
from ._threads.threads import threads
from .errors import DecodeError

_HALF = (0.5, 0.5, 0.5)
_KEPT = 24 << 20  # bytes of resized images that Idefics3 keeps for each thread

_Color: TypeAlias = Sequence[float]
#: ``(images, rng=None) -> Batch``; ``rng`` is ignored, as nothing is random.
_ToBatch: TypeAlias = Callable[..., Batch]
#: ``(images, rng=None) -> dict of arrays``
_ToArrays: TypeAlias = Callable[..., dict[str, Array]]

_documented = of_recipes(
    "size : int\n    Height and width of the results in pixels.",
    "mean, std : (3,) float",
    'exact : {"torch", "pillow", "pillow12"}, optional',
    "patch : int\n    Side of a patch in pixels.",
    "frames : int\n    Frames of a patch; an image, or the last frame of a clip, is repeated.",
    "merge : int\n    Patches that the model merges, along each side.",
    "tile : int\n    Side of a tile in pixels.",
    returns="function\n    ``(images, rng=None) -> Batch``",
    example=">>> gpuimg.models.{}(224)(np.zeros((2, 40, 50, 3), np.uint8)).array().shape\n(2, 224, 224, 3)",
)


# -- results of one size -----------------------------------------------------------------------------------------------


@_documented
def clip(
    size: int = 224, mean: _Color = CLIP_MEAN, std: _Color = CLIP_STD, *, exact: Exact | None = "torch"
) -> _ToBatch:
    """Return CLIP's preprocessing: bicubic resize of the shorter side, central square, normalize."""
    (size,) = arguments.sides(size=size)
    return partial(_fixed, size, size, False, "bicubic", mean, std, exact)


@_documented
def dinov2(
    size: int = 224, resize_size: int = 256, mean: _Color = IMAGENET_MEAN, std: _Color = IMAGENET_STD, *,
    exact: Exact | None = "torch",
) -> _ToBatch:  # fmt: skip
    """Return DINOv2's preprocessing: bicubic resize of the shorter side, central square, normalize.

    Parameters
    ----------
    resize_size : int
        Length of the shorter side before the crop, in pixels.
    """
    size, resize_size = arguments.crop_sides(size, resize_size)
    return partial(_fixed, resize_size, size, False, "bicubic", mean, std, exact)


@_documented
def dinov3(size: int = 224) -> _ToBatch:
    """Return DINOv3's preprocessing: a bilinear resize of float32 values to a square, normalize.

    Notes
    -----
    Its processor resizes floating-point values, which has no rounding to reproduce: sums in a different order differ by
    less than 0.01 levels of 255.
    """
    (size,) = arguments.sides(size=size)
    return partial(_fixed, (size, size), None, False, "bilinear", IMAGENET_MEAN, IMAGENET_STD, None)


@_documented
def siglip(size: int = 224, mean: _Color = _HALF, std: _Color = _HALF, *, exact: Exact | None = "torch") -> _ToBatch:
    """Return SigLIP's preprocessing: a bicubic resize to a square, normalize."""
    (size,) = arguments.sides(size=size)
    return partial(_fixed, (size, size), None, False, "bicubic", mean, std, exact)


@_documented
def vit(size: int = 224, mean: _Color = _HALF, std: _Color = _HALF, *, exact: Exact | None = "torch") -> _ToBatch:
    """Return ViT's preprocessing: a bilinear resize to a square, normalize."""
    (size,) = arguments.sides(size=size)
    return partial(_fixed, (size, size), None, False, "bilinear", mean, std, exact)


@_documented
def timm_eval(config: Mapping[str, Any] | int = 224, *, exact: Exact | None = "pillow") -> _ToBatch:
    """Return timm's evaluation transform of a model's configuration.

    Parameters
    ----------
    config : mapping or int
        Such as ``model.pretrained_cfg`` or ``timm.data.resolve_data_config({}, model=model)``, with ``input_size``,
        ``crop_pct``, ``crop_mode``, ``interpolation``, ``mean`` and ``std``; missing ones are timm's defaults. The mode
        "border" pads the whole image with the mean. An int is the size in pixels.

    Raises
    ------
    ValueError
        For a ``crop_mode`` other than "center", "squash" and "border", or an ``input_size`` that is not one.

    Notes
    -----
    The transform for training is :func:`gpuimg.presets.timm_train`.

    References
    ----------
    timm, ``timm/data/transforms_factory.py``, ``transforms_imagenet_eval``.

    Examples
    --------
    >>> evaluate = gpuimg.models.timm_eval({"input_size": (3, 288, 288), "crop_pct": 1.0})
    >>> evaluate(np.zeros((2, 40, 50, 3), np.uint8)).sizes.tolist()
    [[288, 288], [288, 288]]
    """
    config = configuration(config)
    height, width = size = input_size(config)
    mode = config.get("crop_mode")
    mode = "center" if mode is None else mode
    arguments.one_of(mode, 'config["crop_mode"]', ("center", "squash", "border"))
    share = config.get("crop_pct") or 0.875
    scaled = math.floor(height / share), math.floor(width / share)
    mean, std = config.get("mean", IMAGENET_MEAN), config.get("std", IMAGENET_STD)
    interpolation = config.get("interpolation", "bilinear")
    if mode == "center" and height == width:
        return partial(_fixed, scaled[0], height, True, interpolation, mean, std, exact)
    return partial(_timm_eval, mode, scaled, size, interpolation, mean, std, exact)


def _timm_eval(
    mode: str, scaled: tuple[int, int], size: tuple[int, int], filter: Any, mean: Any, std: Any, exact: Any,
    images: Images, rng: Any = None,
) -> Batch:  # fmt: skip
    x = recording_of(images)
    new = scaled if mode == "squash" else kept_ratio(x.sizes, scaled, longest=mode != "center")
    x = resize.record(x, new, filter, exact=exact)
    # Central crops are black outside of the image, with "border" they have the color of the mean.
    color = tuple(np.round(255.0 * np.array(mean)) / 255.0 / x.unit) if mode == "border" else 0
    x = crop_or_pad(x, central_corner(x.sizes, size), size, "constant", color)
    return Batch(normalize.record(x, mean, std))


@_documented
def open_clip_eval(
    size: int = 224, mean: _Color = CLIP_MEAN, std: _Color = CLIP_STD, interpolation: Interpolation = "bicubic",
    resize_mode: str = "shortest", *, exact: Exact | None = "pillow",
) -> _ToBatch:  # fmt: skip
    """Return open_clip's evaluation transform.

    Parameters
    ----------
    interpolation : {"bicubic", "bilinear"}
    resize_mode : {"shortest", "longest", "squash"}
        With "longest" the whole image is padded with black.

    Raises
    ------
    ValueError
        For another ``resize_mode``.

    References
    ----------
    open_clip, ``src/open_clip/transform.py``, ``image_transform``.
    """
    arguments.one_of(resize_mode, "resize_mode", ("shortest", "longest", "squash"))
    (size,) = arguments.sides(size=size)
    if resize_mode == "longest":
        return partial(_timm_eval, resize_mode, (size, size), (size, size), interpolation, mean, std, exact)
    scaled: Any = (size, size) if resize_mode == "squash" else size
    return partial(_fixed, scaled, size, True, interpolation, mean, std, exact)


def _fixed(
    to: Any, window: int | None, rounded: bool, filter: Any, mean: Any, std: Any, exact: Any, images: Images,
    rng: Any = None,
) -> Batch:  # fmt: skip
    x = resize.record(recording_of(images), to, filter, exact=exact)
    if rounded and window is not None:  # torchvision rounds the corner of odd margins
        x = center_crop.record(x, window)
    elif window is not None:  # and transformers rounds it down
        top, left = (x.sizes - window).T // 2
        x = crop.record(x, top, left, window, window)
    return Batch(normalize.record(x, mean, std))


# -- patches -----------------------------------------------------------------------------------------------------------

#: Resize images to sizes and normalize them: a partial of :func:`_values`.
_ToValues: TypeAlias = Callable[[Batch, Any], Batch]


def _values(filter: Any, mean: Any, std: Any, exact: Any, x: Batch, new: Any) -> Batch:
    """Resize images and normalize them."""
    return normalize(resize(x, new, filter, exact=exact), mean, std)


@_documented
def qwen_vl(
    patch: int = 14, merge: int = 2, frames: int = 2, min_pixels: int = 56 * 56, max_pixels: int = 28 * 28 * 1280,
    mean: _Color = CLIP_MEAN, std: _Color = CLIP_STD, *, exact: Exact | None = "torch",
) -> _ToArrays:  # fmt: skip
    """Return the preprocessing of Qwen2-VL and Qwen2.5-VL; of Qwen3-VL with its numbers.

    Parameters
    ----------
    patch : int
        Side of a patch in pixels; 16 for Qwen3-VL.
    min_pixels, max_pixels : int
        Limits of height times width; 65536 and 16777216 for Qwen3-VL.
    mean, std : (3,) float
        0.5 each for Qwen3-VL.

    Returns
    -------
    function
        ``(images, rng=None) -> dict`` with ``pixel_values`` (sum of tokens, values) and ``image_grid_thw`` (N, 3).

    Examples
    --------
    >>> qwen3 = gpuimg.models.qwen_vl(16, 2, 2, 65536, 16777216, (0.5,) * 3, (0.5,) * 3)
    >>> qwen3(np.zeros((1, 300, 400, 3), np.uint8))["pixel_values"].shape
    (432, 1536)
    """
    patch, merge, frames = arguments.sides(patch=patch, merge=merge, frames=frames)
    low, high = arguments.areas(min_pixels=min_pixels, max_pixels=max_pixels)
    return partial(_qwen_vl, patch, merge, frames, low, high, partial(_values, "bicubic", mean, std, exact))


def _qwen_vl(
    patch: int, merge: int, frames: int, low: int, high: int, values: _ToValues, images: Images, rng: Any = None
) -> dict[str, Array]:
    x = as_batch(images)
    x = values(x, sizes.smart(x.sizes, patch * merge, low, high))
    tokens = x.tokens(patch, merge=merge, frames=frames)
    return {"pixel_values": tokens.values, "image_grid_thw": tokens.grids}


@_documented
def qwen_vl_video(
    patch: int = 14, merge: int = 2, frames: int = 2, min_pixels: int = 128 * 28 * 28, max_pixels: int = 768 * 28 * 28,
    mean: _Color = CLIP_MEAN, std: _Color = CLIP_STD, *, video_tokens: int | None = None, exact: Exact | None = "torch",
) -> _ToArrays:  # fmt: skip
    """Return the preprocessing of videos of Qwen2-VL and Qwen2.5-VL.

    Parameters
    ----------
    min_pixels, max_pixels : int
        Limits of height times width of a frame.
    video_tokens : int, optional
        Limit the pixels of a clip, too, to those of 90 % of this number: ``max_video_tokens`` of transformers'
        processor where that has ``cap_pixels_per_frame``, by default 128000.

    Returns
    -------
    function
        ``(clips, rng=None) -> dict`` with ``pixel_values_videos`` (sum of tokens, values) and ``video_grid_thw``
        (N, 3). Clips are a batch of :func:`gpuimg.open_clips`, or decoded: a list of (T, H, W, 3) arrays of one T, or
        an array (N, T, H, W, 3).

    Examples
    --------
    >>> outputs = gpuimg.models.qwen_vl_video()(np.zeros((1, 5, 300, 400, 3), np.uint8))
    >>> outputs["pixel_values_videos"].shape, outputs["video_grid_thw"].tolist()
    ((1848, 1176), [[3, 22, 28]])
    """
    return _qwen_videos(_qwen2_sizes, patch, merge, frames, min_pixels, max_pixels, mean, std, video_tokens, exact)


@_documented
def qwen3_vl_video(
    patch: int = 16, merge: int = 2, frames: int = 2, min_pixels: int = 128 * 32 * 32, max_pixels: int = 768 * 32 * 32,
    mean: _Color = _HALF, std: _Color = _HALF, *, video_tokens: int | None = None, exact: Exact | None = "torch",
) -> _ToArrays:  # fmt: skip
    """Return the preprocessing of videos of Qwen3-VL, whose limits are those of a whole clip.

    Parameters
    ----------
    min_pixels, max_pixels : int
        Limits of height times width times frames; 4096 and 25165824 in the published configurations.
    video_tokens : int, optional
        Most tokens of a frame: ``max_video_tokens`` of transformers' processor where that has ``cap_pixels_per_frame``,
        by default 768.

    Returns
    -------
    function
        As that of :func:`qwen_vl_video`.

    Examples
    --------
    >>> outputs = gpuimg.models.qwen3_vl_video()(np.zeros((1, 5, 300, 400, 3), np.uint8))
    >>> outputs["pixel_values_videos"].shape, outputs["video_grid_thw"].tolist()
    ((1296, 1536), [[3, 18, 24]])
    """
    return _qwen_videos(_qwen3_sizes, patch, merge, frames, min_pixels, max_pixels, mean, std, video_tokens, exact)


def _qwen_videos(
    rule: Callable[..., Ints], patch: int, merge: int, frames: int, min_pixels: int, max_pixels: int, mean: Any,
    std: Any, video_tokens: int | None, exact: Any,
) -> _ToArrays:  # fmt: skip
    patch, merge, frames = arguments.sides(patch=patch, merge=merge, frames=frames)
    low, high = arguments.areas(min_pixels=min_pixels, max_pixels=max_pixels)
    if video_tokens is not None:
        (video_tokens,) = arguments.areas(video_tokens=video_tokens)
    new = partial(rule, factor=patch * merge, temporal=frames, low=low, high=high, cap=video_tokens)
    return partial(_qwen_video, patch, merge, frames, new, partial(_values, "bicubic", mean, std, exact))


def _qwen_video(
    patch: int, merge: int, frames: int, new: Callable[..., Ints], values: _ToValues, clips: Any, rng: Any = None
) -> dict[str, Array]:
    x = as_clips(clips)
    tokens = values(x, new(x.sizes, x.frames)).tokens(patch, merge=merge, frames=frames)
    return {"pixel_values_videos": tokens.values, "video_grid_thw": tokens.grids}


def _qwen2_sizes(old: Ints, frames: int, factor: int, temporal: int, low: int, high: int, cap: int | None) -> Ints:
    if cap is not None:
        high = max(min(high, int(cap * factor * factor * 0.9) * temporal // frames), int(low * 1.05))
    return sizes.smart(old, factor, low, high)


def _qwen3_sizes(old: Ints, frames: int, factor: int, temporal: int, low: int, high: int, cap: int | None) -> Ints:
    if cap is not None:
        high = max(min(cap * factor * factor, high // frames), int(low * 1.05)) * frames
    return sizes.smart_video(old, frames, factor, temporal, low, high)


@_documented
def siglip2_naflex(
    patch: int = 16, patches: int = 256, mean: _Color = _HALF, std: _Color = _HALF, *, exact: Exact | None = "torch"
) -> _ToArrays:
    """Return the preprocessing of SigLIP 2 NaFlex: patches of the whole image, padded to one number.

    Parameters
    ----------
    patches : int
        Most patches of an image, and their number after padding.

    Returns
    -------
    function
        ``(images, rng=None) -> dict`` with ``pixel_values`` (N, patches, values), ``pixel_attention_mask`` (N, patches)
        and ``spatial_shapes`` (N, 2).

    Examples
    --------
    >>> gpuimg.models.siglip2_naflex()(np.zeros((1, 300, 400, 3), np.uint8))["pixel_values"].shape
    (1, 256, 768)
    """
    patch, patches = arguments.sides(patch=patch, patches=patches)
    return partial(_siglip2_naflex, patch, patches, partial(_values, "bilinear", mean, std, exact))


def _siglip2_naflex(patch: int, patches: int, values: _ToValues, images: Images, rng: Any = None) -> dict[str, Array]:
    x = as_batch(images)
    tokens = values(x, sizes.naflex(x.sizes, patch, patches)).tokens(patch, order="PPC", pad=patches)
    assert tokens.mask is not None
    return {
        "pixel_values": tokens.values,
        "pixel_attention_mask": tokens.mask.astype(np.int32),
        "spatial_shapes": tokens.grids[:, 1:],
    }


@_documented
def kimi(
    patch: int = 14, merge: int = 2, patches: int = 16384, side: int = 512, mean: _Color = _HALF, std: _Color = _HALF,
    *, exact: Exact | None = "torch",
) -> _ToArrays:  # fmt: skip
    """Return the preprocessing of Kimi K2.5: resize without enlarging, pad with black, cut into patches.

    Parameters
    ----------
    patch, merge, patches, side : int
        As in :func:`gpuimg.sizes.navit`.

    Returns
    -------
    function
        ``(images, rng=None) -> dict`` with ``pixel_values`` (sum of tokens, 3, patch, patch) and ``image_grid_thw``
        (N, 3).

    Examples
    --------
    >>> gpuimg.models.kimi()(np.zeros((1, 30, 40, 3), np.uint8))["pixel_values"].shape
    (16, 3, 14, 14)
    """
    sizes.navit([], patch, merge, patches, side)  # checks them
    return partial(_kimi, patch, merge, patches, side, mean, std, exact)


def _kimi(
    patch: int, merge: int, patches: int, side: int, mean: Any, std: Any, exact: Any, images: Images, rng: Any = None
) -> dict[str, Array]:
    x = as_batch(images)
    new, full = sizes.navit(x.sizes, patch, merge, patches, side)
    more = full - new
    x = pad(
        resize(x, new, "bicubic", exact=exact), np.stack([0 * more[:, 0], 0 * more[:, 0], more[:, 1], more[:, 0]], 1)
    )
    tokens = normalize(x, mean, std).tokens(patch)
    return {"pixel_values": tokens.values.reshape(-1, x.channels, patch, patch), "image_grid_thw": tokens.grids}


@_documented
def pixtral(
    side: int = 1024, patch: int = 16, mean: _Color = CLIP_MEAN, std: _Color = CLIP_STD, *,
    exact: Exact | None = "torch",
) -> _ToArrays:  # fmt: skip
    """Return Pixtral's preprocessing: resize to a longest side and multiples of a patch, pad with 0 to the largest.

    Parameters
    ----------
    side : int
        Longest side in pixels.
    patch : int
        Heights and widths are multiples of this.

    Returns
    -------
    function
        ``(images, rng=None) -> dict`` with ``pixel_values`` (N, 3, H, W) and ``image_sizes`` (N, 2).

    Examples
    --------
    >>> gpuimg.models.pixtral()(np.zeros((1, 30, 40, 3), np.uint8))["pixel_values"].shape
    (1, 3, 32, 48)
    """
    side, patch = arguments.sides(side=side, patch=patch)
    return partial(_of_any_number, partial(_pixtral, side, patch, partial(_values, "bicubic", mean, std, exact)))


def _pixtral(side: int, patch: int, values: _ToValues, images: Images, rng: Any = None) -> dict[str, Array]:
    x = as_batch(images)
    padded = values(x, sizes.longest(x.sizes, side, patch)).padded(layout="NCHW")
    return {"pixel_values": padded.values, "image_sizes": padded.sizes}


def _of_any_number(function: _ToArrays, images: Images, rng: Any = None, **options: Any) -> dict[str, Array]:
    """Call a function whose arrays are as large as the largest image needs; without images, as one needs."""
    none = recording_of(images)
    if len(none):
        return function(images, **options)
    shape = *np.maximum(none.plan.empty_size, 1), none.channels
    black = Batch(Recording.start(none.runtime, none.runtime.from_arrays([np.zeros(shape, none.dtype)])))
    return {name: array[:0] for name, array in function(black).items()}


# -- tiles -------------------------------------------------------------------------------------------------------------


@_documented
def internvl(
    tile: int = 448, most: int = 12, least: int = 1, mean: _Color = IMAGENET_MEAN, std: _Color = IMAGENET_STD, *,
    overview: bool = True, exact: Exact | None = "torch",
) -> _ToArrays:  # fmt: skip
    """Return InternVL's preprocessing: a grid of square tiles near the aspect ratio, and an overview.

    Parameters
    ----------
    tile, most, least : int
        As in :func:`gpuimg.sizes.tiles`.
    overview : bool
        Add the whole image as another tile, where it has several.

    Returns
    -------
    function
        ``(images, rng=None) -> dict`` with ``pixel_values`` (sum of tiles, 3, tile, tile) and ``num_patches`` (N,).

    Examples
    --------
    >>> gpuimg.models.internvl()(np.zeros((1, 300, 400, 3), np.uint8))["num_patches"].tolist()
    [13]
    """
    sizes.tiles([], tile, most, least)  # checks them
    return partial(_internvl, tile, most, least, overview, partial(_values, "bicubic", mean, std, exact))


def _internvl(
    tile: int, most: int, least: int, overview: bool, values: _ToValues, images: Images, rng: Any = None
) -> dict[str, Array]:
    x = as_batch(images)
    grids = sizes.tiles(x.sizes, tile, most, least)
    overviews = (grids.prod(1) > 1) & overview
    rows = np.repeat(np.arange(len(x)), 1 + overviews)
    new = grids[rows] * tile
    new[np.flatnonzero(rows[1:] == rows[:-1]) + 1] = tile
    tokens = values(x.take(rows), new).tokens(tile)
    return {"pixel_values": _tiles(tokens.values, x.channels, tile), "num_patches": grids.prod(1) + overviews}


@_documented
def llava_anyres(
    tile: int = 336, grids: Sequence[tuple[int, int]] = ((336, 672), (672, 336), (672, 672), (1008, 336), (336, 1008)),
    mean: _Color = CLIP_MEAN, std: _Color = CLIP_STD, *, exact: Exact | None = "torch",
) -> _ToArrays:  # fmt: skip
    """Return LLaVA-NeXT's preprocessing: an overview, then tiles of the image in the best of several sizes.

    Parameters
    ----------
    grids : sequence of (height, width)
        Sizes to choose from, multiples of ``tile``; the image keeps its aspect ratio and gets a black border.

    Returns
    -------
    function
        ``(images, rng=None) -> dict`` with ``pixel_values`` (N, most tiles, 3, tile, tile), 0 after the tiles of an
        image, and ``image_sizes`` (N, 2), those before.

    Examples
    --------
    >>> gpuimg.models.llava_anyres()(np.zeros((1, 300, 400, 3), np.uint8))["pixel_values"].shape
    (1, 3, 3, 336, 336)
    """
    (tile,) = arguments.sides(tile=tile)
    sizes.best_grid([], grids)  # checks them
    if np.any(np.array(grids) % tile):
        raise ValueError(f"grids must be multiples of tile, {tile} pixels, not {grids!r}")
    return partial(_of_any_number, partial(_llava_anyres, tile, np.array(grids), mean, std, exact))


def _llava_anyres(
    tile: int, grids: Ints, mean: Any, std: Any, exact: Any, images: Images, rng: Any = None
) -> dict[str, Array]:
    x = as_batch(images)
    old = x.sizes
    whole = sizes.best_grid(old, grids)
    scale = whole / old
    narrow = (scale[:, 1] < scale[:, 0])[:, None]
    inner = np.minimum(np.ceil(old * np.where(narrow, scale[:, 1:], scale[:, :1])).astype(np.int64), whole)
    inner = np.where(narrow == [False, True], whole, inner)
    inner, whole = (np.stack([np.full_like(one, tile), one], 1).reshape(-1, 2) for one in (inner, whole))
    before = (whole - inner) // 2
    border = np.stack([before[:, 1], before[:, 0], *(whole - inner - before).T[::-1]], 1)
    x = pad(resize(x.take(np.repeat(np.arange(len(old)), 2)), inner, "bicubic", exact=exact), border)
    tokens = normalize(x, mean, std).tokens(tile, pad="longest", counts=np.full(len(old), 2))
    return {"pixel_values": _tiles(tokens.values, x.channels, tile), "image_sizes": np.array(old)}


@_documented
def idefics3(
    tile: int = 364, side: int = 4 * 364, mean: _Color = _HALF, std: _Color = _HALF, *, exact: Exact = "torch"
) -> _ToArrays:
    """Return the preprocessing of Idefics3, or of SmolVLM with tiles of 512 and a longest side of 2048.

    Parameters
    ----------
    side : int
        Length of the longest side in pixels, before it becomes a multiple of ``tile``.
    exact : {"torch", "pillow", "pillow12"}

    Returns
    -------
    function
        ``(images, rng=None, counts=None) -> dict`` with ``pixel_values`` (N, most tiles, 3, tile, tile), 0 after the
        tiles of a sample, and ``pixel_attention_mask`` (N, most tiles, tile, tile). ``counts`` (N,) are the numbers of
        images of the samples, by default 1 each.

    Notes
    -----
    Images are resized to the longest side, then to multiples of the tile, from there to the overview, each time with
    the Lanczos filter and a rounding to bytes. The bytes of the second size are kept for a
    few images at a time.

    Examples
    --------
    >>> gpuimg.models.idefics3()(np.zeros((1, 300, 400, 3), np.uint8))["pixel_values"].shape
    (1, 13, 3, 364, 364)
    """
    tile, side = arguments.sides(tile=tile, side=side)
    return partial(_of_any_number, partial(_idefics3, tile, side, mean, std, exact))


def _idefics3(
    tile: int, side: int, mean: Any, std: Any, exact: Any, images: Images, rng: Any = None, counts: Any = None
) -> dict[str, Array]:
    x = as_batch(images)
    samples = several.sample_ends(counts, len(x))
    first = _even_sides(x.sizes, side)
    whole = _multiples(first, tile)
    split = np.any(whole > tile, 1)
    rows = np.repeat(np.arange(len(x)), 1 + split)
    new = whole[rows]
    new[np.flatnonzero(rows[1:] == rows[:-1]) + 1] = tile
    x = resize(resize(x, first, "lanczos", exact=exact), whole, "lanczos", exact=exact)
    group = np.cumsum(whole.prod(1) * x.channels) // (_KEPT * threads())

    def views(of: Batch, taken: Ints, sides: Ints) -> Batch:
        # The tiles keep their size; so recorded, they are known as bytes that normalize() divides as the library does.
        return normalize(resize(of.take(taken), sides, "lanczos", exact=exact), mean, std)

    def run(flat: Any, offsets: Ints, layout: Any) -> None:
        error = None
        for k in np.unique(group):
            some, here = np.flatnonzero(group == k), np.flatnonzero(group[rows] == k)
            try:
                kept = x.take(some).compute("uint8")
            except DecodeError as one:  # that of the last group names all
                error = one
            else:
                run_into(views(kept, rows[here] - some[0], new[here]), flat, offsets[here], layout)
        if error is not None:
            raise error

    starts = np.concatenate([[0], np.cumsum(1 + split)])  # the first view of each image
    counts = np.diff(starts[samples])
    tokens = several.tokens(recording_of(views(x, rows, new)), run, tile, 1, 1, "CTPP", "longest", counts, None)
    assert tokens.mask is not None
    mask = np.zeros((*tokens.mask.shape, tile, tile), np.int64)
    mask[tokens.mask] = 1
    return {"pixel_values": _tiles(tokens.values, x.channels, tile), "pixel_attention_mask": mask}


@_documented
def gemma3(
    size: int = 896, mean: _Color = _HALF, std: _Color = _HALF, *, pan_and_scan: tuple[int, int, float] | None = None,
    exact: Exact | None = "torch",
) -> _ToArrays:  # fmt: skip
    """Return Gemma 3's preprocessing: a bilinear resize to a square; with pan and scan, also of parts of long images.

    Parameters
    ----------
    pan_and_scan : (int, int, float), optional
        Smallest side of a part in pixels, most parts of an image, and ratio of longer to shorter side from which on an
        image has parts; Gemma 3's are (256, 4, 1.2).

    Returns
    -------
    function
        ``(images, rng=None) -> dict`` with ``pixel_values`` (images and parts, 3, size, size), each image before its
        parts, and ``num_crops`` (N,), the number of parts.

    Examples
    --------
    >>> prepare = gpuimg.models.gemma3(pan_and_scan=(256, 4, 1.2))
    >>> outputs = prepare(np.zeros((1, 300, 900, 3), np.uint8))
    >>> outputs["pixel_values"].shape, outputs["num_crops"].tolist()
    ((4, 3, 896, 896), [3])
    """
    if pan_and_scan is not None:
        if not isinstance(pan_and_scan, (tuple, list)) or len(pan_and_scan) != 3:
            raise ValueError(f"pan_and_scan must be (smallest side, most parts, ratio), not {pan_and_scan!r}")
        smallest, most, ratio = pan_and_scan
        smallest, most = arguments.sides(**{"pan_and_scan[0]": smallest, "pan_and_scan[1]": most})
        pan_and_scan = smallest, most, arguments.number(ratio, "pan_and_scan[2]")
    (size,) = arguments.sides(size=size)
    return partial(_gemma3, size, pan_and_scan, partial(_values, "bilinear", mean, std, exact))


def _gemma3(size: int, scan: Any, values: _ToValues, images: Images, rng: Any = None) -> dict[str, Array]:
    x = as_batch(images)
    old = x.sizes
    parts = np.zeros(len(old), np.int64) if scan is None else _parts(old, *scan)
    rows = np.repeat(np.arange(len(old)), 1 + parts)
    position = np.arange(len(rows)) - np.flatnonzero(np.diff(rows, prepend=-1))[rows] - 1  # -1 for the whole image
    along = (old[:, 1] >= old[:, 0])[:, None] == [False, True]  # the axis that is divided
    step = np.where(along, -(-old // np.maximum(parts, 1)[:, None]), old)[rows]
    corner = np.where(along[rows] & (position >= 0)[:, None], position[:, None] * step, 0)
    extent = np.where((position >= 0)[:, None], np.minimum(step, old[rows] - corner), old[rows])
    x = crop(x.take(rows), corner[:, 0], corner[:, 1], extent[:, 0], extent[:, 1])
    return {"pixel_values": values(x, (size, size)).array(layout="NCHW"), "num_crops": parts}


def _parts(old: Ints, smallest: int, most: int, ratio: float) -> Ints:
    """Return Gemma 3's numbers of parts, along the longer side; 0 for images that are not divided."""
    long, short = old.max(1, initial=1), old.min(1, initial=2**31)
    count = np.minimum(np.floor(long / short + 0.5).astype(np.int64), long // smallest)
    count = np.minimum(np.maximum(count, 2), most)
    divided = (long / short >= ratio) & (np.minimum(-(-long // count), short) >= smallest)
    return np.where(divided, count, 0)


def _even_sides(old: Ints, side: int) -> Ints:
    """Return Idefics3's first sizes: a longest side, and an even shorter one."""
    aspect = old[:, 1] / old[:, 0]
    wide = aspect >= 1.0
    short = np.where(wide, side / aspect, side * aspect).astype(np.int64)
    return _height_width(wide, np.full_like(short, side), np.maximum(short + short % 2, 1))


def _multiples(old: Ints, tile: int) -> Ints:
    """Return Idefics3's second sizes: the longer side up to a multiple, and the shorter one that follows, too."""
    aspect = old[:, 1] / old[:, 0]
    wide = aspect >= 1.0
    long = -(-old.max(1, initial=0) // tile) * tile
    short = np.where(wide, long / aspect, long * aspect).astype(np.int64)
    short = -(-short // tile) * tile
    return _height_width(wide, long, short)


def _height_width(wide: Any, long: Ints, short: Ints) -> Ints:
    return np.where(wide[:, None], np.stack([short, long], 1), np.stack([long, short], 1))


def _tiles(values: Array, channels: int, tile: int) -> Array:
    """Return patches as images (..., C, tile, tile)."""
    return values.reshape(*values.shape[:-1], channels, tile, tile)
