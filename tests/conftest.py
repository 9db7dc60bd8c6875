"""Settings and fixtures shared by all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from gpuimg._runtimes.probe import gpu_problem

from .watchdog import no_hang

if TYPE_CHECKING:
    from .standin import Standin

# deadline=None: the first call of a kernel compiles it.
settings.register_profile("dev", max_examples=25, deadline=None)
settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True)
settings.register_profile("nightly", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

# -- GPU ---------------------------------------------------------------------------------------------------------------


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip GPU tests where there is no GPU, unless they must run."""
    if item.get_closest_marker("gpu") is None:
        return
    problem = gpu_problem()
    if problem is None:
        return
    if os.environ.get("GPUIMG_REQUIRE_GPU") == "1":
        pytest.fail(f"GPUIMG_REQUIRE_GPU=1, but {problem.reason}", pytrace=False)
    pytest.skip(problem.reason)


@pytest.fixture
def faulty() -> Iterator[Standin]:
    """A stand-in for a GPU, for tests that expect problems."""
    from .standin import installed  # loads numba.cuda, which most tests do without

    with no_hang(60.0), installed() as standin:
        yield standin


@pytest.fixture
def gpu(faulty: Standin) -> Iterator[Standin]:
    """A stand-in for a GPU on which nothing may be out of order."""
    yield faulty
    assert faulty.problems == []


# -- threads -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def watched() -> Iterator[None]:
    """No test may hang, and none may leave a thread behind."""
    with no_hang():
        yield
