"""Clips decoded by NVDEC: comparison of frames with the CPU's, the order of its stream, opening, threads, memory.

Videos are created at run time. Samples of planes are compared with the CPU's decoder, which must not differ for these
codecs; pixels with those of the CPU's kernel. The check of the order runs twice, with gpuimg as it is and without the
code that ensures it.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np

import gpuimg as gi
from bench.gpu.child import Context
from bench.gpu.hooks import clips_at_once, frames_of, new_runtime, without_frame_wait
from bench.gpu.measure import LEAST_ROUNDS, Spin, attempted, rate, resident_mib, synchronize, to_host, wait_for_stream
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
THREADS = (1, 2, 4, 8)
CLIP, BATCH = 16, 16  # frames, clips
_SPIN_MS = 100.0
_ROUNDED = 0.01  # share of pixels that may be one level off: sums on the border of two
_OPENS, _LOOK = 10_000, 50  # opens, and the interval between inspected ones
_LEAST_S = 3.0
_GROWTH_MIB = 64


def run(context: Context) -> None:
    """Check frames, then measure rates: rates of wrong frames mean nothing."""
    try:
        videos = made(context.smoke)
    except ImportError as error:
        context.record("skipped", f"no PyAV: {error}")
        return
    wrong: dict[str, Any] = {}
    for name, files in videos.items():
        wrong[name] = attempted(partial(compared, context, files))
        context.record("frames", wrong)
    if context.on_gpu:
        context.record("order", attempted(partial(ordered, context, videos["h264"])))
    context.record("opening", {name: attempted(partial(opening, context, files[0])) for name, files in videos.items()})
    context.record("rates", rates(context, videos))
    context.record("memory", attempted(partial(memory, context, videos["h264"][0])))


def made(smoke: bool) -> dict[str, list[bytes]]:
    """Create videos of each codec: a moving object over constant noise."""
    sizes, length = ([(54, 98)], 24) if smoke else (SIZES, LENGTH)
    return {name: [video(*how, *size, length) for size in sizes] for name, how in CODECS.items()}


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


# -- frames ------------------------------------------------------------------------------------------------------------


def compared(context: Context, files: list[bytes]) -> dict[str, Any]:
    """Compare samples of planes, and pixels of random clips, with the CPU's."""
    found = {"frames": 0, "wrong frames": 0, "pixels": 0, "wrong pixels": 0, "rounded pixels": 0, "clips_on_cpu": 0}
    for data in files:
        if context.on_gpu:
            count = gi.video_info(data).frames
            chosen = sorted(np.random.default_rng().choice(count, min(count, 24), replace=False).tolist())
            for one, other in zip(frames_of(data, chosen, "cuda:0"), frames_of(data, chosen, "cpu"), strict=True):
                found["frames"] += 1
                found["wrong frames"] += not all(map(np.array_equal, one, other))
        on_gpu, on_cpu = (clips_of([data] * 3, device) for device in (context.device, "cpu"))
        difference = np.abs(to_host(on_gpu.array()).astype(np.int16) - on_cpu.array())
        found["pixels"] += difference.size
        found["wrong pixels"] += int(np.count_nonzero(difference > 1))
        found["rounded pixels"] += int(np.count_nonzero(difference == 1))
        found["clips_on_cpu"] += recording_of(on_gpu).timings.clips_on_cpu
    return found


def clips_of(files: list[bytes], device: str, frames: int = 4) -> gi.Batch:
    """Open the same clips on any device, each from another frame on."""
    return gi.open_clips(files, frames, 3, start=np.arange(len(files)) * 5 % 11, device=device)


def ordered(context: Context, files: list[bytes]) -> dict[str, Any]:
    """Decode clips while the default stream, on which FFmpeg works, is delayed."""
    expected = clips_of(files, "cpu").take([0]).array().astype(np.int16)
    spin = Spin()

    def wrong() -> dict[str, int]:
        found = 0
        rounds = 2 if context.smoke else 10
        for _ in range(rounds):
            with new_runtime():
                gi.invert(clips_of(files, context.device).take([0])).array()  # memory that holds something else
                synchronize(context.device)
                spin(_SPIN_MS)
                difference = to_host(clips_of(files, context.device).take([0]).array()).astype(np.int16) - expected
            found += bool(np.any(np.abs(difference) > 1))
        return {"wrong": found, "n": rounds}

    found = {"as it is": wrong()}
    with without_frame_wait():
        found["order taken out"] = wrong()
    return found


# -- rates -------------------------------------------------------------------------------------------------------------


def opening(context: Context, data: bytes) -> dict[str, Any]:
    """Measure milliseconds until the first frame, and for a clip of 16 frames, on the GPU and on the CPU."""
    found: dict[str, Any] = {}
    devices = ["cpu", *([context.device] if context.on_gpu else [])]
    for device in devices:
        first = _milliseconds(context, partial(_first, data, device))
        clip = _milliseconds(context, partial(_clip, data, device))
        found[device] = {"first frame_ms": first, "clip_ms": clip}
    return found


