"""gpuimg as a backend of transformers: the outputs of its backend "torchvision", from files, arrays and images."""

import io
import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gpuimg as gi
from bench import processors as bench

from ..decoding import pngs
from ..samples import ROOT, file_of
from . import processors
from .processors import assert_equal

processors.needs_transformers()

PHOTOS = [ROOT / "examples" / "photos" / f"{name}.jpg" for name in ("astronaut", "cat", "rocket")]
#: Minor versions of transformers that these tests have passed with; pyproject.toml's extra begins with the first.
VERSIONS = {"5.23", "5.24"}

#: Models with settings of their own, as in ``bench``, and processors as they are.
NAMES = [
    "dinov2", "internvl", "llava_anyres", "smolvlm", "gemma3_scan", "qwen3_vl", "ConvNext", "ConvNext384",
    *("CLIP", "ViT", "Qwen2VL", "Siglip2", "Kimi_K25", "Pixtral", "Idefics3", "Gemma3", "Cosmos3Edge", "Glm4v"),
    *("PaddleOCRVL", "VideoLlama3", "DPT", "Detr", "Sam", "DeepseekVL", "Gemma4", "Llama4", "Llava", "LlavaOnevision"),
    *("Mllama", "Owlv2", "RTDetr"),
]  # fmt: skip
#: What processors raise for images that they cannot take.
REFUSALS = (RuntimeError, ValueError, TypeError, ZeroDivisionError, IndexError)
#: Settings for small outputs, where a model has large ones.
SMALL: dict[str, dict[str, Any]] = {
    "internvl": {"size": {"height": 48, "width": 48}},
    **{
        name: {"size": {"longest_edge": 112}, "max_image_size": {"longest_edge": 56}}
        for name in ("Idefics3", "smolvlm")
    },
    "Gemma3": {"size": {"height": 48, "width": 48}},
    "Detr": {"size": {"shortest_edge": 100, "longest_edge": 300}},
    "Sam": {"size": {"longest_edge": 128}, "pad_size": {"height": 128, "width": 128}},
    "Owlv2": {"size": {"height": 48, "width": 48}},
}


@pytest.fixture(scope="module", autouse=True)
def registered() -> list[str]:
    from gpuimg.integrations.transformers import register

    return register()


def pair(name: str, settings: dict[str, Any] | None = None) -> tuple[Any, Any]:
    """A model's processor as ``from_pretrained`` gives it with and without ``backend="gpuimg"``."""
    _, cls, options = bench.SPECS.get(name, ("", f"{name.removesuffix('384')}ImageProcessor", {}))
    size = {"size": {"shortest_edge": 384 if name.endswith("384") else 224}} if name.startswith("ConvNext") else {}
    return bench.families(cls.removesuffix("ImageProcessor"), options | size | (settings or {}))


def opened(path: Path) -> Image.Image:
    return Image.open(path).convert("RGB")


@pytest.mark.parametrize("name", NAMES)
def test_files_give_the_outputs_of_the_default_backend(name: str) -> None:
    ours, theirs = pair(name, SMALL.get(name))
    assert (ours.backend, theirs.backend) == ("gpuimg", "torchvision")
    assert isinstance(ours, type(theirs))
    images = [opened(path) for path in PHOTOS]
    want = theirs(images, return_tensors="pt")
    assert_equal(ours(PHOTOS, return_tensors="pt"), want)
    assert_equal(ours([path.read_bytes() for path in PHOTOS], return_tensors="pt"), want)
    assert_equal(ours(images, return_tensors="pt"), want)


def awkward(count: int) -> list[bytes]:
    """Files of every mode, with and without transparency, of all orientations and of thin shapes."""
    seed = int.from_bytes(os.urandom(4), "little")
    print("seed", seed)
    rng = np.random.default_rng(seed)
    made = [pngs.made(rng, 21, 18, color, depth, pngs.FILTERS) for color, depth in pngs.BUILDS]
    return made + bench.awkward(rng, [opened(path) for path in PHOTOS], count)


