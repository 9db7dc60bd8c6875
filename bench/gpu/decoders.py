"""nvImageCodec's decoders by kind, and one setting of them, timed: decoders, streams, buffers as gpuimg uses them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bench.gpu import hooks
from bench.gpu.measure import rate

_SLOTS = 2  # buffers of a decoder, used in turn
_ALIGNMENT = 64
ONE_BY_ONE = "nvjpeg_hw_decoder:force_batch_single=1"
LEGACY = "nvjpeg_hw_decoder:force_legacy_batch=1"
#: Decoders by themselves: which of nvImageCodec's backends, and its options.
KINDS = {
    "hardware, batched": ("HW_GPU_ONLY", ""),
    "hardware, one by one": ("HW_GPU_ONLY", ONE_BY_ONE),
    "hardware, legacy batch": ("HW_GPU_ONLY", LEGACY),
    "hybrid": ("HYBRID_CPU_GPU", ""),
}
_THREADS = 8


@dataclass(frozen=True)
class Setting:
    """Options of decoding. ``load`` is the share of a batch for the hardware engine."""

    load: float = 0.65
    threads: int = 16
    batch: int = 64
    decoders: int = 1
    options: str = ""


class _Lane:
    """One decoder with its stream and buffers, into which it decodes its batches repeatedly."""

    def __init__(self, decoder: Any, batches: list[list[bytes]]) -> None:
        import cupy

        from gpuimg._decoding import nvimgcodec

        self._library = nvimgcodec.library()
        self._params = nvimgcodec.decode_params("rgb")
        self._decoder = decoder
        self._batches = batches
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._read = [cupy.cuda.Event(disable_timing=True) for _ in range(_SLOTS)]
        shapes = [[shape_of(data) for data in batch] for batch in batches]
        offsets = [_offsets(each) for each in shapes]
        largest = max(int(each[-1]) for each in offsets)
        with self._stream:
            slots = [cupy.empty(largest, cupy.uint8) for _ in range(_SLOTS)]
            self._targets = [
                self._library.as_images(
                    [
                        slots[k % _SLOTS][start : start + int(np.prod(shape))].reshape(shape)
                        for start, shape in zip(offsets[k].tolist(), shapes[k], strict=False)
                    ]
                )
                for k in range(len(batches))
            ]
        cupy.cuda.Device(0).synchronize()

    def decode(self) -> int:
        """Decode all batches; return the number of images that did not decode."""
        failed = 0
        for k, batch in enumerate(self._batches):
            read = self._read[k % _SLOTS]
            read.synchronize()  # as every user of the pixels must
            streams = [self._library.CodeStream(data) for data in batch]
            done = self._decoder.decode(
                streams, images=self._targets[k], params=self._params, cuda_stream=self._stream.ptr
            )
            read.record(self._stream)
            failed += sum(image is None for image in done)
        self._stream.synchronize()
        return failed


def _offsets(shapes: list[tuple[int, int, int]]) -> Any:
    """Return the offsets of images in a buffer and, last, its size."""
    sizes = [-(-height * width * depth // _ALIGNMENT) * _ALIGNMENT for height, width, depth in shapes]
    return np.concatenate([[0], np.cumsum(sizes)])


def make_decoder(setting: Setting) -> Any:
    """Return a decoder of a setting; CUDA decodes images that the hardware does not support, the CPU none."""
    from gpuimg._decoding import nvimgcodec

    library = nvimgcodec.library()
    backends = [library.Backend(library.HYBRID_CPU_GPU)]
    if setting.load > 0:
        backends.insert(0, library.Backend(library.HW_GPU_ONLY, load_hint=setting.load))
    return library.Decoder(device_id=0, max_num_cpu_threads=setting.threads, backends=backends, options=setting.options)


def gpuimg_decoder(setting: Setting | None = None) -> Any:
    """Return the decoder that gpuimg creates, independent of a setting."""
    return hooks.our_decoder(max((setting or Setting()).threads, 2))


def decoder_of(kind: str) -> Any:
    """Return a decoder of one of :data:`KINDS` only.

    Raises
    ------
    RuntimeError
        If this machine has none.
    """
    from gpuimg._decoding import nvimgcodec

    library = nvimgcodec.library()
    backend, options = KINDS[kind]
    return library.Decoder(
        device_id=0,
        max_num_cpu_threads=_THREADS,
        backends=[library.Backend(getattr(library, backend), load_hint=1.0)],
        options=options,
    )


class Arena:
    """Images of a batch, one after another in the GPU's memory, decoded on a separate stream."""

    def __init__(self, files: list[bytes]) -> None:
        import cupy

        from gpuimg._decoding import nvimgcodec

        self._library = nvimgcodec.library()
        self._params = nvimgcodec.decode_params("rgb")
        self.files = files
        self.shapes = [shape_of(data) for data in files]
        self.offsets = _offsets(self.shapes)
        self.stream = cupy.cuda.Stream(non_blocking=True)
        with self.stream:
            self.memory = cupy.empty(int(self.offsets[-1]), cupy.uint8)
            self.images = [
                self.memory[at : at + int(np.prod(shape))].reshape(shape)
                for at, shape in zip(self.offsets.tolist(), self.shapes, strict=False)
            ]
            self._targets = self._library.as_images(self.images)
        self.stream.synchronize()

    def decode(self, decoder: Any) -> list[bool]:
        """Decode all into their places; return which images the decoder reported as decoded."""
        streams = [self._library.CodeStream(data) for data in self.files]
        done = decoder.decode(streams, images=self._targets, params=self._params, cuda_stream=self.stream.ptr)
        return [image is not None for image in done]


def one_batch(decoder: Any, files: list[bytes]) -> list[Any]:
    """Return the images of a batch in the GPU's memory, None for those that did not decode."""
    arena = Arena(files)
    done = arena.decode(decoder)
    arena.stream.synchronize()
    return [image if good else None for image, good in zip(arena.images, done, strict=True)]


def shape_of(data: bytes) -> tuple[int, int, int]:
    """Return height, width and channels of a file as stored."""
    from gpuimg._decoding import nvimgcodec

    stream = nvimgcodec.library().CodeStream(data)
    return stream.height, stream.width, 3


def measured(
    files: list[bytes], setting: Setting, make: Callable[[Setting], Any] = make_decoder, **rounds: Any
) -> dict[str, Any]:
    """Measure images/s of a setting, with new decoders: their first call fixes the hardware's share.

    ``rounds`` are options of :func:`bench.gpu.measure.rate`.
    """
    size = min(setting.batch, len(files))
    batches = [files[at : at + size] for at in range(0, len(files) - size + 1, size)]
    batches *= setting.decoders  # the same work for each decoder
    with ThreadPoolExecutor(setting.decoders) as pool:
        made = [make(setting) for _ in range(setting.decoders)]
        lanes = [_Lane(decoder, batches[k :: setting.decoders]) for k, decoder in enumerate(made)]
        failed = sum(pool.map(_Lane.decode, lanes))
        found = rate(lambda: list(pool.map(_Lane.decode, lanes)), sum(map(len, batches)), **rounds)
    return {**asdict(setting), **found, "failed": failed}
