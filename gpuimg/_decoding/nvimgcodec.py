"""nvImageCodec: headers, decoders and the reasons of failures. The only importer of it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from .._version import install_hint
from . import exif
from .decoder import MAX_PIXELS, EncodedImage, ImageInfo, Region
from .file_bytes import Source, read
from .jpeg_headers import jpeg_headers
from .stderr import capture_stderr, silence_stderr

INSTALL_HINT = f"decoding needs nvImageCodec, which is not installed; {install_hint('cpu', 'cuda12', 'cuda13')}"


@lru_cache(maxsize=1)
def library() -> Any:
    """The ``nvidia.nvimgcodec`` module; importing it prints nothing.

    Raises
    ------
    ImportError
        With what to install, where it is missing.
    """
    os.environ.setdefault("PYNVIMGCODEC_VERBOSITY", "1")  # read once, at import: errors only
    with silence_stderr():
        try:
            from nvidia import nvimgcodec
        except ImportError as error:
            raise ImportError(INSTALL_HINT) from error
    return nvimgcodec


def open_image(data: Any, max_pixels: int) -> EncodedImage:
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
        frame, block = jpeg_headers(data)
        if frame != (height, width):
            raise ValueError(
                f"the header is damaged: its frame header says {frame[0]} x {frame[1]}, the decoder reads "
                f"{height} x {width}"
            )
        turn = exif.orientation_in(block)
    else:
        turn = exif.orientation(data)
    if exif.swaps_sides(turn):
        height, width = width, height
    return EncodedImage(stream, data, height, width, turn)


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
    with silence_stderr():
        encoded = open_image(data, max_pixels)
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
    with silence_stderr():
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
    with silence_stderr():
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


class CpuDecoder:
    """The :class:`Decoder` of one thread."""

    def __init__(self) -> None:
        self._library = library()
        self._decoder = cpu_decoder()

    def decode(self, image: EncodedImage, region: Region | None, out: Any) -> str | None:
        """As :meth:`Decoder.decode`."""
        params = _params_for(out)
        stream = image.stream
        try:
            if region is not None:
                x0, y0, x1, y1 = region
                stream = stream.get_sub_code_stream(region=self._library.Region(y0, x0, y1, x1))
            done = self._decoder.decode(stream, image=self._library.as_image(out), params=params)
            if done is not None and (done.height, done.width) == out.shape[:2]:
                return None
        except (RuntimeError, ValueError):
            pass  # the second decode below finds the words
        return reason_of(self._decoder, image.stream, params)


class GpuDecoder:
    """The :class:`BatchDecoder` of one thread.

    Attributes
    ----------
    on_gpu : bool
        Whether JPEGs are decoded on the GPU rather than on the CPU.
    first : int
        Size of the first batch, which fixes the hardware engine's part for good; 0 before.
    """

    def __init__(self, device_id: int, threads: int) -> None:
        self._decoder, self.on_gpu = gpu_decoder(device_id, threads)
        self.first = 0

    def decode(self, images: Sequence[EncodedImage], outs: Sequence[Any], stream: int) -> list[str | None]:
        """As :meth:`BatchDecoder.decode`."""
        if not images:
            return []
        self.first = self.first or len(images)
        params = _params_for(outs[0])
        targets = library().as_images(list(outs))
        return [
            None
            if done is not None and (done.height, done.width) == out.shape[:2]
            else reason_of(self._decoder, image.stream, params)
            for image, out, done in zip(images, outs, self._decode_all(images, targets, params, stream), strict=True)
        ]

    def _decode_all(self, images: Sequence[EncodedImage], targets: list[Any], params: Any, stream: int) -> list[Any]:
        streams = [image.stream for image in images]
        try:
            return list(self._decoder.decode(streams, images=targets, params=params, cuda_stream=stream))
        except (RuntimeError, ValueError):  # one image made the whole call fail: find out which
            return [self._decode_one(one, target, params, stream) for one, target in zip(streams, targets, strict=True)]

    def _decode_one(self, source: Any, target: Any, params: Any, stream: int) -> Any:
        try:
            return self._decoder.decode(source, image=target, params=params, cuda_stream=stream)
        except (RuntimeError, ValueError):
            return None


def _params_for(out: Any) -> Any:
    return decode_params("gray" if out.shape[2] == 1 else "rgb")


def reason_of(decoder: Any, stream: Any, params: Any) -> str:
    """Why an image does not decode: it is decoded once more, alone, and the library's words are read."""
    said: list[str] = []
    with capture_stderr(said):
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
        with silence_stderr():
            try:
                nvimgcodec.Decoder(device_id=device, backends=[nvimgcodec.Backend(kind)])
            except RuntimeError:
                continue
        found.append(words)
    return found
