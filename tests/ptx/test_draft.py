"""``draft`` on a GPU, by its kernels as they are compiled: the pixels that libjpeg scales, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gpuimg as gi
from gpuimg._batch.batch import recording_of
from gpuimg._data.images import EncodedImages, Pixels, offsets_of, whole_regions
from gpuimg._decoding import exif
from gpuimg._runtimes.draft import decoded_sizes
from gpuimg.kernels.jpeg import layout as words
from tests.cuda.test_cuda_jpeg import checked, entry_status, opened, photo, turned, with_table
from tests.decoding import jpegs
from tests.decoding.jpegs import SAMPLINGS, encoded, entries_of, noise, pillow_pixels
from tests.samples import file_of

pytest.importorskip("numba_cuda")

from .device import Launches, executing
from .fault import Fault
from .pixels import RANDOM, assert_few_apart
from .test_jpeg import absurd_coefficients, without_barrier

pytestmark = pytest.mark.usefixtures("watched")

SCALES = (4, 2, 1)  # eighths of an image's size


# -- decoding ----------------------------------------------------------------------------------------------------------


def small(sizes: Any = ((21, 17), (9, 19), (33, 40), (8, 9), (16, 11)), **options: Any) -> list[bytes]:
    """A file of each sampling, of a photo or of noise, in odd sizes."""
    shapes = [sizes[k % len(sizes)] for k in range(len(SAMPLINGS))]
    images = [photo(w, h) if k % 2 else noise(h, w, k) for k, (h, w) in enumerate(shapes)]
    return [encoded(image, sampling, **options) for image, sampling in zip(images, SAMPLINGS, strict=True)]


def assert_pillows(
    launches: Launches, files: list[bytes], scale: int, every: int | None = 1, parts: bool = False, color: str = "rgb"
) -> None:
    """Images at a scale, or a random part of each, decoded by our kernels and nothing else."""
    x = opened(files, entries_of(files, every or 1) if every else [np.zeros(0, np.uint8)] * len(files), every or 1,
               color=color)  # fmt: skip
    source = recording_of(x).source
    assert isinstance(source, EncodedImages)
    source = replace(source, scales=np.full(len(files), scale))
    sizes, channels, turns = decoded_sizes(source), source.channels, source.orientations
    regions = whole_regions(sizes)
    if parts:
        start = RANDOM.integers(0, sizes)
        regions = np.concatenate([start[:, ::-1], RANDOM.integers(start, sizes)[:, ::-1] + 1], axis=1)
    offsets, total = offsets_of(sizes, channels, 64)
    stream = launches.standin.stream()
    with stream:
        out = Pixels(launches.standin.cupy.zeros(total, np.uint8), offsets, sizes, channels)
        stream.synchronize()
    decoder = launches.standin.decode.ImageDecoder(0)
    _, statuses = decoder.decode(source, out, stream, regions)
    assert statuses is not None
    assert statuses.reported() == []
    for i, (data, (x0, y0, x1, y1)) in enumerate(zip(files, regions.tolist(), strict=True)):
        expected = exif.turned(pillow_pixels(data, channels, scale), int(turns[i]))[y0:y1, x0:x1]
        found = out.view(i).values[y0:y1, x0:x1]
        np.testing.assert_array_equal(found, expected, err_msg=f"{i}, scale {scale}: {(x0, y0, x1, y1)}")
    assert launches.standin.order.of("decode") == []
    assert {kernel.name for kernel in launches.kernels} <= {"find", "huffman", "inverse_dct", "reduced_dct", "colors"}


@pytest.mark.parametrize("color", ["rgb", "gray"])
@pytest.mark.parametrize("scale", SCALES)
def test_whole_images(launches: Launches, scale: int, color: str) -> None:
    """Only chroma of 4:2:0 at half size has blocks of full size."""
    files = [data for data in small(quality=85) if color == "rgb" or jpegs.header_of(data)["color"] != words.RGB]
    assert_pillows(launches, files, scale, color=color)
    names = [kernel.name for kernel in launches.kernels]
    assert names == ["huffman", *["inverse_dct"][: scale == 4], "reduced_dct", "colors"]


@pytest.mark.parametrize("scale", SCALES)
def test_without_starts(launches: Launches, scale: int) -> None:
    """Neither an index nor restart markers."""
    assert_pillows(launches, small()[1:4], scale, every=None)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("every", [1, 2, 0])
def test_regions_of_turned_images(launches: Launches, every: int, scale: int) -> None:
    """Of which no more is decoded than the region needs: the windows begin in odd columns and rows, too."""
    files = [turned(data, 2 + k) for k, data in enumerate(small(((41, 57), (64, 33), (50, 50))))]
    assert_pillows(launches, files, scale, every, parts=True)


@pytest.mark.parametrize("scale", SCALES)
def test_restart_intervals(launches: Launches, scale: int) -> None:
    files = [*small(restart_marker_blocks=1)[:3], *small(restart_marker_blocks=3)[3:]]
    assert_pillows(launches, files, scale, parts=True)


@pytest.mark.parametrize("scale", SCALES)
def test_absurd_coefficients(launches: Launches, scale: int) -> None:
    """Products and sums wrap and saturate where libjpeg-turbo's do."""
    # Of the first row and the fifth only, which does not contribute to half size.
    y = np.arange(24)[:, None] * 2 + 1
    waves = np.repeat(180 + 50 * np.cos(y * 4 * np.pi / 16), 32, 1).astype(np.uint8)
    striped = encoded(Image.fromarray(waves), "gray", quality=30)
    files = [with_table(striped, [step] * 64) for step in (500, 1000, 1500, 2000)]
    assert_pillows(launches, [*absurd_coefficients(), *files], scale)


