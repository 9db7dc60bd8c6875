"""Wrong arguments, refused when a function is called: the message names the argument, its value and what is allowed."""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest

import gpuimg
from gpuimg._batch.clips import as_clips

from ..video.videos import made
from .calls import CALLS

gi: Any = gpuimg  # a type checker reports most of these
X = np.zeros((3, 9, 11, 3), np.uint8)
FOUR = np.zeros((1, 8, 8, 4), np.uint8)
SIZES = [np.zeros((9, 11, 3), np.uint8), np.zeros((5, 7, 3), np.uint8)]
MOVED, TWO, NORMALIZED = gi.invert(X), gi.resize(SIZES, 2), gi.normalize(X, 0.5, 0.5)
BOX = [[(1.0, 2.0, 3.0, 4.0)]] * 3
LABELS, ONE, OTHER = np.zeros((3, 9, 11), int), np.zeros((9, 11), np.uint8), np.zeros((5, 7), np.uint8)
SQUARE, LINE = [(0, 0), (4, 0), (4, 4), (0, 4)], [(0, 0), (1, 1), (2, 2), (0, 4)]
OURS = CALLS["pointwise"].fixed["function"]
Refusals = list[tuple[Callable[[], Any], str]]


@numba.njit
def too_few(r: Any, g: Any, b: Any) -> Any:
    return r, g, b


def boxed(*box: float) -> Any:
    """Boxes of three images, of which the last one is this."""
    return gi.transform_boxes(MOVED, [np.zeros((0, 4)), [(0, 0, 1, 1)], [(0, 0, 1, 1), box]])


def files(**options: Any) -> Any:
    return gi.open_batch([b""] * 7, device="cpu", on_error="fill", **options)


