"""Files and their headers, as what a batch decodes."""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .._checks.arguments import whole_number
from .._checks.types import Ints
from .._checks.words import counted
from .._decoding import exif, jpeg, pillow
from .._decoding.decoder import ALPHAS, ImageInfo, over_limit
from .._decoding.file_bytes import Source, SourceNames, all_bytes, read
from .._decoding.pillow import WITH_ALPHA
from .._decoding.seek import Seek
from .._index.seek_index import SeekIndex
from .._runtimes.images import COLORS, EncodedImages

#: Bits of a value by the name of a depth.
DEPTHS = {"uint8": 8, "native": 16}


def check_options(color: str, alpha: str, max_pixels: int, draft: Any = None, depth: str = "uint8") -> None:
    """Refuse what is not a color, a way with transparency, a limit, a depth, or how much shrinking must be left."""
    for value, name, known in ((color, "color", COLORS), (alpha, "alpha", ALPHAS), (depth, "depth", DEPTHS)):
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, not {value!r}")
    if alpha != "drop" and COLORS[color] in WITH_ALPHA:
        raise ValueError(f"alpha={alpha!r} lays pixels on a background; color {color!r} keeps what is transparent")
    if alpha != "drop" and depth != "uint8":
        raise ValueError(f'alpha={alpha!r} is for depth "uint8"')
    whole_number(max_pixels, "max_pixels")
    number = isinstance(draft, (int, float, np.integer, np.floating)) and not isinstance(draft, bool)
    if draft is not None and not (number and 1.0 <= draft < np.inf):
        raise ValueError(f"draft must be None or a finite number of at least 1, not {draft!r}")


def open_images(
    sources: Sequence[Source],
    color: str,
    alpha: str,
    on_error: str,
    max_pixels: int,
    names: Sequence[str] | None = None,
    draft: float | None = None,
    depth: str = "uint8",
) -> EncodedImages:
    """Read files and their headers; see :func:`open_batch`. ``names`` say in messages what the sources are."""
    check_options(color, alpha, max_pixels, draft, depth)
    if on_error not in ("raise", "fill"):
        raise ValueError(f'on_error must be "raise" or "fill", not {on_error!r}')
    if isinstance(sources, (str, bytes, os.PathLike)) or not isinstance(sources, Sequence):
        raise TypeError(f"sources must be a list of sources, not {type(sources).__name__}")
    data: list[Any] = []
    found: dict[int, str] = {}
    if all_bytes(sources):
        data += sources
    for i, source in enumerate(() if data else sources):
        try:
            data.append(read(source))
        except TypeError as error:
            raise TypeError(f"sources[{i}]: {error}") from error
        except (ValueError, OSError) as error:
            found[i] = f"cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)
            data.append(b"")
    sizes, headers, others, refused = _read_headers(data, max_pixels)
    names = SourceNames(sources) if names is None else names
    opened = EncodedImages(data, headers, others, names, sizes, COLORS[color], alpha, on_error, draft, DEPTHS[depth])
    opened.settle(refused | found)
    return opened


def with_index(
    images: EncodedImages, index: str | os.PathLike[str] | SeekIndex | None, indices: Sequence[int] | None
) -> EncodedImages:
    """The images with their entries of a seek index; see :func:`open_batch`."""
    if index is None:
        if indices is not None:
            raise ValueError("indices are numbers of samples in a seek index; give index as well")
        return images
    found = index if isinstance(index, SeekIndex) else SeekIndex(index)
    numbers = list(range(len(images)) if indices is None else map(operator.index, indices))
    if len(numbers) != len(images):
        raise ValueError(f"indices must name {counted(len(images), 'source')}, not {len(numbers):,}")
    outside = [number for number in numbers if not 0 <= number < len(found)]
    if outside:
        raise ValueError(f"the seek index {found.path} has samples 0 to {len(found) - 1:,}, not {outside[0]:,}")
    entries = found.read(numbers)
    return replace(images, seek=Seek.of(entries.addresses, entries.sizes, entries.memory, found.every, found.path))


def info(data: Any, max_pixels: int) -> ImageInfo:
    """Header of one file's bytes; see :func:`gpuimg.image_info`."""
    sizes, headers, others, found = _read_headers([data], max_pixels)
    if found:
        raise ValueError(found[0])
    height, width = sizes[0].tolist()
    header = headers.records[0]
    orientation = int(header["orientation"])
    if others:
        one = others[0]
        return ImageInfo(height, width, one.channels, one.codec, one.chroma_subsampling, orientation)
    subsampling = jpeg.chroma_subsampling(header)
    return ImageInfo(height, width, int(header["components"]), "jpeg", subsampling, orientation)


def _read_headers(
    data: Sequence[Any], max_pixels: int
) -> tuple[Ints, jpeg.Headers, dict[int, pillow.PillowHeader], dict[int, str]]:
    """Sizes of images as shown, headers, those that Pillow reads, and why an image is refused, by index."""
    headers = jpeg.read_headers(data)
    found = headers.records
    others: dict[int, pillow.PillowHeader] = {}
    refused: dict[int, str] = {}
    known = (found["strict"] == 1) & (found["height"] > 0) & (found["width"] > 0)
    for i in np.flatnonzero(~known).tolist():
        try:
            one = pillow.read_header(data[i], max_pixels)
        except ValueError as error:
            refused[i] = str(error)
            height, width, orientation = 1, 1, 1
        else:
            others[i] = one
            height, width, orientation = one.height, one.width, one.orientation
        header = found[i]
        header["height"], header["width"], header["orientation"] = height, width, orientation
    sizes = np.stack([found["height"], found["width"]], 1)
    for i in np.flatnonzero(sizes[:, 0] * sizes[:, 1] > max_pixels).tolist():
        height, width = sizes[i].tolist()
        refused[i] = over_limit(height, width, max_pixels)
        sizes[i] = 1
    swapped = exif.swaps_sides(found["orientation"])
    sizes[swapped] = sizes[swapped, ::-1]
    return sizes, headers, others, refused
