"""Report of ``gpuimg.prepare``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import Failure
from .manifest import Line


@dataclass(frozen=True)
class TrainRate:
    """Throughput of ``presets.imagenet_train(224)`` on the same images, before and after preparation.

    Attributes
    ----------
    images : int
        Number of images measured.
    before, after : int
        Images/s on the CPU, from file bytes in memory.
    """

    images: int
    before: int
    after: int


@dataclass(frozen=True)
class PrepareReport:
    """Result of :func:`gpuimg.prepare`.

    Attributes
    ----------
    path : str
        The folder of the results.
    samples : int
        Number of samples in the source.
    encoded : int
        Images that were encoded again.
    copied : int
        Images whose files were copied unchanged, as they meet the options.
    recoded : int
        JPEG files that were recoded and can be restored.
    converted : int
        Progressive JPEG files that were recoded for the same pixels and cannot be restored.
    kept : tuple of Failure
        JPEG files that were not recoded, with the reason.
    failed : tuple of Failure
        Samples that cannot be read, decoded or written, with their index in the source.
    source_bytes : int
        Total size of the source files of all images that did not fail.
    bytes : int
        Total size of the results.
    shards : int
        Number of tar files; 0 if results are separate files.
    resumed : int
        Samples that an earlier, interrupted call had finished.
    seconds : float
        Duration without the measurement.
    train : TrainRate or None
        Training throughput before and after.

    Examples
    --------
    >>> import gpuimg, io
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (30, 20)).save(file, "JPEG")
    >>> source = [(file.getvalue(), label) for label in range(6)]
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = gpuimg.prepare(source, folder, short_side=16, measure=False)
    >>> report.samples, report.encoded, report.failed
    (6, 6, ())
    """

    path: str
    samples: int
    encoded: int
    copied: int
    recoded: int
    converted: int
    kept: tuple[Failure, ...]
    failed: tuple[Failure, ...]
    source_bytes: int
    bytes: int
    shards: int
    resumed: int
    seconds: float
    train: TrainRate | None

    @classmethod
    def merged(cls, reports: Sequence[PrepareReport]) -> PrepareReport:
        """Return one report for the parts of a data set: the sums, the longest duration, and no training throughput."""
        names = ("samples", "encoded", "copied", "recoded", "converted", "source_bytes", "bytes", "shards", "resumed")
        sums: dict[str, Any] = {name: sum(getattr(one, name) for one in reports) for name in names}
        return cls(
            path=os.path.commonpath([one.path for one in reports]), **sums,
            kept=tuple(failure for one in reports for failure in one.kept),
            failed=tuple(failure for one in reports for failure in one.failed),
            seconds=max(one.seconds for one in reports), train=None,
        )  # fmt: skip


class Tally:
    """Counts samples by outcome."""

    def __init__(self) -> None:
        self.samples = self.source_bytes = self.bytes = self.shards = 0
        self.failed: list[Failure] = []
        self.kept: list[Failure] = []
        self._kinds = {"encoded": 0, "copied": 0, "recoded": 0, "converted": 0}

    def add(self, line: Line) -> None:
        """Count a manifest record."""
        self.samples += 1
        if line["status"] == "failed":
            self.failed.append(Failure(line["sample"], line["source"], line["reason"]))
            return
        if "kept" in line:
            self.kept.append(Failure(line["sample"], line["source"], line["kept"]))
        self._kinds[line["status"]] += 1
        self.source_bytes += line["source_bytes"]
        self.bytes += line["bytes"]
        self.shards = max(self.shards, line.get("shard", -1) + 1)

    def report(self, path: str, **others: Any) -> PrepareReport:
        """Return the report."""
        kinds: dict[str, Any] = self._kinds
        return PrepareReport(
            path=path, samples=self.samples, **kinds, kept=tuple(self.kept), failed=tuple(self.failed),
            source_bytes=self.source_bytes, bytes=self.bytes, shards=self.shards, **others,
        )  # fmt: skip
