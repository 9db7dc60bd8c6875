"""Orders of an epoch, computed for any places of it: of samples, or blocks of neighbors."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks.arguments import flag, numbers, whole_number
from .._checks.text import counted
from .._checks.types import Floats, Indices, Ints, SupportsArray
from .._random.rng import Rng
from ..sources.folder import class_numbers
from .sharding import ENDLESS, shuffled, stream_of

__all__ = ["Blocks", "class_weights"]

_IN_ORDER = 32  # neighbors that a rank takes together without a shuffle: one request for a remote shard
_WITHIN_BUFFER, _START = stream_of("shuffle within a buffer"), stream_of("start of the first block")


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

    def of_groups(self, ends: Ints) -> Groups:
        """Return blocks of whole groups of samples: of about ``samples`` together, or one larger group."""
        n = ends[-1]
        found = ends[np.flatnonzero(np.diff(ends // self.samples, prepend=0))]
        return Groups(np.append(found[found < n], n))

    @property
    def run(self) -> int:
        """Places whose samples are mixed: those of whole blocks."""
        return self.buffer // self.samples * self.samples

    def order(self, places: Ints, n: int, seed: int, epoch: int, groups: Groups | None = None) -> Ints:
        """Return the samples at some places of an order of ``n`` samples.

        ``groups`` are the blocks, if these are not all of ``samples``.
        """
        mixed = np.empty_like(places)
        runs = places // self.run
        by_run = np.argsort(runs, kind="stable")
        for part in np.split(by_run, np.flatnonzero(np.diff(runs[by_run])) + 1) if len(places) else ():
            run = int(runs[part[0]])
            first = run * self.run
            size = min(self.run, n - first)
            mixed[part] = first + shuffled(places[part] - first, size, seed, epoch, _WITHIN_BUFFER + np.uint64(run))
        if groups is not None:
            return groups.order(mixed, seed, epoch)
        # The samples are a ring that is cut into blocks at a random place. The incomplete block comes last.
        block, inside = np.divmod(mixed, self.samples)
        whole = block < n // self.samples
        block[whole] = shuffled(block[whole], n // self.samples, seed, epoch)
        start = int(shuffled([0], n, seed, epoch, _START)[0])
        found: Ints = (start + block * self.samples + inside) % n
        return found


class Groups:
    """Blocks of several sizes, in a random order of each epoch."""

    def __init__(self, ends: Ints) -> None:
        self.ends = ends
        self._latest: tuple[tuple[int, int], Ints, Ints] | None = None

    def order(self, places: Ints, seed: int, epoch: int) -> Ints:
        """Return the samples at some places."""
        latest = self._latest  # other threads replace it
        if latest is None or latest[0] != (seed, epoch):
            order = shuffled(np.arange(len(self.ends)), len(self.ends), seed, epoch)
            stops = np.cumsum(np.diff(self.ends, prepend=0)[order])
            latest = self._latest = (seed, epoch), stops, self.ends[order] - stops
        _, stops, moved = latest
        found: Ints = places + moved[np.searchsorted(stops, places, side="right")]
        return found


@dataclass(frozen=True)
class Order:
    """Order of the samples of an epoch, computed for any places of it.

    An epoch has as many places as there are samples to choose from. A sample may be at several places of an epoch; its
    copies are numbered, because each has separate random draws.
    """

    choices: int  # number of places, and of samples to choose from
    shuffle: bool | Blocks
    indices: Ints | None = None  # the samples to choose from; None: all of the source
    copies: NDArray[np.uint64] | None = None  # number of earlier occurrences of each of them, if any occurs twice
    limits: Floats | None = None  # their cumulative weights
    repeats: int = 1
    groups: Groups | None = None  # blocks, if the source has groups of samples that are read whole

    def __post_init__(self) -> None:
        self.digest()  # now, so that saving a state takes no time

    @property
    def run(self) -> int:
        """Number of successive places that a rank takes together."""
        if isinstance(self.shuffle, Blocks):
            return self.shuffle.run
        return 1 if self.shuffle or self.limits is not None or self.choices == ENDLESS else _IN_ORDER

    def places(self, _: int | None) -> int:
        """Return the number of places of an epoch."""
        return self.choices

    def at(self, places: Ints, seed: int, epoch: int) -> tuple[Ints, NDArray[np.uint64] | None]:
        """Return the samples at some places, and the number of each copy; None if all are the first ones."""
        copies: NDArray[np.uint64] | None
        if self.limits is not None:
            units = Rng(seed, epoch=epoch, indices=places).split("weights").units(1)[:, 0]
            total = self.limits[-1]
            chosen = np.searchsorted(self.limits, np.minimum(units * total, np.nextafter(total, 0.0)), side="right")
            copies = places.astype(np.uint64)
        else:
            chosen = places // self.repeats
            if isinstance(self.shuffle, Blocks):
                chosen = self.shuffle.order(chosen, self.choices, seed, epoch, self.groups)
            elif self.shuffle:
                chosen = shuffled(chosen, self.choices, seed, epoch)
            copies = None if self.copies is None else self.copies[chosen]
            if self.repeats > 1:
                number = (places % self.repeats).astype(np.uint64)
                copies = number if copies is None else copies * np.uint64(self.repeats) + number
        return (chosen if self.indices is None else self.indices[chosen]), copies

    def digest(self, _: int | None = None) -> str | None:
        """Return a digest of the order, whatever the seed; None for the whole source."""
        return self._digest

    @cached_property
    def _digest(self) -> str | None:
        if self.indices is None and self.limits is None and self.groups is None and self.repeats == 1:
            return None
        found = hashlib.blake2b(str(self.repeats).encode(), digest_size=16)
        for part in (self.indices, self.limits, *([] if self.groups is None else [self.groups.ends])):
            found.update(b"-" if part is None else part.data)
        return found.hexdigest()


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


def order_of(
    samples: int, shuffle: bool | Blocks, indices: Any, weights: Any, repeats: Any, ends: Ints | None = None
) -> Order:
    """Return the order of a source with this number of samples, for arguments of :func:`gpuimg.load`."""
    repeats = whole_number(repeats, "repeats")
    if not isinstance(shuffle, Blocks):
        shuffle = flag(shuffle, "shuffle")
    if repeats > 1 and weights is not None:
        raise ValueError("weights draws samples several times already: pass weights or repeats, not both")
    if isinstance(shuffle, Blocks) and (repeats > 1 or weights is not None):
        raise ValueError(
            "shuffle=Blocks reads neighbors once and together, but weights and repeats need single samples from "
            "anywhere: use shuffle=True with them"
        )
    if repeats > 1 and not shuffle:
        raise ValueError(
            "repeats needs shuffle=True: an epoch has as many places as there are samples, so in a fixed order the "
            "same ones would be left out of every epoch"
        )
    if indices is None:
        choices, chosen, copies = samples, None, None
    else:
        chosen = _indices(indices, samples)
        if isinstance(shuffle, Blocks):  # blocks are of neighbors in the source
            chosen.sort()
        choices, copies = len(chosen), copies_of(chosen)
    limits = None if weights is None else _limits(weights, choices)
    groups = None
    if isinstance(shuffle, Blocks) and indices is None and ends is not None:
        groups = shuffle.of_groups(ends)
    return Order(choices, shuffle, chosen, copies, limits, repeats, groups)


def _indices(indices: Any, samples: int) -> Ints:
    found = np.asarray(indices)
    if found.dtype == np.bool_ and found.shape == (samples,):
        found = np.flatnonzero(found)
    if found.ndim != 1 or not found.size or found.dtype.kind not in "iu":
        raise ValueError(
            f"indices must be one-dimensional integers, at least one, or ({samples},) booleans, not {found.dtype} of "
            f"shape {found.shape}"
        )
    wrong = (found < 0) | (found >= samples)
    if np.any(wrong):
        raise ValueError(f"indices has {found[np.argmax(wrong)]}, but the source has samples 0 to {samples - 1}")
    return np.array(found, np.int64)


def copies_of(indices: Ints) -> NDArray[np.uint64] | None:
    """Return for each index how often it occurs before; None if all are distinct."""
    seen = np.zeros(indices.max() + 1, bool)  # the usual case, without sorting
    seen[indices] = True
    if np.count_nonzero(seen) == len(indices):
        return None
    order = np.argsort(indices, kind="stable")
    starts = np.flatnonzero(np.append(True, indices[order][1:] != indices[order][:-1]))
    copies = np.empty(len(indices), np.uint64)
    copies[order] = np.arange(len(indices)) - np.repeat(starts, np.diff(starts, append=len(indices)))
    return copies


def _limits(weights: Any, choices: int) -> Floats:
    found = numbers(weights, "weights")
    if found.shape != (choices,):
        raise ValueError(f"weights must be one number for each of {counted(choices, 'sample')}, not {found.shape}")
    with np.errstate(over="ignore", invalid="ignore"):
        limits = np.cumsum(found)
    if not np.isfinite(limits[-1]) or found.min() < 0 or not found.any():
        raise ValueError("weights must be finite numbers of at least 0, not all 0 and with a finite sum")
    return limits


def class_weights(labels: Indices | SupportsArray) -> Floats:
    """Return weights for :func:`gpuimg.load` with which all classes are equally likely.

    Parameters
    ----------
    labels : (N,) int or str
        Class of each sample, such as ``gpuimg.folder("train").labels``.

    Returns
    -------
    (N,) float64
        1 / the number of samples of the same class.

    Raises
    ------
    ValueError
        For labels of a different shape, or none.

    Examples
    --------
    >>> import gpuimg
    >>> gpuimg.class_weights([7, 8, 7, 7]).round(2).tolist()
    [0.33, 1.0, 0.33, 0.33]
    """
    found = np.asarray(labels)
    if found.ndim == 1 and found.dtype.kind in "Of":
        class_numbers(found.tolist())  # names a missing label
    if found.ndim != 1 or not found.size or found.dtype.kind not in "iubUS":
        raise ValueError(
            f"labels must be one integer or string for each sample, not {found.dtype} of shape {found.shape}"
        )
    _, inverse, counts = np.unique(found, return_inverse=True, return_counts=True)
    weights: Floats = 1.0 / counts[inverse]
    return weights
