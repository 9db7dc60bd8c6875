"""Clips decoded by NVDEC: frames/s to small frames, and memory while a video is opened again and again.

    python -m bench.gpu.video [--seconds 120]

The videos are those of bench/video.py, encoded by PyAV.
"""

import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import gpuimg as gi
from bench.gpu.common import arguments, attempt, rate, wait
from bench.video import SETS, video

_CLIP, _BATCH = 16, 16  # frames, clips
_OPENS = 2_000
_GROWTH_MIB = 64


def shrunk(data: bytes, device: str) -> None:
    gi.resize(gi.open_clips([data] * _BATCH, _CLIP, device=device), (112, 112)).array("float16")
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
        gi.open_clips([data], 4, 3, device="cuda").array()
        if k % (_OPENS // 40) == 0:
            marks.append(used())
            if time.monotonic() > end:
                break
    grown = [round(after - before, 1) for before, after in zip(marks[len(marks) // 10], marks[-1], strict=True)]
    found = {"opens": k + 1, "process_mib": grown[0], "gpu_mib": grown[1]}
    return {**found, "problem": "memory grows"} if max(grown) > _GROWTH_MIB else found


def main() -> None:
    options = arguments(__doc__, 120)
    videos = {name: video(name).read_bytes() for name in SETS}
    for name, data in videos.items():
        for device in ("cuda", "cpu"):
            if time.monotonic() < options.end:
                attempt(f"frames/s, {name}, {device}", partial(rate, partial(shrunk, data, device), _CLIP * _BATCH))
    attempt("memory", partial(memory, next(iter(videos.values())), options.end))


if __name__ == "__main__":
    main()
