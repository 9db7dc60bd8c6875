"""gpuimg as a backend of Hugging Face's image processors: the same tensors, from files too, in less time.

>>> import gpuimg.integrations.transformers as integration
>>> integration.register()  # doctest: +SKIP
>>> from transformers import AutoImageProcessor  # doctest: +SKIP
>>> processor = AutoImageProcessor.from_pretrained("Qwen/Qwen2.5-VL-3B-Instruct", backend="gpuimg")  # doctest: +SKIP
>>> inputs = processor(["photo.jpg"], return_tensors="pt")  # doctest: +SKIP
"""

from __future__ import annotations

import io
import math
import os
import warnings
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from inspect import isfunction
from typing import Any, Final, TypeAlias

import numpy as np

from .. import models, sizes
from .._batch.batch import Batch, as_batch
from .._batch.frameworks import as_tensor
from .._batch.opening import open_batch
from .._checks.types import Interpolation, Ints
from .._ops.pixels import normalize
from .._ops.resize_crop import crop, resize
from .._version import install_hint

#: Name of the backend.
BACKEND = "gpuimg"

_EXACT: Final = "torch"  # the rule of the backend "torchvision", whose classes are extended
_FILTERS: dict[int, Interpolation] = {1: "lanczos", 2: "bilinear", 3: "bicubic"}  # of Pillow's numbers

#: Images, a processor's settings and the numbers of images of the samples -> outputs; None where not supported.
_Recipe: TypeAlias = Callable[[Batch, Any, list[int]], dict[str, Any] | None]


def register() -> list[str]:
    """Register gpuimg as a backend of the image processors in transformers.

    Afterwards ``AutoImageProcessor.from_pretrained(name, backend="gpuimg")`` returns a processor for the families in
    docs/vlm.md, and for every other one that resizes, crops and normalizes by its settings alone, such as BLIP's,
    DeiT's and OWL-ViT's. Other backends remain as they are.

    Returns
    -------
    list of str
        Model types of transformers that have the backend now, but those of processors known by their settings alone.

    Raises
    ------
    ImportError
        If transformers 5 or torchvision is not installed: the extra ``transformers`` has both.

    Notes
    -----
    The processor takes paths and file bytes, too. Its outputs equal those of transformers' backend "torchvision" on
    the CPU, value for value; those of a file are those of its Pillow image, upright. A call with options, or a
    processor with settings, that gpuimg does not support runs transformers' code. Another family of processors has
    transformers' default backend, with a warning.

    Examples
    --------
    >>> import gpuimg.integrations.transformers as integration
    >>> "qwen2_vl" in integration.register()  # doctest: +SKIP
    True
    """
    try:
        from transformers import CONFIG_MAPPING, AutoImageProcessor
        from transformers.models.auto import image_processing_auto as auto
    except ImportError as error:
        raise ImportError(f"this backend needs transformers 5; {install_hint('transformers')}") from error
    found = []
    classes: dict[str, type] = {}
    for model, names in auto.IMAGE_PROCESSOR_MAPPING_NAMES.items():
        name = names.get("torchvision")
        if name not in _FAMILIES or model not in CONFIG_MAPPING:
            continue
        if name not in classes:
            module, recipe = _FAMILIES[name]
            classes[name] = _extended(getattr(import_module(f"transformers.models.{module}"), name), recipe)
        AutoImageProcessor.register(
            CONFIG_MAPPING[model], image_processor_classes={BACKEND: classes[name]}, exist_ok=True
        )
        found.append(model)
    if auto._load_class_with_fallback.__module__ != __name__:
        auto._load_class_with_fallback = _with_default(auto)
    return sorted(found)


def _with_default(auto: Any) -> Callable[..., Any]:
    """Return transformers' choice of a class, with its default backend, not the first one, for other families."""
    load = auto._load_class_with_fallback

    def loaded(mapping: Any, backend: str) -> Any:
        if backend != BACKEND or BACKEND in mapping:
            return load(mapping, backend)
        uses_pil = mapping.get("torchvision") in auto.DEFAULT_TO_PIL_BACKEND_IMAGE_PROCESSORS
        found = load(mapping, "pil" if uses_pil else "torchvision")
        if found is not None and _is_plain(found):
            return _extended(found, _fixed)
        if found is not None:
            warnings.warn(
                f"gpuimg does not have {found.__name__}: transformers' default backend runs (docs/vlm.md)", stacklevel=4
            )
        return found

    return loaded


