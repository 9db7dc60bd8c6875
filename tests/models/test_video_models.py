"""Videos for Qwen-VL, against transformers' video processors."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import gpuimg as gi

from ..libraries import cases
from ..samples import ROOT
from ..video import videos
from . import processors
from .processors import assert_equal

Clips = NDArray[np.uint8]


_LOW, _HIGH = 4096, 25165824  # of the published configuration of Qwen3-VL


def _capped(low: int, high: int, tokens: int) -> tuple[dict[str, Any], dict[str, Any]]:
    theirs = {"size": {"shortest_edge": low, "longest_edge": high}, "cap_pixels_per_frame": True}
    return {"min_pixels": low, "video_tokens": tokens}, theirs | {"max_video_tokens": tokens}


_V2, _V3 = (gi.models.qwen_vl_video, "qwen2_vl"), (gi.models.qwen3_vl_video, "qwen3_vl")
_PUBLISHED = {"min_pixels": _LOW, "max_pixels": _HIGH}, {"size": {"shortest_edge": _LOW, "longest_edge": _HIGH}}
#: A preset, the module of its processor, and options of both.
MODELS: dict[str, tuple[Callable[..., Any], str, dict[str, Any], dict[str, Any]]] = {
    "qwen2_vl": (*_V2, {}, {}),
    "qwen2_vl, capped": (*_V2, *_capped(4 * 28 * 28, 28 * 28 * 768, 60)),
    "qwen3_vl": (*_V3, {}, {}),
    "qwen3_vl, published": (*_V3, *_PUBLISHED),
    "qwen3_vl, capped": (*_V3, *_capped(_LOW, 32 * 32 * 768, 24)),
}
SHAPES = [(4, 120, 200), (5, 300, 224), (2, 20, 25), (16, 90, 440), (4, 8, 400)]  # frames, height, width


def clips_of(frames: int, height: int, width: int) -> Clips:
    """Two clips of a photo in motion."""
    photo = np.asarray(Image.open(ROOT / "examples" / "photos" / "cat.jpg").convert("RGB"))
    moved = [np.roll(photo, (5 * t * (c + 1), -3 * t), (0, 1)) for c in range(2) for t in range(frames)]
    return np.stack([each[:height, :width] for each in moved]).reshape(2, frames, height, width, 3)


def theirs(name: str, clips: Clips) -> dict[str, NDArray[Any]]:
    processors.needs_transformers()
    import torch

    _, family, _, options = MODELS[name]
    module = import_module(f"transformers.models.{family}.video_processing_{family}")
    cls = getattr(module, family.replace("qwen", "Qwen").replace("_vl", "VL") + "VideoProcessor")
    given = [torch.from_numpy(clip).permute(0, 3, 1, 2) for clip in clips]
    return dict(cls(do_sample_frames=False, **options)(given, return_tensors="np"))


def ours(name: str, clips: Any) -> dict[str, NDArray[Any]]:
    preset, _, options, _ = MODELS[name]
    found: dict[str, NDArray[Any]] = preset(**options)(clips)
    return found


@cases("transformers", "shape", SHAPES)
@cases("transformers", "name", MODELS)
def test_outputs_are_those_of_transformers(name: str, shape: tuple[int, int, int]) -> None:
    clips = clips_of(*shape)
    assert_equal(ours(name, clips), theirs(name, clips))


def decoded(frames: int) -> tuple[gi.Batch, Clips]:
    """Clips of files, and their frames."""
    files = [videos.made("h264"), videos.make(videos.Build("mpeg4"), frames=20)]
    x = gi.open_clips(files, frames, 2, start=[0, 7], device="cpu")
    return x, x.array(layout="NTHWC")


@pytest.mark.parametrize("frames", [2, 5, 6])
@pytest.mark.parametrize("name", MODELS)
def test_files_give_what_their_frames_give(name: str, frames: int) -> None:
    x, pixels = decoded(frames)
    want = ours(name, pixels)
    assert_equal(ours(name, x), want)
    assert_equal(ours(name, list(pixels)), want)


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