TILED = ("LlavaOnevision", "llava_anyres", "Gemma4", "Llama4", "Mllama")  # of which each image takes long
# GPUIMG_TEST_PROCESSORS=all compares every processor, which takes a quarter of an hour.
COMPARED = sorted({*NAMES, *bench.FAMILIES}) if os.environ.get("GPUIMG_TEST_PROCESSORS") == "all" else NAMES


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in TILED else name for name in COMPARED]
)
def test_awkward_images_give_the_same_values_or_an_error(name: str) -> None:
    """Pillow images, arrays and files: the last upright, and 16-bit gray as upper bytes, which Pillow would clip."""
    import transformers

    if not hasattr(transformers, f"{name}ImageProcessor") and name not in (*bench.SPECS, "ConvNext384"):
        pytest.skip(f"transformers {transformers.__version__} does not have {name}")
    ours, theirs = pair(name, SMALL.get(name))
    cases: list[tuple[Any, Any]] = [(np.zeros((4, 9, 3), np.uint8),) * 2, (np.zeros((3, 9, 4), np.uint8),) * 2]
    for data in awkward(32):
        image = Image.open(io.BytesIO(data))
        upright = bench.upright(data, bool(theirs.do_convert_rgb))
        cases += [(image, image), (data, upright)]
        if image.mode in ("RGB", "RGBA") and len(cases) < 40:
            cases += [(array, array) for array in (np.array(image), np.array(image).transpose(2, 0, 1).copy())]
    compared = 0
    for given, reference in cases:
        picture = reference if isinstance(reference, Image.Image) else Image.new("RGB", (9, 9))
        try:
            want = bench.called(name, theirs, [reference], [picture.size])
        except REFUSALS:
            with pytest.raises(REFUSALS):
                bench.called(name, ours, [given], [picture.size])
            continue
        if picture.mode not in ("RGB", "RGBA") and not theirs.do_convert_rgb:
            continue  # some take gray images by accident, as their means have three channels
        for one, other in zip(bench.called(name, ours, [given], [picture.size]), want, strict=True):
            np.testing.assert_array_equal(one, other, strict=True)
        compared += 1
    assert compared > 1
    if theirs.do_convert_rgb is None and name in ("ViT", "Siglip2"):
        with pytest.raises(ValueError, match=r"do_convert_rgb=True .*docs/vlm\.md"):
            ours(Image.new("L", (9, 9)), return_tensors="pt")


def test_an_option_decides_whether_images_are_converted() -> None:
    ours, theirs = pair("ViT")
    image = Image.new("LA", (40, 30), (9, 99))
    file, gray = file_of(image, "PNG"), image.convert("L")
    for options in ({"do_convert_rgb": True}, {"do_convert_rgb": True, "resample": 3}):
        want = theirs(image, return_tensors="pt", **options)
        for given in (image, file):
            assert_equal(ours(given, return_tensors="pt", **options), want)
    options = {"do_normalize": False}  # gray remains gray
    assert_equal(ours(gray, return_tensors="pt", **options), theirs(gray, return_tensors="pt", **options))
    with pytest.raises(ValueError, match="takes RGB images, not an image of mode 'LA'"):
        ours(file, return_tensors="pt")


@pytest.mark.parametrize(("name", "counts"), [*((name, [1, 0, 2]) for name in NAMES), ("Idefics3", [1, 1, 1])])
def test_samples_of_several_images(name: str, counts: list[int]) -> None:
    """All but Idefics3, SmolVLM and Mllama return them as one list."""
    ours, theirs = pair(name, SMALL.get(name))
    ends = np.cumsum(counts)
    files = [PHOTOS[end - count : end] for count, end in zip(counts, ends.tolist(), strict=True)]
    if name == "Mllama":  # takes no sample without images
        files = [sample for sample in files if sample]
    want = theirs([[opened(path) for path in sample] for sample in files], return_tensors="pt")
    assert_equal(ours(files, return_tensors="pt"), want)


def test_forms_of_images() -> None:
    import torch

    ours, theirs = pair("CLIP")
    image = opened(PHOTOS[0])
    want = theirs(image, return_tensors="pt")
    tensor = torch.from_numpy(np.array(image)).permute(2, 0, 1)
    for given in (image, str(PHOTOS[0]), [[image]], np.array(image), tensor, [tensor.numpy()]):
        assert_equal(ours(given, return_tensors="pt"), want)
    assert isinstance(ours(image, return_tensors="np")["pixel_values"], np.ndarray)
    with pytest.raises(gi.DecodeError):
        ours([b"no image"], return_tensors="pt")


