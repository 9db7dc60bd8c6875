"""Image processors of transformers as references; tests that use them are skipped where it is not installed."""

from typing import Any

import numpy as np
import pytest

from bench import processors
from bench.processors import Outputs

from ..libraries import needs


def needs_transformers() -> None:
    """Skip the test where the processors cannot run."""
    needs("transformers", "torch", "torchvision")


def processor(name: str, backend: str) -> Any:
    """Return a model's processor with ``backend`` "torchvision" or "pil"; skip where there is none."""
    needs_transformers()
    found = processors.processor(name, backend)
    if found is None:
        pytest.skip(f"{name} has no processor of backend {backend}")
    return found


def assert_equal(got: Outputs, want: Outputs) -> None:
    """The same names, types, shapes and values."""
    assert got.keys() == want.keys()
    for key, value in want.items():
        assert (got[key].dtype, got[key].shape) == (value.dtype, value.shape)
        assert np.count_nonzero(got[key] != value) == 0
