"""Clips decoded by NVDEC: frames compared with the CPU's, the order of its stream, rates, memory.

    python -m bench.gpu.video [--seconds 120]

Videos are encoded at run time by PyAV: a moving picture over constant noise. First the frames: samples are the CPU's,
and sums on the border of two levels may round to the other one. Then clips that are decoded while the default stream,
on which FFmpeg works, is delayed; frames/s to small frames; and the memory of the process and of the GPU while a video
is opened again and again.
"""

from __future__ import annotations

import io
import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import gpuimg as gi
from bench.gpu.common import Spin, arguments, attempt, rate, to_host, wait
from gpuimg._batch.batch import recording_of

#: Encoder, container, options, format of samples.
CODECS: dict[str, tuple[str, str, dict[str, str], str]] = {
    "h264": ("libx264", "mp4", {"preset": "veryfast", "bf": "3"}, "yuv420p"),
    "hevc": ("libx265", "mp4", {"preset": "ultrafast", "x265-params": "log-level=none:bframes=3"}, "yuv420p"),
    "hevc, 10 bits": ("libx265", "mp4", {"preset": "ultrafast", "x265-params": "log-level=none"}, "yuv420p10le"),
    "vp9": ("libvpx-vp9", "webm", {"cpu-used": "8", "deadline": "realtime"}, "yuv420p"),
}
SIZES = [(360, 640), (270, 482), (720, 1280)]
LENGTH, GOP = 96, 32  # frames
CLIP, BATCH = 16, 16  # frames, clips
_ROUNDED = 0.01  # share of pixels that may be one level off
_SPIN_MS = 100.0
_REPEATS, _OPENS = 10, 2_000
_GROWTH_MIB = 64


def video(codec: str, ending: str, options: dict[str, str], pix_fmt: str, height: int, width: int, n: int) -> bytes:
    """Encode a video of ``n`` frames."""
    import av

    rng = np.random.default_rng(height)
    still = rng.integers(0, 256, (height // 8 + 12, width // 8 + 12, 3), np.uint8).repeat(8, 0).repeat(8, 1)
    file = io.BytesIO()
    with av.open(file, "w", ending) as container:
        stream = container.add_stream(codec, rate=25, options=dict(options))
        stream.width, stream.height, stream.pix_fmt, stream.gop_size = width, height, pix_fmt, GOP
        for k in range(n):
            part = np.ascontiguousarray(still[k : k + height, 2 * k % 90 : 2 * k % 90 + width])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(part, "rgb24")))
        container.mux(stream.encode(None))
    return file.getvalue()


def clips_of(files: list[bytes], device: str) -> gi.Batch:
    """Open the same clips on any device, each from another frame on."""
    return gi.open_clips(files, 4, 3, start=np.arange(len(files)) * 5 % 11, device=device)


def frames(files: list[bytes]) -> dict[str, Any]:
    """Compare the pixels of clips with the CPU's."""
    pixels = wrong = rounded = on_cpu = 0
    for data in files:
        on_gpu, expected = (clips_of([data] * 8, device) for device in ("cuda", "cpu"))
        difference = np.abs(to_host(on_gpu.array()).astype(np.int16) - expected.array())
        pixels += difference.size
        wrong += int(np.count_nonzero(difference > 1))
        rounded += int(np.count_nonzero(difference == 1))
        on_cpu += recording_of(on_gpu).timings.clips_on_cpu
    found = {"pixels": pixels, "wrong": wrong, "one level off": rounded, "clips decoded by the CPU": on_cpu}
    bad = wrong or on_cpu or rounded > _ROUNDED * pixels
    return {**found, "problem": "not NVDEC's frames, or not the CPU's"} if bad else found


def order(files: list[bytes]) -> dict[str, Any]:
    """Decode clips while the default stream is delayed, into memory that holds something else."""
    import cupy

    expected, spin, wrong = clips_of(files, "cpu").array().astype(np.int16), Spin(), 0
    for _ in range(_REPEATS):
        gi.invert(clips_of(files, "cuda")).array()
        cupy.cuda.Device(0).synchronize()
        spin(_SPIN_MS)
        wrong += bool(np.any(np.abs(to_host(clips_of(files, "cuda").array()).astype(np.int16) - expected) > 1))
    found = {"repetitions": _REPEATS, "wrong": wrong}
    return {**found, "problem": "frames were read before they were decoded"} if wrong else found


def shrunk(files: list[bytes], device: str) -> None:
    gi.resize(gi.open_clips(files, CLIP, device=device), (112, 112)).array("float16")
    if device != "cpu":
        wait()


def memory(data: bytes, end: float) -> dict[str, Any]:
    """Measure the growth in MiB of the process and of the GPU while a video is opened, after the first tenth."""
    import cupy

    def used() -> tuple[float, float]:
        free, total = cupy.cuda.runtime.memGetInfo()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20, (total - free) / 2**20

    marks = []
    for k in range(_OPENS):
        clips_of([data], "cuda").array()
        if k % (_OPENS // 40) == 0:
            marks.append(used())
            if time.monotonic() > end:
                break
    grown = [round(after - before, 1) for before, after in zip(marks[len(marks) // 10], marks[-1], strict=True)]
    found = {"opens": k + 1, "process_mib": grown[0], "gpu_mib": grown[1]}
    return {**found, "problem": "memory grows"} if max(grown) > _GROWTH_MIB else found


def main() -> None:
    """Check frames and order, then measure: rates of wrong frames mean nothing."""
    options = arguments(__doc__, 120)
    videos = {name: [video(*how, *size, LENGTH) for size in SIZES] for name, how in CODECS.items()}
    for name, files in videos.items():
        attempt(f"frames, {name}", partial(frames, files))
    attempt("order", partial(order, videos["h264"][:1]))
    for name, files in videos.items():
        for device in ("cuda", "cpu"):
            if time.monotonic() < options.end:
                batch = (files * BATCH)[:BATCH]
                attempt(f"frames/s, {name}, {device}", partial(rate, partial(shrunk, batch, device), CLIP * BATCH))
    attempt("memory", partial(memory, videos["h264"][0], options.end))


if __name__ == "__main__":
    main()
