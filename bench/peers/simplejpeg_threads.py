"""Decoding alone with simplejpeg, a thin wrapper of libjpeg-turbo."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np
import simplejpeg

from bench.peers import base
from bench.peers.base import Epoch, Peer


class SimpleJpeg(Peer):
    """simplejpeg with one buffer for each thread, like the floor."""

    name = "simplejpeg"
    distributions = ("simplejpeg",)
    lacks: ClassVar[dict[str, str]] = base.DECODES_ONLY
    notes = "each thread decodes into one buffer, over the image before"

    def start(self, work: str, files: list[bytes]) -> Epoch:
        buffers = [bytearray(0) for _ in range(self.threads)]

        def some(batch: list[bytes], k: int) -> None:
            for data in batch[k :: self.threads]:
                height, width, *_ = simplejpeg.decode_jpeg_header(data)
                if len(buffers[k]) < height * width * 3:
                    buffers[k] = bytearray(height * width * 3)
                simplejpeg.decode_jpeg(data, buffer=buffers[k])

        def epoch() -> Iterator[Any]:
            with ThreadPoolExecutor(self.threads) as pool:
                for batch in base.batches(files, self.batch):
                    yield list(pool.map(some, [batch] * self.threads, range(self.threads)))

        return epoch

    def first(self, work: str, files: list[bytes]) -> Any:
        return [np.array(simplejpeg.decode_jpeg(data)) for data in files[: self.batch]]
