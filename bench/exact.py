"""Resizes alone: their time compared with Pillow's, torch's and float32's.

    python -m bench.exact [--rounds 5] [--out bench/results/exact.json]

Microseconds of CPU time per image, color bytes to bytes, of the installed Pillow, of torch on uint8 in both layouts
where it is installed, and of gpuimg with and without ``exact``, contenders in turn, medians of the rounds. Before
timing, all bytes of ``exact`` are compared with Pillow's and torch's. Run it on one core: ``taskset -c 1``.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import PIL
from numpy.typing import NDArray
from PIL import Image

import gpuimg as gi
from bench import common

_SIZES: tuple[tuple[tuple[int, int], tuple[int, int], tuple[Any, ...], int], ...] = (
    ((375, 500), (224, 224), ("bilinear", "bicubic", "lanczos", "box"), 32),  # source, result, filters, images
    ((375, 500), (384, 384), ("bicubic",), 32),
    ((375, 500), (750, 1000), ("bicubic",), 8),
    ((1536, 2048), (756, 1008), ("bilinear", "bicubic", "lanczos"), 4),
    ((3000, 4000), (224, 224), ("bilinear", "bicubic"), 2),
)
_RULE: Any = "pillow" if int(PIL.__version__.split(".")[0]) >= 13 else "pillow12"


def contenders(images: NDArray[np.uint8], size: tuple[int, int], name: Any) -> dict[str, Callable[[], Any]]:
    pictures, out = [Image.fromarray(image) for image in images], np.empty((len(images), *size, 3), np.uint8)
    found: dict[str, Callable[[], Any]] = {
        "exact": lambda: gi.resize(images, size, name, exact=_RULE).array(out=out),
        "float32": lambda: gi.resize(images, size, name).array(out=out),
        "pillow": lambda: [np.asarray(one.resize(size[::-1], Image.Resampling[name.upper()])) for one in pictures],
    }
    try:
        import torch
    except ImportError:
        return found
    if name in ("bilinear", "bicubic", "lanczos"):
        torch.set_num_threads(1)
        found["exact_torch"] = lambda: gi.resize(images, size, name, exact="torch").array(out=out)
        last = torch.from_numpy(images).permute(0, 3, 1, 2)
        for layout, tensor in (("torch_nhwc", last), ("torch_nchw", last.contiguous())):
            found[layout] = partial(torch.nn.functional.interpolate, tensor, size, mode=name, antialias=True)
    return found


def main() -> None:
    options = common.arguments(__doc__, "exact.json").parse_args()
    rng, rows = np.random.default_rng(0), []
    for source, size, filters, count in _SIZES:
        images = rng.integers(0, 256, (count, *source, 3), np.uint8)  # no contender depends on the contents
        for name in filters:
            runs = contenders(images, size, name)
            np.testing.assert_array_equal(runs["exact"](), np.stack(runs["pillow"]()))
            if "exact_torch" in runs:
                theirs = np.moveaxis(runs["torch_nchw"]().numpy(), 1, -1)
                np.testing.assert_array_equal(runs["exact_torch"](), theirs)
            _, worked = common.interleaved(runs, options.rounds)
            ratio, spread = common.ratio(worked["pillow"], worked["exact"])
            micros = {key: round(float(np.median(s)) / count * 1e6) for key, s in worked.items()}
            rows.append({
                "source": source, "result": size, "filter": name, "microseconds": micros,
                "pillow_over_exact": ratio, "pillow_over_exact_range": spread,
            })  # fmt: skip
            print(rows[-1], flush=True)
    common.write(common.environment({}, options.rounds) | {"rows": rows}, options.out)


if __name__ == "__main__":
    main()
