"""As much of nvImageCodec as decoding into memory of one's own needs; files that say what is to become of them."""

from __future__ import annotations

import struct
import threading
import time
from itertools import cycle
from types import SimpleNamespace
from typing import Any

from .order import Order

_MAGIC = b"\0stand-in\0"
#: What a file does: decode, decode to nothing, to another size than its header says, or end the call with an error.
FATES = ("good", "none", "size", "fails", "memory")


def file(height: int, width: int, fate: str = "good", orientation: int = 1) -> bytes:
    """A file of a size, as stored."""
    return _MAGIC + struct.pack("<HHBB", height, width, FATES.index(fate), orientation)


def orientation(data: bytes) -> int:
    """What passes for the EXIF orientation."""
    return data[-1] if data.startswith(_MAGIC) else 1


class CodeStream:
    """A file whose header was read."""

    num_channels = 3
    codec_name = "jpeg"

    def __init__(self, data: Any) -> None:
        data = bytes(data)
        if not data.startswith(_MAGIC):
            raise RuntimeError("Failed to get image info")
        self.height, self.width, fate, _ = struct.unpack("<HHBB", data[len(_MAGIC) :])
        self.fate = FATES[fate]


class Image:
    """Memory to decode into, and the stream it was said to be on."""

    def __init__(self, array: Any) -> None:
        interface = array.__cuda_array_interface__
        self.array = array
        self.stream = interface["stream"]
        self.height, self.width = interface["shape"][:2]


def make(order: Order) -> Any:
    """What passes for the ``nvimgcodec`` module."""

    pauses = cycle([0.0, 0.0002, 0.0, 0.0, 0.0001])  # threads overtake each other

    class Decoder:
        def __init__(self, device_id: int = -1, max_num_cpu_threads: int = 0, backends: Any = None) -> None:
            self._device = device_id
            self._thread: int | None = None

        def decode(
            self, source: Any, *, image: Any = None, images: Any = None, params: Any, cuda_stream: int = 0
        ) -> Any:
            if self._thread not in (None, threading.get_ident()):
                order.found("a decoder is used by two threads at a time")
            self._thread = threading.get_ident()
            try:
                if not isinstance(source, list):
                    return self._one(source, image, cuda_stream)
                return [self._one(one, target, cuda_stream) for one, target in zip(source, images, strict=True)]
            finally:
                self._thread = None  # another thread may have it from here on

        def _one(self, source: CodeStream, target: Any, cuda_stream: int) -> Any:
            if source.fate == "memory":
                raise MemoryError("decoder")
            if source.fate == "fails":
                raise RuntimeError("one image made the whole call fail")
            if target is None:  # asked for the reason of a failure
                return None if source.fate == "none" else SimpleNamespace(height=1, width=1)
            if cuda_stream == 0 or target.stream != cuda_stream:
                order.found(f"decoding on stream {cuda_stream:#x} into memory of stream {target.stream:#x}")
            # Also what fails may have been written in part.
            told = {"name": source.fate, "elements": target.array.size, "device": target.array.device.id}
            stream = order.stream_at(self._device, cuda_stream)
            order.enqueue(stream, "decode", writes=[target.array.range], file=source, **told)
            time.sleep(next(pauses))
            if source.fate == "none":
                return None
            return SimpleNamespace(height=1, width=1) if source.fate == "size" else target

    return SimpleNamespace(
        CodeStream=CodeStream,
        Decoder=Decoder,
        Backend=lambda kind, load_hint=1.0: kind,
        HW_GPU_ONLY="hardware",
        HYBRID_CPU_GPU="hybrid",
        GPU_ONLY="gpu",
        CPU_ONLY="cpu",
        ColorSpec=SimpleNamespace(GRAY="gray", SRGB="rgb"),
        DecodeParams=lambda **options: options,
        as_images=lambda arrays: [Image(array) for array in arrays],
    )
