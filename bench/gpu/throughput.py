"""Throughput on a GPU, from the bytes of JPEGs to batches: gpuimg, nvImageCodec alone, and DALI.

    python -m bench.gpu.throughput [--seconds 360]

The kernels for JPEGs by CUDA events, and functions to whole images and to training batches, with an index, without, of
recoded files and by nvImageCodec; ``gpuimg.load`` with its settings varied one after another, then from files, with an
index, with nvImageCodec, and from GPU memory; DALI's mixed pipeline where it is installed; nvImageCodec alone by the
share of the hardware engine. Every batch is waited for. Rates of the running loader do not contain its start. The
images that the CPU decoded instead are counted: a decoder that refuses its files would look like a slow GPU.
"""

import contextlib
import itertools
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import gpuimg as gi
from bench.gpu.common import DTYPE, LAYOUT, SIZE, Spin, arguments, attempt, photos, rate, seek_index, show, wait
from bench.peers import base, peer_class
from bench.peers.ours import PREPROCESS
from bench.photos import write_classes
from gpuimg._batch.batch import recording_of

_BATCHES = 256, 64
_ROUND = 4096  # images of a round of the running loader
_SHARES = (1.0, 0.65, 0.35, 0.0)  # of the hardware engine
_LANES = (2, 1, 3)  # decoders that work in turn
_ALIGNMENT = 64
_SPIN_MS = 3.0
_SWITCH_S = 1e-4  # after which a thread takes the GIL: less than by default, so that rates stay alike

Files = list[bytes]


# -- nvImageCodec alone ------------------------------------------------------------------------------------------------


