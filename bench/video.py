"""Clips of videos: rates compared with PyAV alone.

    python -m bench.video [--rounds 5] [--out bench/results/video.json]

Clips of 16 frames of 854 x 480, stride 2, at random positions, on the same threads. PyAV alone opens a file, seeks to
the preceding key frame, decodes until the last frame's time, and converts the 16 to RGB (swscale); gpuimg returns the
same frames as one array ("frames"), or crops of random size to 224 x 224, flipped and normalized, in float16 ("train").
Both know the index of each file beforehand. Medians of the rounds, ratios round by round: above 1 gpuimg is faster.

Videos are synthetic: a photo that moves, with noise. They are made once, in bench/.videos.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
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


def video(name: str) -> Path:
    codec, ending, options, gop = SETS[name]
    path = FOLDER / f"{name.replace(', ', '-').replace(' ', '-')}.{ending}"
    if path.exists():
        return path
    FOLDER.mkdir(exist_ok=True)
    photo = sorted((common.ROOT / "examples" / "photos").glob("*.jpg"))[0]
    image = gi.resize(gi.open_batch([photo], device="cpu"), (720, 1280)).array()[0]
    rng = np.random.default_rng(0)
    with common.usual_priority(), av.open(str(path), "w", options={}) as container:
        stream = container.add_stream(codec, rate=25, options=options)
        stream.width, stream.height, stream.pix_fmt, stream.gop_size = WIDTH, HEIGHT, "yuv420p", gop
        for k in range(LENGTH):
            y, x = int(100 + 100 * np.sin(k / 30)), int(200 + 200 * np.cos(k / 40))
            part = image[y : y + HEIGHT, x : x + WIDTH].astype(np.int16) + rng.integers(-6, 7, (HEIGHT, WIDTH, 1))
            frame = av.VideoFrame.from_ndarray(np.clip(part, 0, 255).astype(np.uint8), "rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def bare(path: Path, index: VideoIndex, numbers: Any) -> Any:
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


def rates(path: Path, rounds: int) -> dict[str, Any]:
    index, opener = read_index(str(path), _OPTIONS.max_pixels), VideoClips(Clips(FRAMES, STRIDE))
    preprocess = gi.presets.imagenet_train(224)

    def opened(rng: gi.Rng) -> Batch:
        names = [str(path)] * len(rng)
        return Batch(Recording.start(runtime_for("cpu"), opener.open(names, names, rng, _OPTIONS)))

    def pyav(rng: gi.Rng) -> Any:
        numbers = recording_of(opened(rng)).source.numbers  # type: ignore[union-attr]
        return list(pool.map(lambda own: bare(path, index, own), numbers))

    def frames(rng: gi.Rng) -> Any:
        return opened(rng).array(layout="NTHWC")

    def train(rng: gi.Rng) -> Any:
        return preprocess(opened(rng), rng).array("float16", "NTHWC")

    def run(way: Callable[[gi.Rng], Any]) -> Callable[[], object]:
        seeds = count(1)  # each way gets the same clips in a round
        return lambda: way(gi.Rng(next(seeds), indices=range(BATCH)))

    with ThreadPoolExecutor(threads()) as pool:
        first = gi.Rng(0, indices=range(BATCH))
        if np.abs(np.stack(pyav(first)).astype(np.int16) - frames(first)).max() > 4:
            raise RuntimeError("the two ways give different frames")
        runs = {"pyav": run(pyav), "frames": run(frames), "train": run(train)}
        walls, _ = common.interleaved(runs, rounds)
    result: dict[str, Any] = {}
    for way in walls:
        ratio, spread = common.ratio(walls["pyav"], walls[way])
        clips_s = round(BATCH / float(np.median(walls[way])), 2)
        result[way] = {"clips_s": clips_s, "of_pyav": [ratio, *spread]}
    return result


def main() -> None:
    parser = common.arguments(__doc__, "video.json")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    options = parser.parse_args()
    what: dict[str, object] = {
        "videos": f"{WIDTH}x{HEIGHT}, {LENGTH} frames, synthetic", "clip": f"{FRAMES} frames, stride {STRIDE}"
    }  # fmt: skip
    result = {**common.environment(what, options.rounds, BATCH), "pyav": av.__version__}
    common.write({**result, "rates": {name: rates(video(name), options.rounds) for name in options.sets}}, options.out)


if __name__ == "__main__":
    main()
