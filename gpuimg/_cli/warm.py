"""``gpuimg warm``: compile the CPU's kernels now, so that no process waits for it later."""

from __future__ import annotations

import io
import tempfile
import time
from pathlib import Path

import numpy as np

from .. import presets
from .._batch.opening import decode_batch, open_batch
from .._decoding.native_read import prepare
from .._loading.build_index import build_index
from .._loading.sharding import shuffled
from .._ops.pixels import normalize
from .._random.mixing import blend
from .._random.rng import Rng

_IMAGES = 4  # enough for each branch of a random preset to be drawn by some of the seeds below
_SEEDS = range(8)


def warm(preset: str | None) -> tuple[int, float, Path | None]:
    """Compile what a preset needs, or for None everything; gives loops compiled, seconds, and where they are kept."""
    from ..kernels import compiled  # imports Numba, which takes as long as all of gpuimg

    start = time.perf_counter()
    before = compiled.Piece.made
    files = [_file("JPEG")] * _IMAGES
    shuffled(np.arange(2), 2, 0, 0)
    prepare()
    if preset is None:
        photo = decode_batch([*files, _file("PNG")], device="cpu", color="gray")
        with tempfile.TemporaryDirectory() as folder:
            build_index([(file, None) for file in files], Path(folder) / "index")
            open_batch(files, device="cpu", index=Path(folder) / "index", indices=range(_IMAGES)).array()
        blend(normalize(photo, 0.5, 0.5), photo, 0.5)
        Rng(0, indices=[0]).uniform(0.0, 1.0)
        for piece in compiled.Piece.all:
            _ = piece.address
    else:
        function = getattr(presets, preset)(32)
        for seed in _SEEDS:
            photo = open_batch(files, device="cpu")
            function(photo, Rng(seed, indices=np.arange(_IMAGES))).array("float32", "NCHW")
    return compiled.Piece.made - before, time.perf_counter() - start, compiled.folder()


def _file(form: str) -> bytes:
    """A small image in color."""
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (48, 40), "gray").save(file, form)
    return file.getvalue()
