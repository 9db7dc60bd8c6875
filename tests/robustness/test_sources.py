"""A sample of the damaged data sets and indexes; see :mod:`tests.robustness.sources`."""

from __future__ import annotations

import random

import pytest

from .sources import KINDS, run

COUNT = 60
FIRST = random.SystemRandom().randrange(1 << 40)


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_refused_or_read(kind: str) -> None:
    results = list(run(kind, FIRST, FIRST + COUNT))
    assert [finding for _, finding in results if finding] == []
    assert len(results) == COUNT
    assert ("built again" if kind.endswith(" index") else "refused") in {outcome for outcome, _ in results}, FIRST
