"""Writing of images as files."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from .._checks.types import ImageArray, PerImage
from .._data.images import Pixels, offsets_of
from .._encoding import pillow
from .._encoding.nvimgcodec import with_metadata
from .._encoding.options import FileOptions, JpegOptions, check_images, file_options
from .._runtimes import planes
from .._runtimes.devices import on_cpu, runtime_for
from .._threads.helpers import each_side_by_side
from .._threads.threads import threads
from .batch import Batch, Images, as_batch, has_result, recording_of, run_into

__all__ = ["encode_batch", "encode_image"]

Subsampling: TypeAlias = Literal["4:4:4", "4:2:2", "4:2:0"]
Metadata: TypeAlias = bytes | Sequence[bytes | None] | None


def encode_batch(
    images: Images,
    *,
    quality: PerImage = 90,
    subsampling: Subsampling = "4:2:0",
    optimize: bool = False,
    restart: Literal["none", "rows"] = "none",
    exif: Metadata = None,
    icc: Metadata = None,
    format: Literal["jpeg", "png", "webp", "avif"] = "jpeg",
    encoder: Literal["gpuimg", "nvimagecodec"] = "gpuimg",
) -> list[bytes]:
    """Return each image as the bytes of a file.

    JPEGs are those of Pillow, that is of libjpeg-turbo, byte for byte, whatever the device and the number of threads.
    On the CPU, each image of a batch is encoded by the thread that has computed it; nothing else is kept of it.

    Parameters
    ----------
    images : Batch, (N, H, W, C) array, or list of (H, W, C) arrays
        uint8, with 1 or 3 channels; PNG files may also have 2 or 4, WebP and AVIF files 4.
    quality : int or (N,) int
        1 to 100, of JPEG, WebP and AVIF files.
    subsampling : {"4:4:4", "4:2:2", "4:2:0"}
        Resolution of the chroma of JPEG and AVIF files: that of luma, half of its columns, or also half of its rows.
    optimize : bool
        Make the Huffman codes of a JPEG for it, or try more filters of a PNG: smaller files that take longer.
    restart : {"none", "rows"}
        ``"rows"``: write restart markers after each row of blocks of a JPEG, with which crops decode faster.
    exif : bytes or list, optional
        EXIF data for all images, or bytes or None for each. Pixels of gpuimg are upright: an orientation in it must be
        1.
    icc : bytes or list, optional
        ICC profile, in the same forms.
    format : {"jpeg", "png", "webp", "avif"}
        Formats other than JPEG are written by Pillow.
    encoder : {"gpuimg", "nvimagecodec"}
        Of JPEGs from a GPU. ``"gpuimg"``: they are downloaded and encoded on the CPU, with its bytes.
        ``"nvimagecodec"``: NVIDIA's encoder on the GPU, with bytes of its own.

    Returns
    -------
    list of bytes
        An image that could not be decoded, in a batch with ``on_error="fill"``, is black.

    Raises
    ------
    ValueError
        For arguments that are out of range, other channels, normalized images, JPEGs with a side of more than 65,500
        pixels, and images that a format cannot have.
    TypeError
        For images of another dtype.
    DecodeError
        As :meth:`Batch.array`.
    ImportError
        For NVIDIA's encoder without nvImageCodec, and for formats that Pillow was built without.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> x = gpuimg.resize(np.zeros((2, 40, 50, 3), np.uint8), 32)
    >>> files = gpuimg.encode_batch(x, quality=[75, 90])
    >>> gpuimg.open_batch(files, device="cpu").sizes.tolist()
    [[32, 40], [32, 40]]
    """
    return _encoded(images, quality, subsampling, optimize, restart, exif, icc, format, encoder)


def encode_image(
    image: ImageArray,
    *,
    quality: int = 90,
    subsampling: Subsampling = "4:2:0",
    optimize: bool = False,
    restart: Literal["none", "rows"] = "none",
    exif: bytes | None = None,
    icc: bytes | None = None,
    format: Literal["jpeg", "png", "webp", "avif"] = "jpeg",
    encoder: Literal["gpuimg", "nvimagecodec"] = "gpuimg",
) -> bytes:
    """Return one image as the bytes of a file.

    Parameters
    ----------
    image : (H, W, C) array
        uint8, as in :func:`encode_batch`.
    quality, subsampling, optimize, restart, exif, icc, format, encoder
        See :func:`encode_batch`.

    Returns
    -------
    bytes

    Raises
    ------
    ValueError, TypeError
        As :func:`encode_batch`.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> file = gpuimg.encode_image(np.zeros((30, 40, 3), np.uint8), quality=75)
    >>> gpuimg.image_info(file).codec, gpuimg.decode_image(file, device="cpu").shape
    ('jpeg', (30, 40, 3))
    """
    if isinstance(image, Batch):
        raise TypeError("image must be an (H, W, C) array, not a Batch: use encode_batch")
    arguments = quality, subsampling, optimize, restart, exif, icc, format, encoder
    usual = isinstance(image, np.ndarray) and image.flags.c_contiguous and image.dtype == np.uint8
    if usual and len(image.shape) == 3 and 0 not in image.shape and format == "jpeg" and encoder == "gpuimg":
        options = file_options(1, *arguments)  # without a batch
        check_images("jpeg", "uint8", image.shape[2], np.array([image.shape[:2]]), normalized=False)
        runtime: Any = runtime_for("cpu")
        found: bytes = runtime.encode_one(image, options.jpeg)
        return found
    return _encoded([image], *arguments)[0]


def _encoded(images: Any, *arguments: Any) -> list[bytes]:
    """Implement :func:`encode_batch`."""
    batch = as_batch(images)
    recording = recording_of(batch)
    options = file_options(recording.image_count, *arguments)
    channels, sizes, normalized = recording.channels, recording.sizes, recording.normalized
    check_images(options.format, recording.source.dtype, channels, sizes, normalized=normalized)
    if not len(batch):
        return []
    if options.format != "jpeg":
        return _by_pillow(batch, options)
    if options.encoder == "nvimagecodec":
        return _by_nvimagecodec(batch, options)
    return _jpegs(batch, options.jpeg)


def _jpegs(batch: Batch, options: JpegOptions) -> list[bytes]:
    """Encode results as JPEGs on the CPU, each where it is computed unless it is elsewhere or there already."""
    recording = recording_of(batch)
    source, segments = recording.source, () if recording.changes_nothing else recording.segments
    if has_result(batch, "uint8", "NHWC") or not planes.can_encode(recording.runtime, source):
        source, segments = _host_pixels(batch), ()
    runtime = recording.runtime if recording.runtime.on_host else runtime_for("cpu")
    files, outcome = planes.encode(runtime, source, segments, options)
    recording.record_outcome(outcome)
    return files


def _host_pixels(batch: Batch) -> Pixels:
    """Return results as bytes in the host's memory."""
    recording = recording_of(batch)
    if recording.runtime.on_host:
        return _pixels(batch)
    offsets, total = offsets_of(recording.sizes, recording.channels)  # without gaps, for one copy
    flat = recording.runtime.empty_for_results(total, "uint8")
    run_into(batch, flat, offsets, "NHWC")
    return Pixels(recording.runtime.to_host(flat), offsets, recording.sizes, recording.channels)


