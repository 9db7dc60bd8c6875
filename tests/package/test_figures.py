"""Figures of the pages are those of bench/results."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from bench import __main__ as driver
from bench import common, figures
from bench.peers import PEERS
from bench.photos import SETS

WRITTEN = figures.written()


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_pages_and_bars_have_the_figures_of_the_results(path: Path) -> None:
    assert path.read_text() == WRITTEN[path], "python -m bench.figures writes them"


def test_another_figure_in_a_page_is_replaced() -> None:
    text = 'a <!--= value("exact-values", "differing") -->1<!--/--> b'
    assert figures.filled(text) == text.replace(">1<", ">0<")
    with pytest.raises(NameError):
        figures.filled("<!--= open('x') --><!--/-->")


@pytest.mark.parametrize("page", figures.PAGES, ids=lambda page: page.name)
def test_marks_within_a_line_do_not_begin_it(page: Path) -> None:
    """Markdown takes a line that begins with a comment for HTML."""
    assert re.findall(r"^\s*<!--= .*? -->[^\n].*$", page.read_text(), re.MULTILINE) == []


@pytest.mark.parametrize("arguments", driver.PARTS.values())
def test_parts_name_modules_sets_and_peers_that_exist(arguments: str) -> None:
    module, *options = arguments.split()
    given = dict(itertools.pairwise(options))
    path = common.ROOT / module.replace(".", "/")
    assert path.with_suffix(".py").exists() or (path / "__main__.py").exists()
    assert given.get("--set", "S") in SETS
    assert set(given.get("--peers", "gpuimg").split(",")) <= set(PEERS)
