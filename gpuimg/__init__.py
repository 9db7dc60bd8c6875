"""Image preprocessing for training: plain functions on batches, different parameters for every image, one pass.

>>> import gpuimg, numpy as np
>>> x = gpuimg.resize(np.zeros((2, 8, 8, 3), np.uint8), (4, 4))
>>> x = gpuimg.rotate(x, [10.0, -20.0])
>>> x.array(dtype="float32", layout="NCHW").shape
(2, 3, 4, 4)
"""

import typing as _typing

from . import models, presets, sizes, sources
from ._batch.batch import Batch
from ._batch.clips import open_clips, video_info
from ._batch.frameworks import to_jax, to_tensorflow, to_torch
from ._batch.opening import decode_batch, decode_image, image_info, open_batch
from ._checks.elsewhere import not_here as _not_here
from ._decoding.recoded import recode_jpeg, restore_jpeg
from ._loading.buckets import Buckets, TokenBudget, read_sizes
from ._loading.clips import Clips
from ._loading.load import load
from ._loading.loader import Loader
from ._loading.order import Blocks, class_weights
from ._loading.pipeline import LoadedBatch
from ._loading.prefetch import prefetch
from ._ops.boxes import (
    clamp_bounding_boxes,
    clamp_keypoints,
    convert_bounding_box_format,
    sanitize_bounding_boxes,
    sanitize_keypoints,
)
from ._ops.color import (
    adjust_brightness,
    adjust_contrast,
    adjust_gamma,
    adjust_hsv,
    adjust_hue,
    adjust_saturation,
    autocontrast,
    equalize,
    invert,
    permute_channels,
    posterize,
    rgb_to_grayscale,
    solarize,
    solarize_add,
)
from ._ops.elastic import elastic
from ._ops.filters import adjust_sharpness, gaussian_blur, jpeg, motion_blur
from ._ops.letterbox import letterbox
from ._ops.masks import masks_to_boxes, transform_images, transform_masks
from ._ops.pixels import IMAGENET_MEAN, IMAGENET_STD, erase, gaussian_noise, grid_mask, normalize, pointwise
from ._ops.resize_crop import center_crop, crop, horizontal_flip, pad, resize, resized_crop, vertical_flip
from ._ops.selection import five_crop, ten_crop, uniform_temporal_subsample
from ._ops.targets import transform_boxes, transform_keypoints, transform_points
from ._ops.warp import affine, perspective, rotate
from ._prepare.prepare import prepare
from ._random.clips import random_clips
from ._random.color import (
    color_jitter,
    random_autocontrast,
    random_channel_permutation,
    random_equalize,
    random_grayscale,
    random_hsv,
    random_invert,
    random_photometric_distort,
    random_posterize,
    random_solarize,
)
from ._random.copy_paste import copy_paste
from ._random.filters import random_gaussian_blur, random_jpeg, random_motion_blur, random_sharpness, three_augment
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
from ._random.mixing import blend, cutmix, mixup
from ._random.mosaic import mosaic
from ._random.pixels import coarse_dropout, random_elastic, random_erasing, random_gaussian_noise, random_grid_mask
from ._random.policies import augmix, auto_augment, rand_augment, trivial_augment
from ._random.rng import Rng
from ._random.sizes import random_resize, random_short_side_resize, scale_jitter
from ._random.timm_policies import timm_augment
from ._replay.describe import describe
from ._replay.saved import SavedPlan, apply_plan, load_plan, save_plan
from ._version import __version__
from .errors import DecodeError, ImageError, VideoError
from .sources import (
    Remote,
    array_record,
    coco,
    file_list,
    folder,
    iterable,
    lmdb,
    parquet,
    recordio,
    split,
    tar,
    tfrecord,
)

__all__ = [
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "Batch",
    "Blocks",
    "Buckets",
    "Clips",
    "DecodeError",
    "ImageError",
    "LoadedBatch",
    "Loader",
    "Remote",
    "Rng",
    "SavedPlan",
    "TokenBudget",
    "VideoError",
    "__version__",
    "adjust_brightness",
    "adjust_contrast",
    "adjust_gamma",
    "adjust_hsv",
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
    "clamp_bounding_boxes",
    "clamp_keypoints",
    "class_weights",
    "coarse_dropout",
    "coco",
    "color_jitter",
    "convert_bounding_box_format",
    "copy_paste",
    "crop",
    "cutmix",
    "decode_batch",
    "decode_image",
    "describe",
    "elastic",
    "equalize",
    "erase",
    "file_list",
    "five_crop",
    "folder",
    "gaussian_blur",
    "gaussian_noise",
    "grid_mask",
    "horizontal_flip",
    "image_info",
    "invert",
    "iterable",
    "jpeg",
    "letterbox",
    "lmdb",
    "load",
    "load_plan",
    "masks_to_boxes",
    "mixup",
    "models",
    "mosaic",
    "motion_blur",
    "normalize",
    "open_batch",
    "open_clips",
    "pad",
    "parquet",
    "permute_channels",
    "perspective",
    "pointwise",
    "posterize",
    "prefetch",
    "prepare",
    "presets",
    "rand_augment",
    "random_affine",
    "random_autocontrast",
    "random_channel_permutation",
    "random_clips",
    "random_crop",
    "random_elastic",
    "random_equalize",
    "random_erasing",
    "random_gaussian_blur",
    "random_gaussian_noise",
    "random_grayscale",
    "random_grid_mask",
    "random_horizontal_flip",
    "random_hsv",
    "random_invert",
    "random_iou_crop",
    "random_jpeg",
    "random_motion_blur",
    "random_perspective",
    "random_photometric_distort",
    "random_posterize",
    "random_resize",
    "random_resized_crop",
    "random_rotation",
    "random_sharpness",
    "random_short_side_resize",
    "random_solarize",
    "random_vertical_flip",
    "random_zoom_out",
    "read_sizes",
    "recode_jpeg",
    "recordio",
    "resize",
    "resized_crop",
    "restore_jpeg",
    "rgb_to_grayscale",
    "rotate",
    "sanitize_bounding_boxes",
    "sanitize_keypoints",
    "save_plan",
    "scale_jitter",
    "sizes",
    "solarize",
    "solarize_add",
    "sources",
    "split",
    "tar",
    "ten_crop",
    "tfrecord",
    "three_augment",
    "timm_augment",
    "to_jax",
    "to_tensorflow",
    "to_torch",
    "transform_boxes",
    "transform_images",
    "transform_keypoints",
    "transform_masks",
    "transform_points",
    "trivial_augment",
    "uniform_temporal_subsample",
    "vertical_flip",
    "video_info",
]

if not _typing.TYPE_CHECKING:  # a type checker that sees __getattr__ accepts any name

    def __getattr__(name: str) -> _typing.Any:
        import importlib
        import sys

        if name == "torch":  # imported when it is named, as it imports torch
            try:
                return importlib.import_module(".torch", __name__)
            except ImportError as error:
                raise AttributeError(f"gpuimg.torch: {error}", name=name, obj=sys.modules[__name__]) from error
        raise AttributeError(_not_here(__name__, name), name=name, obj=sys.modules[__name__])
