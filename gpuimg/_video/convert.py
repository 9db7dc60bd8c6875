"""Conversion of video frames to pixels: a region as displayed, on the CPU; and the arguments of the GPU's kernel.

FFmpeg converts sample formats that the kernels do not support (RGB, packed, more than 16 bits) to 8-bit RGB or gray.
The chroma of interlaced frames belongs to their fields: both are converted like frames, of every second row.
"""

from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from .._checks.types import Ints
from .._decoding import exif
from .._decoding.pixels import to_colors
from ..errors import VideoError
from .files import ffmpeg_errors, library

_LIMITED, _FULL = 1, 2  # FFmpeg's AVCOL_RANGE_MPEG and AVCOL_RANGE_JPEG
_N = 16  # pixels that the kernel computes at a time


class _Layout(NamedTuple):
    """Memory layout of a format's samples."""

    bits: int
    shift_x: int
    shift_y: int
    interleaved: bool = False
    gray: bool = False
    full: bool = False
    high: bool = False  # samples are in the upper bits of 16-bit units


_SHIFTS = {"420": (1, 1), "422": (1, 0), "440": (0, 1), "444": (0, 0)}

#: Matrix coefficients of ITU-T H.273 that are refused.
_REFUSED = {0: "RGB", 3: "reserved", 8: "YCgCo", 10: "BT.2020 with constant luminance", 11: "SMPTE 2085", 14: "ICtCp",
            12: "chromaticity-derived with non-constant luminance", 13: "chromaticity-derived with constant luminance",
            15: "IPT-C2", 16: "YCgCo-Re", 17: "YCgCo-Ro"}  # fmt: skip


@cache
def _layout(name: str) -> _Layout | None:
    """Return the layout of a PyAV format name; None if the kernels do not support it."""
    if name in ("nv12", "nv16", "nv24"):
        return _Layout(8, *_SHIFTS[{"nv12": "420", "nv16": "422", "nv24": "444"}[name]], interleaved=True)
    if name in ("p010le", "p012le", "p016le"):
        return _Layout(int(name[2:4]), 1, 1, interleaved=True, high=True)
    stem, _, end = name.partition("p")
    kind, subsampling = (stem[:-3], stem[-3:]) if stem[-3:] in _SHIFTS else (stem, "")
    if kind in ("yuv", "yuvj", "yuva") and subsampling:
        bits = 8 if not end else int(end[:-2]) if end[:-2].isdigit() and end.endswith("le") else 0
        return _Layout(bits, *_SHIFTS[subsampling], full=kind == "yuvj") if bits else None
    if name in ("gray", "gray9le", "gray10le", "gray12le", "gray14le", "gray16le"):
        return _Layout(int(name[4:-2] or 8), 0, 0, gray=True)
    return None


def readable(frame: Any) -> Any:
    """Return the frame, as RGB or gray if the kernels do not support it; VideoError if that is not possible."""
    _check_matrix(frame.format, frame.colorspace)
    if _layout(frame.format.name) is not None and all(plane.line_size > 0 for plane in frame.planes):
        return frame
    samples = frame.format.components
    gray = "gray" if samples[0].bits == 8 else f"gray{samples[0].bits}le"
    known = len(samples) < 3 and not frame.format.has_palette and gray != frame.format.name and _layout(gray)
    with ffmpeg_errors(library()):
        return frame.reformat(format=gray if known else "rgb24")


def _check_matrix(kind: Any, code: int) -> None:
    """Refuse matrix coefficients that neither the kernels nor FFmpeg convert by; RGB and gray have none."""
    from ..kernels import yuv

    if code not in yuv.SHARES and not kind.is_rgb and len(kind.components) >= 3:
        raise VideoError(
            f"its matrix coefficients are {_REFUSED.get(code, 'unknown')} ({code} of ITU-T H.273); supported are those "
            "of BT.601, BT.709, BT.2020 with non-constant luminance, FCC and SMPTE 240M"
        )


