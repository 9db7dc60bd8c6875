"""Conversion of images with other than 1 or 3 channels, and of 16-bit values, to forms that the kernels process.

The kernels process each channel of such an image as a separate image with the same plan, and 16-bit values as float32,
which represents them exactly.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from .._checks.types import Ints, Mask
from .._data.images import Encoded, Pixels, name_of, offsets_of
from .._data.patches import Form, PatchLayout
from .._encoding.options import JpegOptions
from .._plan.plan import KERNEL_CHANNELS, Plan
from .._threads.helpers import each_side_by_side
from .._threads.threads import threads
from ..kernels import exact
from ..kernels.layout import DTYPES
from .protocol import Outcome, Runtime
from .whole_files import decode

#: Largest number of channels of images in arrays.
MOST_CHANNELS = 16

_WHITE = np.float32(65535)  # of 16-bit values


class Job(NamedTuple):
    """Images, what is done with them, and memory for the results, flat and of their dtype."""

    source: Encoded | Pixels
    segments: Sequence[Plan]
    out: Any
    offsets: Ints
    layout: str | PatchLayout


def run(runtime: Runtime, job: Job) -> Outcome:
    """Implement :meth:`Runtime.run` for all channel counts and dtypes: special cases step by step, see ``_STEPS``."""
    source, segments, out, offsets, layout = job
    name = name_of(out.dtype)
    if "uint16" in (name, source.dtype) or source.channels not in KERNEL_CHANNELS:
        step = next(step for applies, step in _STEPS if applies(job))
        return step(runtime, job)
    form: Form = layout if isinstance(layout, PatchLayout) else "planes" if layout == "NCHW" else "pixels"
    work = _lowering().lower(source, segments, DTYPES[name].kind, form, on_host=runtime.on_host)
    return runtime.run(work, out, offsets)


def can_encode(runtime: Runtime, source: Encoded | Pixels) -> bool:
    """Return True if results of a source can be encoded one by one as they are computed."""
    usual = source.channels in KERNEL_CHANNELS and source.dtype == "uint8" and source.layout == "NHWC"
    return usual and runtime.on_host


def encode(
    runtime: Any, source: Encoded | Pixels, segments: Sequence[Plan], options: JpegOptions
) -> tuple[list[bytes], Outcome]:
    """Encode the results of segments, without any the images themselves, with the CPU's runtime."""
    work = _lowering().lower(source, segments, DTYPES["uint8"].kind, "pixels", on_host=True)
    files: tuple[list[bytes], Outcome] = runtime.encode(work, options)
    return files


@cache
def _lowering() -> Any:
    from .._plan import lower  # imports Numba: only when it is used

    return lower


def _in_patches(runtime: Runtime, job: Job) -> Outcome:
    """Compute whole images, and copy them to their patches."""
    last = job.segments[-1]
    offsets, total = offsets_of(last.sizes, last.channels)
    flat = runtime.empty_for_results(total, name_of(job.out.dtype))
    outcome = run(runtime, Job(job.source, job.segments, flat, offsets, "NCHW"))
    store(runtime, Pixels(flat, offsets, last.sizes, last.channels, "NCHW"), job.out, job.offsets, job.layout)
    return outcome


def _to_uint16(runtime: Runtime, job: Job) -> Outcome:
    values = runtime.empty_for_results(job.out.size, "float32")
    outcome = run(runtime, job._replace(out=values))
    with runtime.device():
        np.minimum(np.fmax(values, np.float32(0), out=values), np.float32(1), out=values)
        job.out[:] = np.rint(np.multiply(values, _WHITE, out=values), out=values)
    return outcome


def _of_files(runtime: Runtime, job: Job) -> Outcome:
    assert not isinstance(job.source, Pixels)
    pixels, decoded = decode(runtime, job.source)
    outcome = run(runtime, job._replace(source=pixels))
    outcome.add(decoded)
    return outcome


def _of_uint16(runtime: Runtime, job: Job) -> Outcome:
    assert isinstance(job.source, Pixels)
    with runtime.device():
        floats = job.source.flat.astype(np.float32)
        source = replace(job.source, flat=np.divide(floats, _WHITE, out=floats))
    return run(runtime, job._replace(source=source))


def store(runtime: Runtime, pixels: Pixels, out: Any, offsets: Ints, layout: str | PatchLayout) -> None:
    """Copy images to a flat array of their dtype, in any layout; on the CPU with all threads."""
    if isinstance(layout, str):
        _copy(runtime, pixels, Pixels(out, offsets, pixels.sizes, pixels.channels, layout))
        return
    axes = _axes(pixels.layout, "NCHW")
    _for_each(runtime, len(offsets), lambda i: layout.put(pixels.view(i).transpose(axes), out, int(offsets[i])))


