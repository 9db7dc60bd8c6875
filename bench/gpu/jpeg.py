"""JPEGs on a GPU: pixels and order of gpuimg's kernels and of nvImageCodec, and rates of the kernels alone.

    python -m bench.gpu.jpeg [--seconds 120]

First the pixels, because rates of wrong pixels mean nothing: of whole images and crops, with a seek index, without, and
of recoded files, no value of gpuimg's kernels may differ from the CPU's; nvImageCodec rounds differently, so that an
image is wrong if it is far from the CPU's on average, as one that its decoder reports but has not written. Then the
order: batches that are decoded while the GPU is busy with the one before. Then the time of the kernels by CUDA events,
and rates from bytes to whole images and to training batches. The last line says which decoder is faster.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import gpuimg as gi
from bench.gpu.common import DTYPE, LAYOUT, SIZE, Spin, arguments, attempt, photos, rate, seek_index, to_host, wait
from gpuimg._batch.batch import recording_of
from gpuimg.typing import Decoder

_BATCHES = 64, 256
_CROPS = 64
_FAR = 24.0  # mean difference in levels that a decoder's rounding does not give
_REPEATS = 100  # of decoding all photos by nvImageCodec, and of the check of the order
_SPIN_MS = 3.0

Files = list[bytes]


# -- pixels and order --------------------------------------------------------------------------------------------------


def pixels(files: Files, index: gi.SeekIndex | None) -> dict[str, Any]:
    """Count values of gpuimg's kernels that differ from the CPU's: of whole images, and of one crop of some."""
    plain = gi.decode_batch(files, device="cpu")
    x = gi.open_batch(files, device="cuda", index=index, decoder="gpuimg")
    whole = sum(
        int(np.count_nonzero(to_host(one) != other)) for one, other in zip(x.compute(), plain, strict=True)
    )  # fmt: skip
    crops, rng = 0, np.random.default_rng()
    for i in rng.permutation(len(files))[:_CROPS].tolist():
        height, width = plain[i].shape[:2]
        top, left = int(rng.integers(height)), int(rng.integers(width))
        bottom, right = int(rng.integers(top, height)) + 1, int(rng.integers(left, width)) + 1
        indices = None if index is None else [i]
        x = gi.open_batch([files[i]], device="cuda", index=index, indices=indices, decoder="gpuimg")
        crop = gi.crop(x, top, left, bottom - top, right - left).compute("uint8")[0]
        crops += int(np.count_nonzero(to_host(crop) != plain[i][top:bottom, left:right]))
    found = {"values": sum(image.size for image in plain), "whole images": whole, "crops": crops}
    return {**found, "problem": "pixels differ from the CPU's"} if whole or crops else found


def nvimagecodec(files: Files, end: float) -> dict[str, Any]:
    """Decode all photos again and again by nvImageCodec, in other batches each time, and count wrong ones."""
    plain = {id(data): image for data, image in zip(files, gi.decode_batch(files, device="cpu"), strict=True)}
    rng, images, wrong = np.random.default_rng(), 0, 0
    for k in range(_REPEATS):
        if k and time.monotonic() > end:
            break
        batch = [files[i] for i in rng.permutation(len(files))[:64]]
        for data, image in zip(batch, gi.decode_batch(batch, device="cuda", decoder="nvimagecodec"), strict=True):
            wrong += float(np.abs(to_host(image).astype(np.float64) - plain[id(data)]).mean()) > _FAR
            images += 1
    found = {"images": images, "wrong": wrong}
    return {**found, "problem": "images are not what was decoded"} if wrong else found


def order(files: Files, decoder: Decoder, end: float) -> dict[str, Any]:
    """Decode two batches in turn after work that keeps the GPU busy: the second while the first is not read yet."""
    import cupy

    spin, half, wrong, done = Spin(), len(files) // 2, 0, 0
    batches = files[:half], files[half : 2 * half]
    expected = [gi.resize(gi.open_batch(batch, device="cpu"), (64, 64)).array("float32") for batch in batches]
    while done < _REPEATS and time.monotonic() < end:
        results = []
        for batch in batches:
            spin(_SPIN_MS)  # on the current stream, which gpuimg's kernels wait for
            results.append(gi.resize(gi.open_batch(batch, device="cuda", decoder=decoder), (64, 64)).array("float32"))
        cupy.cuda.Device(0).synchronize()
        far = [np.abs(to_host(one) - other).mean() > 0.02 for one, other in zip(results, expected, strict=True)]
        wrong, done = wrong + any(far), done + 1
    return {"repetitions": done, "wrong": wrong, **({"problem": "batches overwrite each other"} if wrong else {})}


# -- rates -------------------------------------------------------------------------------------------------------------


def uploaded(files: Files, index: gi.SeekIndex | None) -> tuple[Any, int]:
    """Return the upload for whole images, and the bytes of their pixels."""
    from gpuimg._data.images import ALIGNMENT, EncodedImages, Pixels, offsets_of, whole_regions
    from gpuimg._runtimes.jpeg_upload import Upload

    images = recording_of(gi.open_batch(files, device="cpu", index=index)).source
    assert isinstance(images, EncodedImages)
    offsets, total = offsets_of(images.sizes, 3, ALIGNMENT)
    return Upload(images, Pixels(None, offsets, images.sizes, 3), whole_regions(images.sizes)), total


def kernels_alone(files: Files, index: gi.SeekIndex | None) -> dict[str, Any]:
    """Measure the GPU's time for the kernels, without and with the upload, for whole images."""
    import cupy

    from gpuimg._runtimes.cuda_jpeg import SegmentDecoder
    from gpuimg._runtimes.cuda_memory import ThreadResources

    resources, stream = ThreadResources(), cupy.cuda.Stream(non_blocking=True)
    decoder = SegmentDecoder(lambda: resources.pinned)
    prepared, total = uploaded(files, index)
    staging = resources.pinned.take(prepared.words)
    host: Any = staging.memory.words[: prepared.words]  # type: ignore[union-attr]
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
    count, reported = len(prepared.taken), int(np.count_nonzero(to_host(status)))
    rates = {name: round(1e3 * count / float(np.median(times[1:])), 1) for name, times in taken.items()}
    found = {"images_per_second": rates, "images": count, "upload_bytes": 4 * prepared.words, "reported": reported}
    return {**found, "problem": "images are reported as damaged"} if reported else found


