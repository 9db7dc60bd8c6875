"""nvImageCodec's encoder, which writes JPEGs on a GPU."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._decoding import nvimgcodec
from .options import JpegOptions
from .segments import metadata


def gpu_encoder(device_id: int, threads: int) -> "GpuEncoder":
    """Return an encoder on a GPU; raise ImportError or RuntimeError where there is none.

    nvImageCodec's CPU encoders are not used: ours writes what the GPU's fails at.
    """
    library = nvimgcodec.library()
    kinds = library.GPU_ONLY, library.HYBRID_CPU_GPU
    return GpuEncoder(
        library.Encoder(
            device_id=device_id, max_num_cpu_threads=threads, backends=[library.Backend(kind) for kind in kinds]
        )
    )


class GpuEncoder:
    """Encoder of images in a GPU's memory; for one thread at a time. The tests use a CPU encoder and the host's."""

    def __init__(self, encoder: Any) -> None:
        self._encoder = encoder

    def encode(self, images: Sequence[Any], options: JpegOptions, stream: int) -> list[bytes | None]:
        """Encode images, (H, W, C) uint8, after the work on a CUDA stream; None for those that failed.

        Parameters are for a whole call, so there is one for each quality. nvImageCodec gives no reasons: of what is
        known to fail, callers have checked that it does not come here.
        """
        library = nvimgcodec.library()
        files: list[bytes | None] = [None] * len(images)
        css = getattr(library.ChromaSubsampling, f"CSS_{options.subsampling.replace(':', '')}")
        for quality in np.unique(options.quality).tolist():
            rows = np.flatnonzero(options.quality == quality).tolist()
            params = library.EncodeParams(
                quality_type=library.QualityType.QUALITY,
                quality_value=quality,
                chroma_subsampling=css,
                jpeg_encode_params=library.JpegEncodeParams(progressive=False, optimized_huffman=options.optimize),
            )
            chosen = library.as_images([images[i] for i in rows])
            try:
                found = self._encoder.encode(chosen, "jpeg", params=params, cuda_stream=stream)
            except (RuntimeError, ValueError):  # of the call as a whole
                continue
            for i, one in zip(rows, found, strict=True):
                files[i] = None if one is None else bytes(one)
        return files


def with_metadata(file: bytes, exif: bytes | None, icc: bytes | None) -> bytes:
    """Return a JPEG with metadata after its JFIF segment."""
    if not exif and not icc:
        return file
    at = 4 + int.from_bytes(file[4:6], "big") if file[2:4] == b"\xff\xe0" else 2
    return file[:at] + metadata(exif, icc) + file[at:]
