"""Source arguments of the commands on data sets: detecting the kind, opening, and showing progress."""

import argparse
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .. import sources
from .._loading.in_order import Progress
from .._loading.stats import progress_bar
from ..errors import Failure
from ..sources._formats import SOURCES
from ..sources.folder import EXTENSIONS

_LISTED = 20  # bad files listed at most
_EVERY_S = 5.0  # seconds between lines of progress


def add_source(command: Any) -> None:
    """Add the source argument and the options that describe it."""
    command.add_argument(
        "source", nargs="+", metavar="SOURCE", help=f"one of: {', '.join(row.title for row in SOURCES.values())}"
    )
    command.add_argument("--kind", choices=sorted(SOURCES), help="kind of the source (default: by its name)")
    command.add_argument("--images", type=Path, metavar="DIR", help="folder with the images of COCO annotations")
    command.add_argument(
        "--image", metavar="NAME",
        help="feature or column with the image, or endings in tar files: jpg,png (default: as in Python)",
    )  # fmt: skip


def _one(options: argparse.Namespace) -> str:
    if len(options.source) != 1:
        raise ValueError(f"--kind {options.kind} takes one file or folder, not {len(options.source)}")
    return str(options.source[0])


def _coco(options: argparse.Namespace) -> Any:
    if options.images is None:
        raise ValueError("COCO annotations need --images, the folder with their files")
    return sources.coco(options.images, _one(options))


def _tar(options: argparse.Namespace) -> Any:
    endings = {} if options.image is None else {"image": options.image.split(",")}
    return sources.tar(options.source, label=None, **endings)


def _folder(options: argparse.Namespace) -> Any:
    """Open a folder of class folders, or of images."""
    root = _one(options)
    with os.scandir(root) as entries:
        found = list(entries)
    images = sorted(entry.path for entry in found if entry.name.lower().endswith(EXTENSIONS))
    if images and not any(entry.is_dir() for entry in found):
        return sources.file_list(images)
    return sources.folder(root)


_OPENERS: dict[str, Callable[[argparse.Namespace], Any]] = {"coco": _coco, "folder": _folder, "tar": _tar}


def open_source(options: argparse.Namespace, **labels: str | None) -> Any:
    """Open the source that a command line names; ``label=`` is for sources with a choice of labels."""
    options.kind = options.kind or _kind_of(options.source[0])
    if options.kind in _OPENERS:
        return _OPENERS[options.kind](options)
    function = getattr(sources, options.kind)
    if not SOURCES[options.kind].has_columns:
        return function(_one(options))
    return function(options.source, **labels, **({} if options.image is None else {"image": options.image}))


def _kind_of(path: str) -> str:
    """Detect the kind of a source by its name."""
    if os.path.isdir(path):
        return "lmdb" if os.path.exists(os.path.join(path, "data.mdb")) else "folder"
    for kind, row in SOURCES.items():
        if row.file_names and re.search(row.file_names, os.path.basename(path), re.IGNORECASE):
            return kind
    if not os.path.lexists(path):
        raise ValueError(f"no such file or folder: {path}")
    raise ValueError(f"unknown kind of source: {path}; pass --kind, one of {', '.join(sorted(SOURCES))}")


@contextmanager
def progress_of(quiet: bool) -> Iterator[bool | Progress]:
    """Show a progress bar if tqdm is installed, else a line every few seconds; only on a terminal."""
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

    def report(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _EVERY_S:
            last = time.monotonic()
            print(f"{done:,} of {total:,} images ({done / total:.0%})", file=sys.stderr, flush=True)

    return report


def refusals(name: str, failures: Sequence[Failure]) -> Iterator[str]:
    """Yield a line for each of the first failures, and the number of the others."""
    for one in failures[:_LISTED]:
        yield f"{name:10} sample {one.index} ({one.source}): {one.reason}"
    if len(failures) > _LISTED:
        yield f"           and {len(failures) - _LISTED:,} more; --json lists all"


def amount(size: int) -> str:
    """Return a number of bytes as text in kB or MB."""
    return f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"
