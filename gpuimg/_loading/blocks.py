"""Shuffling by blocks of neighbors, which slow storage reads with one request each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .._checks.arguments import whole_number
from .._checks.types import Ints
from .sharding import shuffled, stream_of

_WITHIN, _START = stream_of("shuffle within a buffer"), stream_of("start of the first block")


@dataclass(frozen=True)
class Blocks:
    """Shuffling by blocks of neighbors, for storage where each request takes long: ``load(shuffle=gpuimg.Blocks(32))``.

    The blocks of an epoch come in random order. The samples of as many blocks as fit into a buffer are mixed. Blocks
    begin at other samples in each epoch.

    Attributes
    ----------
    samples : int
        Neighboring samples of a block, which are read together: one request for byte ranges of remote shards.
    buffer : int
        Samples that are mixed, at least those of a block. Each rank holds the files of up to twice as many in memory.

    Raises
    ------
    ValueError
        For numbers out of range.

    Notes
    -----
    Each rank takes buffers in turn; the last ones of an epoch are divided evenly. So the samples of an epoch are the
    same for any number of ranks, but those of a batch are not. The number of ranks times ``buffer`` should be well
    below the number of samples.

    Examples
    --------
    >>> import gpuimg
    >>> gpuimg.Blocks(32)
    Blocks(samples=32, buffer=2048)
    """

    samples: int
    buffer: int = 2048

    def __post_init__(self) -> None:
        whole_number(self.buffer, "buffer", whole_number(self.samples, "samples"))

    @property
    def run(self) -> int:
        """Places whose samples are mixed: those of whole blocks."""
        return self.buffer // self.samples * self.samples

    def order(self, places: Ints, n: int, seed: int, epoch: int) -> Ints:
        """Return the samples at some places of an order of ``n`` samples, in constant memory."""
        mixed = np.empty_like(places)
        runs = places // self.run
        by_run = np.argsort(runs, kind="stable")
        for part in np.split(by_run, np.flatnonzero(np.diff(runs[by_run])) + 1) if len(places) else ():
            run = int(runs[part[0]])
            first = run * self.run
            size = min(self.run, n - first)
            mixed[part] = first + shuffled(places[part] - first, size, seed, epoch, _WITHIN + np.uint64(run))
        # The samples are a ring that is cut into blocks at a random place. The incomplete block comes last.
        block, inside = np.divmod(mixed, self.samples)
        whole = block < n // self.samples
        block[whole] = shuffled(block[whole], n // self.samples, seed, epoch)
        start = int(shuffled([0], n, seed, epoch, _START)[0])
        found: Ints = (start + block * self.samples + inside) % n
        return found


def neighbors(indices: Ints, most: int) -> Iterator[Ints]:
    """Yield the positions of samples in the order of the source, at most ``most`` at a time, without cutting blocks."""
    order = np.argsort(indices, kind="stable")
    ends = [*(np.flatnonzero(np.diff(indices[order]) > 1) + 1).tolist(), len(order)]
    at = 0
    while at < len(order):
        end = ends[bisect_right(ends, at + most) - 1] if ends[0] <= at + most else at
        end = end if end > at else at + most  # a range longer than that
        yield order[at:end]
        at = end
