"""Prepass: ops that a GPU runs in separate kernels before the passes of a segment, as the segment's first instruction.

A prepass reads the source and writes float32 images, which the passes then read.
"""

from typing import Any

import cupy
import numpy as np

from .._checks.types import Ints
from .._data.images import ALIGNMENT, Pixels, offsets_of
from .._plan.lower import CompiledArea, CompiledSegment
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


def prepass_sizes(segment: CompiledSegment, sizes: Ints) -> Ints:
    """Return the sizes (N, 2) of a prepass's results, of images of other sizes."""
    return sizes if segment.area is None else segment.area.out_sizes


def prepass_records(segment: CompiledSegment, sizes: Ints, channels: int, source: Ints) -> Any:
    """Return the int32 records that the prepass kernels read; ``source`` are the element offsets of the images."""
    entry, output = segment.plan.entries[0], prepass_layout(prepass_sizes(segment, sizes), channels)[0]
    if segment.area is not None:
        return _area_records(segment.area, source, output)
    if np.any(entry.codes == ops.ELASTIC.code):
        return _elastic_records(entry, sizes, source, output)
    return _jpeg_records(entry, sizes, channels, source, output)


def run_prepass(source: Pixels, segment: CompiledSegment, records: Any, stream: int) -> Pixels:
    """Return the source after its prepass, in float32; ``records`` are uploaded, ``stream`` is the current one."""
    sizes = prepass_sizes(segment, source.sizes)
    offsets, total = prepass_layout(sizes, source.channels)
    result = Pixels(cupy.empty(total, cupy.float32), offsets, sizes, source.channels)
    if segment.area is not None:
        _area(segment.area, source, result, records, stream)
    elif np.any(segment.plan.entries[0].codes == ops.ELASTIC.code):
        _elastic(source, result, records, stream)
    else:
        _jpeg(source, result, records, stream)
    return result


# -- whole images ------------------------------------------------------------------------------------------------------


def _area_records(area: CompiledArea, source: Ints, output: Ints) -> Any:
    """Return the records, and the operand after them unless that is the device's."""
    records, operand = area.records.copy(), area.operand
    records["source"], records["output"] = source, output
    if area.op is ops.CLAHE:
        tiles = _tiles(records)
        records["values"] = ops.LEVELS * (np.cumsum(tiles) - tiles)
    if operand is None or isinstance(operand.values, cupy.ndarray):
        return records.view(np.int32)
    records["values"] += records.nbytes // 4
    return np.concatenate([records.view(np.int32), operand.values.view(np.int32)])


def _tiles(records: Any) -> Ints:
    tiles: Ints = records["rows"].astype(np.int64) * records["columns"]
    return tiles


def _area(area: CompiledArea, source: Pixels, result: Pixels, words: Any, stream: int) -> None:
    common, n = (source.flat, source.channels, layout.SCALES[source.dtype], words), len(area.records)
    tables = cupy.empty(1, cupy.uint8)
    if area.op is ops.CLAHE:
        tiles = _tiles(area.records)
        tables = cupy.empty(int(tiles.sum()) * ops.LEVELS, cupy.uint8)
        launch(kernels.AREAS["lay_tables"][source.dtype], stream, (int(tiles.max()), n), *common, tables)
    floats, operand = words.view(cupy.float32), None if area.operand is None else area.operand.values
    operand = operand if isinstance(operand, cupy.ndarray) else floats
    kernel, pixels = kernels.AREAS["change"][source.dtype], int(np.max(area.out_sizes.prod(1)))
    launch(
        kernel, stream, (-(-pixels // kernel.block), n), *common, floats, operand, tables, result.flat, area.op.code,
        int(area.on_bytes),
    )  # fmt: skip


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
