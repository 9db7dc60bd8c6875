"""Fixtures of tests that interpret kernels."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .device import Launches


@pytest.fixture
def launches() -> "Iterator[Launches]":
    """The fake GPU with its kernels interpreted, and nothing on it out of order."""
    from .device import executing  # imports numba.cuda, which not all of these tests need

    with executing() as made:
        yield made
        assert made.gpu.problems == []
