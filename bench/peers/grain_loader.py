"""Pillow and NumPy in the reading threads of Grain."""

import itertools
from collections.abc import Iterator
from typing import Any

import grain

from bench.peers import base, pillow_threads
from bench.peers.base import Epoch, Peer


class Grain(Peer):
    """Grain with as many reading threads as the others have."""

    name = "Grain"
    distributions = ("grain", "pillow", "numpy")
    notes = "Pillow and NumPy, as below, in its reading threads"

    def start(self, work: str, files: list[bytes]) -> Epoch:
        number, one = itertools.count(), base.made(work, files, pillow_threads.PLAIN, pillow_threads.RANDOM)
        reading = grain.ReadOptions(num_threads=self.threads, prefetch_buffer_size=2 * self.batch)

        def epoch() -> Iterator[Any]:
            here = next(number)
            samples = grain.MapDataset.range(len(files)).map(lambda index: one((here, index)))
            yield from samples.to_iter_dataset(reading).batch(self.batch, batch_fn=base.joined(work))

        return epoch
