"""``gpuimg.prepare``: a copy of a data set with smaller images."""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import asdict
from itertools import islice
from typing import Any, Literal

import numpy as np

from .. import presets, sources
from .._batch.opening import open_batch
from .._checks.arguments import flag, whole_number
from .._checks.keywords import REMOVED, explained
from .._checks.types import Alpha, Icc, Samples
from .._decoding.options import DecodeOptions
from .._io import native_read
from .._io.file_bytes import printable
from .._loading.in_order import Progress, process_in_order, shown
from .._loading.samples import Columns, read_samples
from .._loading.settings import check_columns, check_source
from .._random.rng import Rng
from .._threads.threads import threads as allowed_threads
from .._version import __version__
from ..sources._indexes import checksum_of_names
from ..sources._remote import local
from ..sources._table import Parts, origin_of
from ..sources.coco import Coco
from ..sources.folder import Folder, ImageFiles
from . import writing
from .encode import encoder_version
from .images import Plan, ResultMaker
from .manifest import Line, Manifest, is_written_for
from .names import Keys, naming_of
from .options import Options, checked_options
from .report import PrepareReport, Tally, TrainRate
from .writing import ANNOTATIONS, LIST, Files, Result, Shards, Writer, make_class_folders, shard_name, write_labels

__all__ = ["prepare"]

_SHARD_BYTES = 1_000_000_000  # default size of a tar file
_MEASURED = 64  # images whose training is measured
_BATCH = 32  # images per batch of that
_ROUNDS = 5  # rounds of that, after one that is not counted


