"""The settings of the tests themselves: a new Hypothesis seed in every run, and the same examples for the same seed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

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


def run(folder: Path, *options: str, profile: str = "ci", **environment: str) -> tuple[str, str]:
    """Seed in the header and examples of a run of its own, under this folder's conftest."""
    file = folder / "test_drawn.py"
    file.write_text(TEST)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HYPOTHESIS")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-s", "-p", "tests.conftest", "-c", os.devnull, *options, str(file)],
        cwd=ROOT,
        env=kept | {"HYPOTHESIS_PROFILE": profile} | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    header = re.search(r"^hypothesis seed: (.*)$", done.stdout, re.MULTILINE)
    examples = re.search(r"drawn \[(.*)\]", done.stdout)
    assert header, done.stdout + done.stderr
    assert examples, done.stdout + done.stderr
    return header[1], examples[1]


def test_a_run_draws_its_own_examples_and_says_how_to_draw_them_again(tmp_path: Path) -> None:
    said, examples = run(tmp_path, CI="1")
    found = re.fullmatch(r"(\d+) \(HYPOTHESIS_SEED=(\d+) reproduces it\)", said)
    assert found
    assert found[1] == found[2]
    assert examples.count(",") == 99
    assert run(tmp_path, CI="1")[1] != examples
    assert run(tmp_path, HYPOTHESIS_SEED=found[1]) == (said, examples)


def test_the_profile_for_development_has_a_seed_only_if_asked(tmp_path: Path) -> None:
    assert run(tmp_path, profile="dev")[0].startswith("a new one for each test")
    assert run(tmp_path, profile="dev", HYPOTHESIS_SEED="5")[0].startswith("5 ")


def test_the_command_line_decides_the_seed(tmp_path: Path) -> None:
    assert run(tmp_path, "--hypothesis-seed", "6", HYPOTHESIS_SEED="5")[0].startswith("6 ")


def test_a_seed_that_is_no_number_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="HYPOTHESIS_SEED must be a whole number, not 'five'"):
        run(tmp_path, HYPOTHESIS_SEED="five")
