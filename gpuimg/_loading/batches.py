"""Batches that the caller lists, and functions that list batches of images of similar sizes."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._checks.arguments import flag, whole_number
from .._checks.types import Indices, Ints, SupportsArray
from .._random.rng import Rng
from .order import copies_of
from .sharding import shuffled, stream_of

__all__ = ["bucket_batches", "token_batches"]

#: What ``batches`` of :func:`gpuimg.load` may be.
GivenBatches: TypeAlias = Sequence[Indices] | SupportsArray | Callable[[int], Iterable[Indices]]

_BATCHES, _WITHIN_GROUP = stream_of("shuffle batches"), stream_of("shuffle within a group")
_STEP = 1.05  # ratio of the lengths of two groups of token_batches, which bounds the padding


class Lists(NamedTuple):
    """Batches of an epoch: lists of indices, one after another."""

    indices: Ints
    offsets: Ints  # (number of batches + 1,): where each list begins, and the last one ends
    copies: NDArray[np.uint64] | None  # number of earlier occurrences of each index, if any occurs twice
    digest: str


class Batches:
    """Order of listed batches: each place of an epoch is one. A function that lists them is called once an epoch."""

    run, shuffle = 1, False  # as those of an Order

    def __init__(self, batches: Any, samples: int) -> None:
        """Check the batches of a source with this number of samples, unless a function is to return them."""
        self.choices = samples
        self._function: Any = batches if callable(batches) else None
        self._made: dict[int, Lists] = {}  # by epoch, from that of the last batch on
        self._locks: dict[int, threading.Lock] = {}  # by process, as a fork may leave one locked in the child
        if self._function is None:
            if not hasattr(batches, "__getitem__"):  # an iterator, or a sampler whose lists differ from epoch to epoch
                raise TypeError(
                    "batches must be a sequence of lists of indices, or a function of the epoch that returns one, not "
                    f"{type(batches).__name__}; for a batch sampler pass lambda epoch: list(sampler)"
                )
            self._made[0] = _lists(batches, samples, "batches")

    def of(self, epoch: int | None) -> Lists:
        """Return the batches of an epoch; for None those of any epoch, without a call of the function if possible."""
        epoch = self.known(epoch)
        if (found := self._made.get(epoch)) is None:
            with self._locks.setdefault(os.getpid(), threading.Lock()):
                if (found := self._made.get(epoch)) is None:
                    found = self._made[epoch] = _lists(self._function(epoch), self.choices, f"batches({epoch})")
        return found

    def known(self, epoch: int | None) -> int:
        """Return an epoch, for None one whose batches are there if there is any; 0 where all epochs have the same."""
        return max(list(self._made), default=0) if epoch is None or self._function is None else epoch

    def places(self, epoch: int | None) -> int:
        """Return the number of batches of an epoch."""
        return len(self.of(epoch).offsets) - 1

    def at(self, places: Ints, _: int, epoch: int) -> tuple[Ints, NDArray[np.uint64] | None]:
        """Return the samples of the batch at one place, and the number of each copy; None if all are the first ones."""
        lists, place = self.of(epoch), int(places[0])
        span = slice(*lists.offsets[place : place + 2].tolist())
        return lists.indices[span], None if lists.copies is None else lists.copies[span]

    def keep(self, epoch: int) -> None:
        """Free the batches of epochs before this one."""
        for made in list(self._made) if self._function is not None else ():
            if made < epoch:
                del self._made[made]

    def digest(self, epoch: int | None) -> str:
        """Return a digest of the batches; ``epoch`` is None where none was loaded, so that any function may go on."""
        return "function" if epoch is None and self._function is not None else self.of(epoch).digest


def check_alone(on_error: str, others: Mapping[str, bool]) -> None:
    """Refuse what ``batches`` excludes: other options, if they were passed, and replacing samples."""
    if passed := [f"{name}=" for name, was_passed in others.items() if was_passed]:
        raise ValueError(f"batches= lists the samples of each batch in order: pass it without {', '.join(passed)}")
    if on_error == "skip":
        raise ValueError(
            'on_error="skip" would replace a sample with one that batches= does not list there; use "fill", and ignore '
            "samples that are not valid"
        )


def _lists(given: Any, samples: int, name: str) -> Lists:
    """Return lists of indices of a source with this number of samples in one array."""
    if isinstance(given, (str, bytes, Mapping)) or not hasattr(given, "__iter__"):
        raise TypeError(f"{name} must be a sequence of lists of indices, not {type(given).__name__}")
    parts: list[Ints] = []
    for number, one in enumerate(given):
        try:
            part = np.asarray(one)
        except ValueError:  # lists of several lengths within it
            part = np.array(None)
        if part.ndim != 1 or not part.size or part.dtype.kind not in "iu":
            raise ValueError(
                f"{name}[{number}] must be a list of whole numbers, at least one, not {part.dtype} of shape "
                f"{part.shape}"
            )
        parts.append(part.astype(np.int64, copy=False))
    if not parts:
        raise ValueError(f"{name} has no batches")
    indices, offsets = np.concatenate(parts), np.cumsum([0, *map(len, parts)])
    if indices.min() < 0 or indices.max() >= samples:
        k = int(np.argmax((indices < 0) | (indices >= samples)))
        number = int(np.searchsorted(offsets, k, "right")) - 1
        raise ValueError(f"{name}[{number}] has {indices[k]}, but the source has samples 0 to {samples - 1}")
    digest = hashlib.blake2b(offsets.data, digest_size=16)
    digest.update(indices.data)
    return Lists(indices, offsets, copies_of(indices), digest.hexdigest())


def bucket_batches(
    sizes: ArrayLike, batch_size: int, *, seed: int | None = None, drop_last: bool = False
) -> Callable[[int], list[Ints]]:
    """Return a function that lists batches of images of equal size, for ``batches`` of :func:`load`.

    Parameters
    ----------
    sizes : (N, 2) int
        Size to which ``preprocess`` resizes each image of a source, such as that with the nearest aspect ratio of
        :func:`gpuimg.sizes.buckets`: ``gpuimg.sizes.nearest(gpuimg.read_sizes(source).clip(1), allowed)``.
    batch_size : int
        Images of a batch. The last batch of a size has fewer.
    seed : int, optional
        Shuffle the images of a size, and the batches, differently in each epoch. By default batches are in the order
        of their first images.
    drop_last : bool
        Leave out batches of fewer images, with ``seed`` other images in each epoch.

    Returns
    -------
    function
        Returns the indices of the images of each batch for an epoch, counted from 0; as many batches for any epoch.

    Raises
    ------
    ValueError, TypeError
        For arguments out of range, and if ``drop_last`` leaves no batch.

    Examples
    --------
    >>> import gpuimg
    >>> batches = gpuimg.bucket_batches([(16, 32), (24, 24), (16, 32), (24, 24)], 2)
    >>> [batch.tolist() for batch in batches(0)]
    [[0, 2], [1, 3]]
    """
    found = _whole_numbers(sizes, "sizes", "(N, 2)")
    _, group = np.unique(found[:, 0] << 32 | found[:, 1], return_inverse=True)
    return _grouped(group, np.full(group.max() + 1, whole_number(batch_size, "batch_size")), seed, drop_last)


def token_batches(
    tokens: ArrayLike, max_tokens: int, *, seed: int | None = None, drop_last: bool = False
) -> Callable[[int], list[Ints]]:
    """Return a function that lists batches of a number of tokens, for ``batches`` of :func:`load`.

    A batch has many small images or a few large ones, of nearly the same number of tokens, so that at most 5 % of a
    padded batch is padding.

    Parameters
    ----------
    tokens : (N,) int
        Number of tokens of each image of a source, such as ``gpuimg.sizes.naflex(sizes, 16).prod(1) // 16**2`` with
        ``sizes = gpuimg.read_sizes(source).clip(1)``.
    max_tokens : int
        Most tokens of a batch: the number of images times the tokens of the longest one.
    seed, drop_last
        As in :func:`bucket_batches`.

    Returns
    -------
    function
        As that of :func:`bucket_batches`.

    Raises
    ------
    ValueError, TypeError
        For arguments out of range, an image of more tokens, and if ``drop_last`` leaves no batch.

    Examples
    --------
    >>> import gpuimg
    >>> batches = gpuimg.token_batches([100, 4, 100, 4, 4], 256)
    >>> [batch.tolist() for batch in batches(0)]
    [[0, 2], [1, 3, 4]]
    """
    count, budget = _whole_numbers(tokens, "tokens", "(N,)"), whole_number(max_tokens, "max_tokens")
    if count.max() > budget:
        i = int(np.argmax(count))
        raise ValueError(f"image {i} has {count[i]:,} tokens, but a batch may have {budget:,}")
    lengths = [1]
    while lengths[-1] < budget:
        lengths.append(min(max(lengths[-1] + 1, int(lengths[-1] * _STEP)), budget))
    group, longest = np.searchsorted(lengths, count), np.ones(len(lengths), np.int64)
    np.maximum.at(longest, group, count)
    return _grouped(group, budget // longest, seed, drop_last)


def _whole_numbers(values: ArrayLike, name: str, shape: str) -> Ints:
    found = np.asarray(values)
    fits = found.ndim == 1 if shape == "(N,)" else found.ndim == 2 and found.shape[1] == 2
    if not fits or not found.size or found.dtype.kind not in "iu" or found.min() < 1:
        least = f", the least {found.min()}" if found.size and found.dtype.kind in "iu" else ""
        raise ValueError(
            f"{name} must be whole numbers of at least 1, of shape {shape}, not {found.dtype} of shape {found.shape}"
            + least
        )
    return found.astype(np.int64)


def _grouped(group: Ints, most: Ints, seed: int | None, drop_last: bool) -> Callable[[int], list[Ints]]:
    """Return a function that lists batches of one group each, from the group of each image and ``most`` of a batch."""
    drop_last = flag(drop_last, "drop_last")
    if seed is not None:
        Rng(seed, indices=[])  # checks it
    members = np.argsort(group, kind="stable")  # images, sorted by group
    counts = np.bincount(group, minlength=len(most))
    starts = np.cumsum(counts) - counts
    batches = counts // most if drop_last else -(-counts // most)
    if not batches.any():
        raise ValueError(f"drop_last leaves no full batch of {len(group):,} images")
    of = np.repeat(np.arange(len(most)), batches)  # group of each batch
    begins = starts[of] + (np.arange(len(of)) - np.repeat(np.cumsum(batches) - batches, batches)) * most[of]
    ends = np.minimum(begins + most[of], (starts + counts)[of])

    def lists(epoch: int) -> list[Ints]:
        epoch, images, order = whole_number(epoch, "epoch", 0), members, np.argsort(members[begins])
        if seed is not None:
            order = shuffled(np.arange(len(of)), len(of), seed, epoch, _BATCHES)
            images = np.empty_like(members)
            for k in np.flatnonzero(counts).tolist():
                part, stream = members[starts[k] : starts[k] + counts[k]], _WITHIN_GROUP + np.uint64(k)
                images[starts[k] : starts[k] + counts[k]] = part[
                    shuffled(np.arange(len(part)), len(part), seed, epoch, stream)
                ]
        return [images[begin:end] for begin, end in zip(begins[order].tolist(), ends[order].tolist(), strict=True)]

    return lists
