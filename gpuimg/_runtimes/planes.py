"""Conversion of images with other than 1 or 3 channels, and of 16-bit values, to forms that the kernels process.

The kernels process each channel of such an image as a separate image with the same plan, and 16-bit values as float32,
which represents them exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .._checks.types import Ints
from .._data.images import KINDS, Encoded, Pixels, offsets_of
from .._data.patches import PatchLayout
from .._plan.plan import KERNEL_CHANNELS, Plan
from .._threads.team import side_by_side
from .._threads.threads import threads
from .protocol import Outcome, Runtime
from .whole_files import decode, is_special

#: Largest number of channels of images in arrays.
MOST_CHANNELS = 16

_WHITE = np.float32(65535)  # of 16-bit values


def run(
    runtime: Runtime,
    source: Encoded | Pixels,
    segments: Sequence[Plan],
    out: Any,
    offsets: Ints,
    layout: str | PatchLayout,
) -> Outcome:
    """Implement :meth:`Runtime.run` for all channel counts and dtypes; ``out`` is flat and of the results' dtype."""
    name = out.dtype.name
    if isinstance(layout, PatchLayout):
        outcome = _run_to_patches(runtime, source, segments, out, offsets, layout)
        return outcome or _copy_to_patches(runtime, source, segments, out, offsets, layout)
    if name == "uint16":
        return _run_deep(runtime, source, segments, out, offsets, layout)
    if not isinstance(source, Pixels) and is_special(source):
        source, outcome = decode(runtime, source)
        outcome.timings.add(run(runtime, source, segments, out, offsets, layout).timings)
        return outcome
    if isinstance(source, Pixels) and source.dtype == "uint16":
        source = _as_floats(runtime, source)
    if source.channels in KERNEL_CHANNELS:
        return runtime.run(source, segments, out, offsets, KINDS[name], layout == "NCHW")
    assert isinstance(source, Pixels)
    return _run_planes(runtime, source, segments, out, offsets, layout)


def _run_to_patches(
    runtime: Runtime, source: Encoded | Pixels, segments: Sequence[Plan], out: Any, offsets: Ints, patches: PatchLayout
) -> Outcome | None:
    """Run into patches in one pass; return None where the device or the kind of pixels needs another."""
    plain = source.dtype != "uint16" and (isinstance(source, Pixels) or not is_special(source))
    if not plain or out.dtype.name == "uint16" or source.channels not in KERNEL_CHANNELS:
        return None
    return runtime.run_to_patches(source, segments, out, offsets, KINDS[out.dtype.name], patches)


def _copy_to_patches(
    runtime: Runtime, source: Encoded | Pixels, segments: Sequence[Plan], out: Any, offsets: Ints, patches: PatchLayout
) -> Outcome:
    sizes, channels = segments[-1].sizes, segments[-1].channels
    starts, total = offsets_of(sizes, channels)
    flat = runtime.take(total, out.dtype.name)
    outcome = run(runtime, source, segments, flat, starts, "NCHW")
    with runtime.device():
        pixels = Pixels(flat, starts, sizes, channels, "NCHW")
        for i, offset in enumerate(offsets.tolist()):
            patches.put(pixels.view(i), out, offset)
    return outcome


def _run_deep(
    runtime: Runtime, source: Encoded | Pixels, segments: Sequence[Plan], out: Any, offsets: Ints, layout: str
) -> Outcome:
    """Run for 16-bit results: in float32, then rounded."""
    floats = runtime.take(out.size, "float32")
    outcome = run(runtime, source, segments, floats, offsets, layout)
    with runtime.device():
        np.minimum(np.fmax(floats, np.float32(0), out=floats), np.float32(1), out=floats)
        np.multiply(floats, _WHITE, out=floats)
        out[:] = np.rint(floats, out=floats)
    return outcome


def _as_floats(runtime: Runtime, pixels: Pixels) -> Pixels:
    with runtime.device():
        floats = pixels.flat.astype(np.float32)
        np.divide(floats, _WHITE, out=floats)
    return replace(pixels, flat=floats)


def _run_planes(
    runtime: Runtime, source: Pixels, segments: Sequence[Plan], out: Any, offsets: Ints, layout: str
) -> Outcome:
    """Run each channel of the images as a separate image."""
    channels = source.channels
    planes = _planes(runtime, source)
    plans = [plan.of_planes() for plan in segments]
    sizes = segments[-1].sizes
    if layout == "NCHW":
        return runtime.run(planes, plans, out, _plane_offsets(offsets, sizes, channels), KINDS[out.dtype.name], False)
    flat = runtime.take(out.size, out.dtype.name)
    outcome = runtime.run(planes, plans, flat, _plane_offsets(offsets, sizes, channels), KINDS[out.dtype.name], False)
    with runtime.device():
        results = Pixels(flat, offsets, sizes, channels, "NCHW")
        _exchange(runtime, results, Pixels(out, offsets, sizes, channels))
    return outcome


def _planes(runtime: Runtime, source: Pixels) -> Pixels:
    """Return the channels of images, as images of one channel."""
    offsets, total = offsets_of(source.sizes, source.channels)
    flat = runtime.empty(total, source.dtype)
    with runtime.device():
        _exchange(runtime, source, Pixels(flat, offsets, source.sizes, source.channels, "NCHW"))
    starts = _plane_offsets(offsets, source.sizes, source.channels)
    return Pixels(flat, starts, np.repeat(source.sizes, source.channels, 0), 1)


def _plane_offsets(offsets: Ints, sizes: Ints, channels: int) -> Ints:
    """Return the offsets of the channels of images in planar layout."""
    areas = sizes[:, 0] * sizes[:, 1]
    starts: Ints = (offsets[:, None] + areas[:, None] * np.arange(channels)).reshape(-1)
    return starts


def _exchange(runtime: Runtime, pixels: Pixels, to: Pixels) -> None:
    """Copy images from interleaved to planar layout, or back; on the CPU with all threads."""
    n = len(pixels.offsets)
    axes = (1, 2, 0) if pixels.layout == "NCHW" else (2, 0, 1)
    if n and not runtime.on_host and pixels.is_one_array() and to.is_one_array():
        to.stacked()[:] = pixels.stacked().transpose(0, *(axis + 1 for axis in axes))
        return
    images = iter(range(n))

    def work() -> None:
        for i in images:  # atomic under the GIL
            to.view(i)[:] = pixels.view(i).transpose(axes)

    side_by_side(work, min(threads(), n) - 1 if runtime.on_host else 0)
