"""Image processors of transformers as references; tests that use them are skipped where it is not installed."""

from typing import Any

import pytest

from bench import processors

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


def assert_equal(got: Any, want: Any) -> None:
    """The same names, types, shapes and values: arrays, tensors or lists."""
    assert set(got) == set(want)
    for key, value in want.items():
        assert type(got[key]) is type(value)
        if isinstance(value, list):
            assert got[key] == value
        else:
            assert (got[key].dtype, got[key].shape) == (value.dtype, value.shape)
            assert bool((got[key] == value).all())
