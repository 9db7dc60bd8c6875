"""Decoding alone, compared with libraries that only decode: same photos, same threads, same run.

    python -m bench.bench_decode [--rounds 9] [--only progressive] [--out bench/results/decode.json]

- pixels: values that differ from libjpeg-turbo's (through Pillow), over all photos;
- whole: whole images by gpuimg, nvImageCodec on the CPU and simplejpeg, each into reused memory;
- train, eval: the decoded regions of these chains, and the whole chains, with nvImageCodec decoding whole images;
- progressive (alone, in another file): whole images and random crops, by gpuimg, Pillow and simplejpeg;
- webp: WebP by gpuimg and by Pillow alone;
- python: microseconds of Python per image, from ``open_batch`` to the array, in batches of 256.

Medians of the rounds, which take turns; ratios are images/s of gpuimg over those of the other, round by round.
bench_native compares the code for other processors.
"""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from PIL import Image

import gpuimg as gi
from bench import chains, common, photos
from bench.common import BATCH
from gpuimg._threads.threads import threads
from gpuimg.kernels.cpu import batch as loops

PYTHON_BATCH = 256
_WEBP_FILES = 64
_PROGRESSIVE_FILES = 192

Work = Callable[[list[bytes]], None]


def _by_gpuimg(files: list[bytes]) -> None:
    gi.decode_batch(files, device="cpu")


def by_simplejpeg(count: int) -> Work:
    """Decode by libjpeg-turbo as directly as Python can, with one buffer for each thread and the exact transform."""
    import simplejpeg

    pool = ThreadPoolExecutor(count)
    buffers = [bytearray(0) for _ in range(count)]

    def some(files: list[bytes], k: int) -> None:
        for data in files[k::count]:
            height, width, *_ = simplejpeg.decode_jpeg_header(data)
            if len(buffers[k]) < height * width * 3:
                buffers[k] = bytearray(height * width * 3)
            simplejpeg.decode_jpeg(data, buffer=buffers[k], fastdct=False, fastupsample=False)

    def decode(files: list[bytes]) -> None:
        list(pool.map(some, [files] * count, range(count)))

    return decode


def by_pillow(count: int) -> Work:
    """Decode by Pillow alone, on the same number of threads."""
    pool = ThreadPoolExecutor(count)

    def one(data: bytes) -> None:
        np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))

    def decode(files: list[bytes]) -> None:
        list(pool.map(one, files))

    return decode


def compared(works: dict[str, Work], files: list[bytes], rounds: int) -> dict[str, Any]:
    """Measure images/s of each, and the first one's ratio to the others, round by round."""

    def decode(work: Work) -> None:
        for at in range(0, len(files), BATCH):
            work(files[at : at + BATCH])

    seconds, _ = common.interleaved({name: partial(decode, work) for name, work in works.items()}, rounds)
    ours, *_ = works
    result: dict[str, Any] = {}
    for name, taken in seconds.items():
        ratio, ratio_range = common.ratio(taken, seconds[ours])
        result[name] = {"images_per_second": common.per_second(len(files), taken)}
        if name != ours:
            result[name] |= {f"{ours}_is_faster_by": ratio, "range": ratio_range}
    return result


def chain(name: str) -> Work:
    """Return a chain of bench_core, opening included, into reused memory."""
    out = np.zeros((BATCH, 3, chains.SIZE, chains.SIZE), np.float32)
    work = chains.core()[name]

    def run(files: list[bytes]) -> None:
        work(gi.open_batch(files, device="cpu"), 0).array("float32", "NCHW", out=out[: len(files)])

    return run


def differing_values(files: list[bytes]) -> dict[str, int]:
    """Count the values of all photos, and those that differ from libjpeg-turbo's."""
    values = differing = 0
    for at in range(0, len(files), BATCH):
        batch = files[at : at + BATCH]
        for data, ours in zip(batch, gi.decode_batch(batch, device="cpu"), strict=True):
            theirs = np.asarray(Image.open(io.BytesIO(data)))
            values += theirs.size
            differing += int(np.count_nonzero(theirs != ours))
    return {"values": values, "differing": differing}


