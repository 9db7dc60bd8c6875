"""Batches of presets, operations and decoding, written to a file and compared: equal whatever compiled the loops.

``python -m tests.compiled.native_results write FILE``, then ``... compare ONE OTHER``.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import gpuimg as gi

FILES = sorted(map(str, (Path(__file__).parents[2] / "examples" / "photos").glob("*.jpg")))
KINDS = (("float32", "NCHW"), ("uint8", "NHWC"), ("float16", "NCHW"))  # bytes only of what is not normalized

#: Operations on batches of one size, by name.
OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "rotate": lambda x: gi.rotate(x, 17.0),
    "affine": lambda x: gi.affine(x, angle=-8.0, translate=(3.0, -5.0), scale=1.1, shear=(4.0, 0.0)),
    "brightness": lambda x: gi.adjust_brightness(x, 1.3),
    "contrast": lambda x: gi.adjust_contrast(x, 0.7),
    "saturation": lambda x: gi.adjust_saturation(x, 1.6),
    "hue": lambda x: gi.adjust_hue(x, 0.2),
    "hsv": lambda x: gi.adjust_hsv(x, -0.1, 1.5, 0.8),
    "gamma": lambda x: gi.adjust_gamma(x, 0.8),
    "sharpness": lambda x: gi.adjust_sharpness(x, 1.7),
    "autocontrast": gi.autocontrast,
    "equalize": gi.equalize,
    "invert": gi.invert,
    "posterize": lambda x: gi.posterize(x, 3),
    "solarize": lambda x: gi.solarize(x, 0.4),
    "solarize add": lambda x: gi.solarize_add(x, 0.2, 0.5),
    "grayscale": gi.rgb_to_grayscale,
    "blur": lambda x: gi.gaussian_blur(x, 7, 1.5),
    "flip": gi.horizontal_flip,
    "pad": lambda x: gi.pad(x, 9, padding_mode="reflect"),
    "nearest": lambda x: gi.resize(x, (97, 131), "nearest"),
    "bicubic": lambda x: gi.resize(x, (97, 131), "bicubic"),
    "larger": lambda x: gi.resize(x, (400, 500), "bilinear"),
}
PRESETS = ("imagenet_train", "deit3_train", "simclr", "ssd_train", "imagenet_eval")


def results() -> Iterator[tuple[str, Any]]:
    """Batches by name."""

    def photos() -> Any:
        return gi.open_batch(FILES, device="cpu")

    for name in PRESETS:
        for seed in range(1 if name.endswith("eval") else 3):
            drawn = () if name.endswith("eval") else (gi.Rng(seed, indices=range(len(FILES))),)
            batch = getattr(gi.presets, name)()(photos(), *drawn)
            for dtype, layout in KINDS:
                if dtype == "uint8" and batch.normalized:
                    continue
                yield f"{name} {seed} {dtype}", batch.array(dtype, layout)
    small = gi.resize(photos(), (160, 192))
    for name, function in OPERATIONS.items():
        yield name, function(small).array("float32", "NHWC")
    for color in ("rgb", "gray"):
        for k, image in enumerate(gi.decode_batch(FILES, device="cpu", color=color).arrays()):
            yield f"decoded {color} {k}", image


def main(what: str, *files: str) -> str | None:
    """Write results, or return the first difference of two files."""
    if what == "write":
        from gpuimg.kernels import native

        found = {name: np.asarray(batch) for name, batch in results()}
        np.savez(files[0], **found)  # type: ignore[arg-type]
        print(f"{len(found)} results of {sum(array.size for array in found.values())} values: {native.describe()}")
        return None
    with np.load(files[0]) as a, np.load(files[1]) as b:
        if set(a.files) != set(b.files):
            return f"other results: {sorted(set(a.files) ^ set(b.files))}"
        for name in a.files:
            if not np.array_equal(a[name], b[name], equal_nan=a[name].dtype.kind == "f"):
                return f"{name}: {int(np.sum(a[name] != b[name]))} of {a[name].size} values differ"
    return None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
