"""Functions that open videos as batches of clips."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from .._checks import arguments
from .._checks.docstrings import documented
from .._checks.keywords import OPENING_HINTS, explained
from .._checks.text import counted
from .._checks.types import Device, Floats, Ints, OnError, PerImage, ShortClips, Table
from .._data.clips import EncodedClips
from .._decoding.decoder import MAX_PIXELS
from .._decoding.options import DecodeOptions
from .._io.file_bytes import Source, SourceNames, check_sources, source_name
from .._runtimes.devices import runtime_for
from .._threads.helpers import each_side_by_side
from .._threads.threads import threads
from .._video.files import library, video_data
from .._video.index import VideoIndex, VideoInfo, read_index
from ..errors import VideoError
from .batch import Batch, recording_of
from .encoded import ON_ERROR
from .recording import Recording

__all__ = ["open_clips", "video_info"]

_COLORS = ("rgb", "gray")  # of decoded frames
_SHORT = ("repeat", "wrap", "error")  # policies for clips that extend past the last frame of their video

#: Return the first frames (N,) of clips, given the frame counts (N,) of their videos; 0 for an unreadable video.
Start = Callable[[Ints], Ints]

#: Return the index of a video, from a path or file bytes, and ``max_pixels``.
ReadIndex = Callable[[Any, int], VideoIndex]


#: For functions of videos.
of_videos = documented(
    returns="",
    setup="""\
