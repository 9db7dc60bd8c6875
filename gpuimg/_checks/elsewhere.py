"""Names in torchvision, timm and PyTorch that gpuimg does not have, and the equivalents here."""

from __future__ import annotations

_PIPELINE = "write a pipeline as a function, (batch, rng) -> Batch, that calls gpuimg's functions one after another"
_WHERE = "functions take where=, the images that they apply to: where=rng.bernoulli(p)"
_ARRAY = "gpuimg decodes to arrays; set dtype and layout in Batch.array(dtype, layout), or use gpuimg.to_torch"
_SIZES = "use Batch.sizes, Batch.channels and Batch.frames, or gpuimg.image_info for a file"
_STRINGS = 'options are strings, such as interpolation="bilinear"; torchvision\'s enum members are also accepted'
_LOADER = "gpuimg.load(source, preprocess, batch_size=...) yields arrays; gpuimg.torch.load yields tensors"
_PLAIN = "boxes, masks and points are plain arrays: use gpuimg.transform_boxes, transform_masks and transform_points"
_MOVED = "CopyPaste", "Failure", "ImageInfo", "IndexReport", "Mix", "Mosaic", "PrepareReport", "TrainRate", "VideoInfo"

#: Names of other libraries -> a name in gpuimg, or advice.
ELSEWHERE = {
    # classes of torchvision.transforms.v2
    "AugMix": "augmix",
    "AutoAugment": "auto_augment",
    "AutoAugmentPolicy": 'gpuimg.auto_augment takes policy="imagenet", "cifar10" or "svhn"',
    "CenterCrop": "center_crop",
    "ClampBoundingBoxes": "clamp_bounding_boxes",
    "ClampKeyPoints": "clamp_keypoints",
    "ColorJitter": "color_jitter",
    "Compose": _PIPELINE,
    "ConvertBoundingBoxFormat": "convert_bounding_box_format",
    "ConvertImageDtype": _ARRAY,
    "CutMix": "cutmix",
    "ElasticTransform": "random_elastic",
    "FiveCrop": "five_crop",
    "GaussianBlur": "random_gaussian_blur",
    "GaussianNoise": "random_gaussian_noise",
    "Grayscale": "rgb_to_grayscale",
    "Identity": _PIPELINE,
    "InterpolationMode": _STRINGS,
    "JPEG": "random_jpeg",
    "Lambda": "use a plain function; gpuimg.pointwise runs one on every pixel in the same pass",
    "LinearTransformation": "gpuimg has no whitening; multiply the array by the matrix",
    "MixUp": "mixup",
    "Normalize": "normalize",
    "PILToTensor": _ARRAY,
    "Pad": "pad",
    "RGB": 'gpuimg.open_batch and gpuimg.load take color="rgb", the default',
    "RandAugment": "rand_augment",
    "RandomAdjustSharpness": "random_sharpness",
    "RandomAffine": "random_affine",
    "RandomApply": _WHERE,
    "RandomAutocontrast": "random_autocontrast",
    "RandomChannelPermutation": "random_channel_permutation",
    "RandomChoice": f"{_WHERE}, or a mask from rng.choice",
    "RandomCrop": "random_crop",
    "RandomEqualize": "random_equalize",
    "RandomErasing": "random_erasing",
    "RandomGrayscale": "random_grayscale",
    "RandomHorizontalFlip": "random_horizontal_flip",
    "RandomInvert": "random_invert",
    "RandomIoUCrop": "random_iou_crop",
    "RandomOrder": f"{_WHERE}, and rng.permutation returns an order",
    "RandomPerspective": "random_perspective",
    "RandomPhotometricDistort": "random_photometric_distort",
    "RandomPosterize": "random_posterize",
    "RandomResize": "random_resize",
    "RandomResizedCrop": "random_resized_crop",
    "RandomRotation": "random_rotation",
    "RandomShortestSize": "random_short_side_resize",
    "RandomSolarize": "random_solarize",
    "RandomVerticalFlip": "random_vertical_flip",
    "RandomZoomOut": "random_zoom_out",
    "Resize": "resize",
    "SanitizeBoundingBoxes": "sanitize_bounding_boxes",
    "SanitizeKeyPoints": "sanitize_keypoints",
    "ScaleJitter": "scale_jitter",
    "SetClampingMode": _PLAIN,
    "TenCrop": "ten_crop",
    "ToDtype": _ARRAY,
    "ToImage": _ARRAY,
    "ToPILImage": "pass an image of a batch to Image.fromarray",
    "ToPureTensor": _ARRAY,
    "ToTensor": _ARRAY,
    "Transform": _PIPELINE,
    "TrivialAugmentWide": "trivial_augment",
    "UniformTemporalSubsample": "uniform_temporal_subsample",
    # functions of torchvision.transforms.v2.functional and torchvision.io
    "convert_image_dtype": _ARRAY,
    "decode_jpeg": "decode_batch",
    "elastic_transform": "elastic",
    "get_dimensions": _SIZES,
    "get_image_num_channels": _SIZES,
    "get_image_size": _SIZES,
    "get_num_channels": _SIZES,
    "get_num_frames": _SIZES,
    "get_size": _SIZES,
    "grayscale_to_rgb": 'gpuimg.open_batch and gpuimg.load take color="rgb", the default',
    "hflip": "horizontal_flip",
    "is_pure_tensor": _PLAIN,
    "pil_to_tensor": _ARRAY,
    "read_image": "decode_batch",
    "register_kernel": "gpuimg.pointwise runs your Numba function on every pixel",
    "to_dtype": _ARRAY,
    "to_grayscale": "rgb_to_grayscale",
    "to_image": _ARRAY,
    "to_pil_image": "pass an image of a batch to Image.fromarray",
    "to_tensor": _ARRAY,
    "vflip": "vertical_flip",
    # utilities of torchvision.transforms.v2
    "check_type": _PLAIN,
    "get_bounding_boxes": _PLAIN,
    "get_keypoints": _PLAIN,
    "has_all": _PLAIN,
    "has_any": _PLAIN,
    "query_chw": _SIZES,
    "query_size": _SIZES,
    # timm
    "create_transform": "use gpuimg.presets.timm_train for training, and gpuimg.models.timm_eval",
    "rand_augment_transform": "timm_augment",
    # data sets and loaders
    "CocoDetection": "coco",
    "DataLoader": _LOADER,
    "DatasetFolder": "folder",
    "ImageFolder": "folder",
    "IterableDataset": "import gpuimg.torch, and use gpuimg.torch.IterableDataset",
    "WebDataset": "tar",
    "default_collate": _LOADER,
    # gpuimg 0.2
    **{name: f"use gpuimg.typing.{name}" for name in _MOVED},
}


def not_here(module: str, name: str) -> str:
    """Return the message of the AttributeError for a name."""
    message = f"module {module!r} has no attribute {name!r}"
    known = ELSEWHERE.get(name)
    if known is None:
        return message
    return f"{message}: {f'use {module}.{known}' if known.isidentifier() else known}"