def progressive(rounds: int) -> dict[str, Any]:
    """Measure progressive files: whole images, and random crops of 8 to 100 % of the area as decoded pixels."""
    files = photos.load_set("progressive")[:_PROGRESSIVE_FILES]
    count = threads()
    rng = np.random.default_rng(0)
    size = np.array(photos.SIZE)
    sides = np.maximum(size * np.sqrt(rng.uniform(0.08, 1.0, (len(files), 1))), 1).astype(int)
    corners = (rng.random((len(files), 2)) * (size - sides)).astype(int)
    boxes = dict(zip(files, np.concatenate([corners, sides], 1).tolist(), strict=True))
    pool = ThreadPoolExecutor(count)

    def cropped(some: list[bytes]) -> None:
        places = zip(*(boxes[data] for data in some), strict=True)
        gi.crop(gi.open_batch(some, device="cpu"), *map(list, places)).compute("uint8")

    def cropped_by_pillow(some: list[bytes]) -> None:
        def one(data: bytes) -> None:
            top, left, height, width = boxes[data]
            np.asarray(Image.open(io.BytesIO(data)).crop((left, top, left + width, top + height)))

        list(pool.map(one, some))

    others = {"Pillow": by_pillow(count), "simplejpeg": by_simplejpeg(count)}
    return {
        "photos": photos.summary(files),
        "pixels": differing_values(files),
        "whole": compared({"gpuimg": _by_gpuimg, **others}, files, rounds),
        "crops": compared({"gpuimg": cropped, "Pillow": cropped_by_pillow}, files, rounds),
    }


def webp(files: list[bytes], rounds: int) -> dict[str, Any]:
    """Measure WebP, which Pillow decodes, through gpuimg and alone."""
    made = []
    for data in files[:_WEBP_FILES]:
        file = io.BytesIO()
        Image.open(io.BytesIO(data)).save(file, "WEBP")
        made.append(file.getvalue())
    return compared({"gpuimg": _by_gpuimg, "Pillow": by_pillow(threads())}, made, rounds)


def python_time(files: list[bytes], rounds: int) -> dict[str, float]:
    """Measure microseconds of Python per image for the train chain on one thread: CPU time outside the native loop."""
    files = (files * -(-PYTHON_BATCH // len(files)))[:PYTHON_BATCH]
    rng = np.random.default_rng(0)
    out = np.zeros((PYTHON_BATCH, 3, chains.SIZE, chains.SIZE), np.float32)
    native_loop: Any = loops
    loop, native = native_loop.run_images, [0.0]

    def timed(*arguments: Any) -> Any:
        start = time.thread_time()
        try:
            return loop(*arguments)
        finally:
            native[0] += time.thread_time() - start

    taken = []
    os.environ["GPUIMG_NUM_THREADS"] = "1"
    native_loop.run_images = timed
    try:
        for _ in range(3 * rounds):
            native[0] = 0.0
            start = time.thread_time()
            x = gi.open_batch(files, device="cpu")
            opened = time.thread_time()
            x = chains.train(x, rng)
            recorded = time.thread_time()
            x.array("float32", "NCHW", out=out)
            taken.append((opened - start, recorded - opened, time.thread_time() - recorded - native[0]))
    finally:
        native_loop.run_images = loop
        del os.environ["GPUIMG_NUM_THREADS"]
    names = ("open", "record", "run")
    result = dict(zip(names, (np.median(np.array(taken), 0) / PYTHON_BATCH * 1e6).round(2).tolist(), strict=True))
    return result | {"all": round(sum(result.values()), 2)}


def whole(files: list[bytes], rounds: int) -> dict[str, Any]:
    """Measure whole images by all libraries."""
    works: dict[str, Work] = {
        "gpuimg": _by_gpuimg,
        "nvImageCodec": common.Floor(threads()),
        "simplejpeg": by_simplejpeg(threads()),
    }
    return compared(works, files, rounds)


def main() -> None:
    """Measure, print, and write the result."""
    parser = common.arguments(__doc__, "decode.json", rounds=9)
    parser.add_argument("--only", choices=["progressive"], help="this part alone")
    options = parser.parse_args()
    if options.only:
        found = progressive(options.rounds)
        common.write(common.environment(found.pop("photos"), options.rounds) | found, options.out)
        return
    files = photos.load()
    floor = common.Floor(threads())
    common.write(
        {
            **common.environment(photos.summary(files), options.rounds),
            "pixels": differing_values(files),
            "whole": whole(files, options.rounds),
            **{
                name: compared({name: chain(name), "nvImageCodec, whole images": floor}, files, options.rounds)
                for name in ("train", "eval")
            },
            "webp": webp(files, options.rounds),
            "python_us_per_image": python_time(files, options.rounds),
        },
        options.out,
    )


if __name__ == "__main__":
    main()
