"""The kernels that decode JPEGs, as they are compiled, launched by the runtime: the CPU's pixels, bit for bit.

With starts at restart markers and those that the kernel "find" finds, and at the scales of ``draft``.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gpuimg as gi
from gpuimg._batch.batch import recording_of
from gpuimg._data.images import EncodedImages, Pixels, offsets_of, whole_regions
from gpuimg._decoding import exif
from gpuimg._plan.draft import decoded_sizes
from gpuimg._runtimes.attempt import Attempt
from gpuimg._runtimes.jpeg_upload import Upload
from gpuimg.kernels import cuda as kernels
from gpuimg.kernels.jpeg import layout as words
from gpuimg.kernels.jpeg import upload
from tests.cuda.test_cuda_jpeg import JPEG, photo, turned, with_table
from tests.decoding import jpegs
from tests.decoding.jpegs import SAMPLINGS, encoded, noise, pillow_pixels
from tests.decoding.test_huffman import with_large_coefficients
from tests.fakecuda.launches import packed
from tests.libraries import needs
from tests.samples import file_of

needs("numba_cuda")

from .device import Launches
from .pixels import RANDOM, assert_few_apart
from .variants import ptx_of

pytestmark = pytest.mark.usefixtures("watched")


def small(sizes: Any = ((21, 17), (9, 19), (33, 40), (8, 9), (16, 11)), **options: Any) -> list[bytes]:
    """A file of each sampling, of a photo or of noise, in odd sizes."""
    shapes = [sizes[k % len(sizes)] for k in range(len(SAMPLINGS))]
    images = [photo(w, h) if k % 2 else noise(h, w, k) for k, (h, w) in enumerate(shapes)]
    return [encoded(image, sampling, **options) for image, sampling in zip(images, SAMPLINGS, strict=True)]


def made() -> list[bytes]:
    """A photo and noise in every sampling, with tables of both kinds; gray with one interval, and tiny files."""
    files = []
    for k, sampling in enumerate(jpegs.SAMPLINGS):
        image = noise(45 + k, 41, k) if k % 2 else photo(90, 81 + k)
        files.append(encoded(image, sampling, quality=(60, 92, 80)[k % 3], optimize=k % 3 == 0))
    files.append(encoded(photo(90, 80), "gray", restart_marker_blocks=10_000))
    return files + [encoded(noise(*size, 1), "4:2:0") for size in ((8, 8), (7, 19))]


def damaged() -> list[bytes]:
    """Files without some of their data, or with others."""
    files = []
    for k, data in enumerate(8 * [encoded(photo(70, 61), sampling, quality=85) for sampling in jpegs.SAMPLINGS]):
        start, random = jpegs.scan_start(data), np.random.default_rng(k)
        at = int(random.integers(start, len(data) - 2))
        junk = random.integers(0, 255, random.choice((1, 9, 300)), np.uint8).tobytes()
        files.append(data[:at] + (b"" if k % 3 else junk) + data[at + len(junk) : -2] + data[-2:])
    return files


def random_regions(sizes: Any) -> Any:
    """A part of each image: top, left, height and width."""
    start = RANDOM.integers(0, sizes)
    return np.concatenate([start, RANDOM.integers(1, sizes - start + 1)], axis=1)


def same_as_the_cpus(launches: Launches, files: list[bytes], crop: Any = None, **options: Any) -> tuple[Any, gi.Batch]:
    """Images, or a part of each; those that fail do so for the CPU's reasons. Return statuses and the batch."""
    exact, x = (gi.open_batch(files, device=device, on_error="fill", **options) for device in ("cpu", "cuda:0"))
    launches.kernels.clear()
    found, expected = (y.compute("uint8") if crop is None else gi.crop(y, *crop.T).compute("uint8") for y in (x, exact))
    for i, (one, other) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_array_equal(one.values, other, err_msg=f"{i}: {crop}")
    assert list(found.status) == list(expected.status)
    assert recording_of(x).source.failures == recording_of(exact).source.failures
    assert launches.gpu.order.of("decode") == []
    return list(found.status), x