@cache
def _extended(base: Any, recipe: _Recipe) -> type:
    """Return a subclass of a processor of the backend "torchvision" with another ``preprocess``."""

    def preprocess(self: Any, images: Any, *args: Any, **kwargs: Any) -> Any:
        listed, counts = _listed(images)
        to_rgb = bool(kwargs.get("do_convert_rgb", self.do_convert_rgb))
        wanted: Any = kwargs.get("return_tensors")
        has_recipe = not args and wanted in ("pt", "np") and _is_default(self, kwargs) and _is_usual(self)
        opened = _opened(listed, self, to_rgb) if has_recipe else None
        outputs = None if opened is None else recipe(opened, self, counts)
        if outputs is not None:
            return _feature(outputs, wanted)
        return base.preprocess(self, _decoded(images, self, to_rgb), *args, **kwargs)

    # Of the same name: a saved configuration names the class, and must load without gpuimg.
    names = {"preprocess": preprocess, "backend": property(lambda self: BACKEND), "__module__": __name__}
    return type(base.__name__, (base,), names)


def _feature(outputs: dict[str, Any], wanted: str) -> Any:
    from transformers import BatchFeature

    if wanted == "pt":
        outputs = {name: as_tensor(np.ascontiguousarray(value)) for name, value in outputs.items()}
    return BatchFeature(outputs)


# -- images ------------------------------------------------------------------------------------------------------------


def _is_file(image: Any) -> bool:
    return isinstance(image, (bytes, bytearray, memoryview, str, os.PathLike))


def _listed(images: Any) -> tuple[list[Any], list[int]]:
    """Return images as a list, and the numbers of images of the samples; a list of images is one sample."""
    listed = list(images) if isinstance(images, (list, tuple)) else [images]
    if all(isinstance(sample, (list, tuple)) for sample in listed):
        return [image for sample in listed for image in sample], [len(sample) for sample in listed]
    return listed, [len(listed)]


def _opened(listed: list[Any], processor: Any, to_rgb: bool) -> Batch | None:
    """Return images as a batch; None for a form that is left to transformers."""
    if not listed:
        return None
    if all(map(_is_file, listed)):
        return _files(listed, processor, to_rgb)
    arrays = [_pixels(image, processor, to_rgb) for image in listed]
    if any(array is None for array in arrays):
        return None
    return as_batch(arrays)


def _files(files: list[Any], processor: Any, to_rgb: bool) -> Batch:
    """Open files as the processor takes their Pillow images."""
    from PIL import Image

    opened = open_batch(files, alpha="white" if to_rgb else "drop", device="cpu")
    for file in () if to_rgb else files:
        with Image.open(file if isinstance(file, (str, os.PathLike)) else io.BytesIO(file)) as image:
            if image.mode != "RGB":
                raise _not_rgb(f"a file of mode {image.mode!r}", processor)
    return opened


def _pixels(image: Any, processor: Any, to_rgb: bool) -> Any:
    """Return an image as an (H, W, 3) uint8 array, converted by the processor; None where another form is possible."""
    if hasattr(image, "convert"):  # Pillow's
        given = f"an image of mode {image.mode!r}"
        is_plain = image.mode == "RGB" and "transparency" not in image.info
    else:
        has_bytes = str(getattr(image, "dtype", "")).endswith("uint8")
        if not has_bytes or image.ndim != 3 or getattr(image, "is_cuda", False):
            return None
        given = f"an array of shape {tuple(image.shape)}"
        is_plain = image.shape[2] == 3 and image.shape[0] not in (1, 3, 4)  # channels come last
    if is_plain:
        return np.asarray(image)
    found = processor.process_image(image, do_convert_rgb=to_rgb)
    has_colors, is_float = len(found) == 3, found.is_floating_point()
    if not (has_colors or is_float) and np.size(processor.image_mean) == 3:  # its error would be that of a broadcast
        raise _not_rgb(given, processor)
    return found.permute(1, 2, 0).numpy() if has_colors and not is_float else None


def _not_rgb(given: str, processor: Any) -> ValueError:
    return ValueError(
        f"{type(processor).__name__} takes RGB images, not {given}: pass do_convert_rgb=True to convert images "
        "(docs/vlm.md)"
    )


def _decoded(images: Any, processor: Any, to_rgb: bool) -> Any:
    """Return files among images as arrays, which transformers takes."""
    if isinstance(images, (list, tuple)):
        return [_decoded(image, processor, to_rgb) for image in images]
    return _files([images], processor, to_rgb)[0] if _is_file(images) else images


# -- settings ----------------------------------------------------------------------------------------------------------


