"""Samples of an epoch by their places: all of a source, a list of them, each several times, or drawn by weight."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks.arguments import flag, numbers, whole_number
from .._checks.text import counted
from .._checks.types import Floats, Indices, Ints, SupportsArray
from .._random.rng import Rng
from .blocks import Blocks
from .sharding import shuffled


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

    @property
    def samples(self) -> int:
        """Number of samples of an epoch."""
        return self.choices

    @property
    def run(self) -> int:
        """Number of successive places that a rank takes together."""
        return self.shuffle.run if isinstance(self.shuffle, Blocks) else 1

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
                chosen = self.shuffle.order(chosen, self.choices, seed, epoch)
            elif self.shuffle:
                chosen = shuffled(chosen, self.choices, seed, epoch)
            copies = None if self.copies is None else self.copies[chosen]
            if self.repeats > 1:
                number = (places % self.repeats).astype(np.uint64)
                copies = number if copies is None else copies * np.uint64(self.repeats) + number
        return self.indices_of(chosen), copies

    def indices_of(self, chosen: Ints) -> Ints:
        """Return the indices in the source of some of the samples to choose from."""
        return chosen if self.indices is None else self.indices[chosen]

    def digest(self) -> str | None:
        """Return a digest of the order, whatever the seed; None for the whole source."""
        if self.indices is None and self.limits is None and self.repeats == 1:
            return None
        found = hashlib.blake2b(str(self.repeats).encode(), digest_size=16)
        for part in (self.indices, self.limits):
            found.update(b"-" if part is None else part.tobytes())
        return found.hexdigest()


def order_of(samples: int, shuffle: bool | Blocks, indices: Any, weights: Any, repeats: Any) -> Order:
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
        choices, copies = len(chosen), _copies(chosen)
    return Order(choices, shuffle, chosen, copies, None if weights is None else _limits(weights, choices), repeats)


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


def _copies(indices: Ints) -> NDArray[np.uint64] | None:
    """Return for each index how often it occurs before; None if all are distinct."""
    order = np.argsort(indices, kind="stable")
    first = np.append(True, indices[order][1:] != indices[order][:-1])
    if first.all():
        return None
    starts = np.flatnonzero(first)
    copies = np.empty(len(indices), np.uint64)
    copies[order] = np.arange(len(indices)) - starts[np.cumsum(first) - 1]
    return copies


def _limits(weights: Any, choices: int) -> Floats:
    """Return cumulative weights."""
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
    if found.ndim != 1 or not found.size or found.dtype.kind not in "iubUS":
        raise ValueError(
            f"labels must be one integer or string for each sample, not {found.dtype} of shape {found.shape}"
        )
    _, inverse, counts = np.unique(found, return_inverse=True, return_counts=True)
    weights: Floats = 1.0 / counts[inverse]
    return weights