def _pixels(batch: Batch) -> Pixels:
    """Return results as bytes in the memory of their device."""
    pixels = recording_of(batch.compute("uint8")).source
    assert isinstance(pixels, Pixels)
    return pixels


def _by_nvimagecodec(batch: Batch, options: FileOptions) -> list[bytes]:
    """Encode results on their GPU, and on the CPU those that this fails at."""
    if on_cpu(batch.device):
        raise ValueError('encoder="nvimagecodec" is for images on a GPU, not the CPU: use encoder="gpuimg"')
    computed = batch.compute("uint8")
    runtime: Any = recording_of(batch).runtime
    found: list[bytes | None] = runtime.encode_pixels(_pixels(computed), options.jpeg)
    left = [i for i, file in enumerate(found) if file is None]
    if left:
        warnings.warn(
            f"nvImageCodec did not encode {len(left)} of {len(found)} images, the first of them image {left[0]}: the "
            "CPU encodes these",
            stacklevel=4,
        )
        others = iter(_jpegs(computed.take(left), options.jpeg.part(left)))
    return [
        next(others) if file is None else with_metadata(file, exif, icc)
        for file, exif, icc in zip(found, options.exif, options.icc, strict=True)
    ]


def _by_pillow(batch: Batch, options: FileOptions) -> list[bytes]:
    """Encode results on all threads."""
    pixels, jpeg = _host_pixels(batch), options.jpeg
    parameters: dict[str, Any] = {"optimize": jpeg.optimize} if options.format == "png" else {}
    if options.format == "avif":
        parameters["subsampling"] = jpeg.subsampling
    files = [b""] * len(batch)

    def work(i: int) -> None:
        own: dict[str, Any] = {"quality": int(jpeg.quality[i])} if options.format != "png" else {}
        own |= {"exif": options.exif[i]} if options.exif[i] else {}
        own |= {"icc_profile": options.icc[i]} if options.icc[i] else {}
        try:
            files[i] = pillow.encode(pixels.view(i), options.format.upper(), **parameters, **own)
        except ValueError as error:
            raise ValueError(f"image {i}: {error}") from None

    each_side_by_side(work, range(len(batch)), min(threads(), len(batch)))
    return files
