"""Small JPEG files of every common build."""

from functools import lru_cache
from typing import Any

import numpy as np
from PIL import Image

from ..samples import file_of, with_orientation


def picture(height: int, width: int, seed: int) -> Image.Image:
    """Waves with a little noise: smooth as a photo is, and the same with every version of NumPy."""
    y, x = np.mgrid[:height, :width].astype(np.float64)
    planes = [
        127.5 + 90 * np.sin(x / (7 + seed + 3 * c) + c) * np.cos(y / (11 - c) + seed) + 20 * np.sin((x + y) / 3)
        for c in range(3)
    ]
    noise = (np.arange(height * width * 3, dtype=np.uint32) + np.uint32(seed)) * np.uint32(2654435761) >> np.uint32(28)
    pixels = np.stack(planes, -1) + noise.reshape(height, width, 3)
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def jpeg(image: Image.Image, *, orientation: int | None = None, **options: Any) -> bytes:
    if orientation is not None:
        options["exif"] = with_orientation(orientation)
    return file_of(image, **{"quality": 85, **options})


@lru_cache(maxsize=1)
def originals() -> dict[str, bytes]:
    """Intact files by name: every subsampling, gray, CMYK, progressive, restart markers, EXIF orientations."""
    return {
        "4:2:0": jpeg(picture(90, 120, 0), subsampling=2),
        "4:2:0 odd": jpeg(picture(61, 83, 1), subsampling=2),
        "4:4:4": jpeg(picture(64, 96, 2), subsampling=0),
        "4:2:2": jpeg(picture(75, 50, 3), subsampling=1),
        "tiny": jpeg(picture(24, 24, 4)),
        "large": jpeg(picture(150, 200, 5), subsampling=2),
        "fine": jpeg(picture(48, 56, 6), quality=100, subsampling=0),
        "coarse": jpeg(picture(100, 100, 7), quality=8),
        "optimised": jpeg(picture(72, 72, 8), optimize=True),
        "gray": jpeg(picture(70, 110, 9).convert("L")),
        "gray progressive": jpeg(picture(66, 58, 10).convert("L"), progressive=True),
        "cmyk": jpeg(picture(56, 64, 11).convert("CMYK")),
        "progressive": jpeg(picture(90, 110, 12), progressive=True, subsampling=2),
        "progressive 4:4:4": jpeg(picture(55, 77, 13), progressive=True, subsampling=0),
        "progressive 4:2:2": jpeg(picture(64, 80, 14), progressive=True, subsampling=1),
        "restart rows": jpeg(picture(96, 80, 15), restart_marker_rows=1),
        "restart blocks": jpeg(picture(64, 100, 16), restart_marker_blocks=3, subsampling=0),
        "restart progressive": jpeg(picture(64, 72, 17), restart_marker_rows=2, progressive=True),
        "orientation 3": jpeg(picture(60, 90, 18), orientation=3),
        "orientation 6": jpeg(picture(60, 90, 19), orientation=6),
        "orientation 8 progressive": jpeg(picture(80, 50, 20), orientation=8, progressive=True),
        "orientation 5 gray": jpeg(picture(40, 60, 21).convert("L"), orientation=5),
        "rgb": jpeg(picture(45, 50, 22), keep_rgb=True),
        "fine 4:2:0": jpeg(picture(130, 140, 23), quality=98, subsampling=2, restart_marker_blocks=7),
        "gray restart": jpeg(picture(90, 70, 24).convert("L"), restart_marker_rows=1, optimize=True),
    }


def is_baseline(name: str) -> bool:
    return "progressive" not in name and name != "cmyk"
