"""Pixels of each library: levels by which resized photos differ from Pillow's.

    python -m bench.bench_pixels [--count 32] [--out bench/results/pixels.json]

Photos of the set S, decoded and resized to 224 x 224 after a crop of random position and shape, as in training (the
crops are drawn once), and to a shorter side of 256. The reference is the installed Pillow, 13 or later: ``Image.open``
and ``crop().resize()``. Of each other way: the share of bytes that differ, and the largest difference, in levels of
255. Float32 results are rounded once. Libraries that are not installed are not measured.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import gpuimg as gi
from bench import common, photos

Pixels = NDArray[np.uint8]
#: An image (H, W, 3), the new height and width, and the filter -> the resized image.
Resize = Callable[[Pixels, tuple[int, int], str], Pixels]

_PILLOW = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


def _pillow(image: Pixels, size: tuple[int, int], filter: str) -> Pixels:
    return np.asarray(Image.fromarray(image).resize(size[::-1], _PILLOW[filter]))


def _ours(exact: Any) -> Resize:
    def resize(image: Pixels, size: tuple[int, int], filter: Any) -> Pixels:
        found: Pixels = gi.resize([image], size, filter, exact=exact).array("uint8")[0]
        return found

    return resize


def _torch(image: Pixels, size: tuple[int, int], filter: str) -> Pixels:
    """As torchvision's ``resize`` of uint8 tensors does."""
    import torch

    tensor = torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)[None]
    found = torch.nn.functional.interpolate(tensor, size, mode=filter, antialias=True)
    pixels: Pixels = found[0].permute(1, 2, 0).numpy()
    return pixels


def _opencv(image: Pixels, size: tuple[int, int], filter: str) -> Pixels:
    import cv2

    names = {"bilinear": cv2.INTER_LINEAR, "bicubic": cv2.INTER_CUBIC}
    return np.asarray(cv2.resize(image, size[::-1], interpolation=names[filter]))


WAYS: dict[str, tuple[str | None, Resize]] = {
    'gpuimg exact="pillow"': (None, _ours("pillow")),
    'gpuimg exact="pillow12", the bytes of Pillow 12': (None, _ours("pillow12")),
    'gpuimg exact="torch"': (None, _ours("torch")),
    "torch, torchvision on uint8": ("torch", _torch),
    "gpuimg, float32 rounded once": (None, _ours(None)),
    "OpenCV, which does not antialias": ("cv2", _opencv),
}


def _windows(images: list[Pixels]) -> list[tuple[Pixels, tuple[int, int]]]:
    """Crops as in training, to 224 x 224, and whole images to a shorter side of 256."""
    rng = np.random.default_rng(0)
    found = []
    for image in images:
        h, w, _ = image.shape
        for _ in range(4):
            area, ratio = rng.uniform(0.08, 1) * h * w, np.exp(rng.uniform(np.log(3 / 4), np.log(4 / 3)))
            height, width = min(h, round(np.sqrt(area / ratio))), min(w, round(np.sqrt(area * ratio)))
            y, x = rng.integers(0, h - height + 1), rng.integers(0, w - width + 1)
            found.append((np.ascontiguousarray(image[y : y + height, x : x + width]), (224, 224)))
        found.append((image, (256 * h // min(h, w), 256 * w // min(h, w))))
    return found


def differences(images: list[Pixels], filter: str) -> dict[str, Any]:
    """Compare every way with the installed Pillow."""
    windows = _windows(images)
    want = [_pillow(image, size, filter) for image, size in windows]
    total = sum(each.size for each in want)
    found: dict[str, Any] = {}
    for way, (library, resize) in WAYS.items():
        if library is not None and find_spec(library) is None:
            found[way] = "not installed"
            continue
        off = [
            np.abs(resize(image, size, filter).astype(np.int64) - one)
            for (image, size), one in zip(windows, want, strict=True)
        ]
        found[way] = {
            "percent_of_bytes": round(100 * sum(int(np.count_nonzero(each)) for each in off) / total, 3),
            "most_levels": max(int(each.max()) for each in off),
        }
    return found


def decoders(files: list[bytes]) -> dict[str, Any]:
    """Bytes by which decoders differ from Pillow's."""
    want = [np.asarray(Image.open(io.BytesIO(data)).convert("RGB")) for data in files]
    ours = list(gi.decode_batch(files, device="cpu"))
    off = [np.abs(one.astype(np.int64) - other) for one, other in zip(ours, want, strict=True)]
    found = {
        "gpuimg on the CPU": [sum(int(np.count_nonzero(each)) for each in off), max(int(each.max()) for each in off)]
    }
    if find_spec("cv2") is not None:
        import cv2

        read = [np.asarray(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR))[:, :, ::-1] for data in files]
        off = [np.abs(one.astype(np.int64) - other) for one, other in zip(read, want, strict=True)]
        found["OpenCV"] = [sum(int(np.count_nonzero(each)) for each in off), max(int(each.max()) for each in off)]
    return {name: {"bytes": count, "most_levels": most} for name, (count, most) in found.items()}


def main() -> None:
    """Measure, print, and write the result."""
    parser = common.arguments(__doc__, "pixels.json")
    parser.add_argument("--count", type=int, default=32, help="photos")
    options = parser.parse_args()
    files = photos.load_set("S", options.count)
    images = list(gi.decode_batch(files, device="cpu"))
    libraries = {"pillow": "pillow", "torch": "torch", "opencv": "opencv-python-headless"}
    modules = {"pillow": "PIL", "torch": "torch", "opencv": "cv2"}
    common.write(
        {
            **common.environment({"S": photos.summary_of_set("S", files)}, 1, options.count),
            "versions": {name: version(libraries[name]) for name, module in modules.items() if find_spec(module)},
            "decoded": decoders(files),
            "resized": {kernel: differences(images, kernel) for kernel in _PILLOW},
        },
        options.out,
    )


if __name__ == "__main__":
    main()
