"""``gpuimg prepare``: a copy of a data set with smaller images."""

import json
import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import asdict

from .._checks.text import counted
from .._prepare.prepare import prepare
from .._prepare.report import PrepareReport
from .options import UserError, add_json
from .source import add_source, amount, open_source, progress_of, refusals

EXAMPLE = "gpuimg prepare train train-256 --short-side 256"

_PASSED = (
    "short_side", "max_pixels", "quality", "subsampling", "restart", "to", "recode", "progressive", "alpha", "threads",
)  # fmt: skip
_UNITS = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}


def add_options(command: ArgumentParser) -> None:
    """Add the options."""
    command.description = (
        "Write a copy of a data set with smaller images, or resume an interrupted call. The exit status "
        "is 1 if files cannot be read or decoded; these are listed and left out."
    )
    add_source(command)
    command.add_argument("destination", metavar="DST", help="folder that is empty or does not exist")
    command.add_argument("--short-side", type=int, metavar="N", help="shrink larger images to this shorter side")
    command.add_argument("--max-pixels", type=int, metavar="N", help="shrink images with more pixels")
    command.add_argument("--quality", type=int, metavar="Q", help="quality of JPEG and WebP (default: 90)")
    command.add_argument("--subsampling", choices=("420", "444", "keep"), help="chroma subsampling (default: 420)")
    command.add_argument("--restart", choices=("rows", "none"), default="none", help="restart markers (default: none)")
    command.add_argument("--to", choices=("jpeg", "same"), default="jpeg", help="same: keep PNG and WebP")
    command.add_argument("--recode", action="store_true", help="leave the pixels unchanged; recode JPEG files")
    command.add_argument("--progressive", action="store_true", help="recode progressive files, too; not restorable")
    command.add_argument(
        "--alpha",
        choices=("drop", "black", "white"),
        default="drop",
        help="transparency: drop alpha, or blend with a color",
    )
    command.add_argument("--tar", metavar="SIZE", help="write tar files of at most SIZE, such as 500M or 1G")
    command.add_argument("--part", metavar="K/N", help="write part K of N, 0 to N - 1; with --tar")
    command.add_argument("--label", metavar="NAME", help='feature or column with the label; "none" for no labels')
    command.add_argument("--no-measure", action="store_true", help="do not measure images/s before and after")
    command.add_argument("--threads", type=int, metavar="N", help="number of threads (default: all cores)")
    add_json(command)


def run(options: Namespace) -> int:
    """Prepare, print the report, and return the exit status."""
    try:
        chosen = {} if options.label is None else {"label": None if options.label == "none" else options.label}
        size = None if options.tar is None else _bytes(options.tar)
        source = open_source(options, **chosen)
        if not (options.short_side or options.max_pixels or options.recode):
            sizes = "without --short-side or --max-pixels, images keep their sizes"
            print(f"gpuimg: {sizes} and most are encoded again", file=sys.stderr)
        with progress_of(quiet=options.json) as progress:
            report = prepare(
                source, options.destination, **{name: getattr(options, name) for name in _PASSED}, tar_size=size,
                part=None if options.part is None else _part(options.part), measure=not options.no_measure,
                progress=progress,
            )  # fmt: skip
    except (ValueError, TypeError) as error:
        raise UserError(str(error)) from error
    except KeyboardInterrupt:
        print("gpuimg: interrupted; the same command resumes", file=sys.stderr)
        return 130
    print(_as_json(report) if options.json else "\n".join(_lines(report)))
    return 1 if report.failed else 0


def _part(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if match is None:
        raise ValueError(f"--part must be K/N such as 0/16, not {text!r}")
    return int(match[1]), int(match[2])


def _bytes(text: str) -> int:
    found = re.fullmatch(r"([0-9]{1,12})([kmg]?)b?", text.lower())
    if found is None:
        raise ValueError(f"--tar must be a size such as 500M or 1G, not {text!r}")
    return int(found[1]) * _UNITS[found[2]]


def _as_json(report: PrepareReport) -> str:
    content = asdict(report)
    for name in ("failed", "kept"):
        content[name] = [one._asdict() for one in getattr(report, name)]
    return json.dumps(content, indent=1)


def _lines(report: PrepareReport) -> Iterator[str]:
    yield f"samples    {counted(report.samples, 'image')}"
    kinds = {
        "encoded": report.encoded, "copied": report.copied,
        "recoded": report.recoded, "recoded from progressive files, and not restorable": report.converted,
        "failed": len(report.failed),
    }  # fmt: skip
    for name, count in kinds.items():
        if count:
            yield f"           {count:>11,}  {name}"
    share = f" ({report.bytes / report.source_bytes:.1%})" if report.source_bytes else ""
    yield f"bytes      {amount(report.source_bytes)} before, {amount(report.bytes)} after{share}"
    where = f" ({counted(report.shards, 'tar file')})" if report.shards else ""
    yield f"written    {report.path}{where}"
    resumed = f"; {report.resumed:,} samples resumed" if report.resumed else ""
    yield f"seconds    {report.seconds:.1f}{resumed}"
    if report.train is not None:
        gain = report.train.after / max(report.train.before, 1)
        yield f"training   {report.train.before:,} images/s before, {report.train.after:,} after ({gain:.2f}x)"
    yield from refusals("kept", report.kept)
    yield from refusals("failed", report.failed)
