"""The page of torchvision's names: all of them, and true of ours."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import gpuimg

ROOT = Path(__file__).parents[2]
NAMES = json.loads((Path(__file__).with_name("torchvision_names.json")).read_text())
PAGE = (ROOT / "docs" / "reference" / "torchvision.md").read_text()


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
