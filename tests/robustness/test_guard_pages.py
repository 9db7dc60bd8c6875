"""Memory that ends at pages which cannot be touched; the cases are a subject of :mod:`.engine`."""

from __future__ import annotations

import signal
import subprocess
import sys

import numpy as np
import pytest

from . import guard_pages
from .mutate import Draw


@pytest.mark.parametrize("at_end", [True, False])
def test_memory_ends_where_it_says(at_end: bool) -> None:
    for size in (0, 1, 4095, 4096, 4097, 10000):
        memory = guard_pages.Flush(size, 0x55, at_end=at_end)
        assert memory.bytes.size == size
        assert np.all(memory.bytes == 0x55)
        assert not memory.broken()
        assert (memory.bytes.ctypes.data + (size if at_end else 0)) % 4096 == 0
        if memory._gap.size:
            memory._gap[Draw(size).below(memory._gap.size)] ^= 1
            assert memory.broken() == "1 bytes written beside it"


@pytest.mark.parametrize("offset", ["-1", "size"])
def test_a_byte_beside_ends_the_process(offset: str) -> None:
    code = (
        "import ctypes; from tests.robustness import guard_pages\n"
        f"size = 100; memory = guard_pages.Flush(size, 0, at_end={offset == 'size'})\n"
        f"print(ctypes.string_at(memory.bytes.ctypes.data + {offset}, 1))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert done.returncode == -signal.SIGSEGV
