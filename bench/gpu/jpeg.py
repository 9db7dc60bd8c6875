"""JPEGs decoded by gpuimg's own kernels: alone, with their upload, and from bytes to batches.

Whole images and random crops of set S, with a seek index of k = 8 and without one, compared with nvImageCodec's best
setting of the part "decoding". Of every image, and of crops, the pixels are compared with the CPU's: none may differ.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import gpuimg as gi
from bench.gpu.chains import CHAINS, DTYPE, LAYOUT
from bench.gpu.child import Context
from bench.gpu.hooks import JpegKernels, uploaded
from bench.gpu.measure import LEAST_ROUNDS, Spin, attempted, gil_seconds, rate, synchronize, to_host, wait_for_stream
from bench.gpu.paths import best_decode
from bench.gpu.rows import own_rate, words
from bench.gpu.targets import KERNELS, PYTHON, WITHOUT_INDEX

BATCHES = (64, 256)
EVERY = 8
_CROPS = 64  # whose pixels are compared
_LEAST_S = 4.0


class Files:
    """Bytes as a source for an index."""

    def __init__(self, files: list[bytes]) -> None:
        self._files = files

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, i: int) -> tuple[bytes, int]:
        return self._files[i], 0


def run(context: Context) -> None:
    """Check pixels, then measure rates: rates of wrong pixels mean nothing."""
    files = context.photos("S", max(BATCHES))
    with with_index(files) as index:
        context.record("pixels", pixels(context.device, files, index))
        context.record("pixels without an index", pixels(context.device, files, None))
        context.record("best decoding of set S", best_decode(context.out))
        rates: dict[str, Any] = {}
        for size in (len(files),) if context.smoke else BATCHES:
            for name, measure in _measures(context, files[:size], index).items():
                if context.left() > _LEAST_S:
                    rates[f"{name}, batch {min(size, len(files))}"] = attempted(measure)
                    context.record("rates", rates)


@contextmanager
def with_index(files: list[bytes], every: int = EVERY) -> Iterator[Any]:
    """Return a seek index of some files."""
    with tempfile.TemporaryDirectory() as folder:
        gi.build_index(Files(files), Path(folder) / "index", every=every)
        yield gi.SeekIndex(Path(folder) / "index")


def pixels(device: str, files: list[bytes], index: Any) -> dict[str, int]:
    """Count values that differ from the CPU's without an index: of whole images, and of one crop of each."""
    found = {"whole images": 0, "crops": 0, "values": 0}
    plain = gi.decode_batch(files, device="cpu")
    for one, other in zip(gi.open_batch(files, device=device, index=index).compute(), plain, strict=True):
        found["whole images"] += int(np.count_nonzero(to_host(one) != other))
        found["values"] += other.size
    rng = np.random.default_rng()
    for i in rng.permutation(len(files))[:_CROPS].tolist():
        height, width = plain[i].shape[:2]
        top, left = int(rng.integers(height)), int(rng.integers(width))
        bottom, right = int(rng.integers(top, height)) + 1, int(rng.integers(left, width)) + 1
        x = gi.open_batch([files[i]], device=device, index=index, indices=None if index is None else [i])
        crop = gi.crop(x, top, left, bottom - top, right - left).compute("uint8")[0]
        found["crops"] += int(np.count_nonzero(to_host(crop) != plain[i][top:bottom, left:right]))
        found["values"] += (bottom - top) * (right - left) * 3
    return found


def _measures(context: Context, files: list[bytes], index: Any) -> dict[str, Callable[[], dict[str, Any]]]:
    """Return the measured functions of a batch."""
    device, n = context.device, len(files)
    chain = CHAINS["train"]

    def whole(**options: Any) -> None:
        gi.open_batch(files, device=device, **options).compute()
        wait_for_stream(device)

    def train(**options: Any) -> None:
        chain(gi.open_batch(files, device=device, **options), gi.Rng(0, indices=range(n))).array(DTYPE, LAYOUT)
        wait_for_stream(device)

    def rated(function: Callable[..., None], measure: Any = own_rate, **options: Any) -> Callable[[], dict[str, Any]]:
        return lambda: measure(device, lambda: function(**options), n, n, **context.rounds)

    found: dict[str, Callable[[], dict[str, Any]]] = {}
    for name, known in (("", index), (WITHOUT_INDEX, None)):
        found[f"bytes to whole images{name}"] = rated(whole, index=known)
        found[f"bytes to train batches{name}"] = rated(train, index=known)
        found[f"host's part of whole images{name}"] = partial(host_alone, context, files, known)
        found[f"{PYTHON}{name}"] = rated(train, measure=python_alone, index=known)
        if context.on_gpu:
            found[f"{KERNELS}{name}"] = partial(kernels_alone, files, known)
    if context.on_gpu:
        found["bytes to train batches, by nvImageCodec"] = rated(train, decoder="nvimagecodec")
    return found