def assert_the_cpus(launches: Launches, files: list[bytes], crop: Any = None, **options: Any) -> gi.Batch:
    """Images, or a part of each, decoded by our kernels."""
    _, x = same_as_the_cpus(launches, files, crop, **options)
    names = [kernel.name for kernel in launches.kernels]
    begin = names.index("huffman")  # files with restart markers alone need no "find"
    assert names[:begin] in ([], ["find"])
    assert names[begin : begin + 3] == JPEG[1:]
    return x


def spans(monkeypatch: pytest.MonkeyPatch, **limits: int) -> None:
    """Bounds of what is uploaded at once, so that small images have many parts."""
    from gpuimg._runtimes import cuda_jpeg  # exists on the fake only

    monkeypatch.setattr(cuda_jpeg, "Upload", partial(Upload, **limits))


# -- whole size --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("color", ["rgb", "gray"])
def test_whole_images(launches: Launches, monkeypatch: pytest.MonkeyPatch, color: str) -> None:
    spans(monkeypatch, span=1024)
    files = [*small(quality=85), *made(), encoded(photo(50, 40), restart_marker_rows=1)]
    ours = [data for data in files if color == "rgb" or jpegs.header_of(data)["color"] != words.RGB]
    x = assert_the_cpus(launches, ours, color=color)
    assert recording_of(x).timings.jpegs_on_cpu == 0


