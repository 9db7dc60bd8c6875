"""The examples run as they stand, and the README's code runs as printed."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from ..processes import python

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PHOTOS = sorted((EXAMPLES / "photos").glob("*.jpg"))
README = (ROOT / "README.md").read_text()


def needs(framework: str) -> None:
    if os.environ.get("GPUIMG_REQUIRE_INTEROP") != "1":
        pytest.importorskip(framework)


def test_augment() -> None:
    assert re.match(
        r"\(12, 3, 224, 224\) float16 on (cpu|cuda:0), mean -?\d\.\d\d, 0 errors", python(EXAMPLES / "augment.py")
    )


@pytest.mark.slow
def test_vlm_tokens() -> None:
    text = python(EXAMPLES / "vlm_tokens.py")
    assert "Qwen2-VL, Qwen2.5-VL: pixel_values (2328, 1176), image_grid_thw (3, 3)" in text
    assert "camera.jpg: tokens 1096 to 1816, 24 x 30 patches" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("train_step", r"12 photos, 8 classes.*"),
        ("train_numpy", r"12 photos, 8 classes, 20 epochs, 40 batches"),
        ("train_torch", r"36 batches, stopped and resumed after 13"),
        ("train_jax", r"(2 devices|1 devices), batches of (6|3): \(3, 32, 32, 3\) on each"),
    ],
)
def test_training_loops(name: str, says: str) -> None:
    needs({"train_step": "torch"}.get(name, name.removeprefix("train_")))
    said = python(EXAMPLES / f"{name}.py")
    found = re.search(says + r"\nloss (\S+) -> (\S+)\s", said)
    assert found, said
    before, after = (float(v) for v in found.groups()[-2:])
    assert after < (1 if name == "train_step" else 0.9) * before < 4.0


def test_code_of_the_readme_runs(tmp_path: Path) -> None:
    needs("torch")
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(blocks) >= 3
    shutil.copytree(EXAMPLES / "photos", tmp_path / "examples" / "photos")
    for k, photo in enumerate(PHOTOS):  # the folder of the reader's own, one for each class in it
        to = tmp_path / "train" / f"class {k % 2}" / photo.name
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(photo, to)
    script = tmp_path / "readme.py"
    shapes = "tuple(images.shape), images.dtype, tuple(y.shape), y.dtype, tuple(t.shape), tuple(pixels.shape)"
    script.write_text("\n".join([*blocks, f"print({shapes})"]))
    lines = python(script, folder=tmp_path).splitlines()
    of_batch, result = "(12, 3, 224, 224) torch.float32", "(12, 3, 224, 224) float16 (12, 3, 224, 224)"
    assert lines[-1] == f"{of_batch} {result} (12, 224, 224, 3)"
    # What the README prints in a comment is what is printed.
    promised = re.findall(r"print\(.*\)  # (.*)", README)
    assert lines[:-1] == promised
