"""Clips decoded by a GPU: NVDEC, through PyAV, writes frames to the GPU's memory, and a kernel converts them to pixels.

FFmpeg works on the legacy default stream, and returns a frame before its work on that stream is done: the kernel's
stream waits for an event there. FFmpeg does not know the kernel's stream, and reuses the memory of frames that nothing
refers to any more: a frame is kept alive until the host has waited for the kernel that reads it.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

import cupy
import numpy as np

from .._checks.types import Ints
from .._data.clips import EncodedClips
from .._data.images import Pixels
from .._decoding import exif
from .._threads.helpers import SharedIterator, side_by_side
from .._video.convert import Surface, surface_of
from .._video.decode import decoded_frames
from .._video.files import hardware, open_video
from ..kernels import cuda as kernels
from .cuda_launch import launch
from .cuda_memory import event_after, follow

#: Clips decoded at a time, each with a separate thread and container. Not measured: an H100 has 7 engines.
AT_ONCE = 4
_HELD = 4  # frames of a clip that kernels may still be reading
_DEFAULT_STREAM = 0


class _Bare:
    """A plane for CuPy's import: PyAV accepts none of the options that CuPy passes, and does no stream ordering."""

    def __init__(self, plane: Any) -> None:
        self._plane = plane

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self._plane.__dlpack_device__()
        return device

    def __dlpack__(self, **_: Any) -> Any:
        return self._plane.__dlpack__()


class _RefusedError(Exception):
    """The reason for which a clip is not decoded on this GPU."""


class _Frame(NamedTuple):
    """A frame's planes as flat arrays, which keep its memory alive."""

    surface: Surface
    planes: list[Any]


class _Target(NamedTuple):
    """Destination of the frames of a batch."""

    flat: Any
    channels: int
    regions: Ints  # (N * T, 4) of frames as stored
    places: Ints  # (N * T, 3), see Pixels.stored_places


def decode_clips(
    index: int, clips: EncodedClips, pixels: Pixels, regions: Ints, stream: Any, at_once: int
) -> dict[int, str]:
    """Decode regions (N * T, 4) of clips on a GPU, except those that failed before; return reasons for refused clips.

    On return, all work is enqueued on the stream, and no longer reads a decoder's memory.
    """
    turns = np.array([1 if video is None else video.orientation for video in clips.videos], np.int64)
    turns = np.repeat(turns, clips.frames)
    stored = exif.stored_regions(regions, clips.sizes, turns)
    target = _Target(pixels.flat, pixels.channels, stored, pixels.stored_places(turns))
    chosen = [clip for clip in range(len(clips.data)) if clip not in clips.failures]
    left = SharedIterator(chosen)
    refused: dict[int, str] = {}

    def work() -> None:
        with cupy.cuda.Device(index), stream:
            # CuPy does not call this for a device that is current already, and a new thread has no context yet.
            cupy.cuda.runtime.setDevice(index)
            try:
                for clip in left:
                    try:
                        _decode_clip(index, clips, clip, target, stream.ptr)
                    except _RefusedError as error:
                        refused[clip] = str(error)
            except BaseException:
                deque(left, 0)  # leave nothing for the other threads
                raise

    side_by_side(work, min(at_once, len(chosen)) - 1)
    return dict(sorted(refused.items()))


def _decode_clip(index: int, clips: EncodedClips, clip: int, target: _Target, stream: int) -> None:
    numbers = clips.numbers[clip]
    held: deque[tuple[_Frame, Any]] = deque()
    try:
        for number, frame in _frames(index, clips, clip):
            follow(stream, _DEFAULT_STREAM)
            for t in np.flatnonzero(numbers == number).tolist():
                _convert(frame, target, clip * clips.frames + t, stream)
            held.append((frame, event_after(stream)))
            if len(held) > _HELD:
                held[0][1].synchronize()
                held.popleft()  # not earlier: another clip's decoder would reuse its memory
    finally:
        event_after(stream).synchronize()


def _frames(index: int, clips: EncodedClips, clip: int) -> Iterator[tuple[int, _Frame]]:
    """Yield the frames of a clip by number.

    Any error of PyAV on this GPU is a reason to refuse the clip: if the video is at fault, the CPU decoder reports why.
    """
    video = clips.videos[clip]
    assert video is not None
    open_ = partial(open_video, clips.data[clip], clips.options.max_pixels, hardware(index))
    with closing(decoded_frames(open_, video, np.unique(clips.numbers[clip]).tolist())) as frames:
        while True:
            try:
                number, frame = next(frames)
                on_device = _frame_of(frame, index)
            except StopIteration:
                return
            except Exception as error:
                raise _RefusedError(str(error) or type(error).__name__) from error
            yield number, on_device


def _frame_of(frame: Any, device: int) -> _Frame:
    """Return a frame as one-dimensional arrays that cover all samples the kernel may read."""
    surface = surface_of(frame)
    dtype = np.dtype(surface.dtype)
    planes = []
    for plane, count in zip(frame.planes, surface.counts, strict=True):
        array = cupy.from_dlpack(_Bare(plane))
        memory = cupy.cuda.UnownedMemory(array.data.ptr, count * dtype.itemsize, array, device)
        planes.append(cupy.ndarray((count,), dtype, cupy.cuda.MemoryPointer(memory, 0)))
    return _Frame(surface, planes)


def _convert(frame: _Frame, target: _Target, row: int, stream: int) -> None:
    """Enqueue the kernel that converts a frame, or both of its fields, into one row of the batch."""
    kernel = kernels.FRAMES["frame8" if frame.surface.dtype == "uint8" else "frame16"]
    for pixels, starts, numbers in frame.surface.launches(target.regions[row], target.channels, target.places[row]):
        planes = [plane[start:] for plane, start in zip(frame.planes, starts, strict=True)]
        launch(kernel, stream, (-(-pixels // kernel.block), 1), *planes, *numbers, target.flat)
