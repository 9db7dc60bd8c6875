"""gpuimg as a backend of transformers: the outputs of its backend "torchvision", from files, arrays and images."""

from __future__ import annotations

import io
import json
import os
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

import gpuimg as gi

from .. import samples
from ..decoding import pngs
from ..samples import file_of, with_orientation
from . import processors

PHOTOS = [path for path in samples.PHOTOS if path.stem in ("astronaut", "cat", "rocket")]

_SAME = (
    "clip", "siglip", "vit", "dinov2", "qwen2_vl", "qwen3_vl", "pixtral", "internvl", "idefics3", "smolvlm",
    "gemma3", "beit", "blip", "cohere_compass", "convnext", "cosmos3_edge", "deit", "dpt", "glm4v", "levit", "llava",
    "mobilenet_v2", "owlvit", "paddleocr_vl", "segformer", "video_llama_3", "conditional_detr", "deformable_detr",
    "detr", "sam", "sam2", "sam3",
)  # fmt: skip
#: Types of models by name.
TYPES = dict(zip(_SAME, _SAME, strict=True)) | {
    "siglip2_naflex": "siglip2", "kimi": "kimi_k25", "llava_anyres": "llava_next", "gemma3_scan": "gemma3",
    "convnext384": "convnext", "ernie": "ernie4_5_vl_moe", "minimax": "minimax_m3_vl",
    "grounding_dino": "grounding-dino",
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def registered() -> None:
    processors.needs_transformers()
    from gpuimg.integrations.transformers import register

    assert {*TYPES.values(), "qwen2_5_vl", "mistral3"} - {*register()} == {
        "blip",
        "deit",
        "owlvit",
    }  # by settings alone


#: Settings for small outputs, where a model has large ones.
SMALL: dict[str, dict[str, Any]] = {
    "internvl": {"size": {"height": 48, "width": 48}},
    "idefics3": {"size": {"longest_edge": 112}, "max_image_size": {"longest_edge": 56}},
    "smolvlm": {"size": {"longest_edge": 112}, "max_image_size": {"longest_edge": 56}},
    "gemma3": {"size": {"height": 48, "width": 48}},
    **{
        name: {"size": {"shortest_edge": 100, "longest_edge": 300}}
        for name in ("conditional_detr", "deformable_detr", "detr", "grounding_dino")
    },
    "sam": {"size": {"longest_edge": 128}, "pad_size": {"height": 128, "width": 128}},
    **{name: {"size": {"height": 48, "width": 48}} for name in ("sam2", "sam3", "owlvit")},
}


def pair(name: str, folder: Path, settings: dict[str, Any] | None = None) -> tuple[Any, Any]:
    """A model's processor as ``from_pretrained`` gives it with and without ``backend="gpuimg"``."""
    from transformers import AutoImageProcessor

    processors.processor(name, "torchvision").save_pretrained(folder)
    saved = folder / "preprocessor_config.json"
    saved.write_text(json.dumps(json.loads(saved.read_text()) | (settings or {})))
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


def awkward() -> list[bytes]:
    """Files of every mode, with and without transparency, of all orientations and of thin shapes."""
    seed = int.from_bytes(os.urandom(4), "little")
    print("seed", seed)
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (19, 23, 4), np.uint8)
    rgba = Image.fromarray(pixels)
    rgb, gray, palette = rgba.convert("RGB"), rgba.convert("L"), rgba.convert("RGB").quantize(9)
    found = [pngs.made(rng, 21, 18, color, depth, pngs.FILTERS) for color, depth in pngs.BUILDS]
    found += [file_of(rgb, "PNG", transparency=rgb.getpixel((0, 0))), file_of(gray, "PNG", transparency=9)]
    found += [file_of(palette, "PNG", transparency=rng.bytes(7)), file_of(palette, "GIF", transparency=0)]
    found += [file_of(image, "WEBP", lossless=True) for image in (rgb, rgba)]
    found += [file_of(rgb.convert("CMYK"), "JPEG"), file_of(gray, "JPEG"), file_of(rgb.convert("1"), "TIFF")]
    found += [file_of(rgba.resize(size), "PNG") for size in ((1, 1), (500, 3), (3, 500))]
    return found + [file_of((rgb, rgba)[k % 2], "PNG", exif=with_orientation(k)) for k in range(2, 9)]


