"""The parts of nvImageCodec for encoding, and for decoding into given memory, with files that contain their outcome.

Images are Pillow's, so that a test sees whether each came to its place.
"""

import io
import math
import threading
import time
from functools import cache
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
from PIL import Image as Pillow

from ..decoding.jpegs import pillow_pixels, segment
from ..decoding.tiffs import of_array
from ..samples import file_of, with_orientation
from .order import Order

_MAGIC = b"fake-gpu:"
#: What the GPU's decoders do with a file: decode it; not by the hardware engine; decode to nothing; report it as
#: decoded without writing anything, or all but its last row; read a larger size in the header; end the call with an
#: error of the decoder, or of memory. Two that need no decoder on the GPU: "broken" is cut off, and decodes nowhere,
#: "png" is no JPEG.
FATES = ("good", "refused", "none", "skipped", "smaller", "header", "fails", "memory", "broken", "png")
#: Those that the CPU decodes instead.
LEFT_TO_THE_CPU = ("none", "skipped", "smaller", "header", "fails", "png")
#: Those of which a warning tells.
UNWRITTEN = ("skipped", "smaller")


@cache
def file(height: int, width: int, fate: str = "good", orientation: int = 1, progressive: bool = True) -> bytes:
    """A file of a size, as stored; progressive, as our own kernels leave it to nvImageCodec, unless it is cut off."""
    if fate not in FATES:
        raise ValueError(fate)
    exif = with_orientation(orientation)
    row, column = np.mgrid[:height, :width]
    image = (np.stack([3 * row, 2 * column, 255 - row - column], 2) % 256).astype(np.uint8)
    if fate == "png":
        return file_of(image, "PNG", exif=exif)
    data = file_of(image, exif=exif, progressive=progressive and fate != "broken")
    data = data[:2] + segment(0xFE, _MAGIC + fate.encode() + b";") + data[2:]
    return data[: data.index(b"\xff\xda") + 14] if fate == "broken" else data


def other(form: str, height: int, width: int, fate: str = "good", dtype: str = "uint8", channels: int = 3) -> bytes:
    """A JPEG 2000 or TIFF file of a size, with its fate after the end."""
    values = np.random.default_rng(height * width).integers(0, np.iinfo(dtype).max, (height, width, channels), dtype)
    if form == "tiff":
        data = of_array(values, 2 if channels == 3 else 1)
    elif dtype == "uint8" or channels == 1:
        data = file_of(values[..., 0] if channels == 1 else values, "JPEG2000", no_jp2=True)
    else:
        raise ValueError("a JPEG 2000 file of 16-bit colors is nvImageCodec's on the CPU, too")
    return data + _MAGIC + fate.encode() + b";"


@cache
def stored(data: bytes, channels: int, dtype: np.dtype[Any]) -> Any:
    """Pixels as nvImageCodec decodes them: those of Pillow, or of 16 bits OpenCV's."""
    if data.startswith(b"\xff\xd8"):
        return pillow_pixels(data, channels)
    if dtype == np.uint16:
        pixels = np.asarray(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED))
        return pixels[..., ::-1] if pixels.ndim == 3 else pixels[..., None]
    return pillow_pixels(data, channels)


class CodeStream:
    def __init__(self, data: Any) -> None:
        self.data = bytes(data)
        self.is_jpeg = self.data.startswith(b"\xff\xd8")
        if not self.is_jpeg and not self.data.startswith((b"II*\0", b"\xff\x4f\xff\x51", b"\0\0\0\x0cjP")):
            raise AssertionError("nvImageCodec is given what is no JPEG, JPEG 2000 or TIFF file")
        if self.is_jpeg and not self.data.endswith(b"\xff\xd9"):
            raise AssertionError("nvImageCodec is given what was cut off")
        self.width, self.height = Pillow.open(io.BytesIO(self.data)).size
        self.fate = self.data.partition(_MAGIC)[2].partition(b";")[0].decode() or "good"
        self.height += self.fate == "header"


class Image:
    """Memory to decode into, and the stream it was said to be on."""

    def __init__(self, source: Any, order: Order) -> None:
        interface = source.__cuda_array_interface__
        assert (interface["version"], interface["strides"]) == (3, None)
        self.dtype = np.dtype(interface["typestr"])
        assert self.dtype in (np.uint8, np.uint16)
        low, read_only = interface["data"]
        assert not read_only
        self.stream = interface["stream"]
        self.shape = interface["shape"]
        self.range = low, low + math.prod(self.shape) * self.dtype.itemsize
        self.values = order.content(*self.range).view(self.dtype).reshape(self.shape)


