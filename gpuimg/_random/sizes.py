"""Random resizing: draw a size, then resize. Defaults are those of ``torchvision.transforms.v2``.

Results differ in size: crop or pad them, or use ``compute()``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from .._batch.functions import of_resized
from .._batch.recording import Recording
from .._checks import arguments
from .._checks.types import Exact, Interpolation, Range, Size
from .._ops import resize_crop
from ..kernels import layout
from .draws import rng_of
from .rng import Rng

__all__ = ["random_resize", "random_short_side_resize", "scale_jitter"]


@of_resized
def random_resize(
    recording: Recording,
    min_size: int,
    max_size: int,
    interpolation: Interpolation = "bilinear",
    antialias: bool = True,
    *,
    exact: Exact | None = None,
    rng: Rng | int,
) -> Recording:
    """Resize images so that the shorter side has a random length in a range.

    Parameters
    ----------
    min_size, max_size : int
        Range of the length in pixels, 1 to 2**24, both limits included; torchvision leaves out the upper one.

    Examples
    --------
    >>> gpuimg.random_resize(np.zeros((1, 30, 40, 3), np.uint8), 15, 15, rng=0).sizes.tolist()
    [[15, 20]]
    """
    rng = rng_of(recording, rng, "random_resize")
    low = arguments.whole_number(min_size, "min_size", 1, layout.EXACT)
    high = arguments.whole_number(max_size, "max_size", low, layout.EXACT)
    new = resize_crop.with_short_side(recording.sizes, rng.integers(low, high + 1))
    return resize_crop.resize.record(recording, new, interpolation, antialias=antialias, exact=exact)


@of_resized
def random_short_side_resize(
    recording: Recording,
    min_size: int | Sequence[int],
    max_size: int | None = None,
    interpolation: Interpolation = "bilinear",
    antialias: bool = True,
    *,
    exact: Exact | None = None,
    rng: Rng | int,
) -> Recording:
    """Resize images so that the shorter side has a length drawn from a list, as DETR does in training.

    Parameters
    ----------
    min_size : int or sequence of int
        Lengths of the shorter side to choose from, in pixels, at least 1.
    max_size : int, optional
        Largest length of the longer side in pixels; the shorter side shrinks to match. None sets no limit.

    Notes
    -----
    Sizes are rounded down exactly; torchvision's may be a pixel smaller where its floating-point product is not exact.

    References
    ----------
    torchvision ``RandomShortestSize``; Carion et al.: "End-to-end object detection with transformers", ECCV 2020.

    Examples
    --------
    >>> x = np.zeros((1, 30, 40, 3), np.uint8)
    >>> gpuimg.random_short_side_resize(x, [15], max_size=16, rng=0).sizes.tolist()
    [[12, 16]]
    """
    rng = rng_of(recording, rng, "random_short_side_resize")
    options = list(min_size) if isinstance(min_size, Iterable) else [min_size]
    lengths = [arguments.whole_number(one, "min_size", 1, layout.EXACT) for one in options]
    if not lengths:
        raise ValueError("min_size must be a whole number or a sequence of them, not an empty sequence")
    short = np.asarray(rng.choice(lengths), np.int64)
    old = recording.sizes
    new = resize_crop.with_short_side(old, short)
    if max_size is not None:
        most = arguments.whole_number(max_size, "max_size", 1, layout.EXACT)
        over = short * old.max(1) > most * old.min(1)
        new = np.where(over[:, None], resize_crop.with_long_side(old, np.full(len(old), most)), new)
    return resize_crop.resize.record(recording, new, interpolation, antialias=antialias, exact=exact)


@of_resized
def scale_jitter(
    recording: Recording,
    target_size: Size,
    scale_range: Range = (0.1, 2.0),
    interpolation: Interpolation = "bilinear",
    antialias: bool = True,
    *,
    exact: Exact | None = None,
    rng: Rng | int,
) -> Recording:
    """Resize images to a random multiple of the largest size that fits a target, keeping the aspect ratio.

    Parameters
    ----------
    target_size : int or (height, width)
        Target size in pixels, at least 1. One number, or a list or tuple of one, sets both; torchvision's is (width,
        height). Each may be (N,); an (N, 2) array has both for each image.
    scale_range : (low, high)
        Range of the multiple, at least 1e-6.

    References
    ----------
    Ghiasi et al.: "Simple copy-paste is a strong data augmentation method for instance segmentation", CVPR 2021;
    torchvision ``ScaleJitter``.

    Examples
    --------
    >>> gpuimg.scale_jitter(np.zeros((1, 30, 40, 3), np.uint8), (60, 60), (0.5, 0.5), rng=0).sizes.tolist()
    [[22, 30]]
    """
    rng = rng_of(recording, rng, "scale_jitter")
    target = arguments.sizes(target_size, recording.image_count, "target_size")
    scale = rng.uniform(*arguments.low_high(scale_range, "scale_range", low=1e-6))
    to_target = (target / recording.sizes).min(1)
    new = np.clip(np.floor(recording.sizes * (to_target * scale)[:, None]), 1, layout.EXACT)
    return resize_crop.resize.record(recording, new, interpolation, antialias=antialias, exact=exact)
