"""Access of the checks to gpuimg's internals, in one place so that changes there are followed here.

A check of an order runs twice: with gpuimg as it is, and without the code that ensures the order, which is removed
here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.gpu.measure import replaced
from gpuimg._batch.batch import recording_of


@contextmanager
def new_runtime() -> Iterator[None]:
    """Create a new runtime, with new streams and memory, for the block, and another one afterwards."""
    from gpuimg._runtimes import devices

    devices._cuda.cache_clear()
    try:
        yield
    finally:
        devices._cuda.cache_clear()


class Counts:
    """Counts of what our own code did on a GPU."""

    def __init__(self) -> None:
        # Lists, because threads append to them without a lock.
        self.launched: list[None] = []
        self.decoded_by_host: list[int] = []

    @property
    def launches(self) -> int:
        """Kernel launches that reached the driver."""
        return len(self.launched)

    @property
    def on_the_cpu(self) -> int:
        """Images of batches on a GPU that the CPU decoded."""
        return sum(self.decoded_by_host)


@contextmanager
def counted() -> Iterator[Counts]:
    """Count kernel launches and images decoded on the CPU during the block, of all threads."""
    from gpuimg._runtimes.cuda_decode import ImageDecoder
    from gpuimg._runtimes.cuda_launch import Loaded

    counts = Counts()
    launch, decode = Loaded.launch, ImageDecoder._decode_on_host

    def counted_launch(kernel: Any, *arguments: Any) -> None:
        counts.launched.append(None)
        launch(kernel, *arguments)

    def counted_decode(decoder: Any, images: Any, left: list[int], *others: Any) -> Any:
        counts.decoded_by_host.append(len(left))
        return decode(decoder, images, left, *others)

    with replaced(Loaded, "launch", counted_launch), replaced(ImageDecoder, "_decode_on_host", counted_decode):
        yield counts


@contextmanager
def without_arena_wait() -> Iterator[None]:
    """Let decoders write into an arena without waiting for its readers."""
    from gpuimg._runtimes.cuda_memory import Pinned, Ring

    take = Ring.take

    def at_once(ring: Any, size: int) -> Any:
        found = next((block for block in ring._spare if block.size >= size), None)
        if found is None or isinstance(found.memory, Pinned):
            return take(ring, size)
        ring._spare.remove(found)
        return found

    with new_runtime(), replaced(Ring, "take", at_once):
        yield


def our_decoder(threads: int) -> Any:
    """Return the decoders that gpuimg creates for a thread, called like one of nvImageCodec's."""
    return _OurDecoder(threads)


class _OurDecoder:
    """gpuimg's share of each batch for the hardware engine, the rest for CUDA."""

    def __init__(self, threads: int) -> None:
        import cupy

        from gpuimg._decoding import nvimgcodec
        from gpuimg._runtimes.cuda_launch import capability_of

        self._decoder = nvimgcodec.gpu_decoder(0, capability_of(cupy.cuda.Device(0)), threads)
        self._share = nvimgcodec.hardware_share()

    def decode(self, streams: list[Any], *, images: list[Any], params: Any, cuda_stream: int) -> list[Any]:
        """Return the images, None for those that did not decode."""
        for_engine = [(k * self._share) % 1.0 + self._share >= 1.0 for k in range(len(streams))]
        assert self._decoder is not None
        done = self._decoder.run(streams, images, for_engine, params, cuda_stream)
        return [image if good else None for image, good in zip(images, done, strict=True)]


class JpegKernels:
    """The kernels for JPEG segments alone."""

    def __init__(self) -> None:
        from gpuimg._runtimes.cuda_jpeg import SegmentDecoder
        from gpuimg._runtimes.cuda_memory import ThreadResources

        resources = ThreadResources()
        self._pinned = resources.pinned
        self._decoder = SegmentDecoder(lambda: resources.pinned)

    def pinned(self, words: int) -> Any:
        """Pinned memory, for as long as this object lives."""
        self._staging = self._pinned.take(words)
        return self._staging.memory.words[:words]

    def launch(self, upload: Any, words: Any, out: Any, status: Any, stream: Any) -> None:
        """Enqueue all launches for what was uploaded."""
        self._decoder._launch(upload, words, out, status, stream)


def uploaded(files: list[bytes], index: Any) -> Any:
    """Return the upload for whole images, with an index or None, the elements of their memory, and the images."""
    import gpuimg as gi
    from gpuimg._data.images import ALIGNMENT, EncodedImages, Pixels, offsets_of, whole_regions
    from gpuimg._runtimes.jpeg_upload import Upload

    images = recording_of(gi.open_batch(files, device="cpu", index=index)).source
    assert isinstance(images, EncodedImages)
    offsets, total = offsets_of(images.sizes, 3, ALIGNMENT)
    pixels = Pixels(None, offsets, images.sizes, 3)
    return Upload(images, pixels, whole_regions(images.sizes)), total, images


@contextmanager
def clips_at_once(count: int) -> Iterator[None]:
    """Set the number of clips that are decoded at a time."""
    from gpuimg._runtimes import cuda_decode

    with replaced(cuda_decode, "AT_ONCE", count):
        yield


@contextmanager
def without_frame_wait() -> Iterator[None]:
    """Let kernels read frames without waiting for NVDEC's stream."""
    from gpuimg._runtimes import cuda_video

    with replaced(cuda_video, "follow", lambda stream, other: None):
        yield


def frames_of(data: bytes, numbers: list[int], device: str) -> Iterator[list[Any]]:
    """Yield planes of frames as of NVDEC, luma and interleaved chroma, decoded by it or by the CPU."""
    from functools import partial

    from gpuimg._decoding.decoder import MAX_PIXELS
    from gpuimg._video.decode import decoded_frames
    from gpuimg._video.files import hardware, opened
    from gpuimg._video.index import read_index

    hwaccel = None if device == "cpu" else hardware(0)
    if hwaccel is not None:
        import cupy

        cupy.cuda.runtime.setDevice(0)  # FFmpeg decodes in the thread's current context
    index = read_index(data, MAX_PIXELS)
    for _, frame in decoded_frames(partial(opened, data, MAX_PIXELS, hwaccel), index, numbers):
        yield _interleaved(frame) if hwaccel is None else _downloaded(frame)


def _interleaved(frame: Any) -> list[Any]:
    import numpy as np

    bits = frame.format.components[0].bits
    dtype: Any = np.uint8 if bits == 8 else np.uint16
    rows = [np.frombuffer(plane, dtype).reshape(plane.height, -1)[:, : plane.width] for plane in frame.planes]
    shift = 0 if bits == 8 else 16 - bits
    return [rows[0] << shift, np.stack(rows[1:], -1).reshape(len(rows[1]), -1) << shift]


def _downloaded(frame: Any) -> list[Any]:
    import cupy
    import numpy as np

    from gpuimg._runtimes.cuda_video import _frame_of

    cupy.cuda.Device(0).synchronize()
    made = _frame_of(frame, 0)
    found = []
    sizes = [(frame.height, frame.width), ((frame.height + 1) // 2, (frame.width + 1) // 2 * 2)]
    for plane, row, (height, width) in zip(made.planes, made.surface.rows, sizes, strict=True):
        flat = np.zeros(height * row, plane.dtype)
        flat[: plane.size] = plane.get()
        found.append(flat.reshape(height, row)[:, :width])
    return found
