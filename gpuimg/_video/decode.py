"""Exact decoding of requested frames: from the preceding key frame until the frame's time is reached."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from .._checks.types import Ints
from ..errors import VideoError
from .files import library
from .index import VideoIndex

# Key frames at most this many packets ahead are reached by decoding on: seeking restarts at a key frame.
_NEAR = 4


#: Open the video, as :func:`gpuimg._video.files.open_video` does.
Open: TypeAlias = Callable[[], AbstractContextManager[tuple[Any, Any]]]


def decoded_frames(open_: Open, index: VideoIndex, wanted: Sequence[int]) -> Generator[tuple[int, Any], None, None]:
    """Yield each requested frame once, with its number, in any order; ``wanted`` is ascending.

    Raises VideoError if the decoded frames differ from the index.
    """
    found = _counted if index.counted else _sought
    left = set(wanted)
    for number, frame in found(open_, index, wanted):
        left.discard(number)
        if (frame.height, frame.width) != (index.height, index.width):
            raise VideoError(
                f"frame {number} is {frame.height} x {frame.width}, but the first one is {index.height} x {index.width}"
            )
        yield number, frame
    if left:
        raise VideoError(f"the decoder does not return frame {min(left)}")


def _counted(open_: Open, index: VideoIndex, wanted: Sequence[int]) -> Iterator[tuple[int, Any]]:
    left = set(wanted)
    last = max(left)
    number = 0
    with open_() as (container, stream):
        for packet in container.demux(stream):
            for frame in stream.decode(packet):
                if number in left:
                    yield _whole(number, frame)
                number += 1
            if number > last:
                return
    raise VideoError(f"it ends after {number} frames; it had {len(index)} when it was opened")


def _sought(open_: Open, index: VideoIndex, wanted: Sequence[int]) -> Iterator[tuple[int, Any]]:
    lost: list[int] = []
    with open_() as (container, stream):
        fresh = True
        for key, frames in _passes(index, wanted):
            lost += yield from _from_nearby(container, stream, index, key, frames, fresh)
            fresh = False
    if lost:
        yield from _from_beginning(open_, index, lost)


def _from_nearby(
    container: Any, stream: Any, index: VideoIndex, key: int, frames: list[int], fresh: bool
) -> Generator[tuple[int, Any], None, list[int]]:
    """Yield frames starting at their key frame, or the one before; return those for which seeking finds neither.

    Decoding cannot always start at a key frame: with gradual refresh, and in H.264 with open GOPs, later frames may
    refer to earlier ones. A decoder that starts one key frame before has them.
    """
    left = {int(index.pts[number]): number for number in frames}
    problem: Exception | None = None
    for first in (key, key - 1) if key else (key,):
        packets = _packets_from(container, stream, index, first, fresh)
        fresh = False
        if packets is None:
            break
        try:
            yield from _matching(stream, packets, int(index.key_pts[key]), left)
        except (VideoError, library().FFmpegError) as error:
            problem = problem or error
        if not left:
            return []
    else:
        raise problem or VideoError(f"the decoder does not return frame {min(left.values())}")
    return list(left.values())


def _from_beginning(open_: Open, index: VideoIndex, frames: list[int]) -> Iterator[tuple[int, Any]]:
    left = {int(index.pts[number]): number for number in frames}
    with open_() as (container, stream):
        packets = _packets_from(container, stream, index, 0, fresh=True)
        yield from _matching(stream, packets or (), int(index.key_pts[0]), left)


def _whole(number: int, frame: Any) -> tuple[int, Any]:
    if frame.is_corrupt:
        raise VideoError(f"frame {number} is damaged")
    return number, frame


def _passes(index: VideoIndex, wanted: Sequence[int]) -> list[tuple[int, list[int]]]:
    """Group frames by the key frame to start at; a frame shortly after another joins its group."""
    passes: list[tuple[int, list[int]]] = []
    reached = -1
    for number in wanted:
        key, position = int(index.key[number]), int(index.position[number])
        if not passes or int(index.key_position[key]) > reached + _NEAR:
            passes.append((key, []))
        passes[-1][1].append(number)
        reached = max(reached, position)
    return passes


def _packets_from(container: Any, stream: Any, index: VideoIndex, key: int, fresh: bool) -> Iterator[Any] | None:
    """Return packets starting at a key frame; None if seeking does not find it, as in containers with shifted times."""
    position, pts = int(index.key_position[key]), int(index.key_pts[key])
    if fresh and key == 0:
        return _from(container.demux(stream), pts)
    for back in (0, 1, 3):  # a container's own index may lead past a key frame
        container.seek(int(index.key_pts[max(key - back, 0)]), stream=stream, backward=True)
        packets = container.demux(stream)
        first = next(packets, None)
        if first is not None and 0 <= _position(index.packets, first.pts) <= position:
            return _from(chain([first], packets), pts)
    return None


def _position(packets: Ints, pts: int | None) -> int:
    """Return a packet's position in decoding order; -1 if the index does not contain it."""
    found = [] if pts is None else np.flatnonzero(packets == pts).tolist()
    return int(found[0]) if found else -1


def _from(packets: Iterator[Any], pts: int) -> Iterator[Any] | None:
    for packet in packets:
        if packet.pts == pts:
            return chain([packet], packets)
    return None


def _matching(stream: Any, packets: Iterable[Any], start: int, left: dict[int, int]) -> Iterator[tuple[int, Any]]:
    """Yield frames by time, in display order, and remove them from ``left``."""
    last = max(left)
    context = stream.codec_context
    for packet in packets:
        # Skip frames that no other frame refers to. Only H.264 reliably marks all frames that others refer to.
        if context.name == "h264":
            context.skip_frame = "DEFAULT" if packet.pts is None or packet.pts in left else "NONREF"
        for frame in _decoded(stream, packet, start):
            if frame.pts in left:
                yield _whole(left[frame.pts], frame)
                del left[frame.pts]
            if not left or (frame.pts is not None and frame.pts > last):
                return


def _decoded(stream: Any, packet: Any, start: int) -> Any:
    """Return the frames decoded from a packet; ignore errors before ``start``, where references may be missing."""
    try:
        return stream.decode(packet)
    except library().FFmpegError:
        if packet.pts is not None and packet.pts < start:
            return ()
        raise