def _is_default(processor: Any, options: dict[str, Any]) -> bool:
    """Return True if a call's options are the processor's own settings."""
    applied = ("return_tensors", "do_convert_rgb")
    return all(name in applied or value == getattr(processor, name, None) for name, value in options.items())


def _is_usual(processor: Any) -> bool:
    """Return True if images are resized, scaled to [0, 1] and normalized."""
    does = processor.do_resize and processor.do_rescale and processor.do_normalize
    return bool(does) and math.isclose(processor.rescale_factor, 1 / 255) and int(processor.resample) in _FILTERS


def _norm(processor: Any) -> tuple[Any, Any]:
    return processor.image_mean, processor.image_std


def _side(value: Any) -> int | None:
    """Return the side of a square size; None for others."""
    if isinstance(value, int):
        return value
    height, width = (value["height"], value["width"]) if isinstance(value, dict) else (value.height, value.width)
    return height if height == width else None


def _has_filter(processor: Any, name: str) -> bool:
    return _FILTERS[int(processor.resample)] == name


# -- families ----------------------------------------------------------------------------------------------------------


def _is_plain(processor: type) -> bool:
    """Return True if a processor has settings of its own, but no step: they say all that it does."""
    backend = processor.__mro__[1]
    steps = [name for name in dir(backend) if not name.startswith("__") and isfunction(getattr(backend, name))]
    own = any(getattr(processor, name) is not getattr(backend, name) for name in steps)
    return backend.__name__ == "TorchvisionBackend" and not own


def _fixed(x: Batch, processor: Any, counts: list[int], share: float = 1.0) -> dict[str, Any] | None:
    """Resize the shorter side, a multiple of the setting, or to a size; crop the center."""
    size = processor.size
    short = getattr(size, "shortest_edge", None)
    unknown = getattr(size, "longest_edge", None) or getattr(processor, "do_pad", None)
    unknown = unknown or getattr(processor, "keep_aspect_ratio", None)
    if unknown or getattr(processor, "ensure_multiple_of", None) not in (None, 1):
        return None
    if not (short or (size.height and size.width)):
        return None
    crop_size = processor.crop_size if getattr(processor, "do_center_crop", None) else None
    window = None if crop_size is None else (crop_size.height, crop_size.width)
    return _cropped(x, int(short * share) if short else (size.height, size.width), window, processor)


def _cropped(x: Batch, to: Any, window: tuple[int, int] | None, processor: Any) -> dict[str, Any] | None:
    x = resize(x, to, _FILTERS[int(processor.resample)], exact=_EXACT)
    if window is not None:
        if np.any(x.sizes < window):
            return None
        top, left = (x.sizes - window).T // 2
        x = crop(x, top, left, *window)
    elif not x.is_uniform:
        return None
    return {"pixel_values": normalize(x, *_norm(processor)).array(layout="NCHW")}


def _sam2(x: Batch, processor: Any, counts: list[int]) -> dict[str, Any] | None:
    outputs = _fixed(x, processor, counts)
    return outputs and outputs | {"original_sizes": np.array(x.sizes)}


def _sam(x: Batch, processor: Any, counts: list[int]) -> dict[str, Any] | None:
    side, pad_size = processor.size.longest_edge, processor.pad_size
    if not (side and processor.do_pad and pad_size and pad_size.height == pad_size.width == side):
        return None
    old = np.array(x.sizes)
    new = (old * (side / old.max(1, keepdims=True)) + 0.5).astype(np.int64)
    x = normalize(resize(x, new, _FILTERS[int(processor.resample)], exact=_EXACT), *_norm(processor))
    padded = x.padded(multiple=side, layout="NCHW")
    return {"pixel_values": padded.values, "original_sizes": old, "reshaped_input_sizes": new}


def _detr(x: Batch, processor: Any, counts: list[int]) -> dict[str, Any] | None:
    """Resize to a shorter side, with a limit of the longer one; pad, and say which pixels are no padding."""
    size = processor.size
    short, long = getattr(size, "shortest_edge", None), getattr(size, "longest_edge", None)
    if not (short and long and processor.do_pad) or getattr(processor, "pad_size", None):
        return None
    new = _short_sides(x.sizes, short, long)
    x = normalize(resize(x, new, _FILTERS[int(processor.resample)], exact=_EXACT), *_norm(processor))
    padded = x.padded(layout="NCHW")
    return {"pixel_values": padded.values, "pixel_mask": padded.mask.astype(np.int64)}


