"""Preprocessing of models, against transformers' processors."""

import pickle
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import gpuimg as gi
from bench.processors import OURS, PAIRS, ours, theirs

from ..libraries import cases, library
from ..samples import ROOT
from . import processors

HALF = (0.5,) * 3
BICUBIC = Image.Resampling.BICUBIC
PHOTOS = ROOT / "examples" / "photos"


def images() -> list[NDArray[np.uint8]]:
    """A photo and cuts of awkward sizes."""
    whole, other = (Image.open(PHOTOS / f"{name}.jpg").convert("RGB") for name in ("cat", "astronaut"))
    whole, other = np.asarray(whole), np.asarray(other.resize((640, 1000), BICUBIC))
    return [whole, other[:900, :120], other[50:138, :640], other[5:66, 9:56], other[:640, :427], other[:223, :225]]


@cases("transformers", "name, backend", PAIRS)
def test_outputs_are_those_of_transformers(name: str, backend: str) -> None:
    processors.processor(name, backend)
    processors.assert_equal(ours(name, backend, images()), theirs(name, backend, images()))


def test_dinov3_resizes_floating_point_values() -> None:
    processors.processor("dinov3", "torchvision")
    want = theirs("dinov3", "torchvision", images())["pixel_values"]
    got = gi.models.dinov3()(images()).array(layout="NCHW")
    assert np.abs(got - want).max() * 255 * 0.229 < 0.01


@pytest.mark.parametrize("name", ["clip", "qwen2_vl", "internvl", "idefics3"])
def test_files_give_what_their_pixels_give(name: str) -> None:
    paths = [PHOTOS / "cat.jpg", PHOTOS / "astronaut_portrait.jpg"]
    files, pixels = gi.open_batch(paths, device="cpu"), list(gi.decode_batch(paths, device="cpu"))
    processors.assert_equal(ours(name, "torchvision", files), ours(name, "torchvision", pixels))


def test_samples_of_several_images(monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = images()[:3]
    each = gi.models.idefics3(56, 112)(pictures)
    assert len({int(mask.any((1, 2)).sum()) for mask in each["pixel_attention_mask"]}) > 1
    monkeypatch.setattr(gi.models, "_KEPT", 1)  # the bytes of one image at a time
    found = gi.models.idefics3(56, 112)(pictures, counts=[1, 0, 2])
    for name, values in each.items():
        used = [values[i][each["pixel_attention_mask"][i].any((1, 2))] for i in range(3)]
        for row, want in zip(found[name], (used[0], used[0][:0], np.concatenate(used[1:])), strict=True):
            assert np.array_equal(row[: len(want)], want)
            assert not row[len(want) :].any()
    for wrong in ([1, 1], [4, -1], [1, 1, 2]):
        with pytest.raises(ValueError, match="add up to 3"):
            gi.models.idefics3(56, 112)(pictures, counts=wrong)


def test_idefics3_names_all_bad_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gi.models, "_KEPT", 1)
    good = (PHOTOS / "cat.jpg").read_bytes()
    files = [good, good[:9000], good, good[:8000], good]
    with pytest.raises(gi.DecodeError) as caught:
        gi.models.idefics3(56, 112)(gi.open_batch(files, device="cpu", on_error="raise"))
    assert [failure.index for failure in caught.value.failures] == [1, 3]
    values = gi.models.idefics3(56, 112)(gi.open_batch(files, device="cpu", on_error="fill"))["pixel_values"]
    assert [len(np.unique(image)) == 1 for image in values] == [False, True, False, True, False]


_ALL = [name for name in dir(gi.models) if getattr(getattr(gi.models, name), "__module__", "") == gi.models.__name__]
MODELS = {name: getattr(gi.models, name) for name in _ALL if name[0] != "_"} | OURS


@pytest.mark.parametrize("name", MODELS)
def test_functions_can_be_pickled_and_take_no_images(name: str) -> None:
    """Whose arrays are as those of one image, except for the first axis."""
    prepare, found = pickle.loads(pickle.dumps(MODELS[name]())), []
    images = np.zeros((1, 2, 40, 50, 3) if "video" in name else (1, 40, 50, 3), np.uint8)
    for n in (1, 0):
        outputs = prepare(images[:n], gi.Rng(0, indices=range(n)))
        arrays = outputs if isinstance(outputs, dict) else {"images": outputs.array()}
        found.append({key: (array.shape[1:], array.dtype) for key, array in arrays.items()})
    assert found[0] == found[1]
    assert not any(map(len, arrays.values()))


