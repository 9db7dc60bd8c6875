"""Windows, CLAHE, tables and positions by gpuimg and by OpenCV; noise and weather by gpuimg and by AlbumentationsX.

    python -m bench.areas [--rounds 7] [--out bench/results/areas.json]

CPU time of one thread per image: photos of 500 x 375 and 1280 x 960 pixels, RGB uint8, in memory, 64 or 16 at a time,
16 or 4 of noise and weather, into memory that is used again. Then a chain of three operations after `train` (decode,
random crop and resize to 224, flip), from JPEG files in memory. Before timing, results are compared: the bytes are
equal, except of kernels with sides above 10, which OpenCV sums by a Fourier transform. Noise and weather have like
parameters, but not the same results.
"""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import albumentations
import cv2
import numpy as np

import gpuimg as gi
from bench import common, photos

_BATCHES = {(375, 500): 64, (960, 1280): 16}
_DRAWN = np.random.default_rng(0)
_WEIGHTS = {side: _DRAWN.random((side, side)).astype(np.float32) / side**2 for side in (3, 5, 7, 9, 15, 31)}
_CURVE = (255 * np.linspace(0, 1, 256) ** 0.7).astype(np.uint8)
_SHAPES = {"rectangle": cv2.MORPH_RECT, "cross": cv2.MORPH_CROSS, "ellipse": cv2.MORPH_ELLIPSE}

Both = tuple[Callable[[Any], gi.Batch], Callable[[Any, Any], object]]


def _clahe(image: Any, out: Any, equalizer: Any = None) -> None:
    parts = cv2.cvtColor(image, cv2.COLOR_RGB2YCrCb)
    luma = cv2.createCLAHE(2.0, (8, 8)).apply(np.ascontiguousarray(parts[..., 0]))
    parts[..., 0] = luma
    cv2.cvtColor(parts, cv2.COLOR_YCrCb2RGB, out)


def operations(height: int, width: int) -> dict[str, Both]:
    """Return each operation by gpuimg, of a batch, and by OpenCV, of an image and memory for the result."""
    grid = gi.optical_distortion((height, width), 0.1)
    found: dict[str, Both] = {
        "lookup table": (lambda x: gi.lookup_table(x, _CURVE), lambda image, out: cv2.LUT(image, _CURVE, out)),
        "clahe": (lambda x: gi.clahe(x, 2.0), _clahe),
        "remap": (
            lambda x: gi.remap(x, grid, padding_mode="edge"),
            lambda image, out: cv2.remap(image, grid, None, cv2.INTER_LINEAR, out, cv2.BORDER_REPLICATE),
        ),
    }
    for side in (3, 5, 7):
        found[f"median {side}"] = partial(gi.median_blur, kernel_size=side), partial(_median, side)
    for side, kernel in _WEIGHTS.items():
        found[f"filter {side}"] = partial(gi.filter2d, kernel=kernel), partial(_filter, kernel)
    found["box 31"] = partial(gi.box_blur, kernel_size=31), partial(_filter, np.full((31, 31), 1 / 961, np.float32))
    for shape, code in _SHAPES.items():
        for side in (3, 7, 15, 31):
            window = cv2.getStructuringElement(code, (side, side))
            dilated = partial(gi.morphology, kind="dilate", kernel_size=side, shape=shape)
            found[f"dilate {side} {shape}"] = dilated, partial(_dilate, window)
    return found


def _median(side: int, image: Any, out: Any) -> None:
    cv2.medianBlur(image, side, out)


def _filter(kernel: Any, image: Any, out: Any) -> None:
    cv2.filter2D(image, -1, kernel, out)


def _dilate(window: Any, image: Any, out: Any) -> None:
    cv2.dilate(image, window, out)


#: By gpuimg, of a batch, and by albumentations.
DRAWN: dict[str, tuple[Callable[[Any], gi.Batch], Any]] = {
    "gaussian noise": (partial(gi.random_gaussian_noise, sigma=0.1, rng=0), albumentations.GaussNoise((0.1, 0.1), p=1)),
    "salt and pepper": (
        partial(gi.random_salt_and_pepper, amount=0.05, p=1, rng=0),
        albumentations.SaltAndPepper((0.05, 0.05), p=1),
    ),
    "shot noise": (partial(gi.random_shot_noise, photons=10, p=1, rng=0), albumentations.ShotNoise((0.1, 0.1), p=1)),
    "fog": (partial(gi.random_fog, density=0.4, p=1, rng=0), albumentations.RandomFog(fog_coef_range=(0.4, 0.4), p=1)),
    "rain": (partial(gi.random_rain, p=1, rng=0), albumentations.RandomRain(p=1)),
    "shadow": (
        partial(gi.random_shadow, count=1, p=1, rng=0),
        albumentations.RandomShadow(num_shadows_range=(1, 1), p=1),
    ),
    "RGB shift": (partial(gi.random_rgb_shift, p=1, rng=0), albumentations.RGBShift(p=1)),
    "channel dropout": (partial(gi.random_channel_dropout, p=1, rng=0), albumentations.ChannelDropout((1, 1), p=1)),
    "emboss": (partial(gi.random_emboss, p=1, rng=0), albumentations.Emboss(p=1)),
}


