"""Values of whole evaluation pipelines that differ from those of other libraries, from the bytes of JPEGs to tensors.

    python -m bench.bench_pipelines [--photos 200] [--only gemma3] [--out bench/results/pipelines.json]

Photos of the set S, and cuts of 20 odd sizes. References are torchvision's and timm's transforms on Pillow's images, as
published with their models, and the image processors of transformers, with both backends. gpuimg gets the files.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np
from PIL import Image

import gpuimg as gi
from bench import common, photos, processors
from bench.processors import Outputs
from bench.torchvision_import import import_torchvision

BATCH = 5  # of SmolVLM, a gigabyte on either side
_IMAGENET = gi.IMAGENET_MEAN, gi.IMAGENET_STD
_CLIP = gi.models.CLIP_MEAN, gi.models.CLIP_STD
_HALF = (0.5,) * 3
#: timm's data configurations: of its ResNet-50, ViT-B/16 and ConvNeXt.
TIMM: dict[str, dict[str, Any]] = {
    "timm resnet50.a1_in1k": {"crop_pct": 0.95, "interpolation": "bicubic", "mean": _IMAGENET[0], "std": _IMAGENET[1]},
    "timm vit_base_patch16_224": {"crop_pct": 0.9, "interpolation": "bicubic", "mean": _HALF, "std": _HALF},
    "timm convnext (288)": {
        "crop_pct": 1.0, "interpolation": "bilinear", "mean": _IMAGENET[0], "std": _IMAGENET[1],
        "input_size": (3, 288, 288),
    },
}  # fmt: skip

#: A pipeline returns the outputs of images: gpuimg's of files, the reference's of Pillow's images.
Pipeline = tuple[Callable[[list[bytes]], Outputs], Callable[[list[Any]], Outputs]]


def files_of(count: int) -> list[bytes]:
    """Photos, and cuts of 20 odd sizes."""
    files = photos.load_set("S", count)
    rng = np.random.default_rng(0)
    for k in range(20):
        image = Image.open(io.BytesIO(files[k % len(files)])).convert("RGB")
        height, width = rng.integers(29, 1300, 2).tolist()
        file = io.BytesIO()
        image.resize((width, min(max(height, width // 8), width * 8))).save(file, "JPEG", quality=90)
        files.append(file.getvalue())
    return files


def _decoded(files: list[bytes]) -> list[Any]:
    return [Image.open(io.BytesIO(data)).convert("RGB") for data in files]


def _opened(prepare: Callable[..., gi.Batch]) -> Callable[[list[bytes]], Outputs]:
    return lambda files: {"pixels": prepare(gi.open_batch(files, device="cpu")).array("float32", "NCHW")}


def _applied(transform: Callable[[Any], Any]) -> Callable[[list[Any]], Outputs]:
    return lambda images: {"pixels": np.stack([np.asarray(transform(image)) for image in images])}


def pipelines() -> Iterator[tuple[str, Pipeline]]:
    """Yield names and pipelines; those whose library is not installed are left out."""
    import_torchvision()
    from torchvision import transforms as tv

    def published(short: int, filter: Any, color: Any) -> Callable[[list[Any]], Outputs]:
        return _applied(tv.Compose([tv.Resize(short, filter), tv.CenterCrop(224), tv.ToTensor(), tv.Normalize(*color)]))

    linear, cubic = tv.InterpolationMode.BILINEAR, tv.InterpolationMode.BICUBIC
    for name, short in (("torchvision ResNet50 V1", 256), ("torchvision ResNet50 V2", 232)):
        ours = _opened(gi.presets.imagenet_eval(224, short, exact="pillow"))
        yield name, (ours, published(short, linear, _IMAGENET))
    yield "open_clip", (_opened(gi.models.open_clip_eval(224)), published(224, cubic, _CLIP))
    if find_spec("timm") is not None:
        create_transform = import_module("timm.data").create_transform
        for name, config in TIMM.items():
            full = {"input_size": (3, 224, 224), "crop_mode": "center", **config}
            yield name, (_opened(gi.models.timm_eval(full)), _applied(create_transform(**full)))
    if not processors.missing():
        for name, backend in processors.PAIRS:

            def ours(files: list[bytes], name: str = name, backend: str = backend) -> Outputs:
                return processors.ours(name, backend, gi.open_batch(files, device="cpu"))

            def theirs(images: list[Any], name: str = name, backend: str = backend) -> Outputs:
                return processors.theirs(name, backend, [np.asarray(image) for image in images])

            yield f"transformers {name}, {backend}", (ours, theirs)


def differing(pipeline: Pipeline, files: list[bytes]) -> dict[str, int]:
    """Count the values of all outputs, and those that differ."""
    ours, theirs = pipeline
    values = different = 0
    for at in range(0, len(files), BATCH):
        got, want = ours(files[at : at + BATCH]), theirs(_decoded(files[at : at + BATCH]))
        for key, value in want.items():
            if got[key].shape != value.shape or got[key].dtype != value.dtype:
                raise RuntimeError(f"{key} is {got[key].dtype}{got[key].shape}, not {value.dtype}{value.shape}")
            values += value.size
            different += int(np.count_nonzero(got[key] != value))
    return {"values": values, "differ": different}


def main() -> None:
    """Count, print, write."""
    parser = common.arguments(__doc__, "pipelines.json", 1)
    parser.add_argument("--photos", type=int, default=200)
    parser.add_argument("--only", nargs="+", default=[], help="parts of the names of pipelines; others stay as written")
    options = parser.parse_args()
    files = files_of(options.photos)
    found: dict[str, dict[str, int]] = json.loads(options.out.read_text())["pipelines"] if options.only else {}
    for name, pipeline in pipelines():
        if options.only and not any(part in name for part in options.only):
            continue
        found[name] = differing(pipeline, files)
        print(name, found[name], flush=True)
    libraries = [name for name in ("torch", "torchvision", "timm", "transformers") if find_spec(name)]
    versions = {name: version(name) for name in [*libraries, "pillow"]}
    result = {"photos": len(files), "versions": versions, "pipelines": found}
    common.write(result, options.out)


if __name__ == "__main__":
    main()
