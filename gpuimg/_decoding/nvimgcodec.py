"""nvImageCodec, which decodes JPEGs on GPUs. The only importer of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from .._checks.types import Mask
from .._version import install_hint
from ..kernels.jpeg.layout import COLOR, COMPONENTS, PROCESS, RGB, STRICT, WHOLE
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
    words = headers.words
    alike = (words[:, STRICT] == 1) & (words[:, WHOLE] == 1) & (words[:, PROCESS] <= _PROGRESSIVE)
    taken: Mask = alike & (words[:, COLOR] != RGB) & np.isin(words[:, COMPONENTS], (1, 3))
    return taken


# Share of a batch for the hardware engine; the rest goes to CUDA kernels with CPU Huffman. NVIDIA's own default in
# DALI (PR #6366). Not measured here.
HARDWARE_SHARE = 0.65


def gpu_decoder(device_id: int, threads: int) -> Any:
    """A decoder of JPEGs on a GPU; None where nvImageCodec has none, as without nvJPEG.

    None of its decoders on the CPU: what a GPU does not decode is left to ours.
    """
    nvimgcodec = library()
    backends = [
        nvimgcodec.Backend(nvimgcodec.HW_GPU_ONLY, load_hint=HARDWARE_SHARE),
        nvimgcodec.Backend(nvimgcodec.HYBRID_CPU_GPU),
    ]
    try:
        return nvimgcodec.Decoder(device_id=device_id, max_num_cpu_threads=threads, backends=backends)
    except RuntimeError:
        return None


class GpuDecoder:
    """Decodes batches of JPEGs into memory that it is given; for one thread at a time.

    Parameters
    ----------
    decoder : nvimgcodec.Decoder
        Also one for the CPU, whose memory is then the host's: the tests run it so.

    Attributes
    ----------
    first : int
        Size of the first batch, which fixes the hardware engine's part for good; 0 before.
    """

    def __init__(self, decoder: Any) -> None:
        self._decoder = decoder
        self.first = 0

    def decode(self, data: Sequence[Any], outs: Sequence[Any], stream: int) -> list[bool]:
        """Decode whole files as stored into ``outs``, (H, W, C) uint8 each, on a CUDA stream.

        Returns
        -------
        list of bool
            Which files decoded. Memory of one that did not may be written in part, but nothing beside it.
        """
        self.first = self.first or len(data)
        opened = [_open(one, out) for one, out in zip(data, outs, strict=True)]
        chosen = [k for k, one in enumerate(opened) if one is not None]
        decoded = [False] * len(data)
        if chosen:
            targets = library().as_images([outs[k] for k in chosen])
            params = decode_params("gray" if outs[0].shape[2] == 1 else "rgb")
            for k, image in zip(
                chosen, self._decode_all([opened[k] for k in chosen], targets, params, stream), strict=True
            ):
                decoded[k] = image is not None and (image.height, image.width) == outs[k].shape[:2]
        return decoded

    def _decode_all(self, streams: list[Any], targets: list[Any], params: Any, stream: int) -> list[Any]:
        try:
            return list(self._decoder.decode(streams, images=targets, params=params, cuda_stream=stream))
        except (RuntimeError, ValueError):  # one image made the whole call fail: find out which
            return [self._decode_one(one, target, params, stream) for one, target in zip(streams, targets, strict=True)]

    def _decode_one(self, source: Any, target: Any, params: Any, stream: int) -> Any:
        try:
            return self._decoder.decode(source, image=target, params=params, cuda_stream=stream)
        except (RuntimeError, ValueError):
            return None


def _open(data: Any, out: Any) -> Any:
    """A file as nvImageCodec knows it; None where it cannot read the header, or reads another size than ours."""
    try:
        stream = library().CodeStream(data)
        return stream if (stream.height, stream.width) == out.shape[:2] else None
    except RuntimeError:
        return None


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
