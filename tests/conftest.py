"""Settings shared by all tests."""

import os

import pytest
from hypothesis import settings

from gpuimg._runtimes.probe import gpu_problem

# deadline=None: the first call of a kernel compiles it.
settings.register_profile("dev", max_examples=25, deadline=None)
settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True)
settings.register_profile("nightly", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


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
