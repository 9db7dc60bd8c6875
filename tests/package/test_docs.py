"""Figures of pages are those of bench/results, and of their scripts."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from bench import figures

from ..samples import ROOT

WRITTEN = figures.written()
FIGURES = ROOT / "docs" / "figures"


def test_figures_are_those_of_their_script() -> None:
    for name, figure in runpy.run_path(str(FIGURES / "draw.py"))["FIGURES"].items():
        assert (FIGURES / name).read_text() == str(figure()), "python docs/figures/draw.py draws them again"


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_pages_have_the_figures_of_the_results(path: Path) -> None:
    assert path.read_text() == WRITTEN[path], "python -m bench.figures writes them"
