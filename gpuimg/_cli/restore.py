"""``gpuimg restore``: the JPEG files that recoded files were made of."""

import os
from argparse import ArgumentParser, Namespace
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .._checks.text import counted
from .._decoding.recoded import ENDING, restore_jpeg
from .._prepare.writing import replace_by
from .._threads.threads import threads
from .options import UserError

EXAMPLE = "gpuimg restore train-recoded train-restored"


def add_options(command: ArgumentParser) -> None:
    """Add the options."""
    command.description = (
        f"Write the JPEG files, byte for byte, that the .{ENDING} files of a folder were made of, under the same names "
        "with the ending .jpg. The exit status is 1 if files are damaged, or were made of progressive files; these are "
        "listed and left out."
    )
    command.add_argument("source", type=Path, metavar="SRC", help=f"folder, or .{ENDING} file")
    command.add_argument("destination", type=Path, metavar="DST", help="folder; existing files are replaced")


def run(options: Namespace) -> int:
    """Restore, print how many files there are, and return the exit status."""
    source: Path = options.source
    root = source if source.is_dir() else source.parent
    paths = sorted(filter(Path.is_file, source.rglob(f"*.{ENDING}") if source.is_dir() else [source]))
    if not paths:
        raise UserError(f"{source} is not a .{ENDING} file, nor a folder with such files")

    def restored(path: Path) -> str:
        out = options.destination / path.relative_to(root).with_suffix(".jpg")
        try:
            data = restore_jpeg(path.read_bytes())
            out.parent.mkdir(parents=True, exist_ok=True)
            replace_by(os.fspath(out), data)
        except (ValueError, OSError, MemoryError) as error:
            return f"failed     {path}: {str(error) or type(error).__name__}"
        return ""

    with ThreadPoolExecutor(threads()) as pool:
        failed = list(filter(None, pool.map(restored, paths)))
    print("\n".join([f"restored   {counted(len(paths) - len(failed), 'file')}", *failed]))
    return 1 if failed else 0
