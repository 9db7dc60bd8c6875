"""The changes of docs/porting.md, applied to programs as users have them, which then run."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from pathlib import Path

import pytest

from ..processes import python

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "tests" / "programs"
PHOTOS = sorted((ROOT / "examples" / "photos").glob("*.jpg"))
PAGE = (ROOT / "docs" / "porting.md").read_text()
DIFFS = re.findall(r"^## ([^\n]*)\n(?:(?!^## ).)*?^```diff\n(.*?)^```", PAGE, re.DOTALL | re.M)
#: Programs by the title of their section, and the libraries that they need.
SECTIONS = {
    "PyTorch's main.py": ("main", ("torch",)),
    "timm's train.py": ("timm_train", ("torch", "timm")),
    "Hugging Face's Trainer": ("hf_trainer", ("torch", "transformers", "datasets", "accelerate")),
    "Lightning": ("lightning_module", ("torch", "lightning")),
    "Keras": ("keras_fit", ("keras", "torch")),
}


def ported(title: str) -> str:
    """The program of a section with its changes."""
    text = (PROGRAMS / f"{SECTIONS[title][0]}.py").read_text()
    for hunk in dict(DIFFS)[title].split("@@\n"):
        lines = [(line[:1] or " ", line[1:]) for line in hunk.splitlines()]
        old, new = ("".join(f"{line}\n" for sign, line in lines if sign in (" ", which)) for which in "-+")
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def needs(libraries: tuple[str, ...]) -> None:
    missing = [library for library in libraries if importlib.util.find_spec(library) is None]
    if missing and os.environ.get("GPUIMG_REQUIRE_INTEROP") != "1":
        pytest.skip(f"needs {' and '.join(missing)}")


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


def run(title: str, tmp_path: Path, *arguments: str | Path, launch: tuple[str, ...] = ()) -> str:
    needs(SECTIONS[title][1])
    program = tmp_path / "program.py"
    program.write_text(ported(title))
    return python(
        *launch, program, *arguments, RANK=None, WORLD_SIZE=None, HF_HUB_OFFLINE="1", KERAS_BACKEND="torch"
    )  # fmt: skip


def test_each_program_has_its_section_and_changes_little() -> None:
    assert [title for title, _ in DIFFS] == list(SECTIONS)
    for title, diff in DIFFS:
        assert len(re.findall(r"^\+.", diff, re.M)) <= 15, title
        compile(ported(title), title, "exec")


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
    "Lightning": ("Lightning", (), ("PHOTOS",), "6 steps"),
    "Keras": ("Keras", (), ("PHOTOS",), "2 epochs"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_ported_programs_run(name: str, photos: Path, tmp_path: Path) -> None:
    title, launch, arguments, expected = RUNS[name]
    given = [str(photos) if argument == "PHOTOS" else argument for argument in arguments]
    found = run(title, tmp_path, *given, launch=launch)
    assert found == expected if expected.startswith("epoch") else expected in found
