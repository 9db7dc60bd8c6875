"""Samples that come one after another, without a length or numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .._checks.arguments import flag, whole_number


class Stream:
    """What :func:`gpuimg.iterable` gives: samples of each epoch, from its beginning.

    Attributes
    ----------
    buffer : int
        Samples that are shuffled at a time.
    sharded : bool
        Each rank has a stream of its own.
    """

    def __init__(self, samples: Any, buffer: int, sharded: bool) -> None:
        self._samples, self.buffer, self.sharded = samples, buffer, sharded

    def __repr__(self) -> str:
        name = getattr(self._samples, "__qualname__", type(self._samples).__name__)
        return f"<gpuimg.iterable {name}: shuffled {self.buffer:,} at a time{', sharded' if self.sharded else ''}>"

    def begin(self, rank: int, world: int) -> Iterator[Any]:
        """The samples of an epoch; those of a rank, where each has its own.

        Raises
        ------
        TypeError
            Where the function gives what cannot be iterated over.
        """
        if not callable(self._samples):
            return iter(self._samples)
        made = self._samples(rank, world) if self.sharded else self._samples()
        try:
            return iter(made)
        except TypeError:
            raise TypeError(f"the function of a stream must give an iterator, not {type(made).__name__}") from None

    def describe(self, index: int) -> str:
        """Name of a sample for messages."""
        return f"sample {index} of the stream"


def iterable(
    samples: Callable[..., Iterable[Any]] | Iterable[Any], *, buffer: int = 1000, sharded: bool = False
) -> Stream:
    """Samples that come one after another, as a source of :func:`gpuimg.load`.

    Parameters
    ----------
    samples : function or iterable
        A function without arguments, called for each epoch, whose result is iterated over: a generator, say. Samples
        are pairs or mappings, as in :func:`load`. An iterable will do that begins anew each time, as a list does.
    buffer : int
        Samples that ``load(shuffle=True)`` holds, of which a random one comes next: the larger, the better shuffled.
    sharded : bool
        The function takes ``(rank, world)`` and gives this rank's samples alone. Otherwise every rank goes over all of
        them, and the ranks take turns.

    Returns
    -------
    Stream
        A source without a length.

    Raises
    ------
    TypeError
        For what is neither, and for an iterator, which is used up after one epoch.
    ValueError
        For a buffer below 1.

    Notes
    -----
    The same samples must come in the same order each time. Then the batches are those of a list of the same samples,
    for any number of ranks and threads, shuffled within the buffer; a state resumes by count, exact to the sample, and
    goes over what comes before without decoding it. A sample's index is its place in the stream, times the number of
    ranks and plus the rank if it is ``sharded``; so are its random parameters.

    Where it is ``sharded``, the ranks need the same number of samples: nobody makes up for one that has fewer. Its
    states resume with the same number of ranks alone.

    One thread at a time takes samples, not always the same one; files behind paths are then read side by side.

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
                f"samples is an iterator ({type(samples).__name__}), which is used up after one epoch; give a function "
                "that makes one"
            )
        if sharded:
            raise TypeError("sharded needs a function that takes (rank, world)")
    return Stream(samples, buffer, bool(sharded))
