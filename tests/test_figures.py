"""Figures of the pages are those of bench/results; and the command that measures them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import bench.__main__ as driver
import gpuimg
from bench import common, figures, parts, plots
from bench.parts import Part

WRITTEN = figures.written()
BENCHMARKS = figures.ROOT / "docs" / "benchmarks.md"
README = figures.ROOT / "README.md"

#: A number with what it counts: rates, ratios, times, memory.
FIGURE = re.compile(r"(?<![\w.])\d[\d,.]*\s+(?:times|images/s|MiB|MB|GB|ms|µs|s|seconds|minutes|%)(?!\w)")
#: Figures that are no measurement of gpuimg, and stand in the text as they are.
QUOTED = {
    "2 %",  # of the files' bytes, an index: docs/seek-index.md
    "2.8 times", "5 %",  # of another project, with a link
    "12 MB", "1 MB", "31.5 GB",  # a raw photo and its JPEG, and a bus, by arithmetic
}  # fmt: skip

#: Results of an earlier version, which `make bench` has not measured again; none in a release.
OLDER = {"many", "remote", "serve", "video", "exact-values", "accuracy"}


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_pages_and_plots_have_the_figures_of_the_results(path: Path) -> None:
    assert path.read_text() == WRITTEN[path], "python -m bench.figures writes them"


@pytest.mark.parametrize("page", [README, BENCHMARKS], ids=lambda page: page.name)
def test_a_page_states_no_figure_without_its_result(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", figures.without_figures(page.read_text()), flags=re.DOTALL | re.MULTILINE)
    found = {" ".join(match[0].split()) for match in FIGURE.finditer(text)}
    stated = re.sub("<!--.*?-->", "", BENCHMARKS.read_text())
    measured = {" ".join(match[0].split()) for match in FIGURE.finditer(stated)}
    allowed = QUOTED if page == BENCHMARKS else QUOTED | measured
    assert found - allowed == set(), "take it from a result: see bench/figures.py"


def test_a_figure_is_recognized() -> None:
    found = "at 3.4 times the rate, 1,234 images/s in 5 ms; 2 threads of 500x375, batches of 64, version 0.2"
    assert FIGURE.findall(found) == ["3.4 times", "1,234 images/s", "5 ms"]


def test_another_figure_in_a_page_is_replaced() -> None:
    text = 'a <!--= rate("peers-S", "train") -->1<!--/--> b'
    rate = figures.result("peers-S")["works"]["train"]["gpuimg"]["images_per_second"]
    assert figures.filled(text) == text.replace(">1<", f">{rate:,}<")
    assert figures.filled('<!--= rate("no-such", "train") -->1<!--/-->').count("not measured yet") == 1
    with pytest.raises(NameError):
        figures.filled("<!--= open('x') --><!--/-->")


@pytest.mark.parametrize("page", figures.PAGES, ids=lambda page: page.name)
def test_marks_within_a_line_do_not_begin_it(page: Path) -> None:
    """Markdown takes a line that begins with a comment for HTML."""
    assert re.findall(r"^\s*<!--= .*? -->[^\n].*$", page.read_text(), re.MULTILINE) == []


def test_every_result_is_of_a_part() -> None:
    names = {path.stem for path in common.RESULTS.glob("*.json")}
    assert names <= {part.name for part in parts.PARTS} | set(parts.ELSEWHERE)
    assert len({part.name for part in parts.PARTS}) == len(parts.PARTS)
    assert sum(part.minutes for part in parts.README) <= 40


@pytest.mark.parametrize("part", parts.PARTS, ids=lambda part: part.name)
def test_results_are_of_this_version(part: Part) -> None:
    if (common.RESULTS / f"{part.name}.json").exists():
        assert (part.recorded.get("version") != gpuimg.__version__) == (part.name in OLDER), "make bench, or OLDER"


@pytest.mark.parametrize("name", [part.name for part in parts.PARTS if part.module == "bench.peers"])
def test_parts_name_sets_and_peers_that_exist(name: str) -> None:
    from bench.peers.registry import PEERS
    from bench.photos import SETS

    (part,) = (part for part in parts.PARTS if part.name == name)
    arguments = part.arguments.split()
    assert arguments[arguments.index("--set") + 1] in SETS
    assert set(arguments[arguments.index("--peers") + 1].split(",")) <= set(PEERS)


# -- the driver --------------------------------------------------------------------------------------------------------

_MODULE = """
import sys
from pathlib import Path
from bench import common
if "--broken" in sys.argv:
    raise SystemExit("out of order")
