"""The ``gpuimg`` command.

``demo`` augments photos, ``preview`` shows the results of a preprocessing function on your images, ``info`` describes
the installation, and ``warm`` compiles the kernels in advance. ``index`` builds the seek index of a data set,
``prepare`` writes a copy of it with smaller images, and ``bench`` measures how fast it is loaded.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._batch.batch import Batch
from .._batch.opening import decode_batch, open_batch
from .._batch.pictures import png
from .._ops.color import (
    adjust_brightness,
    adjust_contrast,
    adjust_hue,
    adjust_saturation,
    posterize,
    rgb_to_grayscale,
    solarize,
)
from .._ops.pixels import erase
from .._ops.resize_crop import horizontal_flip, resize, resized_crop
from .._ops.warp import rotate
from .._runtimes import probe
from .._runtimes.devices import on_cpu, runtime_for, to_host
from .._threads.threads import threads
from .._version import __version__
from ..errors import DecodeError
from . import bench, index, info, prepare, preview
from .source import SourceError
from .warm import capability_of, warm, warm_gpu

_SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".jp2"}
_SIZE = 224  # pixels; side of the results, the usual input of a network
_CELL = 120  # pixels; longer side of pictures on the sheet
_COLUMNS = 6
_GAP = 6
_MARGIN = 18
_MOST = 24  # photos shown at most
_ROUNDS = 7
_RULE = 215  # gray level of the line between originals and results


class _UserError(Exception):
    """An error that the user can correct; printed without a traceback."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        Without the program's name; those of the process by default.

    Returns
    -------
    int
        The exit status: 0; 1 if ``index`` or ``prepare`` found files that cannot be decoded; 2 for errors that the user
        can correct.
    """
    options = _parser().parse_args(arguments)
    try:
        _check_threads()
        if options.command == "demo":
            _demo(options.photos, options.out, options.device, options.seed)
        elif options.command == "preview":
            _preview(options)
        elif options.command == "warm":
            _warm(options)
        elif options.command == "index":
            return index.run(options)
        elif options.command == "prepare":
            return prepare.run(options)
        elif options.command == "bench":
            return bench.run(options)
        else:
            print(json.dumps(info.facts(), indent=1) if options.json else info.report(), flush=True)
    except BrokenPipeError:  # the reader, such as head, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes the rest at its exit
        return 1
    except (_UserError, SourceError, preview.PreviewError, DecodeError, ImportError, OSError) as error:
        print(f"gpuimg: {error}", file=sys.stderr)
        return 2
    return 0


def _check_threads() -> None:
    try:
        threads()
    except ValueError as error:
        raise _UserError(str(error)) from error


# The commands by purpose.
_GROUPS = {
    "demonstration": ("demo", "preview"),
    "data sets": ("bench", "index", "prepare"),
    "installation": ("info", "warm"),
}


class _Commands:
    """Adds commands, and lists them in groups, which argparse cannot."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._parsers = parser.add_subparsers(
            prog=parser.prog, dest="command", required=True, metavar="COMMAND", help=argparse.SUPPRESS
        )
        self._help: dict[str, str] = {}

    def add_parser(self, name: str, help: str, description: str | None = None) -> argparse.ArgumentParser:
        self._help[name] = help
        text = description or f"{help[0].upper()}{help[1:]}."
        parser: argparse.ArgumentParser = self._parsers.add_parser(name, description=text)
        return parser

    def in_groups(self) -> str:
        groups = (
            "\n".join([title, *(f"  {name:9} {self._help[name]}" for name in names)])
            for title, names in _GROUPS.items()
        )
        return "\n\n".join([*groups, "gpuimg COMMAND --help has a command's options."])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpuimg",
        usage="%(prog)s [-h] [--version] COMMAND ...",
        description="Image preprocessing for training.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"gpuimg {__version__}")
    commands = _Commands(parser)
    demo = commands.add_parser("demo", help="decode and augment photos, write a contact sheet, measure images/s")
    demo.add_argument("--photos", type=Path, metavar="DIR", help="folder of photos (default: examples/photos)")
    demo.add_argument("--out", type=Path, default=Path("contact_sheet.png"), metavar="PNG", help="%(default)s")
    demo.add_argument("--device", help='"cpu", "cuda", "cuda:1" (default: a GPU if one works)')
    demo.add_argument("--seed", type=int, default=0, help="seed of the random parameters (default: %(default)s)")
    show = commands.add_parser("preview", help="write a sheet with the results of a preset or of your function")
    show.add_argument("images", nargs="+", type=Path, metavar="IMAGE", help="one row of the sheet each")
    what = show.add_mutually_exclusive_group()
    what.add_argument(
        "--preset", metavar="NAME", help=f"{', '.join(sorted(preview.PRESETS))} (default: imagenet_train)"
    )
    what.add_argument("--function", metavar="MODULE:FUNCTION", help="your function (batch, rng) -> Batch")
    show.add_argument("-n", type=int, default=8, metavar="N", help="draws of each image (default: %(default)s)")
    show.add_argument("--seed", type=int, default=0, help="seed of the draws, which are epochs 0 to N - 1 (default: 0)")
    show.add_argument("--size", type=int, help="size of a preset's results (default: that of the preset)")
    show.add_argument("--out", type=Path, default=Path("preview.png"), metavar="PNG", help="%(default)s")
    show.add_argument("--device", help='"cpu", "cuda", "cuda:1" (default: a GPU if one works)')
    facts = commands.add_parser("info", help="show versions, devices, decoders, and missing packages")
    facts.add_argument("--json", action="store_true", help="print the information as JSON")
    bench.add_parser(commands)
    index.add_parser(commands)
    prepare.add_parser(commands)
    heat = commands.add_parser("warm", help="compile kernels now, for instance into a container image")
    which = heat.add_mutually_exclusive_group()
    which.add_argument("--preset", metavar="NAME", help="the kernels of this preset (default: imagenet_train)")
    which.add_argument("--all", action="store_true", help="all kernels")
    heat.add_argument(
        "--capability",
        action="append",
        metavar="8.0,9.0",
        help="also for GPUs of these compute capabilities, present or not (default: those present); the files can be "
        "copied to a machine without a compiler",
    )
    heat.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.epilog = commands.in_groups()
    return parser