CLIP = gi.models.CLIP_MEAN, gi.models.CLIP_STD
IMAGENET = gi.IMAGENET_MEAN, gi.IMAGENET_STD
#: Presets, the transforms of torchvision or timm for the size, and mean and deviation; test_timm.py has timm's own.
EVALUATIONS: list[tuple[Any, Callable[[Any, Any], list[Any]], Any]] = [
    (gi.presets.imagenet_eval(exact="pillow"), lambda t, _: [t.Resize(256), t.CenterCrop(224)], IMAGENET),
    (gi.presets.imagenet_eval(224, 232, exact="pillow"), lambda t, _: [t.Resize(232), t.CenterCrop(224)], IMAGENET),
    (gi.models.open_clip_eval(), lambda t, _: [t.Resize(224, BICUBIC), t.CenterCrop(224)], CLIP),
    (gi.models.open_clip_eval(384, HALF, HALF, resize_mode="squash"), lambda t, _: [t.Resize((384, 384), BICUBIC)],
     (HALF, HALF)),
    (gi.models.open_clip_eval(65, *IMAGENET, "bilinear", "longest"),
     lambda t, timm: [timm.ResizeKeepRatio(65, longest=1.0), timm.CenterCropOrPad(65)], IMAGENET),
]  # fmt: skip


@cases("timm", "prepare, resizing, norm", EVALUATIONS)
def test_evaluation_on_pillow_images(prepare: Any, resizing: Any, norm: Any) -> None:
    timm = library("timm.data.transforms")
    t = import_module("torchvision.transforms")
    theirs = t.Compose([*resizing(t, timm), t.ToTensor(), t.Normalize(*norm)])
    want = np.stack([theirs(Image.fromarray(image)).numpy() for image in images()])
    assert np.count_nonzero(prepare(images()).array(layout="NCHW") != want) == 0


WIDE = np.zeros((2, 32, 64, 3), np.uint8)
#: Calls with one argument, by its name; choices last.
CALLS: list[tuple[str, Any]] = [
    *((name, gi.models.qwen_vl) for name in ("patch", "merge", "frames", "min_pixels", "max_pixels")),
    *((name, gi.models.qwen3_vl_video) for name in ("patch", "merge", "frames", "min_pixels", "video_tokens")),
    *((name, gi.models.siglip2_naflex) for name in ("patch", "patches")),
    *((name, gi.models.kimi) for name in ("patch", "merge", "patches", "side")),
    *((name, gi.models.pixtral) for name in ("side", "patch")),
    *((name, gi.models.internvl) for name in ("tile", "most", "least")),
    *((name, gi.models.idefics3) for name in ("tile", "side")),
    *((name, gi.models.gemma3) for name in ("size", "pan_and_scan")),
    *((name, gi.models.llava_anyres) for name in ("tile", "grids")),
    *((name, gi.models.dinov2) for name in ("size", "resize_size")),
    *((name, gi.presets.timm_train) for name in ("hflip", "vflip", "grayscale_prob", "re_prob")),
    *((name, partial(gi.sizes.navit, [(4, 5)])) for name in ("patch", "merge", "patches", "side")),
    *((name, gi.sizes.buckets) for name in ("area", "step", "aspect")),
    ("patch", gi.resize(WIDE, 32).tokens),
    *((name, partial(gi.resize(WIDE, 32).tokens, 16)) for name in ("merge", "frames", "order", "pad")),
    *((name, gi.resize(WIDE, 32).padded) for name in ("value", "multiple", "align", "layout")),
    ("layout", gi.resize(WIDE, 32).array),
    ("layout", gi.resize(WIDE, 32).arrays),
    ("alpha", partial(gi.open_batch, [], device="cpu")),
    ("resize_mode", gi.models.open_clip_eval),
    ("crop_mode", lambda crop_mode: gi.models.timm_eval({"crop_mode": crop_mode})),
]


@pytest.mark.parametrize("value", [2**49, 2**63, 2**64, -1, 1e400, (1, 2), [[1]], "a", np.array(["a", "b"])], ids=str)
@pytest.mark.parametrize(("name", "call"), CALLS)
def test_errors_name_the_callers_argument(name: str, call: Any, value: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=rf"\b{name}\b.* not "):
        call(**{name: value})