def drawn(images: Any, ours: Callable[[Any], gi.Batch], theirs: Any) -> dict[str, Callable[[], object]]:
    out = np.empty_like(images)
    return {
        "gpuimg": lambda: ours(images).array(out=out),
        "albumentationsx": lambda: [theirs(image=image)["image"] for image in images],
    }


def contenders(images: Any, both: Both) -> dict[str, Callable[[], object]]:
    ours, theirs = both
    out, other = np.empty_like(images), np.empty_like(images)

    def by_gpuimg() -> None:
        ours(images).array(out=out)

    def by_opencv() -> None:
        for image, one in zip(images, other, strict=True):
            theirs(image, one)

    by_gpuimg()
    by_opencv()
    assert np.abs(out.astype(int) - other).max() <= 1
    return {"gpuimg": by_gpuimg, "opencv": by_opencv}


def training(files: list[bytes]) -> dict[str, Callable[[], object]]:
    """Three operations after the crop, and the same by OpenCV, step by step."""
    out, n = np.empty((len(files), 224, 224, 3), np.uint8), len(files)
    boxes = np.random.default_rng(0).uniform(0.1, 0.4, (n, 2))
    flips, median = np.arange(n) % 2 == 0, _WEIGHTS[5]

    def by_gpuimg() -> None:
        x = gi.open_batch(files, device="cpu")
        top, left = (x.sizes * boxes).astype(int).T
        height, width = (x.sizes * 0.5).astype(int).T
        x = gi.resized_crop(x, top, left, height, width, (224, 224), antialias=False)
        x = gi.horizontal_flip(x, where=flips)
        gi.filter2d(gi.median_blur(gi.clahe(x, 2.0), 5), median).array(out=out)

    def by_opencv() -> None:
        for k, data in enumerate(files):
            image: Any = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR_RGB)
            h, w = image.shape[:2]
            top, left = (np.array([h, w]) * boxes[k]).astype(int)
            image = cv2.resize(image[top : top + h // 2, left : left + w // 2], (224, 224))
            image = cv2.flip(image, 1) if flips[k] else image
            one = np.empty_like(image)
            _clahe(image, one)
            cv2.filter2D(cv2.medianBlur(one, 5), -1, median, out[k])

    return {"gpuimg": by_gpuimg, "opencv": by_opencv}


def main() -> None:
    options = common.arguments(__doc__, "areas.json", rounds=7).parse_args()
    os.environ["GPUIMG_NUM_THREADS"] = "1"
    cv2.setNumThreads(1)
    files, rows = photos.load_set("S", 64), []

    def measured(name: str, size: tuple[int, int], count: int, runs: dict[str, Callable[[], object]]) -> None:
        _, worked = common.interleaved(runs, options.rounds)
        other = next(key for key in runs if key != "gpuimg")
        rows.append({
            "operation": name, "size": size, "over_gpuimg": common.ratio(worked[other], worked["gpuimg"]),
            "microseconds": {key: round(float(np.median(s)) / count * 1e6, 1) for key, s in worked.items()},
        })  # fmt: skip
        print(rows[-1], flush=True)

    for size, count in _BATCHES.items():
        pictures = gi.resize(gi.decode_batch(files[:count], device="cpu"), size).array()
        for name, both in operations(*size).items():
            measured(name, size, count, contenders(pictures, both))
        for name, (ours, theirs) in DRAWN.items():
            measured(name, size, count // 4, drawn(pictures[: count // 4], ours, theirs))
    measured("clahe, median 5, filter 5 after train", (224, 224), len(files), training(files))
    common.write(
        common.environment({"set": "S", "count": 64}, options.rounds, len(files)) | {"rows": rows}, options.out
    )


if __name__ == "__main__":
    main()