def rates(files: Files, index: gi.SeekIndex, end: float) -> dict[str, float]:
    """Measure images/s of these files with an index, without, and recoded; return those that were measured."""
    n, chain = len(files), gi.presets.imagenet_train(SIZE)

    def whole(files: Files = files, **options: Any) -> None:
        gi.open_batch(files, device="cuda", **{"decoder": "gpuimg", **options}).compute()
        wait()

    def train(files: Files = files, **options: Any) -> None:
        x = gi.open_batch(files, device="cuda", **{"decoder": "gpuimg", **options})
        chain(x, gi.Rng(0, indices=range(n))).array(DTYPE, LAYOUT)
        wait()

    measures: dict[str, Callable[[], dict[str, Any]]] = {}
    recoded = list(map(gi.recode_jpeg, files))
    for name, some, known in (("index", files, index), ("no index", files, None), ("recoded", recoded, None)):
        measures[f"kernels, {name}"] = partial(kernels_alone, some, known)
        measures[f"bytes to whole images, {name}"] = partial(rate, partial(whole, some, index=known), n)
        measures[f"bytes to train batches, {name}"] = partial(rate, partial(train, some, index=known), n)
    measures["bytes to whole images, nvImageCodec"] = partial(rate, partial(whole, decoder="nvimagecodec"), n)
    measures["bytes to train batches, nvImageCodec"] = partial(rate, partial(train, decoder="nvimagecodec"), n)
    found = {}
    for name, measure in measures.items():
        if time.monotonic() < end:
            found[name] = attempt(f"{name}, batch {n}", measure).get("images_per_second", 0.0)
    return found


def faster(ours: float, theirs: float) -> str:
    """Return which decoder is faster, and by how much."""
    names = ("gpuimg's kernels are", "nvImageCodec") if ours > theirs else ("nvImageCodec is", "gpuimg's kernels")
    less, more = sorted([ours, theirs])
    rates = f"{more:,.0f} against {less:,.0f} images/s of the same photos"
    return f"{names[0]} {more / less:.2f} times as fast as {names[1]}, from bytes to training batches: {rates}"


def main() -> None:
    options = arguments(__doc__, 120)
    files = photos("S", max(_BATCHES))
    checks = time.monotonic() + options.seconds / 3
    with seek_index(files) as index:
        attempt("pixels, index", lambda: pixels(files, index))
        attempt("pixels, no index", lambda: pixels(files, None))
        attempt("pixels, recoded", lambda: pixels(list(map(gi.recode_jpeg, files)), None))
        attempt("nvImageCodec's pixels", lambda: nvimagecodec(files, checks))
        decoders: tuple[Decoder, ...] = ("gpuimg", "nvimagecodec")
        for decoder in decoders:
            attempt(f"order, {decoder}", partial(order, files[:32], decoder, checks + 10))
        for count in _BATCHES:
            found = rates(files[:count], index, options.end)
    work = "bytes to train batches, "
    attempt("faster decoder", lambda: {"answer": faster(found[f"{work}no index"], found[f"{work}nvImageCodec"])})


if __name__ == "__main__":
    main()