>>> import av, gpuimg, io, numpy as np
>>> file = io.BytesIO()
>>> with av.open(file, "w", "mp4") as container:
...     stream = container.add_stream("mpeg4", rate=25, width=64, height=48, pix_fmt="yuv420p")
...     for level in range(0, 100, 10):
...         frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), level, np.uint8))
...         _ = [container.mux(packet) for packet in stream.encode(frame)]
...     _ = [container.mux(packet) for packet in stream.encode(None)]
""",
)


@of_videos
def video_info(source: Source, *, max_pixels: int = MAX_PIXELS) -> VideoInfo:
    """Read the contents of a video: frames, their times, and the key frames among them.

    Parameters
    ----------
    source : path, bytes, bytearray, memoryview, uint8 array or open binary file
    max_pixels : int
        Videos with larger frames are refused.

    Returns
    -------
    VideoInfo
        Lists displayed frames only: an edit list is applied, and frames before the first key frame are omitted.

    Raises
    ------
    VideoError
        A ``ValueError``, with the file's name and the reason, if the video cannot be decoded.
    ImportError
        Without PyAV, the extra ``video``.

    Examples
    --------
    >>> info = gpuimg.video_info(file.getvalue())
    >>> info.height, info.width, info.frames, info.times[:3].tolist(), info.codec
    (48, 64, 10, [0.0, 0.04, 0.08], 'mpeg4')
    """
    arguments.whole_number(max_pixels, "max_pixels")
    name, data = source_name(source), video_data(source)
    try:
        return read_index(data, max_pixels).info()
    except VideoError as error:
        raise VideoError(f"{name}: {error}") from error


@explained(OPENING_HINTS)
@of_videos
def open_clips(
    sources: Sequence[Source],
    frames: int,
    stride: PerImage = 1,
    *,
    start: PerImage = 0,
    times: Table | None = None,
    short: ShortClips = "repeat",
    device: Device | None = None,
    color: Literal["rgb", "gray"] = "rgb",
    on_error: OnError = "raise",
    max_pixels: int = MAX_PIXELS,
) -> Batch:
    """Open clips of videos, one from each source; frames are decoded when results of the batch are requested.

    Parameters
    ----------
    sources : sequence
        Paths, ``bytes``, ``bytearray``, ``memoryview``, uint8 arrays of file bytes, or open binary files. For several
        clips of a video, list it several times. Files given by path are read again when the batch runs.
    frames : int
        Frames of each clip, T.
    stride : int or (N,) int
        Step between frames: 1 takes all, 2 every other one.
    start : int or (N,) int
        Number of the first frame, from 0.
    times : (N, T) float, optional
        Instead of start and stride: seconds by the file's own clock (see :func:`video_info`); each selects the frame
        displayed at that time. Clips of videos with a variable frame rate are then evenly spaced.
    short : {"repeat", "wrap", "error"}
        For a clip that extends past the video's end: repeat the last frame, continue with the first ones, or fail.
    device : str, optional
        As in :func:`open_batch`.
    color : {"rgb", "gray"}
        3 or 1 channels; gray is luma.
    on_error : {"raise", "fill"}
        ``"raise"``: one :class:`DecodeError` that names every bad clip. ``"fill"``: all frames of a bad clip are black
        (1 x 1 pixel if its video cannot be read), and ``batch.status`` and ``batch.errors`` give the reasons by clip.
    max_pixels : int
        Videos with larger frames are bad.

    Returns
    -------
    Batch
        N * T images, the T frames of each clip one after another; ``batch.frames`` is T. Every function accepts it.
        Random functions draw once for each clip from an :class:`Rng` of N samples, and once for each frame from one of
        N * T. ``array(layout="NTHWC")`` and so on return it with a time axis.

    Raises
    ------
    DecodeError
        Naming index, source and reason of every clip that cannot be opened.
    ValueError, TypeError
        For unknown names, numbers out of range, or a source of another type.
    ImportError
        Without PyAV, the extra ``video``.

    Notes
    -----
    Frames are exact, in whatever order they are stored: decoding starts at the preceding key frame, and continues
    until the requested time is reached. Damage in any frame decoded on the way is a failure. Colors are converted by
    the matrix and range that the video names, or BT.601 and limited range (gray: full range) if it names none; a matrix
    that is not supported is a failure. Wide-gamut and high dynamic range colors are not tone-mapped. Sample aspect
    ratios are not applied. Interlaced frames stay interlaced; their fields are converted to RGB separately.

    Examples
    --------
    >>> x = gpuimg.open_clips([file.getvalue()] * 2, frames=4, stride=2, start=[0, 1], device="cpu")
    >>> x = gpuimg.random_resized_crop(x, 32, rng=0)
    >>> x.frames, x.array(layout="NTHWC").shape
    (4, (2, 4, 32, 32, 3))
    """
    check_sources(sources)
    n, frames = len(sources), arguments.whole_number(frames, "frames")
    begin = arguments.per_image(start, n, "start", low=0, whole=True, each="clip").astype(np.int64)
    moments = _times(times, n, frames, start, stride)
    return open_from(sources, frames, stride, lambda *_: begin, short, device, color, on_error, max_pixels, moments)


def open_from(
    sources: Sequence[Source], frames: int, stride: PerImage, start: Callable[[Ints, Ints], Ints], short: str,
    device: Device | None, color: str, on_error: str, max_pixels: int, times: Any = None,
) -> Batch:  # fmt: skip
    """Return clips whose first frames ``start`` returns, given their strides (N,) and the videos' frame counts (N,)."""
    steps = arguments.per_image(stride, len(sources), "stride", low=1, whole=True, each="clip").astype(np.int64)
    runtime, options = runtime_for(device), DecodeOptions(color, max_pixels=max_pixels)
    names = SourceNames(sources)
    clips = clips_of(sources, names, frames, steps, partial(start, steps), short, options, on_error, times)
    return Batch(Recording.start(runtime, clips))


def _times(times: Any, n: int, frames: int, start: Any, stride: Any) -> Any:
    if times is None:
        return None
    if not (np.ndim(start) == 0 and start == 0 and np.ndim(stride) == 0 and stride == 1):
        raise ValueError("pass either times, or start and stride")
    found = arguments.finite(times, "times")
    if found.shape != (n, frames):
        raise ValueError(f"times must have shape ({n}, {frames}), clips and frames, not {found.shape}")
    return found


