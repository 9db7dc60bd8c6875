"""Published preprocessing recipes, composed of gpuimg's public functions: use them unchanged, or copy and adapt them.

Each preset returns a function that takes images and a generator for their samples and returns a batch with the recipe
recorded. The function can be pickled. Models' own preprocessing for evaluation is in :mod:`gpuimg.models`.

>>> import gpuimg, numpy as np
>>> train = gpuimg.presets.imagenet_train(size=64)
>>> x = train(np.zeros((2, 80, 90, 3), np.uint8), gpuimg.Rng(0, epoch=3, indices=[17, 4]))
>>> x.array(dtype="float16", layout="NCHW").shape
(2, 3, 64, 64)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from ._batch.batch import Batch, Images, recording_of
from ._batch.recording import Recording
from ._checks import arguments
from ._checks.recipe import of_recipes
from ._checks.types import Exact, Range
from ._ops.pixels import CLIP_MEAN, CLIP_STD, IMAGENET_MEAN, IMAGENET_STD, normalize
from ._ops.resize_crop import center_crop, resize
from ._ops.timm_resize import configuration, input_size
from ._random.color import color_jitter, random_grayscale, random_photometric_distort, random_solarize
from ._random.draws import rng_of
from ._random.filters import random_gaussian_blur, three_augment
from ._random.geometry import random_horizontal_flip, random_resized_crop, random_zoom_out
from ._random.iou_crop import random_iou_crop
from ._random.rng import Rng, rng_of_rows
from ._random.timm_config import parsed
from ._random.timm_train import Timm, crop_of, erased_of, jitter_of, timm_training

_DINOV3_SCALES = np.array([(0.32, 0.05), (1.0, 0.32)])  # lowest and highest, of global and of local views

_documented = of_recipes(
    "size : int\n    Height and width of the results in pixels.",
    "scale : (low, high)\n    Range of the crop's area as a fraction of the image's, 0 to 1.",
    "local_size : int\n    Height and width of the local views in pixels.",
    "local_views : int\n    Number of local views of each image, at least 0.",
    'exact : {"pillow", "pillow12", "torch"}, optional\n'
    "    Resize bytes as that library does, bit for bit, as in :func:`gpuimg.resize`.",
    returns="function\n    ``(images, rng) -> Batch``; ``rng`` is a :class:`gpuimg.Rng` or an int seed.",
    example=">>> preprocess = gpuimg.presets.{}(32)\n"
    ">>> preprocess(np.zeros((2, 40, 50, 3), np.uint8), 0).array().shape\n(2, 32, 32, 3)",
)


def _named(name: str, record: Callable[..., Recording], *options: Any) -> Callable[[Images, Rng | int], Batch]:
    """Return a preset: a function of images and a generator, from one of options, a recording and an Rng."""
    return partial(_recorded, name, record, options)


def _recorded(name: str, record: Callable[..., Recording], options: Any, images: Any, rng: Any) -> Batch:
    recording = recording_of(images)
    return Batch(record(*options, recording, rng_of(recording, rng, name)))


@_documented
def imagenet_train(size: int = 224, *, exact: Exact | None = None) -> Callable[[Images, Rng | int], Batch]:
    """Return the ImageNet training preset of ResNet: random resized crop, flip, normalize.

    References
    ----------
    Szegedy et al.: "Going deeper with convolutions", CVPR 2015; torchvision ``references/classification``.
    """
    return _named("imagenet_train", _imagenet_train, arguments.whole_number(size, "size"), exact)


def _imagenet_train(size: int, exact: Exact | None, x: Recording, rng: Rng) -> Recording:
    x = random_resized_crop.record(x, size, exact=exact, rng=rng)
    x = random_horizontal_flip.record(x, rng=rng)
    return normalize.record(x, IMAGENET_MEAN, IMAGENET_STD)


@_documented
def imagenet_eval(size: int = 224, resize_size: int = 256, *, exact: Exact | None = None) -> Callable[..., Batch]:
    """Return the ImageNet evaluation preset: resize the shorter side, crop the center, normalize.

    Parameters
    ----------
    resize_size : int
        Length of the shorter side before the crop, in pixels.
    exact : {"pillow", "pillow12", "torch"}, optional
        Return that library's values bit for bit, as in :func:`gpuimg.resize`: ``"pillow"`` returns exactly the tensors
        of torchvision's transforms on Pillow images.

    Returns
    -------
    function
        ``(images, rng=None) -> Batch``; ``rng`` is ignored, since nothing is random.

    References
    ----------
    torchvision ``references/classification``.
    """
    size, resize_size = arguments.crop_sides(size, resize_size)
    return partial(_imagenet_eval, size, resize_size, exact)


def _imagenet_eval(size: int, resize_size: int, exact: Exact | None, images: Any, rng: Any = None) -> Batch:
    x = resize.record(recording_of(images), resize_size, exact=exact)
    return Batch(normalize.record(center_crop.record(x, (size, size)), IMAGENET_MEAN, IMAGENET_STD))


@_documented
def deit3_train(size: int = 224) -> Callable[[Images, Rng | int], Batch]:
    """Return the training preset of DeiT III: bicubic crop, flip, 3-Augment, color jitter of 0.3, normalize.

    Notes
    -----
    DeiT III then mixes the images: :func:`gpuimg.mixup` with an alpha of 0.8, or :func:`gpuimg.cutmix`.

    References
    ----------
    Touvron, Cord, Jégou: "DeiT III: Revenge of the ViT", ECCV 2022; its code, ``augment.py``.
    """
    return _named("deit3_train", _deit3_train, arguments.whole_number(size, "size"))


def _deit3_train(size: int, x: Recording, rng: Rng) -> Recording:
    x = random_resized_crop.record(x, size, interpolation="bicubic", rng=rng)
    x = random_horizontal_flip.record(x, rng=rng)
    x = three_augment.record(x, rng=rng)
    x = color_jitter.record(x, brightness=0.3, contrast=0.3, saturation=0.3, rng=rng)
    return normalize.record(x, IMAGENET_MEAN, IMAGENET_STD)


@_documented
def clip_train(
    size: int = 224, scale: Range = (0.9, 1.0), *, exact: Exact | None = None
) -> Callable[[Images, Rng | int], Batch]:
    """Return the training preset of CLIP as open_clip trains it: a bicubic crop of most of the image, normalize.

    Notes
    -----
    :func:`gpuimg.models.clip` and :func:`gpuimg.models.open_clip_eval` are for evaluation. With ``use_timm``, open_clip
    calls timm: pass :func:`timm_train` CLIP's mean and standard deviation.

    References
    ----------
    Radford et al.: "Learning transferable visual models from natural language supervision", ICML 2021; open_clip,
    ``src/open_clip/transform.py``, ``image_transform``.
    """
    size = arguments.whole_number(size, "size")
    return _named("clip_train", _open_clip_train, size, scale, (CLIP_MEAN, CLIP_STD), exact)


@_documented
def siglip_train(
    size: int = 224, scale: Range = (0.9, 1.0), *, exact: Exact | None = None
) -> Callable[[Images, Rng | int], Batch]:
    """Return the training preset of SigLIP as open_clip trains it: that of CLIP, normalized to -1 to 1.

    Notes
    -----
    big_vision resizes whole images to a square, without a random crop: :func:`gpuimg.models.siglip` does that.

    References
    ----------
    Zhai, Mustafa, Kolesnikov, Beyer: "Sigmoid loss for language image pre-training", ICCV 2023; open_clip.
    """
    size = arguments.whole_number(size, "size")
    return _named("siglip_train", _open_clip_train, size, scale, ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)), exact)


def _open_clip_train(size: int, scale: Any, colors: Any, exact: Exact | None, x: Recording, rng: Rng) -> Recording:
    x = random_resized_crop.record(x, size, scale, interpolation="bicubic", exact=exact, rng=rng)
    return normalize.record(x, *colors)


@_documented
def simclr(size: int = 224) -> Callable[[Images, Rng | int], Batch]:
    """Return the SimCLR preset for one view of each image: resized crop, flip, color jitter, gray, blur.

    Notes
    -----
    Results are not normalized, as in the paper: they range from 0 to 1, or from 0 to 255 as uint8.
    :func:`simclr_train` returns several views.

    References
    ----------
    Chen, Kornblith, Norouzi, Hinton: "A simple framework for contrastive learning of visual representations",
    ICML 2020, appendix A, with the ImageNet strength of 1.
    """
    return _named("simclr", _simclr, arguments.whole_number(size, "size"))


def _simclr(size: int, x: Recording, rng: Rng) -> Recording:
    kernel = size // 10 // 2 * 2 + 1  # a tenth of the side, rounded to an odd number
    x = random_resized_crop.record(x, size, rng=rng)
    x = random_horizontal_flip.record(x, rng=rng)
    x = color_jitter.record(x, brightness=0.8, contrast=0.8, saturation=0.8, hue=0.2, p=0.8, rng=rng)
    x = random_grayscale.record(x, 0.2, rng=rng)
    return random_gaussian_blur.record(x, kernel, (0.1, 2.0), 0.5, rng=rng)


@_documented
def simclr_train(size: int = 224, views: int = 2) -> Callable[[Images, Rng | int], Batch]:
    """Return the SimCLR training preset: several views of each image, which is decoded once.

    Parameters
    ----------
    views : int
        Number of views of each image, at least 1.

    Notes
    -----
    The batch holds the first view of all images, as of :func:`simclr`, then the second, and so on. Values are not
    normalized: of uint8 images they are 0 to 255, or with ``dtype="float32"`` 0 to 1.

    Examples
    --------
    >>> train = gpuimg.presets.simclr_train(32)
    >>> one, other = train(np.zeros((3, 40, 50, 3), np.uint8), 0).array().reshape(2, 3, 32, 32, 3)
    """
    size, views = arguments.whole_number(size, "size"), arguments.whole_number(views, "views", 1)
    return _named("simclr_train", _simclr_train, size, views)


def _simclr_train(size: int, views: int, x: Recording, rng: Rng) -> Recording:
    return _simclr(size, x.taken(np.tile(np.arange(x.units), views)), rng.views(views))


@_documented
def dino_train(
    size: int = 224,
    local_size: int = 96,
    local_views: int = 8,
    *,
    global_crops_scale: tuple[float, float] = (0.4, 1.0),
    local_crops_scale: tuple[float, float] = (0.05, 0.4),
) -> Callable[[Images, Rng | int], Batch]:
    """Return the training preset of DINO: two global and several local views of each image, which is decoded once.

    Parameters
    ----------
    size : int
        Height and width of the global views in pixels.
    local_views : int
        Number of local views of each image, at least 0: ``local_crops_number`` of the paper's code.
    global_crops_scale, local_crops_scale : (float, float)
        Range of the fraction of the image's area that global and local views show.

    Notes
    -----
    The batch holds the first global view of all images, then the second, then the first local one, and so on:
    :attr:`gpuimg.LoadedBatch.views`; :meth:`gpuimg.Batch.arrays` returns one array of the global views and one of the
    local ones.

    The probability of a blur is 1 for the first global view, 0.1 for the second and 0.5 for local views; the second
    global view is solarized with probability 0.2. Blur kernels have 9 x 9 pixels, as in DINOv2; the code of the first
    paper uses Pillow's blur.

    References
    ----------
    Caron et al.: "Emerging properties in self-supervised vision transformers", ICCV 2021, and its code.

    Examples
    --------
    >>> train = gpuimg.presets.dino_train(32, 16, 6)
    >>> large, small = train(np.zeros((3, 40, 50, 3), np.uint8), 0).arrays(layout="NCHW")
    >>> large.shape, small.shape
    ((6, 3, 32, 32), (18, 3, 16, 16))
    """
    size, local_size = arguments.whole_number(size, "size"), arguments.whole_number(local_size, "local_size")
    ranges = {"global_crops_scale": global_crops_scale, "local_crops_scale": local_crops_scale}
    scales = np.array([arguments.low_high(value, name, low=0.0, high=1.0) for name, value in ranges.items()]).T
    count = arguments.whole_number(local_views, "local_views", 0)
    return _named("dino_train", _dino, (size, local_size, None), count, scales, False, 0.5, (1.0, 0.1, 0.5))


@_documented
def dinov3_train(
    size: int = 256, local_size: int = 112, local_views: int = 8, *, gram_size: int | None = None,
    gram_distortions: bool = False, flip: float = 0.0, blur: tuple[float, float, float] = (1.0, 0.1, 0.5),
) -> Callable[[Images, Rng | int], Batch]:  # fmt: skip
    """Return the training preset of DINOv3: global and local views, and the views of the Gram teacher.

    Parameters
    ----------
    size : int
        Height and width of the global views in pixels.
    gram_size : int, optional
        Height and width of the Gram teacher's views in pixels, 512 in the paper; without it there are none. They show
        the crops of the global views.
    gram_distortions : bool
        Give the Gram teacher's views the colors and blur of the global views, which are then distorted at the larger
        of both sizes.
    flip : float
        Probability of a horizontal flip, 0 to 1. The published configurations do not flip.
    blur : (float, float, float)
        Probability of a blur of the first and the second global view, and of local views.

    Notes
    -----
    The batch holds the first global view of all images, then the second, then with ``gram_size`` the Gram teacher's
    views of both, then the local views; :meth:`gpuimg.Batch.arrays` returns one array of each size.

    Global views show 0.32 to 1 of the image's area and local views 0.05 to 0.32; the rest is as in :func:`dino_train`.
    The published code passes 1 minus the probabilities of a blur to torchvision's ``RandomApply``, so that it runs with
    ``blur=(0.0, 0.9, 0.5)``.

    References
    ----------
    Siméoni et al.: "DINOv3", arXiv:2508.10104, 2025, and its code: ``dinov3/data/augmentations.py``,
    ``configs/train/dinov3_vit7b16_gram_anchor.yaml``.

    Examples
    --------
    >>> train = gpuimg.presets.dinov3_train(32, 16, 6, gram_size=48)
    >>> large, gram, small = train(np.zeros((3, 40, 50, 3), np.uint8), 0).arrays(layout="NCHW")
    >>> large.shape, gram.shape, small.shape
    ((6, 3, 32, 32), (6, 3, 48, 48), (18, 3, 16, 16))
    """
    arguments.whole_number(local_views, "local_views", 0)
    sizes = (size, local_size, gram_size)
    for name, side in zip(("size", "local_size", "gram_size"), sizes, strict=True):
        if side is not None:
            arguments.whole_number(side, name)
    distorted = arguments.flag(gram_distortions, "gram_distortions")
    return _named("dinov3_train", _dino, sizes, local_views, _DINOV3_SCALES, distorted, flip, blur)


def _dino(
    sizes: tuple[int, int, int | None], local_views: int, scales: Any, distorted: bool, flip: float,
    blur: tuple[float, float, float], x: Recording, rng: Rng,
) -> Recording:  # fmt: skip
    size, local_size, gram_size = sizes
    units = x.units
    # The Gram teacher's views draw what the global views do.
    drawn = [0, 1, *([] if gram_size is None else [0, 1]), *range(2, 2 + local_views)]
    rows = (np.array(drawn)[:, None] * units + np.arange(units)).ravel()
    x, rng = x.taken(rows % max(units, 1)), rng_of_rows(rng.views(2 + local_views), rows)
    view = np.repeat(drawn, len(x) // len(drawn))
    gram = np.repeat(np.arange(len(drawn)) // 2 == 1, len(x) // len(drawn)) & (gram_size is not None)
    own = np.where(view >= 2, local_size, np.where(gram, gram_size or 0, size))
    side = np.where(view >= 2, local_size, max(size, gram_size)) if gram_size is not None and distorted else own
    plain = gram & (not distorted)
    low, high = scales[:, (view >= 2).astype(int)]
    x = random_resized_crop.record(x, (side, side), (low, high), interpolation="bicubic", rng=rng)
    x = random_horizontal_flip.record(x, flip, rng=rng)
    x = color_jitter.record(x, 0.4, 0.4, 0.2, 0.1, np.where(plain, 0.0, 0.8), rng=rng)
    x = random_grayscale.record(x, np.where(plain, 0.0, 0.2), rng=rng)
    chance = np.choose(np.minimum(view, 2), blur)
    x = random_gaussian_blur.record(x, 9, (0.1, 2.0), np.where(plain, 0.0, chance), rng=rng)
    x = random_solarize.record(x, 128 / 255 / x.unit, np.where((view == 1) & ~plain, 0.2, 0.0), rng=rng)
    if np.any(side != own):
        x = resize.record(x, (own, own), "bicubic", where=side != own)
    return normalize.record(x, IMAGENET_MEAN, IMAGENET_STD)


@_documented
def ssd_train(size: int = 300) -> Callable[..., Batch]:
    """Return the training preset of SSD: distort colors, zoom out, crop around boxes, flip, resize, normalize.

    Returns
    -------
    function
        ``(images, rng, boxes=None) -> Batch``; ``rng`` is a :class:`gpuimg.Rng` or an int seed. ``boxes`` are in pixels
        of the source images, as for :func:`gpuimg.random_iou_crop`; without boxes images are not cropped. Transform the
        boxes with ``transform_boxes(result, boxes, centers=True)``.

    References
    ----------
    Liu et al.: "SSD: Single shot multibox detector", ECCV 2016, sections 2.2 and 3.6; torchvision
    ``references/detection``.

    Examples
    --------
    >>> boxes = [[(10, 10, 30, 40)], [(5, 5, 25, 25), (20, 0, 40, 30)]]
    >>> x = gpuimg.presets.ssd_train(64)(np.zeros((2, 40, 50, 3), np.uint8), 0, boxes)
    >>> moved, kept = gpuimg.transform_boxes(x, boxes, centers=True)
    >>> x.array().shape, [len(each) for each in moved]
    ((2, 64, 64, 3), [1, 2])
    """
    return partial(_ssd_train, arguments.whole_number(size, "size"))


def _ssd_train(size: int, images: Any, rng: Any, boxes: Any = None) -> Batch:
    x = recording_of(images)
    rng = rng_of(x, rng, "ssd_train")
    x = random_photometric_distort.record(x, rng=rng)
    x = random_zoom_out.record(x, [mean / x.unit for mean in IMAGENET_MEAN], rng=rng)
    if boxes is not None:
        x = random_iou_crop.record(x, boxes, rng=rng)
    x = random_horizontal_flip.record(x, rng=rng)
    x = resize.record(x, (size, size))
    return Batch(normalize.record(x, IMAGENET_MEAN, IMAGENET_STD))


# Arguments of timm's create_transform that are arguments here, too, and not part of a data configuration.
_TIMM_OPTIONS = {
    "scale", "ratio", "train_crop_mode", "hflip", "vflip", "color_jitter", "color_jitter_prob", "grayscale_prob",
    "gaussian_blur_prob", "auto_augment", "re_prob", "re_mode", "re_count",
}  # fmt: skip


@_documented
def timm_train(
    config: Mapping[str, Any] | int = 224, *, scale: Range | None = None, ratio: Range | None = None,
    train_crop_mode: Literal["rrc", "rkrc", "rkrr"] | None = None, hflip: float = 0.5, vflip: float = 0.0,
    color_jitter: float | Sequence[float] | None = 0.4, color_jitter_prob: float | None = None,
    grayscale_prob: float = 0.0, gaussian_blur_prob: float = 0.0, auto_augment: str | None = None,
    interpolation: str | None = None, re_prob: float = 0.0, re_mode: Literal["const", "rand", "pixel"] = "const",
    re_count: int = 1, exact: Exact | None = None,
) -> Callable[[Images, Rng | int], Batch]:  # fmt: skip
    """Return the training transform of timm's ``create_transform`` for a model's data configuration.

    Parameters
    ----------
    config : mapping or int
        Such as ``timm.data.resolve_data_config({}, model=model)``, with ``input_size``, ``interpolation``, ``mean`` and
        ``std``; missing ones are timm's defaults, and ``crop_pct`` and ``crop_mode`` are for evaluation. An int is the
        size in pixels.
    scale, ratio : (low, high), optional
        Range of the crop's area as a fraction of the image's, and of its width divided by its height; by default
        (0.08, 1) and (3/4, 4/3). With ``"rkrc"`` and ``"rkrr"``, ranges by which the image is resized; (0.8, 1) and
        (0.9, 1/0.9).
    train_crop_mode : {"rrc", "rkrc", "rkrr"}, optional
        Random resized crop, the default; or a resize that nearly keeps the aspect ratio, and a central or a random
        crop, with reflected borders where the image is too small.
    hflip, vflip : float
        Probability of a flip.
    color_jitter : float, or 3 or 4 floats, optional
        Strengths for brightness, contrast, saturation and hue; one number is for the first three. Not applied with
        ``auto_augment``, except for 3-Augment.
    color_jitter_prob : float, optional
        Probability of the color jitter; 1 by default.
    grayscale_prob, gaussian_blur_prob : float
        Probability of a conversion to gray, and of a blur.
    auto_augment : str, optional
        A policy of :func:`gpuimg.timm_augment`.
    interpolation : str, optional
        Instead of the configuration's; ``"random"``, which timm's ``train.py`` passes, draws bilinear or bicubic.
    re_prob, re_mode, re_count : float, {"const", "rand", "pixel"}, int
        Random erasing: its probability, content, and largest number of rectangles; see :func:`gpuimg.random_erasing`.
    exact : {"pillow", "pillow12", "torch"}, optional
        Resize bytes as that library does, bit for bit, as in :func:`gpuimg.resize`; timm's images are Pillow's.

    Returns
    -------
    function
        ``(images, rng) -> Batch``; ``rng`` is a :class:`gpuimg.Rng` or an int seed. With AugMix, it computes.

    Raises
    ------
    ValueError
        For a policy, mode or size that timm does not have, or an option of the transform inside of ``config``.

    Notes
    -----
    timm draws for one image after another from the global generators of Python, NumPy and torch; the distributions are
    the same. Its evaluation transform is :func:`gpuimg.models.timm_eval`.

    References
    ----------
    Wightman: timm 1.0, ``timm/data/transforms_factory.py``, ``transforms_imagenet_train``.

    Examples
    --------
    >>> config = {"input_size": (3, 32, 32), "interpolation": "bicubic"}
    >>> train = gpuimg.presets.timm_train(config, auto_augment="rand-m9-mstd0.5-inc1", re_prob=0.25, re_mode="pixel")
    >>> train(np.zeros((2, 40, 50, 3), np.uint8), 0).array(layout="NCHW").shape
    (2, 3, 32, 32)
    """
    given = configuration(config)
    misplaced = sorted(given.keys() & _TIMM_OPTIONS)
    if misplaced:
        raise ValueError(f"{misplaced[0]} must be an argument of timm_train, not in config")
    if auto_augment is not None:
        parsed(auto_augment)
    probability = partial(arguments.number, low=0.0, high=1.0)
    return _named(
        "timm_train",
        timm_training,
        Timm(
            input_size(given),
            interpolation or given.get("interpolation") or "bilinear",
            given.get("mean", IMAGENET_MEAN),
            given.get("std", IMAGENET_STD),
            *crop_of(train_crop_mode, scale, ratio),
            probability(hflip, "hflip"),
            probability(vflip, "vflip"),
            auto_augment,
            None if auto_augment and "3a" not in auto_augment else jitter_of(color_jitter),
            probability(1.0 if color_jitter_prob is None else color_jitter_prob, "color_jitter_prob"),
            probability(grayscale_prob, "grayscale_prob"),
            probability(gaussian_blur_prob, "gaussian_blur_prob"),
            probability(re_prob, "re_prob"),
            erased_of(re_mode),
            re_count,
            exact,
        ),
    )
