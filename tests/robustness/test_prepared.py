"""A sample of the damaged folders of ``prepare``; more: ``python -m tests.robustness.prepared 2000``."""

from __future__ import annotations

import random
from collections import Counter

from .prepared import outcomes

COUNT = 150
FIRST = random.SystemRandom().randrange(1 << 40)


def test_nothing_outside_of_the_folder_changes() -> None:
    found = Counter(outcome for _, outcome in outcomes(FIRST, FIRST + COUNT))
    assert found["went on"] > COUNT / 3, FIRST
    assert any(outcome.startswith("refused") for outcome in found), FIRST