def _premultiplied(job: Job) -> int | None:
    """Return the first segment that resizes RGBA bytes exactly, by a rule that multiplies colors by alpha before."""
    rules, channels = [plan.exact for plan in job.segments], job.source.channels
    return next((k for k, rule in enumerate(rules) if rule is not None and exact.premultiplies(rule, channels)), None)


def _of_colors_times_alpha(runtime: Runtime, job: Job) -> Outcome:
    """Run the segments to that one, between the multiplication and a division by alpha; then the others."""
    source, segments, first, outcome = job.source, job.segments, _premultiplied(job), Outcome()
    assert isinstance(source, Pixels)
    assert first is not None
    plan = segments[first]
    if first:
        source = _bytes_of(runtime, source, segments[:first], outcome)
    window = plan.grid.window
    resized = np.any(window[:, 2:] - window[:, :2] != plan.sizes[:, ::-1], 1)
    source = _map_images(runtime, _times_alpha, source, resized)
    source = _bytes_of(runtime, source, [plan], outcome)
    source = _map_images(runtime, _over_alpha, source, resized)
    outcome.add(run(runtime, job._replace(source=source, segments=segments[first + 1 :])))
    return outcome


def _bytes_of(runtime: Runtime, source: Pixels, segments: Sequence[Plan], outcome: Outcome) -> Pixels:
    """Run segments to bytes."""
    sizes = segments[-1].sizes
    offsets, total = offsets_of(sizes, source.channels)
    flat = runtime.empty_for_results(total, "uint8")
    outcome.add(_of_planes(runtime, Job(source, segments, flat, offsets, "NHWC")))
    return Pixels(flat, offsets, sizes, source.channels)


def _map_images(runtime: Runtime, function: Callable[[Any, Any], None], source: Pixels, where: Mask) -> Pixels:
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


def _of_planes(runtime: Runtime, job: Job) -> Outcome:
    """Run each channel of the images as a separate image."""
    source, segments, out, offsets, layout = job
    assert isinstance(source, Pixels)
    channels, sizes = source.channels, segments[-1].sizes
    planar = layout == "NCHW"
    flat = out if planar else runtime.empty_for_results(out.size, out.dtype.name)
    starts = _plane_offsets(offsets, sizes, channels)
    rows = np.repeat(np.arange(len(sizes)), channels)
    plans = [replace(plan.take(rows), channels=1) for plan in segments]
    outcome = run(runtime, Job(_planes(runtime, source), plans, flat, starts, "NHWC"))
    if not planar:
        with runtime.device():
            results = Pixels(flat, offsets, sizes, channels, "NCHW")
            _copy(runtime, results, Pixels(out, offsets, sizes, channels))
    return outcome


#: Steps in the order in which they are tried, for jobs that are special; each leaves a job that is so in one way less.
_STEPS: tuple[tuple[Callable[[Job], bool], Callable[[Runtime, Job], Outcome]], ...] = (
    (lambda job: isinstance(job.layout, PatchLayout), _in_patches),
    (lambda job: name_of(job.out.dtype) == "uint16", _to_uint16),
    (lambda job: not isinstance(job.source, Pixels), _of_files),
    (lambda job: job.source.dtype == "uint16", _of_uint16),
    (lambda job: _premultiplied(job) is not None, _of_colors_times_alpha),
    (lambda job: True, _of_planes),
)


def _planes(runtime: Runtime, source: Pixels) -> Pixels:
    """Return the channels of images, as images of one channel."""
    offsets, total = offsets_of(source.sizes, source.channels)
    flat = runtime.empty(total, source.dtype)
    with runtime.device():
        _copy(runtime, source, Pixels(flat, offsets, source.sizes, source.channels, "NCHW"))
    starts = _plane_offsets(offsets, source.sizes, source.channels)
    return Pixels(flat, starts, np.repeat(source.sizes, source.channels, 0), 1)


def _plane_offsets(offsets: Ints, sizes: Ints, channels: int) -> Ints:
    """Return the offsets of the channels of images in planar layout."""
    areas = sizes[:, 0] * sizes[:, 1]
    starts: Ints = (offsets[:, None] + areas[:, None] * np.arange(channels)).reshape(-1)
    return starts


def _copy(runtime: Runtime, pixels: Pixels, to: Pixels) -> None:
    """Copy images to memory of the same or the other layout; on the CPU with all threads."""
    n, axes = len(pixels.offsets), _axes(pixels.layout, to.layout)
    if n and not runtime.on_host and pixels.is_one_array() and to.is_one_array():
        with runtime.device():
            to.stacked()[:] = pixels.stacked().transpose(0, *(axis + 1 for axis in axes))
        return

    def work(i: int) -> None:
        to.view(i)[:] = pixels.view(i).transpose(axes)

    _for_each(runtime, n, work)


def _axes(one: str, other: str) -> tuple[int, ...]:
    """Return the axes of an image of one layout, in the order of another."""
    return tuple(map(one[1:].index, other[1:]))