@explained(REMOVED)
def prepare(
    source: Samples,
    destination: str | os.PathLike[str],
    *,
    short_side: int | None = None,
    max_pixels: int | None = None,
    quality: int | None = None,
    subsampling: Literal["420", "444", "keep"] | None = None,
    restart: Literal["none", "rows"] = "none",
    to: Literal["jpeg", "same"] = "jpeg",
    recode: bool = False,
    progressive: bool = False,
    alpha: Alpha = "drop",
    icc: Icc = "ignore",
    tar_size: int | None = None,
    part: tuple[int, int] | None = None,
    measure: bool = True,
    threads: int | None = None,
    progress: bool | Progress = False,
    image: str = "image",
    label: str | None = "label",
) -> PrepareReport:
    """Write a copy of a data set with smaller images, which decode faster in every epoch.

    Parameters
    ----------
    source : object with ``len`` and ``source[i]``
        As in :func:`load`. It is called on several threads.
    destination : path
        A folder that is empty or does not exist, or one in which the same call was interrupted.
    short_side : int, optional
        Larger images are shrunk to this length of their shorter side, in pixels.
    max_pixels : int, optional
        Images with more pixels are shrunk to at most this number. Images are never enlarged.
    quality : int
        Quality of JPEG and WebP, 1 to 100; 90 by default.
    subsampling : {"420", "444", "keep"}
        Chroma subsampling of JPEG files: 4:2:0, the default, 4:4:4, or that of the source file.
    restart : {"none", "rows"}
        ``"rows"``: write restart markers after each row of blocks, with which crops decode faster.
    to : {"jpeg", "same"}
        ``"same"``: PNG stays PNG and WebP stays WebP; all other formats become JPEG.
    recode : bool
        Leave the pixels unchanged, and write JPEG files as :func:`recode_jpeg` codes them, with the ending ``.gji``:
        they take about as many bytes and decode faster. :func:`restore_jpeg`, or ``gpuimg restore``, returns the
        original files. All other files are copied, and so are JPEG files that would not be restored byte for byte.
        Excludes the first four options.
    progressive : bool
        With ``recode``: also code progressive files anew, for the same pixels; these cannot be restored.
    alpha : {"drop", "black", "white"}
        As in :func:`open_batch`; results have no transparency.
    icc : {"ignore", "srgb"}
        As in :func:`open_batch`; results have no profile. Excludes ``recode``.
    tar_size : int, optional
        Maximum size in bytes of tar files, as :func:`tar` reads them; a larger sample gets a tar file alone. 0:
        separate files. The default is 0 for sources of image files, and 1 GB for all others.
    part : (k, n), optional
        Write part ``k`` of ``n``, 0 to n - 1, so that several machines share the work: whole shards of a source of tar
        or TFRecord files if it has at least ``n``, else as many samples as the other parts. The tar files are in a
        folder of the destination such as ``part-00003-of-00016``; ``PrepareReport.merged`` combines the reports.
        Not for separate files.
    measure : bool
        Measure images/s of ``presets.imagenet_train()`` on some images, before and after, which takes a few seconds.
    threads : int, optional
        Number of threads; by default ``GPUIMG_NUM_THREADS``, or the cores this process may use.
    progress : bool or function
        Show a progress bar (needs tqdm). A function is called with the number of samples done and their total number.
    image, label : str
        For a source of mappings, as in :func:`load`.

    Returns
    -------
    PrepareReport
        Counts and sizes, and the samples that cannot be read or decoded, or whose names cannot be used; these raise no
        error.

    Raises
    ------
    ValueError
        For arguments that are out of range or exclude each other, and for a folder that has other content, was prepared
        from a different source or with other options, or contains a link that leads out of it.
    TypeError
        If ``source`` is not a source, or does not return images.
    OSError
        If results cannot be written; ``BlockingIOError`` if another process is writing them.
    ImportError
        For ``progress=True`` without tqdm.

    Notes
    -----
    Images are decoded whole, resized with an antialiasing bicubic filter, and rotated according to their EXIF
    orientation. EXIF data and color profiles are not copied. A JPEG file that needs no change is copied unchanged: one
    that is small enough, baseline and upright, has the requested subsampling, and is not of a higher quality.

    Names and folders are kept, with endings of the format. Tar files contain the label of a sample with its image, as
    ``.cls``, ``.txt``, ``.bin`` or ``.json``; the other members of a sample of :func:`tar` are copied. Nothing is
    written outside of the folder, or under names that could make unpacking a tar file write elsewhere: samples with
    ``..`` in their names, absolute names, drive letters or control characters fail. Separate files come with
    ``list.csv`` for :func:`file_list`, or with ``annotations.json`` for :func:`coco`, in which boxes have the new
    sizes.

    ``manifest.jsonl`` has one line per sample. After an interruption of any kind the same call resumes, and the results
    have the same bytes, whatever the number of threads. Files have a temporary name until they are complete. The source
    must not change in the meantime.

    Examples
    --------
    >>> import gpuimg, pathlib, tempfile
    >>> from PIL import Image
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> (root / "train" / "cat").mkdir(parents=True)
    >>> Image.new("RGB", (400, 300)).save(root / "train" / "cat" / "1.png")
    >>> report = gpuimg.prepare(gpuimg.folder(root / "train"), root / "small", short_side=100, measure=False)
    >>> report.encoded, gpuimg.image_info(root / "small" / "cat" / "1.jpg")[:2]
    (1, (100, 133))
    """
    check_source(source)
    columns = check_columns(image, label)
    measure = flag(measure, "measure")
    progress = progress if callable(progress) else flag(progress, "progress")
    size = (0 if isinstance(source, ImageFiles) else _SHARD_BYTES) if tar_size is None else tar_size
    options = checked_options(
        short_side=short_side, max_pixels=max_pixels, quality=quality, subsampling=subsampling, restart=restart, to=to,
        recode=recode, progressive=progressive, decode=DecodeOptions(alpha=alpha, icc=icc), tar_size=size,
    )  # fmt: skip
    workers = allowed_threads() if threads is None else whole_number(threads, "threads")
    chosen = _part_of(source, part, options)
    if not options.tar_size:
        writing.check_labels(source)
    folder = _create_folder(source, destination)
    if part is not None:
        folder = os.path.join(folder, f"part-{part[0]:05d}-of-{part[1]:05d}")
        os.makedirs(folder, exist_ok=True)
    start = time.perf_counter()
    native_read.prepare()
    naming = naming_of(source, bool(options.tar_size))
    keys = Keys(naming, chosen)
    writer: Writer = Shards(folder, options.tar_size) if options.tar_size else Files(folder)
    manifest = Manifest(folder, _settings(source, options) | ({} if part is None else {"part": list(part)}))
    try:
        plan = Plan(source, chosen, columns, options, naming, keys, writer)
        tally, resumed = _run(plan, manifest, workers, progress)
        seconds = time.perf_counter() - start
        if not options.tar_size:
            write_labels(source, folder, manifest.lines())
        written = tally.samples - len(tally.failed)
        rate = _train_rate(source, columns, folder, manifest.lines(), written) if measure else None
    finally:
        writer.close()
        manifest.close()
    return tally.report(folder, resumed=resumed, seconds=seconds, train=rate)


