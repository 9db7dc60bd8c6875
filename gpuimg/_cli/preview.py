"""``gpuimg preview``: a sheet of images and their randomly preprocessed versions, with the parameters."""

from __future__ import annotations

import importlib
import inspect
import sys
import traceback
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import presets
from .._batch.batch import Batch, as_batch
from .._batch.contact_sheet import Picture, displayed, png, short_lines
from .._batch.opening import decode_batch
from .._random.mixing import Mix
from .._random.rng import Rng
from ..errors import DecodeError
from . import lettering
from .options import UserError, add_device, add_sheet, working

EXAMPLE = "gpuimg preview photos/cat.jpg --preset deit3_train -n 5"

Preprocess = Callable[[Batch, Rng], Any]


class Column(NamedTuple):
    """A column of pictures with captions."""

    title: str
    pictures: list[Picture]
    captions: list[list[str]]


PRESETS: dict[str, Callable[..., Preprocess]] = {
    name: function
    for name, function in vars(presets).items()
    if inspect.isfunction(function) and function.__module__ == presets.__name__ and not name.startswith("_")
}
PRESET = "imagenet_train"  # the default

_CELL = 168  # pixels; longer side of a picture, about 30 characters of text
_GAP = 8
_MARGIN = 16
_BLACK, _GRAY = 40, 120  # gray levels of the text


def add_options(command: ArgumentParser) -> None:
    """Add the options."""
    command.add_argument("images", nargs="+", type=Path, metavar="IMAGE", help="images, one in each row of the sheet")
    add_preprocessing(command)
    command.add_argument(
        "-n", type=int, default=8, metavar="N", help="random results of each image (default: %(default)s)"
    )
    command.add_argument(
        "--seed", type=int, default=0, help="random seed; the results are those of epochs 0 to N - 1 (default: 0)"
    )
    command.add_argument("--size", type=int, help="size of a preset's results (default: that of the preset)")
    add_sheet(command, "preview.png")
    add_device(command)


def add_preprocessing(command: ArgumentParser) -> None:
    """Add ``--preset`` and ``--function``."""
    what = command.add_mutually_exclusive_group()
    what.add_argument("--preset", metavar="NAME", help=f"{', '.join(sorted(PRESETS))} (default: {PRESET})")
    what.add_argument("--function", metavar="MODULE:FUNCTION", help="your function (batch, rng) -> Batch")


def run(options: Namespace) -> int:
    """Write the sheet."""
    for name, least in (("n", 1), ("seed", 0), ("size", 1)):
        value = getattr(options, name)
        if value is not None and value < least:
            raise UserError(f"{'-' if name == 'n' else '--'}{name} must be at least {least}, not {value}")
    if options.function and options.size:
        raise UserError("--size is for presets; your function determines its size itself")
    missing = [str(path) for path in options.images if not path.is_file()]
    if missing:
        raise UserError(f"no such image: {', '.join(missing)}")
    preprocess = imported(options.function) if options.function else preset(options.preset or PRESET, options.size)
    drawn = sheet(options.images, preprocess, options.n, options.seed, working(options.device))
    options.out.write_bytes(png(drawn))
    print(f"sheet      {options.out.resolve()} ({len(options.images)} x {options.n} results, seed {options.seed})")
    return 0


def preset(name: str, size: int | None) -> Preprocess:
    """Return a preset by name, for results of this size; raise UserError for an unknown name."""
    if name not in PRESETS:
        raise UserError(f"no preset {name!r}; the presets are {', '.join(sorted(PRESETS))}")
    return PRESETS[name]() if size is None else PRESETS[name](size)


def imported(name: str) -> Preprocess:
    """Import the function named ``module:function``; the working directory is searched, too."""
    module_name, colon, function_name = name.partition(":")
    if not (module_name and colon and function_name):
        raise UserError(f"--function must be module:function, not {name!r}")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise UserError(f"module {module_name!r} cannot be imported: {_described(error)}") from error
    function: Any = module
    for part in function_name.split("."):
        function = getattr(function, part, None)
    if not callable(function):
        raise UserError(f"module {module_name!r} has no function {function_name!r}")
    checked: Preprocess = function
    return checked