@pytest.mark.parametrize("name", TYPES)
def test_awkward_images_give_the_same_values(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow images, arrays and files: the last upright, and 16-bit gray as upper bytes, which Pillow would clip."""
    ours, theirs = pair(name, tmp_path, SMALL.get(name))
    path = tmp_path / "file"
    cases: list[tuple[Any, Any]] = []
    for data in awkward():
        image = Image.open(io.BytesIO(data))
        upright = ImageOps.exif_transpose(image)
        if image.mode.startswith("I;16"):
            upright = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
        cases += [(image, image), (data, upright)]
        if image.mode in ("RGB", "RGBA"):
            cases += [(array, array) for array in (np.array(image), np.array(image).transpose(2, 0, 1).copy())]
    cases += [(np.zeros(shape, np.uint8),) * 2 for shape in ((4, 9, 3), (1, 9, 3), (3, 9, 4), (8, 9, 1))]
    wants = []
    for _, reference in cases:
        try:
            wants.append(theirs(reference, return_tensors="pt"))
        except RuntimeError:
            wants.append(None)
    assert (None in wants) == (not theirs.do_convert_rgb)
    monkeypatch.setattr(type(theirs), "preprocess", lambda *_, **__: pytest.fail("not by gpuimg"))
    for (given, _), want in zip(cases, wants, strict=True):
        if isinstance(given, bytes):
            path.write_bytes(given)
        for form in (given, path) if isinstance(given, bytes) else (given,):
            if want is None:
                with pytest.raises(ValueError, match=r"do_convert_rgb=True .*docs/vlm\.md"):
                    ours(form, return_tensors="pt")
            else:
                assert_equal(ours(form, return_tensors="pt"), want)


def test_an_option_decides_whether_images_are_converted(tmp_path: Path) -> None:
    ours, theirs = pair("vit", tmp_path)
    image = Image.new("LA", (40, 30), (9, 99))
    file, gray = file_of(image, "PNG"), image.convert("L")
    for options in ({"do_convert_rgb": True}, {"do_convert_rgb": True, "resample": 3}):
        want = theirs(image, return_tensors="pt", **options)
        for given in (image, file):
            assert_equal(ours(given, return_tensors="pt", **options), want)
    options = {"do_normalize": False}  # gray remains gray
    assert_equal(ours(gray, return_tensors="pt", **options), theirs(gray, return_tensors="pt", **options))
    with pytest.raises(ValueError, match="takes RGB images, not a file of mode 'LA'"):
        ours(file, return_tensors="pt", **options)


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
    with pytest.raises(gi.DecodeError):
        ours([b"no image"], return_tensors="pt")


#: Models, options of a call, and settings of a processor, with which transformers computes.
OTHERS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("clip", {"do_normalize": False}, {}),
    ("clip", {"do_normalize": None}, {}),
    ("clip", {"size": {"shortest_edge": 100}, "crop_size": {"height": 90, "width": 90}}, {}),
    ("clip", {"do_center_crop": False, "size": {"height": 32, "width": 40}}, {}),
    ("clip", {"resample": 0}, {}),
    ("clip", {"crop_size": {"height": 300, "width": 300}}, {}),
    ("clip", {"image_mean": [0.1, 0.2, 0.3]}, {}),
    ("clip", {}, {"do_rescale": False}),
    ("clip", {}, {"rescale_factor": 1 / 127.5}),
    ("clip", {}, {"resample": 2}),
    ("clip", {}, {"crop_size": {"height": 900, "width": 230}}),
    ("qwen2_vl", {}, {"resample": 2}),
    ("internvl", {}, {"crop_to_patches": False}),
    ("siglip2_naflex", {}, {"do_normalize": False}),
]


@pytest.mark.parametrize(("name", "options", "settings"), OTHERS)
def test_other_options_are_left_to_transformers(name: str, options: Any, settings: Any, tmp_path: Path) -> None:
    ours, theirs = pair(name, tmp_path)
    for processor in (ours, theirs):
        for key, value in settings.items():
            setattr(processor, key, type(theirs.size)(**value) if isinstance(value, dict) else value)
    want = theirs([opened(path) for path in PHOTOS], return_tensors="pt", **options)
    assert_equal(ours(PHOTOS, return_tensors="pt", **options), want)


def test_a_saved_processor_loads_without_gpuimg(tmp_path: Path) -> None:
    ours, _ = pair("qwen2_vl", tmp_path)
    ours.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "preprocessor_config.json").read_text())
    assert saved["image_processor_type"] == "Qwen2VLImageProcessor"
    assert "gpuimg" not in json.dumps(saved)


@pytest.mark.parametrize(
    ("module", "name"), [("efficientnet", "EfficientNetImageProcessor"), ("dinov3_vit", "DINOv3ViTImageProcessor")]
)
@pytest.mark.parametrize("named", [True, False])
def test_other_families_have_the_default_backend(module: str, name: str, named: bool, tmp_path: Path) -> None:
    from transformers import AutoImageProcessor

    getattr(import_module(f"transformers.models.{module}"), name)().save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": module}))
    if not named:  # the model's type is what is left
        saved = tmp_path / "preprocessor_config.json"
        saved.write_text(saved.read_text().replace("image_processor_type", "other"))
    with pytest.warns(UserWarning, match=rf"does not have {name}: .*docs/vlm\.md") as caught:
        found = AutoImageProcessor.from_pretrained(tmp_path, backend="gpuimg")
    assert len(caught) == 1
    assert type(found) is type(AutoImageProcessor.from_pretrained(tmp_path))
