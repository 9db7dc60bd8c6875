"""Batches of damaged JPEGs with intact ones among them.

Every damaged file either has exactly the pixels that Pillow gives for it alone, or it is black and has a reason. Intact
files are not affected, and no byte next to the memory of results and scratch is written.
"""

import atexit
import io
import os
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import gpuimg as gi
from gpuimg._batch.batch import recording_of
from gpuimg._runtimes.jpeg_upload import SPAN, Upload
from gpuimg.kernels.jpeg import upload

from ..decoding.jpegs import QUALITIES, encoded, is_baseline, is_ours, pillow_pixels
from ..properties.test_memory_laws import fences
from .guard_pages import file as any_file
from .mutate import APP1, EOI, SOS, Draw, mutation, segments
from .originals import originals

Pixels = NDArray[np.uint8]

BATCH = 64
EVERY = 8  # one of so many files is intact
MAX_PIXELS = 1 << 22
_SIZE = (24, 32)


def turned(pixels: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Pixels as an EXIF orientation wants them seen (EXIF 2.32, tag 0x0112)."""
    if orientation >= 5:
        pixels = pixels.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return pixels


def cut(data: bytes) -> bytes:
    """The file up to the end of its first scan, without EXIF.

    Pillow refuses a file for bytes after its pixels, or missing there, and for damaged EXIF.
    """
    pieces = segments(data)
    scan = next((k for k, piece in enumerate(pieces) if piece[:2] == bytes((0xFF, SOS))), len(pieces))
    kept = [piece for piece in pieces[: scan + 1] if piece[:2] != bytes((0xFF, APP1))]
    return b"".join(kept) + bytes((0xFF, EOI))


def expected(data: bytes, color: str) -> tuple[Pixels | None, str]:
    """Pillow's pixels, None if it refuses the file, under the orientation that gpuimg reads; what it was not given."""
    try:
        orientation = gi.image_info(data, max_pixels=MAX_PIXELS).orientation
    except ValueError:
        return None, ""
    for file, why in ((data, ""), (cut(data), ", without what follows the scan")):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of damaged EXIF
                if color == "gray" and Image.open(io.BytesIO(file)).mode == "CMYK":  # which has no luma
                    stored: Any = gi.rgb_to_grayscale([pillow_pixels(file)]).compute("uint8")[0]
                else:
                    stored = pillow_pixels(file, 1 if color == "gray" else 3)
        except Exception:  # whatever Pillow raises
            continue
        return turned(stored, orientation), why
    return None, ""


def batches(folder: Path) -> Callable[[int], Counter[str]]:
    intact = originals()

    def check(number: int) -> Counter[str]:
        first, color = number * BATCH, "gray" if number % 4 == 3 else "rgb"
        files = [mutation(first + k) for k in range(BATCH)]
        for k in range(number % EVERY, BATCH, EVERY):
            name = Draw(first + k).pick(tuple(intact))
            files[k] = intact[name], name

        def opened() -> gi.Batch:
            sources = [data for data, _ in files]
            return gi.open_batch(sources, device="cpu", color=color, max_pixels=MAX_PIXELS, on_error="fill")

        with fences():
            whole = opened()
            images = whole.compute("uint8")
            crops = [_crop(Draw(~(first + k)), *size) for k, size in enumerate(whole.sizes.tolist())]
            cropped = _cropped(opened(), crops)
            results = cropped.array()
        counts, references = Counter[str](), dict[int, Pixels]()
        for k, (data, name) in enumerate(files):
            label = f"{first + k}: {name}"
            pixels, why = expected(data, color)
            if pixels is None and whole.status[k] == "ok" and not is_baseline(data):
                # gpuimg gives Pillow's decoder the parts of the file that matter; its reader stumbles over the others.
                pixels, why = images[k], ", without its header"
            if pixels is not None and pixels.shape[:2] == tuple(whole.sizes[k]):
                references[k] = pixels
            assert ";" in name or whole.status[k] == cropped.status[k] == "ok", f"{label}, intact, is refused"
            for way, batch, found in (("whole", whole, images[k]), ("crop", cropped, results[k])):
                outcome = "decoded" + why
                if batch.status[k] != "ok":
                    outcome = "refused" if pixels is None or why else "refused, though Pillow decodes it"
                    assert k in batch.errors, f"{label}: {way} is not in errors"
                    assert batch.status[k].strip(), f"{label}: {way} has no reason"
                    assert not found.any(), f"{label}: {way} is refused and not black"
                else:
                    assert k in references, f"{label}: {way} is decoded, but not by Pillow"
                    assert way == "crop" or np.array_equal(found, references[k]), f"{label}: other pixels than Pillow's"
                counts[f"{way}, {'ours' if is_ours(data) else 'Pillow'}: {outcome}"] += 1
        wanted = _cropped(list(references.values()), [crops[k] for k in references]).array()
        for k, one in zip(references, wanted, strict=True):
            assert cropped.status[k] != "ok" or np.array_equal(results[k], one), f"{first + k}: {files[k][1]}: crop"
        return counts

    return check


def _crop(draw: Draw, height: int, width: int) -> tuple[int, int, int, int]:
    """A crop of an image, all of it for one in four: top, left, height, width."""
    if draw.below(4) == 0:
        return 0, 0, height, width
    tall, wide = draw.between(1, height), draw.between(1, width)
    return draw.between(0, height - tall), draw.between(0, width - wide), tall, wide


def _cropped(images: Any, crops: list[tuple[int, int, int, int]]) -> gi.Batch:
    top, left, height, width = (list(column) for column in zip(*crops, strict=True))
    return gi.resized_crop(images, top, left, height, width, _SIZE)


# -- compiled kernels on the fake GPU: the CPU's pixels and reasons, whatever the files --------------------------------

# Kernels are interpreted, which is slow: files are small, and few. Every access of theirs is checked.
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


def gpu_batches(folder: Path) -> Callable[[int], Counter[str]]:
    from ..ptx.device import executing  # takes a compiler of CUDA kernels

    os.environ["GPUIMG_SELFTEST"] = "0"
    stack = ExitStack()
    launches = stack.enter_context(executing())
    atexit.register(stack.close)
    from gpuimg._runtimes import cuda_jpeg  # exists on the fake only

    def checked(number: int) -> Counter[str]:
        draw = Draw(number)
        files = [periodic(draw) for _ in range(2)] if number % 4 == 3 else [any_file(draw.word()) for _ in range(6)]
        vars(cuda_jpeg)["Upload"] = partial(Upload, span=draw.pick(SPANS))
        way, color = ("whole", "part", "draft")[number % 3], draw.pick(("rgb", "gray"))
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
