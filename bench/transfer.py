"""Savings from sending compressed images, and the cost of reading them from each format.

    python -m bench.transfer [--rounds 5] [--large-rounds 3] [--photos 512] [--out bench/results/transfer.json]

- images: a photo of 2000 x 2000 and random numbers of 10000 x 10000, raw and as JPEGs of quality 95, 90, 80 and 70
  (Pillow, 4:2:0): bytes; milliseconds for one image of decoding on the CPU, and of a copy in memory. ``cpu_ms`` is the
  time of all threads on a core, for a machine that has other work;
- arithmetic: bytes over the nominal rate of a bus, a network or a disk. None of that is measured;
- formats: images/s of ``train`` from files, tar, LMDB, TFRecord, RecordIO and Parquet, in the page cache.

The photo is a collage of 3 x 3 scenes from the photographs of ``bench.photos``, cropped and resized, with a sensor's
noise. The same noise and scenes in every run.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import gpuimg as gi
from bench import common, formats, photos

QUALITIES = (95, 90, 80, 70)
BATCH = 16  # images of a decoded batch
_PHOTO_SIDE, _LARGE_SIDE = 2000, 10000
_PANES, _NOISE = 3, 2.0  # levels

# PCI Express: transfers/s of a lane, of which 128 bits in 130 are data, over 16 lanes; nothing for its packets.
_LANES, _CODE = 16, 128 / 130
RATES: dict[str, float] = {  # bytes/s
    "PCIe 3.0 x16": _LANES * 8e9 * _CODE / 8,
    "PCIe 4.0 x16": _LANES * 16e9 * _CODE / 8,
    "PCIe 5.0 x16": _LANES * 32e9 * _CODE / 8,
    "network, 10 Gbit/s": 10e9 / 8,
    "disk, 200 MB/s": 200e6,
}

Pixels = NDArray[np.uint8]
Runs = dict[str, Callable[[], object]]


def random_pixels(side: int) -> Pixels:
    """Return uniform random bytes, the worst case of a JPEG."""
    return np.random.default_rng(0).integers(0, 256, (side, side, 3), np.uint8)


def encoded(pixels: Pixels, quality: int) -> bytes:
    """Encode a JPEG as most programs do."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=quality, subsampling="4:2:0")
    return file.getvalue()


def _versions(pixels: Pixels, quality: int, count: int) -> list[bytes]:
    """Return files of the image and of shifted copies, so that no file is decoded twice in a batch."""
    return [encoded(np.roll(pixels, (37 * k, 53 * k), (0, 1)), quality) for k in range(count)]


# -- timed functions ---------------------------------------------------------------------------------------------------


def _on_cpu(files: list[bytes]) -> Runs:
    """Return the ways of decoding on the CPU: gpuimg, one and many at a time, and OpenCV, to which the claim refers."""
    runs: Runs = {"CPU, gpuimg": lambda: gi.decode_batch(files[:1], device="cpu")}
    if len(files) > 1:
        runs["CPU, gpuimg in a batch"] = lambda: gi.decode_batch(files, device="cpu")
    if find_spec("cv2"):
        import cv2

        file = np.frombuffer(files[0], np.uint8)
        runs["CPU, OpenCV"] = lambda: cv2.imdecode(file, cv2.IMREAD_COLOR)
    return runs


# -- compressed images -------------------------------------------------------------------------------------------------


def images(pixels: Pixels, rounds: int, batch: int) -> dict[str, Any]:
    """Measure an image raw and at each quality."""
    files = {f"q{quality}": _versions(pixels, quality, batch) for quality in QUALITIES}
    copy = np.empty_like(pixels)
    runs: dict[tuple[str, str], Callable[[], object]] = {("raw", "copy in memory"): lambda: np.copyto(copy, pixels)}
    runs |= {(name, way): run for name, some in files.items() for way, run in _on_cpu(some).items()}
    walls, worked = common.interleaved(runs, rounds)
    result: dict[str, Any] = {"raw": {"bytes": pixels.nbytes}}
    result |= {name: _sizes(pixels, some[0]) for name, some in files.items()}
    for name, entry in result.items():
        ways = [way for of, way in runs if of == name]
        entry["ms"] = {way: _milliseconds(walls[name, way], way, batch) for way in ways}
        entry["cpu_ms"] = {way: _milliseconds(worked[name, way], way, batch) for way in ways}
    return result


def _sizes(pixels: Pixels, file: bytes) -> dict[str, Any]:
    return {
        "bytes": len(file),
        "raw_bytes_over_these": round(pixels.nbytes / len(file), 2),
        "bits_per_pixel": round(8 * len(file) * 3 / pixels.nbytes, 2),
    }


def _milliseconds(seconds: list[float], way: str, batch: int) -> float:
    """Return the median milliseconds of one image."""
    return round(1e3 * float(np.median(seconds)) / (batch if way.endswith("in a batch") else 1), 3)


def arithmetic(sizes: dict[str, int]) -> dict[str, dict[str, float]]:
    """Return the milliseconds that bytes take at nominal rates."""
    return {name: {way: round(1e3 * size / rate, 3) for way, rate in RATES.items()} for name, size in sizes.items()}


def _with_arithmetic(found: dict[str, Any]) -> dict[str, Any]:
    """Return the measurements together with the arithmetic."""
    sizes = {name: int(entry["bytes"]) for name, entry in found.items()}
    return {**found, "arithmetic, not measured: ms at nominal rates": arithmetic(sizes)}


def main() -> None:
    """Measure, print, and write the result."""
    parser = common.arguments(__doc__, "transfer.json", 5)
    parser.add_argument("--large-rounds", type=int, default=3, help="of the random image")
    parser.add_argument("--photos", type=int, default=photos.COUNT, help="in each format")
    parser.add_argument(
        "--sides", type=int, nargs=2, default=(_PHOTO_SIDE, _LARGE_SIDE), help="of photo and random image"
    )
    options = parser.parse_args()
    side, large = options.sides
    files = photos.load(options.photos)
    result = common.environment(photos.summary(files), options.rounds, BATCH)
    result["nominal bytes/s"] = {name: round(rate) for name, rate in RATES.items()}
    photo = photos.collage((side, side), _PANES, _NOISE)
    result[f"photo {side} x {side}"] = _with_arithmetic(images(photo, options.rounds, BATCH))
    result[f"random {large} x {large}"] = _with_arithmetic(images(random_pixels(large), options.large_rounds, 1))
    with tempfile.TemporaryDirectory() as folder:
        result["formats"] = formats.measure(files, Path(folder), options.rounds)
    common.write(result, options.out)


if __name__ == "__main__":
    main()
