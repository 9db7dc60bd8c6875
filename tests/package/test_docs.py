"""Pages: links have targets, lists are complete, and figures are those of bench/results."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path

import pytest

import gpuimg
from bench import figures

from ..samples import ROOT

WRITTEN = figures.written()
PATTERNS = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "tests/README.md", "docs/*.md", "docs/reference/*.md")
PAGES = [str(page.relative_to(ROOT)) for pattern in PATTERNS for page in sorted(ROOT.glob(pattern))]
FIGURES = ROOT / "docs" / "figures"

MEASURED = re.compile(
    r"(?<![\w.])\d[\d.,]*(?: (?:images/s|clips/s|ms|[µu]s|%|s|[KMG]i?B|seconds?|minutes?)| times (?:as|the))(?![\w/])"
)
NOT_PROSE = re.compile(r"(?s:<!--= .*?<!--/-->|^```.*?^```)|^(?: {4}.*\n)+|`[^`\n]*`", re.MULTILINE)
STATED = {
    "benchmarks": "15 %",
    "data-formats": "1 GiB",
    "gpu": "0.6 MB, 41 KB, 54 GB, 12 us",
    "many-machines": "5 ms, 8 MB, 10 seconds, 500 MB",
    "performance": "4 seconds, 5 ms",
    "prepare": "1 GB",
    "remote": "4 MiB, 64 KiB, 100 KB, 0.8 GB, 5 s, 10 s, 30 s, 1 MiB",
    "vlm": "5 %, 1.8 %",
}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page: str) -> None:
    path = ROOT / page
    for target in re.findall(r"\]\(([^)]+)\)", path.read_text()):
        if made := re.fullmatch(r"gallery/(\w+)\.rst", target):  # built from a script with the site
            assert made[1] == "index" or (ROOT / "examples" / "gallery" / f"{made[1]}.py").is_file(), target
        else:
            file, _, heading = target.partition("#")
            found = path.parent / file if file else path
            assert target.startswith("https://") or found.is_file(), target
            assert not heading or heading in _anchors(found.read_text()), target


def _anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings."""
    titles = re.findall(r"^#+ (.*)", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_install_page_has_every_extra_and_python() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / "docs" / "install.md").read_text()
    extras = page[page.index("## Extras") :]
    assert set(re.findall(r"`([a-z0-9-]+)`", extras)) - {"to_torch", "to_jax"} == set(project["optional-dependencies"])
    versions = re.findall(r"Python :: (3\.\d+)", str(project["classifiers"]))
    assert f"| Python | {versions[0]} to {versions[-1]};" in page
    assert project["requires-python"] == f">={versions[0]}"


def test_figures_are_those_of_their_script() -> None:
    for name, figure in runpy.run_path(str(FIGURES / "draw.py"))["FIGURES"].items():
        assert (FIGURES / name).read_text() == str(figure()), "python docs/figures/draw.py draws them again"


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_pages_have_the_figures_of_the_results(path: Path) -> None:
    assert path.read_text() == WRITTEN[path], "python -m bench.figures writes them"


@pytest.mark.parametrize(
    "page", [page for page in figures.PAGES if page.stem != "architecture"], ids=lambda page: page.name
)
def test_measured_numbers_come_from_results(page: Path) -> None:
    """A number with a unit is between marks, or in STATED: a setting, a limit, or a fact from elsewhere."""
    text = NOT_PROSE.sub("", page.read_text())
    assert {found[0] for found in MEASURED.finditer(text)} <= set(STATED.get(page.stem, "").split(", "))


def test_changelog_and_citation_have_this_version() -> None:
    assert f"\n## [{gpuimg.__version__}]" in (ROOT / "CHANGELOG.md").read_text()
    assert f"\nversion: {gpuimg.__version__}\n" in (ROOT / "CITATION.cff").read_text()