def sheet(paths: list[Path], preprocess: Preprocess, count: int, seed: int, device: str) -> Picture:
    """Draw one row per image: the original, then its versions in each of the first ``count`` epochs.

    Operations that all results share, with the same parameters, are printed once at the top.
    """
    images = decode_batch(paths, device=device)
    captions = [[path.name, f"{height} x {width}"] for path, (height, width) in zip(paths, images.sizes, strict=True)]
    columns = [Column("original", displayed(images, _CELL), captions)]
    for epoch in range(count):
        result = _called(preprocess, images, Rng(seed, epoch=epoch, indices=np.arange(len(paths))))
        batch = result.images if isinstance(result, Mix) else result
        pictures, captions = displayed(batch, _CELL), [_caption(result, i) for i in range(len(batch))]
        for at in range(0, len(batch), len(paths)):
            title = f"epoch {epoch}" if len(batch) == len(paths) else f"epoch {epoch}, view {at // len(paths)}"
            here = slice(at, at + len(paths))
            columns.append(Column(title, pictures[here], captions[here]))
    drawn = [lines for column in columns[1:] for lines in column.captions]
    same = [line for line in drawn[0] if all(line in lines for lines in drawn)]
    if all(lines == same for lines in drawn):
        return _laid_out(f"seed {seed}", columns)  # nothing is random
    for lines in drawn:
        lines[:] = [line for line in lines if line not in same] or ["nothing more"]
    return _laid_out("; ".join([f"seed {seed}", *same]), columns)


def _called(preprocess: Preprocess, images: Batch, rng: Rng) -> Batch | Mix:
    """Call the preprocessing and compute its result once, so that its failures are raised here."""
    try:
        result = preprocess(images, rng)
        batch = as_batch(result.images if isinstance(result, Mix) else result)
        batch.compute()
    except DecodeError:
        raise
    except Exception as error:
        raise UserError(f"the preprocessing failed: {_described(error)}") from error
    if not len(batch) or len(batch) % len(images):
        raise UserError(f"the preprocessing returned a batch of {len(batch)} for {len(images)} images")
    return result if isinstance(result, Mix) else batch


def _described(error: Exception) -> str:
    """Describe an error of the user's code, with its file and line."""
    ours = str(Path(__file__).parents[1])
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith((ours, "<frozen "))]
    places = [f" ({frame.filename}, line {frame.lineno})" for frame in frames if "importlib" not in frame.filename]
    return f"{type(error).__name__}: {error}{places[-1] if places else ''}"


def _caption(batch: Batch | Mix, i: int) -> list[str]:
    """Return the operations on image ``i`` as short lines."""
    if isinstance(batch, Mix):
        return [f"mixed with image {batch.partner[i]}", f"own weight {batch.weight[i]:.3g}"]
    return short_lines(batch, i) or ["unchanged"]


def _laid_out(heading: str, columns: list[Column]) -> Picture:
    """Lay out columns next to each other under a heading; a row is as high as its highest picture with caption."""
    pitch = _CELL + _GAP
    width = 2 * _MARGIN + len(columns) * pitch - _GAP
    headings = lettering.wrap([heading], width - 2 * _MARGIN)
    prints = [[lettering.wrap(lines, _CELL) for lines in column.captions] for column in columns]
    heights = [
        [picture.shape[0] + _GAP // 2 + len(lines) * lettering.LINE for picture, lines in zip(*pair, strict=True)]
        for pair in zip((column.pictures for column in columns), prints, strict=True)
    ]
    title = _MARGIN + len(headings) * lettering.LINE + _GAP
    tops = title + lettering.LINE + _GAP // 2 + np.cumsum([0, *(np.max(heights, 0) + _MARGIN)])
    sheet = np.full((int(tops[-1]), width, 3), 255, np.uint8)
    for k, line in enumerate(headings):
        lettering.draw(sheet, line, _MARGIN, _MARGIN + k * lettering.LINE, _BLACK)
    for left, column, printed in zip(range(_MARGIN, width, pitch), columns, prints, strict=False):
        lettering.draw(sheet, column.title, left, title, _GRAY)
        for top, picture, lines in zip(tops.tolist(), column.pictures, printed, strict=False):
            bottom = top + picture.shape[0]
            sheet[top:bottom, left : left + picture.shape[1]] = picture
            for k, line in enumerate(lines):
                lettering.draw(sheet, line, left, bottom + _GAP // 2 + k * lettering.LINE, _BLACK)
    return sheet
