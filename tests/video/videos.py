"""Videos of every build, each frame with its number burnt in, and what plain sequential decoding makes of them."""

import io
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.common import usual_priority

from ..libraries import library

av = library("av")

HEIGHT, WIDTH = 64, 96
FRAMES = 70
_BITS = 16
_ROWS, _COLUMNS = 4, 4  # of blocks, one for each bit

Image = NDArray[np.uint8]


def picture(number: int) -> Image:
    """A gray picture with a number in black and white blocks, and something that moves in front of it."""
    bits = number >> np.arange(_BITS) & 1
    blocks = np.where(bits, 235, 16).astype(np.uint8).reshape(_ROWS, _COLUMNS)
    image = np.repeat(np.repeat(blocks, HEIGHT // _ROWS, 0), WIDTH // _COLUMNS, 1)
    x = 5 * number % (WIDTH - 3)
    image[:, x : x + 3] = 128
    return image


def number_in(image: NDArray[Any]) -> int:
    blocks = image.reshape(_ROWS, HEIGHT // _ROWS, _COLUMNS, WIDTH // _COLUMNS)
    bits = np.median(blocks, (1, 3)).reshape(-1) > 126
    return int((bits << np.arange(_BITS)).sum())


class Build(NamedTuple):
    codec: str
    ending: str = "mp4"
    options: dict[str, str] = {}  # noqa: RUF012  (never changed)
    gop: int = 12
    pix_fmt: str = "yuv420p"
    times: bool = False  # of a variable frame rate
    shift: int = 0  # frames that an edit list hides
    dropped: int = 0  # packets cut off at the beginning
    mux: dict[str, str] = {}  # noqa: RUF012
    turn: tuple[float, bool, bool] | None = None  # degrees counter-clockwise, and mirrored along x and y
    tags: tuple[int, int] = (2, 0)  # matrix coefficients and range


_AVC = {"x264-params": "bframes=5:b-pyramid=normal:open-gop=1:keyint=12:min-keyint=12:scenecut=0"}
_HEVC = {"x265-params": "log-level=none:bframes=4:open-gop=1:keyint=12:min-keyint=12:scenecut=0"}
_VP9 = {"auto-alt-ref": "1", "lag-in-frames": "12", "cpu-used": "8", "deadline": "realtime"}
_SOFT = {"bf": "2", "b": "2000000"}

BUILDS = {
    "h264": Build("libx264", options={"bf": "3"}),
    "h264 without b-frames": Build("libx264", options={"bf": "0"}),
    "h264 intra": Build("libx264", gop=1),
    "h264 one key frame": Build("libx264", options={"bf": "3", "sc_threshold": "0"}, gop=250),
    "h264 open gop": Build("libx264", options=_AVC),
    "h264 open gop mkv": Build("libx264", "matroska", _AVC),
    "h264 open gop ts": Build("libx264", "mpegts", _AVC),
    "h264 refreshed": Build("libx264", options={"x264-params": "intra-refresh=1:keyint=20:bframes=0"}),
    "h264 vfr": Build("libx264", options={"bf": "2"}, times=True),
    "h264 vfr mkv": Build("libx264", "matroska", {"bf": "2"}, times=True),
    "h264 edit list": Build("libx264", options={"bf": "3"}, shift=17),
    "h264 fragments": Build("libx264", options={"bf": "3"}, mux={"movflags": "frag_keyframe+empty_moov"}),
    "h264 avi": Build("libx264", "avi", {"bf": "3"}),
    "h264 raw": Build("libx264", "h264", {"bf": "3"}),
    "hevc": Build("libx265", options=_HEVC),
    "hevc mkv": Build("libx265", "matroska", _HEVC),
    "hevc cut ts": Build("libx265", "mpegts", _HEVC, dropped=15),
    "hevc 10 bits": Build("libx265", options={"x265-params": "log-level=none:bframes=3"}, pix_fmt="yuv420p10le"),
    "av1": Build("libsvtav1", options={"preset": "10", "crf": "1", "svtav1-params": "lp=1:lossless=1"}),
    "vp9": Build("libvpx-vp9", "webm", _VP9),
    "vp8": Build("libvpx", "webm", {"auto-alt-ref": "1", "lag-in-frames": "12", "cpu-used": "8", "deadline": "good"}),
    "mpeg4 avi": Build("mpeg4", "avi", _SOFT),
    "mpeg2 ps": Build("mpeg2video", "mpeg", _SOFT),
    "mpeg2 ts": Build("mpeg2video", "mpegts", _SOFT),
}


@cache
def times() -> list[int]:
    return [int(time) for time in np.cumsum(np.random.default_rng().integers(7, 120, FRAMES))]


@cache
def made(name: str) -> bytes:
    return make(BUILDS[name])


def make(build: Build, pictures: Callable[[int], Any] = picture, frames: int = FRAMES) -> bytes:
    file = io.BytesIO()
    base = Fraction(1, 1000 if build.times else 25)
    seen = 0
    with usual_priority(), av.open(file, "w", build.ending, options=dict(build.mux)) as container:
        stream = container.add_stream(build.codec, rate=25, options=dict(build.options))
        first = as_frame(pictures(0), build)
        stream.width, stream.height = first.width, first.height
        stream.pix_fmt, stream.gop_size = build.pix_fmt, build.gop
        stream.codec_context.time_base = base
        stream.codec_context.thread_count = 1
        stream.codec_context.colorspace, stream.codec_context.color_range = build.tags
        if build.turn is not None:
            stream.set_display_rotation(build.turn[0], hflip=build.turn[1], vflip=build.turn[2])
        for number in range(frames + 1):
            frame = None
            if number < frames:
                frame = as_frame(pictures(number), build)
                frame.pts, frame.time_base = times()[number] if build.times else number, base
            for packet in stream.encode(frame):
                seen += 1
                if build.shift:
                    packet.pts, packet.dts = packet.pts - build.shift, packet.dts - build.shift
                if seen > build.dropped:
                    container.mux(packet)
    return file.getvalue()


def as_frame(image: Any, build: Build) -> Any:
    if not isinstance(image, np.ndarray):
        return image
    chroma = np.full((image.shape[0] // 2, image.shape[1]), 128, np.uint8)
    frame = av.VideoFrame.from_ndarray(np.concatenate([image, chroma]), "yuv420p")
    return frame if build.pix_fmt == "yuv420p" else frame.reformat(format=build.pix_fmt)


class Shown(NamedTuple):
    seconds: float | None
    frame: Any
    number: int


def sequentially(data: bytes) -> list[Shown]:
    with av.open(io.BytesIO(data)) as container:
        frames = container.decode(container.streams.video[0])
        return [Shown(frame.time, frame, number_in(plane(frame, 0))) for frame in frames]


def plane(frame: Any, k: int) -> NDArray[Any]:
    one = frame.planes[k]
    kind = np.uint16 if frame.format.components[0].bits > 8 else np.uint8
    rows = np.frombuffer(one, kind).reshape(-1, one.line_size // np.dtype(kind).itemsize)
    return rows[: one.height, : one.width]


def at_luma(chroma: Any, shape: tuple[int, int], bits: int, phase: float = 0.0) -> Any:
    """A plane of chroma at the size of luma: repeated, or interpolated where swscale does so, ``phase`` rows higher."""
    (height, width), (rows, columns) = shape, chroma.shape
    if columns == width and rows == height:
        return chroma
    repeated = bits == 8 and height % 2 == 0 and columns < width  # only of an even number of rows
    if rows < height and not repeated:
        places = (np.arange(height) + 0.5) * rows / height - 0.5 + phase
        chroma = np.stack([np.interp(places, np.arange(rows), column) for column in chroma.T], 1)
    if columns < width and width % 2 and not repeated:
        places = (np.arange(width) + 0.5) * columns / width - 0.5
        chroma = np.stack([np.interp(places, np.arange(columns), row) for row in chroma])
    down, across = (-(-n // m) for n, m in zip(shape, chroma.shape, strict=True))
    return chroma.repeat(down, 0).repeat(across, 1)[:height, :width]


def fields_at_luma(chroma: Any, shape: tuple[int, int], bits: int) -> Any:
    """The same for an interlaced frame, of whose rows every second one is of a field (H.264, figure 6-2)."""
    if len(chroma) in (1, shape[0]):
        return at_luma(chroma, shape, bits)
    found = np.empty(shape)
    for k, rows in enumerate((found[::2], found[1::2])):
        missing = (len(rows) + 1) // 2 - len(chroma[k::2])
        rows[:] = at_luma(np.pad(chroma[k::2], ((0, missing), (0, 0)), "edge"), rows.shape, bits, 0.125 - 0.25 * k)
    return found


def interlaced(frame: Any) -> Any:
    """The same frame as an interlaced one, which PyAV itself does not make."""
    graph = av.filter.Graph()
    begin = graph.add_buffer(width=frame.width, height=frame.height, format=frame.format, time_base=Fraction(1, 25))
    graph.link_nodes(begin, graph.add("setparams", "field_mode=tff"), graph.add("buffersink")).configure()
    graph.push(frame)
    return graph.pull()


def rgb_of(frame: Any) -> NDArray[np.float64]:
    """A planar frame's colors by the standards' formulas, not rounded, with the chroma of :func:`at_luma`."""
    shares = {1: (0.2126, 0.0722), 9: (0.2627, 0.0593), 7: (0.212, 0.087), 4: (0.3, 0.11)}
    red, blue = shares.get(frame.colorspace, (0.299, 0.114))
    bits = frame.format.components[0].bits
    full = frame.color_range == 2 or frame.format.name.startswith("yuvj")
    top = 2.0**bits - 1.0
    y = plane(frame, 0).astype(np.float64)
    u, v = (plane(frame, k).astype(np.float64) for k in (1, 2))
    spread = fields_at_luma if frame.interlaced_frame else at_luma
    u, v = (spread(c, y.shape, bits) - 2.0 ** (bits - 1) for c in (u, v))
    step = 2.0 ** (bits - 8)
    luma, chroma = (top, top) if full else (219 * step, 224 * step)
    y, u, v = (y if full else y - 16 * step) / luma, u / chroma, v / chroma
    r, b = y + (2 - 2 * red) * v, y + (2 - 2 * blue) * u
    g = (y - red * r - blue * b) / (1 - red - blue)
    return np.clip(255.0 * np.stack([r, g, b], -1), 0.0, 255.0)
