"""Clips of videos: rates compared with PyAV alone, and memory over thousands of clips.

    python -m bench.bench_video [--rounds 7] [--clips 10000] [--out bench/results/video.json]

- rates: clips of 16 frames of 854 x 480, stride 2, at random positions, on the same threads. PyAV alone opens a file,
  seeks to the preceding key frame, decodes until the last frame's time, and converts the 16 to RGB (swscale); gpuimg
  returns the same frames as one array ("frames"), or crops of random size to 224 x 224, flipped and normalized, in
  float16 ("train"). Both know the index of each file beforehand. Medians of the rounds, ratios round by round: above 1
  gpuimg is faster, by the clock and by the CPU time of all threads.
- memory: resident memory after each tenth of many short clips; at the first and the last without what is free, but kept
  by the C library (malloc_trim).

Videos are synthetic: a photo that moves, with noise. They are made once, in bench/.videos.
"""

from __future__ import annotations

import ctypes
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import av
import numpy as np

import gpuimg as gi
from bench import common
from gpuimg._batch.batch import Batch, recording_of
from gpuimg._batch.recording import Recording
from gpuimg._decoding.options import DecodeOptions
from gpuimg._loading.clips import Clips, VideoClips
from gpuimg._runtimes.devices import runtime_for
from gpuimg._threads.threads import threads
from gpuimg._video.index import VideoIndex, read_index

FOLDER = Path(__file__).parent / ".videos"
HEIGHT, WIDTH, LENGTH = 480, 854, 150
FRAMES, STRIDE, BATCH = 16, 2, 8
_OPTIONS = DecodeOptions()

#: Codec, options, and frames from key frame to key frame.
SETS: dict[str, tuple[str, str, dict[str, str], int]] = {
    "h264, key frames every 150": ("libx264", "mp4", {"preset": "fast"}, 150),
    "h264, key frames every 16": ("libx264", "mp4", {"preset": "fast"}, 16),
    "hevc": ("libx265", "mp4", {"preset": "fast", "x265-params": "log-level=none"}, 60),
    "av1": ("libsvtav1", "mp4", {"preset": "10"}, 60),
    "vp9": ("libvpx-vp9", "webm", {"cpu-used": "8", "deadline": "realtime"}, 60),
}


def photo() -> Any:
    """Return a large photo, whose parts the frames show."""
    files = sorted((Path(__file__).parents[1] / "examples" / "photos").glob("*.jpg"))
    return gi.resize(gi.open_batch([files[0]], device="cpu"), (720, 1280)).array()[0]


def video(name: str) -> Path:
    """Return a video of a set, and create it if it does not exist."""
    codec, ending, options, gop = SETS[name]
    path = FOLDER / f"{name.replace(', ', '-').replace(' ', '-')}.{ending}"
    if path.exists():
        return path
    FOLDER.mkdir(exist_ok=True)
    image, rng = photo(), np.random.default_rng(0)
    with common.usual_priority(), av.open(str(path), "w", options={}) as container:
        stream = container.add_stream(codec, rate=25, options=options)
        stream.width, stream.height, stream.pix_fmt, stream.gop_size = WIDTH, HEIGHT, "yuv420p", gop
        for k in range(LENGTH + 1):
            y, x = int(100 + 100 * np.sin(k / 30)), int(200 + 200 * np.cos(k / 40))
            part = image[y : y + HEIGHT, x : x + WIDTH].astype(np.int16) + rng.integers(-6, 7, (HEIGHT, WIDTH, 1))
            frame = av.VideoFrame.from_ndarray(np.clip(part, 0, 255).astype(np.uint8), "rgb24")
            container.mux(stream.encode(frame if k < LENGTH else None))
    return path


def bare(path: Path, index: VideoIndex, numbers: Any) -> Any:
    """Decode one clip by PyAV alone."""
    wanted = {int(index.pts[n]): k for k, n in enumerate(numbers)}
    last = max(wanted)
    out = np.empty((len(numbers), HEIGHT, WIDTH, 3), np.uint8)
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type, stream.thread_count = "NONE", 1
        container.seek(int(index.key_pts[index.key[numbers[0]]]), stream=stream)
        for frame in container.decode(stream):
            if frame.pts in wanted:
                out[wanted[frame.pts]] = frame.to_ndarray(format="rgb24")
            if frame.pts >= last:
                return out
    raise RuntimeError("the clip is not whole")


def train(x: gi.Batch, rng: gi.Rng) -> gi.Batch:
    x = gi.random_resized_crop(x, 224, rng=rng)
    x = gi.random_horizontal_flip(x, rng=rng)
    return gi.normalize(x, gi.IMAGENET_MEAN, gi.IMAGENET_STD)


