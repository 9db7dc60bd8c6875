"""Image processors of transformers, made from their classes' defaults, without a hub, and gpuimg's counterparts.

    GPUIMG_NUM_THREADS=1 python -m bench.processors [--rounds 11] [--count 8] [--families CLIP,Detr]

measures all families with ``backend="gpuimg"`` and with transformers' default: milliseconds an image by the CPU time of
one thread, from the bytes of JPEGs of about 500x375, in turn. transformers gets ``Image.open(...).convert("RGB")``. The
outputs are compared before.
"""

import io
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

import gpuimg as gi
from bench import common
from bench.photos import encoded, load_set, summary_of_set
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
    given: Any = [Image.fromarray(image) for image in images]
    if name in ("idefics3", "smolvlm"):  # takes a list of the images of each sample
        given = [[image] for image in given]
    return {key: np.asarray(value) for key, value in processor(name, backend)(given, return_tensors="pt").items()}


# -- the backend of transformers ---------------------------------------------------------------------------------------

#: Image processors that extend transformers' backend "torchvision", by the beginning of their names.
FAMILIES = """
    Apertus1p5 Aria Beit Bit Blip BridgeTower CHMv2 CLIP Chameleon ChineseCLIP Cohere2Vision CohereCompass
    ConditionalDetr ConvNext Cosmos3Edge DINOv3ViT DPT DeepseekOcr2 DeepseekVLHybrid DeepseekVL DeformableDetr DeiT
    DepthPro Detr Donut EfficientLoFTR EfficientNet Eomt Ernie4_5_VLMoe Flava Fuyu GLPN Gemma3 Gemma4 Gemma4Unified
    Glm46V Glm4v Glm5Next GlmImage Glmga GotOcr2 GraniteDocling GroundingDino HYV4VL HunYuanVL Idefics2 Idefics3 Idefics
    ImageGPT Inkling Janus Kimi_K25 Kosmos2_5 LayoutLMv2 LayoutLMv3 Levit Lfm2Vl LightGlue Llama4 Llava
    LlavaNext LlavaOnevision Mask2Former MaskFormer MiniCPMOcr MiniCPMV4_6 MiniMaxM3VL Mllama MobileNetV1 MobileNetV2
    MobileViT Molmo2 MuseGlimmer NemotronH_Omni_Reasoning_V3 NeoMME Nougat OneFormer Ovis2 OwlViT Owlv2 PI0
    PPChart2Table PPDocLayoutV2 PPDocLayoutV3 PPDocLayoutV4 PPFormulaNet PPLCNet PPOCRV5ServerDet PPOCRV5ServerRec
    PPOCRV6SmallRec PaddleOCRVL Perceiver PerceptionLM Phi4Multimodal Pix2Struct Pixtral PoolFormer PromptDepthAnything
    Pvt Qwen2VL RTDetr RfDetr SLANeXt Sam2 Sam3 Sam Sapiens2 SegGpt Segformer Siglip2 Siglip SmolVLM Step3p7 SuperGlue
    SuperPoint Swin2SR TextNet Tipsv2Dpt Tipsv2 Tvp UVDoc UltraVBert UnlimitedOcr ViT VideoLlama3 VideoMAE Vilt VitMatte
    VitPose Yolos ZoeDepth
""".split()  # noqa: SIM905 - names without quotes are easier to read
_OPTIONS: dict[str, dict[str, Any]] = {"ImageGPT": {"clusters": [[-1.0] * 3, [0.0] * 3, [1.0] * 3]}}
_TWO = ("EfficientLoFTR", "LightGlue", "SuperGlue")  # take pairs of images
_SAMPLES = ("Idefics2", "Idefics3", "SmolVLM")  # take a list of the images of each sample


def families(name: str, settings: dict[str, Any] | None = None) -> tuple[Any, Any]:
    """Return a processor as ``from_pretrained`` does with ``backend="gpuimg"``, and by default."""
    import transformers

    with TemporaryDirectory() as folder:
        made = getattr(transformers, f"{name}ImageProcessor")(**_OPTIONS.get(name, {}) | (settings or {}))
        made.save_pretrained(folder)
        load = transformers.AutoImageProcessor.from_pretrained
        return load(folder, backend="gpuimg"), load(folder)


def called(name: str, processor: Any, images: Sequence[Any], sizes: Sequence[tuple[int, int]]) -> list[Any]:
    """Return the arrays of a processor's outputs for images; ``sizes`` are their widths and heights."""
    options: dict[str, Any] = {"apply_ocr": False} if name.startswith("LayoutLM") else {}
    given: Any = list(images)
    if name == "VitPose":
        options = {"boxes": [[[0.0, 0.0, 9.0, 9.0]]] * len(images)}
    if name == "VitMatte":
        options = {"trimaps": [Image.new("L", size, 9) for size in sizes]}
    if name in _TWO:
        given = [list(pair) for pair in zip(images[::2], images[1::2], strict=True)] if len(images) > 1 else given * 2
    if name in _SAMPLES and len(images) > 1:
        given = [[image] for image in images]
    found = processor(given, return_tensors="pt", **options)
    return list(_leaves([found[key] for key in sorted(found)] if hasattr(found, "keys") else found))


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from _leaves(one)
    elif isinstance(value, (str, bool, int, float)) or value is None:
        yield value
    else:  # NumPy has no bfloat16
        yield np.asarray(value.float() if str(value.dtype) == "torch.bfloat16" else value)


