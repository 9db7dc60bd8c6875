"""Loaders and other processes: forked children, and what can be pickled."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.watchdog import no_hang

# A child that waits for ever is ended by its alarm, with its own exit status.
FORKED = """
import os, signal, sys
import gpuimg as gi
from tests.data_sets import Source, cpu, valid_indices

loader = cpu(Source(64), epochs=2)
{begin}
next(it)
child = os.fork()
if child == 0:
    signal.alarm(60)
    for _ in range(2):
        try:
            next(it)
        except RuntimeError as error:
            print(error, flush=True)
    {then}
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), next(it) is not None)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("begin", "then"), [
    ("it = iter(loader)", "assert len(valid_indices(loader)) == 128"),
    ("it = iter(loader)", "loader.close()"),
    ("it = gi.prefetch(iter(range(9)))", "it.close()"),
    ("it = gi.prefetch(range(9), workers=2)", "assert list(gi.prefetch(range(9), workers=2)) == list(range(9))"),
])  # fmt: skip
def test_a_forked_child_cannot_go_on_with_its_parents_iterator(begin: str, then: str) -> None:
    """The child raises an error instead of hanging, can start again, and ends; the parent continues."""
    with no_hang():
        done = subprocess.run(
            [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED.format(begin=begin, then=then)],
            capture_output=True, timeout=300, cwd=Path(__file__).parents[2], text=True,
        )  # fmt: skip
    *said, last = done.stdout.splitlines()
    assert done.stderr == ""
    assert last == "7 True"
    assert len(said) == 2
    assert all("start a new loop in the child" in line for line in said)
