"""gpuimg as a backend of transformers: the outputs of its backend "torchvision", from files, arrays and images."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gpuimg as gi

from . import processors

PHOTOS = sorted((Path(__file__).parents[1] / "examples" / "photos").glob("*.jpg"))[:3]
#: Minor versions of transformers that these tests have passed with; pyproject.toml's extra begins with the first.
VERSIONS = {"5.23"}

TYPES = {
    "clip": "clip",
    "siglip": "siglip",
    "vit": "vit",
    "dinov2": "dinov2",
    "qwen2_vl": "qwen2_vl",
    "qwen3_vl": "qwen3_vl",
    "siglip2_naflex": "siglip2",
    "kimi": "kimi_k25",
    "pixtral": "pixtral",
    "internvl": "internvl",
    "llava_anyres": "llava_next",
    "idefics3": "idefics3",
    "smolvlm": "smolvlm",
    "gemma3": "gemma3",
    "gemma3_scan": "gemma3",
}


@pytest.fixture(scope="module", autouse=True)
def registered() -> list[str]:
    processors.needs_transformers()
    from gpuimg.integrations.transformers import register

    return register()


def pair(name: str, folder: Path) -> tuple[Any, Any]:
    """A model's processor as ``from_pretrained`` gives it with and without ``backend="gpuimg"``."""
    from transformers import AutoImageProcessor

    processors.processor(name, "torchvision").save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps({"model_type": TYPES[name]}))
    found = [AutoImageProcessor.from_pretrained(folder, backend=backend) for backend in ("gpuimg", "torchvision")]
    return found[0], found[1]


def assert_equal(one: Any, other: Any) -> None:
    assert set(one) == set(other)
    for name, value in other.items():
        assert type(one[name]) is type(value)
        assert one[name].shape == value.shape
        assert one[name].dtype == value.dtype
        assert bool((one[name] == value).all())


def opened(path: Path) -> Image.Image:
    return Image.open(path).convert("RGB")


@pytest.mark.parametrize("name", TYPES)
def test_files_give_the_outputs_of_the_default_backend(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = pair(name, tmp_path)
    assert (ours.backend, theirs.backend) == ("gpuimg", "torchvision")
    assert isinstance(ours, type(theirs))
    images = [opened(path) for path in PHOTOS]
    want = theirs(images, return_tensors="pt")
    monkeypatch.setattr(type(theirs), "preprocess", lambda *_, **__: pytest.fail("not by gpuimg"))
    assert_equal(ours(PHOTOS, return_tensors="pt"), want)
    assert_equal(ours([path.read_bytes() for path in PHOTOS], return_tensors="pt"), want)
    assert_equal(ours(images, return_tensors="pt"), want)


@pytest.mark.parametrize(("name", "counts"), [*((name, [1, 0, 2]) for name in TYPES), ("idefics3", [1, 1, 1])])
def test_samples_of_several_images(
    name: str, counts: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but Idefics3 and SmolVLM return them as one list."""
    ours, theirs = pair(name, tmp_path)
    ends = np.cumsum(counts)
    files = [PHOTOS[end - count : end] for count, end in zip(counts, ends.tolist(), strict=True)]
    want = theirs([[opened(path) for path in sample] for sample in files], return_tensors="pt")
    assert len(want["pixel_values"]) == len(counts) or name not in ("idefics3", "smolvlm")
    monkeypatch.setattr(type(theirs), "preprocess", lambda *_, **__: pytest.fail("not by gpuimg"))
    assert_equal(ours(files, return_tensors="pt"), want)


def test_forms_of_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    ours, theirs = pair("clip", tmp_path)
    image = opened(PHOTOS[0])
    want = theirs(image, return_tensors="pt")
    monkeypatch.setattr(type(theirs), "preprocess", lambda *_, **__: pytest.fail("not by gpuimg"))
    tensor = torch.from_numpy(np.array(image)).permute(2, 0, 1)
    for given in (image, str(PHOTOS[0]), [[image]], np.array(image), tensor, [tensor.numpy()]):
        assert_equal(ours(given, return_tensors="pt"), want)
    assert isinstance(ours(image, return_tensors="np")["pixel_values"], np.ndarray)


@pytest.mark.parametrize(
    "options",
    [
        {"do_normalize": False},
        {"size": {"shortest_edge": 100}, "crop_size": {"height": 90, "width": 90}},
        {"do_center_crop": False, "size": {"height": 32, "width": 40}},
        {"resample": 0},
        {"crop_size": {"height": 300, "width": 300}},
        {"image_mean": [0.1, 0.2, 0.3]},
    ],
)
def test_other_options_are_left_to_transformers(options: dict[str, Any], tmp_path: Path) -> None:
    ours, theirs = pair("clip", tmp_path)
    images = [opened(path) for path in PHOTOS]
    assert_equal(ours(PHOTOS, return_tensors="pt", **options), theirs(images, return_tensors="pt", **options))


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("clip", {"do_rescale": False}),
        ("clip", {"rescale_factor": 1 / 127.5}),
        ("clip", {"resample": 2}),
        ("clip", {"crop_size": {"height": 900, "width": 230}}),
        ("qwen2_vl", {"resample": 2}),
        ("internvl", {"crop_to_patches": False}),
        ("siglip2_naflex", {"do_normalize": False}),
    ],
)
def test_other_settings_give_transformers_outputs(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    ours, theirs = pair(name, tmp_path)
    for processor in (ours, theirs):
        for key, value in settings.items():
            setattr(processor, key, type(theirs.size)(**value) if isinstance(value, dict) else value)
    assert_equal(ours(PHOTOS, return_tensors="pt"), theirs([opened(path) for path in PHOTOS], return_tensors="pt"))


def test_a_saved_processor_loads_without_gpuimg(tmp_path: Path) -> None:
    ours, _ = pair("qwen2_vl", tmp_path)
    ours.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "preprocessor_config.json").read_text())
    assert saved["image_processor_type"] == "Qwen2VLImageProcessor"
    assert "gpuimg" not in json.dumps(saved)


def test_damaged_files_raise(tmp_path: Path) -> None:
    ours, _ = pair("clip", tmp_path)
    with pytest.raises(gi.DecodeError):
        ours([b"no image"], return_tensors="pt")


def test_registered_types(registered: list[str]) -> None:
    assert {*TYPES.values(), "qwen2_5_vl", "mistral3"} <= set(registered)


def test_the_version_is_one_of_those_tried() -> None:
    """Internals of transformers change: add a version here after a run with it."""
    assert version("transformers").rpartition(".")[0] in VERSIONS
