"""The page of torchvision's names: all of them, and true of ours."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import json
import re
from pathlib import Path

import pytest

import gpuimg

ROOT = Path(__file__).parents[2]
NAMES = json.loads((Path(__file__).with_name("torchvision_names.json")).read_text())
PAGE = (ROOT / "docs" / "reference" / "torchvision.md").read_text()
#: Functionals have a variant for each type of input, which is not a separate function.
VARIANT = re.compile(r"\w+_(image|mask|video|bounding_boxes|keypoints)")
FUNCTIONS = {"clamp_bounding_boxes", "clamp_keypoints", "sanitize_bounding_boxes", "sanitize_keypoints"}
FUNCTIONS |= {"to_image", "to_pil_image"}


def rows(title: str) -> list[list[str]]:
    """Cells of the table under a title."""
    text = PAGE[PAGE.index(f"## {title}") :].partition("\n## ")[0]
    return [[cell.strip() for cell in row[1:-1].split("|")] for row in re.findall(r"^\| `.*\|$", text, re.MULTILINE)]


TABLES = {"classes": rows("Transforms"), "functional": rows("Functionals")}


@pytest.mark.parametrize("kind", TABLES)
def test_every_name_has_its_row(kind: str) -> None:
    assert [row[0].strip("`") for row in TABLES[kind]] == NAMES[kind]
    assert NAMES["version"].startswith(re.findall(r"v2` \(([\d.]+)\)", PAGE)[0])


def test_what_stands_for_them_exists() -> None:
    for row in TABLES["classes"] + TABLES["functional"]:
        for name in re.findall(r"`([\w.]+)`", row[1]):
            thing = gpuimg
            for part in name.split("."):
                thing = getattr(thing, part)
        assert len(row) == 3
        assert row[1] or row[2] or row[0] == "`is_pure_tensor`", f"nothing is said of {row[0]}"


def test_functions_of_the_same_name_stand_for_each_other() -> None:
    for name in NAMES["functional"]:
        if hasattr(gpuimg, name):
            assert [f"`{name}`"] * 2 in [row[:2] for row in TABLES["functional"]]


def test_the_names_are_those_of_the_torchvision_installed_if_one_is() -> None:
    """Read from its files: importing it takes its compiled part, which may not fit the torch installed."""
    found = importlib.util.find_spec("torchvision")
    if found is None or found.origin is None:
        return
    folder = Path(found.origin).parent / "transforms" / "v2"
    version = importlib.metadata.version("torchvision")
    public = {kind: _imported(folder / path) for kind, path in (("classes", "."), ("functional", "functional"))}
    classes = {name for name in public["classes"] if name[0].isupper()}
    functions = {name for name in public["functional"] if name in FUNCTIONS or not VARIANT.fullmatch(name)}
    assert classes == set(NAMES["classes"]), version
    assert functions - {"InterpolationMode"} == set(NAMES["functional"]), version


def _imported(package: Path) -> set[str]:
    """Public names that a package imports."""
    tree = ast.parse((package / "__init__.py").read_text())
    names = {
        alias.asname or alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    return {name for name in names if not name.startswith("_")} - {"functional"}
