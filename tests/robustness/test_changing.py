"""Files in memory that are overwritten, for a moment each; for longer: ``python -m tests.robustness.changing 30``."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from .changing import WAYS, files, run


@pytest.mark.slow
def test_files_that_change_give_pixels_or_a_reason() -> None:
    cases = ["overwritten", *map(" ".join, itertools.product(files(), WAYS))]
    found = run(cases, 0.5)
    assert list(found) == cases
    assert found["overwritten"]["pixels"]
    outcomes = sum(found.values(), Counter[str]())
    assert outcomes["pixels"]
    assert outcomes["a reason"]
