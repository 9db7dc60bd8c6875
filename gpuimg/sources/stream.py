"""Source of samples that are iterated over, without a length or an index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .._checks.arguments import flag, whole_number

__all__ = ["iterable"]


class Stream:
    """Source returned by :func:`gpuimg.iterable`: each epoch iterates over the samples from the start.

    Attributes
    ----------
    buffer : int
        Number of samples in the shuffle buffer.
    sharded : bool
        Each rank iterates over a separate stream.
    """

    def __init__(self, samples: Any, buffer: int, sharded: bool) -> None:
        self._samples, self.buffer, self.sharded = samples, buffer, sharded

    def __repr__(self) -> str:
        name = getattr(self._samples, "__qualname__", type(self._samples).__name__)
        return f"<gpuimg.iterable {name}: shuffled {self.buffer:,} at a time{', sharded' if self.sharded else ''}>"

    def begin(self, rank: int, world: int) -> Iterator[Any]:
        """Start an epoch and return its iterator, that of one rank if the stream is sharded.

        Raises
        ------
        TypeError
            If the function returns an object that is not iterable.
        """
        if not callable(self._samples):
            return iter(self._samples)
        samples = self._samples(rank, world) if self.sharded else self._samples()
        try:
            return iter(samples)
        except TypeError:
            raise TypeError(f"the function of a stream must return an iterator, not {type(samples).__name__}") from None

    def describe(self, index: int) -> str:
        """Return the name of a sample for messages."""
        return f"sample {index} of the stream"


def iterable(
    samples: Callable[..., Iterable[Any]] | Iterable[Any], *, buffer: int = 1000, sharded: bool = False
) -> Stream:
    """Make a source for :func:`gpuimg.load` of samples that are iterated over.

    Parameters
    ----------
    samples : function or iterable
        A function without arguments, called for each epoch, that returns an iterable, such as a generator function.
        Samples are pairs or mappings, as in :func:`load`. Or an iterable that starts from its beginning each time, such
        as a list.
    buffer : int
        Size of the shuffle buffer of ``load(shuffle=True)``, in samples; the next sample is a random one of them. A
        larger buffer shuffles better.
    sharded : bool
        The function takes ``(rank, world)`` and returns only this rank's samples. Otherwise every rank iterates over
        all samples and uses every ``world``-th.

    Returns
    -------
    Stream
        A source without a length.

    Raises
    ------
    TypeError
        For other objects, and for an iterator, which is exhausted after one epoch.
    ValueError
        For a buffer below 1.

    Notes
    -----
    The same samples must come in the same order each time. Then, for any number of ranks and threads, the batches are
    those of a list of the same samples, shuffled within the buffer. A state resumes by count, exact to the sample;
    earlier samples are iterated over, but not decoded. A sample's index, which determines its random parameters, is its
    position in the stream, or ``position * world + rank`` if the stream is ``sharded``.

    If it is ``sharded``, all ranks need the same number of samples, as none is padded. A state can then be resumed only
    with the same number of ranks.

    One thread at a time takes samples from the iterator, not always the same one. Files at paths are then read by
    several threads at once.

    Examples
    --------
    >>> import gpuimg, io
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (40, 30)).save(file, "JPEG")
    >>> def arrivals():
    ...     for label in range(5):
    ...         yield file.getvalue(), label
    >>> stream = gpuimg.iterable(arrivals)
    >>> [batch.labels.tolist() for batch in gpuimg.load(stream, batch_size=2, device="cpu")]
    [[0, 1], [2, 3], [4]]
    """
    buffer, sharded = whole_number(buffer, "buffer"), flag(sharded, "sharded")
    if not callable(samples):
        if not isinstance(samples, Iterable):
            raise TypeError(f"samples must be a function or an iterable, not {type(samples).__name__}")
        if isinstance(samples, Iterator):
            raise TypeError(
                f"samples is an iterator ({type(samples).__name__}), which is exhausted after one epoch; pass a "
                "function that returns one"
            )
        if sharded:
            raise TypeError("sharded needs a function that takes (rank, world)")
    return Stream(samples, buffer, bool(sharded))
