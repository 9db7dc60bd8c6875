"""Functions that open image files as batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from .._checks import arguments
from .._checks.docstrings import documented
from .._checks.keywords import OPENING_HINTS, REMOVED_FROM_OPENING, explained
from .._checks.types import Alpha, Array, ColorMode, Decoder, Depth, Device, Icc, Ints, OnError, PerImage
from .._decoding.decoder import MAX_PIXELS, ImageInfo
from .._decoding.options import DecodeOptions, decode_options
from .._io.file_bytes import MAX_BYTES, Source, SourceNames, read_one, source_name
from .._runtimes.devices import check_decoder, runtime_for
from ..errors import DecodeError, Failure
from .batch import Batch
from .encoded import info, open_images
from .pages import decoded_pages
from .recording import Recording

__all__ = ["decode_batch", "decode_image", "image_info", "open_batch"]

_of_files = documented(
    "source : path, bytes, bytearray, memoryview, uint8 array or open binary file",
    returns="",
    raises="DecodeError\n    Naming index, source and reason of every image that cannot be read.\n"
    "ValueError, TypeError\n    For unknown names, or a source of another type.",
    setup=">>> import gpuimg, io\n>>> from PIL import Image\n>>> file = io.BytesIO()\n"
    '>>> Image.new("RGB", (40, 30)).save(file, "JPEG")\n',
)


@_of_files
def image_info(source: Source, *, max_pixels: int = MAX_PIXELS, max_bytes: int = MAX_BYTES) -> ImageInfo:
    """Read the header of one image.

    Parameters
    ----------
    max_pixels : int
        Larger images are refused.
    max_bytes : int
        Larger files are refused.

    Returns
    -------
    ImageInfo
        Height and width after the EXIF orientation, channels, codec, chroma subsampling, orientation.

    Raises
    ------
    ValueError
        With the reason, if the source is not an image that can be decoded.
    OSError
        If a path cannot be read.

    Examples
    --------
    >>> gpuimg.image_info(file.getvalue())[:4]
    (30, 40, 3, 'jpeg')
    """
    options = DecodeOptions(max_pixels=max_pixels, max_bytes=max_bytes)
    return info(read_one(source, options.max_bytes), options)


@explained(OPENING_HINTS | REMOVED_FROM_OPENING)
@_of_files
def open_batch(
    sources: Sequence[Source],
    *,
    device: Device | None = None,
    color: ColorMode = "rgb",
    alpha: Alpha = "drop",
    on_error: OnError = "raise",
    max_pixels: int = MAX_PIXELS,
    max_bytes: int = MAX_BYTES,
    draft: float | None = None,
    depth: Depth = "uint8",
    icc: Icc = "ignore",
    decoder: Decoder = "auto",
    pages: PerImage = 0,
) -> Batch:
    """Read files and their headers; nothing is decoded until results of the batch are requested.

    On the CPU, only the region of each image that the recorded functions need is decoded then.

    Parameters
    ----------
    sources : sequence
        Paths, ``bytes``, ``bytearray``, ``memoryview``, uint8 arrays of file bytes, or open binary files. They are
        read now, buffers are copied: what changes later has no effect on the batch.
    device : {"cpu", "cuda", "cuda:1", ...}, optional
        By default ``GPUIMG_DEVICE``, else a GPU if one works, else the CPU.
    color : {"rgb", "gray", "rgba", "graya"}
        3 or 1 channels, whatever the file has; or 4 or 2, with alpha. Gray is the Y channel of a JPEG, and
        :func:`rgb_to_grayscale` of any other color file. A file without transparency is opaque.
    alpha : {"drop", "black", "white"}
        Background for transparent pixels; ``"drop"`` omits the alpha channel and shows the pixels' own colors.
    on_error : {"raise", "fill"}
        ``"raise"``: one :class:`DecodeError` that names every bad image. ``"fill"``: a bad image is black (1 x 1
        pixel if its header cannot be read), and ``batch.status`` and ``batch.errors`` give the reason.
    max_pixels : int
        Larger images are bad: refused by their header, before any pixel memory is taken.
    max_bytes : int
        Larger files are bad: refused by their size, before they are read. By default 1 GiB.
    draft : float, optional
        1 or more: faster decoding of JPEGs, with slightly different pixels; by default none. An image is decoded at a
        half, a quarter or an eighth of its size if a smooth filter still shrinks it by at least this factor along both
        axes (1.5 is a good choice). On a GPU, files that go to nvImageCodec are decoded at full size.
    depth : {"uint8", "native"}
        ``"native"``: the batch is uint16, 0 to 65535. PNG, TIFF, JPEG 2000 and PNM files with 16 bits per value keep
        their values; values of up to 8 bits are multiplied by 257, and files with other depths are bad. 16-bit color of
        JPEG 2000 needs nvImageCodec (the extra ``cuda12`` or ``cuda13``).
    icc : {"ignore", "srgb"}
        Use of an ICC profile embedded in a file: none, as torchvision and OpenCV do, or conversion of the colors to
        sRGB by Pillow's ``ImageCms``, on the CPU. A profile that cannot be used makes an image bad.
    decoder : {"auto", "nvimagecodec", "gpuimg"}
        Decoder of JPEGs on a GPU: ``"nvimagecodec"`` is NVIDIA's, whose pixels differ slightly from the CPU's;
        ``"gpuimg"`` is gpuimg's own for baseline files and the CPU for others, with the CPU's pixels. ``"auto"`` means
        ``GPUIMG_DECODER``, else NVIDIA's where it is installed, and gpuimg's for baseline files with ``draft``,
        which the other ignores. Not used on the CPU.
    pages : int or (N,) int
        The picture of a GIF, WebP or APNG animation, laid on those before it, or the page of a TIFF file; 0 is the
        first. A file without it is bad.

    Returns
    -------
    Batch
        Its ``sizes`` are those after the EXIF orientation.

    Examples
    --------
    >>> x = gpuimg.open_batch([file.getvalue()] * 2, device="cpu")
    >>> gpuimg.resize(x, (8, 8)).array().shape
    (2, 8, 8, 3)
    """
    runtime = runtime_for(device)
    options = decode_options(color, alpha, depth, draft, max_pixels, max_bytes, icc, decoder)
    check_decoder(options, runtime)
    if isinstance(pages, str):
        raise ValueError(f"pages must be numbers, not {pages!r}; gpuimg.decode_batch decodes all pages as clips")
    return Batch(Recording.start(runtime, open_images(sources, options, on_error, pages=_pages(pages, sources))))


@explained(OPENING_HINTS | REMOVED_FROM_OPENING)
@_of_files
def decode_batch(
    sources: Sequence[Source],
    *,
    device: Device | None = None,
    color: ColorMode = "rgb",
    alpha: Alpha = "drop",
    on_error: OnError = "raise",
    max_pixels: int = MAX_PIXELS,
    max_bytes: int = MAX_BYTES,
    depth: Depth = "uint8",
    icc: Icc = "ignore",
    decoder: Decoder = "auto",
    pages: PerImage | Literal["all"] = 0,
) -> Batch:
    """Decode images of any sizes into one buffer; ``batch[i]`` is a view of it.

    Parameters
    ----------
    sources, device, color, alpha, on_error, max_pixels, max_bytes, depth, icc, decoder
        See :func:`open_batch`.
    pages : int, (N,) int or "all"
        See :func:`open_batch`; ``"all"`` for clips of all pictures of each file, of which all files have as many, and
        all pictures of a file one size.

    Returns
    -------
    Batch
        Images (H, W, C) uint8, CuPy arrays on a GPU and NumPy arrays on the CPU.

    Notes
    -----
    On a GPU, the memory is reused once nothing refers to it, after the work that CuPy's current stream, that of this
    call, held at that time. A reader on another stream must let that stream wait for its own before releasing the
    images.

    Examples
    --------
    >>> gpuimg.decode_batch([file.getvalue()], device="cpu")[0].shape
    (30, 40, 3)
    """
    runtime = runtime_for(device)
    options = decode_options(color, alpha, depth, None, max_pixels, max_bytes, icc, decoder)
    check_decoder(options, runtime)
    numbers = _pages(pages, sources)
    if isinstance(pages, str) and len(sources):
        return Batch(Recording.start(runtime, decoded_pages(runtime, sources, options, on_error)))
    recording = Recording.start(runtime, open_images(sources, options, on_error, pages=numbers))
    return Batch(Recording.start(runtime, recording.decoded()))


@explained(OPENING_HINTS | REMOVED_FROM_OPENING)
@_of_files
def decode_image(
    source: Source,
    *,
    device: Device | None = None,
    color: ColorMode = "rgb",
    alpha: Alpha = "drop",
    max_pixels: int = MAX_PIXELS,
    max_bytes: int = MAX_BYTES,
    depth: Depth = "uint8",
    icc: Icc = "ignore",
    decoder: Decoder = "auto",
    pages: int | Literal["all"] = 0,
) -> Array:
    """Decode one image.

    For single images, as in the ``__getitem__`` of a data set that worker processes read: on the CPU a file is decoded
    on the calling thread, with no batch around it. Many images are decoded faster by :func:`decode_batch`, and decoded
    and preprocessed faster by :func:`open_batch` and :func:`load`.

    Parameters
    ----------
    device, color, alpha, max_pixels, max_bytes, depth, icc, decoder, pages
        See :func:`decode_batch`.

    Returns
    -------
    array
        (H, W, C), the size after the EXIF orientation, with the same pixels as in a batch: uint8, or uint16 for depth
        ``"native"``; (T, H, W, C) of all pictures with ``pages="all"``. A CuPy array on a GPU, a NumPy array on the
        CPU.

    Raises
    ------
    DecodeError
        With the reason, if the source is not an image that can be decoded.
    OSError
        If a path cannot be read.
    ValueError, TypeError
        For unknown names, or a source of another type.

    Examples
    --------
    >>> gpuimg.decode_image(file.getvalue(), device="cpu").shape
    (30, 40, 3)
    """
    runtime = runtime_for(device)
    options = decode_options(color, alpha, depth, None, max_pixels, max_bytes, icc, decoder)
    check_decoder(options, runtime)
    numbers = _pages(pages, [source])
    if isinstance(pages, str):
        return decoded_pages(runtime, [source], options, "raise").stacked()
    try:
        data = read_one(source, options.max_bytes)
        pixels = runtime.decode_file(data, options) if numbers is None else None
    except ValueError as error:
        raise DecodeError((Failure(0, source_name(source), str(error)),), 1) from error
    if pixels is not None:
        return pixels
    images = open_images([data], options, "raise", SourceNames([source]), numbers)
    return Recording.start(runtime, images).decoded().view(0)


def _pages(pages: PerImage | Literal["all"], sources: Sequence[Source]) -> Ints | None:
    """Return the pages (N,) of files; None for the first page of all, and for "all"."""
    if isinstance(pages, str):
        arguments.one_of(pages, "pages", ("all",))
        return None
    if type(pages) is int and pages == 0:
        return None
    return arguments.integers(pages, len(sources), "pages", low=0)
