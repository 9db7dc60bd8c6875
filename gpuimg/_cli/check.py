"""``gpuimg check``: what is in a data set, which files are bad, and how long an epoch takes."""

import json
import math
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

from .._batch.encoded import open_images
from .._batch.opening import decode_image
from .._checks.arguments import whole_number
from .._checks.text import counted
from .._decoding import jpeg, pillow
from .._decoding.options import DecodeOptions
from .._io.native_read import ChunkReader
from .._loading.in_order import Chunk, Work, process_in_order, shown
from .._loading.samples import Columns, SampleNames, read_samples
from .._threads.threads import MOST_THREADS, threads
from ..errors import DecodeError, Failure
from ..kernels.jpeg import layout
from . import bench, preview
from .options import UserError, add_json
from .source import add_source, amount, open_source, progress_of, refusals

EXAMPLE = "gpuimg check train"

_SECONDS = 3.0  # of measuring the rate of an epoch
_SOF2 = 2  # process of a progressive JPEG, also of one that is too large for our decoder
_JPEGS = {layout.BASELINE: "baseline JPEG", layout.PROGRESSIVE: "progressive JPEG", layout.RECODED: "recoded JPEG"}

#: What a file is counted as, its height and width as displayed, and its bytes; or why it is refused.
_Found = tuple[list[str], tuple[int, int], int] | Failure


class _Contents:
    """What is in a data set; bytes, pixels and sizes are those of files that are not refused."""

    def __init__(self) -> None:
        self.samples = self.bytes = self.pixels = 0
        self.kinds, self.jpegs = Counter[str](), Counter[str]()  # JPEGs by subsampling, and those with restart markers
        self.smallest: tuple[int, int] | None = None
        self.largest: tuple[int, int] | None = None
        self.refused: list[Failure] = []
        self.seconds = self.images_per_second = self.epoch_seconds = 0.0

    def add(self, found: list[_Found]) -> None:
        """Count the next samples."""
        for k, one in enumerate(found, self.samples):
            if isinstance(one, Failure):
                self.refused.append(one._replace(index=k))
                continue
            (kind, *parts), size, count = one
            self.kinds[kind] += 1
            self.jpegs.update(parts)
            self.bytes, self.pixels = self.bytes + count, self.pixels + math.prod(size)
            self.smallest = min(self.smallest or size, size, key=math.prod)
            self.largest = max(self.largest or size, size, key=math.prod)
        self.samples += len(found)


def add_options(command: ArgumentParser) -> None:
    """Add the options."""
    command.description = (
        "Count the files of a data set by kind, list those that cannot be read or decoded, and measure how long an "
        "epoch takes on the CPU. Headers are read; only JPEG files of rare kinds or without an end are decoded. "
        "Nothing is written. The exit status is 1 if files are refused."
    )
    add_source(command)
    command.add_argument("--decode", action="store_true", help="decode every file, to find damage after the header")
    command.add_argument("--threads", type=int, metavar="N", help="number of threads (default: all cores)")
    add_json(command)


def run(options: Namespace) -> int:
    """Check, print the report, and return the exit status."""
    found, start = _Contents(), time.perf_counter()
    try:
        source = open_source(options, label=None)
        workers = threads() if options.threads is None else whole_number(options.threads, "--threads", 1, MOST_THREADS)

        def work(_: object) -> Work[list[_Found]]:
            return partial(_looked_at, source, options.decode, ChunkReader())

        with progress_of(quiet=options.json) as progress, shown(progress, len(source)) as seen:
            process_in_order(range(len(source)), workers, work, found.add, seen)
        found.seconds = time.perf_counter() - start
        if found.kinds:
            loader = bench.endless(source, preview.PRESETS[preview.PRESET](), min(64, len(source)), "cpu")
            found.images_per_second = bench.images_per_second(loader, _SECONDS)
            found.epoch_seconds = found.samples / found.images_per_second
    except (ValueError, TypeError, RuntimeError) as error:
        raise UserError(str(error)) from error
    report = vars(found) | {"refused": [one._asdict() for one in found.refused]}
    print(json.dumps(report, indent=1) if options.json else "\n".join(_lines(found)))
    return 1 if found.refused else 0


def _looked_at(source: Any, decodes: bool, reader: ChunkReader, chunk: range) -> Chunk[list[_Found]]:
    """Read samples and their headers; decode all of them, or only JPEGs that headers leave in doubt."""
    samples = read_samples(source, chunk, [True] * len(chunk), Columns(label=None), reader)
    names, data = SampleNames(samples), [b"" if one.error else one.data for one in samples]
    images = open_images(data, DecodeOptions(), "fill", names)
    found: list[_Found] = []
    for k, (sample, header) in enumerate(zip(samples, images.headers.records, strict=True)):
        reason = sample.reason if sample.error else images.failures[k].reason if k in images.failures else ""
        if not reason and (decodes or header["kind"] == layout.JPEG or header["strict"] > header["whole"]):
            try:
                decode_image(images.data[k], device="cpu")
            except DecodeError as error:
                reason = error.failures[0].reason
        if reason:
            found.append(Failure(k, names[k], reason))
        else:
            height, width = images.sizes[k].tolist()
            found.append((_kinds(header, images.others.get(k)), (height, width), len(images.data[k])))
    return Chunk(found, sum(map(len, images.data)))


def _kinds(header: Any, other: pillow.PillowHeader | None) -> list[str]:
    """Return what a file is counted as, by what opening read: its kind; of a JPEG also the subsampling, and so on."""
    if other is not None and other.codec != "jpeg":
        return [pillow.NAMES[other.codec]]
    kind = layout.PROGRESSIVE if header["process"] == _SOF2 else int(header["kind"])
    subsampling = jpeg.chroma_subsampling(header) if other is None else other.chroma_subsampling
    return [_JPEGS.get(kind, "other JPEG"), subsampling, *["with restart markers"] * bool(header["restart"])]


def _lines(found: _Contents) -> Iterator[str]:
    yield f"samples    {counted(found.samples, 'image')}"
    for name, count in {**found.kinds, "refused": len(found.refused), **found.jpegs}.items():
        if count:
            yield f"           {'  ' * (name in found.jpegs)}{count:>11,}  {name}"
    if found.smallest and found.largest:
        small, large = (f"{width:,} x {height:,}" for height, width in (found.smallest, found.largest))
        yield f"sizes      {small} to {large} pixels"
        mean = f"{amount(found.bytes // found.kinds.total())} on average"
        yield f"bytes      {amount(found.bytes)}, {mean}, {8 * found.bytes / found.pixels:.1f} bits a pixel"
    yield f"seconds    {found.seconds:.1f}"
    if epoch := found.epoch_seconds:
        unit, name = (3600, "h") if epoch >= 3600 else (60, "min") if epoch >= 60 else (1, "s")
        rate = f"{found.images_per_second:,.0f} images/s in {counted(threads(), 'thread')}"
        how = f"{rate}: reading, decoding, {preview.PRESET}(224)"
        took = f"about {epoch / unit:.1f} {name}" if epoch >= 0.1 else "less than 0.1 s"
        yield f"epoch      takes {took} ({how})"
    yield from refusals("refused", found.refused)
