"""Batches by the sizes of images, of one target size or of a number of tokens; and reading these sizes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._batch.encoded import open_images
from .._checks.arguments import flag, whole_number
from .._checks.types import Ints, Samples
from .._decoding.options import DecodeOptions
from .._io.native_read import ChunkReader, prepare
from .._threads.threads import MOST_THREADS
from .._threads.threads import threads as allowed_threads
from ..sizes import buckets, naflex, nearest
from ..sources._indexes import Arrays, cached_arrays, checksum_of_names, expect
from .in_order import Chunk, Progress, process_in_order, shown
from .order import BatchOrder, Blocks, Groups, Order
from .samples import Columns, read_samples
from .settings import check_columns, check_source

__all__ = ["Buckets", "TokenBudget", "read_sizes"]

#: Sizes of a source's images: an array (N, 2), or the path of a file for :func:`read_sizes`.
Sizes: TypeAlias = "ArrayLike | str | os.PathLike[str] | None"

_AT_ONCE = 1 << 14  # images whose target sizes are computed together, which bounds the memory
_STEP = 1.05  # ratio of the lengths of two groups of a token budget, which bounds the padding
_COMPARED = 16  # samples whose headers are compared with kept sizes


@dataclass(frozen=True, eq=False)
class Buckets:
    """Batches of images that share a target size, for ``batch_size`` of :func:`load`.

    Each image belongs to the allowed size with the nearest aspect ratio, and a batch has images of one such size:
    :attr:`Batch.target_sizes`. A ``preprocess`` function resizes to it.

    Attributes
    ----------
    images : int
        Images of a batch. The last batch of a size has fewer; ``drop_last`` leaves it out.
    allowed : (M, 2) int, optional
        Target sizes, height and width in pixels; by default :func:`gpuimg.sizes.buckets`, of 1024 x 1024 pixels.
    sizes : (N, 2) int or path, optional
        Height and width of the source's images. A path: the file in which :func:`read_sizes` keeps them. By default
        they are read from the headers of all files. An image whose header demands another target is a bad sample, to
        which ``on_error`` of the loader applies.

    Raises
    ------
    ValueError
        For numbers out of range.

    Examples
    --------
    >>> import gpuimg
    >>> def train(x, rng):
    ...     return gpuimg.random_resized_crop(x, x.target_sizes, scale=(0.8, 1.0), rng=rng)
    >>> allowed = gpuimg.sizes.buckets(area=256 * 256)
    >>> batches = gpuimg.Buckets(16, allowed, sizes="train.sizes")
    >>> loader = gpuimg.load(source, train, batch_size=batches, shuffle=True)  # doctest: +SKIP
    """

    images: int
    allowed: ArrayLike | None = None
    sizes: Sizes = None

    def __post_init__(self) -> None:
        whole_number(self.images, "images")
        nearest([(1, 1)], self._allowed)  # checks them

    @property
    def _allowed(self) -> Any:
        return buckets() if self.allowed is None else self.allowed

    def target_sizes(self, sizes: Ints) -> NDArray[np.int32]:
        """Return the size (N, 2) to which each image is resized."""
        return _in_parts(lambda part: nearest(part, self._allowed), sizes)

    def groups(self, sizes: Ints) -> Groups:
        """Return the groups of images of these sizes (N, 2): one for each target size."""
        targets = self.target_sizes(sizes)
        allowed = np.unique(_packed(np.asarray(self._allowed)))
        group = np.searchsorted(allowed, _packed(targets)).astype(np.int32)
        return Groups(group, np.full(len(allowed), self.images), targets)


@dataclass(frozen=True, eq=False)
class TokenBudget:
    """Batches of a number of tokens, for ``batch_size`` of :func:`load`: many small images, or a few large ones.

    A batch has images of nearly the same number of tokens, so that at most 5 % of a padded batch is padding.
    :attr:`Batch.target_sizes` has the size of each image, to which a ``preprocess`` function resizes.

    Attributes
    ----------
    tokens : int
        Most tokens of a batch: the number of images times the tokens of the longest one.
    patch : int
        Side of a token in pixels: that of a patch, times the number of patches along a side that a model merges.
    targets : function, optional
        Returns the size to which each image is resized, (N, 2), for sizes (N, 2). Heights and widths must be multiples
        of ``patch``. By default :func:`gpuimg.sizes.naflex`, which allows 256 patches.
    sizes : (N, 2) int or path, optional
        As for :class:`Buckets`.

    Raises
    ------
    ValueError
        For numbers out of range.

    Examples
    --------
    >>> import gpuimg
    >>> def train(x, rng):
    ...     return gpuimg.normalize(gpuimg.resize(x, x.target_sizes), 0.5, 0.5).tokens(16, pad="longest")
    >>> def targets(sizes):
    ...     return gpuimg.sizes.naflex(sizes, patch=16, patches=1024)
    >>> batches = gpuimg.TokenBudget(16384, 16, targets, sizes="train.sizes")
    >>> loader = gpuimg.load(source, train, batch_size=batches, shuffle=True)  # doctest: +SKIP
    """

    tokens: int
    patch: int = 16
    targets: Callable[[Ints], Ints] | None = None
    sizes: Sizes = None

    def __post_init__(self) -> None:
        whole_number(self.tokens, "tokens")
        whole_number(self.patch, "patch")
        if self.targets is not None and not callable(self.targets):
            raise TypeError(f"targets must be a function from sizes to sizes, not {self.targets!r}")

    def target_sizes(self, sizes: Ints) -> NDArray[np.int32]:
        """Return the size (N, 2) to which each image is resized."""
        return _in_parts(self.targets or (lambda part: naflex(part, self.patch)), sizes)

    def groups(self, sizes: Ints) -> Groups:
        """Return the groups of images of these sizes (N, 2): one for each range of lengths."""
        targets = self.target_sizes(sizes)
        if np.any(targets % self.patch):
            wrong = targets[np.any(targets % self.patch, 1)][0]
            raise ValueError(f"targets must return multiples of patch, {self.patch} pixels, not {wrong.tolist()}")
        count = (targets // self.patch).prod(1, dtype=np.int64)
        if count.max() > self.tokens:
            i = int(np.argmax(count))
            raise ValueError(f"image {i} has {count[i]:,} tokens, but a batch may have {self.tokens:,}")
        lengths = [1]
        while lengths[-1] < self.tokens:
            lengths.append(min(max(lengths[-1] + 1, int(lengths[-1] * _STEP)), self.tokens))
        return Groups(np.searchsorted(lengths, count).astype(np.int32), self.tokens // np.array(lengths), targets)


def _packed(sizes: NDArray[Any]) -> Ints:
    """Return one number for each size."""
    numbers: Ints = sizes[:, 0].astype(np.int64) << 32 | sizes[:, 1]
    return numbers


def _in_parts(rule: Callable[[Ints], Any], sizes: Ints) -> NDArray[np.int32]:
    """Return the target sizes of images."""
    found = np.empty((len(sizes), 2), np.int32)
    for at in range(0, len(sizes), _AT_ONCE):
        part = sizes[at : at + _AT_ONCE].astype(np.int64)
        targets = np.asarray(rule(np.maximum(part, 1)))  # 0 x 0 if the header could not be read
        if targets.shape != part.shape or targets.dtype.kind not in "iu" or targets.min() < 1:
            raise ValueError(
                f"targets must return whole numbers of at least 1, of shape {part.shape}, not {targets.dtype} of shape "
                f"{targets.shape}"
            )
        found[at : at + _AT_ONCE] = targets
    return found


def check_by_size(rule: Buckets | TokenBudget, on_error: str, clips: Any) -> None:
    """Refuse options that change a batch's samples, or have no image headers."""
    if on_error == "skip":
        raise ValueError(
            f'on_error="skip" would replace a sample with one of a different size; use "fill" with '
            f"batch_size={type(rule).__name__}, and ignore samples that are not valid"
        )
    if clips is not None:
        raise ValueError(f"batch_size={type(rule).__name__} is for images, not for clips of videos")


