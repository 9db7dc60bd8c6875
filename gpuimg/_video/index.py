"""Index of a video's frames: their times, and the key frame from which each is decoded.

Exact clips depend on this index. All packets are read once, without decoding: a frame is displayed at its packet's
presentation time, unless an edit list excludes it. Frames before the first key frame, which a decoder cannot decode,
are excluded too. If a container stores no presentation times (raw streams, AVI with reordered frames), or hides
frames among its packets (VP8), frames are counted by decoding the whole video.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .._checks.types import Floats, Ints
from .._decoding import exif
from ..errors import VideoError
from .files import library, open_video

_FIRST_PACKETS = 64  # packets decoded, at most, to get a first frame


class VideoInfo(NamedTuple):
    """The contents of a video.

    Attributes
    ----------
    height, width : int
        Size in pixels as displayed.
    frames : int
        Number of frames.
    times : (frames,) float64
        Seconds at which each frame is displayed, by the file's own clock: the first one is not always 0.
    duration : float
        Seconds from the first frame to the end of the last one.
    keyframes : (K,) int64
        Frames that are decoded without any other frame: decoding starts there.
    codec : str
        ``"h264"``, ``"hevc"``, ``"av1"``, ``"vp9"`` and so on.
    orientation : int
        Orientation for displaying stored frames, as in EXIF, 1 to 8; 1 for unchanged.

    Examples
    --------
    >>> import gpuimg
    >>> info = gpuimg.video_info("clip.mp4")  # doctest: +SKIP
    >>> info.frames, info.height, info.width  # doctest: +SKIP
    (250, 720, 1280)
    """

    height: int
    width: int
    frames: int
    times: Floats
    duration: float
    keyframes: Ints
    codec: str
    orientation: int


@dataclass(frozen=True)
class VideoIndex:
    """The frames of one video in display order."""

    height: int  # as stored
    width: int
    orientation: int
    codec: str
    tick: float  # seconds per unit of pts
    pts: Ints  # (F,) presentation times; frame numbers if counted
    end: int  # end of the last frame, in ticks
    position: Ints  # (F,) position of each frame in decoding order
    key: Ints  # (F,) index of the key frame from which each is decoded
    key_position: Ints  # (K,) positions of the key frames
    key_pts: Ints  # (K,)
    packets: Ints  # (P,) presentation times of all packets in decoding order
    counted: bool = False  # True if there are no times to seek by

    def __len__(self) -> int:
        return len(self.pts)

    @property
    def times(self) -> Floats:
        """(F,) presentation times in seconds."""
        return self.pts * np.float64(self.tick)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width as displayed."""
        swapped = exif.swaps_sides(self.orientation)
        return (self.width, self.height) if swapped else (self.height, self.width)

    def info(self) -> VideoInfo:
        """Return the public description."""
        height, width = self.size
        own = np.searchsorted(self.pts, self.key_pts[np.unique(self.key)])
        keyframes = own[self.pts[np.minimum(own, len(self) - 1)] == self.key_pts[np.unique(self.key)]]
        duration = float(self.end - self.pts[0]) * self.tick
        return VideoInfo(
            height, width, len(self), self.times, duration, keyframes.astype(np.int64), self.codec, self.orientation
        )


class _Packets(NamedTuple):
    """Fields of all packets, in decoding order."""

    pts: list[int | None]
    keys: list[bool]
    hidden: list[bool]  # excluded by an edit list
    durations: list[int]


def read_index(data: Any, max_pixels: int) -> VideoIndex:
    """Read the index of a video; raise VideoError if it has no frame that can be decoded."""
    with open_video(data, max_pixels) as (container, stream):
        packets, first = _read_packets(container, stream)
        if _has_times(container, stream, packets):
            return _of_packets(packets, stream, first)
    with open_video(data, max_pixels) as (container, stream):
        return _of_frames(container, stream, first)


#: Height, width and orientation of the first frame, which all frames share, and the codec.
_First: TypeAlias = tuple[int, int, int, str]

