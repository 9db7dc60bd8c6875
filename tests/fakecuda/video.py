"""PyAV as on a machine with NVDEC: the CPU decodes, and FFmpeg's stream writes the frames into the device's memory.

A frame's memory is used again, by what comes next to that stream, as soon as nothing refers to it.
"""

import ctypes
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import av
import numpy as np

from .order import Order

_NULL = 0  # the stream that FFmpeg works on
_PITCH = 256  # bytes that rows begin at a multiple of
_CUDA = 2  # of DLPack's devices
#: NVDEC's format for each that the CPU decodes to, and by how many bits samples are shifted up in its words.
_FORMATS = {"yuv420p": ("nv12", 0), "yuvj420p": ("nv12", 0), "yuv420p10le": ("p010le", 6), "yuv444p": ("yuv444p", 0)}


class Nvdec:
    def __init__(self, order: Order, current_context: Callable[[], int | None]) -> None:
        self.order = order
        self.current_context = current_context
        self.missing = False  # whether there is no such device for FFmpeg
        self.refused: set[str] = set()  # codecs that the decoder does not take, which it says at the first frame
        self.breaks_after: int | None = None  # frames after which each decoder fails
        self.frames = 0  # that were decoded
        self.spare: dict[int, list[int]] = {}
        self.codec = SimpleNamespace(hwaccel=SimpleNamespace(HWAccel=HWAccel))

    def __getattr__(self, name: str) -> Any:
        return getattr(av, name)

    def open(self, file: Any, mode: str, *, hwaccel: Any = None, **options: Any) -> Any:
        if hwaccel is None:
            return av.open(file, mode, **options)
        if self.missing:
            raise av.error.PermissionError(1, "Operation not permitted")
        # FFmpeg wants the device's primary context with other flags than CuPy's runtime has made it with, makes another
        # where it is asked for none, and takes the calling thread's as it is.
        if (hwaccel.options["primary_ctx"], hwaccel.options.get("current_ctx")) != ("0", "1"):
            self.order.found(f"FFmpeg makes a context on device {hwaccel.device}, or wants other flags for it")
        elif self.current_context() != hwaccel.device:
            self.order.found(f"FFmpeg works in the context of device {self.current_context()}, not {hwaccel.device}")
        container = _Container(self, av.open(file, mode, **options), hwaccel.device)
        if not any(stream.codec_context.is_hwaccel for stream in container.streams.video):
            raise RuntimeError("Hardware accelerated decode requested but no stream is compatible")
        return container


class HWAccel:
    """``av.codec.hwaccel.HWAccel``, of frames that stay where they are."""

    def __init__(self, kind: str, device: str, options: Any = None, **others: bool) -> None:
        assert (kind, others) == ("cuda", {"allow_software_fallback": False, "is_hw_owned": True})
        self.device = int(device)
        self.options = {"primary_ctx": "1", **(options or {})}  # PyAV's default


class _Proxy:
    def __init__(self, nvdec: Nvdec, real: Any, device: int, **own: Any) -> None:
        vars(self).update(nvdec=nvdec, real=real, device=device, **own)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.real, name, value)


class _Context(_Proxy):
    @property
    def is_hwaccel(self) -> bool:
        return any(config.device_type.name == "cuda" for config in self.real.codec.hardware_configs or ())


class _Stream(_Proxy):
    def __init__(self, nvdec: Nvdec, real: Any, device: int) -> None:
        context = real.codec_context
        super().__init__(nvdec, real, device, codec_context=context and _Context(nvdec, context, device), decoded=0)

    def decode(self, packet: Any) -> list[Any]:
        frames = self.real.decode(packet)
        if frames and self.real.codec_context.name in self.nvdec.refused:
            raise av.error.InvalidDataError(1094995529, "Invalid data found when processing input")
        vars(self)["decoded"] += len(frames)
        if self.nvdec.breaks_after is not None and self.decoded > self.nvdec.breaks_after:
            raise av.error.ExternalError(542398533, "Generic error in an external library")
        return [Frame(self.nvdec, frame, self.device) for frame in frames]


class _Streams(list[Any]):
    @property
    def video(self) -> list[Any]:
        return [stream for stream in self if stream.type == "video"]


