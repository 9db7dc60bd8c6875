"""Decoded images in memory from one epoch to the next, for a loader on the CPU.

Memory is never moved or reused, so that a batch reads its images where they are, as long as these objects live.
"""

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .._batch.encoded import size_as_others
from .._batch.recording import Recording
from .._checks.arguments import whole_number
from .._checks.types import Ints
from .._data.images import ALIGNMENT, Pixels, offsets_of
from .._decoding.options import DecodeOptions
from .._runtimes.protocol import Runtime, Timings
from ..errors import Failure
from ..sources.stream import Stream
from .opened import open_samples
from .samples import Sample

_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30,
          "TIB": 1 << 40}  # fmt: skip
_SIZE = 'a size such as "24 GiB", or a number of bytes (of memory, it is not a folder)'
_ABSENT, _COMING = -1, -2  # places of images that are not there, and that a thread is writing


class Head(NamedTuple):
    """What is known of a sample whose image is in memory."""

    place: int
    label: Any
    path: str | None


class DecodedImages:
    """Decoded images of a source by the index of their sample, until one and its label do not fit."""

    def __init__(self, runtime: Runtime, size: int, samples: int, options: DecodeOptions) -> None:
        self._runtime, self._options = runtime, options
        self._memory = np.empty(size // (options.bits // 8), f"uint{options.bits}")  # pages come with their first use
        self._places = np.full(samples, _ABSENT, np.int64)
        self._sizes = np.zeros((samples, 2), np.int64)
        self._known: dict[int, tuple[Any, str | None]] = {}  # labels and paths
        # Elements in use; a thread takes it to change it. Not a lock, which a fork may leave locked in the child.
        self._used = deque([0])
        self._of_labels = 0  # elements that labels take of ``size``; changed by the thread that has the former

    @property
    def count(self) -> int:
        """Number of images that are there."""
        return len(self._known)

    def head(self, index: int) -> Head | None:
        """Return what is known of a sample; None if its image is not there."""
        place = int(self._places[index])
        return None if place < 0 else Head(place, *self._known[index])

    def open(self, samples: list[Sample], *, alike: bool) -> tuple[Pixels, Timings]:
        """Return images of a batch, if wanted ``alike`` in size, and timings of those that are decoded and added."""
        fresh = [k for k, sample in enumerate(samples) if sample.place is None]
        timings, failures = Timings(), dict[int, Failure]()
        decoded: Pixels | None = None
        if fresh:
            read = [samples[k] for k in fresh]
            images = open_samples(read, self._options)
            if isinstance(images, Pixels):
                raise TypeError("cache= is for sources of files, and this one returns arrays, which are decoded")
            if alike:
                size_as_others(images, self._sizes[[one.index for one in samples if one.place is not None]])
            decoded = Recording.start(self._runtime, images, timings=timings).decoded()
            failures = {fresh[k]: failure._replace(index=fresh[k]) for k, failure in images.failures.items()}
            self._add([(sample, k) for k, sample in enumerate(read) if k not in images.failures], decoded)
        return replace(self._gathered(samples, fresh, decoded), failures=failures), timings

    def _add(self, read: Sequence[tuple[Sample, int]], decoded: Pixels) -> None:
        try:
            used = self._used.pop()
        except IndexError:  # another thread is at the next lines; these images are added in a later epoch
            return
        added = []
        for sample, k in read:
            size = decoded.view(k).size
            label = -(-_bytes_of(sample.label) // self._memory.itemsize)
            if used + size + self._of_labels + label > self._memory.size:
                break
            if self._places[sample.index] == _ABSENT:
                self._places[sample.index] = _COMING
                self._of_labels += label
                added.append((sample, k, used))
                used += -(-size // ALIGNMENT) * ALIGNMENT
        self._used.append(used)
        for sample, k, place in added:
            image = decoded.view(k).reshape(-1)
            self._memory[place : place + image.size] = image
            self._sizes[sample.index], self._known[sample.index] = decoded.sizes[k], (sample.label, sample.path)
            self._places[sample.index] = place  # last: from here on other threads read it

    def _gathered(self, samples: list[Sample], fresh: list[int], decoded: Pixels | None) -> Pixels:
        """Return images from this memory where they are, if all are there, else in one buffer."""
        if decoded is not None and len(fresh) == len(samples):
            return decoded
        indices = np.array([sample.index for sample in samples], np.int64)
        channels = self._options.channels
        if decoded is None:
            return Pixels(self._memory, self._places[indices], self._sizes[indices], channels, is_shared=True)
        sizes: Ints = self._sizes[indices]
        sizes[fresh] = decoded.sizes
        offsets, total = offsets_of(sizes, channels)
        found = Pixels(self._runtime.empty(total, self._memory.dtype.name), offsets, sizes, channels)
        there = Pixels(self._memory, self._places[indices], sizes, channels)
        rows = dict(zip(fresh, range(len(fresh)), strict=True))
        for k in range(len(samples)):
            found.view(k)[:] = decoded.view(rows[k]) if k in rows else there.view(k)
        return found


def _bytes_of(label: Any) -> int:
    """Return the bytes of the arrays, bytes, texts and containers in a label; a single number is not counted."""
    if isinstance(label, Mapping):
        label = label.values()
    elif isinstance(label, (str, bytes, bytearray)):
        return len(label)
    elif not isinstance(label, (list, tuple, set, frozenset)):
        return int(getattr(label, "nbytes", 0))
    return sum(map(_bytes_of, label), 8 * len(label))


def cache_of(
    cache: Any, source: Any, runtimes: Sequence[Runtime], options: DecodeOptions, *, of_clips: bool
) -> DecodedImages | None:
    """Return the memory for images that the ``cache`` argument of :func:`gpuimg.load` asks for."""
    if cache is None:
        return None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]i?B)\s*", cache, re.I) if isinstance(cache, str) else None
    if found is not None:
        size = int(float(found[1]) * _UNITS[found[2].upper()])
    elif isinstance(cache, str):
        raise ValueError(f"cache must be {_SIZE}, not {cache!r}")
    elif isinstance(cache, bool):
        raise TypeError(f"cache must be {_SIZE}, not {cache!r}")
    else:
        size = whole_number(cache, "cache")
    if isinstance(source, Stream):
        raise ValueError("cache needs a source with a length, not a stream, whose samples have no numbers")
    if of_clips or options.draft is not None or len(runtimes) != 1 or not runtimes[0].on_host:
        raise ValueError('cache holds decoded images on the CPU: pass it with device="cpu", without clips and draft')
    return DecodedImages(runtimes[0], size, len(source), options)
