"""nvImageCodec, which decodes JPEGs on GPUs. The only importer of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .._checks.types import Mask
from .._version import install_hint
from ..kernels.jpeg.layout import BASELINE, RGB
from .jpeg import Headers

INSTALL_HINT = f"decoding on a GPU needs nvImageCodec, which is not installed; {install_hint('cuda12', 'cuda13')}"

_PROGRESSIVE = 2  # the last process that nvJPEG knows


@lru_cache(maxsize=1)
def library() -> Any:
    """The ``nvidia.nvimgcodec`` module.

    Raises
    ------
    ImportError
        With what to install, where it is missing.
    """
    # Read once, at import. It would print about every file that does not decode; the reasons come from our decoder.
    os.environ.setdefault("PYNVIMGCODEC_VERBOSITY", "0")
    try:
        from nvidia import nvimgcodec
    except ImportError as error:
        raise ImportError(INSTALL_HINT) from error
    return nvimgcodec


@lru_cache(maxsize=2)
def decode_params(color: str) -> Any:
    """Parameters for ``"rgb"`` or ``"gray"`` pixels as they are stored.

    The orientation is applied by the runtime, which reads the same one for every decoder.
    """
    nvimgcodec = library()
    spec = nvimgcodec.ColorSpec.GRAY if color == "gray" else nvimgcodec.ColorSpec.SRGB
    return nvimgcodec.DecodeParams(apply_exif_orientation=False, color_spec=spec)


def takes(headers: Headers) -> Mask:
    """Which files nvImageCodec is given: JPEGs, gray or YCbCr, that every decoder reads alike.

    Where a header has gaps, its parser and a decoder behind it may read two sizes, and write past an image. What its
    decoders make of a file that was cut off depends on which of them has it.
    """
    records = headers.records
    alike = (records["strict"] == 1) & (records["whole"] == 1) & (records["process"] <= _PROGRESSIVE)
    components = records["components"]
    taken: Mask = alike & (records["color"] != RGB) & ((components == 1) | (components == 3))
    return taken


# Share of the files for the hardware engine; the rest goes to CUDA kernels with CPU Huffman. NVIDIA's own default in
# DALI (PR #6366), of a batch. Not measured here.
HARDWARE_SHARE = 0.65

_STREAMS = 4  # of a decoder, rather than one for each of its threads


def hardware_share() -> float:
    """Share of the files for the hardware engine: ``GPUIMG_HARDWARE_SHARE``, or the default.

    Raises
    ------
    ValueError
        For what is no number from 0 to 1.
    """
    text = os.environ.get("GPUIMG_HARDWARE_SHARE")
    if not text:
        return HARDWARE_SHARE
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ValueError(f"GPUIMG_HARDWARE_SHARE must be a number from 0 to 1, not {text!r}")
    return share


def for_engine(headers: Headers, share: float) -> Mask:
    """Which files the hardware engine is given: a share of those that it knows, whatever they are in a batch with.

    It knows baseline JPEGs of one scan, gray or with chroma of full or half size (NVIDIA, nvJPEG, "Hardware
    Acceleration"). The two decoders round differently: by a hash of its size in bytes and pixels a file has the same
    one always.
    """
    records = headers.records
    mixed = (headers.sizes ^ records["height"] << 24 ^ records["width"] << 40).astype(np.uint64)
    spread = (mixed * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)  # the highest bits depend on all
    chosen: Mask = (records["kind"] == BASELINE) & (records["process"] == 0) & (spread < share * 2**24)
    return chosen


# Compute capabilities of GPUs with one engine of several cores (A100, A30). Only a call for a whole batch keeps the
# cores busy: nvImageCodec's path for single images has a worker for each engine.
_ONE_ENGINE = {(8, 0)}


def options(threads: int, *, as_batch: bool) -> str:
    """What a decoder is told, in nvImageCodec's words; of names that it does not know it says nothing."""
    one_by_one = "" if as_batch else " nvjpeg_hw_decoder:force_batch_single=1"
    return f":num_cuda_streams={min(threads, _STREAMS)}{one_by_one}"


def gpu_decoder(device_id: int, capability: tuple[int, int], threads: int) -> GpuDecoder | None:
    """A decoder of JPEGs on a GPU; None where nvImageCodec has none, as without nvJPEG.

    None of its decoders on the CPU: what a GPU does not decode is left to ours. Where there are several engines, images
    are decoded one by one: of a batch nvImageCodec reports all images as decoded when the call succeeds, also such
    that the hardware has skipped (LichtFeld-Studio PR 1924).
    """
    nvimgcodec = library()
    as_batch = capability in _ONE_ENGINE
    found = []
    for kind in (nvimgcodec.HW_GPU_ONLY, nvimgcodec.HYBRID_CPU_GPU):
        try:
            found.append(
                nvimgcodec.Decoder(
                    device_id=device_id,
                    max_num_cpu_threads=threads,
                    backends=[nvimgcodec.Backend(kind)],
                    options=options(threads, as_batch=as_batch),
                )
            )
        except RuntimeError:
            found.append(None)
    return GpuDecoder(*found, as_batch=as_batch) if any(found) else None


class DeviceImage:
    """Memory of a GPU for an image of bytes, in the form in which libraries tell each other of arrays.

    A view of an array would take several times as long to make.

    Parameters
    ----------
    address : int
    shape : tuple
        Height, width, channels.
    stream : int
        Address of the CUDA stream that the memory is used on.
    """

    __slots__ = ("__cuda_array_interface__",)

    def __init__(self, address: int, shape: tuple[int, int, int], stream: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": shape, "typestr": "|u1", "data": (address, False), "strides": None, "stream": stream, "version": 3
        }  # fmt: skip


class GpuDecoder:
    """Decodes batches of JPEGs into memory that it is given; for one thread at a time.

    With two decoders of nvImageCodec, of one way to decode each: one that knows both ways shares out each batch in the
    proportion of its first one, so that the pixels of an image depend on what it is in a batch with.

    Parameters
    ----------
    engine : nvimgcodec.Decoder or None
        By the hardware engine.
    cuda : nvimgcodec.Decoder or None
        By CUDA kernels; decodes what is not for the engine, and what that refuses. Also one for the CPU, whose memory
        is then the host's: the tests run it so.
    as_batch : bool
        Whether the engine fails at all images of a call if it fails at one.
    """

    def __init__(self, engine: Any, cuda: Any, *, as_batch: bool = False) -> None:
        self._decoders = engine, cuda
        self._as_batch = as_batch

    def decode(
        self,
        data: Sequence[Any],
        outs: Sequence[Any],
        for_engine: Sequence[bool],
        color: str,
        stream: int,
        ready: Callable[[], object] = lambda: None,
    ) -> list[bool]:
        """Decode whole files as stored on a CUDA stream.

        Parameters
        ----------
        data : sequence
            File bytes.
        outs : sequence of DeviceImage or array
            Memory for as many pixels as each header says, (H, W, C) uint8. More than that is not written.
        for_engine : sequence of bool
        color : {"rgb", "gray"}
        stream : int
        ready : callable
            Called before anything is written.

        Returns
        -------
        list of bool
            Which files decoded. Memory of one that did not may be written in part, but nothing beside it.
        """
        nvimgcodec = library()
        streams = [nvimgcodec.CodeStream(one) for one in data]
        images = nvimgcodec.as_images(outs)
        ready()
        return self.run(streams, images, for_engine, decode_params(color), stream)

    def run(
        self, streams: Sequence[Any], images: Sequence[Any], for_engine: Sequence[bool], params: Any, stream: int
    ) -> list[bool]:
        """As :meth:`decode`, with nvImageCodec's objects."""
        decoded = [False] * len(streams)
        engine, cuda = self._decoders
        for decoder, wanted, as_batch in ((engine, for_engine, self._as_batch), (cuda, None, False)):
            chosen = [k for k, done in enumerate(decoded) if not done and (wanted is None or wanted[k])]
            if decoder is not None and chosen:
                call = _Call(decoder, params, stream, as_batch)
                found = call.run([streams[k] for k in chosen], [images[k] for k in chosen])
                for k, image in zip(chosen, found, strict=True):
                    decoded[k] = image is not None
        return decoded


class _Call(NamedTuple):
    """How images are decoded."""

    decoder: Any
    params: Any
    stream: int
    as_batch: bool

    def run(self, streams: list[Any], images: list[Any]) -> list[Any]:
        """Decode images, None for what does not decode. Of a call that fails as a whole one image may be the reason.

        Its halves are then tried again, so that an image fails by itself, whatever the others are.
        """
        try:
            found = list(self.decoder.decode(streams, images=images, params=self.params, cuda_stream=self.stream))
            again = self.as_batch and not any(image is not None for image in found)
        except (RuntimeError, ValueError):
            found, again = [None] * len(streams), True
        if not again or len(streams) == 1:
            return found
        half = len(streams) // 2
        return self.run(streams[:half], images[:half]) + self.run(streams[half:], images[half:])


# By process, those that no thread uses: a decoder is for one at a time, and its threads are not in a fork.
_spare: dict[int, list[Any]] = {}


def decode_deep(data: Any) -> Any:
    """Decode a file with all bits and channels that it has, on the CPU: (H, W, C), or None if that cannot be done.

    Raises
    ------
    ImportError
        With what to install, where nvImageCodec is missing.
    """
    nvimgcodec = library()
    params = nvimgcodec.DecodeParams(
        apply_exif_orientation=False, allow_any_depth=True, color_spec=nvimgcodec.ColorSpec.UNCHANGED
    )
    spare = _spare.setdefault(os.getpid(), [])
    try:
        decoder = spare.pop()
    except IndexError:
        decoder = nvimgcodec.Decoder(
            device_id=nvimgcodec.NVIMGCODEC_DEVICE_CPU_ONLY,
            max_num_cpu_threads=1,
            backends=[nvimgcodec.Backend(nvimgcodec.CPU_ONLY)],
        )
    try:
        image = decoder.decode(nvimgcodec.CodeStream(data), params=params)
    except (RuntimeError, ValueError):
        return None
    finally:
        spare.append(decoder)
    return None if image is None else np.array(image.cpu())  # its own memory: the image's is the decoder's


def decoders() -> Sequence[str]:
    """Which decoders of JPEGs nvImageCodec has for this machine's first GPU, in words."""
    try:
        nvimgcodec = library()
    except ImportError:
        return ()
    kinds = {"hardware engine": nvimgcodec.HW_GPU_ONLY, "CUDA": nvimgcodec.HYBRID_CPU_GPU}
    found = []
    for words, kind in kinds.items():
        try:
            nvimgcodec.Decoder(device_id=0, backends=[nvimgcodec.Backend(kind)])
        except RuntimeError:
            continue
        found.append(words)
    return found