def batches_of(rule: Buckets | TokenBudget, source: Any, samples: Order, image: str, drop_last: bool) -> BatchOrder:
    """Return the order of batches of a source's samples, unless these are in blocks, weighted or repeated."""
    if isinstance(samples.shuffle, Blocks) or samples.limits is not None or samples.repeats > 1:
        raise ValueError(
            f"batch_size={type(rule).__name__} makes batches of all images of a size, so it takes neither "
            "shuffle=Blocks nor weights nor repeats"
        )
    sizes = rule.sizes
    if sizes is None or isinstance(sizes, (str, os.PathLike)):
        sizes = _sizes(source, sizes, Columns(image, None), allowed_threads(), False)
    found = np.asarray(sizes)
    if found.shape != (len(source), 2) or found.dtype.kind not in "iu" or found.min() < 0:
        raise ValueError(
            f"sizes must be whole numbers, height and width of each of {len(source):,} images, not {found.dtype} of "
            f"shape {found.shape}"
        )
    groups = rule.groups(found if samples.indices is None else found[samples.indices])
    return BatchOrder(samples, groups, drop_last, rule.target_sizes)


def read_sizes(
    source: Samples,
    cache: str | os.PathLike[str] | None = None,
    *,
    threads: int | None = None,
    progress: bool | Progress = False,
    image: str = "image",
) -> Ints:
    """Read the headers of all images of a source, for :class:`Buckets` and :class:`TokenBudget`.

    Parameters
    ----------
    source : object with ``len`` and ``source[i]``
        As in :func:`load`; it is called on several threads.
    cache : path, optional
        A file that keeps the sizes of a source whose samples have names. If it exists and belongs to the source (by
        number and names of samples, and the headers of 16 of them), no other header is read.
    threads : int, optional
        Number of threads; by default ``GPUIMG_NUM_THREADS``, or the cores this process may use.
    progress : bool or function
        Show a progress bar (needs tqdm). A function is called with the number of samples done and their total number.
    image : str
        For a source of mappings, as in :func:`load`.

    Returns
    -------
    (N, 2) int64
        Height and width in pixels, after the EXIF orientation; 0 x 0 for images whose header cannot be read.

    Raises
    ------
    ValueError, TypeError
        For arguments out of range, if ``source`` is not a source, and for ``cache`` if its samples have no names.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import gpuimg, io
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (40, 30)).save(file, "JPEG")
    >>> gpuimg.read_sizes([(file.getvalue(), 0), (b"", 1)]).tolist()
    [[30, 40], [0, 0]]
    """
    check_source(source)
    workers = allowed_threads() if threads is None else whole_number(threads, "threads", 1, MOST_THREADS)
    columns = Columns(check_columns(image, None).image, None)
    progress = progress if callable(progress) else flag(progress, "progress")
    return _sizes(source, cache, columns, workers, progress)


