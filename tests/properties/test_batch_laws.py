"""The meaning of an argument does not depend on the number of images: a batch split in any way has the same pixels."""

import inspect
import re
from collections.abc import Callable
from itertools import compress
from typing import Any

import numpy as np
import pytest

import gpuimg as gi

from ..compare import assert_same
from ..operations.calls import CALLS
from ..random.test_every_random_function import ARGUMENTS
from ..samples import PUBLIC, file_of, pictures

N, PARTS = 13, [slice(0, 1), slice(1, 3), slice(3, 6), slice(6, 10), slice(10, 13)]
#: Shapes of a value, by the annotation or the name of its parameter.
SHAPES = {"Color": (3,), "Size": (2,), "Pair": (2,), "Padding": (4,), "PerImage": (), "Where": (), "Interpolation": (),
          "startpoints": (4, 2), "endpoints": (4, 2), "permutation": (3,), "boxes": (3, 4), "points": (3, 2),
          "masks": (2, 20, 24), "keypoints": (1, 2, 3), "tiles": (2,), "corners": (4, 2), "matrix": (3, 4),
          "channels": (3,)}  # fmt: skip
#: Of parameters that do not take whole numbers from 1 to 8: what is made of these.
MADE: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("p", "share", "hue_factor", "mean", "amount", "salt", "density", "opacity"), lambda v: v / 20),
    "channels": lambda v: v % 2, "size": lambda v: v + 2,
    **dict.fromkeys(("startpoints", "endpoints"), lambda v: np.add([(0, 0), (40, 0), (40, 40), (0, 40)], v)),
    "scale": lambda v: v * [0.01, 0.1] if v.ndim > 1 else v, "permutation": lambda v: np.argsort(v, 1),
    "where": lambda v: v % 2 == 0, "interpolation": lambda v: np.array(["nearest", "bilinear"])[v % 2],
    "kernel_size": lambda v: v % 3 * 2 + 1, "boxes": lambda v: np.add(v, [0, 0, 9, 9]), "keypoints": lambda v: v % 3,
    "masks": lambda v: v % 2, "matrix": lambda v: v / 9,
}  # fmt: skip
FIXED = ARGUMENTS | {"rgb_to_grayscale": (3,), "convert_bounding_box_format": (None, "xyxy", "xywh")}
Ints = Callable[..., Any]
#: Functions with other arguments: of images, a generator, and what draws whole numbers for each image.
OTHERS: dict[str, Callable[[Any, gi.Rng, Ints], Any]] = {
    "resize": lambda x, rng, ints: gi.resize(x, ints(), max_size=ints() + 8),
    "five_crop": lambda x, rng, ints: gi.five_crop(x, ints()).take(np.arange(len(x) * 5).reshape(5, -1).T.reshape(-1)),
    "ten_crop": lambda x, rng, ints: gi.ten_crop(x, ints(2)).take(np.arange(len(x) * 10).reshape(10, -1).T.reshape(-1)),
    "encode_batch": lambda x, rng, ints: [np.frombuffer(one, np.uint8) for one in gi.encode_batch(x, quality=ints())],
    "pointwise": lambda x, rng, ints: gi.pointwise(x, **CALLS["pointwise"].fixed, value=ints()),
    "normalize": lambda x, rng, ints: gi.normalize(x, (0.2, 0.3, 0.4), 0.2, where=ints() > 4),
    "median_blur": lambda x, rng, ints: gi.median_blur(x, ints() % 3 * 2 + 3, where=ints() > 3),
    "morphology": lambda x, rng, ints: gi.morphology(x, "open", ints(2), "ellipse", where=ints() > 3),
    "filter2d": lambda x, rng, ints: gi.filter2d(x, ints(3, 4) / 60, "constant", ints(3), where=ints() > 3),
    "emboss": lambda x, rng, ints: gi.emboss(x, ints() / 9, ints()),
    "lookup_table": lambda x, rng, ints: gi.lookup_table(x, ints(256, 3) * 20, where=ints() > 3),
    "grid_distortion": lambda x, rng, ints: gi.remap(x, gi.grid_distortion(x.sizes, ints(3), ints(4))),
    "optical_distortion": lambda x, rng, ints: gi.remap(x, gi.optical_distortion(x.sizes, ints() / 20, ints())),
    "thin_plate_spline": lambda x, rng, ints: gi.remap(
        x, gi.thin_plate_spline(x.sizes, ints(4, 2) / 9, [(0, 0), (1, 0), (0, 1), (1, 0.9)])),
    "remap": lambda x, rng, ints: gi.remap(x, ints(9, 7, 2) * 2.6, where=ints() > 3),
    "mixup": lambda x, rng, ints: gi.mixup(x, partner=gi.invert(x), rng=rng)[::2],
    "cutmix": lambda x, rng, ints: gi.cutmix(x, partner=gi.invert(x), rng=rng)[::2],
    "blend": lambda x, rng, ints: gi.blend(x, x, ints() / 9, partner=range(len(x)), rectangle=ints(4)),
    "mosaic": lambda x, rng, ints: gi.mosaic(
        x, ints() + 9, fill=ints(), partner=np.arange(len(x))[:, None] * [1, 1, 1], rng=rng).images,
    "copy_paste": lambda x, rng, ints: gi.copy_paste(
        x, ints(20, 24), ints() / 9, ints(), partner=range(len(x)), rng=rng)[:2],
}  # fmt: skip
OF_FILES = {"class_weights", "file_list", "load", "split", "open_clips", "random_clips", "open_batch", "decode_batch"}
FUNCTIONS = {  # with the annotations of parameters that take a value for each image
    name: {
        key: one.annotation
        for key, one in inspect.signature(getattr(gi, name)).parameters.items()
        if re.search(
            r"\b(PerImage|\w*Table\w*|\w+PerImage|Where|Interpolation|Color|Size|Pair|Padding)\b", one.annotation
        )
    }
    for name in PUBLIC
    if inspect.isfunction(getattr(gi, name)) and name not in OF_FILES
}