# EXIF orientations by the signs of four entries of a display matrix (ISO/IEC 14496-12, 8.3.2): x and y of a step along
# a row, then of a step down a column.
_ORIENTATIONS = {
    (1, 0, 0, 1): 1, (-1, 0, 0, 1): 2, (-1, 0, 0, -1): 3, (1, 0, 0, -1): 4,
    (0, 1, 1, 0): 5, (0, 1, -1, 0): 6, (0, -1, -1, 0): 7, (0, -1, 1, 0): 8,
}  # fmt: skip


def _orientation(frame: Any) -> int:
    """Return the EXIF orientation of the display matrix; 1 for other than quarter turns and flips."""
    found = frame.side_data.get("DISPLAYMATRIX")
    if found is None:
        return 1
    matrix = np.frombuffer(bytes(found), "<i4", 9)
    return _ORIENTATIONS.get(tuple(np.sign(matrix[[0, 1, 3, 4]]).tolist()), 1)


def _read_packets(container: Any, stream: Any) -> tuple[_Packets, _First]:
    """Read all packets; decode only the first ones, until a frame is returned."""
    found = _Packets([], [], [], [])
    first: _First | None = None
    left = _FIRST_PACKETS
    for packet in container.demux(stream):
        if first is None and left and (left < _FIRST_PACKETS or packet.is_keyframe):
            left -= 1
            with suppress(library().FFmpegError):  # reported when these frames are decoded
                for frame in stream.decode(packet):
                    codec = stream.codec_context.codec.canonical_name  # not that of the library that decodes it
                    first = frame.height, frame.width, _orientation(frame), codec
                    break
        if packet.size:  # the last packet is empty
            found.pts.append(packet.pts)
            found.keys.append(packet.is_keyframe)
            found.hidden.append(packet.is_discard)
            found.durations.append(packet.duration or 0)
    if first is None:
        raise VideoError("no frame can be decoded" if found.pts else "it contains no frame")
    return found, first


def _has_times(container: Any, stream: Any, packets: _Packets) -> bool:
    """Return True if each packet is one frame that is displayed at the packet's time."""
    if None in packets.pts or len(set(packets.pts)) < len(packets.pts) or stream.codec_context.name == "vp8":
        return False
    return container.format.name != "avi" or not stream.codec_context.has_b_frames


def _of_packets(packets: _Packets, stream: Any, first: _First) -> VideoIndex:
    pts = np.array(packets.pts, np.int64)
    keys = np.flatnonzero(packets.keys)
    key_pts = pts[keys]
    shown = np.flatnonzero(~np.array(packets.hidden, np.bool_))
    key = _last_key(shown, pts[shown], keys, key_pts)
    shown, key = shown[key >= 0], key[key >= 0]
    if not len(shown):
        raise VideoError("no frame can be decoded: it has no key frame" if len(pts) else "it contains no frame")
    order = np.argsort(pts[shown])
    shown, key = shown[order], key[order]
    last = int(shown[-1])
    return VideoIndex(
        *first, float(stream.time_base), pts[shown], int(pts[last]) + packets.durations[last],
        shown, key, keys, key_pts, pts,
    )  # fmt: skip


def _last_key(position: Ints, pts: Ints, keys: Ints, key_pts: Ints) -> Ints:
    """Return the last key frame decoded before each frame and not displayed after it; -1 if there is none.

    A frame decoded after a key frame but displayed before it may refer to earlier frames: an open GOP.
    """
    key = np.searchsorted(keys, position, side="right") - 1
    late = (key >= 0) & (key_pts[key] > pts)
    while late.any():
        key[late] -= 1
        late = (key >= 0) & (key_pts[key] > pts)
    return key.astype(np.int64)


def _of_frames(container: Any, stream: Any, first: _First) -> VideoIndex:
    """Build the index by decoding everything: frames are numbered in output order, at the video's frame rate."""
    n = sum(len(stream.decode(packet)) for packet in container.demux(stream))
    if not n:
        raise VideoError("it contains no frame")
    none, zeros = np.zeros(0, np.int64), np.zeros(n, np.int64)
    rate = stream.guessed_rate or stream.average_rate or 25
    tick = float(1 / rate)
    return VideoIndex(
        *first, tick, np.arange(n), n, zeros, zeros, np.zeros(1, np.int64), np.zeros(1, np.int64),
        none, counted=True,
    )  # fmt: skip
