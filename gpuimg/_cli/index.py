"""``gpuimg index``: build the seek index of a data set, or count what it consists of."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .. import sources
from .._checks.words import counted
from .._index.report import IndexReport
from .._loading.build_index import Progress, build_index
from .._loading.stats import progress_bar

_LISTED = 20  # files that are refused, on a terminal
_EVERY_S = 5.0  # between lines of progress

# How a file begins: place and bytes.
_MAGIC = (
    (257, b"ustar", "tar"), (0, b"PAR1", "parquet"), (0, b"\x0a\x23\xd7\xce", "recordio"),
    (16, b"\xde\xc0\xef\xbe", "lmdb"),
)  # fmt: skip
# What names look like, for formats without such a mark.
_NAMES = (
    (r"\.tar$", "tar"), (r"\.rec$", "recordio"), (r"\.parquet$", "parquet"), (r"\.array_?record", "array_record"),
    (r"\.tfrecords?|-\d{5}-of-\d{5}$", "tfrecord"), (r"\.(txt|lst|list)$", "file_list"), (r"\.json$", "coco"),
)  # fmt: skip


class SourceError(Exception):
    """What the user can mend."""


def add_parser(commands: Any) -> None:
    """Add the command and its options."""
    command = commands.add_parser(
        "index",
        help="build the seek index of a data set, with which crops are decoded faster",
        description="Build the seek index of a data set; of an interrupted build go on where that was. The exit status "
        "is 1 where files cannot be read or decoded: these are listed and left out.",
    )  # fmt: skip
    command.add_argument(
        "source", nargs="+", metavar="SOURCE",
        help="folder of class folders, text file of paths, tar, TFRecord, .rec, LMDB, Parquet or ArrayRecord files, or "
        "COCO annotations",
    )  # fmt: skip
    command.add_argument("--kind", choices=sorted(_OPENERS), help="what the source is (default: by name and content)")
    command.add_argument(
        "--every", default="8", metavar="K", help='entries every so many MCUs, or "rows" (default: %(default)s)'
    )
    command.add_argument("--out", metavar="PATH", help="of the index (default: beside the source)")
    command.add_argument("--images", type=Path, metavar="DIR", help="folder of the images of COCO annotations")
    command.add_argument(
        "--image", metavar="NAME",
        help="feature or column with the image, or endings in tar files: jpg,png (default: as in Python)",
    )  # fmt: skip
    command.add_argument("--format", choices=("raw", "datum"), default="raw", help="of LMDB values (default: raw)")
    command.add_argument("--threads", type=int, metavar="N", help="that work (default: all cores)")
    command.add_argument("--dry-run", action="store_true", help="count only: read headers and write nothing")
    command.add_argument("--json", action="store_true", help="print the report as JSON")


def run(options: argparse.Namespace) -> int:
    """Build, print the report, and give the exit status.

    Raises
    ------
    SourceError
        For what the user can mend.
    """
    try:
        every = options.every if options.every == "rows" else _number(options.every)
        source = _opened(options)
        if options.out is None and not options.dry_run and source._origin() is None:
            raise ValueError("--out is needed: the source consists of several files")
        with _progress(quiet=options.json) as progress:
            report = build_index(
                source, options.out, every=every, threads=options.threads, progress=progress, dry_run=options.dry_run
            )
    except (ValueError, TypeError) as error:
        raise SourceError(str(error)) from error
    except KeyboardInterrupt:
        print(
            f"gpuimg: interrupted{'' if options.dry_run else '; the same command goes on from here'}", file=sys.stderr
        )
        return 130
    print(_as_json(report) if options.json else "\n".join(_lines(report)))
    return 1 if report.refused else 0


def _number(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise ValueError(f'--every must be "rows" or a whole number, not {text!r}')
    return int(text)


# -- what a source is --------------------------------------------------------------------------------------------------


def _given(**options: Any) -> dict[str, Any]:
    """Options that are not left to their defaults."""
    return {name: value for name, value in options.items() if value is not None}


def _one(options: argparse.Namespace) -> str:
    if len(options.source) != 1:
        raise ValueError(f"a {options.kind} is one file or folder, not {len(options.source)}")
    return str(options.source[0])


def _coco(options: argparse.Namespace) -> Any:
    if options.images is None:
        raise ValueError("COCO annotations need --images, the folder that their file names are in")
    return sources.coco(options.images, _one(options))


def _tar(options: argparse.Namespace) -> Any:
    endings = None if options.image is None else options.image.split(",")
    return sources.tar(options.source, label=None, **_given(image=endings))


_OPENERS: dict[str, Callable[[argparse.Namespace], Any]] = {
    "folder": lambda options: sources.folder(_one(options)),
    "file_list": lambda options: sources.file_list(_one(options)),
    "tar": _tar,
    "tfrecord": lambda options: sources.tfrecord(options.source, label=None, **_given(image=options.image)),
    "array_record": lambda options: sources.array_record(options.source, label=None, **_given(image=options.image)),
    "parquet": lambda options: sources.parquet(options.source, label=None, **_given(image=options.image)),
    "recordio": lambda options: sources.recordio(_one(options)),
    "lmdb": lambda options: sources.lmdb(_one(options), format=options.format),
    "coco": _coco,
}


def _opened(options: argparse.Namespace) -> Any:
    options.kind = options.kind or _kind_of(options.source[0])
    return _OPENERS[options.kind](options)


def _kind_of(path: str) -> str:
    """What a source is, by how it begins and by its name.

    Raises
    ------
    ValueError
        Where neither tells.
    """
    if os.path.isdir(path):
        return "lmdb" if os.path.exists(os.path.join(path, "data.mdb")) else "folder"
    if os.path.lexists(path):
        with open(path, "rb", 0) as file:
            start = file.read(512)
        for place, magic, kind in _MAGIC:
            if start[place : place + len(magic)] == magic:
                return kind
    for pattern, kind in _NAMES:
        if re.search(pattern, os.path.basename(path), re.IGNORECASE):
            return kind
    if not os.path.lexists(path):
        raise ValueError(f"there is no file or folder {path}")
    raise ValueError(f"cannot tell what {path} is; say so by --kind, one of {', '.join(sorted(_OPENERS))}")


# -- progress ----------------------------------------------------------------------------------------------------------


@contextmanager
def _progress(quiet: bool) -> Iterator[bool | Progress]:
    """A progress bar where tqdm is installed, else a line now and then; on a terminal alone."""
    if quiet or not sys.stderr.isatty():
        yield False
        return
    try:
        progress_bar()
    except ImportError:
        yield _lines_of_progress()
    else:
        yield True


def _lines_of_progress() -> Progress:
    last = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _EVERY_S:
            last = time.monotonic()
            print(f"{done:,} of {total:,} images ({done / total:.0%})", file=sys.stderr, flush=True)

    return tell


# -- the report --------------------------------------------------------------------------------------------------------


def _as_json(report: IndexReport) -> str:
    refused = [one._asdict() for one in report.refused]
    return json.dumps({**asdict(report), "refused": refused}, indent=1)


def _lines(report: IndexReport) -> Iterator[str]:
    """The report for people to read."""
    baseline = report.indexed + report.restart + report.too_large
    kinds = {
        "baseline JPEG": baseline,
        "with restart markers": report.restart,
        "too large for an entry": report.too_large,
        **report.subsampling,
        "optimized Huffman tables": report.optimized,
        "progressive JPEG": report.progressive,
        "other JPEG": report.other_jpeg,
        "other formats": report.other_formats,
        "refused": len(report.refused),
    }
    parts = {"with restart markers", "too large for an entry", *report.subsampling, "optimized Huffman tables"}
    yield f"samples    {counted(report.samples, 'image')}"
    for name, count in kinds.items():
        if count or name == "baseline JPEG":
            yield f"{'             ' if name in parts else '           '}{count:>11,}  {name}"
    share = f", {report.bytes / report.indexed_bytes:.2%} of the files" if report.indexed_bytes else ""
    every = "rows" if report.every == "rows" else f"every {counted(int(report.every), 'MCU')}"
    if report.path is None:
        yield f"index      would take up to {_amount(report.bytes)}{share} ({every})"
    else:
        yield f"index      {report.path}"
        yield f"           {_amount(report.bytes)}{share} ({every})"
    resumed = f"; {report.resumed:,} were there from before" if report.resumed else ""
    yield f"seconds    {report.seconds:.1f}{resumed}"
    for one in report.refused[:_LISTED]:
        yield f"refused    sample {one.index} ({one.source}): {one.reason}"
    if len(report.refused) > _LISTED:
        yield f"           and {len(report.refused) - _LISTED:,} more; --json lists all"


def _amount(size: int) -> str:
    """Bytes for people to read."""
    return f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"
