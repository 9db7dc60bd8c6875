"""Reproducible natural-looking JPEGs, created from photographs that ship in installable packages.

Each file is a random photograph, a random crop of it (scaled down if it has the pixels), mirrored or not, with a
random gamma and white balance; then sensor noise, or a slight blur, until the file has the bits per pixel drawn for
it. Quality 85 to 90 and standard Huffman tables, as cameras write them.

:func:`load_set` returns a set, a mixture of sizes and kinds: S about 500x375, "1280x960", and L 4000x3000, with 1.7
bits per pixel. "S-4.8" and so on have the same scenes at a higher quality and with more noise, with as many bits per
pixel as ImageNet. The files of "progressive" are about 500x375, and all progressive.

    python -m bench.photos --set S [--count 16]
"""

import argparse
import hashlib
import io
import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

FOLDER = Path(__file__).parent / ".photos"
_FROM_SKIMAGE = (
    "astronaut.png", "coffee.png", "chelsea.png", "motorcycle_left.png", "rocket.jpg", "hubble_deep_field.jpg"
)  # fmt: skip
_FROM_SKLEARN = ("china.jpg", "flower.jpg")
_RATE = 1.7


@dataclass(frozen=True)
class PhotoSet:
    """Files of one set: their number, the size of batches, the sizes of photos with weights, and their hash."""

    count: int
    batch: int
    sizes: tuple[tuple[tuple[int, int], float], ...]
    panes: int  # along each side; the photographs have too few pixels to fill 12 megapixels one at a time
    seed: int
    sha256: str  # of all files; Pillow 13.0.0, scikit-image 0.26.0, scikit-learn 1.9.1 and NumPy 2.4.6 give this
    rate: float = _RATE  # bits per pixel that the middle of a median photo is to have
    finer: int = 0  # added to its quality of 85 to 90


_S = 512, 64, (((375, 500), 0.6), ((500, 375), 0.2), ((333, 500), 0.1), ((360, 480), 0.1)), 1
_M, _L = (128, 32, (((960, 1280), 1.0),), 1, 3), (24, 8, (((3000, 4000), 1.0),), 3, 4)
_DENSER = 5.5, 8  # rate and finer; whole photos have less detail than their middle
SETS = {
    "S": PhotoSet(*_S, 0, "38a645dbbd2644ed3dd53fff7cb5411221d809a2280b10a2705ee930b1922aa1"),
    "1280x960": PhotoSet(*_M, "038eb7ce6533644bc26cdfd2a4c098830b91821ff5560bdd08b76a98d683fe22"),
    "L": PhotoSet(*_L, "75baa90b069d6d49baf47ea0cbcd2ce87ca3d20c9791df25f9537e3aff3d9ee9"),
    "progressive": PhotoSet(128, *_S[1:], 5, "0d45098a7e0ccff7e1585156a10b6d2b503c7dc2f29997d2140084c912a3040a"),
    "S-4.8": PhotoSet(*_S, 0, "055e59d2ecc60d5b0fca2a883a3d64ae9ab2ddb4bace119347bbdfefc8b1b056", *_DENSER),
    "1280x960-4.8": PhotoSet(*_M, "c231c62b49224f6d776bf05b14ef7dbb382cc0197ed9ca9a1379ea0cf54870b4", *_DENSER),
    "L-4.8": PhotoSet(*_L, "f943a43f16b209b8d2f8aea67b322536b2b47307b2f58ecbe01023691481058e", *_DENSER),
}
_KINDS = (("4:2:0", 0.84), ("4:4:4", 0.08), ("gray", 0.04), ("progressive", 0.04))
_PATCH = 256  # of this many pixels a side the noise is fitted: encoding 12 megapixels six times would take minutes


@cache
def photographs() -> list[Image.Image]:
    import skimage
    import sklearn

    folders = (
        (Path(skimage.__file__).parent / "data", _FROM_SKIMAGE),
        (Path(sklearn.__file__).parent / "datasets" / "images", _FROM_SKLEARN),
    )
    return [Image.open(folder / name).convert("RGB") for folder, names in folders for name in names]


def _draw(rng: np.random.Generator, choices: tuple[tuple[Any, float], ...]) -> Any:
    return choices[rng.choice(len(choices), p=[weight for _, weight in choices])][0]


def _scene(rng: np.random.Generator, size: tuple[int, int]) -> Image.Image:
    """Return a crop of a photograph, perhaps mirrored, with another gamma and white balance."""
    sources = photographs()
    source, (height, width) = sources[rng.integers(len(sources))], size
    fit = min(source.width / width, source.height / height) * rng.uniform(0.6, 1.0)
    w, h = width * fit, height * fit
    x, y = rng.uniform(0, source.width - w), rng.uniform(0, source.height - h)
    image = source.resize((width, height), Image.Resampling.LANCZOS, box=(x, y, x + w, y + h))
    if rng.random() < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    gamma, balance = rng.uniform(0.85, 1.2), rng.uniform(0.93, 1.05, 3)
    levels = np.clip((np.arange(256) / 255) ** gamma * balance[:, None] * 255 + 0.5, 0, 255).astype(int)
    return image.point(levels.ravel().tolist())


def _panes(rng: np.random.Generator, size: tuple[int, int], count: int) -> Image.Image:
    """Return an image with ``count`` scenes along each side."""
    height, width = size
    image = Image.new("RGB", (width, height))
    for y in range(count):
        for x in range(count):
            top, left = height * y // count, width * x // count
            below, right = height * (y + 1) // count, width * (x + 1) // count
            image.paste(_scene(rng, (below - top, right - left)), (left, top))
    return image


