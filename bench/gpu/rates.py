"""The rates that decide, in the order of their worth: ``python -m bench.gpu.rates``.

nvImageCodec alone by the share of its hardware engine; ``decode_batch`` with it, and with gpuimg's kernels; those by
CUDA events; ``gpuimg.load`` to training batches with both, beside DALI and torchvision with Kornia where they are
installed; how long the host holds the GIL for an image. Every batch is waited for; rates of a running loader do not
contain its start. The last lines compare the decoders, and the figures with what is to be reached.
"""

import contextlib
import itertools
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

import gpuimg as gi
from bench.gpu import REHEARSAL
from bench.gpu.common import BATCH, Kernels, Lane, attempt, device, photos, rate, show, wait
from bench.peers import peer_class
from bench.peers.ours import PREPROCESS

_SHARES = (0.0, 1.0, 0.5, 0.65, 0.8, 0.9)  # of the hardware engine
_SIZE, _DTYPE, _LAYOUT = 224, "float16", "NCHW"
_ROUND = BATCH if REHEARSAL else 4096  # images of a round of the running loader
_LEFT_S = 20.0  # of the part's limit, in which no new row begins
_SWITCH_S = 1e-4  # after which a thread takes the GIL: less than by default, so that rates stay alike

Files = list[bytes]