def _short_sides(old: Ints, short: int, long: int) -> Ints:
    """Return sizes (N, 2) of a shorter side, which shrinks where the longer side would exceed ``long``."""
    least, most = old.min(1).astype(np.float64), old.max(1).astype(np.float64)
    over = most / least * short > long
    raw = np.where(over, long * least / most, short)
    side = np.where(over, np.rint(raw), short)
    longer = np.floor(raw * most / least)
    new = np.where((old[:, 1] < old[:, 0])[:, None], np.stack([longer, side], 1), np.stack([side, longer], 1))
    return np.where((least == side)[:, None], old, new).astype(np.int64)


def _convnext(x: Batch, processor: Any, counts: list[int]) -> dict[str, Any] | None:
    short = processor.size.shortest_edge
    if not short or getattr(processor, "do_center_crop", None):
        return None
    if short < 384:
        return _cropped(x, int(short / processor.crop_pct), (short, short), processor)
    return _cropped(x, (short, short), None, processor)


def _tokens(x: Batch, new: Ints, merge: int, processor: Any, order: Any = "CTPP") -> dict[str, Any]:
    x = normalize(resize(x, new, "bicubic", exact=_EXACT), *_norm(processor))
    tokens = x.tokens(processor.patch_size, merge=merge, frames=processor.temporal_patch_size, order=order)
    return {"pixel_values": tokens.values, "image_grid_thw": tokens.grids}


def _smart(processor: Any) -> tuple[int, int, int] | None:
    """Return the factor and the limits of Qwen's rule of sizes."""
    low, high = processor.size.shortest_edge, processor.size.longest_edge
    if not (low and high and _has_filter(processor, "bicubic")):
        return None
    return processor.patch_size * processor.merge_size, low, high


def _qwen2_vl(x: Batch, processor: Any, counts: list[int]) -> dict[str, Any] | None:
    rule = _smart(processor)
    return None if rule is None else _tokens(x, sizes.smart(x.sizes, *rule), processor.merge_size, processor)


def _video_llama3(x: Batch, processor: Any, counts: list[int]) -> dict[str, Any] | None:
    outputs = _qwen2_vl(x, processor, counts)
    return outputs and outputs | {"image_merge_sizes": np.full(len(x), processor.merge_size)}


def _glm4v(x: Batch, processor: Any, counts: list[int], order: str = "CTPP") -> dict[str, Any] | None:
    rule, frames = _smart(processor), processor.temporal_patch_size
    if rule is None or (order == "PPC" and frames != 1):
        return None
    factor, *limits = rule
    new = sizes.smart_video(x.sizes, frames, factor, frames, *limits)
    return _tokens(x, new, processor.merge_size, processor, order)


def _paddle_ocr(x: Batch, processor: Any, counts: list[int]) -> dict[str, Any] | None:
    rule = _smart(processor)
    if rule is None:
        return None
    height, width = x.sizes.T
    low = height < rule[0]
    width, height = np.where(low, np.rint(width * rule[0] / height), width), np.where(low, rule[0], height)
    narrow = width < rule[0]
    height, width = np.where(narrow, np.rint(height * rule[0] / width), height), np.where(narrow, rule[0], width)
    new = sizes.smart(np.stack([height, width], 1).astype(np.int64), *rule)
    outputs, patch = _tokens(x, new, 1, processor), processor.patch_size
    return outputs | {"pixel_values": outputs["pixel_values"].reshape(len(outputs["pixel_values"]), -1, patch, patch)}


def _siglip2(x: Batch, processor: Any, counts: list[int]) -> dict[str, Any] | None:
    if not _has_filter(processor, "bilinear"):
        return None
    return models.siglip2_naflex(processor.patch_size, processor.max_num_patches, *_norm(processor), exact=_EXACT)(x)


def _kimi(x: Batch, processor: Any, counts: list[int]) -> dict[str, Any] | None:
    side = processor.size.max_height
    if not (side and side == processor.size.max_width and _has_filter(processor, "bicubic")):
        return None
    how = processor.patch_size, processor.merge_size, processor.max_patches, side
    return models.kimi(*how, *_norm(processor), exact=_EXACT)(x)


def _pixtral(x: Batch, processor: Any, counts: list[int]) -> dict[str, Any] | None:
    patch = _side(processor.patch_size)
    side = processor.size.longest_edge
    if not (patch and side and processor.do_pad and _has_filter(processor, "bicubic")):
        return None
    return models.pixtral(side, patch, *_norm(processor), exact=_EXACT)(x)


