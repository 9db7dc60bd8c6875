"""A sample of the damaged seek indexes; ``GPUIMG_TEST_INDEXES=20000`` for more. See :mod:`tests.robustness.indexes`."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

from .indexes import SEALED, built_of_damaged_files, damaged, outcomes
from .test_bounds import run

pytestmark = pytest.mark.slow

COUNT = int(os.environ.get("GPUIMG_TEST_INDEXES", "600"))
CHECKED = 150  # with checked bounds
FIRST = random.SystemRandom().randrange(1 << 40)


def test_pixels_are_those_without() -> None:
    found = Counter(outcome for _, outcome in outcomes(FIRST, FIRST + COUNT))
    assert {"refused", "used", "damaged", "none", "other file"} <= set(found), FIRST


def test_entries_of_damaged_files() -> None:
    assert built_of_damaged_files(FIRST, FIRST + COUNT) > COUNT // 30, FIRST


def test_a_seed_is_an_index() -> None:
    assert damaged(7) == damaged(7)
    assert damaged(7) != damaged(8)
    kinds = {damaged(seed)[1] for seed in range(200)}
    assert {kind.__name__ for kind in SEALED} <= kinds


def test_with_checked_bounds() -> None:
    body = f"""
from tests.robustness import indexes
assert sum(1 for _ in indexes.outcomes({FIRST}, {FIRST + CHECKED})) > {CHECKED}
assert indexes.built_of_damaged_files({FIRST}, {FIRST + CHECKED}) > 0
"""
    done = run(body)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "done\n"), FIRST
