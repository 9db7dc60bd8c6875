"""Ops that a GPU does in kernels of their own, before the passes of the segment whose first entry they are."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from .._checks.types import Ints
from .._data.images import ALIGNMENT, SCALES, Pixels, offsets_of
from .._plan.plan import Entry, Plan
from ..kernels import cuda as kernels
from ..kernels import ops
from ..kernels.cuda import artefact_records as artefacts
from ..kernels.cuda import elastic_records as elastic
from ..kernels.jpeg.formulas import STEPS
from .cuda_launch import launch


def begins_apart(plan: Plan) -> bool:
    """Whether a plan begins with such an op."""
    return bool(plan.entries) and bool(np.any(ops.APART[plan.entries[0].codes]))


def places_apart(sizes: Ints, channels: int) -> tuple[Ints, int]:
    """Where in memory of its own the results of such an op lie, and its size."""
    return offsets_of(sizes, channels, ALIGNMENT)


def words_apart(plan: Plan, sizes: Ints, channels: int, source: Ints) -> Any:
    """What the kernels are told of images of these sizes, which lie at some elements."""
    entry, output = plan.entries[0], places_apart(sizes, channels)[0]
    if np.any(entry.codes == ops.ELASTIC.code):
        return _elastic_words(entry, sizes, source, output)
    return _jpeg_words(entry, sizes, channels, source, output)


def done_apart(source: Pixels, plan: Plan, told: Any, stream: int) -> Pixels:
    """The source as the op leaves it, in float32, by uploaded :func:`words_apart`; on a stream, the current one."""
    offsets, total = places_apart(source.sizes, source.channels)
    result = Pixels(cupy.empty(total, cupy.float32), offsets, source.sizes, source.channels)
    run = _elastic if np.any(plan.entries[0].codes == ops.ELASTIC.code) else _jpeg
    run(source, result, told, stream)
    return result


def _put(records: Any, at: int, offsets: Ints) -> None:
    """64-bit offsets into two words of records."""
    records[:, at : at + 2] = np.ascontiguousarray(offsets, np.int64).view(np.int32).reshape(-1, 2)


# -- JPEG --------------------------------------------------------------------------------------------------------------


def _jpeg_words(entry: Entry, sizes: Ints, channels: int, source: Ints, output: Ints) -> Any:
    records = np.zeros((len(sizes), artefacts.RECORD_WORDS), np.int32)
    planes = _plane_bytes(sizes, channels)
    _put(records, artefacts.SOURCE, source)
    _put(records, artefacts.OUTPUT, output)
    _put(records, artefacts.PLANES, np.cumsum(planes) - planes)
    records[:, artefacts.HEIGHT], records[:, artefacts.WIDTH] = sizes.T
    chosen = entry.codes == ops.JPEG.code
    records[:, artefacts.QUALITY] = np.where(chosen, entry.params[:, ops.JPEG.at("quality")], 0)
    return np.concatenate([np.array(STEPS, np.int32).reshape(-1), records.reshape(-1)])


def _plane_bytes(sizes: Ints, channels: int) -> Ints:
    """(N,): of luma and chroma."""
    height, width = sizes.T
    planes: Ints = height * width
    return planes + 2 * (-(-height // 2)) * (-(-width // 2)) if channels == 3 else planes


def _jpeg(source: Pixels, result: Pixels, told: Any, stream: int) -> None:
    height, width = source.sizes.T
    planes = cupy.empty(int(_plane_bytes(source.sizes, source.channels).sum()), cupy.uint8)
    common = source.flat, source.channels, SCALES[source.dtype], told, planes
    blocks = int(np.max(-(-height // artefacts.SIDE) * -(-width // artefacts.SIDE)))
    launch(kernels.ARTEFACTS["code_blocks"][source.dtype], stream, (blocks, len(height)), *common)
    blocks = -(-int(np.max(height * width)) // artefacts.PIXELS)
    launch(kernels.ARTEFACTS["code_pixels"][source.dtype], stream, (blocks, len(height)), *common, result.flat)


# -- elastic -----------------------------------------------------------------------------------------------------------


def _elastic_words(entry: Entry, sizes: Ints, source: Ints, output: Ints) -> Any:
    records = np.zeros((len(sizes), elastic.RECORD_WORDS), np.int32)
    _put(records, elastic.SOURCE, source)
    _put(records, elastic.OUTPUT, output)
    records[:, elastic.HEIGHT], records[:, elastic.WIDTH] = sizes.T
    records[:, elastic.MOVED] = entry.codes == ops.ELASTIC.code
    given = np.ascontiguousarray(entry.params[:, : ops.ELASTIC.width], np.float32)
    records[:, elastic.PARAMETERS :] = given.view(np.int32)
    return records.reshape(-1)


def _elastic(source: Pixels, result: Pixels, told: Any, stream: int) -> None:
    height, width = source.sizes.T
    blocks = -(-int(np.max(height * width)) // elastic.BLOCK)
    launch(
        kernels.ELASTIC[source.dtype], stream, (blocks, len(height)), source.flat, source.channels,
        SCALES[source.dtype], told, told.view(cupy.float32), result.flat,
    )  # fmt: skip
