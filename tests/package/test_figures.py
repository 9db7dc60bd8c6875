"""Figures of the pages are those of bench/results."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import figures

WRITTEN = figures.written()


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_pages_and_bars_have_the_figures_of_the_results(path: Path) -> None:
    assert path.read_text() == WRITTEN[path], "python -m bench.figures writes them"


def test_another_figure_in_a_page_is_replaced() -> None:
    text = 'a <!--= value("exact-values", "differing") -->1<!--/--> b'
    assert figures.filled(text) == text.replace(">1<", ">0<")
    with pytest.raises(NameError):
        figures.filled("<!--= open('x') --><!--/-->")
