"""Plans as files, applied to other images, and told in words."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gpuimg as gi

from ..compare import assert_same
from ..operations.calls import CALLS
from ..samples import image, images


def everything(x: Any) -> gi.Batch:
    """A chain with statistics over several grids, neighbours, stages and different ops for each image."""
    x = gi.adjust_contrast(gi.resize(x, (40, 30)), 1.4)
    x = gi.equalize(gi.rotate(x, np.linspace(-40, 40, len(x)), "bilinear", fill=(9, 80, 200)))
    x = gi.gaussian_blur(gi.erase(x, 3, 4, 5, 6, 7), (3, 5), 1.5, where=np.arange(len(x)) % 2 == 0)
    x = gi.adjust_contrast(gi.crop(x, 2, 3, 20, 20), 0.5)
    x = gi.autocontrast(gi.adjust_sharpness(x, 2.0), where=np.arange(len(x)) % 3 == 0)
    x = gi.rand_augment(x, rng=3)
    return gi.normalize(gi.rgb_to_grayscale(x), 0.5, 0.25)


def others(pictures: list[NDArray[Any]]) -> list[NDArray[Any]]:
    return [image(np.random.default_rng(99), *p.shape[:2], 3, str(p.dtype)) for p in pictures]


def restored(x: gi.Batch, path: Path) -> gi.SavedPlan:
    gi.save_plan(x, path / "plan.npy")
    return gi.load_plan(path / "plan.npy")


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("name", [name for name in CALLS if name != "pointwise"])
def test_a_loaded_plan_does_what_was_recorded(name: str, dtype: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    pictures = images(rng, dtype, 3, 13)
    call = CALLS[name]
    each = call.each(rng, 13, 255.0 if dtype == "uint8" else 1.0)
    where = rng.random(13) < 0.7 if name != "normalize" else None
    plan = restored(call.run(pictures, each, where=where), tmp_path)
    new = others(pictures)
    assert_same(list(gi.apply_plan(plan, new).compute()), list(call.run(new, each, where=where).compute()))


def test_stages_and_statistics_are_replayed(tmp_path: Path) -> None:
    pictures = images(np.random.default_rng(2), "uint8", 3, 13)
    x = everything(pictures)
    plan = restored(x, tmp_path)
    new = others(pictures)
    expected, result = everything(new), gi.apply_plan(plan, new)
    assert_same(list(result.compute()), list(expected.compute()))
    assert (result.launches, result.channels, result.dtype) == (expected.launches, 1, "float32")
    assert [gi.describe(plan, i) for i in range(13)] == [gi.describe(x, i) for i in range(13)]
    nothing = np.zeros((0, 5, 6, 3), np.uint8)
    empty = restored(gi.rotate(gi.resize(nothing, 4), 30), tmp_path)
    assert gi.apply_plan(empty, nothing).array().shape == (0, 0, 0, 3)


@pytest.mark.parametrize(
    ("name", "given"), [("adjust_sharpness", (2.0,)), ("gaussian_blur", (3, 1.0)), ("normalize", (0.5, 0.1))]
)
def test_recording_goes_on_after_a_loaded_plan(name: str, given: Any, tmp_path: Path) -> None:
    pictures = images(np.random.default_rng(8), "uint8", 3, 13)[3:]
    x = getattr(gi, name)(pictures, *given)
    result = gi.adjust_sharpness(gi.resize(gi.apply_plan(restored(x, tmp_path), pictures), (9, 9)), 0.5)
    assert_same(list(result), list(gi.adjust_sharpness(gi.resize(x, (9, 9)), 0.5)))


def test_own_functions_are_not_saved(tmp_path: Path) -> None:
    dim = CALLS["pointwise"].fixed["function"]
    x = gi.horizontal_flip(gi.pointwise(np.zeros((1, 2, 3, 3), np.uint8), dim, 0.5))
    assert gi.apply_plan(x, np.full((1, 2, 3, 3), 8, np.uint8))[0][0, 2].tolist() == [4, 4, 4]
    with pytest.raises(ValueError, match=r"your own functions \(pointwise\) cannot be saved; apply_plan takes the ba"):
        gi.save_plan(x, tmp_path / "plan.npy")
    assert not list(tmp_path.iterdir())


def test_a_recorded_batch_goes_on_from_its_results() -> None:
    picture = np.arange(6, dtype=np.uint8).reshape(1, 2, 3, 1)
    plan = gi.crop(picture, 0, 1, 2, 2)
    result = gi.apply_plan(plan, gi.horizontal_flip(picture))
    assert result.array()[0, :, :, 0].tolist() == [[1, 0], [4, 3]]
    assert gi.transform_boxes(result, [[(0, 0, 1, 2), (1, 0, 2, 2)]])[0][0].tolist() == [[1, 0, 2, 2], [0, 0, 1, 2]]


def test_file_is_an_array_of_that_name(tmp_path: Path) -> None:
    gi.save_plan(gi.invert(np.zeros((2, 3, 4, 1), np.uint8)), str(tmp_path / "plan"))
    assert [path.name for path in tmp_path.iterdir()] == ["plan"]
    assert np.load(tmp_path / "plan", allow_pickle=False).dtype == np.uint8
    plan = gi.load_plan(str(tmp_path / "plan"))
    assert (len(plan), plan.sizes.tolist(), plan.channels, plan.dtype) == (2, [[3, 4], [3, 4]], 1, "uint8")


def refused(path: Path) -> str:
    with pytest.raises(ValueError, match="is not a plan saved by this version of gpuimg") as caught:
        gi.load_plan(path)
    return str(caught.value)


def test_other_and_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.npy"
    with pytest.raises(FileNotFoundError):
        gi.load_plan(path)
    gi.save_plan(everything(np.zeros((3, 20, 20, 3), np.uint8)), path)
    half = np.load(path)[:-5000]
    for array in (np.zeros(3), np.zeros(0, np.uint8), np.zeros((4, 4), np.uint8), np.full(40, 255, np.uint8), half):
        np.save(path, array)
        refused(path)
    for content in (b"", b"text", b"\x93NUMPY", pickle.dumps([1, 2])):
        path.write_bytes(content)
        refused(path)


def edited(path: Path, change: Any) -> None:
    """Save a plan, and change its header or its data."""
    gi.save_plan(everything(np.zeros((3, 20, 20, 3), np.uint8)), path)
    data = np.load(path)
    start = 8 + int(data[:8].view("<i8")[0])
    content, rest = json.loads(data[8:start].tobytes()), data[start:].copy()
    change(content, rest)
    header = json.dumps(content).encode()
    header += b" " * (-len(header) % 8)
    np.save(path, np.frombuffer(len(header).to_bytes(8, "little") + header + rest.tobytes(), np.uint8))


def view(content: Any, rest: Any, index: int) -> Any:
    dtype, shape, start = content["arrays"][index]
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return rest[start : start + size].view(dtype).reshape(shape)


def first(content: Any, rest: Any, name: str) -> Any:
    """Values of a grid, or of the first entry."""
    parts = content["grids"][0] if name in content["grids"][0] else content["stages"][0]["entries"][0]
    return view(content, rest, parts[name])


def entry(content: Any, rest: Any, code: int) -> Any:
    """The first one with this op for any image."""
    entries = (e for stage in content["stages"] for e in stage["entries"])
    return next(e for e in entries if code in view(content, rest, e["codes"]))


CHANGES: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("windows inside", lambda c, rest: np.copyto(first(c, rest, "window")[0], (0, 0, 4000, 4000))),
    ("image sizes", lambda c, rest: np.copyto(view(c, rest, c["sizes"])[0], 1 << 40)),
    ("finite", lambda c, rest: np.copyto(view(c, rest, c["frames"][0][0])[0, 0, :1], np.nan)),
    ("known filters", lambda c, rest: np.copyto(first(c, rest, "filter")[:1], 77)),
    ("known ops", lambda c, rest: np.copyto(first(c, rest, "codes")[:1], 14)),  # a user function
    ("known ops", lambda c, rest: np.copyto(first(c, rest, "codes")[:1], 13)),  # more parameters than there are
    ("the pixels its statistics are of", lambda c, _: c["stages"][0]["entries"][0].update(taken_over=None)),
    ("the frames it refers to", lambda c, rest: entry(c, rest, 13).update(frame=50)),
    ("the frames it refers to", lambda c, rest: entry(c, rest, 13).update(frame=0)),
    # Statistics taken before the frame of an entry in front of them was there.
    ("the frames it refers to", lambda c, rest: entry(c, rest, 11).update(taken_over=entry(c, rest, 3)["taken_over"])),
    ("blurs smaller", lambda c, rest: np.copyto(
        view(c, rest, next(g["kernel"] for g in c["grids"] if g["kernel"] is not None)), 1001)),
    ("same number of images", lambda c, _: c["arrays"][c["stages"][0]["entries"][0]["params"]][1].__setitem__(0, 2)),
    ("1 or 3 channels", lambda c, _: c["stages"][0].update(channels=4)),
    ("the format", lambda c, _: c.update(format="gpuimg plan 0")),
]  # fmt: skip


@pytest.mark.parametrize(("message", "change"), CHANGES)
def test_plans_beyond_their_memory_are_refused(tmp_path: Path, message: str, change: Any) -> None:
    edited(tmp_path / "plan.npy", lambda content, rest: None)
    gi.load_plan(tmp_path / "plan.npy")
    edited(tmp_path / "plan.npy", change)
    assert message in refused(tmp_path / "plan.npy")


def test_description_of_everything() -> None:
    x: Any = [np.zeros((30, 40, 3), np.uint8), np.zeros((60, 50, 3), np.uint8)]
    only = np.array([False, True])
    x = gi.vertical_flip(gi.horizontal_flip(gi.crop(x, [1, 10], 4, 20, 30), where=only))
    x = gi.adjust_brightness(gi.resize(x, (40, 60), "bicubic"), [0.5, 1.25])
    x = gi.rotate(x, [0, 12.5], "bilinear", fill=(1, 2, 255))
    x = gi.affine(x, -30, (2, 0), 2.0, 0, fill=None)
    x = gi.affine(x, 0, (2, -3), 1.0, 0, fill=None)
    x = gi.affine(x, 0, (0, 0), 1.0, 20, fill=None)
    x = gi.perspective(x, [(0, 0), (60, 0), (60, 40), (0, 40)], [(1, 2), (60, 0), (60, 40), (0, 40)], fill=None)
    x = gi.adjust_hue(gi.adjust_saturation(gi.adjust_contrast(x, 2), 0), -0.25)
    x = gi.autocontrast(gi.equalize(gi.invert(gi.posterize(gi.solarize(x, 128, where=only), [3, 4]))))
    x = gi.erase(gi.pad(x, (1, 2, 3, 4), 9), 1, 2, 3, 4, 5)
    x = gi.crop(gi.adjust_sharpness(gi.gaussian_blur(x, (3, 5), (0.5, 2.0)), 1.5), -1, 2, 8, 8)
    x = gi.erase(gi.normalize(gi.rgb_to_grayscale(x), 0.4, 0.2), 0, 0, 1, 1, -1.5)
    assert gi.describe(x, 1) == gi.describe(x, -1)
    assert gi.describe(x, 1).splitlines() == [
        "image 1: 60 x 50 (height x width), 3 channels, uint8",
        "crop: rows 10 to 30, columns 4 to 34 of 60 x 50",
        "flip left and right",
        "flip top and bottom",
        "resize to 40 x 60",
        "brightness: factor 1.25",
        "fill around the image: 1, 2, 255",
        "rotate by 12.5 degrees",
        "rotate by 30 degrees, scale by 2, 2 (x, y), move the middle by 2, 0 pixels (x, y)",
        "shift by 2, -3 pixels (x, y)",
        "shear by -20 degrees",
        "perspective: the corners go to (1, 2), (60, 0), (60, 40), (0, 40) (x, y)",
        "contrast: factor 2",
        "saturation: factor 0",
        "hue: -0.25 turns",
        "solarize: from 128",
        "posterize: 4 bits",
        "invert",
        "equalize",
        "autocontrast",
        "fill around the image: 9",
        "pad: rows -2 to 44, columns -1 to 63 of 40 x 60",
        "erase: rows 1 to 4, columns 2 to 6, color 5",
        "sampled once: bicubic",
        "segment 2, on the result so far:",
        "gaussian blur: 3 x 5 pixels, sigma 0.5, 2 (x, y)",
        "sharpness: factor 1.5",
        "segment 3, on the result so far:",
        "fill around the image: 0",
        "crop and pad: rows -1 to 7, columns 2 to 10 of 46 x 64",
        "grayscale",
        "normalize: mean 0.4, std 0.2",
        "erase: rows 0 to 1, columns 0 to 1, color -1.5",
        "sampled once: nearest",
        "result: 8 x 8, 1 channel",
    ]
    assert gi.describe(x, 0).splitlines()[1:4] == [
        "crop: rows 1 to 21, columns 4 to 34 of 30 x 40",
        "flip top and bottom",
        "resize to 40 x 60",
    ]


def test_description_of_own_functions() -> None:
    x = gi.crop(np.zeros((1, 3, 4, 1), np.float32), 0, 0, 3, 4)
    assert gi.describe(x, 0) == "image 0: 3 x 4 (height x width), 1 channel, float32\nresult: 3 x 4, 1 channel"
    dim = CALLS["pointwise"].fixed["function"]
    assert "pointwise: dim, value 0.5" in gi.describe(gi.pointwise(np.zeros((1, 3, 4, 3), np.uint8), dim, 0.5), 0)
    assert "expand" not in gi.describe(gi.rotate(x, 90, expand=True), 0)
    assert "rotate by 90 degrees, onto 4 x 3" in gi.describe(gi.rotate(x, 90, expand=True), 0)
    for i in (1, -2):
        with pytest.raises(IndexError):
            gi.describe(x, i)
