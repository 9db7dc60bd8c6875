"""Grain with Pillow: the index-based data set of its guide, on threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grain
import numpy as np

from bench.peers.base import Epoch, Peer
from bench.peers.pillow_threads import colored, decoded, evaluated, trained


class Grain(Peer):
    """Grain with Pillow's functions, because it has none for images."""

    name = "Grain + Pillow"
    distributions = ("grain", "pillow")
    # Every iterator starts its worker processes again, which would cost seconds in each round; or they run
    # ahead through an endless one, into the rounds of the others.
    notes = "threads, not worker processes; Pillow resizes, rotates and enhances"

    def start(self, work: str, files: list[bytes]) -> Epoch:
        """Create a data set; each epoch is a new iterator over it."""
        dataset = grain.MapDataset.source(files).seed(0)
        if work == "decode":
            dataset = dataset.map(lambda data: np.asarray(decoded(data)))
        elif work == "eval":
            dataset = dataset.map(evaluated)
        else:
            random: Callable[..., Any] = trained if work == "train" else colored
            dataset = dataset.random_map(random)
        ahead = grain.ReadOptions(num_threads=self.threads, prefetch_buffer_size=2 * self.batch)
        batched = dataset.to_iter_dataset(ahead).batch(self.batch, batch_fn=list if work == "decode" else np.stack)
        return lambda: iter(batched)
