"""Functions that open videos as batches of clips."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from .._checks import arguments
from .._checks.docstrings import documented
from .._checks.types import Device, Ints, OnError, PerImage, ShortClips, Table
from .._data.clips import EncodedClips
from .._decoding.decoder import MAX_PIXELS
from .._decoding.options import DecodeOptions
from .._io.file_bytes import Source, SourceNames, check_sources, describe
from .._runtimes.devices import runtime_for
from .._threads.team import each_side_by_side
from .._threads.threads import threads
from .._video.files import library, video_data
from .._video.frame_numbers import SHORT, numbers_at, numbers_from
from .._video.index import VideoIndex, VideoInfo, read_index
from ..errors import VideoError
from .batch import Batch
from .encoded import ON_ERROR
from .recording import Recording

#: Colors of decoded frames.
COLORS = ("rgb", "gray")

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
    name, data = describe(source), video_data(source)
    try:
        return read_index(data, max_pixels).info()
    except VideoError as error:
        raise VideoError(f"{name}: {error}") from error


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
    the matrix and range that the video names, or BT.601 and limited range if it names none; wide-gamut and high
    dynamic range colors are not tone-mapped. Sample aspect ratios are not applied, and fields are not separated.

    Examples
    --------
    >>> x = gpuimg.open_clips([file.getvalue()] * 2, frames=4, stride=2, start=[0, 1], device="cpu")
    >>> x = gpuimg.random_resized_crop(x, 32, rng=0)
    >>> x.frames, x.array(layout="NTHWC").shape
    (4, (2, 4, 32, 32, 3))
    """
    n = source_count(sources)
    frames = arguments.whole_number(frames, "frames")
    begin = arguments.per_image(start, n, "start", low=0, whole=True, each="clip").astype(np.int64)
    runtime = runtime_for(device)
    clips = clips_of(
        sources, SourceNames(sources), frames, strides(stride, n), lambda counts: begin, short,
        clip_options(color, max_pixels), on_error, _times(times, n, frames, start, stride),
    )  # fmt: skip
    return Batch(Recording(runtime, clips))


def source_count(sources: Any) -> int:
    """Return the number of sources; refuse anything but a list of sources."""
    check_sources(sources)
    return len(sources)


def strides(stride: Any, n: int) -> Ints:
    """Return the steps (N,) between the frames of each clip."""
    return arguments.per_image(stride, n, "stride", low=1, whole=True, each="clip").astype(np.int64)


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
    sources: Sequence[Any],
    names: Sequence[str],
    frames: int,
    stride: Ints,
    start: Start,
    short: str,
    options: DecodeOptions,
    on_error: str,
    times: Any = None,
    read: ReadIndex = read_index,
) -> EncodedClips:
    """Read the indexes of videos on all threads, and select frames; see :func:`open_clips`."""
    arguments.one_of(options.color, "color of videos", COLORS)
    arguments.one_of(on_error, "on_error", ON_ERROR)
    check_short(short)
    library()
    given, read_once = list(sources), dict[int, Any]()  # indexes are made once for each of several clips of a video
    for i, source in enumerate(given):
        try:
            if id(source) not in read_once:
                read_once[id(source)] = video_data(source)
        except TypeError as error:
            raise TypeError(f"sources[{i}]: {error}") from error
    data = [read_once[id(source)] for source in given]
    videos, refused = _indexes(data, options.max_pixels, read)
    counts = np.array([0 if video is None else len(video) for video in videos], np.int64)
    if times is None:
        numbers, mismatches = numbers_from(start(counts), frames, stride, counts, short)
    else:
        numbers, mismatches = numbers_at(times, videos)
    clips = EncodedClips(data, videos, numbers, names, options, on_error)
    clips.record_failures(refused | mismatches)
    return clips


def clip_options(color: str, max_pixels: int) -> DecodeOptions:
    """Return the decode options of videos."""
    arguments.one_of(color, "color of videos", COLORS)
    return DecodeOptions(color, max_pixels=max_pixels)


def check_short(short: Any) -> None:
    """Refuse an unknown policy for short videos."""
    arguments.one_of(short, "short", SHORT)


def _indexes(data: list[Any], max_pixels: int, read: ReadIndex) -> tuple[list[VideoIndex | None], dict[int, str]]:
    """Return indexes of videos, None for those refused, and the reasons; a video listed several times is read once."""
    places: dict[Any, list[int]] = {}
    for i, one in enumerate(data):
        places.setdefault(one if isinstance(one, str) else id(one), []).append(i)
    videos: list[VideoIndex | None] = [None] * len(data)
    refused: dict[int, str] = {}

    def work(several: list[int]) -> None:
        try:
            video = read(data[several[0]], max_pixels)
        except VideoError as error:
            refused.update(dict.fromkeys(several, str(error)))
        else:
            for i in several:
                videos[i] = video

    each_side_by_side(work, places.values(), min(threads(), len(places)))
    return videos, dict(sorted(refused.items()))
