"""Pages: their code, the README's and the examples run as printed, as do programs changed by docs/porting.md."""

import importlib.util
import inspect
import json
import re
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuimg
from bench import figures
from gpuimg.sources._formats import SOURCES

from ..libraries import needs
from ..processes import python
from ..samples import PHOTOS, PUBLIC, ROOT
from ..sources.slides import jpeg_pyramid
from .test_api import RECORDS

DOCS, EXAMPLES = ROOT / "docs", ROOT / "examples"
README = (ROOT / "README.md").read_text()
PAGES = {page.stem: page.read_text() for page in sorted(DOCS.glob("*.md")) if "```python\n" in page.read_text()}
untyped: Any = gpuimg
#: Pages, and what they are with the figures of bench/results.
WRITTEN = figures.written()
#: A number with a unit.
MEASURED = re.compile(
    r"(?<![\w.])\d[\d.,]*(?: (?:images/s|clips/s|ms|[µu]s|%|s|[KMG]i?B|seconds?|minutes?)| times (?:as|the))(?![\w/])"
)
#: A fraction, or a number of four and more digits, in a table.
IN_A_TABLE = re.compile(r"(?<![\w.,-])\d+(?:\.\d+|(?:,\d{3})+)(?![\w.,])")
NOT_PROSE = re.compile(r"(?s:<!--= .*?<!--/-->|^```.*?^```)|^(?: {4}.*\n)+|`[^`\n]*`", re.MULTILINE)
STATED = {
    "benchmarks": "15 %", "data-formats": "1 GiB", "gpu-internals": "0.8 MB, 12 us, 1.2, 40,000, 0.95",
    "install": "2.28, 3.11, 3.14", "limits": "1.0", "performance": "4 seconds, 5 ms",
    "porting": "0.5, 0.7, 0.9, 1.4", "prepare": "1 GB", "project": "3.11, 2,831, 3,428, 8,376",
    "recoded-jpeg": "1.5, 1.6, 4.8", "vlm": "5 %, 1.8 %",
    "remote": "4 MiB, 64 KiB, 100 KB, 0.8 GB, 5 s, 10 s, 30 s, 1 MiB",
}  # fmt: skip


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_pages_have_the_figures_of_the_results(path: Path) -> None:
    assert path.read_text() == WRITTEN[path], "python -m bench.figures writes them"


@pytest.mark.parametrize(
    "page", [page for page in figures.PAGES if page.stem != "architecture"], ids=lambda page: page.name
)
def test_measured_numbers_come_from_results(page: Path) -> None:
    """A number with a unit, or a fraction in a table, is between marks or in STATED: a setting, a limit, a version."""
    text = NOT_PROSE.sub("", page.read_text())
    rows = "".join(re.findall(r"^\|.*\n", text, re.MULTILINE))
    found = {*MEASURED.findall(text), *IN_A_TABLE.findall(rows)}
    assert found <= set(STATED.get(page.stem, "").split(", "))