def write_pixels(frame: Any, orientation: int, channels: int, region: list[int], out: Any) -> None:
    """Fill ``out``, of at least as many elements, with a region of a frame: 1 channel is luma, 3 are RGB.

    The frame is one of :func:`readable`, ``orientation`` is EXIF's, 1 to 8, and ``region`` x0, y0, x1, y1 of the frame
    as displayed.
    """
    x0, y0, x1, y1 = region
    out = out[: (x1 - x0) * (y1 - y0) * channels]
    if orientation == 1:
        _write_stored(frame, np.array(region, np.int64), channels, out)
        return
    height, width = frame.height, frame.width
    shown = (width, height) if exif.swaps_sides(orientation) else (height, width)
    stored = exif.stored_regions(np.array([region]), np.array([shown]), np.array([orientation]))[0]
    left, top, right, bottom = stored.tolist()
    pixels = np.empty(out.size, np.uint8)
    _write_stored(frame, stored, channels, pixels)
    turned = exif.turned(pixels.reshape(bottom - top, right - left, channels), orientation)
    out.reshape(turned.shape)[:] = turned


def _write_stored(frame: Any, region: Ints, channels: int, out: Any) -> None:
    """Fill ``out`` with a region of the frame as stored."""
    found = _layout(frame.format.name)
    if found is None:
        _write_packed(frame, region, channels, out)
        return
    from ..kernels.cpu import yuv  # imports Numba: only when it is used

    kind = np.uint8 if found.bits == 8 else np.uint16
    samples = [np.frombuffer(plane, kind) for plane in frame.planes]
    steps = [plane.line_size // samples[0].itemsize for plane in frame.planes]
    matrix = _matrix_of(frame, found)
    if channels == 1 or found.gray:
        pixels = out if channels == 1 else np.empty(out.size // 3, np.uint8)
        yuv.gray_of_frame(samples[0], steps[0], region, matrix, pixels)
        if channels == 3:
            out.reshape(-1, 3)[:] = pixels[:, None]
        return
    y, u, v = (*samples, samples[1][1:]) if found.interleaved else samples[:3]
    x0, y0, x1, y1 = region.tolist()
    terms = np.empty(6 * (x1 - x0 + 3), np.float32)
    rows = np.empty(3 * (x1 - x0 + _N), np.uint8)
    for first, n, top, bottom, axes in _parts(_axes_of(frame, found), y0, y1):
        layout = np.array([n * steps[0], n * steps[1], 2 if found.interleaved else 1], np.int64)
        planes = y[first * steps[0] :], u[first * steps[1] :], v[first * steps[1] :]
        part = out if n == 1 else np.empty((bottom - top) * (x1 - x0) * 3, np.uint8)
        yuv.rgb_of_frame(*planes, layout, axes, np.array([x0, top, x1, bottom], np.int64), matrix, terms, rows, part)
        if n > 1:
            out.reshape(y1 - y0, -1)[n * top + first - y0 :: n] = part.reshape(bottom - top, -1)


def _parts(fields: list[Any], y0: int, y1: int) -> Iterator[tuple[int, int, int, int, Any]]:
    """Yield the frame or each field: its first row and their step, its rows in a region of the frame, and its axes."""
    n = len(fields)
    for first, axes in enumerate(fields):
        top, bottom = ((y - first + n - 1) // n for y in (y0, y1))
        if bottom > top:
            yield first, n, top, bottom, axes


@cache
def _matrix(coefficients: int, full: bool, bits: int, high: bool) -> Any:
    from ..kernels import yuv

    matrix = yuv.matrix(coefficients, full, bits)
    if high:
        matrix[:, : yuv.OFFSET] /= 2 ** (16 - bits)
    return matrix


@lru_cache(256)
def _axes(bits: int, size: tuple[int, int], shifts: tuple[int, int], interlaced: bool) -> list[Any]:
    """Return the axes of both fields, if they have rows of chroma, or of the frame."""
    from ..kernels import yuv

    fields = (0, 1) if interlaced and shifts[1] and size[1] > 1 << shifts[1] else (None,)
    return [yuv.axes(bits, size, shifts, field) for field in fields]


def _axes_of(frame: Any, layout: _Layout) -> list[Any]:
    shifts = layout.shift_x, layout.shift_y
    return _axes(layout.bits, (frame.width, frame.height), shifts, frame.interlaced_frame)


def _matrix_of(frame: Any, layout: _Layout) -> Any:
    untagged = layout.gray and frame.color_range != _LIMITED  # is of full range, as in FFmpeg
    full = layout.full or frame.color_range == _FULL or untagged
    return _matrix(frame.colorspace, full, layout.bits, layout.high)


def _write_packed(frame: Any, region: Ints, channels: int, out: Any) -> None:
    """Fill ``out`` with a region of an RGB frame."""
    x0, y0, x1, y1 = region.tolist()
    plane = frame.planes[0]
    rows = np.frombuffer(plane, np.uint8)[: plane.line_size * frame.height].reshape(frame.height, plane.line_size)
    pixels = rows[y0:y1, 3 * x0 : 3 * x1].reshape(y1 - y0, x1 - x0, 3)
    out.reshape(y1 - y0, x1 - x0, channels)[:] = to_colors(pixels, channels)


# -- frames in a GPU's memory ------------------------------------------------------------------------------------------


class Surface(NamedTuple):
    """A frame as the GPU's kernel reads it, :func:`gpuimg.kernels.cuda.yuv.frame`."""

    dtype: str  # of the samples
    rows: tuple[int, int]  # samples per row of luma, and of chroma, with padding
    counts: tuple[int, int]  # samples from the first to the last of each plane
    axes: list[Any]  # of the frame, or of its fields
    matrix: Any

    def launches(self, region: Ints, channels: int, place: Ints) -> Iterator[tuple[int, list[int], tuple[Any, ...]]]:
        """Yield pixels, the first samples of both planes, and the kernel's numbers: of the frame, or of each field.

        ``region`` is of the frame as stored; ``place`` (3,) as of :meth:`Pixels.stored_places`.
        """
        from ..kernels import yuv

        x0, y0, x1, y1 = region.tolist()
        start, step_x, step_y = place.tolist()
        colors = [yuv.GRAY] * 3 if channels == 1 else [0, 1, 2]
        terms = self.matrix[colors][:, [yuv.U, yuv.V, yuv.OFFSET]].reshape(-1).tolist()
        for first, n, top, bottom, axes in _parts(self.axes, y0, y1):
            pixels = (x1 - x0) * (bottom - top)
            yield pixels, [first * row for row in self.rows], (
                *(n * row for row in self.rows), x0, top, x1 - x0, pixels,
                *axes.reshape(-1).tolist(), float(self.matrix[0, yuv.LUMA]), *terms, channels,
                start + first * step_y, step_x, n * step_y,
            )  # fmt: skip


def surface_of(frame: Any) -> Surface:
    """Return the surface of an NVDEC frame; raise VideoError for host memory or an unsupported format."""
    if frame.sw_format is None:
        raise VideoError("its frames are not in the GPU's memory")
    _check_matrix(frame.sw_format, frame.colorspace)
    found = _layout(frame.sw_format.name)
    if found is None or not found.interleaved or (found.shift_x, found.shift_y) != (1, 1):
        raise VideoError(f"frames of {frame.sw_format.name} are not converted on a GPU")
    itemsize = 1 if found.bits == 8 else 2
    luma, chroma = (plane.line_size // itemsize for plane in frame.planes)
    # For odd sizes, DLPack reports one column and row of chroma less than exist.
    half_height, half_width = (frame.height + 1) // 2, (frame.width + 1) // 2
    counts = (frame.height - 1) * luma + frame.width, (half_height - 1) * chroma + 2 * half_width
    return Surface(f"uint{8 * itemsize}", (luma, chroma), counts, _axes_of(frame, found), _matrix_of(frame, found))
