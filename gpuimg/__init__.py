"""Image preprocessing for training: plain functions on batches, different parameters for every image, one pass.

>>> import gpuimg, numpy as np
>>> x = gpuimg.resize(np.zeros((2, 8, 8, 3), np.uint8), (4, 4))
>>> x = gpuimg.rotate(x, [10.0, -20.0])
>>> x.array(dtype="float32", layout="NCHW").shape
(2, 3, 4, 4)
"""

from . import presets, sources
from .ahead import prefetch
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
from .description import describe
from .errors import DecodeError, Failure
from .filters import adjust_sharpness, gaussian_blur
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
from .iou_crop import random_iou_crop
from .loader import Loader, load
from .mixing import Mix, blend, cutmix, mixup
from .pipeline import LoadedBatch
from .policies import augmix, auto_augment, rand_augment, trivial_augment
from .random_color import (
    color_jitter,
    random_autocontrast,
    random_equalize,
    random_erasing,
    random_gaussian_blur,
    random_grayscale,
    random_invert,
    random_photometric_distort,
    random_posterize,
    random_sharpness,
    random_solarize,
    three_augment,
)
from .random_geometry import (
    random_affine,
    random_crop,
    random_horizontal_flip,
    random_perspective,
    random_resized_crop,
    random_rotation,
    random_vertical_flip,
    random_zoom_out,
)
from .replay import SavedPlan, apply_plan, load_plan, save_plan
from .rng import Rng
from .sources import array_record, coco, file_list, folder, lmdb, parquet, recordio, tar, tfrecord
from .targets import transform_boxes, transform_masks, transform_points
from .version import __version__

__all__ = [
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "Batch",
    "DecodeError",
    "Failure",
    "ImageInfo",
    "LoadedBatch",
    "Loader",
    "Mix",
    "Rng",
    "SavedPlan",
    "__version__",
    "adjust_brightness",
    "adjust_contrast",
    "adjust_hue",
    "adjust_saturation",
    "adjust_sharpness",
    "affine",
    "apply_plan",
    "array_record",
    "augmix",
    "auto_augment",
    "autocontrast",
    "blend",
    "center_crop",
    "coco",
    "color_jitter",
    "crop",
    "cutmix",
    "decode_batch",
    "describe",
    "equalize",
    "erase",
    "file_list",
    "folder",
    "gaussian_blur",
    "horizontal_flip",
    "image_info",
    "invert",
    "lmdb",
    "load",
    "load_plan",
    "mixup",
    "normalize",
    "open_batch",
    "pad",
    "parquet",
    "perspective",
    "pointwise",
    "posterize",
    "prefetch",
    "presets",
    "rand_augment",
    "random_affine",
    "random_autocontrast",
    "random_crop",
    "random_equalize",
    "random_erasing",
    "random_gaussian_blur",
    "random_grayscale",
    "random_horizontal_flip",
    "random_invert",
    "random_iou_crop",
    "random_perspective",
    "random_photometric_distort",
    "random_posterize",
    "random_resized_crop",
    "random_rotation",
    "random_sharpness",
    "random_solarize",
    "random_vertical_flip",
    "random_zoom_out",
    "recordio",
    "resize",
    "resized_crop",
    "rgb_to_grayscale",
    "rotate",
    "save_plan",
    "solarize",
    "sources",
    "tar",
    "tfrecord",
    "three_augment",
    "to_jax",
    "to_tensorflow",
    "to_torch",
    "transform_boxes",
    "transform_masks",
    "transform_points",
    "trivial_augment",
    "vertical_flip",
]
