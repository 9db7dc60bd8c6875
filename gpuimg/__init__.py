"""Image preprocessing for training: plain functions on batches, different parameters for every image, one pass.

>>> import gpuimg, numpy as np
>>> x = gpuimg.resize(np.zeros((2, 8, 8, 3), np.uint8), (4, 4))
>>> x = gpuimg.rotate(x, [10.0, -20.0])
>>> x.array(dtype="float32", layout="NCHW").shape
(2, 3, 4, 4)
"""

from .batch import Batch
from .codec import ImageInfo
from .color import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    adjust_brightness,
    adjust_contrast,
    adjust_hue,
    adjust_saturation,
    autocontrast,
    equalize,
    erase,
    invert,
    normalize,
    pointwise,
    posterize,
    rgb_to_grayscale,
    solarize,
)
from .decode import decode_batch, image_info, open_batch
from .errors import DecodeError, Failure
from .geometry import (
    affine,
    center_crop,
    crop,
    horizontal_flip,
    pad,
    perspective,
    resize,
    resized_crop,
    rotate,
    vertical_flip,
)
from .handoff import to_jax, to_tensorflow, to_torch
from .version import __version__

__all__ = [
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "Batch",
    "DecodeError",
    "Failure",
    "ImageInfo",
    "__version__",
    "adjust_brightness",
    "adjust_contrast",
    "adjust_hue",
    "adjust_saturation",
    "affine",
    "autocontrast",
    "center_crop",
    "crop",
    "decode_batch",
    "equalize",
    "erase",
    "horizontal_flip",
    "image_info",
    "invert",
    "normalize",
    "open_batch",
    "pad",
    "perspective",
    "pointwise",
    "posterize",
    "resize",
    "resized_crop",
    "rgb_to_grayscale",
    "rotate",
    "solarize",
    "to_jax",
    "to_tensorflow",
    "to_torch",
    "vertical_flip",
]
