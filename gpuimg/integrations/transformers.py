"""gpuimg as a backend of Hugging Face's image processors: the same tensors, from files too.

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
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, Final, TypeAlias

import numpy as np

from .. import models, sizes
from .._batch.batch import Batch, as_batch
from .._batch.frameworks import as_tensor
from .._batch.opening import open_batch
from .._checks.types import Interpolation, Ints
from .._ops.pixels import normalize
from .._ops.resize_crop import resize
from .._version import install_hint

#: Name of the backend.
BACKEND = "gpuimg"
# Left to transformers: the first does not extend the backend "torchvision", though it is named as if; values of the
# second differ for gray images.
_OTHERS = ("VivitImageProcessor", "Inkling2ImageProcessor")

#: Families for which gpuimg only decodes: their own steps in torch take less time than its records of them, as they
#: resize floating-point values, or one image after another. Measured by ``python -m bench.processors``.
BY_TORCH = frozenset(
    """
    CHMv2 DINOv3ViT DepthPro EfficientLoFTR EfficientNet Gemma4Unified Glm5Next ImageGPT Inkling Kosmos2_5 LightGlue
    Llama4 MiniCPMOcr MiniCPMV4_6 Molmo2 NemotronH_Omni_Reasoning_V3 NeoMME Nougat Owlv2 PPDocLayoutV2 PPDocLayoutV3
    PPDocLayoutV4 PPFormulaNet PPOCRV5ServerDet PPOCRV5ServerRec PPOCRV6SmallRec PerceptionLM Phi4Multimodal
    Pix2Struct RfDetr SLANeXt SuperGlue Swin2SR UVDoc UltraVBert VitMatte VitPose ZoeDepth
    """.split()  # noqa: SIM905 - names without quotes are easier to read
)

_EXACT: Final = "torch"  # the rule of the backend "torchvision", whose classes are extended
_FILTERS: dict[int, Interpolation] = {1: "lanczos", 2: "bilinear", 3: "bicubic"}  # of Pillow's numbers

#: Images, a processor's settings and the numbers of images of the samples -> outputs; None where not supported.
_Recipe: TypeAlias = Callable[[Batch, Any, list[int]], dict[str, Any] | None]


def register() -> list[str]:
    """Register gpuimg as a backend of the image processors in transformers.

    Afterwards ``AutoImageProcessor.from_pretrained(name, backend="gpuimg")`` returns a processor that decodes, resizes,
    crops, pads and normalizes with gpuimg, for the families in docs/vlm.md. Other backends remain as they are.

    Returns
    -------
    list of str
        Model types of transformers that have the backend now.

    Raises
    ------
    ImportError
        If transformers 5 or torchvision is not installed: the extra ``transformers`` has both.

    Notes
    -----
    The processor takes paths and file bytes, too. Its outputs equal those of transformers' backend "torchvision" on
    the CPU, value for value; those of a file are those of its Pillow image, upright. Other steps of a processor are
    transformers' code, on gpuimg's pixels. The few processors that do not extend the backend "torchvision" have
    transformers' default backend, with a warning.

    Examples
    --------
    >>> import gpuimg.integrations.transformers as integration
    >>> "qwen2_vl" in integration.register()  # doctest: +SKIP
    True
    """
    try:
        from transformers.models.auto import image_processing_auto as auto
    except ImportError as error:
        raise ImportError(f"this backend needs transformers 5; {install_hint('transformers')}") from error
    if auto._load_class_with_fallback.__module__ != __name__:
        auto._load_class_with_fallback = _with_gpuimg(auto)
    names = auto.IMAGE_PROCESSOR_MAPPING_NAMES
    return sorted(model for model in names if names[model].get("torchvision") not in (None, *_OTHERS))


def _with_gpuimg(auto: Any) -> Callable[..., Any]:
    """Return transformers' choice of a class, with this backend."""
    load = auto._load_class_with_fallback

    def loaded(mapping: Any, backend: str) -> Any:
        if backend != BACKEND:
            return load(mapping, backend)
        uses_pil = mapping.get("torchvision") in auto.DEFAULT_TO_PIL_BACKEND_IMAGE_PROCESSORS
        found = load(mapping, "pil" if uses_pil else "torchvision")
        if found is None or (issubclass(found, _steps().__mro__[1]) and found.__name__ not in _OTHERS):
            return found and _extended(found)
        warnings.warn(
            f"gpuimg does not have {found.__name__}: transformers' default backend runs (docs/vlm.md)", stacklevel=4
        )
        return found

    return loaded


