"""Decoding alone with nvImageCodec on the CPU: the upper bound for preprocessing after it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import nvidia.nvimgcodec  # noqa: F401 - its import is a cost of this peer
from numpy.typing import NDArray

from bench.peers import base
from bench.peers.base import Epoch, Peer


class NvImageCodec(Peer):
    """nvImageCodec with one decoder and one buffer for each thread."""

    name = "nvImageCodec (floor)"
    distributions = ("nvidia-nvimgcodec-cu12", "nvidia-nvimgcodec-cu13")
    lacks: ClassVar[dict[str, str]] = base.DECODES_ONLY
    notes = "each thread decodes into one buffer, over the image before: less memory traffic than anybody can use"

    def start(self, work: str, files: list[bytes]) -> Epoch:
        """Decode without returning results."""
        from bench.common import Floor  # not at the top: importing gpuimg is no cost of nvImageCodec

        floor = Floor(self.threads)

        def epoch() -> Iterator[Any]:
            for batch in base.batches(files, self.batch):
                floor(batch)
                yield None

        return epoch

    def first(self, work: str, files: list[bytes]) -> Any:
        """Return copies of the images, because the next image overwrites the buffer."""
        from bench.common import Floor

        kept: dict[int, NDArray[np.uint8]] = {}
        batch = files[: self.batch]
        Floor(self.threads)(batch, lambda i, pixels: kept.update({i: pixels.copy()}))
        return [kept[i] for i in range(len(batch))]
