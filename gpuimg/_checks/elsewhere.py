"""Names in torchvision, timm and PyTorch that gpuimg does not have, and the equivalents here."""

import re
import sys
from collections.abc import Mapping
from types import ModuleType

from .keywords import NO_INDEX

_PIPELINE = "write a pipeline as a function, (batch, rng) -> Batch, that calls gpuimg's functions one after another"
_WHERE = "functions take where=, the images that they apply to: where=rng.bernoulli(p)"
_ARRAY = "gpuimg decodes to arrays; set dtype and layout in Batch.array(dtype, layout), or use gpuimg.to_torch"
_SIZES = "use Batch.sizes, Batch.channels and Batch.frames, or gpuimg.image_info for a file"
_STRINGS = 'options are strings, such as interpolation="bilinear"; torchvision\'s enum members are also accepted'
_LOADER = "gpuimg.load(source, preprocess, batch_size=...) yields arrays; gpuimg.torch.load yields tensors"
_PLAIN = "boxes, masks and points are plain arrays: use gpuimg.transform_boxes, transform_masks and transform_points"
_PLANS = (
    "a batch is the plan: gpuimg.apply_plan(batch, images) repeats it on other images, pickle.dumps(batch) takes it to "
    "another process, and gpuimg.describe(batch, i) writes it for people"
)
_MOVED = "CopyPaste", "Failure", "ImageInfo", "Mix", "Mosaic", "PrepareReport", "TrainRate", "VideoInfo"

_BATCHES = (
    "pass batches=gpuimg.{} to gpuimg.load; it takes what a function of gpuimg.sizes returns for "
    "gpuimg.read_sizes(source), and preprocess calls that function with x.sizes"
)
#: Advice, and the names of torchvision and torch that it is for.
_ADVICE = {
    _PIPELINE: "Compose Identity Transform",
    _ARRAY: "ConvertImageDtype PILToTensor ToDtype ToImage ToPureTensor ToTensor convert_image_dtype pil_to_tensor "
    "to_dtype to_image to_tensor",
    _PLAIN: "SetClampingMode is_pure_tensor check_type get_bounding_boxes get_keypoints has_all has_any",
    _SIZES: "get_dimensions get_image_num_channels get_image_size get_num_channels get_num_frames get_size query_chw "
    "query_size",
    _LOADER: "DataLoader default_collate",
    _PLANS: "SavedPlan load_plan save_plan",  # gpuimg 0.3
}
#: Names of other libraries -> a name in gpuimg, or advice.
ELSEWHERE = {
    **{name: advice for advice, names in _ADVICE.items() for name in names.split()},
    **{name: f"use gpuimg.typing.{name}" for name in _MOVED},  # gpuimg 0.2
    **dict.fromkeys(["SeekIndex", "build_index"], NO_INDEX),  # gpuimg 0.3
    "BatchSampler": "gpuimg.load takes batches=, lists of indices or a function of the epoch",
    "Buckets": _BATCHES.format("bucket_batches(...)"),  # gpuimg 0.3
    "TokenBudget": _BATCHES.format("token_batches(...)"),
    "AugMix": "augmix",
    "AutoAugmentPolicy": 'gpuimg.auto_augment takes policy="imagenet", "cifar10" or "svhn"',
    "ClampKeyPoints": "clamp_keypoints",
    "CutMix": "cutmix",
    "ElasticTransform": "random_elastic",
    "GaussianBlur": "random_gaussian_blur",
    "GaussianNoise": "random_gaussian_noise",
    "Grayscale": "rgb_to_grayscale",
    "InterpolationMode": _STRINGS,
    "JPEG": "random_jpeg",
    "Lambda": "use a plain function; gpuimg.pointwise runs one on every pixel in the same pass",
    "LinearTransformation": "gpuimg has no whitening; multiply the array by the matrix",
    "MixUp": "mixup",
    "RGB": 'gpuimg.open_batch and gpuimg.load take color="rgb", the default',
    "RandomAdjustSharpness": "random_sharpness",
    "RandomApply": _WHERE,
    "RandomChoice": f"{_WHERE}, or a mask from rng.choice",
    "RandomIoUCrop": "random_iou_crop",
    "RandomOrder": f"{_WHERE}, and rng.permutation returns an order",
    "RandomShortestSize": "random_short_side_resize",
    "SanitizeKeyPoints": "sanitize_keypoints",
    "ToPILImage": "pass an image of a batch to Image.fromarray",
    "TrivialAugmentWide": "trivial_augment",
    "decode_jpeg": "decode_batch",
    "elastic_transform": "elastic",
    "encode_jpeg": "encode_batch",
    "encode_png": 'use gpuimg.encode_batch(images, format="png")',
    "grayscale_to_rgb": 'gpuimg.open_batch and gpuimg.load take color="rgb", the default',
    "hflip": "horizontal_flip",
    "read_image": "decode_batch",
    "register_kernel": "gpuimg.pointwise runs your Numba function on every pixel",
    "to_grayscale": "rgb_to_grayscale",
    "to_pil_image": "pass an image of a batch to Image.fromarray",
    "vflip": "vertical_flip",
    "write_jpeg": "encode_image",
    "create_transform": "use gpuimg.presets.timm_train for training, and gpuimg.models.timm_eval",
    "rand_augment_transform": "timm_augment",
    "CocoDetection": "coco",
    "DatasetFolder": "folder",
    "ImageFolder": "folder",
    "IterableDataset": "import gpuimg.torch, and use gpuimg.torch.IterableDataset",
    "WebDataset": "tar",
}


def not_here(module: str, name: str) -> str:
    """Return the message of the AttributeError for a name."""
    message = f"module {module!r} has no attribute {name!r}"
    known = ELSEWHERE.get(name, re.sub("(?<!^)(?=[A-Z])", "_", name).lower())  # RandomCrop is random_crop here
    if known.isidentifier() and known not in sys.modules[module].__all__:
        return message
    return f"{message}: {f'use {module}.{known}' if known.isidentifier() else known}"


def public_names(namespace: Mapping[str, object], *others: str) -> list[str]:
    """Return ``__all__`` of a package that imports its names by ``*``: those without an underscore, and ``others``.

    Type checkers take such imports for public. What they see of an ``__all__`` would have to be written out.
    """
    names = {name for name, value in namespace.items() if not (name.startswith("_") or isinstance(value, ModuleType))}
    return sorted({*names, *others}, key=lambda name: (not name.isupper(), not name[0].isupper(), name))