@cache
def _extended(base: Any) -> type:
    """Return a subclass of a processor of the backend "torchvision" that runs on images without pixels."""
    from . import deferred

    recipe, by_torch = RECIPES.get(base.__name__), base.__name__.removesuffix("ImageProcessor") in BY_TORCH

    def preprocess(self: Any, images: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("device") not in (None, "cpu"):
            return base.preprocess(self, images, *args, **kwargs)
        to_rgb = bool(kwargs.get("do_convert_rgb", self.do_convert_rgb))
        listed, counts = _listed(images)
        needs_rgb = bool(kwargs.get("do_normalize", self.do_normalize)) and np.size(self.image_mean) == 3
        if by_torch and not any(map(_is_file, listed)):
            return base.preprocess(self, images, *args, **kwargs)
        opened, others = _opened(listed, self, to_rgb, needs_rgb)
        wanted: Any = kwargs.get("return_tensors")
        if opened is None:
            return base.preprocess(self, _replaced(images, iter(others.values())), *args, **kwargs)
        if recipe and not others and not args and wanted in ("pt", "np") and _is_default(self, kwargs):
            outputs = recipe(opened, self, counts) if _is_usual(self) else None
            if outputs is not None:
                return _feature(outputs, wanted)

        def run(tensors: list[Any]) -> Any:
            rest = iter(tensors)
            given = iter([others[i] if i in others else next(rest) for i in range(len(listed))])
            return base.preprocess(self, _replaced(images, given), *args, **kwargs)

        if by_torch:
            return run(_decoded(opened))
        ours = deferred.Images(opened)
        return deferred.resolved(ours, run(ours.tensors()))

    def pad_to_square(self: Any, images: Any, background_color: Any = 0) -> Any:
        if isinstance(images, deferred.Deferred) and images.is_bytes:
            return deferred.squared(images, background_color)
        return base.pad_to_square(self, images, background_color)

    # Of the same name: a saved configuration names the class, and must load without gpuimg.
    names = {"preprocess": preprocess, "backend": property(lambda self: BACKEND), "__module__": __name__}
    if hasattr(base, "pad_to_square"):
        names["pad_to_square"] = pad_to_square
    return type(base.__name__, (base, _steps()), names)


@cache
def _steps() -> type:
    """Return the steps of transformers' backend for images without pixels, which come after those of a family."""
    from transformers.image_processing_backends import TorchvisionBackend

    from . import deferred

    class Steps(TorchvisionBackend):  # type: ignore[misc]
        def process_image(self, image: Any, *args: Any, **kwargs: Any) -> Any:
            return image if isinstance(image, deferred.Deferred) else super().process_image(image, *args, **kwargs)

        def resize(self, image: Any, size: Any, resample: Any = None, antialias: bool = True, **kwargs: Any) -> Any:
            kind = _FILTERS.get(resample) if isinstance(resample, int) else None
            to = size.height, size.width
            plain = all(to) and not (size.shortest_edge or size.max_height)
            if kind and plain and antialias and isinstance(image, deferred.Deferred) and image.is_bytes:
                return image.then(("resize", kind), to, to)
            return super().resize(image, size, resample, antialias, **kwargs)

        def rescale_and_normalize(
            self, images: Any, do_rescale: Any, rescale_factor: Any, do_normalize: Any, mean: Any, std: Any
        ) -> Any:
            is_usual = do_rescale and do_normalize and math.isclose(rescale_factor, 1 / 255)
            is_usual = is_usual and np.max(mean) <= 1.0 and np.min(std) > 0.0  # as normalize() takes them
            if is_usual and isinstance(images, deferred.Deferred) and images.is_bytes:
                return deferred.normalized(images, np.broadcast_to(mean, 3).tolist(), np.broadcast_to(std, 3).tolist())
            return super().rescale_and_normalize(images, do_rescale, rescale_factor, do_normalize, mean, std)

    return Steps


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
        return [image for sample in listed for image in _listed(sample)[0]], [len(sample) for sample in listed]
    return listed, [len(listed)]


def _replaced(images: Any, given: Iterator[Any]) -> Any:
    """Return lists as they are, with other images."""
    return [_replaced(image, given) for image in images] if isinstance(images, (list, tuple)) else next(given)


def _opened(listed: list[Any], processor: Any, to_rgb: bool, needs_rgb: bool) -> tuple[Batch | None, dict[int, Any]]:
    """Return RGB images as a batch, if any, and by their places those that are left to transformers as they are."""
    images = [_opened_one(image, processor, to_rgb, needs_rgb) for image in listed]
    others = {i: image for i, (image, is_rgb) in enumerate(images) if not is_rgb}
    ours = [image for image, is_rgb in images if is_rgb]
    how: Any = {"alpha": "white" if to_rgb else "drop", "device": "cpu"}
    if all(map(_is_file, ours)):
        return open_batch(ours, **how) if ours else None, others
    return as_batch([open_batch([image], **how)[0] if _is_file(image) else image for image in ours]), others


def _decoded(images: Batch) -> list[Any]:
    """Return the pixels as tensors (3, H, W) in the memory of (H, W, 3), as torchvision makes them of Pillow images."""
    return [as_tensor(one).permute(2, 0, 1) for one in images.compute("uint8")]


def _opened_one(image: Any, processor: Any, to_rgb: bool, needs_rgb: bool) -> tuple[Any, bool]:
    """Return a file, or an (H, W, 3) uint8 array as the processor converts it, and True; or another image."""
    if _is_file(image):
        if to_rgb:
            return image, True
        from PIL import Image, ImageOps

        with Image.open(image if isinstance(image, (str, os.PathLike)) else io.BytesIO(image)) as opened:
            if opened.mode == "RGB":
                return image, True
            image = ImageOps.exif_transpose(opened)
    if hasattr(image, "convert"):  # Pillow's
        given = f"an image of mode {image.mode!r}"
        is_plain = image.mode == "RGB" and "transparency" not in image.info
    else:
        has_bytes = str(getattr(image, "dtype", "")).endswith("uint8")
        if not has_bytes or image.ndim != 3 or getattr(image, "is_cuda", False):
            return image, False
        given = f"an array of shape {tuple(image.shape)}"
        is_plain = image.shape[2] == 3 and image.shape[0] not in (1, 3, 4)  # channels come last
    if is_plain:
        return np.asarray(image), True
    found = processor.process_image(image, do_convert_rgb=to_rgb)
    has_colors, is_float = len(found) == 3, found.is_floating_point()
    if not (has_colors or is_float) and needs_rgb:
        raise ValueError(  # transformers' error is that of a broadcast
            f"{type(processor).__name__} takes RGB images, not {given}: pass do_convert_rgb=True to convert images "
            "(docs/vlm.md)"
        )
    return (found.permute(1, 2, 0).numpy(), True) if has_colors and not is_float else (image, False)


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


def _row(kind: str, make: Callable[..., Callable[..., Any]], settings: Callable[[Any], tuple[Any, ...]]) -> _Recipe:
    """Return the recipe of a function of gpuimg.models with arguments, all of which a processor must have."""

    def recipe(x: Batch, processor: Any, counts: list[int]) -> dict[str, Any] | None:
        given = settings(processor) if _has_filter(processor, kind) else (None,)
        return make(*given, *_norm(processor), exact=_EXACT)(x) if all(given) else None

    return recipe


def _grids(processor: Any) -> list[Any] | None:
    """Return LLaVA-NeXT's sizes of images, where its tiles fill them."""
    tile, grids = _side(processor.crop_size), np.array(processor.image_grid_pinpoints)
    whole = processor.size.shortest_edge == tile and processor.do_pad and processor.do_center_crop
    return grids.tolist() if tile and whole and not np.any(grids % tile) else None


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


#: Processors whose patches or tiles are stored by the pass that computes them; by their class.
RECIPES: dict[str, _Recipe] = {
    "CohereCompassImageProcessor": _qwen2_vl,
    "Cosmos3EdgeImageProcessor": partial(_glm4v, order="PPC"),
    "Ernie4_5_VLMoeImageProcessor": _qwen2_vl,
    "Gemma3ImageProcessor": _gemma3,
    "Glm46VImageProcessor": _glm4v,
    "Glm4vImageProcessor": _glm4v,
    "GotOcr2ImageProcessor": _row(
        "bicubic", models.internvl, lambda p: (p.crop_to_patches and _side(p.size), p.max_patches, p.min_patches)
    ),
    "Idefics3ImageProcessor": _idefics3,
    "Kimi_K25ImageProcessor": _row(
        "bicubic",
        models.kimi,
        lambda p: (
            p.patch_size,
            p.merge_size,
            p.max_patches,
            p.size.max_height == p.size.max_width and p.size.max_width,
        ),
    ),
    "LlavaNextImageProcessor": _row("bicubic", models.llava_anyres, lambda p: (_side(p.crop_size), _grids(p))),
    "MiniMaxM3VLImageProcessor": _qwen2_vl,
    "PaddleOCRVLImageProcessor": _paddle_ocr,
    "PixtralImageProcessor": _row(
        "bicubic", models.pixtral, lambda p: (p.do_pad and p.size.longest_edge, _side(p.patch_size))
    ),
    "Qwen2VLImageProcessor": _qwen2_vl,
    "Siglip2ImageProcessor": _row("bilinear", models.siglip2_naflex, lambda p: (p.patch_size, p.max_num_patches)),
    "SmolVLMImageProcessor": _idefics3,
    "VideoLlama3ImageProcessor": _video_llama3,
}
