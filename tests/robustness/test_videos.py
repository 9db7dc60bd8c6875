"""A sample of damaged videos; see :mod:`tests.robustness.videos`."""

import pytest

from .videos import findings, mutation, run

pytestmark = pytest.mark.slow

FILES = 60


def test_damaged_videos_give_clips_or_a_reason() -> None:
    results = list(run(0, FILES))
    assert findings(results) == []
    assert len(results) == FILES
    assert {"decoded", "refused"} <= {what for _, what, _ in results}


def test_a_seed_is_a_file() -> None:
    assert mutation(7) == mutation(7)
    assert mutation(7) != mutation(8)
