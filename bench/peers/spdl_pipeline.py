"""SPDL: FFmpeg decodes, crops and scales in one filter graph, in the threads of SPDL's pipeline."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import spdl.io
from spdl.pipeline import PipelineBuilder

from bench.peers import base
from bench.peers.base import Epoch, Peer

spdl.io.demux_config()  # loads FFmpeg: where it is missing, this says so, and not each image later

_FLAGS = "flags=bilinear"  # FFmpeg widens it when scaling down: antialiased


def _filter(work: str, packets: Any, rng: np.random.Generator) -> str | None:
    """Return FFmpeg's filter graph for one image."""
    if work == "decode":
        text: str | None = spdl.io.get_video_filter_desc()  # to rgb24 only
        return text
    height, width = packets.height, packets.width
    if work == "eval":
        shorter = min(height, width)
        w, h = (int(base.SHORTER * side / shorter) for side in (width, height))
        left, top = round((w - base.SIZE) / 2), round((h - base.SIZE) / 2)
        return f"scale={w}:{h}:{_FLAGS},crop={base.SIZE}:{base.SIZE}:{left}:{top},format=rgb24"
    # "exact" crops at odd places, too, where chroma is subsampled.
    top, left, h, w = base.random_box(rng, height, width)
    flip = ",hflip" if rng.random() < 0.5 else ""
    return f"crop={w}:{h}:{left}:{top}:exact=1,scale={base.SIZE}:{base.SIZE}:{_FLAGS}{flip},format=rgb24"


class Spdl(Peer):
    """SPDL with one pipeline for each epoch, as in its examples."""

    name = "SPDL"
    distributions = ("spdl", "spdl_io", "spdl_core")
    lacks: ClassVar[dict[str, str]] = {
        "train+rotate+color": "FFmpeg's eq and hue filters adjust YUV by other measures than factors",
    }
    notes = "scaled by FFmpeg in YUV; normalized with NumPy; needs FFmpeg's libraries, not counted in its size"

    def start(self, work: str, files: list[bytes]) -> Epoch:
        """Create a pipeline whose threads decode and normalize images; one of them stacks batches."""
        number = itertools.count()

        def decode(item: tuple[int, bytes]) -> Any:
            index, data = item
            packets = spdl.io.demux_image(data)
            chosen = _filter(work, packets, np.random.default_rng([seed, index]))
            pixels = spdl.io.to_numpy(spdl.io.convert_frames(spdl.io.decode_packets(packets, filter_desc=chosen)))
            return pixels if work == "decode" else base.normalized(pixels)

        seed = 0

        def epoch() -> Iterator[Any]:
            nonlocal seed
            seed = next(number)
            builder = (
                PipelineBuilder()
                .add_source(list(enumerate(files)))
                .pipe(decode, concurrency=self.threads, output_order="input")
                .aggregate(self.batch)
            )
            if work != "decode":
                builder = builder.pipe(np.stack)
            pipeline = builder.add_sink(2).build(num_threads=self.threads, max_failures=0)
            with pipeline.auto_stop():
                yield from pipeline

        return epoch
