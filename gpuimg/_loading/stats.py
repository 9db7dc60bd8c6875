"""Timings of a loop over a loader, and its bottleneck."""

import time
from functools import partial
from importlib.util import find_spec
from typing import Any

from .._runtimes.protocol import Timings
from .._threads.threads import usable_cores
from .._version import install_hint
from .pipeline import FinishedBatch, Pipeline

_LITTLE = 0.05  # fraction of its time; a consumer that waits for less is the limit itself
_ALL = 0.9  # fraction of the cores; with more in use on average, all of them count as busy


class Stats:
    """Timings of one loop."""

    def __init__(self, pipeline: Pipeline | None = None) -> None:
        self._pipeline = pipeline
        self._begin = time.perf_counter()
        self._record = {"seconds": 0.0, "held": 0.0}
        self._timings = Timings()
        self._cpu = time.process_time()
        self._frozen: dict[str, Any] | None = None
        self._epoch = -1
        self._failed_before = 0  # failures in earlier epochs
        self.images = 0
        self.failed = 0

    def add(self, finished: FinishedBatch) -> int:
        """Count a batch; return the number of failures in its epoch so far."""
        if finished.position.epoch != self._epoch:
            self._epoch, self._failed_before = finished.position.epoch, self.failed
        self.images += len(finished.batch.indices)
        self.failed += len(finished.failures)
        self._record["seconds"] += finished.record.seconds
        self._record["held"] += finished.record.held
        self._timings.add(finished.timings)
        return self.failed - self._failed_before

    def freeze(self) -> None:
        """Store the summary and release the pipeline."""
        if self._frozen is None:
            self._frozen = self.summary()
        self._pipeline = None

    def summary(self) -> dict[str, Any]:
        """Return the result of :meth:`Loader.stats`."""
        if self._frozen is not None:
            return self._frozen
        seconds = time.perf_counter() - self._begin
        cores = (time.process_time() - self._cpu) / seconds
        read, cache, retries = dict.fromkeys(("seconds", "held", "waited"), 0.0), None, {}
        waited = waited_first = ready = 0.0
        if self._pipeline is not None:
            read, cache, batches = self._pipeline.reader.times(), self._pipeline.reading.cache, self._pipeline.batches
            retries = self._pipeline.reader.retries()
            waited, ready = batches.waited, batches.depths / max(batches.given, 1)
            waited_first = batches.waited_first if batches.given > 1 else 0.0
        done = self._timings
        parts = {
            "read": read, "record": dict(self._record), "decode": {"seconds": done.decode},
            "kernels": {"seconds": done.kernels},
        }  # fmt: skip
        hardly_waits = waited - waited_first < _LITTLE * (seconds - waited_first)  # after the first batch
        return {
            "images": self.images,
            "failures": self.failed,
            "seconds": seconds,
            "images_per_second": self.images / seconds,
            **parts,
            "ready": ready,
            "consumer": {"seconds": seconds - waited, "waited": waited},
            "cores": cores,
            **{name: n for name in ("unwritten", "jpegs_on_cpu", "clips_on_cpu") if (n := getattr(done, name))},
            **({} if cache is None else {"cached": cache.count}),
            **retries,
            "limit": "consumer" if hardly_waits else _limit(parts, waited, cores),
        }


def _limit(parts: dict[str, dict[str, float]], waited: float, cores: float) -> str:
    """Return the part of the pipeline that the consumer waited for, or "cores" or "python"."""
    if parts["read"]["waited"] > 0.5 * waited:
        part = "read"
    else:
        part = max(("record", "decode", "kernels"), key=lambda name: sum(parts[name].values()))
    if parts[part]["seconds"] >= parts[part].get("held", 0.0):
        return part
    return "cores" if cores > _ALL * usable_cores() else "python"


def progress_bar() -> Any:
    """Return tqdm's function of progress bars for images: a widget in notebooks that have ipywidgets, else text."""
    try:
        # Without ipywidgets, tqdm.auto returns text bars too, but with a warning.
        if find_spec("ipywidgets"):
            from tqdm.auto import tqdm
        else:
            from tqdm import tqdm
    except ImportError as error:
        raise ImportError(f"progress=True needs tqdm; {install_hint('progress')}") from error
    return partial(tqdm, unit="image", unit_scale=True, dynamic_ncols=True)
