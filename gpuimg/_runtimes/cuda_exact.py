"""Exact resizes on a GPU: two launches, each a pass along one axis of every image, with bytes between them.

The weights are the CPU's, laid by its compiled loop; all else is sums of whole numbers, which both devices agree on.
"""

from typing import Any, NamedTuple

import cupy
import numpy as np

from .._checks.types import Ints
from .._data.images import ALIGNMENT, offsets_of
from .._plan.lower import CompiledSegment
from ..kernels import cuda as kernels
from ..kernels import exact
from ..kernels.cpu import weights
from ..kernels.cuda.exact_records import PASS, PASS_WORDS
from ..kernels.layout import RADIUS
from .cuda_launch import launch

_MOST_WORDS = 2**31 - 1


class ExactSegment(NamedTuple):
    """The exact resizes of a batch, compiled."""

    words: Any  # int32, see kernels/cuda/exact_records.py
    images: int
    between: int  # bytes from pass to pass
    pixels: tuple[int, int]  # most of an image, of each pass


def placed_exact(segment: CompiledSegment, source: Ints, strides: Ints, output: Ints) -> ExactSegment:
    """Lay the records of exact resizes.

    ``source`` and ``output`` (N,) are element offsets of the regions that are read, and of the parts; ``strides`` (N,)
    are elements from one source row to the next.
    """
    images, region, channels = segment.exact, segment.regions, segment.plan.channels
    n = len(images)
    taps, axes = _taps(images, 2 * n * PASS_WORDS)
    window, part = images["window"], images["part"]
    size, read = part[:, 2:] - part[:, :2], region[:, 2:] - region[:, :2]
    width, height = (window[:, 2:] - window[:, :2]).T
    tall = exact.is_tall(images["rule"], width, height, images["width"], images["height"])
    # Along rows first: all rows that are read, of the part's columns; the other way round where tall.
    middle = np.where(tall[:, None], np.stack([read[:, 0], size[:, 1]], 1), np.stack([size[:, 0], read[:, 1]], 1))
    offsets, between = offsets_of(middle[:, ::-1], channels, ALIGNMENT)
    row = np.arange(n)
    passes = np.zeros((2, n), PASS)
    for records, down, begin, stride, end, pixels in (
        (passes[0], tall, source, strides, offsets, middle),
        (passes[1], ~tall, offsets, middle[:, 0] * channels, output, size),
    ):
        records["source"], records["output"], records["stride"], records["down"] = begin, end, stride, down
        records["width"], records["height"] = pixels.T
        axis = down.astype(np.int64)
        records["low"], records["origin"] = part[row, axis], -window[row, axis]
        for field, of_axis in (("taps", "at"), ("positions", "out"), ("most", "most"), ("bits", "bits")):
            records[field] = axes[of_axis][row, axis]
    most = int(np.max(middle[:, 0] * middle[:, 1])), int(np.max(size[:, 0] * size[:, 1]))
    return ExactSegment(np.concatenate([passes.reshape(-1).view(np.int32), taps]), n, between, most)


def run_exact(segment: ExactSegment, words: Any, source: Any, channels: int, out: Any, stream: int) -> None:
    """Launch both passes; ``words`` are uploaded, ``stream`` is the current one."""
    between = cupy.empty(segment.between, cupy.uint8)
    kernel = kernels.EXACT
    n = segment.images
    for k, (read, written) in enumerate(((source, between), (between, out))):
        launch(kernel, stream, (-(-segment.pixels[k] // kernel.block), n), read, channels, words, k * n, written)


def _taps(images: Any, start: int) -> tuple[Any, Any]:
    """Return the taps of the axes of (N,) EXACT as words, and (N, 2) AXIS, x and y; ``start`` words precede them."""
    axes = np.zeros((len(images), 2), exact.AXIS)
    axes["size"] = images["window"][:, 2:] - images["window"][:, :2]
    axes["out"][:, 0], axes["out"][:, 1] = images["width"], images["height"]
    axes["filter"], axes["rule"] = images["filter"][:, None], images["rule"][:, None]
    each, inverse = np.unique(axes, return_inverse=True)  # images of one size share theirs
    each["most"] = exact.most_taps(each["size"], each["out"], RADIUS[each["filter"]])
    words = each["out"] * (2 + each["most"])
    if start + words.sum() > _MOST_WORDS:
        raise ValueError("the weights of these exact resizes do not fit in one batch: use smaller batches")
    each["at"] = np.cumsum(words) - words
    taps = np.empty(words.sum(), np.int32)
    weights.lay_axes(each, taps, np.empty((each["out"] * (each["most"] + 1)).max(), np.float64))
    each["at"] += start
    return taps, each[inverse].reshape(axes.shape)
