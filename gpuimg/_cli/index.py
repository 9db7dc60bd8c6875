"""``gpuimg index``: build the seek index of a data set, or count its files by kind."""

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import asdict

from .._checks.text import counted
from .._index.report import IndexReport
from .._loading.build_index import build_index
from ..sources._table import origin_of
from .options import UserError, add_json
from .source import LISTED, add_source, amount, opened, progress_of

EXAMPLE = "gpuimg index train"


def add_options(command: ArgumentParser) -> None:
    """Add the options."""
    command.description = (
        "Build the seek index of a data set, or resume an interrupted build. The exit status is 1 if files "
        "cannot be read or decoded; these are listed and left out."
    )
    add_source(command)
    command.add_argument("--out", metavar="PATH", help="path of the index (default: next to the source)")
    command.add_argument("--threads", type=int, metavar="N", help="number of threads (default: all cores)")
    command.add_argument("--dry-run", action="store_true", help="only read headers and count; write nothing")
    add_json(command)


def run(options: Namespace) -> int:
    """Build, print the report, and return the exit status."""
    try:
        source = opened(options, label=None)
        if options.out is None and not options.dry_run and origin_of(source) is None:
            raise ValueError("--out is needed: the source consists of several files")
        with progress_of(quiet=options.json) as progress:
            report = build_index(
                source, options.out, threads=options.threads, progress=progress, dry_run=options.dry_run
            )
    except (ValueError, TypeError) as error:
        raise UserError(str(error)) from error
    except KeyboardInterrupt:
        print(f"gpuimg: interrupted{'' if options.dry_run else '; the same command resumes'}", file=sys.stderr)
        return 130
    shown = {**asdict(report), "refused": [one._asdict() for one in report.refused]}
    print(json.dumps(shown, indent=1) if options.json else "\n".join(_lines(report)))
    return 1 if report.refused else 0


def _lines(report: IndexReport) -> Iterator[str]:
    baseline = report.indexed + report.restart + report.too_large
    kinds = {
        "baseline JPEG": baseline,
        "with restart markers": report.restart,
        "too large for an entry": report.too_large,
        **report.subsampling,
        "progressive JPEG": report.progressive,
        "other JPEG": report.other_jpeg,
        "other formats": report.other_formats,
        "refused": len(report.refused),
    }
    parts = {"with restart markers", "too large for an entry", *report.subsampling}
    yield f"samples    {counted(report.samples, 'image')}"
    for name, count in kinds.items():
        if count or name == "baseline JPEG":
            yield f"{'             ' if name in parts else '           '}{count:>11,}  {name}"
    share = f", {report.bytes / report.indexed_bytes:.2%} of the files" if report.indexed_bytes else ""
    if report.path is None:
        yield f"index      would take up to {amount(report.bytes)}{share}"
    else:
        yield f"index      {report.path}"
        yield f"           {amount(report.bytes)}{share}"
    resumed = f"; {report.resumed:,} samples resumed" if report.resumed else ""
    yield f"seconds    {report.seconds:.1f}{resumed}"
    for one in report.refused[:LISTED]:
        yield f"refused    sample {one.index} ({one.source}): {one.reason}"
    if len(report.refused) > LISTED:
        yield f"           and {len(report.refused) - LISTED:,} more; --json lists all"