def clips_of(
    sources: Sequence[Any], names: Sequence[str], frames: int, stride: Ints, start: Start, short: str,
    options: DecodeOptions, on_error: str, times: Any = None, read: ReadIndex = read_index,
) -> EncodedClips:  # fmt: skip
    """Read the indexes of videos on all threads, and select frames; see :func:`open_clips`."""
    arguments.one_of(options.color, "color of videos", _COLORS)
    arguments.one_of(on_error, "on_error", ON_ERROR)
    check_short(short)
    library()
    data: list[Any] = []
    clips_by_video: dict[Any, list[int]] = {}  # the index of a video is read once for all of its clips
    given = list(sources)  # their ids are those of different objects as long as all exist
    for i, source in enumerate(given):
        path = os.fspath(source) if isinstance(source, (str, os.PathLike)) else None
        several = clips_by_video.setdefault(path or id(source), [])
        data.append(data[several[0]] if several else _data(source, i))
        several.append(i)
    videos: list[VideoIndex | None] = [None] * len(data)
    refused: dict[int, str] = {}

    def work(several: list[int]) -> None:
        try:
            video = read(data[several[0]], options.max_pixels)
        except VideoError as error:
            refused.update(dict.fromkeys(several, str(error)))
        else:
            for i in several:
                videos[i] = video

    each_side_by_side(work, clips_by_video.values(), min(threads(), len(clips_by_video)))
    counts = np.array([0 if video is None else len(video) for video in videos], np.int64)
    if times is None:
        numbers, mismatches = _numbers_from(start(counts), frames, stride, counts, short)
    else:
        numbers, mismatches = _numbers_at(times, videos)
    clips = EncodedClips(data, videos, numbers, names, options, on_error)
    clips.record_failures(dict(sorted(refused.items())) | mismatches)
    return clips


def check_short(short: Any) -> None:
    arguments.one_of(short, "short", _SHORT)


def _data(source: Any, i: int) -> Any:
    try:
        return video_data(source)
    except TypeError as error:
        raise TypeError(f"sources[{i}]: {error}") from error


def _numbers_from(start: Ints, frames: int, stride: Ints, counts: Ints, short: str) -> tuple[Ints, dict[int, str]]:
    """Return frame numbers (N, T) from start and stride, and reasons for clips without frames, by clip.

    ``counts`` are the frames of each video, 0 for one that could not be read.
    """
    numbers = start[:, None] + stride[:, None] * np.arange(frames)
    known = np.maximum(counts, 1)[:, None]
    refused = {}
    for k in np.flatnonzero((counts > 0) & ((start >= counts) | (start < 0))).tolist():
        refused[k] = f"start must be from 0 to {counts[k] - 1}, the last frame, not {start[k]}"
    if short == "error":
        for k in np.flatnonzero((counts > 0) & (numbers[:, -1] >= counts)).tolist():
            refused[k] = (
                f"it has {counted(int(counts[k]), 'frame')}, but frames {start[k]} to {numbers[k, -1]} were requested"
            )
    numbers = numbers % known if short == "wrap" else np.minimum(numbers, known - 1)
    numbers[[*refused, *np.flatnonzero(counts == 0).tolist()]] = 0
    return numbers, refused


def _numbers_at(times: Floats, videos: Sequence[VideoIndex | None]) -> tuple[Ints, dict[int, str]]:
    """Return the numbers of the frames displayed at times (N, T), in seconds, and reasons for clips without frames."""
    numbers = np.zeros(times.shape, np.int64)
    refused = {}
    for k, video in enumerate(videos):
        if video is None:
            continue
        # Half a microsecond of tolerance: a time computed from a frame's own time selects that frame despite rounding.
        found = np.searchsorted(video.times, times[k] + 0.5e-6, side="right") - 1
        end = video.end * video.tick
        outside = (found < 0) | (times[k] >= end)
        if outside.any():
            bad = float(times[k][outside][0])
            refused[k] = f"times must be from {video.times[0]:g} to below {end:g} seconds, not {bad:g}"
        else:
            numbers[k] = found
    return numbers, refused


def as_clips(clips: Any) -> Batch:
    """Return a batch of a caller's clips: a Batch of clips, (T, H, W, C) arrays or one (N, T, H, W, C) array."""
    if isinstance(clips, Batch):
        if clips.frames is None:
            raise TypeError("clips must be a batch of gpuimg.open_clips, or arrays; this batch has images")
        return clips
    listed = isinstance(clips, (list, tuple))
    shapes = [np.shape(clip) for clip in clips] if listed else [np.shape(clips)[1:]]
    if not shapes or any(len(shape) != 4 or shape[0] < 1 or shape[0] != shapes[0][0] for shape in shapes):
        raise ValueError(f"clips must have shapes (T, H, W, C) of one T, at least 1, not {sorted(set(shapes))}")
    frames = [frame for clip in clips for frame in clip] if listed else clips.reshape(-1, *shapes[0][1:])
    before = recording_of(frames)
    return Batch(replace(before, source=replace(before.source, frames=shapes[0][0])))