class Lane:
    """One decoder of nvImageCodec, with its stream and memory, into which it decodes a batch again and again."""

    def __init__(self, files: Files, share: float, threads: int) -> None:
        import cupy

        from gpuimg._decoding import nvimgcodec

        self._library, self._params, self._files = nvimgcodec.library(), nvimgcodec.decode_params("rgb"), files
        backends = [self._library.Backend(self._library.HYBRID_CPU_GPU)]
        if share > 0:
            backends.insert(0, self._library.Backend(self._library.HW_GPU_ONLY, load_hint=share))
        self._decoder = self._library.Decoder(device_id=0, max_num_cpu_threads=threads, backends=backends)
        self._stream = cupy.cuda.Stream(non_blocking=True)
        shapes = [(one.height, one.width, 3) for one in map(self._library.CodeStream, files)]
        starts = np.cumsum([0, *(-(-int(np.prod(shape)) // _ALIGNMENT) * _ALIGNMENT for shape in shapes)]).tolist()
        with self._stream:
            memory = cupy.empty(starts[-1], cupy.uint8)
            views = [memory[at : at + int(np.prod(s))].reshape(s) for at, s in zip(starts, shapes, strict=False)]
            self._images = self._library.as_images(views)
        self._stream.synchronize()

    def decode(self) -> int:
        """Decode all files; return the number of those that did not decode."""
        streams = [self._library.CodeStream(data) for data in self._files]
        done = self._decoder.decode(streams, images=self._images, params=self._params, cuda_stream=self._stream.ptr)
        self._stream.synchronize()
        return sum(image is None for image in done)


def nvimagecodec_alone(files: Files, share: float, lanes: int) -> dict[str, Any]:
    """Measure images/s of new decoders: their first call fixes the share of the hardware."""
    threads = max(min(len(os.sched_getaffinity(0)), 16) // lanes, 2)  # with one it never decodes images one by one
    with ThreadPoolExecutor(lanes) as pool:
        each = [Lane(files, share, threads) for _ in range(lanes)]
        failed = sum(pool.map(Lane.decode, each))
        found = rate(lambda: list(pool.map(Lane.decode, each)), lanes * len(files))
    return {**found, **({"problem": f"{failed} images did not decode"} if failed else {})}


# -- gpuimg ------------------------------------------------------------------------------------------------------------


def kernels_alone(files: Files, index: gi.SeekIndex | None) -> dict[str, Any]:
    """Measure the GPU's time for the kernels that decode JPEGs, without and with the upload, for whole images."""
    import cupy

    from gpuimg._data.images import ALIGNMENT, EncodedImages, Pixels, offsets_of, whole_regions
    from gpuimg._runtimes.cuda_jpeg import SegmentDecoder
    from gpuimg._runtimes.cuda_memory import ThreadResources
    from gpuimg._runtimes.jpeg_upload import Upload

    images = recording_of(gi.open_batch(files, device="cpu", index=index)).source
    assert isinstance(images, EncodedImages)
    offsets, total = offsets_of(images.sizes, 3, ALIGNMENT)
    prepared = Upload(images, Pixels(None, offsets, images.sizes, 3), whole_regions(images.sizes))
    resources, stream = ThreadResources(), cupy.cuda.Stream(non_blocking=True)
    decoder = SegmentDecoder(lambda: resources.pinned)
    host = resources.pinned.take(prepared.words).memory.words[: prepared.words]
    prepared.write(host)
    taken: dict[str, list[float]] = {"kernels": [], "with upload": []}
    with stream:
        spin, out = Spin(), cupy.empty(total, cupy.uint8)
        words, status = cupy.empty(prepared.words_on_gpu, cupy.int32), cupy.zeros(len(files), cupy.int32)

        def launch() -> None:
            decoder._launch(prepared, words, out, status, stream)

        def both() -> None:
            words.data.copy_from_host_async(host.ctypes.data, host.nbytes)
            launch()

        both()  # compiles the kernels, and allocates
        for _ in range(6):
            taken["kernels"].append(spin.time(launch, _SPIN_MS))
            taken["with upload"].append(spin.time(both, _SPIN_MS))
    cupy.cuda.Device(0).synchronize()
    count, reported = len(prepared.taken), int(np.count_nonzero(status.get()))
    rates = {name: round(1e3 * count / float(np.median(times[1:])), 1) for name, times in taken.items()}
    found = {"images_per_second": rates, "images": count, "upload_bytes": 4 * prepared.words, "reported": reported}
    return {**found, "problem": "images are reported as damaged"} if reported else found


def functions(sources: list[Any], work: str, batch: int, **options: Any) -> Callable[[], None]:
    """Return an epoch of one batch after another: to whole images, or into memory that is used again."""
    import cupy

    out, epochs = cupy.zeros((batch, 3, SIZE, SIZE), DTYPE), itertools.count()

    def run() -> None:
        epoch = next(epochs)
        for at in range(0, len(sources), batch):
            some = sources[at : at + batch]
            place = {"indices": range(at, at + len(some))} if options.get("index") else {}
            x = gi.open_batch(some, device="cuda", **{"decoder": "gpuimg", **options, **place})
            if work == "whole":
                x.compute()
            else:
                rng = gi.Rng(0, epoch=epoch, indices=range(at, at + len(x)))
                PREPROCESS[work](x, rng).array(DTYPE, LAYOUT, out=out[: len(x)])
        wait()

    return run


def loaded(source: Any, work: str, batch: int, **options: Any) -> dict[str, Any]:
    """Measure the running loader, with its threads and queues as in the middle of an epoch."""
    loader = gi.load(
        source, PREPROCESS[work], batch_size=batch, device="cuda", dtype=DTYPE, layout=LAYOUT, shuffle=True,
        epochs=None, drop_last=True, **{"decoder": "gpuimg", **options},
    )  # fmt: skip
    count = -(-_ROUND // batch)
    running: Any = iter(loader)
    with contextlib.closing(running) as batches:

        def some() -> None:
            for _ in range(count):
                next(batches)
            wait()

        found = rate(some, count * batch, passes=1)
        return {**found, "stats": loader.stats()}


def gil_microseconds(run: Callable[[], object], images: int) -> float:
    """Measure for how long a function holds the GIL: the time in which a thread that only wants the GIL does not run.

    On a machine with a core for each of the two; others make it too long.
    """
    done, used, begun = False, 0.0, threading.Event()

    def wanting() -> None:
        nonlocal used
        begin = time.thread_time()
        begun.set()
        while not done:
            pass
        used = time.thread_time() - begin

    thread, interval = threading.Thread(target=wanting), sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    try:
        thread.start()
        begun.wait()
        begin = time.perf_counter()
        run()
        taken = time.perf_counter() - begin
    finally:
        done = True
        sys.setswitchinterval(interval)
        thread.join()
    return 1e6 * max(taken - used, 0.0) / images


def best_settings(source: Any, batch: int, end: float) -> dict[str, int]:
    """Vary one setting of the loader after another; return the best."""
    best, most = {"decoders": 2, "prefetch": 2, "readers": 4}, 0.0
    tries = [best, {"decoders": 1}, {"decoders": 3}, {"prefetch": 4}, {"readers": 2}, {"readers": 8}]
    for change in tries:
        if time.monotonic() < end:
            tried = {**best, **change}
            found = attempt(f"gpuimg.load, {tried}", lambda tried=tried: loaded(source, "train", batch, **tried))  # type: ignore[misc]
            if found.get("images_per_second", 0.0) > most:
                best, most = tried, found["images_per_second"]
    return best


def dali(work: str, files: Files, batch: int) -> dict[str, Any]:
    """Measure DALI's mixed pipeline, after a look at the shape of its results."""
    one = peer_class("dali-mixed")(len(os.sched_getaffinity(0)), batch)
    epoch = one.start(work, files * -(-_ROUND // len(files)))
    for result in epoch():  # to the end: some do not like to be stopped in between
        shape = result.shape() if callable(result.shape) else result.shape
        if tuple(shape)[1:] != (3, base.SIZE, base.SIZE):
            raise ValueError(f"its results have the shape {tuple(shape)}")
    return rate(lambda: sum(1 for _ in epoch()), len(files) * -(-_ROUND // len(files)), passes=1)


def main() -> None:
    options = arguments(__doc__, 360)
    files = photos("S", max(_BATCHES))
    source = [(data, i) for i, data in enumerate(files)]
    works: list[tuple[str, Callable[[], dict[str, Any]]]] = []

    def add(name: str, measure: Callable[..., dict[str, Any]], *given: Any, **others: Any) -> None:
        works.append((name, partial(measure, *given, **others)))

    def batches(sources: list[Any], work: str, size: int, **others: Any) -> dict[str, Any]:
        return rate(functions(sources, work, size, **others), len(files))

    with tempfile.TemporaryDirectory() as folder, seek_index(files) as index:
        paths, recoded = write_classes(files, Path(folder)), list(map(gi.recode_jpeg, files))
        best = best_settings(source, _BATCHES[0], options.end)
        for batch in _BATCHES:
            ending = f", batch {batch}"
            for name, some, how in (
                ("index", files, {"index": index}), ("no index", files, {}), ("recoded", recoded, {}),
                ("nvImageCodec", files, {"decoder": "nvimagecodec"}), ("from files", paths, {}),
            ):  # fmt: skip
                if "decoder" not in how and some is not paths:
                    add(f"kernels, {name}{ending}", kernels_alone, some[:batch], how.get("index"))
                add(f"bytes to whole images, {name}{ending}", batches, some, "whole", batch, **how)
                add(f"bytes to train batches, {name}{ending}", batches, some, "train", batch, **how)
            for work in ("train", "train+rotate+color"):
                ending = f", {work}, batch {batch}"
                add(f"gpuimg.load{ending}", loaded, source, work, batch, **best)
                add(f"DALI{ending}", dali, work, files, batch)
                add(f"gpuimg.load, index{ending}", loaded, source, work, batch, index=index, **best)
                add(f"gpuimg.load, nvImageCodec{ending}", loaded, source, work, batch, decoder="nvimagecodec", **best)
            ending = f", train, batch {batch}"
            add(f"gpuimg.load, resident{ending}", loaded, source, "train", batch, cache="4 GiB", **best)
            add(f"gpuimg.load, files{ending}", loaded, gi.folder(folder), "train", batch, **best)
        for lanes, share in itertools.product(_LANES, _SHARES):
            add(f"nvImageCodec alone, share {share}, {lanes} decoders", nvimagecodec_alone, files[:64], share, lanes)
        for name, measure in works:
            if time.monotonic() > options.end:
                show(name, skipped="out of time")
                continue
            attempt(name, measure)
        run = functions(files, "train", _BATCHES[0])
        held = [gil_microseconds(run, len(files)) for _ in range(6)][1:]
        show("the GIL is held for a photo, us", median=round(float(np.median(held)), 2))


if __name__ == "__main__":
    main()
