"""Bytes of resizes that differ from Pillow's: gpuimg's, torch's and OpenCV's.

    python -m bench.pixels [--out bench/results/pixels.json]

Four crops of each photo of examples/photos to 224x224, and the whole photo to a shorter side of 256. The crops are at
random places, of random sizes from 60 pixels on.
"""

from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

import gpuimg as gi
from bench import common

_FILTERS = {"bilinear": cv2.INTER_LINEAR, "bicubic": cv2.INTER_CUBIC}
_LEAST = 60  # pixels


def crops() -> list[tuple[NDArray[np.uint8], tuple[int, int]]]:
    """Return images, and the sizes to which they are resized."""
    rng, found = np.random.default_rng(0), []
    for path in sorted((common.ROOT / "examples" / "photos").glob("*.jpg")):
        image = np.asarray(Image.open(path).convert("RGB"))
        height, width, _ = image.shape
        for _ in range(4):
            h, w = (int(rng.integers(_LEAST, side + 1)) for side in (height, width))
            y, x = int(rng.integers(0, height - h + 1)), int(rng.integers(0, width - w + 1))
            found.append((np.ascontiguousarray(image[y : y + h, x : x + w]), (224, 224)))
        shorter = min(height, width)
        found.append((image, (256 * height // shorter, 256 * width // shorter)))
    return found


def resized(image: NDArray[np.uint8], size: tuple[int, int], name: Any) -> dict[str, NDArray[np.uint8]]:
    rules: tuple[Any, ...] = ("pillow", "pillow12", "torch")
    found = {f'gpuimg exact="{rule}"': gi.resize([image], size, name, exact=rule).array()[0] for rule in rules}
    planes = torch.from_numpy(image.copy()).permute(2, 0, 1)[None]
    theirs = torch.nn.functional.interpolate(planes, size, mode=name, antialias=True)
    return {
        **found,
        "torch, torchvision on uint8": theirs[0].permute(1, 2, 0).numpy(),
        "gpuimg, float32 rounded once": gi.resize([image], size, name).array()[0],
        "OpenCV, which does not antialias": cv2.resize(image, size[::-1], interpolation=_FILTERS[name]),
    }


def main() -> None:
    options = common.arguments(__doc__, "pixels.json").parse_args()
    rows: dict[str, dict[str, dict[str, float]]] = {}
    for name in _FILTERS:
        differ: dict[str, list[NDArray[Any]]] = {}
        for image, size in crops():
            want = np.asarray(Image.fromarray(image).resize(size[::-1], Image.Resampling[name.upper()]), np.int64)
            for key, got in resized(image, size, name).items():
                differ.setdefault(key, []).append(np.abs(got - want).ravel())
        for key, parts in differ.items():
            levels = np.concatenate(parts)
            rows.setdefault(key, {})[name] = {"differ": float(np.mean(levels > 0)), "largest": int(levels.max())}
    common.write(common.environment({}, 1) | {"rows": rows}, options.out)


if __name__ == "__main__":
    main()