def awkward(rng: np.random.Generator, photos: Sequence[Image.Image], count: int) -> list[bytes]:
    """Return files of every mode, with and without transparency, of all orientations, of thin shapes, and photos."""
    rgba = Image.fromarray(rng.integers(0, 256, (19, 23, 4), np.uint8))
    rgb, gray = rgba.convert("RGB"), rgba.convert("L")
    palette = rgb.quantize(9)
    deep = Image.fromarray(rng.integers(0, 1 << 16, (21, 18), np.uint16))
    modes: list[tuple[Image.Image, str, dict[str, Any]]] = [
        *((image, "PNG", {}) for image in (rgb, rgba, gray, rgba.convert("LA"), palette, rgb.convert("1"), deep)),
        (rgb, "PNG", {"transparency": rgb.getpixel((0, 0))}), (gray, "PNG", {"transparency": 9}),
        (palette, "PNG", {"transparency": rng.bytes(7)}), (palette, "GIF", {"transparency": 0}),
        *((image, "WEBP", {"lossless": True}) for image in (rgb, rgba)),
        (rgb.convert("CMYK"), "JPEG", {}), (gray, "JPEG", {}), (rgb, "JPEG", {"progressive": True}),
        (rgb.convert("1"), "TIFF", {}), (rgba, "TIFF", {}), (rgb, "BMP", {}),
        *((rgba.resize(size), "PNG", {}) for size in ((1, 1), (120, 3), (3, 120), (2, 1))),
    ]  # fmt: skip
    for orientation in range(2, 9):
        exif = Image.Exif()
        exif[274] = orientation
        modes.append((rgba if orientation % 2 else rgb, "PNG", {"exif": exif}))
    while len(modes) < count:
        photo = photos[rng.integers(len(photos))]
        w, h = (int(rng.integers(8, side + 1)) for side in photo.size)
        x, y = int(rng.integers(0, photo.width - w + 1)), int(rng.integers(0, photo.height - h + 1))
        exif = Image.Exif()
        exif[274] = int(rng.integers(1, 9))
        modes.append((photo.crop((x, y, x + w, y + h)), str(rng.choice(["JPEG", "WEBP", "PNG"])), {"exif": exif}))
    return [encoded(image, kind, **options) for image, kind, options in modes[:count]]


def upright(data: bytes, to_rgb: bool) -> Image.Image:
    """Return a file as the Pillow image whose outputs it gives: turned; 16-bit gray, if converted, as upper bytes."""
    image = Image.open(io.BytesIO(data))
    if to_rgb and image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    return ImageOps.exif_transpose(image)


# -- rates -------------------------------------------------------------------------------------------------------------


def _compared(name: str, files: Sequence[bytes], rounds: int) -> dict[str, Any]:
    """Return a family's milliseconds an image with gpuimg's backend and the default one."""
    backends = dict(zip(("gpuimg", "transformers"), families(name), strict=True))
    sizes = [Image.open(io.BytesIO(data)).size for data in files]

    def run(backend: str) -> list[Any]:
        images = files if backend == "gpuimg" else [Image.open(io.BytesIO(data)).convert("RGB") for data in files]
        return called(name, backends[backend], images, sizes)

    pairs = list(zip(run("gpuimg"), run("transformers"), strict=True))
    different = sum(int(np.count_nonzero(np.asarray(one) != np.asarray(other))) for one, other in pairs)
    _, worked = common.interleaved({backend: partial(run, backend) for backend in backends}, rounds)
    ratio, spread = common.ratio(worked["transformers"], worked["gpuimg"])
    return {
        **{backend: round(1000 * float(np.median(seconds)) / len(files), 2) for backend, seconds in worked.items()},
        "ratio": ratio, "range": spread, "values_that_differ": different,
    }  # fmt: skip


def main() -> None:
    parser = common.arguments(__doc__, "processors.json", rounds=11)
    parser.add_argument("--count", type=int, default=8, help="photos of a call")
    parser.add_argument("--families", default=",".join(FAMILIES), help="names, separated by commas")
    options = parser.parse_args()
    if missing():
        raise SystemExit(f"{missing()} is not installed")
    import torch

    from gpuimg.integrations.transformers import register

    register()
    torch.set_num_threads(1)
    photos = load_set("S", 8 * options.count)
    sizes = [Image.open(io.BytesIO(data)).size for data in photos]
    alike = [data for data, size in zip(photos, sizes, strict=True) if size == max(sizes, key=sizes.count)]
    about = common.environment({"S": summary_of_set("S", photos[: options.count])}, options.rounds, options.count)
    about["versions"] |= {name: version(name) for name in ("transformers", "torch", "torchvision")}
    found: dict[str, Any] = {}
    for name in options.families.split(","):
        try:
            found[name] = _compared(name, photos[: options.count], options.rounds)
        except ValueError:  # images of one size only
            found[name] = _compared(name, alike[: options.count], options.rounds)
        print(name, found[name], flush=True)
    common.write({**about, "families": found}, options.out)


if __name__ == "__main__":
    main()
