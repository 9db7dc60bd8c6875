"""A sample of the cases with guard pages, and faults put in that they must find; all of them: `make soak`."""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np
import pytest

from . import guard_pages, guard_pngs
from .mutate import Draw

CASES = 300

PLANT = """
import sys
from gpuimg.kernels.jpeg import decode as jpeg
from gpuimg.kernels.jpeg import layout as words
from tests import jpegs
from tests.robustness import guard_pages

read, work = guard_pages.read_headers, jpeg.work_bytes
def changed(files, change):
    headers = read(files)
    header = headers.records[0]
    if header["kind"] == words.BASELINE:
        change(header, len(files[0]))
    return headers
{fault}
sys.exit(guard_pages.main(sys.argv[1:], guard_pages.Checker, guard_pages.COMMAND))
"""

FAULTS = {
    "quantization steps past the file": "guard_pages.read_headers = lambda files: "
    "changed(files, lambda header, size: header['quant'].__setitem__(0, size - 20))",
    "less scratch": "jpeg.work_bytes = lambda width: work(max(width // 4, 1)) // 2",
    "less memory for tables": "jpegs.TABLE_BYTES //= 2",
}


def test_a_sample() -> None:
    results = list(guard_pages.run(0, CASES))
    assert [one for one in results if one[1].startswith("!")] == []
    assert [seed for seed, _ in results] == list(range(CASES))
    counts = Counter(outcome for _, outcome in results)
    assert counts["as Pillow's"] > CASES // 4
    assert counts["damaged"] > CASES // 50


def test_a_sample_of_pngs() -> None:
    results = list(guard_pages.run(0, CASES, guard_pngs.COMMAND))
    assert [one for one in results if one[1].startswith("!")] == []
    counts = Counter(outcome for _, outcome in results)
    assert counts["as Pillow's"] > CASES // 5
    assert counts["refused"] > CASES // 20


def test_a_case_is_a_file() -> None:
    assert guard_pages.file(7) == guard_pages.file(7) != guard_pages.file(8)


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
        "import ctypes, sys; from tests.robustness.children import Voice; from tests.robustness import guard_pages\n"
        "voice = Voice(); voice.say(seed=int(sys.argv[1]))\n"
        f"size = 100; memory = guard_pages.Flush(size, 0, at_end={offset == 'size'})\n"
        f"voice.say(seed=int(sys.argv[1]), outcome=str(ctypes.string_at(memory.bytes.ctypes.data + {offset}, 1)))\n"
    )
    ((seed, outcome),) = guard_pages.run(3, 4, (sys.executable, "-c", code))
    assert seed == 3
    assert outcome.startswith("! signal 11 (SIGSEGV)")


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_planted_fault_is_found(fault: str) -> None:
    """Among the first cases, and whatever it was at is named."""
    command = (sys.executable, "-c", PLANT.format(fault=fault), "--child")
    outcome = next(outcome for _, outcome in guard_pages.run(0, 30, command) if outcome.startswith("!"))
    assert outcome.startswith("! signal 11 (SIGSEGV)")
    assert "tests/jpegs.py" in outcome