def form(value: Any, kind: str, k: int) -> Any:
    """One of the forms of a value of C numbers for each image: an array (N, C) or (N,), or a tuple of (N,)."""
    if k == 0 or not re.search("Color|Size|Pair|Padding", kind) or (k == 1 and "Pair" in kind):
        return value
    return value[:, 0] if k == 1 or "Color" in kind else tuple(value.T)


def results(name: str, k: int, x: gi.Batch, part: slice) -> list[list[Any]]:
    """All arrays of the results of ``x``, some of N images: a list for each part of a result."""
    drawn, rng = np.random.default_rng(k), gi.Rng(k, indices=np.arange(N)[part])
    if name in OTHERS:
        found = OTHERS[name](x, rng, lambda *shape: drawn.integers(1, 9, (N, *shape))[part])
    else:
        function, each = getattr(gi, name), {}
        keys = [*inspect.signature(function).parameters]
        for key, kind in FUNCTIONS[name].items():
            shape = SHAPES.get(key) or next(SHAPES[word] for word in re.findall(r"\w+", kind) if word in SHAPES)
            value = form(MADE.get(key, np.asarray)(drawn.integers(1, 9, (N, *shape))), kind, k)
            each[key] = tuple(one[part] for one in value) if isinstance(value, tuple) else value[part]
        fixed = dict(zip([key for key in keys if key != "images"], FIXED.get(name, ()), strict=False))
        found = function(**fixed | each | {key: v for key, v in (("images", x), ("rng", rng)) if key in keys})
    return [
        list(one.compute() if isinstance(one, gi.Batch) else one)
        for one in (found if isinstance(found, tuple) else [found])
    ]


NAMES = [name for name, kinds in FUNCTIONS.items() if kinds or "rng" in inspect.signature(getattr(gi, name)).parameters]


@pytest.mark.parametrize("k", range(3))
@pytest.mark.parametrize("name", NAMES)
def test_a_batch_split_in_any_way(name: str, k: int) -> None:
    images = pictures([(20, 24)] * N)
    parts = [results(name, k, gi.invert(images[part]), part) for part in PARTS]
    for i, expected in enumerate(results(name, k, gi.invert(images), slice(N))):
        assert_same([one for part in parts for one in part[i]], expected)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_cannot_be_read_leaves_the_others_as_they_are(name: str) -> None:
    good = [file_of(one, "PNG") for one in pictures([(20, 24)] * N)]
    found = [
        results(name, 0, gi.invert(gi.open_batch(files, device="cpu", on_error="fill")), slice(N))
        for files in (good, [*good[:4], b"no image", *good[5:]])
    ]
    for expected, given in zip(*found, strict=True):
        others = [one != 4 for one in range(N) for _ in range(len(expected) // N)]
        assert_same(list(compress(given, others)), list(compress(expected, others)))
        assert len(given) == len(expected)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("call", "width", "written"), [
    (lambda x, v: gi.rotate(x, 30, fill=v), 3, r"\(1, 3\) or a tuple"),
    (lambda x, v: gi.coarse_dropout(x, 9, value=v, p=1, rng=0), 3, r"\(1, 3\) or a tuple"),
    (lambda x, v: gi.resize(x, v), 2, r"\(height, width\) as a list or tuple, or as \(1, 2\)"),
    (lambda x, v: gi.affine(x, 0, (0, 0), 1, v), 2, r"\(x, y\) as a list or tuple"),
    (lambda x, v: gi.elastic(x, v, seed=1), 2, r"\(x, y\) as a list or tuple"),
    (lambda x, v: gi.pad(x, v), 2, r"\(x, y\) or .* as a list or tuple"),
    (lambda x, v: gi.pad(x, v), 4, r".* \(left, .* as a list or tuple"),
])  # fmt: skip
def test_an_array_is_a_value_for_each_image(call: Any, width: int, written: str, n: int) -> None:
    x, value = [pictures([(20, 24)])[0]] * n, np.arange(5, 5 + width)
    assert_same(list(call(x, value[None]).compute()), list(call(x, tuple(value)).compute()))
    if width == n:
        assert_same(call(x, value)[1], call(x, 6)[1])
        return
    with pytest.raises(ValueError, match=rf"not .*\({width},\); .*write {written}"):
        call(x, value)