#: Code before that of a page which supposes some names.
BEFORE = {
    "architecture": "import gpuimg\npaths, angles = ['photos/cat.jpg', 'photos/cat.jpg'], [10, 20]\n",
    "detection": """
from pathlib import Path
Path("labels").mkdir()
for k, path in enumerate(sorted(Path("photos").glob("*.jpg"))):
    Path(f"labels/{path.stem}.txt").write_text("0 0.5 0.5 0.4 0.3\\n1 0.3 0.4 0.2 0.2\\n"[: 18 * (k % 3)])
""",
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
import shutil, pydicom
shutil.make_archive("train", "zip", ".", "train")
scan = pydicom.Dataset()
scan.file_meta = pydicom.dataset.FileMetaDataset()
scan.file_meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
scan.set_pixel_data(np.arange(80 * 90, dtype=np.uint16).reshape(80, 90) % 4096, "MONOCHROME2", 12)
scan.SOPClassUID, scan.SOPInstanceUID = pydicom.uid.SecondaryCaptureImageStorage, pydicom.uid.generate_uid()
scan.save_as("scan.dcm", enforce_file_format=True)
""",
    "training-loops": "import os\nos.environ['XLA_FLAGS'] = '--xla_force_host_platform_device_count=2'\n",
    "video": "import gpuimg\npaths = ['a.mp4'] * 3\n",
}
#: Libraries that a page needs besides torch.
NEEDS = dict.fromkeys(("video", "vlm"), ("av",)) | {
    "data-formats": ("datasets",), "many-machines": ("grain",), "training-loops": ("jax", "lightning", "accelerate"),
    "recipes": ("av", "datasets", "fsspec", "ml_dtypes", "numba", "pandas", "pydicom"),
}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as the pages suppose it: photos, train and val with a folder for each class, shards, slides, a video."""
    place = tmp_path_factory.mktemp("place")
    shutil.copytree(EXAMPLES / "photos", place / "photos")
    (place / "examples").mkdir()
    (place / "examples" / "photos").symlink_to(place / "photos")
    (place / "shards").mkdir()
    for part in ("train", "val"):
        for photo in PHOTOS:
            folder = place / part / photo.stem.split("_")[0]
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(photo, folder)
    for k in range(2):
        with tarfile.open(place / "shards" / f"train-{k:03}.tar", "w") as shard:
            for number, photo in enumerate(PHOTOS[6 * k : 6 * k + 6]):
                (place / "label").write_text(str(number))
                shard.add(photo, f"{number}.jpg")
                shard.add(place / "label", f"{number}.cls")
    (place / "slides").mkdir()
    for k, photo in enumerate(PHOTOS[:2]):
        large = gpuimg.resize(gpuimg.open_batch([photo], device="cpu"), (750, 1000)).array(dtype="uint8")[0]
        (place / "slides" / f"{k}.svs").write_bytes(jpeg_pyramid(np.asarray(large), side=128))
    (place / "instances.json").write_text(json.dumps(_annotations()))
    if importlib.util.find_spec("av"):
        from ..video.videos import made

        (place / "a.mp4").write_bytes(made("h264"))
    return place


def _annotations() -> dict[str, object]:
    """A COCO file: two objects in each photo, as a polygon and as run lengths, with three key points."""
    images: list[dict[str, object]] = []
    annotations: list[dict[str, object]] = []
    for k, (photo, (height, width)) in enumerate(zip(PHOTOS, gpuimg.open_batch(PHOTOS).sizes.tolist(), strict=True)):
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


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_code_of_a_page_runs(name: str, place: Path, tmp_path: Path) -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGES[name], re.DOTALL))
    assert not re.search(r"^ *[])}]+:?  #", code, re.MULTILINE), "a comment that is too long tears its line"
    needs("torch" if "import torch" in code or "to_torch" in code else "numpy", *NEEDS.get(name, ()))
    script = tmp_path / "page.py"
    script.write_text(BEFORE.get(name, "") + code)
    # The output is what a page states in comments.
    assert python(script, folder=place).splitlines() == re.findall(r"print\(.*\)  # (.*)", code)


def test_reference_has_every_public_name() -> None:
    text = "".join(page.read_text() for page in (DOCS / "reference").glob("*.rst"))
    names = {name for name in PUBLIC if not inspect.ismodule(getattr(gpuimg, name))} - {"__version__"}
    for module in (gpuimg.presets, gpuimg.models, gpuimg.sizes):
        own = (name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__)
        names |= {name for name in own if not name.startswith("_")}
    assert {name for name in names | {*RECORDS} if not re.search(rf"^   {name}$", text, re.MULTILINE)} == set()


def test_table_of_formats() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*\|.*\| (?:`(.*)` )?\|$", PAGES["data-formats"], re.MULTILINE)
    assert dict(rows) == {name: row.extra for name, row in SOURCES.items()}
    assert set(SOURCES) <= set(PUBLIC)


X = np.zeros((2, 20, 30, 3), np.uint8)
PAIRS = [(photo, 0) for photo in PHOTOS[:2]]
#: Mistakes of docs/coding-agents.md that are reported, by what its table has of them.
MISTAKES = {
    'gpuimg.open_batch("a.jpg")': lambda: untyped.open_batch("a.jpg"),
    "gpuimg.Resize(224)": lambda: untyped.Resize(224),
    "gpuimg.random_rotation(x, 15)": lambda: untyped.random_rotation(X, 15),
    "gpuimg.normalize(x, 127.5, 127.5)": lambda: gpuimg.normalize(X, 127.5, 127.5),
    "`imagenet_train` passed to a loader": lambda: untyped.load(PAIRS, gpuimg.presets.imagenet_train, batch_size=2),
    "for images, labels in gpuimg.load": lambda: [1 for _, _ in untyped.load(PAIRS, batch_size=2, device="cpu")],
}


