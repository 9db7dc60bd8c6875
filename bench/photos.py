"""A reproducible folder of natural-looking JPEGs, made from photographs that ship in installable packages.

Each file: a random photograph, a random crop of it (scaled down where it has the pixels), mirrored or not, with a
random gamma and white balance; then sensor noise, or a slight blur, until the file has the bits per pixel drawn for
it. Baseline, 4:2:0, quality 85 to 90, standard Huffman tables: what cameras write.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

FOLDER = Path(__file__).parent / ".photos"
COUNT = 512
SIZE = (375, 500)
_FROM_SKIMAGE = (
    "astronaut.png",
    "coffee.png",
    "chelsea.png",
    "motorcycle_left.png",
    "rocket.jpg",
    "hubble_deep_field.jpg",
)
_FROM_SKLEARN = ("china.jpg", "flower.jpg")


def photographs() -> list[Image.Image]:
    """Photographs of scikit-image and scikit-learn."""
    import skimage
    import sklearn

    folders = (
        (Path(skimage.__file__).parent / "data", _FROM_SKIMAGE),
        (Path(sklearn.__file__).parent / "datasets" / "images", _FROM_SKLEARN),
    )
    return [Image.open(folder / name).convert("RGB") for folder, names in folders for name in names]


def _encode(pixels: NDArray[np.floating[Any]], quality: int) -> bytes:
    file = io.BytesIO()
    image = Image.fromarray((np.clip(pixels, 0, 1) * 255 + 0.5).astype(np.uint8))
    image.save(file, "JPEG", quality=quality, subsampling=2)
    return file.getvalue()


def _make(rng: np.random.Generator, sources: list[Image.Image], size: tuple[int, int]) -> bytes:
    height, width = size
    source = sources[rng.integers(len(sources))]
    fit = min(source.width / width, source.height / height)
    share = rng.uniform(0.6, 1.0)
    w, h = width * fit * share, height * fit * share
    x, y = rng.uniform(0, source.width - w), rng.uniform(0, source.height - h)
    image = source.resize((width, height), Image.Resampling.LANCZOS, box=(x, y, x + w, y + h))
    if rng.random() < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    pixels = np.asarray(image, np.float32) / 255
    pixels = pixels ** rng.uniform(0.85, 1.2) * rng.uniform(0.93, 1.05, 3).astype(np.float32)
    noise = rng.standard_normal((height, width, 1), np.float32) + 0.6 * rng.standard_normal(
        (height, width, 3), np.float32
    )
    # Shot noise grows with light, and demosaicing correlates neighbours.
    noise = (noise + 0.35 * (np.roll(noise, 1, 0) + np.roll(noise, 1, 1))) * np.sqrt(0.3 + pixels) / 255
    quality = int(rng.integers(85, 91))
    target = float(np.clip(rng.lognormal(np.log(1.7), 0.25), 1.0, 2.6))
    amount, blur = 0.7, 0.0
    data = b""
    for _ in range(6):
        smooth = pixels
        if blur:
            eight = Image.fromarray((np.clip(pixels, 0, 1) * 255).astype(np.uint8))
            smooth = np.asarray(eight.filter(ImageFilter.GaussianBlur(blur)), np.float32) / 255
        data = _encode(smooth + amount * noise, quality)
        rate = len(data) * 8 / (width * height)
        if abs(rate - target) < 0.12 * target:
            break
        if rate < target and blur:
            blur = max(0.0, blur - 0.12)
        elif rate < target:
            amount = min(7.0, amount * min(1.9, (target / rate) ** 1.6))
        elif amount > 0.5:
            amount = max(0.5, amount * (target / rate) ** 1.2)
        else:
            blur = min(1.6, blur + 0.3)
    return data


def load(count: int = COUNT, size: tuple[int, int] = SIZE, seed: int = 0) -> list[bytes]:
    """The files' bytes; they are made at the first call and kept in ``bench/.photos``."""
    folder = FOLDER / f"{size[0]}x{size[1]}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{i:04d}.jpg" for i in range(count)]
    if not all(path.exists() for path in paths):
        sources = photographs()
        for i, path in enumerate(paths):
            path.write_bytes(_make(np.random.default_rng([seed, i]), sources, size))
    return [path.read_bytes() for path in paths]


def summary(files: list[bytes], size: tuple[int, int] = SIZE) -> dict[str, object]:
    """What the files are, for a result."""
    rates = np.array([len(data) * 8 / (size[0] * size[1]) for data in files])
    return {
        "count": len(files),
        "height": size[0],
        "width": size[1],
        "mean_bytes": round(float(np.mean([len(data) for data in files]))),
        "bits_per_pixel_p5_p50_p95": [round(float(v), 2) for v in np.percentile(rates, [5, 50, 95])],
        "sha256": hashlib.sha256(b"".join(files)).hexdigest(),
    }


def main() -> None:
    """Make the photos and print what they are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT)
    count = parser.parse_args().count
    print(json.dumps(summary(load(count)), indent=1))


if __name__ == "__main__":
    main()
