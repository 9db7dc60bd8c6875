"""One setting of nvImageCodec's decoders, timed: decoders, streams, buffers as gpuimg uses them, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bench.gpu.measure import rate

_SLOTS = 2  # buffers of a decoder, used in turn
_ALIGNMENT = 64


@dataclass(frozen=True)
class Setting:
    """How to decode. ``load`` is the share of a batch that goes to the hardware engine."""

    load: float = 0.65
    threads: int = 16
    batch: int = 64
    decoders: int = 1
    options: str = ""


class _Lane:
    """One decoder with its stream, and batches that it decodes into buffers of its own, again and again."""

    def __init__(self, decoder: Any, batches: list[list[bytes]]) -> None:
        import cupy

        from gpuimg._decoding import nvimgcodec

        self._library = nvimgcodec.library()
        self._params = nvimgcodec.decode_params("rgb")
        self._decoder = decoder
        self._batches = batches
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._read = [cupy.cuda.Event(disable_timing=True) for _ in range(_SLOTS)]
        shapes = [[self._shape(data) for data in batch] for batch in batches]
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

    @staticmethod
    def _shape(data: bytes) -> tuple[int, int, int]:
        from gpuimg._decoding import nvimgcodec

        stream = nvimgcodec.library().CodeStream(data)
        return stream.height, stream.width, 3

    def decode(self) -> int:
        """Decode all batches; gives how many images did not decode."""
        failed = 0
        for k, batch in enumerate(self._batches):
            read = self._read[k % _SLOTS]
            read.synchronize()  # as whoever uses the pixels must
            streams = [self._library.CodeStream(data) for data in batch]
            done = self._decoder.decode(
                streams, images=self._targets[k], params=self._params, cuda_stream=self._stream.ptr
            )
            read.record(self._stream)
            failed += sum(image is None for image in done)
        self._stream.synchronize()
        return failed


def _offsets(shapes: list[tuple[int, int, int]]) -> Any:
    """Where images lie in a buffer, and, last, its size."""
    sizes = [-(-height * width * depth // _ALIGNMENT) * _ALIGNMENT for height, width, depth in shapes]
    return np.concatenate([[0], np.cumsum(sizes)])


def make_decoder(setting: Setting) -> Any:
    """A decoder as the setting says; images that the hardware does not take are decoded by CUDA, none by the CPU."""
    from gpuimg._decoding import nvimgcodec

    library = nvimgcodec.library()
    backends = [library.Backend(library.HYBRID_CPU_GPU)]
    if setting.load > 0:
        backends.insert(0, library.Backend(library.HW_GPU_ONLY, load_hint=setting.load))
    return library.Decoder(device_id=0, max_num_cpu_threads=setting.threads, backends=backends, options=setting.options)


def gpuimg_decoder(setting: Setting) -> Any:
    """The decoders that gpuimg makes, whatever the setting's share and options, called like one of nvImageCodec's."""
    return _Gpuimg(max(setting.threads, 2))


class _Gpuimg:
    """gpuimg's share of each batch for the hardware engine, the rest for CUDA."""

    def __init__(self, threads: int) -> None:
        import cupy

        from gpuimg._decoding import nvimgcodec
        from gpuimg._runtimes.cuda_launch import capability_of

        self._decoder = nvimgcodec.gpu_decoder(0, capability_of(cupy.cuda.Device(0)), threads)
        self._share = nvimgcodec.hardware_share()

    def decode(self, streams: list[Any], *, images: list[Any], params: Any, cuda_stream: int) -> list[Any]:
        for_engine = [(k * self._share) % 1.0 + self._share >= 1.0 for k in range(len(streams))]
        assert self._decoder is not None
        done = self._decoder.run(streams, images, for_engine, params, cuda_stream)
        return [image if good else None for image, good in zip(images, done, strict=True)]


def measured(
    files: list[bytes],
    setting: Setting,
    make: Callable[[Setting], Any] = make_decoder,
    *,
    first_alone: bool = False,
) -> dict[str, Any]:
    """Images/s of a setting, with decoders of its own: their first call fixes the hardware's share.

    ``first_alone``: that first call is of a single image, as when somebody looks at a photo before the training.
    """
    size = min(setting.batch, len(files))
    batches = [files[at : at + size] for at in range(0, len(files) - size + 1, size)]
    batches *= setting.decoders  # the same work for each decoder
    with ThreadPoolExecutor(setting.decoders) as pool:
        made = [make(setting) for _ in range(setting.decoders)]
        if first_alone:
            for decoder in made:
                _Lane(decoder, [files[:1]]).decode()
        lanes = [_Lane(decoder, batches[k :: setting.decoders]) for k, decoder in enumerate(made)]
        failed = sum(pool.map(_Lane.decode, lanes))
        found = rate(lambda: list(pool.map(_Lane.decode, lanes)), sum(map(len, batches)))
    return {**asdict(setting), **found, "failed": failed}
