"""Work that is repeated where kernels report images."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

from gpuimg._runtimes.attempt import Attempt, defer, delivered


class Kernels:
    """Report an image, some number of times."""

    def __init__(self, times: int) -> None:
        self.times = times

    def repair(self) -> bool:
        self.times -= 1
        return self.times >= 0


@pytest.mark.parametrize("times", [0, 1, 2])
def test_work_is_repeated_as_often_as_kernels_report(times: int) -> None:
    """As a whole: what is a part of it is not repeated itself."""
    kernels, calls = Kernels(times), list[str]()

    def part() -> None:
        calls.append("part")
        defer(kernels)

    def work() -> int:
        calls.append("whole")
        delivered(part)
        return len(calls)

    attempt = Attempt(work)
    assert calls == ["whole", "part"]
    assert attempt.result() == attempt.result() == len(calls)
    assert calls == ["whole", "part"] * (times + 1)
    assert delivered(lambda: delivered(lambda: 5)) == 5


def test_an_exception_is_repeated_only_where_kernels_report() -> None:
    kernels, calls = Kernels(1), list[int]()

    def work() -> None:
        defer(kernels)
        calls.append(len(calls))
        raise ValueError(f"number {len(calls)}")

    with pytest.raises(ValueError, match="number 2"):
        Attempt(work)
    with pytest.raises(AttributeError):  # nothing is left of it
        defer(kernels)


def test_files_are_kept_only_while_kernels_run() -> None:
    def attempt(*pending: Any) -> Any:
        def work() -> None:
            assert files is not None
            for kernels in pending:
                defer(kernels)

        files = Kernels(0)
        return weakref.ref(files), Attempt(work)

    gone, _ = attempt()
    assert gone() is None
    kept, waiting = attempt(Kernels(0))
    assert kept() is not None
    assert waiting.result() is None