@cache
def _noise_tile() -> NDArray[np.float32]:
    """Return the noise of a sensor in levels, correlated by demosaicing. Each file shifts and repeats it."""
    rng = np.random.default_rng(0)
    tile = rng.standard_normal((512, 512, 1), np.float32) + 0.6 * rng.standard_normal((512, 512, 3), np.float32)
    return np.asarray(tile + 0.35 * (np.roll(tile, 1, 0) + np.roll(tile, 1, 1)), np.float32)


def _noisy(image: Image.Image, amount: float, shift: tuple[int, int]) -> Image.Image:
    pixels = np.asarray(image)
    result = np.empty_like(pixels)
    tile = _noise_tile()
    columns = (np.arange(pixels.shape[1]) + shift[1]) % tile.shape[1]
    for top in range(0, len(pixels), 64):  # a strip stays in the cache; whole images cost more page faults than work
        strip = pixels[top : top + 64].astype(np.float32)
        rows = (np.arange(top, top + len(strip)) + shift[0]) % tile.shape[0]
        noise = tile[rows[:, None], columns]
        noise *= np.sqrt(np.float32(0.3) + strip * np.float32(1 / 255))  # shot noise grows with light
        strip += np.float32(amount) * noise
        result[top : top + 64] = np.clip(strip + np.float32(0.5), 0, 255)
    return Image.fromarray(result)


def encoded(image: Image.Image, form: str, **options: Any) -> bytes:
    """Encode an image, by default with Pillow's options."""
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def _save(image: Image.Image, kind: str, quality: int) -> bytes:
    image = image.convert("L") if kind == "gray" else image
    options = {} if kind == "gray" else {"subsampling": 0 if kind == "4:4:4" else 2}
    return encoded(image, "JPEG", quality=quality, progressive=kind == "progressive", **options)


def make(name: str, index: int) -> bytes:
    """Return file ``index`` of a set, which depends on nothing else."""
    of = SETS[name]
    rng = np.random.default_rng([of.seed, index])
    height, width = _draw(rng, of.sizes)
    kind = _draw(rng, _KINDS)
    kind = name if name == "progressive" else kind
    image = _panes(rng, (height, width), of.panes)
    quality = int(rng.integers(85, 91)) + of.finer
    target = float(np.clip(rng.lognormal(np.log(_RATE), 0.25), 1.0, 2.5)) * (of.rate / _RATE)
    shift = (int(rng.integers(512)), int(rng.integers(512)))
    side = min(_PATCH, height, width)
    corner = ((width - side) // 2, (height - side) // 2)
    amount, blur = 0.7, 0.0
    for _ in range(6):
        smooth = image.filter(ImageFilter.GaussianBlur(blur)) if blur else image
        patch = smooth.crop((*corner, corner[0] + side, corner[1] + side))
        rate = len(_save(_noisy(patch, amount, shift), kind, quality)) * 8 / side**2
        if abs(rate - target) < 0.12 * target:
            break
        if rate < target:
            amount = min(7.0 * of.rate / _RATE, amount * min(1.9, (target / rate) ** 1.6))
        elif amount > 0.5:
            amount = max(0.5, amount * (target / rate) ** 1.2)
        else:
            blur = min(1.6, blur + 0.3)
    return _save(_noisy(smooth, amount, shift), kind, quality)


def load_set(name: str, count: int | None = None) -> list[bytes]:
    """Return the files of a set, or the first ``count``; the first call writes them to ``bench/.photos``."""
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{i:04d}.jpg" for i in range(SETS[name].count)][:count]
    if all(path.exists() for path in paths):
        return [path.read_bytes() for path in paths]
    photographs(), _noise_tile()  # computed once, before the threads need them

    def write(i: int) -> None:
        part = paths[i].with_suffix(".part")  # an interrupted run leaves no half file
        part.write_bytes(make(name, i))
        part.replace(paths[i])

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(write, [i for i, path in enumerate(paths) if not path.exists()]))
    return [path.read_bytes() for path in paths]


def summary_of_set(name: str, files: list[bytes]) -> dict[str, object]:
    """Describe the files of a set for a result, and compare them with the recorded hash."""
    pixels = np.array([np.prod(Image.open(io.BytesIO(data)).size) for data in files])
    rates = np.array([len(data) * 8 for data in files]) / pixels
    digest = hashlib.sha256(b"".join(files)).hexdigest()
    recorded = "yes" if digest == SETS[name].sha256 else "no: other versions of Pillow, NumPy or the photographs"
    recorded = recorded if len(files) == SETS[name].count else "a part of the set"
    return {
        "set": name,
        "count": len(files),
        "mean_bytes": round(float(np.mean([len(data) for data in files]))),
        "bits_per_pixel_p5_p50_p95": [round(float(rate), 2) for rate in np.percentile(rates, [5, 50, 95])],
        "sha256": digest,
        "as_recorded": recorded,
    }


def write_classes(files: list[bytes], folder: Path) -> list[str]:
    """Write files to folders of four classes, which leaves them in the page cache; return the paths."""
    paths = []
    for i, data in enumerate(files):
        path = folder / f"class {i % 4}" / f"{i:04d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        paths.append(str(path))
    return paths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, help="only the first files")
    parser.add_argument("--set", choices=[*SETS], default="S")
    options = parser.parse_args()
    print(json.dumps(summary_of_set(options.set, load_set(options.set, options.count)), indent=1))


if __name__ == "__main__":
    main()
