"""Shared code of the parts: results as lines of JSON, photos, rates, and decoders by themselves."""

import io
import json
import math
import os
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import gpuimg as gi
from bench.common import ROOT
from bench.gpu import REHEARSAL
from gpuimg._batch.batch import recording_of

BATCH = 2 if REHEARSAL else 256
_ROUNDS, _ROUND_S, _MOST_PASSES = (1, 0.0, 1) if REHEARSAL else (5, 0.1, 32)  # a shorter round has several passes


def device() -> Any:
    """The GPU, or in a rehearsal a fake one, for a block."""
    return import_module(REHEARSAL).device() if REHEARSAL else nullcontext()


def show(what: str, **found: Any) -> None:
    """Print a finding; one with a ``problem`` is a failure."""
    print(json.dumps({"what": what, **found}, default=str), flush=True)


def attempt(what: str, measure: Callable[..., dict[str, Any]], *given: Any, **options: Any) -> dict[str, Any]:
    """Measure and print what was found or, so that a failure does not lose the other findings, the error."""
    print(what, file=sys.stderr, flush=True)  # one that ends the process is the last in the log
    try:
        found = measure(*given, **options)
    except ImportError as error:
        found = {"absent": str(error)}
    except Exception as error:
        found = {"problem": f"{type(error).__name__}: {error}"[:400]}
    show(what, **found)
    return found


def photos(count: int) -> list[bytes]:
    """Baseline files of set S, which ``make gpu-photos`` makes, or the example photos, repeated, if there are too few.

    gpuimg's kernels leave progressive ones to the CPU, whose speed they would measure.
    """
    count = int(os.environ.get("GPU_PHOTOS", count))
    if REHEARSAL:
        files: list[bytes] = import_module(REHEARSAL).photos()
    else:
        files = _baseline(ROOT / "bench" / ".photos" / "S")
        if len(files) < count:
            show("photos", problem=f"{len(files)} of {count} of set S: example photos are used; make gpu-photos")
            files = _baseline(ROOT / "examples" / "photos")
    return (files * -(-count // len(files)))[:count]


def _baseline(folder: Path) -> list[bytes]:
    files = [path.read_bytes() for path in sorted(folder.glob("*.jpg"))]
    return [data for data in files if not Image.open(io.BytesIO(data)).info.get("progressive")]


def wait() -> None:
    """Wait for the work on CuPy's current stream, after which its results are complete: a launch is no result."""
    import cupy

    cupy.cuda.get_current_stream().synchronize()


def rate(run: Callable[[], object], images: int, passes: int | None = None) -> dict[str, Any]:
    """Measure images/s of a function that returns after its results are complete: the median of the rounds.

    The first call compiles and allocates. The second determines the number of passes that make a round long enough.
    """
    run()
    begin = time.perf_counter()
    run()
    once = max(time.perf_counter() - begin, 1e-6)
    passes = passes or min(max(math.ceil(_ROUND_S / once), 1), _MOST_PASSES)
    walls, cpus = [], []
    for _ in range(_ROUNDS):
        begin, used = time.perf_counter(), time.process_time()
        for _ in range(passes):
            run()
        walls.append(time.perf_counter() - begin)
        cpus.append(time.process_time() - used)
    rates = [images * passes / wall for wall in walls]
    of = {"range": [round(min(rates), 1), round(max(rates), 1)], "cpu_us": round(1e6 * min(cpus) / images / passes, 1)}
    return {"images_per_second": round(float(np.median(rates)), 1), **of}


def decoder(share: float, threads: int = 8, *, as_batch: bool = False) -> Any:
    """Make a decoder of nvImageCodec with gpuimg's options: a share of the files for the hardware engine, or CUDA."""
    from gpuimg._decoding import nvimgcodec

    library = nvimgcodec.library()
    backends = [library.Backend(library.HW_GPU_ONLY, load_hint=share)] if share > 0 else []
    backends += [library.Backend(library.HYBRID_CPU_GPU)] if share < 1 else []
    options = nvimgcodec.options(threads, as_batch=as_batch)
    return library.Decoder(device_id=0, max_num_cpu_threads=threads, backends=backends, options=options)


class Lane:
    """A decoder of nvImageCodec, and memory into which it decodes the same files."""

    def __init__(self, files: list[bytes], share: float, threads: int = 8, *, as_batch: bool = False) -> None:
        import cupy

        from gpuimg._decoding import nvimgcodec as own

        library = self._library = own.library()
        self._params, self._files = own.decode_params("rgb"), files
        self._decoder = decoder(share, threads, as_batch=as_batch)
        shapes = [(one.height, one.width, 3) for one in map(library.CodeStream, files)]
        starts = np.cumsum([0, *(-(-math.prod(shape) // 64) * 64 for shape in shapes)]).tolist()
        self.stream, self.memory = cupy.cuda.Stream(non_blocking=True), cupy.empty(starts[-1], cupy.uint8)
        self.views = [self.memory[at : at + math.prod(s)].reshape(s) for at, s in zip(starts, shapes, strict=False)]
        outs = [own.DeviceImage(one.data.ptr, one.shape, self.stream.ptr) for one in self.views]
        self._images = library.as_images(outs)
        cupy.cuda.Device().synchronize()

    def decode(self) -> list[bool]:
        """Decode all files; return which did, as the decoder reports it."""
        streams = [self._library.CodeStream(data) for data in self._files]
        done = self._decoder.decode(streams, images=self._images, params=self._params, cuda_stream=self.stream.ptr)
        self.stream.synchronize()
        return [image is not None for image in done]

    def pixels(self) -> list[Any]:
        """Decode into memory full of 0xAA; return the images that did, and None for others."""
        self.memory.fill(0xAA)
        wait()  # a decoder may not
        return [view.get() if done else None for done, view in zip(self.decode(), self.views, strict=True)]


class Kernels:
    """gpuimg's kernels for JPEGs by themselves, with files that are on the GPU."""

    def __init__(self, files: list[bytes]) -> None:
        import cupy

        from gpuimg._data.images import ALIGNMENT, Pixels, offsets_of, whole_regions
        from gpuimg._runtimes.cuda_jpeg import SegmentDecoder
        from gpuimg._runtimes.cuda_memory import ThreadResources
        from gpuimg._runtimes.jpeg_upload import Upload

        images: Any = recording_of(gi.open_batch(files, device="cpu")).source
        offsets, total = offsets_of(images.sizes, 3, ALIGNMENT)
        self.upload = Upload(images, Pixels(None, offsets, images.sizes, 3), whole_regions(images.sizes))
        self.host = np.zeros(self.upload.words, np.int32)
        self.upload.write(self.host)
        resources = ThreadResources()
        self.decoder = SegmentDecoder(lambda: resources.pinned)
        self.words, self.out = cupy.zeros(self.upload.words_on_gpu, cupy.int32), cupy.zeros(total, cupy.uint8)
        self.status = cupy.zeros(len(files), cupy.int32)
        self.words[: self.host.size].set(self.host)
        self.stream = cupy.cuda.get_current_stream()

    def launch(self) -> None:
        self.decoder._launch(self.upload, self.words, self.out, self.status, self.stream)
