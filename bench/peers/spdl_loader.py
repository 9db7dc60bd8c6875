"""SPDL's DataLoader, in whose threads FFmpeg decodes, crops and resizes."""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np
import spdl.io
from spdl.dataloader import DataLoader

from bench.peers import base
from bench.peers.base import Epoch, Peer


def _filtered(data: bytes, filters: Callable[[int, int], str]) -> Any:
    """Decode a file; ``filters`` are given its height and width."""
    packets = spdl.io.demux_image(data)
    description = f"{filters(packets.height, packets.width)}format=rgb24"
    return spdl.io.to_numpy(spdl.io.convert_frames(spdl.io.decode_packets(packets, filter_desc=description)))


def _evaluated(data: bytes) -> Any:
    def filters(height: int, width: int) -> str:
        h, w = (int(base.SHORTER * side / min(height, width)) for side in (height, width))
        top, left = (round((side - base.SIZE) / 2) for side in (h, w))
        return f"scale={w}:{h}:flags=bilinear,crop={base.SIZE}:{base.SIZE}:{left}:{top}:exact=1,"

    return base.normalized(_filtered(data, filters))


def _trained(data: bytes, rng: np.random.Generator) -> Any:
    def filters(height: int, width: int) -> str:
        top, left, h, w = base.random_box(rng, height, width)
        flip = "hflip," if rng.random() < 0.5 else ""
        return f"crop={w}:{h}:{left}:{top}:exact=1,scale={base.SIZE}:{base.SIZE}:flags=bilinear,{flip}"

    return base.normalized(_filtered(data, filters))


class Spdl(Peer):
    """SPDL with as many threads as the others."""

    name = "SPDL"
    distributions = ("spdl", "spdl-io", "numpy")
    lacks: ClassVar[dict[str, str]] = {"train+rotate+color": "not written: FFmpeg's filters have other formulas"}
    notes = "FFmpeg of the system decodes, crops and resizes; normalized with NumPy"

    def start(self, work: str, files: list[bytes]) -> Epoch:
        plain = {"decode": partial(_filtered, filters=lambda *_: ""), "eval": _evaluated}
        number, one = itertools.count(), base.made(work, files, plain, {"train": _trained})

        def epoch() -> Iterator[Any]:
            places = zip(itertools.repeat(next(number)), range(len(files)))
            yield from DataLoader(
                places, preprocessor=one, batch_size=self.batch, aggregator=base.joined(work),
                num_threads=self.threads, output_order="input",
            )  # fmt: skip

        return epoch