common.write({"works": 1}, Path(sys.argv[sys.argv.index("--out") + 1]))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of results, with a module that measures."""
    (tmp_path / "a_part.py").write_text(_MODULE)
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    monkeypatch.setattr(parts, "RESULTS", tmp_path)
    monkeypatch.setattr(driver, "_LOGS", tmp_path / "logs")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{figures.ROOT}")
    return tmp_path


def test_a_part_that_fails_keeps_its_result_and_the_others_go_on(folder: Path, capsys: Any) -> None:
    (folder / "broken.json").write_text('{"run": {"version": "0.0"}}')
    chosen = [Part("broken", "a_part", "--broken"), Part("lacks", "a_part", needs="no/such"), Part("good", "a_part")]
    assert driver.run(chosen) == ["broken", "lacks"]
    said = capsys.readouterr().out
    assert "out of order" in said
    assert "no/such" in said
    assert json.loads((folder / "broken.json").read_text()) == {"run": {"version": "0.0"}}
    record = json.loads((folder / "good.json").read_text())["run"]
    assert record["command"] == "python -m a_part"
    assert set(record) >= {"version", "commit", "code", "processor", "cores", "date", "load_before", "seconds", "loops"}


def test_a_part_is_measured_again_only_when_the_code_has_changed(folder: Path) -> None:
    assert driver.measure(Part("good", "a_part")) is None
    digest = common.code_digest(figures.ROOT)
    assert driver.is_current(Part("good", "a_part"), gpuimg.__version__, digest)
    assert not driver.is_current(Part("good", "a_part"), gpuimg.__version__, "another")
    assert not driver.is_current(Part("good", "a_part"), "0.0", digest)
    assert not driver.is_current(Part("never", "a_part"), gpuimg.__version__, digest)


def test_comments_are_no_change_of_the_code(tmp_path: Path) -> None:
    (tmp_path / "gpuimg").mkdir()
    digests = []
    for text in ("x = 1\n", '"""A module."""\n\nx = 1  # one\n', "x = 2\n"):
        (tmp_path / "gpuimg" / "a.py").write_text(text)
        digests.append(common.code_digest(tmp_path))
    assert digests[0] == digests[1] != digests[2]


# -- plots -------------------------------------------------------------------------------------------------------------


def test_bars_are_as_long_as_their_values() -> None:
    drawn = plots.bars("a & b", [plots.Bar("one", 50, "50", ours=True), plots.Bar("<two>", 100, "100")], "unit")
    short, long = (float(width) for width in re.findall(r'<rect x="\d+" y="\d+" width="([\d.]+)"', drawn))
    assert long == pytest.approx(2 * short, abs=0.2)
    assert "a &amp; b" in drawn
    assert "&lt;two&gt;" in drawn


def test_lines_pass_through_their_points_and_labels_do_not_overlap() -> None:
    rows = [plots.Line("one", [(1, 10), (2, 20)], ours=True), plots.Line("two", [(1, 10), (2, 20)])]
    drawn = plots.lines("t", rows, "x", "y")
    circles = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', drawn)
    assert circles[:2] == circles[2:]
    assert float(circles[1][1]) < float(circles[0][1])  # more is higher
    one, two = (float(re.search(rf'y="([\d.]+)"[^>]*>{name}<', drawn)[1]) for name in ("one", "two"))  # type: ignore[index]
    assert two - one >= 15