def _sizes(source: Any, cache: Any, columns: Columns, workers: int, progress: bool | Progress) -> Ints:
    names = None if cache is None else checksum_of_names(source)
    if cache is not None and not names:
        raise ValueError(
            "cache is for sources whose samples have names, as those of gpuimg.folder; keep the sizes of others with "
            "numpy.save"
        )

    def headers(indices: Sequence[int], reader: ChunkReader) -> Chunk[NDArray[np.int32]]:
        samples = read_samples(source, indices, [True] * len(indices), columns, reader)
        data = [b"" if one.error is not None else one.data for one in samples]
        images = open_images(data, DecodeOptions(), "fill")
        sizes = images.sizes.astype(np.int32)
        sizes[list(images.failures)] = 0
        return Chunk(sizes, sum(map(len, data)))

    def build() -> Arrays:
        found: list[NDArray[np.int32]] = []
        prepare()
        with shown(progress, len(source)) as seen:
            process_in_order(
                range(len(source)), workers, lambda _: partial(headers, reader=ChunkReader()), found.append, seen
            )
        return {"sizes": np.concatenate(found)}

    def check(arrays: Arrays) -> None:
        kept = expect(arrays, "sizes", np.int32, len(source), 2)
        if kept.min() < 0:
            raise ValueError("'sizes' must be at least 0")
        some = sorted({k * (len(source) - 1) // (_COMPARED - 1) for k in range(_COMPARED)})
        found = headers(some, ChunkReader()).result
        wrong = np.any(found != kept[some], 1) & np.any(found > 0, 1)  # a header may be unreadable this time
        if wrong.any():
            k = int(np.argmax(wrong))
            size, other = found[k].tolist(), kept[some[k]].tolist()
            raise ValueError(f"sample {some[k]} is {size[0]} x {size[1]}, not {other[0]} x {other[1]} pixels")

    arrays = cached_arrays(cache, "cache", ("sizes 1", len(source), names), build, check)
    return arrays["sizes"].astype(np.int64)
