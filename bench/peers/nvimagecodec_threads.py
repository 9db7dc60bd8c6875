"""Decoding alone with nvImageCodec on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from nvidia import nvimgcodec

from bench.peers import base
from bench.peers.base import Epoch, Peer


class NvImageCodec(Peer):
    """nvImageCodec with one decoder and one buffer for each thread."""

    name = "nvImageCodec (floor)"
    distributions = ("nvidia-nvimgcodec-cu12", "nvidia-nvimgcodec-cu13")
    lacks: ClassVar[dict[str, str]] = base.DECODES_ONLY
    notes = "each thread decodes into one buffer, over the image before: less memory traffic than anybody can use"

    def __init__(self, threads: int, batch: int) -> None:
        super().__init__(threads, batch)
        only = nvimgcodec.NVIMGCODEC_DEVICE_CPU_ONLY
        backends = [nvimgcodec.Backend(nvimgcodec.CPU_ONLY)]
        self._decoders = [
            nvimgcodec.Decoder(device_id=only, max_num_cpu_threads=1, backends=backends) for _ in range(threads)
        ]
        self._buffers = [np.zeros(0, np.uint8) for _ in range(threads)]

    def _decode(self, files: list[bytes], seen: Callable[[int, NDArray[np.uint8]], object]) -> None:
        """Decode a batch; ``seen`` gets each image's index and pixels, which the next image overwrites."""

        def work(k: int) -> None:
            for i in range(k, len(files), self.threads):
                stream = nvimgcodec.CodeStream(files[i])
                shape = stream.height, stream.width, 3
                if self._buffers[k].size < np.prod(shape):
                    self._buffers[k] = np.zeros(np.prod(shape), np.uint8)
                pixels = self._buffers[k][: np.prod(shape)].reshape(shape)
                if self._decoders[k].decode(stream, image=nvimgcodec.as_image(pixels)) is None:
                    raise RuntimeError("a photo did not decode")
                seen(i, pixels)

        with ThreadPoolExecutor(self.threads) as pool:
            list(pool.map(work, range(self.threads)))

    def start(self, work: str, files: list[bytes]) -> Epoch:
        """Decode without returning results."""

        def epoch() -> Iterator[Any]:
            for batch in base.batches(files, self.batch):
                self._decode(batch, lambda i, pixels: None)
                yield None

        return epoch

    def first(self, work: str, files: list[bytes]) -> Any:
        """Return copies of the images, because the next image overwrites the buffer."""
        kept: dict[int, NDArray[np.uint8]] = {}
        self._decode(files[: self.batch], lambda i, pixels: kept.update({i: pixels.copy()}))
        return [kept[i] for i in sorted(kept)]
