"""The kernel that makes pixels of NVDEC's frames, as it is compiled, on frames of that format that PyAV makes."""

from itertools import product
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest

import gpuimg as gi
from gpuimg._data.images import Pixels
from gpuimg._decoding import exif
from gpuimg._video.convert import readable, surface_of, write_pixels
from gpuimg.kernels.cuda import FRAMES
from tests.libraries import needs
from tests.video.videos import BUILDS, interlaced, make

needs("numba_cuda")

from .device import Launches
from .launch import run
from .pixels import RANDOM
from .variants import ptx_of

pytestmark = pytest.mark.usefixtures("watched")

_SLACK = 7  # elements around an image that are not to be written


def noise(name: str, height: int, width: int, coefficients: int = 2, color_range: int = 0) -> Any:
    """A frame of NVDEC's format with random samples, and all of its tags."""
    frame = av.VideoFrame(width, height, name)
    for plane in frame.planes:
        plane.update(RANDOM.bytes(plane.buffer_size))
    if name == "p010le":  # the lower bits of its words are not used
        for plane in frame.planes:
            plane.update((np.frombuffer(plane, np.uint16) & 0xFFC0).tobytes())
    frame.colorspace, frame.color_range = coefficients, color_range
    return frame


class OnDevice:
    """A frame with the attributes of a GPU's frame, and padded rows."""

    def __init__(self, frame: Any, more: int = 0) -> None:
        itemsize = frame.format.components[0].bits // 9 + 1
        self.sw_format = frame.format
        self.planes = [SimpleNamespace(line_size=plane.line_size + more * itemsize) for plane in frame.planes]
        self.height, self.width = frame.height, frame.width
        self.colorspace, self.color_range = frame.colorspace, frame.color_range
        self.interlaced_frame = frame.interlaced_frame


def samples(plane: Any, dtype: str, row: int, count: int) -> Any:
    """Copy a plane with a row stride, and no padding after the last row."""
    stored = np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size).view(dtype)
    wide = np.full((plane.height, row), 77, dtype)
    wide[:, : stored.shape[1]] = stored
    return wide.reshape(-1)[:count].copy()


def converted(frame: Any, orientation: int = 1, channels: int = 3, region: Any = None, more: int = 0) -> Any:
    """Return the kernel's result for a region (x0, y0, x1, y1) as displayed; other pixels of the image are 9."""
    surface = surface_of(OnDevice(frame, more))
    planes = [
        samples(plane, surface.dtype, row, count)
        for plane, row, count in zip(frame.planes, surface.rows, surface.counts, strict=True)
    ]
    height, width = exif.stored_shape((frame.height, frame.width, 1), orientation)[:2]
    shape, turns = np.array([(height, width)], np.int64), np.array([orientation])
    given = np.array([[0, 0, width, height] if region is None else region], np.int64)
    size = height * width * channels
    out = np.full(size + 2 * _SLACK, 9, np.uint8)
    places = Pixels(out, np.array([_SLACK]), shape, channels).stored_places(turns)[0]
    kernel = FRAMES[f"frame{8 * planes[0].itemsize}"]
    for pixels, starts, numbers in surface.launches(exif.stored_regions(given, shape, turns)[0], channels, places):
        parts = [plane[start:] for plane, start in zip(planes, starts, strict=True)]
        arguments = [
            value if kind.endswith("[]") else np.dtype(kind).type(value)
            for kind, value in zip(kernel.arguments, (*parts, *numbers, out), strict=True)
        ]
        run(ptx_of(kernel), (-(-pixels // kernel.block), 1), kernel.block, arguments)
    assert (out[[*range(_SLACK), *range(-_SLACK, 0)]] == 9).all()
    return out[_SLACK:-_SLACK].reshape(height, width, channels)


def the_cpus(frame: Any, orientation: int = 1, channels: int = 3, region: Any = None, _: int = 0) -> Any:
    height, width = exif.stored_shape((frame.height, frame.width, 1), orientation)[:2]
    x0, y0, x1, y1 = region = [0, 0, width, height] if region is None else region
    out = np.full((height, width, channels), 9, np.uint8)
    part = np.empty((y1 - y0) * (x1 - x0) * channels, np.uint8)
    write_pixels(readable(frame), orientation, channels, region, part)
    out[y0:y1, x0:x1] = part.reshape(y1 - y0, x1 - x0, channels)
    return out


def assert_the_cpus(frame: Any, *options: Any) -> None:
    """But where a level is on the border between two, as few of 10 bits are: sums are rounded in another order."""
    apart = converted(frame, *options).astype(int) - the_cpus(frame, *options)
    assert np.abs(apart).max() <= 1
    assert np.mean(apart != 0) <= 0.01 + 1.0 / apart.size


@pytest.mark.parametrize("name", ["nv12", "p010le", "p016le"])
def test_pixels_are_those_of_the_cpu(name: str) -> None:
    """In all colors; also where the rows of planes lie further apart."""
    for tags, channels in product([(2, 0), (1, 2), (9, 1), (5, 1), (7, 1)], (3, 1)):
        assert_the_cpus(noise(name, 34, 46, *tags), 1, channels)
    for size, channels in product([(64, 48), (33, 51), (1, 1), (2, 1), (1, 2)], (3, 1)):
        assert_the_cpus(noise(name, *size), 1, channels)
    for more in (1, 64, 500):
        assert_the_cpus(noise(name, 21, 30), 6, 3, None, more)
    for height, channels in product((2, 3, 20, 21, 22, 23), (3, 1)):
        assert_the_cpus(interlaced(noise(name, height, 31)), 1, channels)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("name", ["nv12", "p010le"])
def test_regions_of_turned_frames(name: str, orientation: int) -> None:
    frame = RANDOM.choice([lambda frame: frame, interlaced])(noise(name, 27, 35))
    height, width = exif.stored_shape((27, 35, 1), orientation)[:2]
    for channels in (1, 3):
        start = RANDOM.integers(0, (width, height))
        region = [*start.tolist(), *RANDOM.integers(start + 1, (width + 1, height + 1)).tolist()]
        assert_the_cpus(frame, orientation, channels, region)


@pytest.mark.parametrize("color", ["rgb", "gray"])
def test_clips_have_the_cpus_pixels(launches: Launches, monkeypatch: pytest.MonkeyPatch, color: str) -> None:
    """From the file to the result: whole frames, and regions of turned and of interlaced ones."""
    fields = BUILDS["h264"]._replace(options={"flags": "+ildct+ilme", "x264-params": "tff=1"})
    builds = [BUILDS["h264 open gop"], BUILDS["hevc 10 bits"], BUILDS["h264"]._replace(turn=(90, False, False)), fields]
    sources = [make(build, frames=16) for build in builds]

    def clips(device: str) -> list[gi.Batch]:
        x = gi.open_clips(sources, 2, 3, start=[5, 0, 11, 4], device=device, color=color)
        return [x.compute(), gi.resize(gi.crop(x, 9, 13, 21, 30), (10, 12)).compute("uint8")]

    monkeypatch.setattr(launches.gpu.decode, "AT_ONCE", 1)  # the interpreter runs one launch at a time
    for found, expected in zip(clips("cuda:0"), clips("cpu"), strict=True):
        for one, other in zip(found, expected, strict=True):
            apart = np.abs(one.values.astype(int) - other)
            assert apart.max() <= 1
            assert apart.mean() <= 0.01
    names = [kernel.name for kernel in launches.kernels]
    assert (names.count("frame8"), names.count("frame16")) == (8 + 2 * 4, 4)
