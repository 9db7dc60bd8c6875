"""Image processors of transformers, made from their classes' defaults, without a hub, and gpuimg's counterparts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import gpuimg as gi
from bench.torchvision_import import define_operators

Outputs = dict[str, NDArray[Any]]

_IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
_HALF = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}


def _square(side: int) -> dict[str, int]:
    return {"height": side, "width": side}


#: Models: the module and class of their processor, and what their published configurations change.
SPECS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "clip": ("clip", "CLIPImageProcessor", {}),
    "siglip": ("siglip", "SiglipImageProcessor", {}),
    "siglip384": ("siglip", "SiglipImageProcessor", {"size": _square(384)}),
    "vit": ("vit", "ViTImageProcessor", {}),
    "dinov2": ("bit", "BitImageProcessor", {"size": {"shortest_edge": 256}, "crop_size": _square(224), **_IMAGENET}),
    "dinov3": ("dinov3_vit", "DINOv3ViTImageProcessor", {}),
    "qwen2_vl": ("qwen2_vl", "Qwen2VLImageProcessor", {}),
    "qwen3_vl": ("qwen2_vl", "Qwen2VLImageProcessor",
                 {"patch_size": 16, "size": {"shortest_edge": 65536, "longest_edge": 16777216}, **_HALF}),
    "siglip2_naflex": ("siglip2", "Siglip2ImageProcessor", {}),
    "kimi": ("kimi_k25", "Kimi_K25ImageProcessor", {}),
    "pixtral": ("pixtral", "PixtralImageProcessor", {}),
    "internvl": ("got_ocr2", "GotOcr2ImageProcessor", {"crop_to_patches": True, "size": _square(448), **_IMAGENET}),
    "llava_anyres": ("llava_next", "LlavaNextImageProcessor",
                     {"size": {"shortest_edge": 336}, "crop_size": _square(336)}),
    "idefics3": ("idefics3", "Idefics3ImageProcessor", {}),
    "smolvlm": ("smolvlm", "SmolVLMImageProcessor",
                {"size": {"longest_edge": 2048}, "max_image_size": {"longest_edge": 512}}),
    "gemma3": ("gemma3", "Gemma3ImageProcessor", {"size": _square(896)}),
    "gemma3_scan": ("gemma3", "Gemma3ImageProcessor", {
        "size": _square(224), "do_pan_and_scan": True, "pan_and_scan_min_crop_size": 256,
        "pan_and_scan_max_num_crops": 4, "pan_and_scan_min_ratio_to_activate": 1.2,
    }),
}  # fmt: skip

#: The rule of ``exact=`` that gives a backend's pixels.
RULES = {"torchvision": "torch", "pil": "pillow"}

#: gpuimg's preprocessing of these models, except for DINOv3, which resizes floating-point values.
OURS: dict[str, Callable[..., Callable[..., Any]]] = {
    "clip": gi.models.clip,
    "siglip": gi.models.siglip,
    "siglip384": partial(gi.models.siglip, 384),
    "vit": gi.models.vit,
    "dinov2": gi.models.dinov2,
    "qwen2_vl": gi.models.qwen_vl,
    "qwen3_vl": partial(gi.models.qwen_vl, 16, 2, 2, 65536, 16777216, (0.5,) * 3, (0.5,) * 3),
    "siglip2_naflex": gi.models.siglip2_naflex,
    "kimi": gi.models.kimi,
    "pixtral": gi.models.pixtral,
    "internvl": gi.models.internvl,
    "llava_anyres": gi.models.llava_anyres,
    "idefics3": gi.models.idefics3,
    "smolvlm": partial(gi.models.idefics3, 512, 2048),
    "gemma3": gi.models.gemma3,
    "gemma3_scan": partial(gi.models.gemma3, 224, pan_and_scan=(256, 4, 1.2)),
}
#: Models and backends whose outputs are equal.
PAIRS = [(name, backend) for name in OURS for backend in RULES if (name, backend) != ("kimi", "pil")]


@cache
def missing() -> str:
    """Return the name of a library that the processors lack here, or an empty string."""
    for name in ("torch", "torchvision", "transformers"):
        if find_spec(name) is None:
            return name
    define_operators()
    import transformers

    transformers.utils.logging.set_verbosity_error()
    return ""


def processor(name: str, backend: str) -> Any:
    """Return a model's processor with ``backend`` "torchvision" or "pil"; None where there is none."""
    module, cls, options = SPECS[name]
    end = "_pil" if backend == "pil" else ""
    try:
        found = import_module(f"transformers.models.{module}.image_processing{end}_{module}")
    except ModuleNotFoundError:
        return None
    return getattr(found, cls + end.title().replace("_", ""))(**options)


def ours(name: str, backend: str, x: Any) -> Outputs:
    """Return the outputs of gpuimg, by the rule of a backend."""
    found = OURS[name](exact=RULES[backend])(x)
    return {"pixel_values": found.array(layout="NCHW")} if isinstance(found, gi.Batch) else found


def theirs(name: str, backend: str, images: Sequence[NDArray[np.uint8]]) -> Outputs:
    """Return the outputs of transformers."""
    given: Any = [Image.fromarray(image) for image in images]
    if name in ("idefics3", "smolvlm"):  # takes a list of the images of each sample
        given = [[image] for image in given]
    return {key: np.asarray(value) for key, value in processor(name, backend)(given, return_tensors="pt").items()}
