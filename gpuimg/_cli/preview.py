"""``gpuimg preview``: a sheet of images and their randomly preprocessed versions, with the parameters."""

import importlib
import inspect
import sys
import textwrap
import traceback
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import presets
from .._batch.batch import Batch, as_batch
from .._batch.contact_sheet import Picture, displayed, short_lines
from .._batch.opening import decode_batch
from .._random.mixing import Mix
from .._random.rng import Rng
from ..errors import DecodeError
from .options import UserError, add_device, working

if TYPE_CHECKING:
    from PIL import Image

EXAMPLE = "gpuimg preview photos/cat.jpg --preset deit3_train -n 5"

Preprocess = Callable[[Batch, Rng], Any]
#: A column of the sheet: title, pictures and captions.
Column = tuple[str, list[Picture], list[list[str]]]

PRESETS: dict[str, Callable[..., Preprocess]] = {
    name: function
    for name, function in vars(presets).items()
    if inspect.isfunction(function) and function.__module__ == presets.__name__ and not name.startswith("_")
}
PRESET = "imagenet_train"  # the default

_CELL = 168  # pixels; longer side of a picture
_GAP = 8
_MARGIN = 16
_FONT, _LINE, _LETTER = 11, 13, 6  # pixels; size of the font, height of a line, width of most letters
_BLACK, _GRAY = (40,) * 3, (120,) * 3  # colors of the text


def add_options(command: ArgumentParser) -> None:
    """Add the options."""
    command.add_argument("images", nargs="+", type=Path, metavar="IMAGE", help="images, one in each row of the sheet")
    add_sheet_options(command, "preview.png")


def add_sheet_options(command: ArgumentParser, name: str) -> None:
    """Add the options of a sheet, which is written to the file ``name`` by default."""
    add_preprocessing(command)
    command.add_argument(
        "-n", type=int, default=8, metavar="N", help="random results of each image (default: %(default)s)"
    )
    command.add_argument(
        "--seed", type=int, default=0, help="random seed; the results are those of epochs 0 to N - 1 (default: 0)"
    )
    command.add_argument("--size", type=int, help="size of a preset's results (default: that of the preset)")
    command.add_argument(
        "--out", type=Path, default=Path(name), metavar="PNG", help="file to write (default: %(default)s)"
    )
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
    drawn.save(options.out, "PNG", optimize=True)
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


def sheet(paths: list[Path], preprocess: Preprocess, count: int, seed: int, device: str) -> "Image.Image":
    """Draw one row per image: the original, then its versions in each of the first ``count`` epochs.

    Operations that all results share, with the same parameters, are printed once at the top.
    """
    images = decode_batch(paths, device=device)
    captions = [[path.name, f"{height} x {width}"] for path, (height, width) in zip(paths, images.sizes, strict=True)]
    columns: list[Column] = [("original", displayed(images, _CELL), captions)]
    for epoch in range(count):
        result = _called(preprocess, images, Rng(seed, epoch=epoch, indices=np.arange(len(paths))))
        batch = result.images if isinstance(result, Mix) else result
        pictures, captions = displayed(batch, _CELL), [_caption(result, i) for i in range(len(batch))]
        for at in range(0, len(batch), len(paths)):
            title = f"epoch {epoch}" if len(batch) == len(paths) else f"epoch {epoch}, view {at // len(paths)}"
            here = slice(at, at + len(paths))
            columns.append((title, pictures[here], captions[here]))
    drawn = [lines for _, _, captions in columns[1:] for lines in captions]
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


def _laid_out(heading: str, columns: list[Column]) -> "Image.Image":
    """Lay out columns next to each other under a heading; a row is as high as its highest picture with caption."""
    from PIL import Image, ImageDraw, ImageFont

    pitch = _CELL + _GAP
    lefts = [_MARGIN + k * pitch for k in range(len(columns))]
    width = lefts[-1] + _CELL + _MARGIN
    headings = _wrapped([heading], width - 2 * _MARGIN)
    count = len(columns[0][1])
    rows = [[(pictures[i], _wrapped(lines[i], _CELL)) for _, pictures, lines in columns] for i in range(count)]
    heights = [max(len(picture) + len(lines) * _LINE for picture, lines in row) + _GAP // 2 + _MARGIN for row in rows]
    titles = _MARGIN + len(headings) * _LINE + _GAP
    top = titles + _LINE + _GAP // 2
    sheet = Image.new("RGB", (width, top + sum(heights)), "white")
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(_FONT)

    def write(lines: list[str], left: int, top: int, color: tuple[int, ...]) -> None:
        for k, line in enumerate(lines):  # spaces, which nearly vanish in this font, are doubled
            draw.text((left, top + k * _LINE), line.replace(" ", "  "), color, font)

    write(headings, _MARGIN, _MARGIN, _BLACK)
    for left, (title, _, _) in zip(lefts, columns, strict=True):
        write([title], left, titles, _GRAY)
    for row, height in zip(rows, heights, strict=True):
        for left, (picture, lines) in zip(lefts, row, strict=True):
            sheet.paste(Image.fromarray(picture), (left, top))
            write(lines, left, top + len(picture) + _GAP // 2, _BLACK)
        top += height
    return sheet


def _wrapped(lines: list[str], width: int) -> list[str]:
    return [part for line in lines for part in textwrap.wrap(line, width // _LETTER, subsequent_indent="  ")]
