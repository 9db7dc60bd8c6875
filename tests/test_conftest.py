"""The settings of the tests themselves: a new Hypothesis seed in every run, and the same examples for the same seed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .forks import Forks, forks

pytestmark = pytest.mark.slow

# Like a law that never fails, and shows what was drawn for it.
TEST = """
from hypothesis import given, strategies as st

drawn = []

@given(st.integers(0, 2**64))
def test_draw(number):
    drawn.append(number)

def test_show():
    print("drawn", drawn)
"""
RUN = "import sys\nimport pytest\nsys.exit(pytest.main(sys.argv[1:]))"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    """With what tests import, and not their settings; on CI, where Hypothesis has settings of its own."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("HYPOTHESIS")]:
            patch.delenv(name)
        with forks(
            "import hypothesis.strategies, pytest, gpuimg._runtimes.probe", CI="1", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1"
        ) as python:
            yield python


class Drawn:
    """A folder with one test, to be run with settings."""

    def __init__(self, python: Forks, folder: Path) -> None:
        self._python = python
        self._file = folder / "test_drawn.py"
        self._file.write_text(TEST)

    def run(self, *options: str, profile: str = "ci", **environment: str) -> tuple[str, str]:
        """Seed in the header and examples of a run of its own, under this folder's conftest."""
        arguments = (
            "-s",
            "-p",
            "_hypothesis_pytestplugin",
            "-p",
            "tests.conftest",
            "-c",
            os.devnull,
            *options,
            str(self._file),
        )
        done = self._python.run(RUN, *arguments, HYPOTHESIS_PROFILE=profile, **environment)
        header = re.search(r"^hypothesis seed: (.*)$", done.stdout, re.MULTILINE)
        examples = re.search(r"drawn \[(.*)\]", done.stdout)
        assert header, done.stdout + done.stderr
        assert examples, done.stdout + done.stderr
        return header[1], examples[1]


@pytest.fixture
def drawn(python: Forks, tmp_path: Path) -> Drawn:
    return Drawn(python, tmp_path)


def test_a_run_draws_its_own_examples_and_says_how_to_draw_them_again(drawn: Drawn) -> None:
    said, examples = drawn.run()
    found = re.fullmatch(r"(\d+) \(HYPOTHESIS_SEED=(\d+) reproduces it\)", said)
    assert found
    assert found[1] == found[2]
    assert examples.count(",") == 99
    assert drawn.run()[1] != examples
    assert drawn.run(HYPOTHESIS_SEED=found[1]) == (said, examples)


def test_the_profile_for_development_has_a_seed_only_if_asked(drawn: Drawn) -> None:
    assert drawn.run(profile="dev")[0].startswith("a new one for each test")
    assert drawn.run(profile="dev", HYPOTHESIS_SEED="5")[0].startswith("5 ")


def test_the_command_line_decides_the_seed(drawn: Drawn) -> None:
    assert drawn.run("--hypothesis-seed", "6", HYPOTHESIS_SEED="5")[0].startswith("6 ")


def test_a_seed_that_is_no_number_is_refused(drawn: Drawn) -> None:
    with pytest.raises(AssertionError, match="HYPOTHESIS_SEED must be a whole number, not 'five'"):
        drawn.run(HYPOTHESIS_SEED="five")