def _got_ocr2(x: Batch, processor: Any, counts: list[int]) -> dict[str, Any] | None:
    tile = _side(processor.size)
    if not (tile and processor.crop_to_patches and _has_filter(processor, "bicubic")):
        return None
    how = tile, processor.max_patches, processor.min_patches
    return models.internvl(*how, *_norm(processor), exact=_EXACT)(x)


def _llava_next(x: Batch, processor: Any, counts: list[int]) -> dict[str, Any] | None:
    tile = _side(processor.crop_size)
    whole = processor.size.shortest_edge == tile and processor.do_pad
    if not (tile and whole and processor.do_center_crop and _has_filter(processor, "bicubic")):
        return None
    return models.llava_anyres(tile, processor.image_grid_pinpoints, *_norm(processor), exact=_EXACT)(x)


def _idefics3(x: Batch, processor: Any, counts: list[int]) -> dict[str, Any] | None:
    tile, side = processor.max_image_size["longest_edge"], processor.size.longest_edge
    split = processor.do_image_splitting and processor.do_pad and not processor.return_row_col_info
    if not (tile and side and split and _has_filter(processor, "lanczos")):
        return None
    return models.idefics3(tile, side, *_norm(processor), exact=_EXACT)(x, counts=counts)


def _gemma3(x: Batch, processor: Any, counts: list[int]) -> dict[str, Any] | None:
    side = _side(processor.size)
    if not (side and _has_filter(processor, "bilinear")):
        return None
    prepare = partial(models.gemma3, side, *_norm(processor), exact=_EXACT)
    if not processor.do_pan_and_scan:
        return prepare()(x)
    smallest, most = processor.pan_and_scan_min_crop_size, processor.pan_and_scan_max_num_crops
    return prepare(pan_and_scan=(smallest, most, processor.pan_and_scan_min_ratio_to_activate))(x)


#: Processors of transformers: the module of the class, and the recipe. Others are ours where :func:`_is_plain`.
_FAMILIES: dict[str, tuple[str, _Recipe]] = {
    "BeitImageProcessor": ("beit", _fixed),
    "BitImageProcessor": ("bit", _fixed),
    "CLIPImageProcessor": ("clip", _fixed),
    "CohereCompassImageProcessor": ("cohere_compass", _qwen2_vl),
    "ConvNextImageProcessor": ("convnext", _convnext),
    "Cosmos3EdgeImageProcessor": ("cosmos3_edge", partial(_glm4v, order="PPC")),
    "ConditionalDetrImageProcessor": ("conditional_detr", _detr),
    "DPTImageProcessor": ("dpt", _fixed),
    "DeformableDetrImageProcessor": ("deformable_detr", _detr),
    "DetrImageProcessor": ("detr", _detr),
    "Ernie4_5_VLMoeImageProcessor": ("ernie4_5_vl_moe", _qwen2_vl),
    "Gemma3ImageProcessor": ("gemma3", _gemma3),
    "Glm46VImageProcessor": ("glm46v", _glm4v),
    "Glm4vImageProcessor": ("glm4v", _glm4v),
    "GotOcr2ImageProcessor": ("got_ocr2", _got_ocr2),
    "GroundingDinoImageProcessor": ("grounding_dino", _detr),
    "Idefics3ImageProcessor": ("idefics3", _idefics3),
    "Kimi_K25ImageProcessor": ("kimi_k25", _kimi),
    "LevitImageProcessor": ("levit", partial(_fixed, share=256 / 224)),
    "LlavaImageProcessor": ("llava", _fixed),
    "LlavaNextImageProcessor": ("llava_next", _llava_next),
    "MiniMaxM3VLImageProcessor": ("minimax_m3_vl", _qwen2_vl),
    "MobileNetV2ImageProcessor": ("mobilenet_v2", _fixed),
    "PaddleOCRVLImageProcessor": ("paddleocr_vl", _paddle_ocr),
    "PixtralImageProcessor": ("pixtral", _pixtral),
    "Qwen2VLImageProcessor": ("qwen2_vl", _qwen2_vl),
    "Sam2ImageProcessor": ("sam2", _sam2),
    "Sam3ImageProcessor": ("sam3", _sam2),
    "SamImageProcessor": ("sam", _sam),
    "SegformerImageProcessor": ("segformer", _fixed),
    "Siglip2ImageProcessor": ("siglip2", _siglip2),
    "SiglipImageProcessor": ("siglip", _fixed),
    "SmolVLMImageProcessor": ("smolvlm", _idefics3),
    "VideoLlama3ImageProcessor": ("video_llama_3", _video_llama3),
    "ViTImageProcessor": ("vit", _fixed),
}
