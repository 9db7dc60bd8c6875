"""What preparing a data set came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .._index.report import IndexReport
from ..errors import Failure
from .manifest import Line


@dataclass(frozen=True)
class TrainRate:
    """Images/s of ``presets.imagenet_train(224)`` with the same images as they were and as they are now.

    Attributes
    ----------
    images : int
        That were measured.
    before, after : int
        Images/s on the CPU, from file bytes in memory.
    """

    images: int
    before: int
    after: int


@dataclass(frozen=True)
class PrepareReport:
    """What :func:`gpuimg.prepare` made.

    Attributes
    ----------
    path : str
        The folder of the results.
    samples : int
        Of the source.
    encoded : int
        Images that were written anew,
    transformed : int
        by jpegtran, without a loss,
    copied : int
        or as they are, because nothing was to be done.
    failed : tuple of Failure
        Samples that cannot be read, decoded or written, with their index in the source.
    source_bytes : int
        Of the images that did not fail.
    bytes : int
        Of what was made of them.
    shards : int
        Tar files; 0 where results are files.
    resumed : int
        Samples that an earlier, interrupted call had done.
    seconds : float
        It took, without what follows.
    train : TrainRate or None
        What training gains.
    index : IndexReport or None
        Of the seek index of the results.
    """

    path: str
    samples: int
    encoded: int
    transformed: int
    copied: int
    failed: tuple[Failure, ...]
    source_bytes: int
    bytes: int
    shards: int
    resumed: int
    seconds: float
    train: TrainRate | None
    index: IndexReport | None


class Tally:
    """Counts what became of samples."""

    def __init__(self) -> None:
        self.samples = self.source_bytes = self.bytes = self.shards = 0
        self.failed: list[Failure] = []
        self._kinds = {"encoded": 0, "transformed": 0, "copied": 0}

    def add(self, line: Line) -> None:
        """Count a line of the manifest."""
        self.samples += 1
        if line["status"] == "failed":
            self.failed.append(Failure(line["sample"], line["source"], line["reason"]))
            return
        self._kinds[line["status"]] += 1
        self.source_bytes += line["source_bytes"]
        self.bytes += line["bytes"]
        self.shards = max(self.shards, line.get("shard", -1) + 1)

    def report(self, path: str, **others: Any) -> PrepareReport:
        """All of it."""
        kinds: dict[str, Any] = self._kinds
        return PrepareReport(
            path=path, samples=self.samples, **kinds, failed=tuple(self.failed), source_bytes=self.source_bytes,
            bytes=self.bytes, shards=self.shards, **others,
        )  # fmt: skip
