"""Published preprocessing recipes, composed of gpuimg's public functions: use them unchanged, or copy and adapt them.

Each preset returns a function that takes images and a generator for their samples and returns a batch with the recipe
recorded. The function can be pickled.

>>> import gpuimg, numpy as np
>>> train = gpuimg.presets.imagenet_train(size=64)
>>> x = train(np.zeros((2, 80, 90, 3), np.uint8), gpuimg.Rng(0, epoch=3, indices=[17, 4]))
>>> x.array(dtype="float16", layout="NCHW").shape
(2, 3, 64, 64)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ._batch.batch import Batch, Images, recording_of
from ._checks import arguments
from ._checks.types import Exact
from ._ops.pixels import IMAGENET_MEAN, IMAGENET_STD, normalize
from ._ops.resize_crop import center_crop, resize
from ._random.color import (
    color_jitter,
    random_grayscale,
    random_photometric_distort,
    random_solarize,
)
from ._random.draws import prepare
from ._random.filters import random_gaussian_blur, three_augment
from ._random.geometry import random_horizontal_flip, random_resized_crop, random_zoom_out
from ._random.iou_crop import random_iou_crop
from ._random.rng import Rng


def imagenet_train(size: int = 224, *, exact: Exact | None = None) -> Callable[[Images, Rng | int], Batch]:
    """Return the ImageNet training preset of ResNet: random resized crop, flip, normalize.

    Parameters
    ----------
    size : int
        Height and width of the results in pixels.
    exact : {"pillow", "pillow12", "torch"}, optional
        Resize bytes as that library does, bit for bit, as in :func:`gpuimg.resize`.

    Returns
    -------
    function
        ``(images, rng) -> Batch``; ``rng`` is a :class:`gpuimg.Rng` or an int seed.

    References
    ----------
    Szegedy et al.: "Going deeper with convolutions", CVPR 2015; torchvision ``references/classification``.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> train = gpuimg.presets.imagenet_train(32)
    >>> train(np.zeros((2, 40, 50, 3), np.uint8), 0).array().shape
    (2, 32, 32, 3)
    """
    return partial(_imagenet_train, size, exact)


def _imagenet_train(size: int, exact: Exact | None, images: Any, rng: Any) -> Batch:
    images, rng = prepare(images, rng, "imagenet_train")
    x = random_resized_crop(images, size, exact=exact, rng=rng)
    x = random_horizontal_flip(x, rng=rng)
    return normalize(x, IMAGENET_MEAN, IMAGENET_STD)


def imagenet_eval(size: int = 224, resize_size: int = 256, *, exact: Exact | None = None) -> Callable[..., Batch]:
    """Return the ImageNet evaluation preset: resize the shorter side, crop the center, normalize.

    Parameters
    ----------
    size : int
        Height and width of the results in pixels.
    resize_size : int
        Length of the shorter side before the crop, in pixels.
    exact : {"pillow", "pillow12", "torch"}, optional
        Return that library's values bit for bit, as in :func:`gpuimg.resize`: ``"pillow"`` gives the very tensors of
        torchvision's transforms on Pillow images.

    Returns
    -------
    function
        ``(images, rng=None) -> Batch``; ``rng`` is ignored, since nothing is random.

    References
    ----------
    torchvision ``references/classification``.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> evaluate = gpuimg.presets.imagenet_eval(32, 36)
    >>> evaluate(np.zeros((2, 40, 50, 3), np.uint8)).array().shape
    (2, 32, 32, 3)
    """
    return partial(_imagenet_eval, size, resize_size, exact)


def _imagenet_eval(size: int, resize_size: int, exact: Exact | None, images: Any, rng: Any = None) -> Batch:
    x = resize(images, resize_size, exact=exact)
    x = center_crop(x, (size, size))
    return normalize(x, IMAGENET_MEAN, IMAGENET_STD)


def deit3_train(size: int = 224) -> Callable[[Images, Rng | int], Batch]:
    """Return the training preset of DeiT III: bicubic crop, flip, 3-Augment, color jitter of 0.3, normalize.

    Parameters
    ----------
    size : int
        Height and width of the results in pixels.

    Returns
    -------
    function
        ``(images, rng) -> Batch``; ``rng`` is a :class:`gpuimg.Rng` or an int seed.

    Notes
    -----
    DeiT III then mixes the images: :func:`gpuimg.mixup` with an alpha of 0.8, or :func:`gpuimg.cutmix`.

    References
    ----------
    Touvron, Cord, Jégou: "DeiT III: Revenge of the ViT", ECCV 2022; its code, ``augment.py``.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> train = gpuimg.presets.deit3_train(32)
    >>> train(np.zeros((2, 40, 50, 3), np.uint8), 0).array().shape
    (2, 32, 32, 3)
    """
    return partial(_deit3_train, size)


def _deit3_train(size: int, images: Any, rng: Any) -> Batch:
    images, rng = prepare(images, rng, "deit3_train")
    x = random_resized_crop(images, size, interpolation="bicubic", rng=rng)
    x = random_horizontal_flip(x, rng=rng)
    x = three_augment(x, rng=rng)
    x = color_jitter(x, brightness=0.3, contrast=0.3, saturation=0.3, rng=rng)
    return normalize(x, IMAGENET_MEAN, IMAGENET_STD)


def simclr(size: int = 224) -> Callable[[Images, Rng | int], Batch]:
    """Return the SimCLR preset for one view of each image: resized crop, flip, color jitter, gray, blur.

    Parameters
    ----------
    size : int
        Height and width of the results in pixels.

    Returns
    -------
    function
        ``(images, rng) -> Batch``; ``rng`` is a :class:`gpuimg.Rng` or an int seed. :func:`simclr_train`
        returns several views.

    Notes
    -----
    Results are not normalized, as in the paper: they range from 0 to 1, or from 0 to 255 as uint8.

    References
    ----------
    Chen, Kornblith, Norouzi, Hinton: "A simple framework for contrastive learning of visual representations",
    ICML 2020, appendix A, with the ImageNet strength of 1.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> view = gpuimg.presets.simclr(32)
    >>> view(np.zeros((2, 40, 50, 3), np.uint8), 0).array().shape
    (2, 32, 32, 3)
    """
    return partial(_simclr, size)


def _simclr(size: int, images: Any, rng: Any) -> Batch:
    kernel = size // 10 // 2 * 2 + 1  # a tenth of the side, rounded to an odd number
    images, rng = prepare(images, rng, "simclr")
    x = random_resized_crop(images, size, rng=rng)
    x = random_horizontal_flip(x, rng=rng)
    x = color_jitter(x, brightness=0.8, contrast=0.8, saturation=0.8, hue=0.2, p=0.8, rng=rng)
    x = random_grayscale(x, 0.2, rng=rng)
    return random_gaussian_blur(x, kernel, (0.1, 2.0), 0.5, rng=rng)


def simclr_train(size: int = 224, views: int = 2) -> Callable[[Images, Rng | int], Batch]:
    """Return the SimCLR training preset: several views of each image, which is decoded once.

    Parameters
    ----------
    size : int
        Height and width of the results in pixels.
    views : int
        Number of views of each image, at least 1.

    Returns
    -------
    function
        ``(images, rng) -> Batch``; ``rng`` is a :class:`gpuimg.Rng` or an int seed. The batch holds the first view of
        all images, then the second, and so on.

    References
    ----------
    See :func:`simclr`.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> train = gpuimg.presets.simclr_train(32)
    >>> one, other = train(np.zeros((3, 40, 50, 3), np.uint8), 0).array().reshape(2, 3, 32, 32, 3)
    """
    return partial(_simclr_train, size, arguments.whole_number(views, "views", 1))


def _simclr_train(size: int, views: int, images: Any, rng: Any) -> Batch:
    return _simclr(size, *_views(images, rng, views, "simclr_train"))


def dino_train(size: int = 224, local_size: int = 96, local_views: int = 8) -> Callable[[Images, Rng | int], Batch]:
    """Return the training preset of DINO: two global and several local views of each image, which is decoded once.

    Parameters
    ----------
    size : int
        Height and width of the global views in pixels.
    local_size : int
        Height and width of the local views in pixels.
    local_views : int
        Number of local views of each image, at least 0.

    Returns
    -------
    function
        ``(images, rng) -> Batch``; ``rng`` is a :class:`gpuimg.Rng` or an int seed. The batch holds the first global
        view of all images, then the second, then the first local one, and so on; :meth:`gpuimg.Batch.arrays` returns
        one array of the global views and one of the local ones.

    Notes
    -----
    Global views show 0.4 to 1 of the image's area and local views 0.05 to 0.4. The probability of a blur is 1 for the
    first global view, 0.1 for the second and 0.5 for local views; the second global view is solarized with probability
    0.2. Blur kernels have 9 x 9 pixels, as in DINOv2; the code of the first paper uses Pillow's blur.

    References
    ----------
    Caron et al.: "Emerging properties in self-supervised vision transformers", ICCV 2021, and its code.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> train = gpuimg.presets.dino_train(32, 16, 6)
    >>> large, small = train(np.zeros((3, 40, 50, 3), np.uint8), 0).arrays(layout="NCHW")
    >>> large.shape, small.shape
    ((6, 3, 32, 32), (18, 3, 16, 16))
    """
    return partial(_dino_train, size, local_size, arguments.whole_number(local_views, "local_views", 0))


def _dino_train(size: int, local_size: int, local_views: int, images: Any, rng: Any) -> Batch:
    count = 2 + local_views
    x, rng = _views(images, rng, count, "dino_train")
    view = np.repeat(np.arange(count), len(x) // count)
    local = view >= 2
    side = np.where(local, local_size, size)
    x = random_resized_crop(
        x, (side, side), (np.where(local, 0.05, 0.4), np.where(local, 0.4, 1.0)), interpolation="bicubic", rng=rng
    )
    x = random_horizontal_flip(x, rng=rng)
    x = color_jitter(x, brightness=0.4, contrast=0.4, saturation=0.2, hue=0.1, p=0.8, rng=rng)
    x = random_grayscale(x, 0.2, rng=rng)
    x = random_gaussian_blur(x, 9, (0.1, 2.0), np.choose(np.minimum(view, 2), (1.0, 0.1, 0.5)), rng=rng)
    x = random_solarize(x, 128 / 255 / recording_of(x).unit, np.where(view == 1, 0.2, 0.0), rng=rng)
    return normalize(x, IMAGENET_MEAN, IMAGENET_STD)


def _views(images: Any, rng: Any, count: int, name: str) -> tuple[Batch, Rng]:
    """Return ``count`` views of each image or clip, and the generator for them."""
    batch, generator = prepare(images, rng, name)
    return batch.take(np.tile(np.arange(recording_of(batch).units), count)), generator.views(count)


def ssd_train(size: int = 300) -> Callable[..., Batch]:
    """Return the training preset of SSD: distort colors, zoom out, crop around boxes, flip, resize, normalize.

    Parameters
    ----------
    size : int
        Height and width of the results in pixels.

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
    >>> import gpuimg, numpy as np
    >>> boxes = [[(10, 10, 30, 40)], [(5, 5, 25, 25), (20, 0, 40, 30)]]
    >>> x = gpuimg.presets.ssd_train(64)(np.zeros((2, 40, 50, 3), np.uint8), 0, boxes)
    >>> moved, kept = gpuimg.transform_boxes(x, boxes, centers=True)
    >>> x.array().shape, [len(each) for each in moved]
    ((2, 64, 64, 3), [1, 2])
    """
    return partial(_ssd_train, size)


def _ssd_train(size: int, images: Any, rng: Any, boxes: Any = None) -> Batch:
    images, rng = prepare(images, rng, "ssd_train")
    x = random_photometric_distort(images, rng=rng)
    x = random_zoom_out(x, [mean / recording_of(x).unit for mean in IMAGENET_MEAN], rng=rng)
    if boxes is not None:
        x = random_iou_crop(x, boxes, rng=rng)
    x = random_horizontal_flip(x, rng=rng)
    x = resize(x, (size, size))
    return normalize(x, IMAGENET_MEAN, IMAGENET_STD)
