"""Opening of image files: bytes and headers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._checks.arguments import one_of
from .._checks.types import Ints
from .._data.images import EncodedImages
from .._decoding import exif, jpeg, pillow, route
from .._decoding.decoder import ImageInfo, over_limit
from .._decoding.options import DecodeOptions
from .._io.file_bytes import Source, SourceNames, all_bytes, check_sources, read, url_hint
from ..kernels.jpeg.layout import TOO_LARGE

#: Policies for images that cannot be decoded.
ON_ERROR = ("raise", "fill")


def open_images(
    sources: Sequence[Source],
    options: DecodeOptions,
    on_error: str,
    names: Sequence[str] | None = None,
    pages: Ints | None = None,
) -> EncodedImages:
    """Read files and their headers; see :func:`open_batch`. ``names`` identify the sources in error messages.

    ``pages`` (N,) are their pictures.
    """
    one_of(on_error, "on_error", ON_ERROR)
    check_sources(sources)
    max_bytes = options.max_bytes
    data: list[Any] = []
    found: dict[int, str] = {}
    if all_bytes(sources) and max(map(len, sources), default=0) <= max_bytes:  # type: ignore[arg-type]
        data += sources
    for i, source in enumerate(() if data else sources):
        try:
            data.append(read(source, max_bytes))
        except TypeError as error:
            raise TypeError(f"sources[{i}]: {error}") from error
        except (ValueError, OSError) as error:
            found[i] = str(error)
            if isinstance(error, OSError):
                found[i] = f"cannot be read: {error.strerror}{url_hint(source)}"
            data.append(b"")
    sizes, headers, others, refused = _read_headers(data, options, pages)
    names = SourceNames(sources) if names is None else names
    opened = EncodedImages(data, headers, others, names, sizes, options, on_error)
    opened.record_failures(refused | found)
    return opened


def size_as_others(images: EncodedImages, others: Ints | None = None) -> None:
    """Give black images of unknown size that of another image, in a batch whose images have one target size."""
    unknown = [k for k in images.failures if images.sizes[k].max() == 1]
    known = np.delete(images.sizes, list(images.failures), 0) if others is None or not len(others) else others
    if unknown and len(known):
        images.sizes[unknown] = known[0]


def info(data: Any, options: DecodeOptions) -> ImageInfo:
    """Return the header of one file; see :func:`gpuimg.image_info`."""
    sizes, headers, others, found = _read_headers([data], options)
    if found:
        raise ValueError(found[0])
    height, width = sizes[0].tolist()
    header, more = headers.records[0], pillow.details(data, others.get(0))
    orientation = int(header["orientation"])
    if others:
        one = others[0]
        return ImageInfo(
            height, width, one.channels, one.codec, one.chroma_subsampling, orientation, max(one.depth, 1), *more
        )
    subsampling = jpeg.chroma_subsampling(header)
    return ImageInfo(height, width, int(header["components"]), "jpeg", subsampling, orientation, 8, *more)


def _read_headers(
    data: Sequence[Any], options: DecodeOptions, pages: Ints | None = None
) -> tuple[Ints, jpeg.Headers, dict[int, pillow.PillowHeader], dict[int, str]]:
    """Return sizes as displayed, all headers, those read by Pillow by index, and reasons for refusal by index."""
    headers = jpeg.read_headers(data)
    found = headers.records
    others: dict[int, pillow.PillowHeader] = {}
    refused: dict[int, str] = {}
    sizes, left = jpeg.shown_sizes(found, route.pillow_only(data, found, options), options.max_pixels)
    numbers = np.zeros(len(data), np.int64) if pages is None else pages
    for i, why in {**left, **dict.fromkeys(np.flatnonzero(numbers).tolist(), 0)}.items():
        header, height, width, orientation = found[i], 1, 1, 1
        if why == TOO_LARGE:
            refused[i] = over_limit(int(header["height"]), int(header["width"]), options.max_pixels)
        else:
            try:
                one = pillow.read_header(data[i], options.max_pixels, int(numbers[i]))
                others[i] = one._replace(parts=())
                height, width, orientation = one.height, one.width, one.orientation
            except ValueError as error:
                refused[i] = str(error)
            header["height"], header["width"], header["orientation"] = height, width, orientation
        sizes[i] = (width, height) if exif.swaps_sides(orientation) else (height, width)
    return sizes, headers, others, refused