class Race:
    """A video with clips at random positions, and the two ways to decode them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.index = read_index(str(path), _OPTIONS.max_pixels)
        self.opener = VideoClips(Clips(FRAMES, STRIDE))
        self.runtime = runtime_for("cpu")
        self.pool = ThreadPoolExecutor(threads())

    def opened(self, rng: gi.Rng) -> Batch:
        """Open random clips without decoding them."""
        names = [str(self.path)] * len(rng)
        return Batch(Recording(self.runtime, self.opener.open(names, names, rng, _OPTIONS)))

    def frames(self, rng: gi.Rng) -> Any:
        """Decode whole frames."""
        return self.opened(rng).array(layout="NTHWC")

    def train(self, rng: gi.Rng) -> Any:
        """Decode training crops."""
        return train(self.opened(rng), rng).array("float16", "NTHWC")

    def pyav(self, rng: gi.Rng) -> Any:
        """Decode whole frames by PyAV alone."""
        numbers = recording_of(self.opened(rng)).source.numbers  # type: ignore[union-attr]
        return list(self.pool.map(lambda own: bare(self.path, self.index, own), numbers))


def rates(name: str, rounds: int) -> dict[str, Any]:
    """Measure clips/s of each way, and the ratio to PyAV."""
    race = Race(video(name))
    ways = {"pyav": race.pyav, "frames": race.frames, "train": race.train}
    first = gi.Rng(0, indices=range(BATCH))
    if np.abs(np.stack(race.pyav(first)).astype(np.int16) - race.frames(first)).max() > 4:
        raise RuntimeError("the two ways give different frames")
    race.train(first)
    walls: dict[str, list[float]] = {way: [] for way in ways}
    cpus: dict[str, list[float]] = {way: [] for way in ways}
    for k in range(rounds):
        for way, run in ways.items():
            rng = gi.Rng(k + 1, indices=range(BATCH))
            wall, cpu = time.perf_counter(), time.process_time()
            run(rng)
            walls[way].append(time.perf_counter() - wall)
            cpus[way].append(time.process_time() - cpu)
    result: dict[str, Any] = {}
    for way in ways:
        result[way] = {"clips_s": round(BATCH / float(np.median(walls[way])), 2),
                       "cpu_ms_a_clip": round(1e3 * float(np.median(cpus[way])) / BATCH, 1)}  # fmt: skip
        if way != "pyav":
            for key, values in (("of_pyav", walls), ("of_pyav_by_cpu_time", cpus)):
                ratios = np.array(values["pyav"]) / np.array(values[way])
                result[way][key] = [round(float(v), 3) for v in (np.median(ratios), ratios.min(), ratios.max())]
    return result


def resident() -> float:
    """Return the memory of this process in megabytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def trimmed() -> float:
    """Return the same without free memory of the C library."""
    ctypes.CDLL(None).malloc_trim(0)
    return round(resident(), 1)


def memory(clips: int) -> dict[str, Any]:
    """Measure resident memory while many short clips of all videos are decoded."""
    paths = [str(video(name)) for name in SETS]
    opener, runtime = VideoClips(Clips(1)), runtime_for("cpu")
    marks: list[float] = []
    kept: list[float] = []
    for k in range(0, clips, 10):
        names = [paths[j % len(paths)] for j in range(k, k + 10)]
        found = opener.open(names, names, gi.Rng(k, indices=range(k, k + 10)), _OPTIONS)
        # Frames near a key frame, because leaks are expected for each clip rather than for each frame.
        for video_, numbers in zip(found.videos, found.numbers, strict=True):
            assert video_ is not None
            numbers[:] = int(np.searchsorted(video_.pts, video_.key_pts[video_.key[numbers[0]]]))
        gi.resize(Batch(Recording(runtime, found)), (48, 64)).array()
        if (k + 10) % max(clips // 10, 10) == 0:
            if not marks:
                kept.append(trimmed())
            marks.append(round(resident(), 1))
    return {"clips": clips, "resident_mb": marks, "trimmed_mb_first_and_last": [*kept, trimmed()]}


def main() -> None:
    """Run both measurements."""
    parser = common.arguments(__doc__, "video.json")
    parser.add_argument("--clips", type=int, default=10_000, help="of the memory test; %(default)s")
    options = parser.parse_args()
    what: dict[str, object] = {
        "videos": f"{WIDTH}x{HEIGHT}, {LENGTH} frames, synthetic",
        "clip": f"{FRAMES} frames, stride {STRIDE}",
    }
    result: dict[str, Any] = {**common.environment(what, options.rounds, BATCH), "pyav": av.__version__}
    result["rates"] = {}
    for name in SETS:
        print(name, flush=True)
        result["rates"][name] = rates(name, options.rounds)
    print("memory", flush=True)
    result["memory"] = memory(options.clips)
    common.write(result, options.out)


if __name__ == "__main__":
    main()