def make(order: Order, current_device: Any) -> Any:
    pauses = cycle([0.0, 0.0002, 0.0, 0.0, 0.0001])  # threads overtake each other

    class Decoder:
        def __init__(self, device_id: int, max_num_cpu_threads: int, backends: Any, options: str = "") -> None:
            self._device, (self._kind,) = device_id, backends
            if self._kind in module.lacks:
                raise RuntimeError("Could not create decoder. Code: 7")
            self._thread: int | None = None
            order.note("decoder", name=self._kind, device=device_id, threads=max_num_cpu_threads, options=options)

        def decode(self, source: Any, *, images: Any = None, params: Any, cuda_stream: int = 0) -> Any:
            if self._thread not in (None, threading.get_ident()):
                order.found("a decoder is used by two threads at a time")
            self._thread = threading.get_ident()
            if current_device() != self._device:
                order.found(f"a decoder of device {self._device} is called where {current_device()} is current")
            order.note("call", name=self._kind, images=len(source))
            try:
                for one, target in zip(source, images, strict=True):
                    if math.prod(target.shape[:2]) < one.height * one.width:
                        raise ValueError("Existing buffer is too small to fit new image")
                for target in images:
                    order.forget(*target.range)  # what is not written now is of an earlier batch
                found = [
                    self._one(one, target, params, cuda_stream) for one, target in zip(source, images, strict=True)
                ]
                if module.fails_as_a_whole and self._kind == "hardware" and any(one.fate == "none" for one in source):
                    return [None] * len(source)
                return found
            finally:
                self._thread = None  # another thread may have it from here on

        def _one(self, source: CodeStream, target: Image, params: Any, cuda_stream: int) -> Any:
            if source.fate == "memory":
                raise MemoryError("decoder")
            if source.fate == "fails":
                raise RuntimeError("one image made the whole call fail")
            if cuda_stream == 0 or target.stream != cuda_stream:
                order.found(f"decoding on stream {cuda_stream:#x} into memory of stream {target.stream:#x}")
            if (source.height, source.width) != target.shape[:2]:
                order.found(f"{source.height} x {source.width} is decoded to {target.shape}")
            if source.fate == "refused" and self._kind == "hardware":
                return None
            if source.is_jpeg == (self._kind == "gpu"):
                order.found(f"a decoder of kind {self._kind} is given {source.data[:4]!r}")
            if bool(params["allow_any_depth"]) != (target.dtype == np.uint16):
                order.found(f"any depth into {target.dtype}")
            if source.fate == "skipped":
                return target
            # Also what fails may have been written in part.
            told = {"name": source.fate, "elements": target.values.size, "by": self._kind, "data": source.data}
            good = source.fate in ("good", "refused")
            stream = order.stream_at(self._device, cuda_stream)
            rows = target.values[:-1] if source.fate == "smaller" else target.values
            written = [(target.range[0], target.range[0] + rows.nbytes)]
            order.enqueue(stream, "decode", writes=written, file=source, done=good, **told)
            rows[...] = stored(source.data, target.shape[2], target.dtype) if good else 99
            time.sleep(next(pauses))
            return target if good or source.fate == "smaller" else None

    class Encoder:
        """Its files are Pillow's; at quality 13 images fail, at 66 the whole call does."""

        def __init__(self, device_id: int, max_num_cpu_threads: int, backends: Any) -> None:
            self._device = device_id
            order.note("encoder", device=device_id, kinds=backends)

        def encode(self, images: Any, codec: str, *, params: Any, cuda_stream: int) -> Any:
            assert codec == "jpeg"
            order.note("encode call", images=len(images), **params)
            if current_device() != self._device:
                order.found(f"an encoder of device {self._device} is called where {current_device()} is current")
            for one in images:
                if cuda_stream == 0 or one.stream != cuda_stream:
                    order.found(f"encoding on stream {cuda_stream:#x} from memory of stream {one.stream:#x}")
                order.enqueue(order.stream_at(self._device, cuda_stream), "encode", reads=[one.range])
            quality = params["quality_value"]
            if quality == 66:
                raise RuntimeError("the whole call failed")
            pixels = [one.values[..., 0] if one.shape[2] == 1 else one.values for one in images]
            return [None if quality == 13 else file_of(one, quality=quality) for one in pixels]

    module = SimpleNamespace(
        Encoder=Encoder,
        EncodeParams=lambda **options: options,
        JpegEncodeParams=lambda **options: options,
        QualityType=SimpleNamespace(QUALITY="quality"),
        ChromaSubsampling=SimpleNamespace(CSS_444="444", CSS_422="422", CSS_420="420"),
        GPU_ONLY="gpu",
        lacks=set(),  # kinds of decoders
        fails_as_a_whole=False,  # whether the engine does, at a whole call, if it fails at an image
        CodeStream=CodeStream,
        Decoder=Decoder,
        Backend=lambda kind, load_hint=1.0: kind,
        HW_GPU_ONLY="hardware",
        HYBRID_CPU_GPU="hybrid",
        ColorSpec=SimpleNamespace(GRAY="gray", SRGB="rgb"),
        DecodeParams=lambda **options: options,
        as_images=lambda sources: [Image(source, order) for source in sources],
    )
    return module
