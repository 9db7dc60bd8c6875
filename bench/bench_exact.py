"""Exact resizes: equal to Pillow in every byte, and their time compared with Pillow's, torch's and float32's.

    python -m bench.bench_exact [--rounds 7] [--out bench/results/exact.json]
    python -m bench.bench_exact --values 1e9 [--out bench/results/exact-values.json]

The first measures microseconds of CPU time per image of a resize alone, color bytes to bytes, of the installed Pillow,
of torch on uint8 in both layouts where it is installed, and of gpuimg with and without ``exact``, contenders in turn,
medians of the rounds. Run it on one core: ``taskset -c 1``.

The second resizes images of random sizes, contents, channels (1, 3, 4) and filters until that number of
values is compared, and counts those that differ from Pillow's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import PIL
from numpy.typing import NDArray
from PIL import Image

import gpuimg as gi
from bench import common

_FILTERS = {name: Image.Resampling[name.upper()] for name in ("bilinear", "bicubic", "lanczos", "box", "hamming")}
_SIZES = (  # source, result, filters, images of a batch
    ((375, 500), (224, 224), ("bilinear", "bicubic", "lanczos", "box"), 32),
    ((375, 500), (384, 384), ("bicubic",), 32),
    ((375, 500), (750, 1000), ("bicubic",), 8),
    ((1536, 2048), (756, 1008), ("bilinear", "bicubic", "lanczos"), 4),
    ((3000, 4000), (224, 224), ("bilinear", "bicubic"), 2),
)
_MOST = 700  # pixels of a side of the images that are compared

Pixels = NDArray[np.uint8]


def contenders(images: Pixels, size: tuple[int, int], name: str) -> dict[str, Callable[[], Any]]:
    """Return what is measured, by name."""
    pictures = [Image.fromarray(image) for image in images]
    out = np.empty((len(images), *size, 3), np.uint8)
    rule: Any = "pillow"
    found: dict[str, Callable[[], Any]] = {
        "exact": lambda: gi.resize(images, size, name, exact=rule).array(out=out),  # type: ignore[arg-type]
        "float32": lambda: gi.resize(images, size, name).array(out=out),  # type: ignore[arg-type]
        "pillow": lambda: [np.asarray(one.resize(size[::-1], _FILTERS[name])) for one in pictures],
    }
    try:
        import torch
    except ImportError:
        return found
    if name in ("bilinear", "bicubic", "lanczos"):
        torch.set_num_threads(1)
        last = torch.from_numpy(images).permute(0, 3, 1, 2)
        for layout, tensor in (("torch_nhwc", last), ("torch_nchw", last.contiguous())):
            found[layout] = partial(torch.nn.functional.interpolate, tensor, size, mode=name, antialias=True)
    return found


def speed(rounds: int) -> list[dict[str, Any]]:
    """Measure all sizes and filters."""
    rng = np.random.default_rng(0)
    rows = []
    for source, size, filters, count in _SIZES:
        # Smooth, as photos are: no contender depends on the contents.
        images = rng.integers(0, 256, (count, *source, 3), np.uint8)
        for name in filters:
            runs = contenders(images, size, name)
            _, worked = common.interleaved(runs, rounds)
            micros = {key: round(float(np.median(one)) / count * 1e6) for key, one in worked.items()}
            of_pillow, of_pillow_range = common.ratio(worked["pillow"], worked["exact"])
            of_float, of_float_range = common.ratio(worked["float32"], worked["exact"])
            rows.append(
                {
                    "source": source, "result": size, "filter": name, "microseconds": micros,
                    "pillow_over_exact": of_pillow, "pillow_over_exact_range": of_pillow_range,
                    "float32_over_exact": of_float, "float32_over_exact_range": of_float_range,
                }
            )  # fmt: skip
            print(rows[-1], flush=True)
    return rows


def compare(values: int, seed: int) -> dict[str, Any]:
    """Compare with Pillow until this number of values is compared."""
    rng = np.random.default_rng(seed)
    rule: Any = "pillow" if int(PIL.__version__.split(".")[0]) >= 13 else "pillow12"
    compared = differing = images = 0
    begin = time.perf_counter()
    while compared < values:
        name = list(_FILTERS)[rng.integers(len(_FILTERS))]
        channels = int(rng.choice([1, 3, 3, 4]))
        size = tuple(_side(rng) for _ in range(2))
        pictures = [_content(rng, _side(rng), _side(rng), channels) for _ in range(4)]
        results = gi.resize(pictures, size, name, exact=rule).array()  # type: ignore[arg-type]
        for picture, result in zip(pictures, results, strict=True):
            given = Image.fromarray(picture[:, :, 0] if channels == 1 else picture)
            expected = np.asarray(given.resize(size[::-1], _FILTERS[name])).reshape(result.shape)
            differing += int(np.count_nonzero(result != expected))
            compared += result.size
            images += 1
    return {
        "pillow": PIL.__version__,
        "rule": rule,
        "seed": seed,
        "images": images,
        "values": compared,
        "differing": differing,
        "seconds": round(time.perf_counter() - begin),
    }


def _side(rng: np.random.Generator) -> int:
    """Return a length, as often small as large."""
    return 1 if rng.integers(40) == 0 else round(float(np.exp(rng.uniform(0.0, np.log(_MOST)))))


def _content(rng: np.random.Generator, height: int, width: int, channels: int) -> Pixels:
    """Return noise, extremes (overshoot), or neighbors that differ by a level (sums near halves)."""
    shape = height, width, channels
    kind = rng.integers(3)
    if kind == 0:
        return rng.integers(0, 256, shape, dtype=np.uint8)
    values = rng.integers(0, 2, shape, dtype=np.uint8)
    return values * np.uint8(255) if kind == 1 else values + np.uint8(rng.integers(0, 255))


def main() -> None:
    """Measure or compare, print, and write the result."""
    parser = common.arguments(__doc__, "exact.json")
    parser.add_argument("--values", type=float, help="compare this number of values instead")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.values:
        default = options.out == common.RESULTS / "exact.json"
        out: Path = common.RESULTS / "exact-values.json" if default else options.out
        common.write(compare(int(options.values), options.seed), out)
        return
    versions = {name: version(name) for name in ("gpuimg", "numpy", "numba", "pillow")}
    common.write(
        {
            "processor": common.processor(),
            "versions": versions,
            "rounds": options.rounds,
            "rows": speed(options.rounds),
        },
        options.out,
    )


if __name__ == "__main__":
    main()
