"""nvImageCodec: headers, decoders and the reasons of failures. The only importer of it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import IO, Any, NamedTuple, TypeAlias

import numpy as np

from . import exif
from .stderr import listening, quiet

Source: TypeAlias = "str | os.PathLike[str] | bytes | bytearray | memoryview | np.ndarray[Any, Any] | IO[bytes]"

# Above this an image is refused before any pixel memory is taken (a forged header costs nothing). Pillow warns at
# 89 million pixels and refuses at twice that; this is 2^27.
MAX_PIXELS = 1 << 27

INSTALL_HINT = (
    "decoding needs nvImageCodec, which is not installed; install exactly one of: "
    'pip install "gpuimg[cpu]", "gpuimg[cuda12]" or "gpuimg[cuda13]"'
)


class ImageInfo(NamedTuple):
    """What a file's header says.

    Attributes
    ----------
    height, width : int
        Size in pixels after the EXIF orientation is applied.
    channels : int
        Channels in the file (3 for YCbCr, 4 for CMYK or RGBA).
    codec : str
        ``"jpeg"``, ``"png"``, ``"webp"``, ``"bmp"``, ``"tiff"``, ``"jpeg2k"`` or ``"pnm"``.
    chroma_subsampling : str
        ``"4:2:0"``, ``"4:4:4"``, ``"gray"`` and so on; ``"unknown"`` where the file does not tell.
    orientation : int
        EXIF orientation, 1 to 8; 1 if there is none.
    """

    height: int
    width: int
    channels: int
    codec: str
    chroma_subsampling: str
    orientation: int


class Encoded(NamedTuple):
    """One encoded image whose header was read; ``stream`` refers to ``data``."""

    stream: Any
    data: Any
    height: int
    width: int
    orientation: int


@lru_cache(maxsize=1)
def library() -> Any:
    """The ``nvidia.nvimgcodec`` module; importing it prints nothing.

    Raises
    ------
    ImportError
        With what to install, where it is missing.
    """
    os.environ.setdefault("PYNVIMGCODEC_VERBOSITY", "1")  # read once, at import: errors only
    with quiet():
        try:
            from nvidia import nvimgcodec
        except ImportError as error:
            raise ImportError(INSTALL_HINT) from error
    return nvimgcodec


def read(source: Source) -> Any:
    """File bytes of a source, without a copy where it already is bytes.

    Raises
    ------
    TypeError
        For what is not a source.
    OSError
        Where a path cannot be read.
    """
    if isinstance(source, bytes):
        return source
    if isinstance(source, (str, os.PathLike)):
        descriptor = os.open(source, os.O_RDONLY)
        try:
            return _read_all(descriptor)
        finally:
            os.close(descriptor)
    if isinstance(source, (bytearray, memoryview)):
        return np.frombuffer(source, np.uint8)
    if isinstance(source, np.ndarray):
        if source.dtype != np.uint8 or source.ndim != 1:
            raise TypeError(
                f"file bytes as an array must be one-dimensional uint8, not {source.dtype} of shape {source.shape}"
            )
        return np.ascontiguousarray(source)
    if hasattr(source, "read"):
        data = source.read()
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"an open file must be in binary mode; read() gave {type(data).__name__}")
        return read(data)
    raise TypeError(
        "a source is a path, bytes, bytearray, memoryview, a uint8 array of file bytes or an open binary file, "
        f"not {type(source).__name__}"
    )


def _read_all(descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    data = os.read(descriptor, size + 1)  # one call for a regular file
    if len(data) == size:
        return data
    parts = [data]
    while part := os.read(descriptor, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def describe(source: Source) -> str:
    """A source in an error message."""
    if isinstance(source, (str, os.PathLike)):
        return os.fspath(source)
    if isinstance(source, np.ndarray):
        return f"{source.size} bytes"
    if isinstance(source, memoryview):
        return f"{source.nbytes} bytes"
    if isinstance(source, (bytes, bytearray)):
        return f"{len(source)} bytes"
    return str(getattr(source, "name", type(source).__name__))


def parse(data: Any, max_pixels: int) -> Encoded:
    """Read the header of file bytes.

    Raises
    ------
    ValueError
        With the reason, for what cannot be decoded.
    """
    if len(data) == 0:
        raise ValueError("empty: 0 bytes")
    nvimgcodec = library()
    try:
        stream = nvimgcodec.CodeStream(data)
        height, width = stream.height, stream.width
    except RuntimeError as error:
        raise ValueError(_not_an_image(data)) from error
    if height * width > max_pixels:
        raise ValueError(f"{height} x {width} is {height * width} pixels, over the limit of max_pixels={max_pixels}")
    if height < 1 or width < 1:
        raise ValueError(f"size {height} x {width}")
    if bytes(data[:2]) == b"\xff\xd8":
        frame, block = exif.jpeg_headers(data)
        if frame != (height, width):
            raise ValueError("the header is damaged: it tells two sizes")
        turn = exif.orientation_in(block)
    else:
        turn = exif.orientation(data)
    if exif.swaps_sides(turn):
        height, width = width, height
    return Encoded(stream, data, height, width, turn)


def _not_an_image(data: Any) -> str:
    head = bytes(data[:12])
    known = {b"GIF8": "GIF", b"\x00\x00\x01\x00": "ICO", b"8BPS": "PSD", b"%PDF": "PDF"}
    for magic, name in known.items():
        if head.startswith(magic):
            return f"{name} is not supported"
    if head[4:8] == b"ftyp":
        return "AVIF, HEIC and video files are not supported"
    if head[:2] == b"\xff\xd8" or head[:8] == b"\x89PNG\r\n\x1a\n":
        return "the header is cut off or damaged"
    return f"not an image file (starts with {head!r})"


def info(source: Source, max_pixels: int = MAX_PIXELS) -> ImageInfo:
    """Header of one source; see :func:`gpuimg.image_info`."""
    data = read(source)
    library()
    with quiet():
        encoded = parse(data, max_pixels)
    stream = encoded.stream
    chroma = re.sub(r"^.*CSS_", "", str(stream.chroma_subsampling))
    names = {"GRAY": "gray", **{css: ":".join(css) for css in ("444", "422", "420", "440", "411", "410")}}
    return ImageInfo(
        encoded.height,
        encoded.width,
        stream.num_channels,
        stream.codec_name,
        names.get(chroma, "unknown"),
        encoded.orientation,
    )


@lru_cache(maxsize=2)
def decode_params(color: str) -> Any:
    """Parameters for ``"rgb"`` or ``"gray"`` pixels as they are stored.

    The orientation is applied by the runtimes: nvImageCodec's parser and OpenCV, which it falls back to, may read
    different ones in a damaged file, and then it writes past the image.
    """
    nvimgcodec = library()
    spec = nvimgcodec.ColorSpec.GRAY if color == "gray" else nvimgcodec.ColorSpec.SRGB
    return nvimgcodec.DecodeParams(apply_exif_orientation=False, color_spec=spec)


def cpu_decoder() -> Any:
    """A decoder for one thread of the CPU runtime; never used by two threads at a time."""
    nvimgcodec = library()
    with quiet():
        return nvimgcodec.Decoder(
            device_id=nvimgcodec.NVIMGCODEC_DEVICE_CPU_ONLY,
            max_num_cpu_threads=1,
            backends=[nvimgcodec.Backend(nvimgcodec.CPU_ONLY)],
        )


# Share of a batch for the hardware engine; the rest goes to CUDA kernels with CPU Huffman. NVIDIA's own default in
# DALI (PR #6366). Not measured here.
HARDWARE_SHARE = 0.65


def gpu_decoder(device_id: int, threads: int) -> tuple[Any, bool]:
    """A decoder for a GPU, and whether it decodes JPEGs on it rather than on the CPU.

    Raises
    ------
    RuntimeError
        Where nvImageCodec cannot use the device at all.
    """
    nvimgcodec = library()
    hardware = nvimgcodec.Backend(nvimgcodec.HW_GPU_ONLY, load_hint=HARDWARE_SHARE)
    hybrid = nvimgcodec.Backend(nvimgcodec.HYBRID_CPU_GPU)
    gpu_only = nvimgcodec.Backend(nvimgcodec.GPU_ONLY)
    cpu = nvimgcodec.Backend(nvimgcodec.CPU_ONLY)
    with quiet():
        try:
            nvimgcodec.Decoder(device_id=device_id, backends=[hardware, hybrid])
        except RuntimeError:
            on_gpu = False
        else:
            on_gpu = True
        backends = [hardware, hybrid, gpu_only, cpu] if on_gpu else [gpu_only, cpu]
        try:
            decoder = nvimgcodec.Decoder(device_id=device_id, max_num_cpu_threads=threads, backends=backends)
        except RuntimeError:  # no pure-GPU codec (JPEG 2000, TIFF) is registered either
            decoder = nvimgcodec.Decoder(
                device_id=device_id, max_num_cpu_threads=threads, backends=[b for b in backends if b is not gpu_only]
            )
    return decoder, on_gpu


def region(stream: Any, x0: int, y0: int, x1: int, y1: int) -> Any:
    """The part ``[y0, y1) x [x0, x1)`` of a stream, in coordinates after the EXIF orientation."""
    return stream.get_sub_code_stream(region=library().Region(y0, x0, y1, x1))


def reason_of(decoder: Any, stream: Any, params: Any) -> str:
    """Why an image does not decode: it is decoded once more, alone, and the library's words are read."""
    said: list[str] = []
    with listening(said):
        try:
            image = decoder.decode(stream, params=params)
        except RuntimeError as error:
            said.append(str(error))
        else:
            if image is not None:
                return "the decoded image has another size than its header says"
    words = [re.sub(r"^\[\w+\]\s*\[[\w-]+\]\s*(Could not decode jpeg code stream - )?", "", line) for line in said]
    return "; ".join(dict.fromkeys(words)) or "the decoder gave no reason (corrupt, truncated or unsupported)"


def decoders(gpu: bool) -> Sequence[str]:
    """Which kinds of decoder this installation has, in words."""
    try:
        nvimgcodec = library()
    except ImportError:
        return ()
    kinds = {"CPU (libjpeg-turbo and others)": nvimgcodec.CPU_ONLY}
    if gpu:
        kinds |= {"GPU hardware JPEG engine": nvimgcodec.HW_GPU_ONLY, "GPU (CUDA) JPEG": nvimgcodec.HYBRID_CPU_GPU}
    found = []
    for words, kind in kinds.items():
        device = nvimgcodec.NVIMGCODEC_DEVICE_CPU_ONLY if kind == nvimgcodec.CPU_ONLY else -1
        with quiet():
            try:
                nvimgcodec.Decoder(device_id=device, backends=[nvimgcodec.Backend(kind)])
            except RuntimeError:
                continue
        found.append(words)
    return found
