"""Layouts of clip results: the layouts of their frames with a time axis added."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

from .recording import recorded
from .result_spec import CLIP_LAYOUTS, checked_out, one_size, result_dtype

#: Return a flat array of N elements of a dtype.
Allocate: TypeAlias = Callable[[int, str], Any]


def array_of_clips(batch: Any, allocate: Allocate, dtype: Any, layout: str, out: Any) -> Any:
    """Implement :meth:`gpuimg.Batch.array` for clip layouts.

    Raises
    ------
    ValueError
        For a batch of images.
    """
    if batch.frames is None:
        raise ValueError(f"layout {layout!r} is for batches of clips, and these are images")
    height, width = one_size(batch.sizes)
    flat = CLIP_LAYOUTS[layout]
    image = (height, width, batch.channels) if flat == "NHWC" else (batch.channels, height, width)
    shape = (recorded(batch).units, batch.frames, *image)
    if layout == "NCTHW":
        return _time_inside(batch, allocate, dtype, shape, out)
    if out is None:
        return batch._array_in(allocate, dtype, flat).reshape(shape)
    name = checked_out(recorded(batch), out, dtype, shape)
    batch._array_in(allocate, name, flat, out.reshape(len(batch), *image))
    return out


def _time_inside(batch: Any, allocate: Allocate, dtype: Any, shape: tuple[int, ...], out: Any) -> Any:
    """Return frames (N, T, C, H, W) as (N, C, T, H, W), by one extra copy; it costs little next to decoding videos."""
    clips, frames, channels, height, width = shape
    wanted = clips, channels, frames, height, width
    if out is None:
        name = result_dtype(batch, dtype)
        out = recorded(batch).runtime.empty(math.prod(wanted), name).reshape(wanted)
    else:
        name = checked_out(recorded(batch), out, dtype, wanted)
    images = batch._array_in(allocate, name, "NCHW")
    out[:] = images.reshape(shape).swapaxes(1, 2)
    return out