@pytest.mark.slow
def test_many_parts(launches: Launches, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than are searched at a time; the end of one search is the begin of the next."""
    spans(monkeypatch, span=512)
    files = [encoded(photo(450, 310), sampling, quality=quality) for sampling, quality in (("4:2:0", 88), ("gray", 90))]
    assert all(8 * (len(data) - jpegs.scan_start(data)) > 512 * upload.PARTS for data in files)
    assert recording_of(assert_the_cpus(launches, files)).timings.jpegs_on_cpu == 0


def test_shared_memory() -> None:
    """As little as lets five blocks run at a time on every GPU, beside other kernels."""
    sizes = re.findall(r"\.shared \.align \d+ \.b8 \w+\[(\d+)\]", ptx_of(kernels.JPEG["find"]))
    assert 10 << 10 < sum(map(int, sizes)) <= 12 << 10


def test_regions_of_turned_images(launches: Launches, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose transform reads no pixel that was not decoded."""
    spans(monkeypatch, span=1024)
    files = [turned(data, 1 + (k + 1) % 8) for k, data in enumerate([*small(), *made()])]
    sizes = gi.open_batch(files, device="cpu").sizes
    assert_the_cpus(launches, files, random_regions(sizes))


def test_last_rows(launches: Launches) -> None:
    """The rows of chroma after those of the image do not count."""
    files = [encoded(noise(42, 18, 1), sampling) for sampling in jpegs.SAMPLINGS]
    assert_the_cpus(launches, files, np.array([(39, 0, 3, 18)] * len(files)))


def test_parts_of_a_batch(launches: Launches, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a batch do not fit into memory at once."""
    spans(monkeypatch, span=1024, most_blocks=400)
    assert_the_cpus(launches, made())
    assert [kernel.name for kernel in launches.kernels].count("huffman") > 1


def absurd_coefficients() -> list[bytes]:
    """Files whose quantization makes products and sums wrap and saturate: of noise, and of nearly empty blocks."""
    files = []
    for k, sampling in enumerate(("4:4:4", "4:2:0", "gray", "4:4:4", "gray", "gray")):
        data = encoded(noise(24, 32, k), sampling, quality=100 if k < 4 else 10)
        files.append(with_table(data, RANDOM.integers(1, (65536, 4000, 500)[k % 3], 64).tolist()))
    smooth = encoded(photo(32, 24), "gray", quality=30)  # blocks of a first row only, or of one value
    # Of the first row and the fifth only, which does not contribute to half size.
    y = np.arange(24)[:, None] * 2 + 1
    waves = np.repeat(180 + 50 * np.cos(y * 4 * np.pi / 16), 32, 1).astype(np.uint8)
    striped = encoded(Image.fromarray(waves), "gray", quality=30)
    return files + [with_table(data, [int(s)] * 64) for data in (smooth, striped) for s in RANDOM.integers(40, 5000, 4)]


def test_absurd_coefficients(launches: Launches) -> None:
    """Products and sums wrap and saturate where the CPU's do."""
    assert_the_cpus(launches, absurd_coefficients())


def intervals() -> list[bytes]:
    """Restart intervals shorter than a row, and longer."""
    sizes = ((21, 17), (33, 40))
    return [*small(sizes, restart_marker_blocks=1)[:3], *small(sizes, restart_marker_blocks=3)[3:]]


def test_restart_intervals(launches: Launches) -> None:
    assert_the_cpus(launches, intervals())


def test_intervals_that_are_damaged_are_left_to_the_cpu(launches: Launches, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is in the place of their bytes."""
    files = [encoded(photo(24, 30), quality=quality, restart_marker_rows=1) for quality in (60, 70, 80)]
    write = Upload.write

    def changed(uploaded: Upload, out: Any) -> None:
        write(uploaded, out)
        at, n = int(uploaded.totals["segment_word"]), int(uploaded.totals["segments"])
        for segment in out[at : at + n * upload.SEGMENT_WORDS].view(upload.SEGMENT):
            first, image = int(segment["word"]), int(segment["image"])
            body = out[first : first + (int(segment["end"]) + 31) // 32].view(np.uint8)
            if image < 2:
                body[:] = (0xFF, RANDOM.integers(0, 256, body.size, np.uint8))[image]

    monkeypatch.setattr(Upload, "write", changed)
    assert recording_of(assert_the_cpus(launches, files)).timings.jpegs_on_cpu == 2


def test_what_cannot_be_found_the_cpu_decodes(launches: Launches, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also files that are cut off or damaged, whose blocks or codes do not come out, and those that fail there."""
    spans(monkeypatch, span=1024)
    data = encoded(photo(90, 80), quality=85)
    start = jpegs.scan_start(data)
    short = data[: start + (len(data) - start) // 2] + data[-2:]
    ones = data[: start + 100] + b"\xff\0" * 30 + data[start + 160 :]  # no code
    flat = encoded(Image.fromarray(np.full((640, 640), 99, np.uint8)), "gray")
    x = assert_the_cpus(launches, [data, short, ones, flat, data[:-9]])
    assert recording_of(x).timings.jpegs_on_cpu == 3
    launches.kernels.clear()
    files = damaged()[::2]
    assert 0 < recording_of(assert_the_cpus(launches, files)).timings.jpegs_on_cpu < len(files)
    x = gi.crop(gi.open_batch([short[:-2]], device="cuda:0"), 5, 7, 20, 30)  # what is read is before the end
    whole = gi.decode_batch([data], device="cpu")[0]
    np.testing.assert_array_equal(x.compute("uint8")[0].values, whole[5:25, 7:37])


@pytest.mark.parametrize("span", [256, 2048])
def test_damage_before_a_region_is_found(launches: Launches, monkeypatch: pytest.MonkeyPatch, span: int) -> None:
    """By the kernel that finds where blocks begin: no other one decodes those before the region."""
    spans(monkeypatch, span=span)
    whole = [encoded(photo(70, 61), sampling, quality=85) for sampling in jpegs.SAMPLINGS[:-1]]
    early: list[bytes] = []
    late: list[bytes] = []
    for k, data in enumerate(2 * whole):
        for files, at in ((early, jpegs.scan_start(data) + 20 * k), (late, len(data) - 99 - k)):
            files.append(data[:at] + b"\xff\0" * (3 + k) + data[at + 3 + k :])  # no code
    last, first = np.array([[64, 10, 6, 40]]), np.array([[0, 10, 1, 40]])
    x = assert_the_cpus(launches, early, last.repeat(len(early), 0))
    assert recording_of(x).source.given_up == set(range(len(early)))
    x = assert_the_cpus(launches, late + whole, first.repeat(len(late + whole), 0))
    assert recording_of(x).source.given_up == set()  # damage after a region is none


def test_coefficients_of_more_than_ten_bits_are_left_to_the_cpu(launches: Launches) -> None:
    files = [(size, data) for ac in ("shortest", "longest") for size, data, _ in with_large_coefficients(ac)]
    x = assert_the_cpus(launches, [data for _, data in files])
    assert recording_of(x).timings.jpegs_on_cpu == sum(size > 10 for size, _ in files)


@pytest.mark.parametrize(("field", "more"), [("end", 1), ("between", 1 << 16), ("after", 1), ("after", 1 << 16)])
def test_segments_end_where_the_next_one_was_found(
    launches: Launches, monkeypatch: pytest.MonkeyPatch, field: str, more: int
) -> None:
    """With its predictors; else the CPU decodes the file."""
    spans(monkeypatch, span=256)

    def changed(entry: str, stream: Any, grid: Any, block: Any, extra: int) -> None:
        launches.launch(entry, stream, grid, block, extra)
        if launches.kernels[-1].name == "find":
            memory, scans, _ = launches.gpu.driver.unpacked(launches.kernels[-1], packed(extra))
            scan = memory.values[scans : scans + upload.SCAN_WORDS].view(upload.SCAN)[0]
            found = memory.values[scan["found"] :][: scan["count"] * upload.SEGMENT_WORDS].view(upload.SEGMENT)
            found[len(found) // 2][field] += more

    monkeypatch.setattr(launches.gpu.cuda, "launch", changed)
    x = assert_the_cpus(launches, [encoded(photo(60, 50), "gray", quality=90)])
    assert recording_of(x).timings.jpegs_on_cpu == 1


# -- draft -------------------------------------------------------------------------------------------------------------

SCALES = (4, 2, 1)  # eighths of an image's size


def assert_pillows(
    launches: Launches, files: list[bytes], scale: int, parts: bool = False, color: str = "rgb",
    exact: list[bytes] | None = None,
) -> None:  # fmt: skip
    """Images at a scale, or a random part of each, decoded by our kernels and nothing else."""
    source = recording_of(gi.open_batch(files, device="cuda:0", color=color)).source
    assert isinstance(source, EncodedImages)
    source = replace(source, scales=np.full(len(files), scale))
    sizes, channels, turns = decoded_sizes(source), source.channels, source.orientations
    regions = whole_regions(sizes)
    if parts:
        top, left, height, width = random_regions(sizes).T
        regions = np.stack([left, top, left + width, top + height], 1)
    offsets, total = offsets_of(sizes, channels, 64)
    stream = launches.gpu.stream()
    with stream:
        out = Pixels(launches.gpu.cupy.zeros(total, np.uint8), offsets, sizes, channels)
        stream.synchronize()
    Attempt(lambda: launches.gpu.decode.ImageDecoder(0).decode(source, out, stream, regions)).result()
    assert not source.given_up
    for i, (data, (x0, y0, x1, y1)) in enumerate(zip(exact or files, regions.tolist(), strict=True)):
        expected = exif.turned(pillow_pixels(data, channels, scale), int(turns[i]))[y0:y1, x0:x1]
        with stream:  # the CPU decodes narrow ones
            found = out.view(i).values[y0:y1, x0:x1]
        np.testing.assert_array_equal(found, expected, err_msg=f"{i}, scale {scale}: {(x0, y0, x1, y1)}")
    assert launches.gpu.order.of("decode") == []
    assert {kernel.name for kernel in launches.kernels} <= set(kernels.JPEG)


@pytest.mark.parametrize("color", ["rgb", "gray"])
@pytest.mark.parametrize("scale", SCALES)
def test_scaled_images_are_pillows(launches: Launches, scale: int, color: str) -> None:
    """Only chroma of 4:2:0 at half size has blocks of full size."""
    files = [data for data in small(quality=85) if color == "rgb" or jpegs.header_of(data)["color"] != words.RGB]
    assert_pillows(launches, files, scale, color=color)
    names = [kernel.name for kernel in launches.kernels]
    assert names == ["find", "huffman", *["inverse_dct"][: scale == 4], "reduced_dct", "colors"]


@pytest.mark.parametrize("scale", SCALES)
def test_scaled_images_of_every_kind(launches: Launches, scale: int) -> None:
    """Without starts, with restart intervals, where products and sums wrap and saturate, and with narrow chroma."""
    assert_pillows(launches, small()[1:4], scale)
    assert_pillows(launches, intervals(), scale, parts=True)
    assert_pillows(launches, absurd_coefficients(), scale)
    assert_pillows(launches, [encoded(noise(40, w, w), "4:2:2") for w in (7, 8, 9, 15, 16, 17)], scale)


@pytest.mark.parametrize("scale", SCALES)
def test_scaled_regions_of_turned_images(launches: Launches, scale: int) -> None:
    """Of which no more rows are decoded than the region needs: the windows begin in odd rows, too."""
    files = [turned(data, 2 + k) for k, data in enumerate(small(((41, 57), (64, 33), (50, 50))))]
    assert_pillows(launches, files, scale, parts=True)


CHAINS: dict[str, Callable[[gi.Batch], gi.Batch]] = {
    "resize": lambda x: gi.resize(x, (11, 12)), "views": lambda x: gi.resize(x.take([3, 0, 0, 1, 3, 5]), (8, 9)),
    "crops": lambda x: gi.horizontal_flip(gi.resized_crop(x, [3, 0, 7, 1, 2, 0], 2, 35, 30, (9, 10), "bicubic")),
    "turned": lambda x: gi.adjust_contrast(gi.resize(gi.rotate(x, 90, expand=True), (9, 8)), 1.4),
    "some measured": lambda x: gi.gaussian_blur(
        gi.resize(gi.gaussian_blur(gi.adjust_contrast(x, 1.5, where=np.arange(len(x)) == 1), 3, 1.0,
                                   where=np.arange(len(x)) == 3), (9, 8)), 3, 1.0),
}  # fmt: skip


@pytest.mark.parametrize("name", CHAINS)
def test_drafts_are_the_cpus(launches: Launches, name: str) -> None:
    """At the same scales, of which there are several in a batch; one file is turned, and a PNG has one size."""
    files = [encoded(photo(40 + 7 * k, 43 + 5 * k), sampling, quality=85) for k, sampling in enumerate(SAMPLINGS[:5])]
    files = [files[0], turned(files[1], 6), *files[2:], file_of(photo(45, 50), "PNG")]
    exact, x = gi.open_batch(files, device="cpu", draft=1.2), gi.open_batch(files, device="cuda:0", draft=1.2)
    ours, theirs = CHAINS[name](x), CHAINS[name](exact)
    scales = [gi.describe(theirs, i).splitlines()[1] for i in range(len(files))]
    assert [gi.describe(ours, i).splitlines()[1] for i in range(len(files))] == scales
    assert any("decoded at 1/" in line for line in scales)
    found, expected = ours.compute("uint8"), theirs.compute("uint8")
    assert_few_apart([one.values for one in found], list(expected), list(theirs.compute("float32")))
    assert "reduced_dct" in [kernel.name for kernel in launches.kernels]
