"""The kernels that tell images which nvImageCodec did not write, as they are compiled, launched by the runtime."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba_cuda")

from gpuimg.kernels.cuda import MARKS

from .launch import run
from .variants import ptx_of


def test_marks_at_any_place() -> None:
    """Each at its place and nowhere else; one changed bit, anywhere in it, and it is another one."""
    rng = np.random.default_rng()
    places = 17 * rng.permutation(40)
    places[rng.random(40) < 0.2] = -1
    mark = rng.bytes(16)
    halves = [np.frombuffer(half, "<u8")[0] for half in (mark[:8], mark[8:])]
    out = rng.integers(0, 256, 17 * 40, np.uint8)
    expected = out.copy()
    for at in places[places >= 0].tolist():
        expected[at : at + 16] = np.frombuffer(mark, np.uint8)
    run(ptx_of(MARKS["mark"], (9, 0)), 1, MARKS["mark"].block, [out, places, *halves])
    np.testing.assert_array_equal(out, expected)
    changed = (places >= 0) & (rng.random(40) < 0.5)
    bits = np.uint8(1) << rng.integers(0, 8, changed.sum(), np.uint8)
    out[places[changed] + rng.integers(0, 16, changed.sum())] ^= bits
    status = np.zeros(40, np.int32)
    run(ptx_of(MARKS["compare"], (9, 0)), 1, MARKS["compare"].block, [out, places, *halves, status])
    np.testing.assert_array_equal(status, (places >= 0) & ~changed)