def _run(plan: Plan, manifest: Manifest, workers: int, progress: bool | Progress) -> tuple[Tally, int]:
    """Write all results that do not exist yet; return the counts, and the number of samples resumed."""
    tally, writer, samples = Tally(), plan.writer, plan.samples
    if not plan.options.tar_size:
        make_class_folders(plan.source, os.path.dirname(manifest.path))

    def is_valid(number: int, line: Line) -> bool:
        if number >= len(samples):
            return False
        number = samples[number]
        source, key = plan.naming.source(number), plan.keys[number]
        return is_written_for(line, number, source, key, plan.options.tar_size > 0) and writer.holds(line)

    for line in manifest.resume(is_valid):
        tally.add(line)
    resumed = tally.samples

    def add(results: Iterable[Result]) -> None:
        lines = [writer.add(result) for result in results]
        manifest.add(lines)
        for line in lines:
            tally.add(line)

    with shown(progress, len(samples)) as seen:
        process_in_order(
            samples[resumed:], workers, lambda stopped: ResultMaker(plan, stopped), add,
            lambda done: seen(done - samples.start),
        )  # fmt: skip
    writer.finish()
    manifest.sync()
    return tally, resumed


def _part_of(source: Any, part: Any, options: Options) -> range:
    """Return the samples of a part of a source."""
    samples = len(source)
    if part is None:
        return range(samples)
    if not isinstance(part, (tuple, list)) or len(part) != 2:
        raise ValueError(f"part must be (k, n), the number of the part and how many there are, not {part!r}")
    if not options.tar_size:
        raise ValueError("part is for tar files, whose folders can be read together: pass tar_size=1_000_000_000")
    count = whole_number(part[1], "the number of parts", 1, samples)
    k = whole_number(part[0], "the number of the part", 0, count - 1)
    files = len(source._files.paths) if isinstance(source, Parts) and source._shard is not None else 0
    if files < count:
        return range(k * samples // count, (k + 1) * samples // count)
    return range(*(bisect_left(source._shard, number * files // count) for number in (k, k + 1)))


def _create_folder(source: Any, destination: str | os.PathLike[str]) -> str:
    """Create the folder of the results, which must not be inside the source: later calls would find it there."""
    folder = local(destination, "destination", "folder, to be uploaded afterwards")
    origin = origin_of(source)
    if origin is not None and os.path.isdir(origin):
        inside = os.path.realpath(os.fsdecode(origin))
        if os.path.commonpath([inside, os.path.realpath(folder)]) == inside:
            raise ValueError(f"{printable(folder)} is inside the source, {printable(inside)}; choose a folder outside")
    os.makedirs(folder, exist_ok=True)
    return folder


def _settings(source: Any, options: Options) -> dict[str, Any]:
    """Return the settings of a call, the first line of the manifest."""
    versions = {"gpuimg": __version__} | ({"encoder": encoder_version()} if options.to == "same" else {})
    return {**versions, "samples": len(source), "names": checksum_of_names(source), **asdict(options)}


def _results(source: Any, folder: str, shards: int) -> Any:
    """Return the results as a source."""
    if shards:
        return sources.tar([os.path.join(folder, shard_name(k)) for k in range(shards)], label=None)
    if isinstance(source, Folder):
        return sources.folder(folder)
    if isinstance(source, Coco):
        return sources.coco(folder, os.path.join(folder, ANNOTATIONS))
    return sources.file_list(os.path.join(folder, LIST), columns=("path",))


# -- measuring ---------------------------------------------------------------------------------------------------------


def _train_rate(source: Any, columns: Columns, folder: str, lines: Iterable[Line], written: int) -> TrainRate | None:
    """Measure images/s before and after; None if there is no image, or one cannot be read any more."""
    some = list(
        islice(islice((line for line in lines if "output" in line), 0, None, max(written // _MEASURED, 1)), _MEASURED)
    )
    numbers = [line["sample"] for line in some]
    samples = read_samples(source, numbers, [True] * len(numbers), columns, native_read.ChunkReader())
    if not some or any(sample.error is not None for sample in samples):
        return None
    before = [bytes(sample.data) for sample in samples]
    after = [_content(folder, line) for line in some]
    seconds = np.array([[_seconds(before, k), _seconds(after, k)] for k in range(_ROUNDS + 1)][1:])
    rates = np.rint(len(some) / np.median(seconds, 0)).astype(int).tolist()
    return TrainRate(len(some), *rates)


def _content(folder: str, line: Line) -> bytes:
    """Read the file bytes of a result."""
    in_shard = "shard" in line
    with open(os.path.join(folder, shard_name(line["shard"]) if in_shard else line["output"]), "rb") as file:
        file.seek(line["offset"] if in_shard else 0)
        return file.read(line["bytes"])


def _seconds(files: list[bytes], epoch: int) -> float:
    """Measure one pass of ``presets.imagenet_train`` over the files."""
    train = presets.imagenet_train()
    start = time.perf_counter()
    for at in range(0, len(files), _BATCH):
        batch = open_batch(files[at : at + _BATCH], device="cpu", on_error="fill")
        train(batch, Rng(0, epoch=epoch, indices=range(at, at + len(batch)))).array("float16", "NCHW")
    return time.perf_counter() - start
