"""The pages' code runs as printed; the site's reference has every public name, and its gallery every operation."""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import re
import shutil
import tarfile
from pathlib import Path
from types import ModuleType

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
    "recipes": """
from pathlib import Path
import numpy as np
from PIL import Image
rows, pairs = ["file,class,red,round,old"], ["image,depth,mask"]
for kind in ("depth", "masks"):
    Path(kind).mkdir()
for k, path in enumerate(sorted(Path("photos").glob("*.jpg"))):
    name = path.stem
    rows.append(f"{path},{name.split('_')[0]},{k % 2},{k % 3 % 2},1")
    pairs.append(f"{path},depth/{name}.png,masks/{name}.png")
    size = Image.open(path).size[::-1]
    Image.fromarray(np.full(size, 1000 + k, np.uint16)).save(f"depth/{name}.png")
    mask = Image.fromarray(np.full(size, k, np.uint8)).convert("P")
    mask.putdata([k] * size[0] * size[1])
    mask.save(f"masks/{name}.png")
Path("labels.csv").write_text("\\n".join(rows))
Path("pairs.csv").write_text("\\n".join(pairs))
""",
    "video": "import gpuimg\npaths = ['a.mp4'] * 3\n",
}
#: Libraries that a page needs besides torch.
NEEDS = {"data-formats": ("datasets",), "training-loops": ("jax", "lightning", "accelerate")}
NEEDS |= dict.fromkeys(("video", "vlm"), ("av",)) | {"recipes": ("av", "datasets", "numba", "pandas")}


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


def test_recipes_are_short() -> None:
    recipes = re.split(r"^### ", PAGES["recipes"], flags=re.MULTILINE)[1:]
    assert len(recipes) >= 30
    for recipe in recipes:
        code = re.findall(r"```python\n(.*?)```", recipe, re.DOTALL)
        assert sum(bool(line) for part in code for line in part.splitlines()) <= 12, recipe


def public_names() -> set[str]:
    """Every name that users may import, dotted where it is in a module."""
    names = {name for name in gpuimg.__all__ if not inspect.ismodule(getattr(gpuimg, name))} - {"__version__"}
    of_torch = {f"torch.{name}" for name in ("load", "Loader", "TensorBatch", "IterableDataset", "Dataset")}
    modules = (gpuimg.presets, gpuimg.models, gpuimg.sizes)
    others = {f"{module.__name__.removeprefix('gpuimg.')}.{name}" for module in modules for name in _functions(module)}
    others |= {f"typing.{name}" for name in RECORDS}
    return names | others | of_torch | {"sources.Stream", "sources.Table", "integrations.transformers.register"}


def _functions(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]


def test_the_reference_has_every_public_name() -> None:
    listed: set[str] = set()
    for page in (DOCS / "reference").glob("*.rst"):
        prefix = ""
        for line in page.read_text().splitlines() if page.stem != "index" else ():
            if module := re.fullmatch(r"\.\. currentmodule:: gpuimg(?:\.(\w+))?", line):
                prefix = f"{module[1]}." if module[1] else ""
            elif entry := re.fullmatch(r"   (\w+(?:\.\w+)*)", line):
                listed.add(prefix + entry[1])
    assert public_names() - listed == set(), "docs/reference has no entry for these"
    assert listed - public_names() == set(), "docs/reference has entries of what is not public"
