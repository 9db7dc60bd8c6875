"""Preprocessing of models of images and of videos, against transformers' processors."""

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
from ..video import videos
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
    *((name, gi.sizes.buckets) for name in ("area", "step", "aspect")), ("patch", gi.resize(WIDE, 32).tokens),
    *((name, partial(gi.resize(WIDE, 32).tokens, 16)) for name in ("merge", "frames", "order", "pad")),
    *((name, gi.resize(WIDE, 32).padded) for name in ("value", "multiple", "align", "layout")),
    ("layout", gi.resize(WIDE, 32).array), ("layout", gi.resize(WIDE, 32).arrays),
    ("alpha", partial(gi.open_batch, [], device="cpu")), ("resize_mode", gi.models.open_clip_eval),
    ("crop_mode", lambda crop_mode: gi.models.timm_eval({"crop_mode": crop_mode})),
]  # fmt: skip


@pytest.mark.parametrize("value", [2**49, 2**63, 2**64, -1, 1e400, (1, 2), [[1]], "a", np.array(["a", "b"])], ids=str)
@pytest.mark.parametrize(("name", "call"), CALLS)
def test_errors_name_the_callers_argument(name: str, call: Any, value: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=rf"\b{name}\b.* not "):
        call(**{name: value})


Clips = NDArray[np.uint8]


_LOW, _HIGH = 4096, 25165824  # of the published configuration of Qwen3-VL


def _capped(low: int, high: int, tokens: int) -> tuple[dict[str, Any], dict[str, Any]]:
    theirs = {"size": {"shortest_edge": low, "longest_edge": high}, "cap_pixels_per_frame": True}
    return {"min_pixels": low, "video_tokens": tokens}, theirs | {"max_video_tokens": tokens}


_V2, _V3 = (gi.models.qwen_vl_video, "qwen2_vl"), (gi.models.qwen3_vl_video, "qwen3_vl")
_PUBLISHED = {"min_pixels": _LOW, "max_pixels": _HIGH}, {"size": {"shortest_edge": _LOW, "longest_edge": _HIGH}}
#: A preset, the module of its processor, and options of both.
VIDEO_MODELS: dict[str, tuple[Callable[..., Any], str, dict[str, Any], dict[str, Any]]] = {
    "qwen2_vl": (*_V2, {}, {}), "qwen2_vl, capped": (*_V2, *_capped(4 * 28 * 28, 28 * 28 * 768, 60)),
    "qwen3_vl": (*_V3, {}, {}), "qwen3_vl, published": (*_V3, *_PUBLISHED),
    "qwen3_vl, capped": (*_V3, *_capped(_LOW, 32 * 32 * 768, 24)),
}  # fmt: skip
SHAPES = [(4, 120, 200), (5, 300, 224), (2, 20, 25), (16, 90, 440), (4, 8, 400)]  # frames, height, width


def clips_of(frames: int, height: int, width: int) -> Clips:
    """Two clips of a photo in motion."""
    photo = np.asarray(Image.open(PHOTOS / "cat.jpg").convert("RGB"))
    moved = [np.roll(photo, (5 * t * (c + 1), -3 * t), (0, 1)) for c in range(2) for t in range(frames)]
    return np.stack([each[:height, :width] for each in moved]).reshape(2, frames, height, width, 3)


def theirs_of_clips(name: str, clips: Clips) -> dict[str, NDArray[Any]]:
    processors.needs_transformers()
    import torch

    _, family, _, options = VIDEO_MODELS[name]
    module = import_module(f"transformers.models.{family}.video_processing_{family}")
    cls = getattr(module, family.replace("qwen", "Qwen").replace("_vl", "VL") + "VideoProcessor")
    given = [torch.from_numpy(clip).permute(0, 3, 1, 2) for clip in clips]
    return dict(cls(do_sample_frames=False, **options)(given, return_tensors="np"))


def ours_of_clips(name: str, clips: Any) -> dict[str, NDArray[Any]]:
    preset, _, options, _ = VIDEO_MODELS[name]
    found: dict[str, NDArray[Any]] = preset(**options)(clips)
    return found


@cases("transformers", "shape", SHAPES)
@cases("transformers", "name", VIDEO_MODELS)
def test_outputs_of_clips_are_those_of_transformers(name: str, shape: tuple[int, int, int]) -> None:
    clips = clips_of(*shape)
    processors.assert_equal(ours_of_clips(name, clips), theirs_of_clips(name, clips))


def decoded(frames: int) -> tuple[gi.Batch, Clips]:
    files = [videos.made("h264"), videos.make(videos.Build("mpeg4"), frames=20)]
    x = gi.open_clips(files, frames, 2, start=[0, 7], device="cpu")
    return x, x.array(layout="NTHWC")


@pytest.mark.parametrize("frames", [2, 5, 6])
@pytest.mark.parametrize("name", VIDEO_MODELS)
def test_files_give_what_their_frames_give(name: str, frames: int) -> None:
    x, pixels = decoded(frames)
    want = ours_of_clips(name, pixels)
    processors.assert_equal(ours_of_clips(name, x), want)
    processors.assert_equal(ours_of_clips(name, list(pixels)), want)


def test_wrong_clips() -> None:
    prepare = gi.models.qwen_vl_video()
    with pytest.raises(TypeError, match="this batch has images"):
        prepare(gi.horizontal_flip(np.zeros((2, 40, 50, 3), np.uint8)))
    wrong: Any
    for wrong in (np.zeros((2, 40, 50, 3), np.uint8), [], np.zeros((2, 0, 40, 50, 3), np.uint8)):
        with pytest.raises(ValueError, match=r"clips must have shapes \(T, H, W, C\)"):
            prepare(wrong)
    with pytest.raises(ValueError, match="of one T"):
        prepare([np.zeros((2, 40, 50, 3), np.uint8), np.zeros((3, 40, 50, 3), np.uint8)])
