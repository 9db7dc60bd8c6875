"""From files to batches."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from .._checks.arguments import whole_number
from .._decoding import nvimgcodec
from .._decoding.decoder import MAX_PIXELS, EncodedImage, ImageInfo
from .._decoding.file_bytes import Source, describe, read
from .._decoding.stderr import silence_stderr
from .._runtimes.devices import runtime_for
from .._runtimes.images import EncodedImages
from .batch import Batch

_COLORS = {"rgb": 3, "gray": 1}


def image_info(source: Source, *, max_pixels: int = MAX_PIXELS) -> ImageInfo:
    """Read the header of one image.

    Parameters
    ----------
    source : path, bytes, bytearray, memoryview, uint8 array or open binary file
    max_pixels : int
        Larger images are refused.

    Returns
    -------
    ImageInfo
        Height and width after the EXIF orientation, channels, codec, chroma subsampling, orientation.

    Raises
    ------
    ValueError
        With the reason, where it is not an image that can be decoded.
    OSError
        Where a path cannot be read.

    Examples
    --------
    >>> import gpuimg, io
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (40, 30)).save(file, "JPEG")
    >>> gpuimg.image_info(file.getvalue())[:4]
    (30, 40, 3, 'jpeg')
    """
    return nvimgcodec.info(source, max_pixels)


def open_batch(
    sources: Sequence[Source],
    *,
    device: str | None = None,
    color: str = "rgb",
    on_error: str = "raise",
    max_pixels: int = MAX_PIXELS,
) -> Batch:
    """Read files and their headers; nothing is decoded until the batch is handed over.

    On the CPU only the region of each image that the recorded functions need is then decoded.

    Parameters
    ----------
    sources : sequence
        Paths, ``bytes``, ``bytearray``, ``memoryview``, uint8 arrays of file bytes, or open binary files. They are
        read now; do not change a buffer before the batch has run.
    device : {"cpu", "cuda", "cuda:1", ...}, optional
        By default ``GPUIMG_DEVICE``, else a GPU if one works, else the CPU.
    color : {"rgb", "gray"}
        3 or 1 channels, whatever the file has.
    on_error : {"raise", "fill"}
        ``"raise"``: one :class:`DecodeError` that names every bad image. ``"fill"``: a bad image is black (1 x 1
        pixel where its header cannot be read), and ``batch.status`` and ``batch.errors`` say why.
    max_pixels : int
        Larger images are bad: refused by their header, before any pixel memory is taken.

    Returns
    -------
    Batch
        Its ``sizes`` are those after the EXIF orientation.

    Raises
    ------
    DecodeError
        Naming index, source and reason of every image whose header cannot be read.
    ImportError
        Where nvImageCodec is missing, with what to install.
    ValueError, TypeError
        For unknown names, or what is not a source.

    Examples
    --------
    >>> import gpuimg, io
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (40, 30)).save(file, "JPEG")
    >>> x = gpuimg.open_batch([file.getvalue()] * 2, device="cpu")
    >>> gpuimg.resize(x, (8, 8)).array().shape
    (2, 8, 8, 3)
    """
    runtime = runtime_for(device)
    return Batch(runtime, open_images(sources, color, on_error, max_pixels))


def decode_batch(
    sources: Sequence[Source],
    *,
    device: str | None = None,
    color: str = "rgb",
    on_error: str = "raise",
    max_pixels: int = MAX_PIXELS,
) -> Batch:
    """Decode images of any sizes into one buffer; ``batch[i]`` is a view of it.

    Parameters
    ----------
    sources, device, color, on_error, max_pixels
        As in :func:`open_batch`.

    Returns
    -------
    Batch
        Images (H, W, C) uint8, CuPy arrays on a GPU and NumPy arrays on the CPU.

    Raises
    ------
    DecodeError
        Naming index, source and reason of every image that cannot be decoded.
    ImportError
        Where nvImageCodec is missing, with what to install.
    ValueError, TypeError
        For unknown names, or what is not a source.

    Examples
    --------
    >>> import gpuimg, io
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (40, 30), (255, 255, 255)).save(file, "PNG")
    >>> gpuimg.decode_batch([file.getvalue()], device="cpu")[0].shape
    (30, 40, 3)
    """
    runtime = runtime_for(device)
    images = open_images(sources, color, on_error, max_pixels)
    return Batch(runtime, Batch(runtime, images)._decoded(images))


def check_options(color: str, max_pixels: int) -> None:
    """Refuse what is not a color or a limit."""
    if color not in _COLORS:
        raise ValueError(f'color must be "rgb" or "gray", not {color!r}')
    whole_number(max_pixels, "max_pixels")


def open_images(
    sources: Sequence[Source], color: str, on_error: str, max_pixels: int, names: Sequence[str] | None = None
) -> EncodedImages:
    """Read files and their headers; see :func:`open_batch`. ``names`` say in messages what the sources are."""
    check_options(color, max_pixels)
    if on_error not in ("raise", "fill"):
        raise ValueError(f'on_error must be "raise" or "fill", not {on_error!r}')
    if isinstance(sources, (str, bytes, os.PathLike)) or not isinstance(sources, Sequence):
        raise TypeError(f"sources must be a list of sources, not {type(sources).__name__}")
    if sources:
        nvimgcodec.library()
    images: list[EncodedImage | None] = []
    sizes = np.ones((len(sources), 2), np.int64)
    found: dict[int, str] = {}
    with silence_stderr():
        for i, source in enumerate(sources):
            try:
                image = nvimgcodec.open_image(read(source), max_pixels)
            except TypeError as error:
                raise TypeError(f"sources[{i}]: {error}") from error
            except (ValueError, OSError) as error:
                found[i] = f"cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)
                images.append(None)
            else:
                images.append(image)
                sizes[i] = image.height, image.width
    names = names or [describe(source) for source in sources]
    opened = EncodedImages(images, names, sizes, _COLORS[color], on_error)
    opened.settle(found)
    return opened