#: Options of a call, and settings of a processor.
OPTIONS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    *(("CLIP", options, {}) for options in (
        {"do_normalize": False}, {"do_normalize": None}, {"resample": 0}, {"image_mean": [0.1, 0.2, 0.3]},
        {"size": {"shortest_edge": 100}, "crop_size": {"height": 90, "width": 90}},
        {"do_center_crop": False, "size": {"height": 32, "width": 40}}, {"crop_size": {"height": 300, "width": 300}},
    )),
    *(("CLIP", {}, settings) for settings in (
        {"do_rescale": False}, {"rescale_factor": 1 / 127.5}, {"resample": 2},
        {"crop_size": {"height": 900, "width": 230}},
    )),
    ("Qwen2VL", {}, {"resample": 2}), ("internvl", {}, {"crop_to_patches": False}),
    ("Siglip2", {}, {"do_normalize": False}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options", "settings"), OPTIONS)
def test_options_and_settings(name: str, options: dict[str, Any], settings: dict[str, Any]) -> None:
    ours, theirs = pair(name)
    for processor in (ours, theirs):
        for key, value in settings.items():
            setattr(processor, key, type(theirs.size)(**value) if isinstance(value, dict) else value)
    images = [opened(path) for path in PHOTOS]
    assert_equal(ours(PHOTOS, return_tensors="pt", **options), theirs(images, return_tensors="pt", **options))


def test_a_saved_processor_loads_without_gpuimg(tmp_path: Path) -> None:
    ours, _ = pair("Qwen2VL")
    ours.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "preprocessor_config.json").read_text())
    assert saved["image_processor_type"] == "Qwen2VLImageProcessor"
    assert "gpuimg" not in json.dumps(saved)


def test_other_processors_have_the_default_backend_and_a_warning(tmp_path: Path) -> None:
    import transformers

    transformers.VivitImageProcessor().save_pretrained(tmp_path)
    with pytest.warns(UserWarning, match=r"does not have VivitImageProcessor: .*docs/vlm\.md") as caught:
        found = transformers.AutoImageProcessor.from_pretrained(tmp_path, backend="gpuimg")
    assert len(caught) == 1
    assert type(found) is transformers.VivitImageProcessor


def test_a_model_is_known_by_its_type(tmp_path: Path) -> None:
    from transformers import AutoImageProcessor

    (tmp_path / "preprocessor_config.json").write_text("{}")
    (tmp_path / "config.json").write_text('{"model_type": "siglip"}')
    found = AutoImageProcessor.from_pretrained(tmp_path, backend="gpuimg")
    assert (type(found).__name__, found.backend) == ("SiglipImageProcessor", "gpuimg")


def test_results_may_be_changed_in_place_and_written_to_other_tensors() -> None:
    """As processors may do with images, before their pixels are there."""
    import torch

    from gpuimg._batch.batch import as_batch
    from gpuimg.integrations import deferred

    pixels = np.random.default_rng().integers(0, 256, (2, 9, 7, 3), np.uint8)
    images = deferred.Images(as_batch(pixels))
    one, other = images.tensors()
    wants = [torch.from_numpy(image).permute(2, 0, 1) for image in pixels]
    square = torch.zeros((3, 9, 9), dtype=torch.uint8)
    square[:, :, 1:8] = one
    square[0] += 1
    view = other[None].float().permute(0, 2, 3, 1)
    view[..., 0] = 7.0
    found = deferred.resolved(images, {"square": square, "sum": view.sum(), "max": [other.max()]})
    want = torch.zeros((3, 9, 9), dtype=torch.uint8)
    want[:, :, 1:8] = wants[0]
    want[0] += 1
    assert torch.equal(found["square"], want)
    assert float(found["sum"]) == float(wants[1][1:].float().sum() + 7.0 * 63)
    assert int(found["max"][0]) == int(wants[1].max())
    assert one.tolist() == wants[0].tolist()


def test_registered_types(registered: list[str]) -> None:
    import transformers
    from transformers.models.auto.image_processing_auto import IMAGE_PROCESSOR_MAPPING_NAMES as NAMES_OF

    assert len(registered) >= 130
    missing = {NAMES_OF[model]["torchvision"] for model in registered} - {f"{n}ImageProcessor" for n in bench.FAMILIES}
    assert not missing
    for name in bench.FAMILIES:
        found = getattr(transformers, f"{name}ImageProcessor", transformers.CLIPImageProcessor)
        assert found.__mro__[1].__name__ == "TorchvisionBackend"


def test_the_version_is_one_of_those_tried() -> None:
    """Internals of transformers change: add a version here after a run with it."""
    assert version("transformers").rpartition(".")[0] in VERSIONS
