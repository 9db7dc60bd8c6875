"""Files of work that is repeated where kernels report images; tests/cuda has the repetitions."""

from __future__ import annotations

import weakref
from types import SimpleNamespace
from typing import Any

from gpuimg._runtimes.attempt import Attempt, defer

KERNELS = SimpleNamespace(repair=lambda: False)


def test_files_are_kept_only_while_kernels_run() -> None:
    def attempt(*pending: Any) -> Any:
        def work() -> None:
            assert files is not None
            for kernels in pending:
                defer(kernels)

        files = set[str]()
        return weakref.ref(files), Attempt(work)

    gone, _ = attempt()
    assert gone() is None
    kept, waiting = attempt(KERNELS)
    assert kept() is not None
    assert waiting.result() is None
