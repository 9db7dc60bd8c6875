"""Image preprocessing for training: plain functions on batches, different parameters for every image, one pass.

>>> import gpuimg, numpy as np
>>> x = gpuimg.resize(np.zeros((2, 8, 8, 3), np.uint8), (4, 4))
>>> x = gpuimg.rotate(x, [10.0, -20.0])
>>> x.array(dtype="float32", layout="NCHW").shape
(2, 3, 4, 4)
"""

from . import presets, sources
from ._batch.batch import Batch
from ._batch.frameworks import to_jax, to_tensorflow, to_torch
from ._batch.opening import decode_batch, image_info, open_batch
from ._decoding.decoder import ImageInfo
from ._index.report import IndexReport
from ._index.seek_index import SeekIndex
from ._loading.build_index import build_index
from ._loading.load import load
from ._loading.loader import Loader
from ._loading.pipeline import LoadedBatch
from ._loading.prefetch import prefetch
from ._ops.color import (
    adjust_brightness,
    adjust_contrast,
    adjust_gamma,
    adjust_hue,
    adjust_saturation,
    autocontrast,
    equalize,
    invert,
    posterize,
    rgb_to_grayscale,
    solarize,
)
from ._ops.filters import adjust_sharpness, gaussian_blur
from ._ops.pixels import IMAGENET_MEAN, IMAGENET_STD, erase, normalize, pointwise
from ._ops.resize_crop import center_crop, crop, horizontal_flip, pad, resize, resized_crop, vertical_flip
from ._ops.targets import transform_boxes, transform_masks, transform_points
from ._ops.warp import affine, perspective, rotate
from ._random.color import (
    color_jitter,
    random_autocontrast,
    random_equalize,
    random_erasing,
    random_grayscale,
    random_invert,
    random_photometric_distort,
    random_posterize,
    random_solarize,
)
from ._random.filters import random_gaussian_blur, random_sharpness, three_augment
from ._random.geometry import (
    random_affine,
    random_crop,
    random_horizontal_flip,
    random_perspective,
    random_resized_crop,
    random_rotation,
    random_vertical_flip,
    random_zoom_out,
)
from ._random.iou_crop import random_iou_crop
from ._random.mixing import Mix, blend, cutmix, mixup
from ._random.policies import augmix, auto_augment, rand_augment, trivial_augment
from ._random.rng import Rng
from ._replay.describe import describe
from ._replay.saved import SavedPlan, apply_plan, load_plan, save_plan
from ._version import __version__
from .errors import DecodeError, Failure
from .sources import array_record, coco, file_list, folder, lmdb, parquet, recordio, tar, tfrecord

__all__ = [
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "Batch",
    "DecodeError",
    "Failure",
    "ImageInfo",
    "IndexReport",
    "LoadedBatch",
    "Loader",
    "Mix",
    "Rng",
    "SavedPlan",
    "SeekIndex",
    "__version__",
    "adjust_brightness",
    "adjust_contrast",
    "adjust_gamma",
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
    "build_index",
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