# -- demo --------------------------------------------------------------------------------------------------------------


def _demo(folder: Path | None, out: Path, device: str | None, seed: int) -> None:
    if seed < 0:
        raise _UserError(f"--seed must be at least 0, not {seed}")
    photos = _photos(folder)
    device = _working(device)
    print(f"device     {device} ({info.describe_device(device)})")
    for kind, decoder in info.decoders(gpu=not on_cpu(device)).items():
        print(f"decoder    {kind}: {decoder}")
    print(f"photos     {len(photos)} in {photos[0].parent}", flush=True)
    info.announce_warming()
    results = _augment(open_batch(photos, device=device), np.random.default_rng(seed)).compute()
    rate = _images_per_second(photos, device, seed)
    print(
        f"speed      {rate:.0f} images/s from files to augmented {_SIZE} x {_SIZE} pixels "
        f"(median of {_ROUNDS} rounds of {len(photos)})"
    )
    originals = _fitted(decode_batch(photos, device=device))
    sheet = _sheet([to_host(image) for image in originals], [to_host(image) for image in resize(results, _CELL)])
    out.write_bytes(png(sheet))
    print(f"sheet      {out.resolve()} (originals above, results below)")


def _photos(folder: Path | None) -> list[Path]:
    if folder is None:
        homes = (Path.cwd(), Path(__file__).parents[2])
        found = next((home / "examples" / "photos" for home in homes if (home / "examples" / "photos").is_dir()), None)
        if found is None:
            raise _UserError(
                "no photos: examples/photos is part of the source tree, not of the installed package; "
                "name a folder with photos: gpuimg demo --photos DIR"
            )
        folder = found
    if not folder.is_dir():
        raise _UserError(f"no such folder: {folder}; name one with photos: gpuimg demo --photos DIR")
    photos = sorted(path for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES)
    if not photos:
        raise _UserError(f"no photos in {folder} (looked for {', '.join(sorted(_SUFFIXES))})")
    if len(photos) > _MOST:
        print(f"{len(photos)} photos; the first {_MOST} are shown", file=sys.stderr)
    return photos[:_MOST]


def _working(device: str | None) -> str:
    """Return the full name of the requested or default device."""
    try:
        return runtime_for(device).name
    except (ValueError, RuntimeError) as error:
        raise _UserError(str(error)) from error