def alone(files: Files, share: float, lanes: int = 1) -> dict[str, Any]:
    """Measure nvImageCodec's decoders, new ones: their first call fixes the share of the hardware."""
    threads = max(min(len(os.sched_getaffinity(0)), 16) // lanes, 2)  # with one it never decodes images one by one
    with ThreadPoolExecutor(lanes) as pool:
        each = [Lane(files, share, threads) for _ in range(lanes)]
        failed = sum(done.count(False) for done in pool.map(Lane.decode, each))
        found = rate(lambda: list(pool.map(Lane.decode, each)), lanes * len(files))
    return {**found, **({"problem": f"{failed} images did not decode"} if failed else {})}


def kernels_alone(files: Files) -> dict[str, Any]:
    """Measure the GPU's time for the kernels that decode JPEGs, without the upload, for whole images."""
    import cupy

    one, start, end, taken = Kernels(files), cupy.cuda.Event(), cupy.cuda.Event(), []
    for _ in range(2 if REHEARSAL else 6):
        start.record()
        one.launch()  # milliseconds, and microseconds of the host
        end.record()
        end.synchronize()
        taken.append(cupy.cuda.get_elapsed_time(start, end))
    count, reported = len(one.upload.taken), int(np.count_nonzero(one.status.get()))
    found = {"images_per_second": round(1e3 * count / float(np.median(taken[1:])), 1), "images": count}
    return {**found, "problem": f"{reported} images are reported as damaged"} if reported else found


def functions(sources: list[Any], work: str, batch: int = BATCH, decoder: str = "gpuimg") -> Callable[[], None]:
    """Return an epoch of one batch after another: to whole images, or into memory that is used again."""
    import cupy

    out, epochs = cupy.zeros((batch, 3, _SIZE, _SIZE), _DTYPE), itertools.count()

    def run() -> None:
        epoch = next(epochs)
        for at in range(0, len(sources), batch):
            some = sources[at : at + batch]
            x = gi.open_batch(some, device="cuda", decoder=decoder)
            if work == "whole":
                x.compute()
            else:
                rng = gi.Rng(0, epoch=epoch, indices=range(at, at + len(x)))
                PREPROCESS[work](x, rng).array(_DTYPE, _LAYOUT, out=out[: len(x)])
        wait()

    return run


def batches(sources: list[Any], work: str, batch: int = BATCH, decoder: str = "gpuimg") -> dict[str, Any]:
    return rate(functions(sources, work, batch, decoder), len(sources))


def loaded(source: Any, work: str, batch: int = BATCH, **options: Any) -> dict[str, Any]:
    """Measure the running loader, with its threads and queues as in the middle of an epoch."""
    loader = gi.load(
        source, PREPROCESS[work], batch_size=batch, device="cuda", dtype=_DTYPE, layout=_LAYOUT, shuffle=True,
        epochs=None, drop_last=True, **{"decoder": "gpuimg", **options},
    )  # fmt: skip
    count = -(-_ROUND // batch)
    running: Any = iter(loader)
    with contextlib.closing(running):

        def some() -> None:
            for _ in range(count):
                next(running)
            wait()

        found = rate(some, count * batch, passes=1)
        return {**found, "stats": loader.stats()}


def gil(files: Files) -> dict[str, Any]:
    """Measure how long the GIL is held for an image: the time in which a thread that only wants the GIL does not run.

    On a machine with a core for each of the two; others make it too long.
    """
    run, held, interval = functions(files, "train"), [], sys.getswitchinterval()
    run()
    sys.setswitchinterval(_SWITCH_S)
    for _ in range(1 if REHEARSAL else 5):
        done = threading.Event()
        used: list[float] = []

        def wanting(done: threading.Event = done, used: list[float] = used) -> None:
            begin = time.thread_time()
            while not done.is_set():
                pass
            used.append(time.thread_time() - begin)

        thread = threading.Thread(target=wanting)
        thread.start()
        begin = time.perf_counter()
        try:
            run()
            taken = time.perf_counter() - begin
        finally:
            done.set()
            thread.join()
        held.append(1e6 * max(taken - used[0], 0.0) / len(files))
    sys.setswitchinterval(interval)
    return {"us": round(float(np.median(held)), 2)}


def clips(name: str) -> dict[str, Any]:
    """Measure clips of a video by NVDEC, to small frames."""
    from bench.video import video

    data, (length, count) = video(name).read_bytes(), (2, 1) if REHEARSAL else (16, 16)

    def run() -> None:
        gi.resize(gi.open_clips([data] * count, length, device="cuda"), (112, 112)).array("float16")
        wait()

    return rate(run, length * count)


def peer(name: str, work: str, files: Files) -> dict[str, Any]:
    """Measure another library."""
    many = files * -(-_ROUND // len(files))
    epoch = peer_class(name)(len(os.sched_getaffinity(0)), BATCH).start(work, many)
    return rate(lambda: sum(1 for _ in epoch()), len(many), passes=1)


def plan(files: Files) -> dict[str, partial[dict[str, Any]]]:
    """What to measure, in the order of its worth."""
    recoded: Files = list(map(gi.recode_jpeg, files))
    source, nv = [(data, k) for k, data in enumerate(files)], {"decoder": "nvimagecodec"}
    rows = {f"nvImageCodec alone, share {share}": partial(alone, files, share) for share in _SHARES}
    rows |= {
        "decode_batch, nvImageCodec": partial(batches, files, "whole", **nv),
        "decode_batch, gpuimg": partial(batches, files, "whole"),
        "kernels": partial(kernels_alone, files),
        "kernels, recoded": partial(kernels_alone, recoded),
        "load, gpuimg": partial(loaded, source, "train"),
        "load, nvImageCodec": partial(loaded, source, "train", **nv),
        "DALI": partial(peer, "dali-mixed", "train", files),
        "torchvision and Kornia": partial(peer, "torchvision-cuda", "train", files),
        "the GIL for an image": partial(gil, files),
        "NVDEC, H.264, frames": partial(clips, "h264, key frames every 16"),
        "NVDEC, HEVC, frames": partial(clips, "hevc"),
        "nvImageCodec alone, share 0.65, 2 decoders": partial(alone, files, 0.65, 2),
        "load, recoded": partial(loaded, [(data, k) for k, data in enumerate(recoded)], "train"),
        "load, rotation and color": partial(loaded, source, "train+rotate+color"),
        "DALI, rotation and color": partial(peer, "dali-mixed", "train+rotate+color", files),
        "train batches, gpuimg": partial(batches, files, "train"),
        "train batches, nvImageCodec": partial(batches, files, "train", **nv),
    }
    for how in ({"decoders": 3}, {"decoders": 1}, {"prefetch": 4}, {"readers": 8}, {"batch": BATCH // 4 or 1}):
        rows[f"load, gpuimg, {how}"] = partial(loaded, source, "train", **how)
    return rows


def compare(found: dict[str, Any]) -> None:
    """Print which decoder is faster, and what was to be reached."""
    rates = {name: found.get(f"decode_batch, {name}") for name in ("gpuimg", "nvImageCodec")}
    faster, slower = sorted(rates, key=lambda name: rates[name] or 0.0, reverse=True)
    alone = [value for name, value in found.items() if name.startswith("nvImageCodec alone") and value]
    best, dali = max(alone, default=None), found.get("DALI")

    def over(one: float | None, other: float | None) -> float | str:
        return round(one / other, 3) if one and other else "not measured"

    targets = {
        "decode_batch over the best of nvImageCodec alone": (over(rates[faster], best), "at least 0.95"),
        "kernels, photos/s": (found.get("kernels") or "not measured", "at least 40,000 on an H100"),
        "load over DALI, gpuimg's kernels": (over(found.get("load, gpuimg"), dali), "at least 2"),
        "load over DALI, nvImageCodec": (over(found.get("load, nvImageCodec"), dali), "at least 1.2"),
        "the GIL for an image, us": (found.get("the GIL for an image") or "not measured", "at most 12"),
    }
    for name, (value, target) in targets.items():
        show(name, found=value, target=target)
    ratio = over(rates[faster], rates[slower])
    verdict = f"{faster} decodes {ratio} times as fast as {slower}" if all(rates.values()) else "not measured"
    show("which decoder is faster", verdict=verdict, **rates, nvimagecodec_alone=best)


def main() -> None:
    os.environ.setdefault("GPUIMG_SELFTEST", "0")
    end, found = time.monotonic() + float(os.environ.get("GPU_SECONDS", "120")) - _LEFT_S, {}
    with device():
        for name, measure in plan(photos(BATCH)).items():
            if time.monotonic() > end:
                show(name, left_out="no time")
                continue
            row = attempt(name, measure)
            found[name] = row.get("images_per_second") or row.get("us")
    compare(found)


if __name__ == "__main__":
    main()