def host_alone(context: Context, files: list[bytes], index: Any) -> dict[str, Any]:
    """Measure the host's work for a batch of open files: checking entries, copying bytes without their stuffing."""
    words = uploaded(files, index)[0].words
    memory = np.zeros(2 * words, np.int32)

    def prepare() -> None:
        again, _, _ = uploaded(files, index)
        again.write(memory[: again.words])

    return {**rate(prepare, len(files), **context.rounds), "bytes_an_image": round(4 * words / len(files))}


def python_alone(device: str, run: Callable[[], object], images: int, batch: int, **rounds: Any) -> dict[str, Any]:
    """Measure the time for which batches hold the GIL, and their rate while another thread is busy in Python."""
    held: list[float] = []
    found = own_rate(device, lambda: held.append(gil_seconds(run)), images, batch, **rounds)
    return {**found, "microseconds_an_image": round(1e6 * float(np.median(held)) / images, 2)}


def kernels_alone(files: list[bytes], index: Any) -> dict[str, Any]:
    """Measure the GPU time of the kernels, without and with the upload, for whole images."""
    import cupy

    prepared, total, images = uploaded(files, index)
    kernels, stream, out = JpegKernels(), cupy.cuda.Stream(non_blocking=True), cupy.empty(total, cupy.uint8)
    host = kernels.pinned(prepared.words)
    prepared.write(host)
    taken: dict[str, list[float]] = {"kernels": [], "with upload": []}
    with stream:
        spin = Spin()
        words, status = cupy.empty(prepared.words_on_gpu, cupy.int32), cupy.zeros(len(images), cupy.int32)

        def upload() -> None:
            words.data.copy_from_host_async(host.ctypes.data, host.nbytes)

        def launch() -> None:
            kernels.launch(prepared, words, out, status, stream)

        def both() -> None:
            upload()
            launch()

        both()  # compiles the kernels, and takes memory
        for _ in range(LEAST_ROUNDS + 1):
            taken["kernels"].append(spin.time(launch, busy_ms=3.0))
            taken["with upload"].append(spin.time(both, busy_ms=3.0))
    synchronize("cuda:0")
    median = {name: float(np.median(times[1:])) for name, times in taken.items()}
    times = taken["kernels"][1:]
    return {
        "images_per_second": round(1e3 * len(prepared.taken) / median["kernels"], 1),
        "range": [round(1e3 * len(prepared.taken) / time, 1) for time in (max(times), min(times))],
        "with upload, images_per_second": round(1e3 * len(prepared.taken) / median["with upload"], 1),
        "milliseconds": {name: round(one, 4) for name, one in median.items()},
        "rounds": LEAST_ROUNDS,
        "images": len(prepared.taken),
        "reported": int(np.count_nonzero(to_host(status))),
        "upload_bytes": 4 * prepared.words,
    }


def claims(results: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return wrong pixels, and images/s compared with nvImageCodec's."""
    problems, lines = [], []
    for name in ("pixels", "pixels without an index"):
        wrong = results.get(name)
        if wrong is None:
            continue
        lines.append(f"{name}: {wrong['values']:,} values compared with the CPU's: {_wrong(wrong)} differ")
        if _wrong(wrong):
            problems.append(
                f"{name} that differ from the CPU's: {wrong['whole images']} of whole images, {wrong['crops']} of crops"
            )
    best = results.get("best decoding of set S")
    if best:
        lines.append(f"nvImageCodec's best setting on set S: {best:,.0f} images/s")
    for name, row in results.get("rates", {}).items():
        if "error" in row:
            problems.append(f"{name}: {row['error']}")
            continue
        low, high = row["range"]
        more = row.get("with upload, images_per_second")
        lines.append(
            f"{name}: {row['images_per_second']:,.0f} images/s ({low:,.0f} to {high:,.0f}, n = {row['rounds']})"
            + (f"; with upload {more:,.0f}" if more else "")
            + (f"; the GIL is held for {row['microseconds_an_image']} us an image" if PYTHON in name else "")
            + words(row)
        )
        if row.get("reported"):
            problems.append(f"{name}: {row['reported']} images were reported as damaged")
    return problems, lines


def _wrong(found: dict[str, int]) -> int:
    return found["whole images"] + found["crops"]