def _augment(x: Batch, rng: np.random.Generator) -> Batch:
    """Augment as for training: draw one number per image, then call."""
    n = len(x)
    height, width = (x.sizes.min(1) * rng.uniform(0.65, 1.0, n) * rng.uniform(0.8, 1.0, (2, n))).astype(int)
    height, width = np.maximum(height, 1), np.maximum(width, 1)
    top, left = (rng.random((2, n)) * (x.sizes.T - (height, width) + 1)).astype(int)
    x = resized_crop(x, top, left, height, width, (_SIZE, _SIZE))
    x = horizontal_flip(x, where=rng.random(n) < 0.5)
    x = rotate(x, rng.uniform(-25, 25, n), interpolation="bilinear", fill=128)
    x = adjust_brightness(x, rng.uniform(0.7, 1.3, n))
    x = adjust_contrast(x, rng.uniform(0.7, 1.3, n))
    x = adjust_saturation(x, rng.uniform(0.4, 1.6, n))
    x = adjust_hue(x, rng.uniform(-0.08, 0.08, n))
    # Strong operations, only on some of the images.
    choice = rng.random(n)
    x = rgb_to_grayscale(x, 3, where=choice < 0.1)
    x = solarize(x, 160, where=(choice >= 0.1) & (choice < 0.2))
    x = posterize(x, 3, where=(choice >= 0.2) & (choice < 0.3))
    row, column = rng.integers(0, _SIZE - _SIZE // 4, (2, n))
    return erase(x, row, column, _SIZE // 4, _SIZE // 4, 128, where=rng.random(n) < 0.25)


def _images_per_second(photos: list[Path], device: str, seed: int) -> float:
    """Measure from files to pixels on the host, so that a GPU has finished when the clock stops."""
    seconds = []
    for round_ in range(_ROUNDS):
        rng = np.random.default_rng([seed, round_])
        start = time.perf_counter()
        to_host(_augment(open_batch(photos, device=device), rng).array())
        seconds.append(time.perf_counter() - start)
    return len(photos) / statistics.median(seconds)


def _fitted(batch: Batch) -> Batch:
    """Resize images to fit into a cell, keeping their aspect ratio."""
    factor = _CELL / batch.sizes.max(1)
    height, width = np.maximum(np.rint(batch.sizes.T * factor), 1)
    return resize(batch, (height, width)).compute()


def _sheet(originals: list[Any], results: list[Any]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Lay out the originals in rows, a line below them, and the results in the same order below it."""
    columns = min(_COLUMNS, len(originals))
    rows = -(-len(originals) // columns)
    pitch = _CELL + _GAP
    middle = _MARGIN + rows * pitch - _GAP + _MARGIN  # row of the line
    sheet = np.full((2 * middle, 2 * _MARGIN + columns * pitch - _GAP, 3), 255, np.uint8)
    sheet[middle - 1 : middle + 1, _MARGIN:-_MARGIN] = _RULE
    for top, pictures in ((_MARGIN, originals), (middle + _MARGIN, results)):
        for k, picture in enumerate(pictures):
            y = top + k // columns * pitch + (_CELL - picture.shape[0]) // 2
            x = _MARGIN + k % columns * pitch + (_CELL - picture.shape[1]) // 2
            sheet[y : y + picture.shape[0], x : x + picture.shape[1]] = picture
    return sheet


# -- preview -----------------------------------------------------------------------------------------------------------


def _preview(options: argparse.Namespace) -> None:
    for name, least in (("n", 1), ("seed", 0), ("size", 1)):
        value = getattr(options, name)
        if value is not None and value < least:
            raise _UserError(f"{'-' if name == 'n' else '--'}{name} must be at least {least}, not {value}")
    if options.function and options.size:
        raise _UserError("--size is for presets; your function determines its size itself")
    missing = [str(path) for path in options.images if not path.is_file()]
    if missing:
        raise _UserError(f"no such image: {', '.join(missing)}")
    if options.function:
        preprocess = preview.imported(options.function)
    else:
        preprocess = preview.preset(options.preset or "imagenet_train", options.size)
    device = _working(options.device)
    sheet = preview.sheet(options.images, preprocess, options.n, options.seed, device)
    options.out.write_bytes(png(sheet))
    print(f"sheet      {options.out.resolve()} ({len(options.images)} x {options.n} draws, seed {options.seed})")


# -- warm --------------------------------------------------------------------------------------------------------------


def _warm(options: argparse.Namespace) -> None:
    name = None if options.all else options.preset or "imagenet_train"
    if name is not None and name not in preview.PRESETS:
        raise _UserError(f"no preset {name!r}; there are {', '.join(sorted(preview.PRESETS))}")
    try:
        given = ",".join(options.capability or ()).split(",")
        capabilities = [capability_of(one) for one in given if one]
    except ValueError as error:
        raise _UserError(str(error)) from error
    if not capabilities and probe.gpu_problem() is None:
        capabilities = probe.capabilities()
    shipped = info.loops()[0]
    compiled, seconds, folder = (0, 0.0, None) if shipped else warm(name)
    report: dict[str, Any] = {"for": name or "everything", "compiled": compiled, "seconds": seconds}
    report["folder"] = None if folder is None else str(folder)
    if shipped and not options.json:
        print(f"compiled   no loops: this installation has them for {shipped}", flush=True)
    elif not options.json:
        print(f"compiled   {compiled} loops for {report['for']} in {seconds:.1f} s; the others were in the cache")
        print(f"cached in  {folder or 'nowhere: no folder is writable, see the warning above'}", flush=True)
    report["gpus"] = []
    for major, minor in capabilities:
        compiled, seconds = warm_gpu(name, (major, minor))
        report["gpus"].append({"capability": f"{major}.{minor}", "compiled": compiled, "seconds": seconds})
        if not options.json:
            print(f"compiled   {compiled} kernels for GPUs of compute capability {major}.{minor} in {seconds:.1f} s")
    if options.json:
        print(json.dumps(report, indent=1))