def _first(data: bytes, device: str) -> None:
    for _ in frames_of(data, [0], device):
        pass


def _clip(data: bytes, device: str) -> None:
    clips_of([data], device, CLIP).array()
    wait_for_stream(device)


def _milliseconds(context: Context, work: Callable[[], object]) -> float:
    work()
    taken = []
    for _ in range(1 if context.smoke else 3 * LEAST_ROUNDS):
        begin = time.perf_counter()
        work()
        taken.append(1e3 * (time.perf_counter() - begin))
    return round(float(np.median(taken)), 3)


def rates(context: Context, videos: dict[str, list[bytes]]) -> dict[str, Any]:
    """Measure frames/s from bytes to small frames, by the number of clips at a time; on the CPU with all threads."""
    found: dict[str, Any] = {}
    for name, files in videos.items():
        batch = (files * BATCH)[: 2 if context.smoke else BATCH]
        ways = {"cpu": ("cpu", 1), **{f"{n} at once": (context.device, n) for n in THREADS if context.on_gpu}}
        for way, (device, at_once) in ways.items():
            if context.left() > _LEAST_S:
                with clips_at_once(at_once) if device != "cpu" else nullcontext():
                    work = partial(_shrunk, batch, device)
                    found[f"{name}, {way}"] = attempted(partial(rate, work, CLIP * len(batch), **context.rounds))
    return found


def _shrunk(files: list[bytes], device: str) -> None:
    gi.resize(gi.open_clips(files, CLIP, device=device), (112, 112)).array("float16")
    wait_for_stream(device)


def memory(context: Context, data: bytes) -> dict[str, Any]:
    """Measure MiB of the process and of the GPU while videos are opened, after a tenth of them and at the end."""
    opens = 4 if context.smoke else _OPENS
    looked: list[tuple[int, float, float]] = []
    for k in range(opens):
        _first(data, context.device)
        if k % max(min(_LOOK, opens // 4), 1) == 0:
            looked.append((k, resident_mib(), _used_mib(context)))
            if context.left() < _LEAST_S:
                break
    first, last = looked[len(looked) // 10], looked[-1]
    names = ("opens", "process_mib", "gpu_mib")
    return {"first": dict(zip(names, first, strict=True)), "last": dict(zip(names, last, strict=True))}


def _used_mib(context: Context) -> float:
    if not context.on_gpu:
        return 0.0
    import cupy

    free, total = cupy.cuda.runtime.memGetInfo()
    return float(total - free) / 2**20


# -- words -------------------------------------------------------------------------------------------------------------


def claims(results: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the differences, and the costs."""
    if "skipped" in results:
        return [], [results["skipped"]]
    problems: list[str] = []
    lines: list[str] = []
    for name, row in results.get("frames", {}).items():
        if "error" in row:
            problems.append(f"{name}: {row['error']}")
            continue
        lines.append(f"{name}: " + ", ".join(f"{value:,} {what}" for what, value in row.items()))
        if row["wrong frames"] or row["wrong pixels"] or row["rounded pixels"] > _ROUNDED * row["pixels"]:
            problems.append(f"{name}: frames are not the CPU's ({lines[-1]})")
        if row["clips_on_cpu"]:
            problems.append(f"{name}: {row['clips_on_cpu']} clips were not decoded by NVDEC")
    order = results.get("order", {})
    if "error" in order:
        problems.append(f"order: {order['error']}")
    elif order:
        lines += [f"order, {case}: {row['wrong']} wrong of n = {row['n']}" for case, row in order.items()]
        if order["as it is"]["wrong"]:
            problems.append(f"order: {order['as it is']['wrong']} batches wrong")
        if not order["order taken out"]["wrong"]:
            problems.append("order taken out: nothing wrong was seen, so that this check shows nothing")
    for name, row in results.get("opening", {}).items():
        lines += [f"{name}, {device}: {times}" for device, times in row.items()]
    for name, row in results.get("rates", {}).items():
        if "error" in row:
            problems.append(f"{name}: {row['error']}")
        else:
            lines.append(f"{name}: {row['images_per_second']:,.0f} frames/s")
    grown = results.get("memory", {})
    if grown:
        lines.append(f"memory: {grown}")
        problems += [f"memory: {grown['error']}"] if "error" in grown else []
        first, last = grown.get("first", {}), grown.get("last", {})
        if any(last[kind] - first[kind] > _GROWTH_MIB for kind in first if kind.endswith("_mib")):
            problems.append(f"memory grows with opening: {first} -> {last}")
    return problems, lines