GEOMETRY: Refusals = [
    (lambda: gi.invert(ONE[..., None]), r"\(N, H, W, C\), not \(9, 11, 1\); wrap a single image in a list"),
    (lambda: gi.invert(X * 1.0), r"uint8, uint16 or float32, not float64; .*\('float32'\) for values from 0 to 1"),
    (lambda: gi.invert(X[:, :0]), r"at least 1 x 1 pixel, not shape \(3, 0, 11, 3\)"),
    (lambda: gi.invert([]), "an empty list has no number of channels and no dtype"),
    (lambda: gi.invert([ONE]), r"images\[0\] must be .*, not shape \(9, 11\); .* one channel: image\[\.\.\., None\]"),
    (lambda: gi.invert([X[0], X[0, :, :0]]), r"images\[1\] must be at least"),
    (lambda: gi.invert([X[0], np.float32(X[0])]), r"images\[0\] is uint8 with 3 channels, images\[1\] is float32 with"),
    (lambda: gi.resize(X, 0), "size must be a whole number from 1 to 16777216, not 0"),
    (lambda: gi.resize(X, (1, 2, 3)), r"size must be \(height, width\), not \(1, 2, 3\)"),
    (lambda: gi.resize(X, np.ones((4, 2))), r"size as an array must have shape \(3, 2\), not \(4, 2\)"),
    (lambda: gi.resize(X, 4, "lanczos", antialias=False), "must be .*not 'lanczos'; resizes with antialias=True"),
    (lambda: gi.resize(X, 4, max_size=4), "max_size must be above size=4, not 4"),
    (lambda: gi.resize(X, (4, 4), max_size=5), r"max_size needs an int size, the shorter side, or None, not \(4"),
    (lambda: gi.resize(np.zeros((1, 8, 8, 17), np.uint8), 4), r"1 to 16 channels in the last axis, not shape \(1, 8"),
    (lambda: gi.resize(X, 2, exact="Pillow"), 'exact must be "pillow", "pillow12", "torch" or None'),
    (lambda: gi.resize(X, 2, "box", exact="torch"), "interpolation must be one of"),
    (lambda: gi.resize(X, 2, exact="pillow", antialias=False), "needs antialias=True"),
    (lambda: gi.resize(X.astype(np.float32), 2, exact="pillow"), "exact resize"),
    (lambda: gi.resize(FOUR[..., :2], 2, exact="pillow"), "exact resize"),
    (lambda: gi.resize(NORMALIZED, 2, exact="pillow"), "exact resize"),
    (lambda: gi.resize(files(draft=1.0), 2, exact="pillow"), "exact resize"),
    (lambda: gi.crop(X, 1 << 30, 0, 2, 2), "top must be .* from -16777216 to 16777216, not 1073741824"),
    (lambda: gi.pad(X, (1, 2, 3)), r"padding must be one number, .*not \(1, 2, 3\)"),
    (lambda: gi.pad(X, [[1, 2], [3, 4]]), r"padding as a list must hold .* \(3, 2\) or \(3, 4\)"),
    (lambda: gi.pad(X, np.ones((4, 2))), r"padding as an array must have shape \(3, 2\) or \(3, 4\), not \(4, 2"),
    (lambda: gi.pad(X, -5), r"image 0: padding -5 leaves no pixel of its size \(9, 11\)"),
    (lambda: gi.pad(X, 1, padding_mode="wrap"), 'padding_mode must be "constant", .* "symmetric", not .wrap'),
    (lambda: gi.rotate(X, 4, np.array(["nearest"] * 2)), r"interpolation must .* \(3,\) .*, not of shape \(2,\)"),
    (lambda: gi.rotate(FOUR, 10, fill=(1, 2, 3, 4)), "fill must be one number for images of 4 chan"),
    (lambda: gi.affine(X, 0, (0, 0), 1, 90), "shear x must be .* from -89 to 89, not 90"),
    (lambda: gi.perspective(X, SQUARE[:3], SQUARE), r"startpoints must have shape \(4, 2\) .*not \(3, 2\)"),
    (lambda: gi.perspective(X, SQUARE, LINE), r"endpoints must be four points of which no three .*, not \[\["),
    (lambda: gi.elastic(X, -1, seed=1), "^alpha"),
    (lambda: gi.elastic(X, sigma=0.9, seed=1), "^sigma must be a number of at least 1"),
    (lambda: gi.elastic(X, seed=2**48), "^seed"),
    (lambda: gi.elastic(X, interpolation="bicubic", seed=1), '^interpolation must be "bilinear" or "nearest"'),
    (lambda: gi.random_resized_crop(X, 8, (1.0, 0.1), rng=0), r"scale must be \(low, high\) with 0 <= low <= high"),
    (lambda: gi.random_resized_crop(X, 8, ratio=(2, 1), rng=0), r"ratio must be \(low, high\) with 1e-06 <= low"),
    (lambda: gi.random_crop(X, 10, rng=0), r"image 0: its size \(9, 11\) is smaller than the crop of .*use padding"),
    (lambda: gi.random_resize(X, 6, 5, rng=0), "max_size must be a whole number from 6 to 16777216, not 5"),
    (lambda: gi.random_short_side_resize(X, [], rng=0), "min_size must be a whole number or a sequence .* an empty"),
    (lambda: gi.random_affine(X, 0, (0.5, 1.1), rng=0), "translate y must be a number from 0 to 1, not 1.1"),
    (lambda: gi.random_affine(X, 0, shear=(0, 1, 5, 1), rng=0), "shear y must be"),
    (lambda: gi.random_zoom_out(X, side_range=(0.5, 2), rng=0), r"side_range must be \(low, high\) with 1 <= low"),
    (lambda: gi.random_zoom_out(X, p=1.5, rng=0), r"p must be a number from 0 to 1, not 1\.5"),
    (lambda: gi.uniform_temporal_subsample(X, 2, frames=2), "number of images must be a multiple of frames=2, not 3"),
    (lambda: gi.uniform_temporal_subsample(X, 0, frames=1), "must be a whole number of at least 1, not 0"),
    (lambda: gi.uniform_temporal_subsample(X, 2), "frames, the number of images of each clip, is required"),
]
COLOR: Refusals = [
    (lambda: gi.adjust_brightness(X, -0.1), "brightness_factor must be a number of at least 0, not -0.1"),
    (lambda: gi.adjust_hue(X, [0, -0.6, 0]), r"hue_factor\[1\] must be .* from -0.5 to 0.5, not -0.6"),
    (lambda: gi.rgb_to_grayscale(X, 2), "num_output_channels must be 1 or 3, not 2"),
    (lambda: gi.rgb_to_grayscale(X, 1, where=[True, False, True]), "with where, .* must be .*, 3, not 1"),
    (lambda: gi.solarize(X, 256), "threshold must be .* from 0 to 255, not 256"),
    (lambda: gi.posterize(X, 9), "bits must be a whole number from 0 to 8, not 9"),
    (lambda: gi.erase(X, 0, 0, -1, 2), "h must be a whole number from 0 to 16777216, not -1"),
    (lambda: gi.erase(X, 0, 0, 1, 2, (1, 2, 3, 4)), r"v must be one number, .*not of shape \(4,\)"),
    (lambda: gi.erase(X, 0, 0, 1, 1, "random"), 'v must be a color, or "random" with a seed, not'),
    (lambda: gi.normalize(X, (0, 0), 1), r"mean .*\(3,\) with one for each channel, not of shape \(2,\)"),
    (lambda: gi.normalize(X, 0, (1, 1, 0)), r"std must be above 0, not \(1, 1, 0\)"),
    (lambda: gi.gaussian_noise(X, seed=2**48), "^seed must be"),
    (lambda: gi.permute_channels(X, (0, 1, 1)), "^permutation must have each channel from 0 to 2 once"),
    (lambda: gi.permute_channels(X, (0, 1)), r"^permutation must have shape \(3,\) or"),
    (
        lambda: gi.color_matrix(X, np.eye(4)),
        r"^matrix must have shape \(3, 3\) or \(3, 4\), or \(3, 3, 4\) for .*\(4, 4\)",
    ),
    (lambda: gi.channel_dropout(X, (0, 1)), r"^channels must have shape \(3,\) or \(3, 3\), not \(2,\)"),
    (lambda: gi.channel_dropout(X, (0, 1, 2)), "^channels must be True or False for each channel, not 2"),
    (
        lambda: gi.shadow(X, [(0, 0), (1, 1)]),
        r"^corners must have shape \(K, 2\) or .*, with K from 3 to 6, not \(2, 2\)",
    ),
    (lambda: gi.shot_noise(X, 0.5, seed=1), "^photons must be a number from 1 to 1048576, not 0.5"),
    (lambda: gi.rain(X, angle=91, seed=1), "^angle must be a number from -90 to 90, not 91"),
    (lambda: gi.random_rgb_shift(X, 20, rng=0), "^limit must be from 0 to 1, not 20"),
    (lambda: gi.random_shadow(X, region=(1, 0, 0, 1), rng=0), r"^region must be \(x0, y0, x1, y1\) with x0 <= x1"),
    *(
        (lambda name=name, given=given: getattr(gi, name)(NORMALIZED, *given), f"^{name} must come before normalize")
        for name, given in (
            ("color_matrix", (np.eye(3),)),
            ("rgb_shift", (1,)),
            ("channel_dropout", ((1, 0, 0),)),
            ("shadow", (np.eye(3)[:, :2],)),
        )
    ),
    *(
        (
            lambda name=name, given=given: getattr(gi, name)(NORMALIZED, *given, seed=1),
            f"^{name} must come before normalize",
        )
        for name, given in (("salt_and_pepper", ()), ("shot_noise", ()), ("fog", (0.3,)), ("rain", ()))
    ),
    (lambda: gi.pointwise(X, OURS.py_func), "must be compiled with numba.njit, not function"),
    (lambda: gi.pointwise(X, OURS), r"values do not fit function\(r, .*\): missing a .* argument: 'value'"),
    (lambda: gi.pointwise(X, OURS, 1, 2), r"values do not fit function\(r, .*\): too many positional arguments"),
    (lambda: gi.pointwise(X, too_few), r"must take \(r, g, b, y, x\) and then its values"),
    (lambda: gi.equalize(FOUR), "for images of 1 or 3 channels, and these have 4"),
    (lambda: gi.rgb_to_grayscale(FOUR[..., :2]), "for images of 1 or 3 channels, and these have 2"),
    (lambda: gi.gaussian_noise(FOUR, seed=1), "for images of 1 or 3 channels, and these have 4"),
    (lambda: gi.rand_augment(FOUR, rng=0), "for images of 1 or 3 channels, and these have 4"),
    (lambda: gi.color_jitter(X, (1.2, 0.8), rng=0), r"brightness must be \(low, high\) with 0 <= low <= high, not"),
    (lambda: gi.color_jitter(X, None, None, None, 0.6, rng=0), r"hue must be \(low, high\) with -0.5 <= low <= high"),
    (lambda: gi.random_photometric_distort(X, hue=(-0.6, 0.0), rng=0), r"hue must be \(low, high\)"),
    (lambda: gi.random_photometric_distort(X, saturation=0.5, rng=0), r"saturation must be \(low, high\)"),
    (lambda: gi.random_erasing(X, 0.5, (0.4, 0.1), rng=0), r"scale must be \(low, high\) with 0 <= low <= high <= 1"),
    (lambda: gi.random_erasing(X, 0.5, value="noise", rng=0), "value must be one of 'random', 'color', not 'noise'"),
    (lambda: gi.coarse_dropout(X, (3, 2), rng=0), r"holes must be \(low, high\) with low <= high, not"),
    (lambda: gi.random_grid_mask(X, (0.5, 3), rng=0), r"cell must be \(low, high\) with 1 <= low <= high"),
    (lambda: gi.gaussian_blur(X, 4), "kernel_size must be odd, not 4"),
    (lambda: gi.gaussian_blur(X, (3, 3, 3)), r"kernel_size as .* is \(x, y\), not 3 values; .* array of shape \(3,\)"),
    (lambda: gi.gaussian_blur(X, [[3, 5], [5, 7]]), r"kernel_size as a list must hold two numbers, .* shape \(3, 2\)"),
    (lambda: gi.gaussian_blur(X, np.array([3, 5])), r"kernel_size as an array .* not \(2,\); write \(x, y\) as"),
    (lambda: gi.gaussian_blur(X, np.array([3] * 4)), r"kernel_size must be one number, or an array .* shape \(4,\)"),
    (lambda: gi.gaussian_blur(X, (23, 17)), r"image 0: its size \(9, 11\) is too small: a kernel of .* of at least \("),
    (lambda: gi.gaussian_blur(X, (21, 19)), r"image 0: its size \(9, 11\) is too small: a kernel of .* of at least \("),
    (lambda: gi.gaussian_blur(X, 3, 0), "sigma must be a number from 1e-06 to 1000000, not 0"),
    (lambda: gi.gaussian_blur(X, 3, [0.5] * 6), r"sigma as a list or tuple is \(x, y\), not 6 values; .* \(3,\)"),
    (lambda: gi.random_gaussian_blur(X, 3, (2.0, 0.1), rng=0), "sigma must be .* with 1e-06 <= low <= high"),
    (lambda: gi.random_gaussian_blur(X, 21, rng=0), r"image 0: its size \(9, 11\) is too small: a kernel of"),
    (lambda: gi.jpeg(NORMALIZED, 50), "jpeg .*before normalize"),
    (lambda: gi.jpeg(FOUR, 50), "jpeg .*1 or 3 channels"),
    (lambda: gi.rand_augment(X, num_ops=-1, rng=0), "num_ops must be a whole number of at least 0, not -1"),
    (lambda: gi.rand_augment(X, magnitude=9, num_magnitude_bins=9, rng=0), "magnitude must be .* from 0 to 8, not 9"),
    (lambda: gi.augmix(X, interpolation="lanczos", rng=0), "interpolation must be"),
    (lambda: gi.timm_augment(X, "randaug-m9", rng=0), "policy must begin with rand, augmix, .*, 3a, not 'randaug-m9'"),
    (lambda: gi.timm_augment(X, "rand-x5", rng=0), "sections must be m, n, p, .* set of ops in 'rand-x5', not"),
    (lambda: gi.timm_augment(X, "rand-m9-inc", rng=0), "inc needs a number in 'rand-m9-inc'; timm ignores it without"),
    (lambda: gi.timm_augment(X, "rand-tbest", rng=0), "t must be one of t3a, t3aw, tweights in 'rand-tbest', not 'tb"),
    (lambda: gi.timm_augment(X, "rand-tweights-n16", rng=0), "n must be at most 15 in 'rand-tweights-n16'"),
    (lambda: gi.presets.timm_train(auto_augment="rand-tweights-n16"), "n must be at most 15 in 'rand-tweights-n16'"),
    (lambda: gi.auto_augment(X, "mnist", rng=0), 'policy must be "imagenet", "cifar10" or "svhn", not \'mnist\''),
    (lambda: gi.augmix(X, severity=11, rng=0), "severity must be a whole number from 1 to 10, not 11"),
    (lambda: gi.augmix(X, chain_depth=0, rng=0), "chain_depth must be a whole number of at least 1, not 0"),
    (lambda: gi.augmix(X, alpha=0.0, rng=0), "alpha must be a number of at least 1e-06, not 0"),
    (lambda: gi.presets.timm_train(train_crop_mode="rrr"), "train_crop_mode must be one of 'rrc', 'rkrc', 'rkrr', not"),
    (lambda: gi.presets.timm_train(re_mode="noise"), "re_mode must be one of 'const', 'rand', 'pixel', not 'noise'"),
    (lambda: gi.presets.timm_train(color_jitter=(0.1, 0.2)), "color_jitter must be one number, or 3 or 4 of them, not"),
    (lambda: gi.presets.timm_train(config={"hflip": 0.3}), "hflip must be an argument of timm_train, not in config"),
    (lambda: gi.presets.timm_train({"input_size": (3, 0, 4)}), "must be a whole number of at least 1, not 0"),
    (lambda: gi.presets.dino_train(local_crops_scale=(0.4, 0.05)), r"local_crops_scale must be \(low, high\)"),
]
MIXING: Refusals = [
    (lambda: gi.mixup(X, alpha=np.nan, rng=0), "alpha must be a number of at least 1e-06, not"),
    (lambda: gi.cutmix(X, alpha=0, rng=0), "alpha must be a number of at least 1e-06, not"),
    (lambda: gi.cutmix(X, alpha=[1.0] * 3, rng=0), "alpha must be one number, not"),
    (lambda: gi.mixup(X, partner=MOVED[:2], rng=0), "partner must be a batch of 3 images, not of 2"),
    (lambda: gi.mixup(X, partner=[0, 1], rng=0), r"partner must be one number, or an array of shape \(3,\)"),
    (lambda: gi.cutmix(X, partner=[0, 3, 1], rng=0), r"partner\[1\] must be a whole number from 0 to 2, not 3"),
    (lambda: gi.mixup(X, partner=gi.invert(X[..., :1]), rng=0), "images and others must have the same channels, not 3"),
    (lambda: gi.cutmix(X, partner=gi.resize(X, (9, 12)), rng=0), r"one size, not \(9, 11\) and \(9, 12\) for image 0"),
    (lambda: gi.mixup(X, rng=0).labels([0, 1], 4), r"labels must be \(3,\) whole numbers or \(3, 4\) prob.*\(2,\)"),
    (lambda: gi.mixup(X, rng=0).labels([0, 1, 4], 4), "classes must be from 0 to 3, not 0 to 4"),
    (lambda: gi.mixup(X, rng=0).labels(np.zeros((3, 5), np.float32), 4), r"labels must be .*, not float32 of shape \("),
    (lambda: gi.blend(X, X, 1.5), "weight must be a number from 0 to 1, not 1.5"),
    (lambda: gi.blend(X, X, 0.5, rectangle=(0, 0, 1, 1)), r"rectangle must be whole numbers of shape \(3, 4\), not"),
    (lambda: gi.blend(X, X, 0.5, rectangle=np.full((3, 4), np.nan)), "rectangle must be finite, not nan"),
    (lambda: gi.blend(X, X[:2], 0.5), "others must have 3 images, not 2, unless partner says"),
    (lambda: gi.mosaic(X, 32, (-0.1, 0.2), rng=0), "^center must be"),
    (lambda: gi.mosaic(X, 1, rng=0), "^size must be at least 2"),
    (lambda: gi.mosaic(X, 32, partner=[1, 2, 0], rng=0), r"^partner must have shape \(3, 3\)"),
    (lambda: gi.mosaic(X, 32, rng=0).labels([[1], [2]]), "got labels for 2 images, but the batch has 3"),
    (lambda: gi.mosaic(X, 32, rng=0).masks([LABELS] * 3, fill=1), "fill must be 0 for masks of objects, not 1"),
    (lambda: gi.copy_paste(X, LABELS, min_area=-1, rng=0), "^min_area must be"),
    (lambda: gi.copy_paste(X, LABELS[:2], rng=0), "got masks for 2 images, but the batch has 3"),
    (lambda: gi.copy_paste(X, LABELS[:, :5], rng=0), r"masks\[0\] has shape \(5, 11\), but its image \(9, 11\)"),
    (lambda: gi.copy_paste(X, LABELS * 1.0, rng=0), r"masks\[0\] must be an integer or boolean array, not float64"),
    (lambda: gi.copy_paste(SIZES, LABELS[:2], rng=0), "images must have one size, not 2"),
    (lambda: gi.copy_paste(gi.open_clips([made("h264")], 3, device="cpu"), LABELS, rng=0), "for images, not for 1"),
]
TARGETS: Refusals = [
    (lambda: gi.transform_boxes(MOVED, BOX[:2]), "got boxes for 2 images, but the batch has 3"),
    (lambda: boxed(3, 0, 2, 1), r"image 2: box 1 ends before it starts \(9 x 11\): \[3.0, 0.0, 2.0, 1.0\]"),
    (lambda: boxed(0, 0, 11.1, 1), "image 2: box 1 reaches beyond the image"),
    (lambda: boxed(0, 0, np.nan, 1), r"image 2: boxes must be finite, not \[0.0, 0.0, nan, 1.0\]"),
    (lambda: gi.transform_boxes(MOVED, [*BOX[:2], np.zeros((2, 5))]), r"\(K, 4\) arrays; boxes\[2\] has shape \(2, 5"),
    (lambda: gi.transform_boxes(MOVED, np.zeros((3, 4))), r"\(K, 4\) arrays, not of shape \(3, 4\)"),
    (lambda: gi.transform_boxes(MOVED, BOX, format="xywhr"), r"boxes must be an \(N, K, 5\) array or a list"),
    (lambda: gi.transform_boxes(MOVED, BOX, min_area=[0, -1, 0]), r"min_area\[1\] must be"),
    (lambda: gi.convert_bounding_box_format(BOX, "xyxy", "xyxyxyxy"), "one is upright, the other rotated"),
    (lambda: gi.convert_bounding_box_format(BOX, "yxyx", "xyxy"), "old_format must be one of .*not 'yxyx'"),
    (lambda: gi.clamp_bounding_boxes([[(1, 2, np.nan, 4)]], (5, 5)), "image 0: boxes must be finite"),
    (lambda: gi.clamp_bounding_boxes(BOX, np.ones((2, 2))), r"canvas_size as an array must have shape \(3, 2\)"),
    (lambda: gi.sanitize_bounding_boxes(BOX, (5, 5), min_size=-1), "min_size must be a number of at least 0"),
    (lambda: gi.clamp_keypoints(BOX, (5, 5)), r"points must be an \(N, K, 2\) array"),
    (lambda: gi.random_iou_crop(X, BOX[:2], rng=0), "got boxes for 2 images, but the batch has 3"),
    (lambda: gi.random_iou_crop(X, BOX, rng=0, min_scale=0.9, max_scale=0.5), "must be 0 < min_scale <= max_scale"),
    (lambda: gi.random_iou_crop(X, BOX, rng=0, min_aspect_ratio=3.0), "min_aspect_ratio must be above 0 and at most"),
    (lambda: gi.random_iou_crop(X, BOX, rng=0, sampler_options=[]), "sampler_options must be one or more numbers of"),
    (lambda: gi.random_iou_crop(X, BOX, rng=0, trials=0), "trials must be a whole number of at least 1, not 0"),
    (lambda: gi.transform_masks(TWO, [ONE]), "got 1 mask for 2 images; each needs one"),
    (lambda: gi.transform_masks(TWO, [ONE, ONE]), r"masks\[1\] is 9 x 11, but its source image is 5 x 7"),
    (lambda: gi.transform_masks(TWO, [ONE, OTHER * 1.0]), r"masks\[1\] must be an integer .* not float64"),
    (lambda: gi.transform_masks(TWO, [ONE, OTHER.T[None]]), r"masks\[1\], of shape \(1, 7, 5\), is 7 x 5, but"),
    (lambda: gi.transform_masks(TWO, [ONE, OTHER[None]]), r"masks must all be \(H, W\) or all \(K, H, W\)"),
    (lambda: gi.transform_masks(TWO, [LABELS + 2, OTHER[None]]), r"masks\[0\] must .* objects .* 0 to 1, not 2"),
    (lambda: gi.transform_masks(TWO, ONE), r"masks must be a list of .* not uint8 of shape \(9, 11\)"),
    (lambda: gi.transform_masks(TWO, [LABELS[0] + (1 << 24) + 1, OTHER]), r"masks\[0\] must have labels .*7217"),
    (lambda: gi.transform_masks(MOVED, LABELS.astype(np.uint8), fill=256), "a label that uint8 holds, not 2"),
    (lambda: gi.transform_masks(MOVED, LABELS[:, None], fill=2), "must be 0 or 1 for masks of objects"),
    (lambda: gi.masks_to_boxes([LABELS, LABELS[0]]), r"masks\[1\] must have shape \(K, H, W\), not int64 of shape"),
    (lambda: gi.transform_images(TWO, X[:2, :4]), r"others\[0\] is 4 x 11, but its source image is 9 x 11; resize it"),
    (lambda: gi.transform_images(MOVED, X[:1]), "got 1 other image for 3 images; each needs one"),
    (lambda: gi.transform_images(MOVED, X, interpolation="bilinear"), "interpolation must be"),
    (lambda: gi.transform_images(X, X), "must be the Batch"),
    (lambda: gi.transform_points(MOVED, np.full((3, 1, 2), np.inf)), "image 0: points must be finite"),
    (lambda: gi.transform_points(MOVED, np.zeros((1, 4, 2))), "got points for 1 images, but the batch has 3"),
    (lambda: gi.transform_keypoints(MOVED, np.zeros((3, 1, 3))), r"keypoints must be an \(N, K, P, 3\) .*\(3, 1, 3"),
    (lambda: gi.transform_keypoints(MOVED, [np.zeros((1, k, 3)) for k in (4, 5, 5)]), r"one P; keypoints\[0\] has"),
    (lambda: gi.transform_keypoints(MOVED, np.full((3, 1, 4, 3), 3)), "the visibility of key.* must be 0, 1 or 2"),
    (lambda: gi.transform_keypoints(MOVED, np.zeros((3, 1, 2, 3)), flip_indices=[0, 0]), "the numbers 0 to 1 once"),
]
BATCHES: Refusals = [
    (lambda: files(color="rgba", alpha="white"), "composites on a background"),
    (lambda: files(depth="float"), "depth must be one of 'uint8', 'native', not 'float'"),
    (lambda: files(depth="native", alpha="white"), 'for depth "uint8"'),
    (lambda: files().take([0, 7]), "indices has 7, but the batch has images 0 to 6"),
    (lambda: files().take([-1]), "indices has -1"), (lambda: files().take([0.5]), "one-dimensional integers"),
    (lambda: files().take([True, False]), r"\(7,\) booleans"),
    (lambda: gi.Rng(0, indices=[0]).views(1.5), "count must be"),
    (lambda: gi.Rng(0, indices=[0]).views(1 << 33), "count must be"),
    (lambda: gi.Rng(0, indices=[0]).views(1 << 16).views(1 << 17), "views of 65,536 views"),
    (lambda: gi.apply_plan(TWO, SIZES[:1]), "the plan is for 2 images, not 1"),
    (lambda: gi.apply_plan(TWO, SIZES[:1] * 2), r"the plan is for an image 1 of size \(5, 7\), not \(9, 11\)"),
    (lambda: gi.apply_plan(TWO, [one[..., :1] for one in SIZES]), "for uint8 images with 3 channels, not uint8 with 1"),
    (lambda: gi.apply_plan(TWO, list(map(np.float32, SIZES))), "for uint8 images with 3 channels, not float32 with 3"),
    (lambda: gi.apply_plan(gi.resize(X, 4), as_clips(X[None])), "the plan is for 3 images, not 1 clip"),
    (lambda: gi.apply_plan(gi.resize(files(), 4, exact="torch"), files(draft=1.0)), "without draft="),
    (lambda: gi.apply_plan("plan.npy", SIZES), "plan must be a Batch, whose operations are applied to images, not str"),
    (lambda: MOVED.tokens(3, merge=2), r"multiples of 6, which is patch \* merge, not \(9, 11\) as of image 0"),
    (lambda: MOVED.tokens(1, pad=5), "pad must be at least 99"), (lambda: MOVED.tokens(1, counts=[3]), "pass pad, too"),
    (lambda: MOVED.tokens(1, pad="longest", counts=[1]), "add up to 3"),
    (lambda: MOVED.tokens(1, frames=2, order="PPC"), "has no time"),
    (lambda: NORMALIZED.tokens(1, dtype="uint8"), "do not fit"),
    (lambda: gi.sizes.smart([(10, 10), (1, 201)]), r"image 1: 201\.0 times as long as wide"),
    (lambda: gi.sizes.smart_video([(10, 10)], 1), "at least 2 frames, those of a patch, not 1"),
    (lambda: gi.sizes.longest([(10, 10), (1, 2000)]), "image 1: 1 x 2000 pixels are too narrow for a longest side"),
    (lambda: gi.sizes.smart([(10, 10)], 0), "factor must be a whole number from 1 to 16777216, not 0"),
    (lambda: gi.sizes.tiles([(10, 10)], most=3, least=4), "least must be a whole number from 1 to 3, not 4"),
    (lambda: gi.sizes.best_grid([(10, 10)], np.zeros((0, 2), np.int64)), "grids must hold at least one"),
    (lambda: gi.sizes.buckets(100), "area must be at least 4096"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), [*GEOMETRY, *COLOR, *MIXING, *TARGETS, *BATCHES])
def test_a_wrong_argument_is_named(call: Callable[[], Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError, IndexError), match=message):
        call()


def test_boxes_may_reach_beyond_the_image_by_a_rounding_error() -> None:
    boxed(0, 0, 11.0005, 1)
