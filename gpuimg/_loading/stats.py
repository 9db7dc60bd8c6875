"""What a loop over a loader took, and what limits it."""

from __future__ import annotations

import time
from typing import Any

from .pipeline import Made, Pipeline

_LITTLE = 0.05  # a consumer that waits for less of its time than this is what limits


class Stats:
    """What one loop took."""

    def __init__(self, pipeline: Pipeline | None = None) -> None:
        self._pipeline = pipeline
        self._begin = time.perf_counter()
        self._seconds = {"record": 0.0, "decode": 0.0, "kernels": 0.0}
        self._frozen: dict[str, Any] | None = None
        self._epoch = -1
        self._failed_before = 0  # failures of the epochs before
        self.images = 0
        self.failed = 0

    def add(self, made: Made) -> int:
        """Count a batch; gives the failures of its epoch."""
        if made.epoch != self._epoch:
            self._epoch, self._failed_before = made.epoch, self.failed
        self.images += len(made.batch.indices)
        self.failed += len(made.failures)
        for name, seconds in made.seconds.items():
            self._seconds[name] += seconds
        return self.failed - self._failed_before

    def freeze(self) -> None:
        """Keep the numbers and let the pipeline go."""
        if self._frozen is None:
            self._frozen = self.summary()
        self._pipeline = None

    def summary(self) -> dict[str, Any]:
        """See :meth:`Loader.stats`."""
        if self._frozen is not None:
            return self._frozen
        seconds = time.perf_counter() - self._begin
        batches = self._pipeline.batches if self._pipeline is not None else None
        read, read_waited = self._pipeline.reading() if self._pipeline is not None else (0.0, 0.0)
        waited = batches.waited if batches is not None else 0.0
        busy = {name: {"seconds": taken} for name, taken in self._seconds.items()}
        if waited < _LITTLE * seconds:
            limit = "consumer"
        elif read_waited > 0.5 * waited:
            limit = "read"
        else:
            limit = max(self._seconds, key=self._seconds.__getitem__)
        return {
            "images": self.images,
            "failures": self.failed,
            "seconds": seconds,
            "images_per_second": self.images / seconds,
            "read": {"seconds": read, "waited": read_waited},
            **busy,
            "ready": batches.depths / batches.given if batches is not None and batches.given else 0.0,
            "consumer": {"seconds": seconds - waited, "waited": waited},
            "limit": limit,
        }


def progress_bar() -> Any:
    """The class of tqdm's bars.

    Raises
    ------
    ImportError
        With what to install, where it is missing.
    """
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError('progress=True needs tqdm: pip install "gpuimg[progress]"') from error
    return tqdm
