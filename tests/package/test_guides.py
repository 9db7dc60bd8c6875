"""The pages' code runs as printed, and the site's reference has every public name."""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import re
import shutil
import tarfile
from pathlib import Path

import pytest

import gpuimg

from ..processes import python
from .test_api import RECORDS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PHOTOS = ROOT / "examples" / "photos"
PAGES = {page.stem: page.read_text() for page in sorted(DOCS.glob("*.md")) if "```python\n" in page.read_text()}
#: Code before that of a page which supposes some names.
BEFORE = {
    "architecture": "import gpuimg\npaths, angles = ['photos/cat.jpg', 'photos/cat.jpg'], [10, 20]\n",
    "video": "import gpuimg\npaths = ['a.mp4'] * 3\n",
}
#: Libraries that a page needs besides torch.
NEEDS = {"data-formats": ("datasets",), "training-loops": ("jax", "lightning", "accelerate")}
NEEDS |= dict.fromkeys(("video", "vlm"), ("av",))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as the pages suppose it: photos, train and val with a folder for each class, shards, a video."""
    place = tmp_path_factory.mktemp("place")
    shutil.copytree(PHOTOS, place / "photos")
    (place / "shards").mkdir()
    photos = sorted(PHOTOS.glob("*.jpg"))
    for part in ("train", "val"):
        for photo in photos:
            folder = place / part / photo.stem.split("_")[0]
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(photo, folder)
    for k in range(2):
        with tarfile.open(place / "shards" / f"train-{k:03}.tar", "w") as shard:
            for number, photo in enumerate(photos[6 * k : 6 * k + 6]):
                (place / "label").write_text(str(number))
                shard.add(photo, f"{number}.jpg")
                shard.add(place / "label", f"{number}.cls")
    (place / "instances.json").write_text(json.dumps(_annotations(photos)))
    if importlib.util.find_spec("av"):
        _write_video(place / "a.mp4", gpuimg.center_crop(gpuimg.open_batch(photos[:1] * 100), (128, 128)).array())
    return place


def _annotations(photos: list[Path]) -> dict[str, object]:
    """A COCO file: two objects in each photo, as a polygon and as run lengths, with three key points."""
    images: list[dict[str, object]] = []
    annotations: list[dict[str, object]] = []
    for k, (photo, (height, width)) in enumerate(zip(photos, gpuimg.open_batch(photos).sizes.tolist(), strict=True)):
        images.append({"id": k, "file_name": photo.name, "height": height, "width": width})
        x, y, w, h = width // 5, height // 4, width // 2, height // 3
        corners = [x, y, x + w, y, x + w, y + h, x, y + h]
        column = [x * height + y, h, height - h] + [h, height - h] * (w - 1)
        runs = [*column[:-1], height * width - sum(column[:-1])]
        for segmentation in ([corners], {"size": [height, width], "counts": runs}):
            annotations.append(
                {"id": len(annotations), "image_id": k, "category_id": 10 + k % 3, "bbox": [x, y, w, h],
                 "segmentation": segmentation, "keypoints": [x + 9, y, 2, x + w, y + h, 1, x, y + h, 2]}
            )  # fmt: skip
    categories = [{"id": number, "name": f"class {number}"} for number in (10, 11, 12)]
    return {"images": images, "annotations": annotations, "categories": categories}


def _write_video(path: Path, frames: object) -> None:
    import av

    with av.open(path, "w") as container:
        stream = container.add_stream("mpeg4", rate=25, width=128, height=128, pix_fmt="yuv420p")
        for frame in frames:  # type: ignore[attr-defined]
            container.mux(list(stream.encode(av.VideoFrame.from_ndarray(frame))))
        container.mux(list(stream.encode(None)))


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_code_of_a_page_runs(name: str, place: Path, tmp_path: Path) -> None:
    text = PAGES[name]
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    for library in ("torch" if "import torch" in code or "to_torch" in code else "numpy", *NEEDS.get(name, ())):
        if os.environ.get("GPUIMG_REQUIRE_INTEROP") != "1":
            pytest.importorskip(library)
    script = tmp_path / "page.py"
    script.write_text(BEFORE.get(name, "") + code)
    # The output is what a page states in comments.
    assert python(script, folder=place).splitlines() == re.findall(r"print\(.*\)  # (.*)", code)


def test_reference_has_every_public_name() -> None:
    text = "".join(page.read_text() for page in (DOCS / "reference").glob("*.rst"))
    names = {name for name in gpuimg.__all__ if not inspect.ismodule(getattr(gpuimg, name))} - {"__version__"}
    for module in (gpuimg.presets, gpuimg.models, gpuimg.sizes):
        own = (name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__)
        names |= {name for name in own if not name.startswith("_")}
    assert {name for name in names | {*RECORDS} if not re.search(rf"^   {name}$", text, re.MULTILINE)} == set()
