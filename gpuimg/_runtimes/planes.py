"""Conversion of images with other than 1 or 3 channels, and of 16-bit values, to forms that the kernels process.

The kernels process each channel of such an image as a separate image with the same plan, and 16-bit values as float32,
which represents them exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .._checks.types import Ints, Mask
from .._data.images import KINDS, Encoded, Pixels, offsets_of
from .._data.patches import PatchLayout
from .._plan.plan import KERNEL_CHANNELS, Plan
from .._threads.team import each_side_by_side
from .._threads.threads import threads
from ..kernels import exact
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
        if _stores_patches(source, name):
            return runtime.run(source, segments, out, offsets, KINDS[name], layout)
        return _copy_to_patches(runtime, source, segments, out, offsets, layout)
    if name == "uint16":
        return _run_deep(runtime, source, segments, out, offsets, layout)
    if not isinstance(source, Pixels) and is_special(source):
        source, outcome = decode(runtime, source)
        outcome.timings.add(run(runtime, source, segments, out, offsets, layout).timings)
        return outcome
    if isinstance(source, Pixels) and source.dtype == "uint16":
        source = _as_floats(runtime, source)
    if source.channels in KERNEL_CHANNELS:
        return runtime.run(source, segments, out, offsets, KINDS[name], "planes" if layout == "NCHW" else "pixels")
    assert isinstance(source, Pixels)
    for k, plan in enumerate(segments):
        if plan.exact is not None and exact.premultiplies(plan.exact, source.channels):
            return _run_with_alpha(runtime, source, segments, k, out, offsets, layout)
    return _run_planes(runtime, source, segments, out, offsets, layout)


def _stores_patches(source: Encoded | Pixels, name: str) -> bool:
    """Return True if the kernels can store results of a dtype in patches themselves."""
    plain = source.dtype != "uint16" and (isinstance(source, Pixels) or not is_special(source))
    return plain and name != "uint16" and source.channels in KERNEL_CHANNELS


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


def _run_with_alpha(
    runtime: Runtime, source: Pixels, segments: Sequence[Plan], k: int, out: Any, offsets: Ints, layout: str
) -> Outcome:
    """Run segments of which number ``k`` is the first that resizes RGBA bytes exactly: colors times alpha."""
    outcome = Outcome()
    if k:
        source, outcome = _results(runtime, source, segments[:k])
    window = segments[k].grid.window
    resized = np.any(window[:, 2:] - window[:, :2] != segments[k].sizes[:, ::-1], 1)
    source = _mapped(runtime, _times_alpha, source, resized)
    source, one = _results(runtime, source, segments[k : k + 1])
    source = _mapped(runtime, _over_alpha, source, resized)
    rest = run(runtime, source, segments[k + 1 :], out, offsets, layout)
    for part in (one, rest):
        outcome.timings.add(part.timings)
        outcome.launches += part.launches
    return outcome


def _results(runtime: Runtime, source: Pixels, segments: Sequence[Plan]) -> tuple[Pixels, Outcome]:
    """Run segments to bytes."""
    sizes = segments[-1].sizes
    offsets, total = offsets_of(sizes, source.channels)
    flat = runtime.take(total, "uint8")
    outcome = _run_planes(runtime, source, segments, flat, offsets, "NHWC")
    return Pixels(flat, offsets, sizes, source.channels), outcome


def _mapped(runtime: Runtime, function: Callable[[Any, Any], None], source: Pixels, where: Mask) -> Pixels:
    """Return RGBA images after ``function(image, out)``, which sets the colors, or as they are."""
    offsets, total = offsets_of(source.sizes, source.channels)
    result = Pixels(runtime.empty(total, source.dtype), offsets, source.sizes, source.channels)

    def work(i: int) -> None:
        one, to = source.view(i), result.view(i)
        to[:] = one
        if where[i]:
            function(one, to[:, :, :3])

    _for_each(runtime, len(offsets), work)
    return result


_ONE, _LEVELS, _HALF, _BITS = np.uint16(1), np.uint16(255), np.uint16(128), np.uint16(8)

# Ufuncs with ``out``, on arrays of either device. Reference: Pillow ``src/libImaging/Convert.c``, rgba2rgbA and back.


def _times_alpha(image: Any, out: Any) -> None:
    value, alpha = (part.astype(np.uint16) for part in (image[:, :, :3], image[:, :, 3:]))
    np.add(np.multiply(value, alpha, out=value), _HALF, out=value)
    high = value.astype(np.uint16)
    np.right_shift(high, _BITS, out=high)
    out[:] = np.right_shift(np.add(value, high, out=value), _BITS, out=value)


def _over_alpha(image: Any, out: Any) -> None:
    value, alpha = (part.astype(np.uint16) for part in (image[:, :, :3], image[:, :, 3:]))
    # Over 255 where alpha is 0: that leaves the color as it is.
    np.minimum(np.subtract(alpha, _ONE, out=alpha), _LEVELS - _ONE, out=alpha)
    np.add(alpha, _ONE, out=alpha)
    np.floor_divide(np.multiply(value, _LEVELS, out=value), alpha, out=value)
    out[:] = np.minimum(value, _LEVELS, out=value)


def _for_each(runtime: Runtime, n: int, work: Callable[[int], None]) -> None:
    """Call ``work`` for each image; on the CPU with all threads."""
    with runtime.device():
        each_side_by_side(work, range(n), min(threads(), n) if runtime.on_host else 1)


def _run_planes(
    runtime: Runtime, source: Pixels, segments: Sequence[Plan], out: Any, offsets: Ints, layout: str
) -> Outcome:
    """Run each channel of the images as a separate image."""
    channels = source.channels
    planes = _planes(runtime, source)
    plans = [plan.of_planes() for plan in segments]
    sizes = segments[-1].sizes
    if layout == "NCHW":
        return runtime.run(
            planes, plans, out, _plane_offsets(offsets, sizes, channels), KINDS[out.dtype.name], "pixels"
        )
    flat = runtime.take(out.size, out.dtype.name)
    outcome = runtime.run(
        planes, plans, flat, _plane_offsets(offsets, sizes, channels), KINDS[out.dtype.name], "pixels"
    )
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

    def work(i: int) -> None:
        to.view(i)[:] = pixels.view(i).transpose(axes)

    _for_each(runtime, n, work)
