"""The kernels that decode JPEGs, as they are compiled, launched by the runtime: the CPU's pixels, bit for bit."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from gpuimg._runtimes.jpeg_upload import Upload
from gpuimg.kernels.jpeg import layout as words
from gpuimg.kernels.jpeg import upload
from tests.cuda.test_cuda_jpeg import JPEG, checked, entry_status, opened, photo, turned, with_table
from tests.decoding import jpegs
from tests.decoding.jpegs import encoded, entries_of, noise

pytest.importorskip("numba_cuda")

from .device import Launches, executing
from .fault import Fault
from .pixels import RANDOM

pytestmark = pytest.mark.usefixtures("watched")


def small(**options: Any) -> list[bytes]:
    """A file of each sampling, of a photo or of noise, in odd sizes."""
    images = [photo(21 + k, 17) if k % 2 else noise(9 + k, 19, k) for k in range(len(jpegs.SAMPLINGS))]
    return [encoded(image, sampling, **options) for image, sampling in zip(images, jpegs.SAMPLINGS, strict=True)]


def assert_the_cpus(launches: Launches, files: list[bytes], crop: Any = None, every: int = 1, **options: Any) -> None:
    """Images, or a part of each (top, left, height, width), decoded by the three kernels and nothing else."""
    exact, x = gi.open_batch(files, device="cpu", **options), opened(files, entries_of(files, every), every, **options)
    found, expected = (y.compute("uint8") if crop is None else gi.crop(y, *crop.T).compute("uint8") for y in (x, exact))
    for i, (one, other) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_array_equal(one.values, other, err_msg=f"{i}: {crop}")
    assert [kernel.name for kernel in launches.kernels[:3]] == JPEG
    assert set(entry_status(x)) <= {words.USED, 0}
    assert launches.standin.order.of("decode") == []


@pytest.mark.parametrize("color", ["rgb", "gray"])
def test_whole_images(launches: Launches, color: str) -> None:
    files = small(quality=85)
    ours = [data for data in files if color == "rgb" or jpegs.header_of(data)["color"] != words.RGB]
    assert_the_cpus(launches, ours, color=color)


def test_regions_of_turned_images(launches: Launches) -> None:
    """Whose transform reads no pixel that was not decoded."""
    files = [turned(data, 2 + k) for k, data in enumerate(small())]
    sizes = gi.open_batch(files, device="cpu").sizes
    start = RANDOM.integers(0, sizes)
    assert_the_cpus(launches, files, np.concatenate([start, RANDOM.integers(1, sizes - start + 1)], axis=1))


@pytest.mark.parametrize("every", [0, 2, 8])
def test_parts_of_a_batch(launches: Launches, monkeypatch: pytest.MonkeyPatch, every: int) -> None:
    """Entries of several distances; the blocks of a batch do not fit into memory at once."""
    from gpuimg._runtimes import cuda_jpeg  # exists on the stand-in only

    monkeypatch.setattr(cuda_jpeg, "Upload", partial(Upload, most_blocks=100))
    assert_the_cpus(launches, small(), every=every)
    assert [kernel.name for kernel in launches.kernels].count("huffman") > 1


def absurd_coefficients() -> list[bytes]:
    """Files whose quantization makes products and sums wrap and saturate: of noise, and of nearly empty blocks."""
    files = []
    for k, sampling in enumerate(("4:4:4", "4:2:0", "gray", "4:4:4", "gray", "gray")):
        data = encoded(noise(24, 32, k), sampling, quality=100 if k < 4 else 10)
        files.append(with_table(data, RANDOM.integers(1, (65536, 4000, 500)[k % 3], 64).tolist()))
    smooth = encoded(photo(32, 24), "gray", quality=30)  # blocks of a first row only, or of one value
    return files + [with_table(smooth, [int(step)] * 64) for step in RANDOM.integers(40, 5000, 4)]


def test_absurd_coefficients(launches: Launches) -> None:
    """Products and sums wrap and saturate where the CPU's do."""
    assert_the_cpus(launches, absurd_coefficients())


def test_restart_intervals(launches: Launches) -> None:
    """Shorter than a row, and longer."""
    assert_the_cpus(launches, [*small(restart_marker_blocks=1)[:3], *small(restart_marker_blocks=3)[3:]])


def test_what_kernels_report_the_cpu_decodes(launches: Launches) -> None:
    """Entries that lie about a predictor, with the right checksum."""
    files = [encoded(photo(24, 30), quality=quality) for quality in (60, 70, 80)]
    entries = entries_of(files, 1)
    for k in (0, 2):
        entries[k] = entries[k].copy()
        entries[k][-1] ^= 1
        entries[k] = checked(entries[k], 1)
    x = opened(files, entries, 1)
    with pytest.warns(RuntimeWarning, match=r"2 entries of the seek index .* do not match"):
        found = x.compute("uint8")
    for one, other in zip(found, gi.decode_batch(files, device="cpu"), strict=True):
        np.testing.assert_array_equal(one.values, other)
    assert entry_status(x) == [words.MISMATCH, words.USED, words.MISMATCH]


def test_words_that_are_not_what_they_should_be_do_no_harm(launches: Launches, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter sees what is touched outside; images whose entropy-coded data are not theirs are reported."""
    files = [encoded(photo(24, 30), quality=quality) for quality in (60, 70, 80, 90)]
    write = Upload.write

    def changed(uploaded: Upload, out: Any) -> None:
        write(uploaded, out)
        at, n = int(uploaded.totals["segment_word"]), int(uploaded.totals["segments"])
        for segment in out[at : at + n * upload.SEGMENT_WORDS].view(upload.SEGMENT):
            first, image = int(segment["word"]), int(segment["image"])
            body = out[first : first + (int(segment["end"]) + 31) // 32].view(np.uint8)
            if image < 3:
                body[:] = (0xFF, 0, RANDOM.integers(0, 256, body.size, np.uint8))[image]

    monkeypatch.setattr(Upload, "write", changed)
    x = opened(files, entries_of(files, 4), 4)
    with pytest.warns(RuntimeWarning, match=r"3 entries of the seek index .* do not match"):
        found = x.compute("uint8")
    for one, other in zip(found, gi.decode_batch(files, device="cpu"), strict=True):
        np.testing.assert_array_equal(one.values, other)
    assert entry_status(x) == [words.MISMATCH, words.MISMATCH, words.MISMATCH, words.USED]


def without_barrier(text: str, number: int) -> str:
    """A text without one of its barriers."""
    places = [found.span() for found in re.finditer(r"bar\.(warp\.)?sync[^;]*;", text)]
    start, stop = places[number]
    return text[:start] + text[stop:]


@pytest.mark.parametrize(("name", "number"), [("huffman", 0), ("huffman", 1), *(("inverse_dct", k) for k in range(3))])
def test_each_barrier_is_missed(name: str, number: int) -> None:
    files = [encoded(noise(20, 24, 1), quality=90)]
    with (
        executing(lambda kernel, text: without_barrier(text, number) if kernel.name == name else text),
        pytest.raises(Fault, match=r"no barrier between|that nothing wrote"),
    ):
        opened(files, entries_of(files, 1), 1).compute()
