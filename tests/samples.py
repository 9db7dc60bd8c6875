"""Images and files for the tests: awkward sizes, both dtypes, arrays of every memory layout, and files of Pillow."""

import io
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import gpuimg

ROOT = Path(__file__).parents[1]
#: What type checkers do not see: modules' names in gpuimg.
PUBLIC: list[str] = vars(gpuimg)["__all__"]

#: Photos, as paths.
PHOTOS = sorted((ROOT / "examples" / "photos").glob("*.jpg"))

#: dtype and channels; with 52 images each a test sees 208.
KINDS = [("uint8", 1), ("uint8", 3), ("float32", 1), ("float32", 3)]
kinds = pytest.mark.parametrize(("dtype", "channels"), KINDS)
PER_KIND = 52

SIZES = [
    (1, 1), (1, 9), (11, 1), (2, 2), (3, 5), (31, 32), (32, 33), (33, 31), (32, 32),
    (13, 47), (40, 17), (7, 64), (25, 25),
]  # fmt: skip

BUILDS = ["contiguous", "strided", "offset", "read-only", "reversed", "transposed"]


def image(rng: np.random.Generator, height: int, width: int, channels: int, dtype: str) -> NDArray[Any]:
    """Noise, the hardest image for a filter."""
    shape = (height, width, channels)
    return rng.integers(0, 256, shape, np.uint8) if dtype == "uint8" else rng.random(shape, np.float32)


def pictures(sizes: Sequence[tuple[int, int]] = SIZES, dtype: str = "uint8", channels: int = 3) -> list[NDArray[Any]]:
    """Noise of these heights and widths, new in each call."""
    rng = np.random.default_rng()
    return [image(rng, height, width, channels, dtype) for height, width in sizes]


def smooth(height: int, width: int) -> Image.Image:
    """A colored image without edges, as photos are mostly; new in each call."""
    coarse = np.random.default_rng().integers(0, 256, (4, 5, 3), np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


def gray(*rows: list[int]) -> NDArray[np.uint8]:
    """One one-channel image by its rows."""
    return np.array(rows, np.uint8)[None, ..., None]


def rows(batch: Any) -> Any:
    return batch[0][..., 0].tolist()


def rebuilt(pixels: NDArray[Any], build: str) -> NDArray[Any]:
    """The same pixels in an array that lies differently in memory."""
    if build == "strided":
        wide = np.zeros((*pixels.shape[:-2], 2 * pixels.shape[-2], pixels.shape[-1] + 1), pixels.dtype)
        wide[..., ::2, :-1] = pixels
        return wide[..., ::2, :-1]
    if build == "offset":
        memory = np.zeros(pixels.nbytes + pixels.itemsize, np.uint8)
        view = memory[pixels.itemsize :].view(pixels.dtype).reshape(pixels.shape)
        view[:] = pixels
        return view
    if build == "read-only":
        copy = pixels.copy()
        copy.flags.writeable = False
        return copy
    if build == "reversed":
        return pixels[..., ::-1, ::-1, :].copy()[..., ::-1, ::-1, :]
    if build == "transposed":
        return pixels.swapaxes(-3, -2).copy().swapaxes(-3, -2)
    return pixels.copy()


def images(rng: np.random.Generator, dtype: str, channels: int, count: int = PER_KIND) -> list[NDArray[Any]]:
    """Images that go through every size and every build."""
    return [
        rebuilt(image(rng, *SIZES[i % len(SIZES)], channels, dtype), BUILDS[(i // 2) % len(BUILDS)])
        for i in range(count)
    ]


def pictures_of(rng: np.random.Generator, dtype: str, channels: int) -> list[NDArray[Any]]:
    """Noise, in every third image of a narrow range, in every fifth with equal channels."""
    pictures = images(rng, dtype, channels)
    for i, image in enumerate(pictures):
        if i % 3 == 0:
            pictures[i] = (image // 4 + 60).astype(dtype) if dtype == "uint8" else image * np.float32(0.25) + 0.3
        if i % 5 == 0:
            pictures[i] = np.repeat(image[..., :1], channels, axis=2)
    return pictures


def file_of(image: Image.Image | NDArray[Any], form: str = "JPEG", **options: Any) -> bytes:
    """Encode an image with Pillow; return the bytes of the file."""
    file = io.BytesIO()
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(file, form, **options)
    return file.getvalue()


def write_files(root: Path, files: Mapping[str, bytes]) -> Path:
    """Files in a folder, by their paths below it; return the folder."""
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


def with_orientation(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


def png_chunk(name: bytes, body: bytes) -> bytes:
    """A chunk of a PNG file, with its length and checksum."""
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
