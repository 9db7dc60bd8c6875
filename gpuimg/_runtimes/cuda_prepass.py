"""Prepass: ops that a GPU runs in separate kernels before the passes of a segment, as the segment's first instruction.

A prepass reads the source and writes float32 images of the same sizes, which the passes then read.
"""

from typing import Any

import cupy
import numpy as np

from .._checks.types import Ints
from .._data.images import ALIGNMENT, Pixels, offsets_of
from .._plan.plan import Entry, Plan
from ..kernels import cuda as kernels
from ..kernels import layout, ops
from ..kernels.cuda import artefact_records as artefacts
from ..kernels.cuda import elastic_records as elastic
from ..kernels.jpeg.formulas import STEPS
from .cuda_launch import launch


def has_prepass(plan: Plan) -> bool:
    """Return True if the first op of a plan is a prepass op."""
    return bool(plan.entries) and bool(ops.HAS_PREPASS[plan.entries[0].codes].any())


def prepass_layout(sizes: Ints, channels: int) -> tuple[Ints, int]:
    """Return the element offsets of a prepass's results in separate memory, and its size in elements."""
    return offsets_of(sizes, channels, ALIGNMENT)


def prepass_records(plan: Plan, sizes: Ints, channels: int, source: Ints) -> Any:
    """Return the int32 records that the prepass kernels read; ``source`` are the element offsets of the images."""
    entry, output = plan.entries[0], prepass_layout(sizes, channels)[0]
    if np.any(entry.codes == ops.ELASTIC.code):
        return _elastic_records(entry, sizes, source, output)
    return _jpeg_records(entry, sizes, channels, source, output)


def run_prepass(source: Pixels, plan: Plan, records: Any, stream: int) -> Pixels:
    """Return the source after its prepass, in float32; ``records`` are uploaded, ``stream`` is the current one."""
    offsets, total = prepass_layout(source.sizes, source.channels)
    result = Pixels(cupy.empty(total, cupy.float32), offsets, source.sizes, source.channels)
    run = _elastic if np.any(plan.entries[0].codes == ops.ELASTIC.code) else _jpeg
    run(source, result, records, stream)
    return result


# -- JPEG --------------------------------------------------------------------------------------------------------------


def _jpeg_records(entry: Entry, sizes: Ints, channels: int, source: Ints, output: Ints) -> Any:
    records, planes = np.zeros(len(sizes), artefacts.CODED), _plane_bytes(sizes, channels)
    records["source"], records["output"], records["planes"] = source, output, np.cumsum(planes) - planes
    records["height"], records["width"] = sizes.T
    chosen = entry.codes == ops.JPEG.code
    records["quality"] = np.where(chosen, entry.params[:, ops.JPEG.at("quality")], 0)
    return np.concatenate([np.array(STEPS, np.int32).reshape(-1), records.view(np.int32)])


def _plane_bytes(sizes: Ints, channels: int) -> Ints:
    """Return (N,) bytes of luma and chroma."""
    height, width = sizes.T
    planes: Ints = height * width
    return planes + 2 * (-(-height // 2)) * (-(-width // 2)) if channels == 3 else planes


def _jpeg(source: Pixels, result: Pixels, records: Any, stream: int) -> None:
    height, width = source.sizes.T
    planes = cupy.empty(int(_plane_bytes(source.sizes, source.channels).sum()), cupy.uint8)
    common = source.flat, source.channels, layout.SCALES[source.dtype], records, planes
    blocks = int(np.max(-(-height // artefacts.SIDE) * -(-width // artefacts.SIDE)))
    launch(kernels.ARTEFACTS["code_blocks"][source.dtype], stream, (blocks, len(height)), *common)
    blocks = -(-int(np.max(height * width)) // artefacts.PIXELS)
    launch(kernels.ARTEFACTS["code_pixels"][source.dtype], stream, (blocks, len(height)), *common, result.flat)


# -- elastic -----------------------------------------------------------------------------------------------------------


def _elastic_records(entry: Entry, sizes: Ints, source: Ints, output: Ints) -> Any:
    records = np.zeros(len(sizes), elastic.MOVED)
    records["source"], records["output"], records["moved"] = source, output, entry.codes == ops.ELASTIC.code
    records["height"], records["width"] = sizes.T
    records["parameters"] = entry.params[:, : ops.ELASTIC.width]
    return records.view(np.int32)


def _elastic(source: Pixels, result: Pixels, records: Any, stream: int) -> None:
    height, width = source.sizes.T
    blocks = -(-int(np.max(height * width)) // elastic.BLOCK)
    launch(
        kernels.ELASTIC[source.dtype], stream, (blocks, len(height)), source.flat, source.channels,
        layout.SCALES[source.dtype], records, records.view(cupy.float32), result.flat,
    )  # fmt: skip
