"""``gpuimg.build_index``: files are read and scanned on several threads, and the index is written in order."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import Any

from .._checks.arguments import flag, whole_number
from .._checks.types import Samples
from .._index.entries import Built, EntryMaker
from .._index.format import checksum_of_names
from .._index.report import IndexReport, Tally
from .._index.writing import PartialIndex
from .._io.native_read import ChunkReader, prepare
from .._threads.threads import MOST_THREADS
from .._threads.threads import threads as allowed_threads
from ..sources._table import origin_of
from .in_order import Chunk, Progress, Work, process_in_order, shown
from .samples import Columns, SampleNames, read_samples
from .settings import check_columns, check_source

ENDING = ".gpuimg-index"


def build_index(
    source: Samples,
    path: str | os.PathLike[str] | None = None,
    *,
    threads: int | None = None,
    progress: bool | Progress = False,
    image: str = "image",
    dry_run: bool = False,
) -> IndexReport:
    """Build the seek index of a source: positions of the rows of blocks in its JPEG files.

    With an index, a crop is decoded without the rows above it and the blocks to its right.

    Parameters
    ----------
    source : object with ``len`` and ``source[i]``
        As in :func:`load`; labels are not used. It is called on several threads.
    path : path, optional
        Path of the index. By default the path of the source's folder or file, if it has exactly one, with
        ``.gpuimg-index`` appended. An existing index is replaced once the new one is complete.
    threads : int, optional
        Number of threads; by default ``GPUIMG_NUM_THREADS``, or the cores this process may use.
    progress : bool or function
        Show a progress bar (needs tqdm). A function is called with the number of samples done and their total number.
    image : str
        For a source of mappings, as in :func:`load`.
    dry_run : bool
        Only read headers and count; write nothing.

    Returns
    -------
    IndexReport
        Counts by kind of file, and the files that cannot be read or decoded, which raise no error.

    Raises
    ------
    ValueError
        For arguments out of range, without a path if there is no default, and if the path exists and is not a
        seek index.
    TypeError
        If ``source`` is not a source, or does not yield images.
    OSError
        If the index cannot be written; ``BlockingIOError`` if another process is writing it.
    ImportError
        For ``progress=True`` without tqdm.

    Notes
    -----
    Takes half the time of decoding, and reads every file once. The index is written to ``path + ".partial"`` and
    renamed when it is complete. After an interruption of any kind the same call resumes, and the result has the same
    bytes. The bytes depend neither on the number of threads nor on the location of the data set. Nothing is written to
    the data set.

    Examples
    --------
    >>> import gpuimg, io, pathlib, tempfile
    >>> from PIL import Image
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> (root / "train" / "cat").mkdir(parents=True)
    >>> Image.new("RGB", (400, 300)).save(root / "train" / "cat" / "1.jpg")
    >>> report = gpuimg.build_index(gpuimg.folder(root / "train"))
    >>> report.indexed, report.subsampling, pathlib.Path(report.path).name
    (1, {'4:2:0': 1}, 'train.gpuimg-index')
    """
    check_source(source)
    workers = allowed_threads() if threads is None else whole_number(threads, "threads", 1, MOST_THREADS)
    columns = Columns(check_columns(image, None).image, None)
    start = time.perf_counter()
    prepare()
    progress = progress if callable(progress) else flag(progress, "progress")
    where = None if flag(dry_run, "dry_run") else _default_path(source) if path is None else os.fsdecode(path)
    tally = Tally()

    def work(_: object) -> Work[Built]:
        return partial(_built, source, columns, EntryMaker(where is not None), ChunkReader())

    with shown(progress, len(source)) as seen:
        if where is None:
            process_in_order(range(len(source)), workers, work, tally.add, seen)
            return tally.report(None, 0, time.perf_counter() - start)
        written = PartialIndex(where, len(source), checksum_of_names(source))
        try:
            for built in written.before():
                tally.add(built)
            resumed = tally.samples

            def add(built: Built) -> None:
                written.add(built)
                tally.add(built)

            process_in_order(range(resumed, len(source)), workers, work, add, seen)
            written.finish(tally.largest)
        finally:
            written.close()
    return tally.report(where, resumed, time.perf_counter() - start)


def _default_path(source: Any) -> str:
    """Return the path next to the folder or file that a source is read from."""
    origin = origin_of(source)
    if origin is None:
        raise ValueError(f"path is needed: {source!r} is not read from a single local file or folder")
    return os.path.abspath(os.fsdecode(origin)) + ENDING


def _built(source: Any, columns: Columns, make: EntryMaker, reader: ChunkReader, chunk: range) -> Chunk[Built]:
    """Read samples and build their entries."""
    samples = read_samples(source, chunk, [True] * len(chunk), columns, reader)
    unreadable = {k: one.reason for k, one in enumerate(samples) if one.error is not None}
    data = [b"" if one.error is not None else one.data for one in samples]
    built = make(data, SampleNames(samples), unreadable)
    return Chunk(built, int(built.files.sum()))
