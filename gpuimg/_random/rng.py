"""Random numbers that depend on the sample and not on the batch, the worker or the device."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import arguments
from .._checks.docstrings import documented
from .._checks.text import counted, images_or_clips
from .._checks.types import Floats, Indices, Ints, Mask, PerImage

__all__ = ["Rng"]

_WORDS = 4  # 64-bit words of a Philox block
_LARGEST = (1 << 64) - 1
_MOST_VIEWS = 1 << 32
LEAST_BETA = 1e-6  # parameter of gamma and beta distributions: draws of smaller ones underflow float64

_draw = documented(returns="(N,) float64")


class Rng:
    """Random generator for the samples of one batch: its numbers depend on the sample, not on the batch.

    Each method makes one draw and returns one value for each sample; the k-th draw of a sample is the same in any
    batch. The generator is counter-based: its key is (seed, epoch), and its counter holds the stream, the sample index
    and the number of the draw.

    Parameters
    ----------
    seed : int
        Seed of all numbers, 0 to 2**64 - 1.
    epoch : int
        Epoch of the training, 0 to 2**64 - 1; the numbers differ between epochs.
    indices : (N,) int
        Index of each sample in the data set, at least 0.

    Notes
    -----
    The algorithm is Philox4x64-10, bit for bit as ``numpy.random.Philox``, with the key (seed, epoch) and the counter
    (block of the draw + 2**32 * view, draw number, sample index, stream). The number of draws so far is the only state.

    References
    ----------
    Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011.

    Examples
    --------
    >>> import gpuimg
    >>> whole = gpuimg.Rng(7, indices=[10, 11, 12]).uniform()
    >>> part = gpuimg.Rng(7, indices=[12]).uniform()
    >>> bool(whole[2] == part[0])
    True
    """

    def __init__(self, seed: int, *, epoch: int = 0, indices: Indices) -> None:
        self.seed = arguments.whole_number(seed, "seed", 0, _LARGEST)
        self.epoch = arguments.whole_number(epoch, "epoch", 0, _LARGEST)
        array = np.asarray(indices)
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise ValueError(f"indices must be one-dimensional integers, not {array.dtype} of shape {array.shape}")
        if array.size and array.min() < 0:
            raise ValueError(f"indices must be at least 0, not {int(array.min())}")
        self.indices: NDArray[np.uint64] = array.astype(np.uint64)
        self._views = np.zeros(len(array), np.uint64)
        self._key = np.uint64(self.seed), np.uint64(self.epoch)
        self._stream = 0
        self._draw = 0

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def _count(self) -> int:
        """Number of samples, to check per-sample arguments."""
        return len(self.indices)

    def __repr__(self) -> str:
        return f"<gpuimg.Rng seed {self.seed}, epoch {self.epoch}, {counted(len(self), 'sample')}>"

    def split(self, name: str) -> Rng:
        """Return an independent stream for the same samples.

        Parameters
        ----------
        name : str
            Name of the stream. The same name returns the same stream; names of nested splits combine.

        Returns
        -------
        Rng
            For the same samples, at its first draw.
        """
        if not isinstance(name, str):
            raise TypeError(f"name must be a string, not {type(name).__name__}")
        other = Rng(self.seed, epoch=self.epoch, indices=self.indices)
        other._views = self._views
        text = self._stream.to_bytes(8, "little") + name.encode()
        other._stream = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
        return other

    def views(self, count: int) -> Rng:
        """Return draws for several views of each sample, at the first draw of the same stream.

        The first view of a sample draws the same numbers as the sample; every other view draws different ones.

        Parameters
        ----------
        count : int
            Views of each sample, at least 1, and with those of views of views at most 2**32.

        Returns
        -------
        Rng
            For ``count`` times as many samples: the first view of all samples, then the second, and so on, in the order
            of ``x.take(np.tile(np.arange(len(rng)), count))``.

        Examples
        --------
        >>> import gpuimg
        >>> rng = gpuimg.Rng(7, indices=[10, 11])
        >>> drawn = rng.views(3).uniform()
        >>> drawn.shape, bool(drawn[1] == rng.uniform()[1]), bool(drawn[1] == drawn[3])
        ((6,), True, False)
        """
        count = arguments.whole_number(count, "count", 1, _MOST_VIEWS)
        most = int(self._views.max(initial=0)) + 1
        if most * count > _MOST_VIEWS:
            raise ValueError(f"count must be at most {_MOST_VIEWS // most} for views of {most:,} views, not {count}")
        other = self.split("")
        other.indices = np.tile(self.indices, count)
        view = np.repeat(np.arange(count, dtype=np.uint64), len(self))
        other._views = np.tile(self._views, count) * np.uint64(count) + view
        other._stream = self._stream
        return other

    def fork(self) -> Rng:
        """Return a separate stream, for functions that need more draws for some samples than for others.

        Makes one draw, so that every call returns another stream.

        Returns
        -------
        Rng
            For the same samples, at its first draw.
        """
        other = self.split(f"draw {self._draw}")
        self._draw += 1
        return other

    def words(self, count: int = _WORDS) -> NDArray[np.uint64]:
        """Draw raw 64-bit words.

        Parameters
        ----------
        count : int
            Number of words for each sample, at least 0.

        Returns
        -------
        (N, count) uint64
        """
        blocks = -(-count // _WORDS)
        out = np.empty((len(self.indices), blocks * _WORDS), np.uint64)
        draw, stream = np.uint64(self._draw), np.uint64(self._stream)
        _philox().philox_words(*self._key, draw, self.indices, stream, self._views, out)
        self._draw += 1
        return out if out.shape[1] == count else out[:, :count]

    def units(self, count: int) -> Floats:
        """Draw several numbers in [0, 1) at once, as one draw.

        Parameters
        ----------
        count : int
            Number of values for each sample, at least 0.

        Returns
        -------
        (N, count) float64
        """
        words = self.words(-(-count // _WORDS) * _WORDS)
        out = np.empty(words.shape)
        _philox().to_units(words, out)
        return out[:, :count]

    @_draw
    def uniform(self, low: PerImage = 0.0, high: PerImage = 1.0) -> Floats:
        """Draw uniformly from [low, high).

        Parameters
        ----------
        low, high : float or (N,) float
            Limits of the numbers; ``high`` is at least ``low``.
        """
        lows = arguments.per_image(low, self._count, "low")
        highs = arguments.per_image(high, self._count, "high")
        if np.any(highs < lows):
            k = int(np.argmax(highs < lows))
            raise ValueError(f"high must be at least low, not {highs[k]:g} and {lows[k]:g} for sample {k}")
        return lows + (highs - lows) * self.units(1)[:, 0]

    @_draw
    def normal(self, mean: PerImage = 0.0, std: PerImage = 1.0) -> Floats:
        """Draw from a normal distribution by Box and Muller's method.

        Parameters
        ----------
        mean : float or (N,) float
            Mean of the numbers.
        std : float or (N,) float
            Standard deviation of the numbers, at least 0.
        """
        n = self._count
        means = arguments.per_image(mean, n, "mean")
        stds = arguments.per_image(std, n, "std", low=0.0)
        unit = self.units(2)
        return means + stds * np.sqrt(-2.0 * np.log1p(-unit[:, 0])) * np.cos(2.0 * np.pi * unit[:, 1])

    @_draw
    def gamma(self, shape: PerImage) -> Floats:
        """Draw from a gamma distribution of scale 1 by Marsaglia and Tsang's method.

        Parameters
        ----------
        shape : float or (N,) float
            Shape of the distribution, which is also its mean, at least 1e-6.

        Notes
        -----
        The method rejects less than 5 % of its tries. If all of eight tries are rejected, with a probability below
        1e-10, the mode is returned.
        """
        return np.exp(self._log_gamma(shape))

    def _log_gamma(self, shape: Any) -> Floats:
        """Return logarithms of a gamma draw: draws of small shapes would underflow in float64."""
        shapes = arguments.per_image(shape, self._count, "shape", low=LEAST_BETA)
        tries = 8
        unit = self.units(3 * tries + 1)
        # A shape below 1 is drawn one higher and scaled down (Marsaglia and Tsang, section 6).
        lifted = np.where(shapes < 1.0, shapes + 1.0, shapes)
        d = (lifted - 1.0 / 3.0)[:, None]
        normal = np.sqrt(-2.0 * np.log1p(-unit[:, 0 : 3 * tries : 3])) * np.cos(
            2.0 * np.pi * unit[:, 1 : 3 * tries : 3]
        )
        cube = (1.0 + normal / np.sqrt(9.0 * d)) ** 3
        with np.errstate(divide="ignore", invalid="ignore"):
            bound = 0.5 * normal**2 + d - d * cube + d * np.log(cube)
            good = (cube > 0.0) & (np.log1p(-unit[:, 2 : 3 * tries : 3]) < bound)
        first = np.argmax(good, 1)
        taken = np.where(good.any(1), cube[np.arange(len(self)), first], 1.0) * d[:, 0]
        boost = np.log1p(-unit[:, -1]) / shapes
        return np.log(taken) + np.where(shapes < 1.0, boost, 0.0)

    @_draw
    def beta(self, a: PerImage, b: PerImage) -> Floats:
        """Draw from a beta distribution, as one gamma draw divided by the sum of two; makes two draws.

        Parameters
        ----------
        a, b : float or (N,) float
            Parameters of the distribution, at least 1e-6; the mean is ``a / (a + b)``.
        """
        n = self._count
        firsts, seconds = (arguments.per_image(v, n, name, low=LEAST_BETA) for v, name in ((a, "a"), (b, "b")))
        one, other = self._log_gamma(firsts), self._log_gamma(seconds)
        return np.exp(one - np.logaddexp(one, other))

    @_draw
    def integers(self, low: PerImage, high: PerImage) -> Ints:
        """Draw whole numbers from low to high - 1.

        Parameters
        ----------
        low, high : int or (N,) int
            Least number, and the number after the largest, from -2**24 to 2**24.

        Returns
        -------
        (N,) int64
        """
        n = self._count
        lows = arguments.integers(low, n, "low")
        highs = arguments.integers(high, n, "high")
        if np.any(highs <= lows):
            k = int(np.argmax(highs <= lows))
            raise ValueError(f"high must be above low, not {int(highs[k])} and {int(lows[k])} for sample {k}")
        spread = highs - lows
        steps: Ints = np.minimum((self.units(1)[:, 0] * spread).astype(np.int64), spread - 1)
        return lows + steps

    @_draw
    def bernoulli(self, p: PerImage = 0.5) -> Mask:
        """Draw True with probability ``p``.

        Parameters
        ----------
        p : float or (N,) float
            Probability of True, 0 to 1.

        Returns
        -------
        (N,) bool
        """
        chance = arguments.per_image(p, self._count, "p", low=0.0, high=1.0)
        return self.units(1)[:, 0] < chance

    @_draw
    def choice(self, options: int | Sequence[Any], p: PerImage | None = None) -> NDArray[Any]:
        """Draw one of several options.

        Parameters
        ----------
        options : int or sequence
            Options to choose from, at least one; an int stands for ``range(options)``.
        p : sequence of float, optional
            Probability of each option; they add up to 1. None makes all equally likely.

        Returns
        -------
        (N,) array
            The options drawn, with the dtype of ``options``.
        """
        values = np.arange(options) if isinstance(options, (int, np.integer)) else np.asarray(options)
        if values.ndim != 1 or not len(values):
            raise ValueError(f"options must be a number of at least 1 or a sequence of options, not {options!r}")
        if p is None:
            limits = np.arange(1, len(values) + 1) / len(values)
        else:
            chances = np.asarray(p, np.float64)
            if chances.shape != values.shape or np.any(chances < 0) or abs(chances.sum() - 1.0) > 1e-6:
                raise ValueError(f"p must be {len(values)} probabilities that add up to 1, not {p!r}")
            limits = np.cumsum(chances)
        chosen = np.searchsorted(limits, self.units(1)[:, 0], side="right")
        return values[np.minimum(chosen, len(values) - 1)]

    def permutation(self, count: int) -> Ints:
        """Draw a random order of the numbers below ``count`` for each sample.

        Parameters
        ----------
        count : int
            How many numbers to order, at least 0.

        Returns
        -------
        (N, count) int64
        """
        order: Ints = np.argsort(self.words(count), axis=1, kind="stable")
        return order


class _OfFrames(Rng):
    """Random generator for the frames of clips: all frames of a clip draw the same numbers."""

    def __init__(self, clips: Rng, frames: int) -> None:
        super().__init__(clips.seed, epoch=clips.epoch, indices=np.repeat(clips.indices, frames))
        self._clips = clips
        self._frames = frames

    @property
    def _count(self) -> arguments.Count:
        return arguments.Count(len(self), self._frames)

    def words(self, count: int = _WORDS) -> NDArray[np.uint64]:
        return np.repeat(self._clips.words(count), self._frames, 0)

    def split(self, name: str) -> Rng:
        return _OfFrames(self._clips.split(name), self._frames)

    def views(self, count: int) -> Rng:
        return _OfFrames(self._clips.views(count), self._frames)

    def fork(self) -> Rng:
        return _OfFrames(self._clips.fork(), self._frames)

    def of_clips(self, rows: Ints) -> Rng:
        """Return the generator for some of the clips, by position."""
        return _OfFrames(rng_of_rows(self._clips, rows), self._frames)


def rng_of_views(seed: int, epoch: int, indices: Sequence[int], views: Sequence[int]) -> Rng:
    """Return a generator with one view of each sample, the draws of which are those of :meth:`Rng.views`."""
    rng = Rng(seed, epoch=epoch, indices=indices)
    rng._views = np.array(views, np.uint64)
    return rng


def rng_of_rows(rng: Rng, rows: Ints) -> Rng:
    """Return a generator for some of the samples, or clips, by position: equal positions draw the same numbers."""
    if isinstance(rng, _OfFrames):
        return rng.of_clips(rows)
    other = rng.split("")
    other.indices, other._views = rng.indices[rows], rng._views[rows]
    other._stream, other._draw = rng._stream, rng._draw
    return other


def as_rng(rng: Any, n: int, name: str, frames: int | None = None) -> Rng:
    """Return the generator for a batch of ``n`` images, from an Rng or a seed for samples 0 to n - 1.

    For clips with ``frames`` frames each, an Rng may have one sample per clip. All frames of a clip then draw the same
    numbers, as they do with a seed.
    """
    clips = n // (frames or 1)
    if isinstance(rng, Rng):
        if frames is not None and len(rng) == clips != n:
            return _OfFrames(rng, frames)
        if len(rng) != n:
            missing = f": image {len(rng)} has no index" if len(rng) < n else ""
            raise ValueError(f"rng is for {len(rng)} samples, but the batch has {images_or_clips(n, frames)}{missing}")
        return rng
    if isinstance(rng, (int, np.integer)) and not isinstance(rng, bool):
        # A separate stream for each function: two functions called with the same seed must make independent choices.
        own = Rng(int(rng), indices=np.arange(clips)).split(name)
        return own if frames is None else _OfFrames(own, frames)
    raise TypeError(f"rng must be a gpuimg.Rng or an int seed, not {rng!r}")


@cache
def _philox() -> Any:
    from ..kernels import philox  # imports Numba: only when it is used

    return philox