class _Container(_Proxy):
    def __init__(self, nvdec: Nvdec, real: Any, device: int) -> None:
        streams = _Streams(_Stream(nvdec, stream, device) for stream in real.streams)
        super().__init__(nvdec, real, device, streams=streams)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.real.close()

    def demux(self, stream: Any) -> Iterator[Any]:
        found: Iterator[Any] = self.real.demux(stream.real)
        return found

    def seek(self, offset: int, *, stream: Any, backward: bool) -> None:
        self.real.seek(offset, stream=stream.real, backward=backward)


class _Surface:
    def __init__(self, nvdec: Nvdec, size: int, content: Any, device: int) -> None:
        self._nvdec = nvdec
        self.size = size
        order = nvdec.order
        with order.lock:
            spare = nvdec.spare.setdefault(size, [])
            self.low = spare.pop() if spare else order.new_chunk(size)
            memory = self.low, self.low + size
            order.forget(*memory)
            order.content(*memory)[:] = content
            order.enqueue(order.stream_at(device, _NULL), "nvdec", writes=[memory])
            nvdec.frames += 1

    def __del__(self) -> None:
        self._nvdec.spare[self.size].append(self.low)


class Frame:
    def __init__(self, nvdec: Nvdec, frame: Any, device: int) -> None:
        self.pts, self.is_corrupt = frame.pts, frame.is_corrupt
        self.height, self.width = frame.height, frame.width
        self.colorspace, self.color_range = frame.colorspace, frame.color_range
        self.interlaced_frame = frame.interlaced_frame
        name, shift = _FORMATS[frame.format.name]
        self.format, self.sw_format = SimpleNamespace(name="cuda"), SimpleNamespace(name=name)
        samples = [_samples(plane, frame.format) for plane in frame.planes]
        if name != "yuv444p":
            samples = [samples[0] << shift, np.stack(samples[1:], -1).reshape(len(samples[1]), -1) << shift]
        rows = [_pitched(part) for part in samples]
        content = np.concatenate([part.reshape(-1) for part in rows])
        surface = _Surface(nvdec, content.size, content, device)
        starts = np.cumsum([0, *(part.size for part in rows)])
        self.planes = [
            Plane(self, surface, int(start), part, samples[0].dtype, k, device)
            for k, (start, part) in enumerate(zip(starts, rows, strict=False))
        ]


def _samples(plane: Any, kind: Any) -> Any:
    dtype: Any = np.uint16 if kind.components[0].bits > 8 else np.uint8
    rows = np.frombuffer(plane, dtype).reshape(plane.height, -1)
    return rows[:, : plane.width]


def _pitched(samples: Any) -> Any:
    """Bytes of rows that begin at a multiple of the pitch."""
    rows = np.ascontiguousarray(samples).view(np.uint8)
    made = np.zeros((len(rows), -(-rows.shape[1] // _PITCH) * _PITCH), np.uint8)
    made[:, : rows.shape[1]] = rows
    return made


class Plane:
    """``av.VideoPlane`` in a device's memory: as PyAV's, DLPack says less of odd sizes than there is."""

    def __init__(self, frame: Frame, surface: _Surface, start: int, rows: Any, dtype: Any, k: int, device: int) -> None:
        self._surface, self._device, self._dtype = surface, device, dtype
        self._low, self.line_size = surface.low + start, rows.shape[1]
        self._shape = (frame.height, frame.width) if k == 0 else (frame.height // 2, frame.width // 2, 2)
        self._known = frame.sw_format.name != "yuv444p"

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA, self._device

    def __dlpack__(self, *, stream: int | None = None) -> Any:
        if not self._known:
            raise NotImplementedError("unsupported sw_format for DLPack export")
        if stream is not None:
            raise NotImplementedError("CUDA stream synchronization is not supported.")
        steps = (1,) if len(self._shape) == 2 else (2, 1)
        strides = self.line_size, *(step * self._dtype.itemsize for step in steps)
        interface = {"version": 3, "shape": self._shape, "typestr": np.dtype(self._dtype).str, "strides": strides}
        memory = SimpleNamespace(__array_interface__=interface | {"data": (self._low, False)}, owner=self._surface)
        capsule = np.asarray(memory).__dlpack__()
        ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
        tensor = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor")
        (ctypes.c_int32 * 2).from_address(tensor + 8)[:] = self.__dlpack_device__()  # instead of the host's
        return capsule
