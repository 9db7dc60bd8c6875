"""Batches as notebooks show them: a few small results as pictures, each with the operations applied to it."""

import base64
import html
import io
import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._plan.text import describe_segments
from .._runtimes.devices import to_host
from ..errors import DecodeError
from .recording import recording_of

Picture = NDArray[np.uint8]

_OVERSHOOT = 0.5  # a bicubic filter leaves [0, 1] by less; an image beyond this must have been normalized
_MOST = 8  # images that are computed
_SIDE = 128  # pixels of a picture's longer side
# Descriptions omit lines that begin like these, and are shortened by these patterns.
_NOT_PRINTED = ("segment ", "sampled once", "fill around ")
_SHORTER = (
    (re.compile(r" of \d+ x \d+$"), ""),
    (re.compile(r"(?<![\d.-])([\d.]+), \1 \(x, y\)"), r"\1"),
    (re.compile(r"-?\d+\.\d+"), lambda number: f"{float(number[0]):.3g}"),
)


class Tile(NamedTuple):
    """One result and the operations applied to it alone."""

    picture: Picture
    lines: list[str]


class ContactSheet(NamedTuple):
    """Some results of a batch, and the operations applied to all of them."""

    tiles: list[Tile]
    same: list[str]
    left_out: int


def contact_sheet(batch: Any, most: int = _MOST, side: int = _SIDE) -> ContactSheet:
    """Compute the first images of a batch one by one, or some frames of its first clip; nothing else is computed.

    ``most`` is the largest number of images, and ``side`` the length of the pictures' longer sides in pixels.
    """
    if batch.frames is None:
        tiles = [_tile(batch.take([i]), side) for i in range(min(most, len(batch)))]
    else:
        tiles = _of_clip(batch.take(np.arange(min(recording_of(batch).units, 1))), most, side)
    same = [line for line in tiles[0].lines if all(line in tile.lines for tile in tiles)] if len(tiles) > 1 else []
    own = [Tile(picture, [line for line in lines if line not in same]) for picture, lines in tiles]
    if any(tile.lines for tile in own):
        own = [Tile(picture, lines or ["nothing more" if same else "unchanged"]) for picture, lines in own]
    return ContactSheet(own, same, len(batch) - len(tiles))


def short_lines(batch: Any, i: int) -> list[str]:
    """Describe the operations applied to image ``i`` in short lines."""
    recording = recording_of(batch)
    lines = describe_segments(recording.segments, i, recording.source.dtype)
    lines = [line for line in lines if not line.startswith(_NOT_PRINTED)]
    for pattern, short in _SHORTER:
        lines = [pattern.sub(short, line) for line in lines]
    return lines


def as_html(batch: Any) -> str:
    """Return a contact sheet for notebooks; if the batch cannot be computed, the error message. Raise nothing."""
    heading = f'<div style="font-family: monospace">{html.escape(repr(batch))}</div>'
    try:
        sheet = contact_sheet(batch)
    except Exception as error:
        return f"<div>{heading}<div>{html.escape(f'{type(error).__name__}: {error}')}</div></div>"
    same = f"<div>all: {html.escape('; '.join(sheet.same))}</div>" if sheet.same else ""
    figures = "".join(_figure(i, tile) for i, tile in enumerate(sheet.tiles))
    more = f"<div>and {sheet.left_out} more</div>" if sheet.left_out else ""
    row = f'<div style="display: flex; flex-wrap: wrap; gap: 8px; margin: 8px 0">{figures}</div>'
    return f"<div>{heading}{same}{row}{more}</div>"


def _tile(one: Any, side: int) -> Tile:
    """Return the tile of a batch of one image; a black tile if it cannot be decoded."""
    try:
        (picture,) = displayed(one, side)
    except DecodeError as error:
        return Tile(np.zeros((side, side, 3), np.uint8), [f"not decoded: {error.failures[0].reason}"])
    failed = [f"not decoded: {failure.reason}" for failure in one.errors.values()]
    return Tile(picture, failed or short_lines(one, 0))


def _of_clip(clip: Any, most: int, side: int) -> list[Tile]:
    """Return evenly spaced frames of a batch of one clip."""
    pictures = displayed(clip, side)
    chosen = np.unique(np.linspace(0, len(pictures) - 1, min(most, len(pictures))).round().astype(int)).tolist()
    return [Tile(pictures[i], [f"frame {i}", *short_lines(clip, i)]) for i in chosen]


def _figure(i: int, tile: Tile) -> str:
    from PIL import Image

    height, width = tile.picture.shape[:2]
    file = io.BytesIO()
    Image.fromarray(tile.picture).save(file, "PNG")
    data = base64.b64encode(file.getvalue()).decode()
    caption = "<br>".join(html.escape(line) for line in tile.lines)
    return (
        f'<figure style="margin: 0; width: {_SIDE}px">'
        f'<img src="data:image/png;base64,{data}" width="{width}" height="{height}" alt="image {i}">'
        f'<figcaption style="font-size: 11px; line-height: 1.3">{caption}</figcaption></figure>'
    )


# -- pictures ----------------------------------------------------------------------------------------------------------


def displayed(batch: Any, side: int) -> list[Picture]:
    """Return results as pictures whose longer side is ``side`` pixels, with ``normalize`` undone."""
    return [_fitted(_levels(batch, i, to_host(image)), side) for i, image in enumerate(batch)]


def _levels(batch: Any, i: int, pixels: NDArray[Any]) -> Picture:
    """Return one image as levels 0 to 255 in three channels."""
    if recording_of(batch).source.layout == "NCHW":
        pixels = np.moveaxis(pixels, 0, 2)
    if pixels.dtype != np.uint8:
        pixels = pixels.astype(np.float32)
        pixels = np.rint(np.clip(_denormalized(batch, i, pixels), 0.0, 1.0) * 255.0).astype(np.uint8)
    return np.broadcast_to(pixels, (*pixels.shape[:2], 3))


def _denormalized(batch: Any, i: int, pixels: NDArray[Any]) -> NDArray[Any]:
    """Return one image with its normalization undone; if that is unknown, stretched from black to white."""
    for plan in reversed(recording_of(batch).segments):
        for entry in reversed(plan.entries):
            normalized = entry.normalization(i)
            if normalized is not None:
                mean, std = (values[: pixels.shape[2]].astype(np.float32) for values in normalized)
                pixels = pixels * std + mean
    if pixels.min() < -_OVERSHOOT or pixels.max() > 1.0 + _OVERSHOOT:
        pixels = (pixels - pixels.min()) / np.ptp(pixels)
    return pixels


def _fitted(picture: Picture, side: int) -> Picture:
    """Scale a picture to ``side`` pixels; small pictures are enlarged with their pixels kept visible."""
    from PIL import Image

    longer = max(picture.shape[:2])
    height, width = (max(round(length * side / longer), 1) for length in picture.shape[:2])
    chosen = Image.Resampling.NEAREST if longer < side // 2 else Image.Resampling.BILINEAR
    return np.asarray(Image.fromarray(np.ascontiguousarray(picture)).resize((width, height), chosen))
