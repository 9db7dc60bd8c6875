"""Opening of video files with PyAV: one stream, one decoding thread, and errors for any damage."""

import importlib
import io
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

from .._decoding.decoder import over_limit
from .._io.file_bytes import read
from .._io.open_file import open_regular
from .._version import install_hint
from ..errors import VideoError

#: Containers that hold frames themselves. Playlists and the like, which make FFmpeg open other files, are excluded.
_FORMATS = "mov,matroska,avi,mpegts,mpeg,mpegvideo,m4v,h264,hevc,av1,obu,ivf,flv,ogg,asf,mxf,nut,vvc,rm"

# Any damage to the stream is an error: frames decoded in spite of it are not those that were recorded.
_STRICT = {"err_detect": "explode"}


@cache
def library() -> Any:
    """Return the PyAV module."""
    try:
        av = importlib.import_module("av")
    except ImportError as error:
        raise ImportError(f"reading videos needs PyAV; {install_hint('video')}") from error
    if _version(av) < (18, 1):
        raise ImportError(f"reading videos needs PyAV 18.1 or later, not {av.__version__}; {install_hint('video')}")
    return av


def _version(av: Any) -> tuple[int, ...]:
    return tuple(int(part) for part in av.__version__.split(".")[:2])


def video_data(source: Any) -> Any:
    """Return a path unchanged, and the bytes of any other source."""
    return os.fspath(source) if isinstance(source, (str, os.PathLike)) else read(source, sys.maxsize)


def hardware(device: int) -> Any:
    """Return PyAV's settings for decoding on a GPU by NVDEC, with frames left in the GPU's memory.

    Uses the thread's current context, which must be the CUDA runtime's, so that other libraries can access the frames.
    PyAV's default is ``primary_ctx``, which FFmpeg refuses once the runtime has made that context with other flags;
    with neither option it makes a second one. Does not fall back to the CPU.
    """
    return library().codec.hwaccel.HWAccel(
        "cuda", device=str(device), allow_software_fallback=False, is_hw_owned=True,
        options={"primary_ctx": "0", "current_ctx": "1"},
    )  # fmt: skip


@contextmanager
def open_video(data: Any, max_pixels: int, hwaccel: Any = None) -> Iterator[tuple[Any, Any]]:
    """Open the container and video stream of a path or bytes; errors of FFmpeg, also inside, are VideoErrors."""
    av = library()
    with ExitStack() as stack:
        stack.enter_context(ffmpeg_errors(av))
        file = _file(data, stack)
        options = {"protocol_whitelist": "file", "format_whitelist": _FORMATS, "max_pixels": str(max_pixels)}
        # Titles in any encoding are no error: PyAV 19 takes them without being asked.
        lenient = {} if _version(av) >= (19,) else {"metadata_errors": "replace"}
        try:
            container = av.open(file, "r", options=options, hwaccel=hwaccel, **lenient)
        except av.error.ArgumentError as error:  # FFmpeg's error for formats that are not in the list
            raise VideoError(f"{_reason(error)}: not a video container; open_batch reads images, GIF too") from error
        stack.enter_context(container)
        stream = _stream(av, container, max_pixels)
        if hwaccel is not None and not stream.codec_context.is_hwaccel:
            raise VideoError(f"{stream.codec_context.codec.name} decodes on the CPU only")
        yield container, stream


def _file(data: Any, stack: ExitStack) -> Any:
    """Return the argument for PyAV: a path that cannot be taken for a URL, or an open file."""
    if not isinstance(data, str):
        return io.BytesIO(data)
    file = open(data, "rb", opener=open_regular)  # noqa: SIM115 (the stack closes it)
    stack.enter_context(file)
    return f"file:{data}" if data.isprintable() else file


@contextmanager
def ffmpeg_errors(av: Any) -> Iterator[None]:
    """Raise FFmpeg's errors as VideoError, without the file's name, which callers add."""
    try:
        yield
    except VideoError:
        raise
    except (av.FFmpegError, OSError) as error:
        raise VideoError(_reason(error)) from error


def _reason(error: Any) -> str:
    text = str(getattr(error, "strerror", None) or error or type(error).__name__)
    return f"cannot be read: {text}" if isinstance(error, OSError) else text


def _stream(av: Any, container: Any, max_pixels: int) -> Any:
    streams = container.streams.video
    shown = [one for one in streams if not one.disposition & one.disposition.attached_pic]  # covers of audio files
    if not shown:
        kinds = sorted({stream.type for stream in container.streams})
        raise VideoError(f"no video stream, but {', '.join(kinds) or 'no stream at all'}")
    stream = next((one for one in shown if one.disposition & one.disposition.default), shown[0])
    context = stream.codec_context
    if context is None:
        raise VideoError("unknown codec")
    height, width = context.height, context.width
    if height < 1 or width < 1:
        raise VideoError(f"size {height} x {width}")
    if height * width > max_pixels:
        raise VideoError(over_limit(height, width, max_pixels))
    context.thread_count = 1
    context.thread_type = "NONE"
    context.options = {**_STRICT, "max_pixels": str(max_pixels)}
    for other in container.streams:
        if other is not stream:
            other.discard = av.stream.Discard.all
    return stream