# -- whole calls -------------------------------------------------------------------------------------------------------

CHAINS: dict[str, Callable[[gi.Batch], gi.Batch]] = {
    "resize": lambda x: gi.resize(x, (11, 12)),
    "crops": lambda x: gi.horizontal_flip(gi.resized_crop(x, [3, 0, 7, 1, 2, 0], 2, 35, 30, (9, 10), "bicubic")),
    "turned": lambda x: gi.adjust_contrast(gi.resize(gi.rotate(x, 90, expand=True), (9, 8)), 1.4),
    "some blurred": lambda x: gi.resize(gi.gaussian_blur(x, 3, 1.0, where=np.arange(len(x)) % 2 == 0), (9, 8)),
    "some measured": lambda x: gi.gaussian_blur(
        gi.resize(gi.gaussian_blur(gi.adjust_contrast(x, 1.5, where=np.arange(len(x)) == 1), 3, 1.0,
                                   where=np.arange(len(x)) == 3), (9, 8)), 3, 1.0),
}  # fmt: skip


def files_of_calls() -> list[bytes]:
    """Baseline files of all samplings but RGB, one of them turned, and a PNG, which has one size."""
    files = [encoded(photo(40 + 7 * k, 43 + 5 * k), sampling, quality=85) for k, sampling in enumerate(SAMPLINGS[:5])]
    return [files[0], turned(files[1], 6), *files[2:], file_of(photo(45, 50), "PNG")]


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("name", CHAINS)
def test_calls_are_the_cpus(launches: Launches, name: str, indexed: bool) -> None:
    """At the same scales, of which there are several in a batch; in some all are of one size but one."""
    files = files_of_calls()
    exact, x = gi.open_batch(files, device="cpu", draft=1.2), gi.open_batch(files, device="cuda:0", draft=1.2)
    if indexed:
        entries = [*entries_of(files[:-1], 2), np.zeros(0, np.uint8)]
        x = opened(files, entries, 2, draft=1.2)
    ours, theirs = CHAINS[name](x), CHAINS[name](exact)
    scales = [gi.describe(theirs, i).splitlines()[1] for i in range(len(files))]
    assert [gi.describe(ours, i).splitlines()[1] for i in range(len(files))] == scales
    assert any("decoded at 1/" in line for line in scales)
    found, expected = ours.compute("uint8"), theirs.compute("uint8")
    assert_few_apart([one.values for one in found], list(expected), list(theirs.compute("float32")))
    assert "reduced_dct" in [kernel.name for kernel in launches.kernels]
    if indexed:
        assert entry_status(x) == [words.USED] * 5 + [0]


@pytest.mark.parametrize("scale", SCALES)
def test_what_kernels_report_the_cpu_decodes_at_the_same_scale(launches: Launches, scale: int) -> None:
    """And what they do not take: a file of 4:2:2 that is too narrow at this scale for chroma to be interpolated."""
    side = 8 // scale
    files = [encoded(photo(16 * side, 8 * side), quality=quality) for quality in (60, 70, 80)]
    narrow = [encoded(photo(8 * side // 2, 8 * side), "4:2:2")]
    entries = entries_of(files + narrow, 1)
    entries[1] = entries[1].copy()
    entries[1][-1] ^= 1  # lies about a predictor
    entries[1] = checked(entries[1], 1)
    x = opened(files + narrow, entries, 1, draft=1.0)
    resized = gi.resize(x, np.array([(8, 16)] * 3 + [(8, 4)]))
    with pytest.warns(RuntimeWarning, match=r"1 entry of the seek index .* does not match"):
        found = resized.compute("uint8")
    for one, data in zip(found, files + narrow, strict=True):  # resampled pixel by pixel
        np.testing.assert_array_equal(one.values, pillow_pixels(data, 3, scale))
    assert launches.standin.order.of("decode") == []


# -- barriers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(2))
def test_each_barrier_is_missed(number: int) -> None:
    files = [encoded(noise(40, 48, 1), quality=90)]
    with (
        executing(lambda kernel, text: without_barrier(text, number) if kernel.name == "reduced_dct" else text),
        pytest.raises(Fault, match=r"no barrier between|that nothing wrote"),
    ):
        gi.resize(opened(files, entries_of(files, 1), 1, draft=1.0), (20, 24)).compute()
