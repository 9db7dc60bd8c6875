"""The kernels that tell images which nvImageCodec did not write, as they are compiled, launched by the runtime."""

from __future__ import annotations

import numpy as np
import pytest

import gpuimg as gi
from tests.standin.decoder import file
from tests.standin.work import told

pytest.importorskip("numba_cuda")

from .device import Launches, executing

SOURCES = [file(40, 56), file(31, 33, "skipped"), file(40, 57, "skipped", 6), file(17, 64), file(9, 19, "smaller")]


def decoded(launches: Launches) -> gi.Batch:
    with told("skipped"):
        batch = gi.decode_batch(SOURCES, device="cuda:0")
    assert [kernel.name for kernel in launches.kernels] == ["mark", "mark", "compare", "compare"]
    return batch


def test_the_cpu_decodes_what_was_not_written() -> None:
    """Also of images that are turned, which have memory of their own."""
    with executing() as launches:
        batch = decoded(launches)
        for one, other in zip(batch, gi.decode_batch(SOURCES, device="cpu"), strict=True):
            np.testing.assert_array_equal(one.values, other)
        assert launches.standin.problems == []
