"""``gpuimg.split``: the samples of a source for training and for validation."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._checks.arguments import flag, numbers, whole_number
from .._checks.types import Floats, Indices, Ints, Samples, SupportsArray
from .folder import class_numbers

__all__ = ["split"]

_UNIT = 2.0**-64
_GOLDEN = 0.5 * (5.0**0.5 - 1.0)
_ROUNDING = 1e-9  # of sums of fractions


def split(
    source: Samples,
    fractions: float | Sequence[float],
    *,
    seed: int = 0,
    stratified: bool | Indices | SupportsArray = False,
) -> list[Ints]:
    """Split the samples of a source by a hash of their names.

    Parameters
    ----------
    source : object with ``len``
        As for :func:`load`.
    fractions : float or sequence of float
        Fraction of the samples in the first of two parts, or the fractions of all parts, whose sum is 1:
        ``[0.2] * 5`` for five folds.
    seed : int
        Another seed is another split, 0 to 2**64 - 1.
    stratified : bool or (N,) labels
        Split each class of ``source.labels``, or of these labels, in these fractions, as exactly as its number of
        samples allows.

    Returns
    -------
    list of (M,) int64
        The indices of the samples of each part, ascending, as ``indices=`` of :func:`load` takes them.

    Raises
    ------
    ValueError
        For fractions that are not positive or whose sum is not 1, labels of another number than the samples, and a
        label that is missing (None or NaN).
    TypeError
        For ``stratified=True`` with a source that has no ``labels``.

    Notes
    -----
    The part of a sample depends on the seed and its name only, so that it stays there when samples are added, removed
    or reordered; the parts' sizes are therefore random, with a standard deviation of at most half the square root of
    the number of samples. If ``stratified``, each class has a part's fraction of its samples, rounded up or down so
    that those of all classes with as many samples add up to it; added samples may move some others, about as many as
    are added. The name of a file is its path below the folder of :func:`folder`, or as it was listed; of a record, its
    file's name and its key or number. A source of your own may define ``listed_name(i)``; the next choices are the text
    of its ``describe(i)`` and the index.

    References
    ----------
    Rounding of classes: systematic sampling of the classes of each size, from a start that is a multiple of the golden
    ratio modulo 1 (an additive recurrence; L. Kuipers and H. Niederreiter, Uniform Distribution of Sequences, 1974).

    Examples
    --------
    >>> import gpuimg
    >>> source = [(b"", 0)] * 60 + [(b"", 1)] * 40
    >>> train, val = gpuimg.split(source, 0.9, stratified=[label for _, label in source])
    >>> len(train), len(val), int((val < 60).sum())
    (90, 10, 6)
    """
    by_class = not isinstance(stratified, (bool, str)) or flag(stratified, "stratified")
    shares = numbers(fractions, "fractions")
    shares = np.array([float(shares), 1.0 - float(shares)]) if shares.ndim == 0 else shares
    if shares.ndim != 1 or not (shares > 0.0).all() or abs(shares.sum() - 1.0) > _ROUNDING:
        raise ValueError(f"fractions must be between 0 and 1, or several whose sum is 1, not {fractions!r}")
    ends = np.cumsum(shares)[:-1]
    places = _places(source, whole_number(seed, "seed", 0, (1 << 64) - 1))
    if by_class:
        places = _ranked(places, class_numbers(_labels(source, stratified))[1])
    parts = np.searchsorted(ends - _ROUNDING, places, side="right")
    return [np.flatnonzero(parts == part) for part in range(len(shares))]


def _places(source: Any, seed: int) -> Floats:
    """Return a number from 0 to 1 for the name of each sample."""
    key = seed.to_bytes(8, "little")

    name = getattr(source, "listed_name", getattr(source, "describe", str))
    digests = (
        hashlib.blake2b(str(name(i)).encode("utf-8", "surrogateescape"), digest_size=8, key=key).digest()
        for i in range(len(source))
    )
    return np.frombuffer(b"".join(digests), "<u8") * _UNIT


def _labels(source: Any, stratified: Any) -> Any:
    if stratified is True:
        if not hasattr(source, "labels"):
            raise TypeError("stratified=True needs source.labels; pass the labels of all samples: stratified=labels")
        stratified = source.labels
    labels = np.asarray(stratified)
    if labels.shape != (len(source),):
        raise ValueError(f"stratified must be {len(source)} labels, one for each sample, not of shape {labels.shape}")
    return stratified if isinstance(stratified, (list, tuple)) else labels.tolist()


def _ranked(places: Floats, classes: Any) -> Floats:
    """Return places that are evenly spaced within each class, and among all samples of classes of one size."""
    counts = np.bincount(classes)
    order = np.lexsort((places, classes))
    first = np.cumsum(counts) - counts
    by_size = np.lexsort((places[order[first]], counts))  # classes; of one size, by the place of their first sample
    sizes, start, several = np.unique(counts[by_size], return_index=True, return_counts=True)
    offset = np.empty(len(counts))  # of the places of a class, from 0 to 1 of their distance
    k = np.arange(len(counts)) - np.repeat(start, several)
    offset[by_size] = (k + np.repeat((0.5 + sizes * _GOLDEN) % 1.0, several)) / np.repeat(several, several)
    ranked = np.empty_like(places)
    sorted_classes = classes[order]
    rank = np.arange(len(places)) - first[sorted_classes]
    ranked[order] = (rank + offset[sorted_classes]) / counts[sorted_classes]
    return ranked