@pytest.mark.parametrize("words", MISTAKES)
def test_mistakes_of_agents_are_reported(words: str) -> None:
    assert words in (DOCS / "coding-agents.md").read_text()
    with pytest.raises((TypeError, ValueError, AttributeError)):
        MISTAKES[words]()


# -- examples and the README -------------------------------------------------------------------------------------------


def readme_code(numbers: slice, folder: Path) -> list[str]:
    """Run code of the README in a folder with the demo's photos in ``train``; return what it prints."""
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(blocks) == 3
    shutil.copytree(ROOT / "gpuimg" / "_io" / "photos", folder / "train" / "photos")
    (folder / "readme.py").write_text("\n".join(blocks[numbers]))
    return python(folder / "readme.py", folder=folder).splitlines()


PROMISED = re.findall(r"print\(.*\)  # (.*)", README)


def test_first_code_of_the_readme_runs(tmp_path: Path) -> None:
    assert readme_code(slice(1), tmp_path) == PROMISED[:2]


@pytest.mark.slow
def test_code_of_the_readme_runs(tmp_path: Path) -> None:
    needs("torch")
    assert readme_code(slice(None), tmp_path) == PROMISED


# -- programs that are ported ------------------------------------------------------------------------------------------

DIFFS = re.findall(
    r"^## ([^\n]*)\n(?:(?!^## ).)*?^```diff\n(.*?)^```", (DOCS / "porting.md").read_text(), re.DOTALL | re.M
)
#: Programs by the title of their section, and the libraries that they need.
SECTIONS = {
    "PyTorch's main.py": ("main", ("torch",)),
    "timm's train.py": ("timm_train", ("torch", "timm")),
    "Hugging Face's Trainer": ("hf_trainer", ("torch", "transformers", "datasets", "accelerate")),
    "Keras": ("keras_fit", ("keras", "torch")),
}


def ported(title: str) -> str:
    """The program of a section with its changes."""
    text = (ROOT / "tests" / "programs" / f"{SECTIONS[title][0]}.py").read_text()
    for hunk in dict(DIFFS)[title].split("@@\n"):
        lines = [(line[:1] or " ", line[1:]) for line in hunk.splitlines()]
        old, new = ("".join(f"{line}\n" for sign, line in lines if sign in (" ", which)) for which in "-+")
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos in train and val, with a folder for each class: 12 and 11, so that two ranks have padding."""
    place = tmp_path_factory.mktemp("data")
    for part, chosen in (("train", PHOTOS), ("val", PHOTOS[:11])):
        for k, photo in enumerate(chosen):
            folder = place / part / "abc"[k % 3]
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(photo, folder)
    return place


def epochs(samples: int, batches: int, validated: str) -> str:
    return "".join(f"epoch {k}: {samples} samples in {batches} batches, validated {validated}\n" for k in range(2))


TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
TIMM = ("--val-split", "val", "--no-prefetcher", "--aa", "rand-m9-mstd0.5-inc1", "--reprob", "0.25", "--aug-repeats")
#: Sections, what comes before the program, its arguments ("PHOTOS" is their folder), and what it prints.
RUNS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...], str]] = {
    "main": ("PyTorch's main.py", (), ("PHOTOS",), epochs(12, 3, "11 of 11")),
    "two ranks validate all once": ("PyTorch's main.py", TORCHRUN, ("PHOTOS",), epochs(6, 2, "11 of 11")),
    "timm": ("timm's train.py", (), ("--data-dir", "PHOTOS", *TIMM, "0"), epochs(12, 3, "11")),
    "timm repeats": ("timm's train.py", (), ("--data-dir", "PHOTOS", *TIMM, "3"), epochs(12, 3, "11")),
    "Trainer": ("Hugging Face's Trainer", (), ("PHOTOS",), "6 steps of 12 samples, evaluated [11, 11]"),
    "Keras": ("Keras", (), ("PHOTOS",), "2 epochs"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_ported_programs_run(name: str, photos: Path, tmp_path: Path) -> None:
    title, launch, arguments, expected = RUNS[name]
    needs(*SECTIONS[title][1])
    given = [str(photos) if argument == "PHOTOS" else argument for argument in arguments]
    program = tmp_path / "program.py"
    program.write_text(ported(title))
    alone = dict.fromkeys(("RANK", "WORLD_SIZE")) | {"HF_HUB_OFFLINE": "1", "KERAS_BACKEND": "torch"}
    found = python(*launch, program, *given, **alone)
    assert found == expected if expected.startswith("epoch") else expected in found
