"""Batches of presets, operations and decoding, written to a file and compared: equal whatever compiled the loops.

``python -m tests.compiled.native_results write FILE``, then ``... compare ONE OTHER``.
"""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import gpuimg as gi

FILES = sorted(map(str, (Path(__file__).parents[2] / "examples" / "photos").glob("*.jpg")))
KINDS = (("float32", "NCHW"), ("uint8", "NHWC"), ("float16", "NCHW"))  # bytes only of what is not normalized

#: Functions of batches of one size, and what they are given.
OPERATIONS: tuple[tuple[Any, ...], ...] = (
    ("rotate", 17.0), ("affine", -8.0, (3.0, -5.0), 1.1, (4.0, 0.0)), ("adjust_brightness", 1.3),
    ("adjust_contrast", 0.7), ("adjust_saturation", 1.6), ("adjust_hue", 0.2), ("adjust_hsv", -0.1, 1.5, 0.8),
    ("adjust_gamma", 0.8), ("adjust_sharpness", 1.7), ("autocontrast",), ("equalize",), ("invert",), ("posterize", 3),
    ("solarize", 0.4), ("solarize_add", 0.2, 0.5), ("rgb_to_grayscale",), ("gaussian_blur", 7, 1.5),
    ("horizontal_flip",), ("pad", 9, 0, "reflect"), ("resize", (97, 131), "nearest"), ("resize", (97, 131), "bicubic"),
    ("resize", (400, 500), "bilinear"), ("median_blur", 3), ("median_blur", 5), ("median_blur", 7), ("clahe", 2.0),
    ("morphology", "open", (5, 9), "ellipse"), ("morphology", "dilate", 7), ("box_blur", 13), ("laplacian",),
    ("filter2d", np.linspace(-0.2, 0.4, 15).reshape(3, 5)), ("lookup_table", 255 - np.arange(256)),
    ("salt_and_pepper", 0.1), ("shot_noise", 30.0), ("fog", 0.4, 30.0), ("rain", 0.7),
    ("shadow", np.eye(5)[:, :2] * 90), ("color_matrix", np.linspace(-0.3, 1, 12).reshape(3, 4)),
    ("remap", np.linspace((-9, -9), (200, 170), 999).reshape(27, 37, 2)),
)  # fmt: skip
PRESETS = ("imagenet_train", "deit3_train", "simclr", "ssd_train", "imagenet_eval")


def results() -> Iterator[tuple[str, Any]]:
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
    for name, *given in OPERATIONS:
        function = getattr(gi, name)
        seeds = {"seed": range(len(FILES))} if "seed" in inspect.signature(function).parameters else {}
        yield f"{name} {given}", function(small, *given, **seeds).array("float32", "NHWC")
    for color in ("rgb", "gray"):
        for k, image in enumerate(gi.decode_batch(FILES, device="cpu", color=color).arrays()):
            yield f"decoded {color} {k}", image


def main(what: str, *files: str) -> str | None:
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
