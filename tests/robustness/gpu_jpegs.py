"""Kernels that decode JPEGs, as they are compiled, on the fake GPU: the CPU's pixels and reasons, whatever the files.

The kernels are interpreted, which is slow: files are small, and few. Every access of theirs is checked.
"""

import atexit
import os
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import gpuimg as gi
from gpuimg._batch.batch import recording_of
from gpuimg._runtimes.jpeg_upload import SPAN, Upload
from gpuimg.kernels.jpeg import upload

from ..decoding.jpegs import QUALITIES, encoded
from .guard_pages import file
from .mutate import Draw

BATCH = 6
#: Bits of a file that a thread searches, from a few to what a GPU uses.
SPANS = (upload.LEAST_SPAN, 256, 1024, SPAN)


def periodic(draw: Draw) -> bytes:
    """Stripes, chess boards and flat images: their blocks look alike from wrong bits, too."""
    y, x = np.mgrid[: draw.between(64, 250), : draw.between(64, 250)]
    period = draw.between(1, 16)
    value = draw.pick((x // period % 2, y // period % 2, (x // period + y // period) % 2, 0 * x)) * 200 + 27
    image = Image.fromarray(value.astype(np.uint8)).convert("RGB")
    return encoded(image, draw.pick(("4:2:0", "4:4:4", "gray")), quality=draw.pick(QUALITIES))


def regions(draw: Draw, sizes: Any) -> list[tuple[int, ...]]:
    found = [draw.region(*size) for size in sizes.tolist()]
    return [(y0, x0, y1 - y0, x1 - x0) for x0, y0, x1, y1 in found]


def check(folder: Path) -> Callable[[int], Counter[str]]:
    from ..ptx.device import executing  # takes a compiler of CUDA kernels

    os.environ["GPUIMG_SELFTEST"] = "0"
    stack = ExitStack()
    launches = stack.enter_context(executing())
    atexit.register(stack.close)
    from gpuimg._runtimes import cuda_jpeg  # exists on the fake only

    def checked(number: int) -> Counter[str]:
        draw = Draw(number)
        files = [periodic(draw) for _ in range(2)] if number % 4 == 3 else [file(draw.word()) for _ in range(BATCH)]
        vars(cuda_jpeg)["Upload"] = partial(Upload, span=draw.pick(SPANS))
        way, color = draw.pick(("whole", "part", "draft")), draw.pick(("rgb", "gray"))
        options = {"on_error": "fill", "max_pixels": 1 << 16, "color": color, "draft": 1.0 if way == "draft" else None}
        results = []
        for device in ("cpu", "cuda:0"):
            x = gi.open_batch(files, device=device, **options)
            if way == "part":
                x = gi.crop(x, *zip(*regions(Draw(~number), x.sizes), strict=True))
            elif way == "draft":
                x = gi.resize(x, (x.sizes + 2) // 3)
            results.append(x.compute("uint8"))
        exact, found = results
        assert found.status == exact.status
        for i, (one, other) in enumerate(zip(found, exact, strict=True)):
            apart = np.abs(one.values.astype(int) - other)  # sums of a resize are rounded in another order
            assert apart.max(initial=0) <= (way == "draft"), f"image {i}, {way}: other pixels than the CPU's"
        assert launches.gpu.problems == []
        names = {kernel.name for kernel in launches.kernels}
        launches.kernels.clear()
        launches.gpu.order.log.clear()
        on_cpu = recording_of(x).timings.jpegs_on_cpu
        return Counter({way: len(files), "reported by kernels": on_cpu, "at a reduced size": "reduced_dct" in names})

    return checked
