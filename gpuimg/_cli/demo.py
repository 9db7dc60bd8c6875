"""``gpuimg demo``: photos before and after augmentation, and images per second."""

import statistics
import sys
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path

import numpy as np

from .._batch.batch import Batch
from .._batch.contact_sheet import Picture, displayed, png
from .._batch.opening import decode_batch, open_batch
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
from .._ops.resize_crop import horizontal_flip, resized_crop
from .._ops.warp import rotate
from .._runtimes.devices import on_cpu, to_host
from . import info
from .options import UserError, add_device, add_sheet, working

EXAMPLE = "gpuimg demo --photos train/cats --out cats.png"

_PHOTOS = Path(__file__).with_name("photos")
_SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".jp2"}
_SIZE = 224  # pixels; side of the results, the usual input of a network
_CELL = 120  # pixels; longer side of pictures on the sheet
_COLUMNS = 6
_GAP = 6
_MARGIN = 18
_MOST = 24  # photos shown at most
_ROUNDS = 7
_RULE = 215  # gray level of the line between originals and results


def add_options(command: ArgumentParser) -> None:
    """Add the options."""
    command.add_argument(
        "--photos", type=Path, default=_PHOTOS, metavar="DIR", help="folder of photos (default: four of gpuimg's own)"
    )
    add_sheet(command, "contact_sheet.png")
    add_device(command)
    command.add_argument("--seed", type=int, default=0, help="seed of the random parameters (default: %(default)s)")


def run(options: Namespace) -> int:
    """Augment, write the sheet, and print how fast it was."""
    if options.seed < 0:
        raise UserError(f"--seed must be at least 0, not {options.seed}")
    photos, device = _photos(options.photos), working(options.device)
    print(f"device     {device} ({info.describe_device(device)})")
    for kind, decoder in info.decoders(gpu=not on_cpu(device)).items():
        print(f"decoder    {kind}: {decoder}")
    print(f"photos     {len(photos)} in {photos[0].parent}", flush=True)
    info.announce_warming()
    results = _augment(open_batch(photos, device=device), np.random.default_rng(options.seed)).compute()
    rate = _images_per_second(photos, device, options.seed)
    print(
        f"speed      {rate:.0f} images/s from files to augmented {_SIZE} x {_SIZE} pixels, with {len(photos)} photos a "
        "call; that is too few for a measurement, which `gpuimg bench FOLDER` makes"
    )
    sheet = _sheet(displayed(decode_batch(photos, device=device), _CELL), displayed(results, _CELL))
    options.out.write_bytes(png(sheet))
    print(f"sheet      {options.out.resolve()} (originals above, results below)")
    return 0


def _photos(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise UserError(f"no such folder: {folder}; name one with photos: gpuimg demo --photos DIR")
    photos = sorted(path for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES)
    if not photos:
        raise UserError(f"no photos in {folder} (looked for {', '.join(sorted(_SUFFIXES))})")
    if len(photos) > _MOST:
        print(f"{len(photos)} photos; the first {_MOST} are shown", file=sys.stderr)
    return photos[:_MOST]


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


def _sheet(originals: list[Picture], results: list[Picture]) -> Picture:
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
