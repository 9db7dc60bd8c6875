"""Reading the sizes of a source's images from their headers, and keeping them in a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks.arguments import flag, whole_number
from .._checks.types import Ints, Samples
from .._decoding.options import DecodeOptions
from .._io.native_read import ChunkReader, prepare
from .._threads.threads import MOST_THREADS
from .._threads.threads import threads as allowed_threads
from ..sources._indexes import Arrays, cached_arrays, checksum_of_names, expect, spread
from .in_order import Chunk, Progress, process_in_order, shown
from .opened import open_samples
from .samples import Columns, read_samples
from .settings import check_columns, check_source

__all__ = ["read_sizes"]

_COMPARED = 16  # samples whose headers are compared with kept sizes


def read_sizes(
    source: Samples,
    cache: str | os.PathLike[str] | None = None,
    *,
    threads: int | None = None,
    progress: bool | Progress = False,
    image: str = "image",
) -> Ints:
    """Read the headers of all images of a source, for :func:`bucket_batches` and :func:`token_batches`.

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
        images = open_samples(samples, DecodeOptions())
        sizes = images.sizes.astype(np.int32)
        sizes[list(images.failures)] = 0
        return Chunk(sizes, sum(len(sample.data) for sample in samples))

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
        some = spread(len(source), _COMPARED)
        found = headers(some, ChunkReader()).result
        wrong = np.any(found != kept[some], 1) & np.any(found > 0, 1)  # a header may be unreadable this time
        if wrong.any():
            k = int(np.argmax(wrong))
            size, other = found[k].tolist(), kept[some[k]].tolist()
            raise ValueError(f"sample {some[k]} is {size[0]} x {size[1]}, not {other[0]} x {other[1]} pixels")

    arrays = cached_arrays(cache, "cache", ("sizes 1", len(source), names), build, check)
    sizes: Ints = arrays["sizes"].astype(np.int64)
    return sizes
