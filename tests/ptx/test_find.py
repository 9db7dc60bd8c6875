"""The kernel that finds segments in JPEGs without known starts: its records are those of a plain walk of the file."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any

import numpy as np
import pytest

from gpuimg._data.images import Pixels, offsets_of, whole_regions
from gpuimg._runtimes.jpeg_upload import Upload
from gpuimg.kernels import cuda as kernels
from gpuimg.kernels.jpeg import upload
from tests.cuda.test_cuda_jpeg import batch_of, photo
from tests.decoding import jpegs
from tests.decoding.jpegs import encoded, noise
from tests.decoding.seek_oracle import blocks_of, grid_of

pytest.importorskip("numba_cuda")

from .launch import run
from .variants import ptx_of

pytestmark = pytest.mark.usefixtures("watched")


class Found:
    """The segments that the kernel finds in files."""

    def __init__(self, files: list[bytes], span: int) -> None:
        images = batch_of(files)
        pixels = Pixels(np.empty(1, np.uint8), offsets_of(images.sizes, 3)[0], images.sizes, 3)
        self.upload = Upload(images, pixels, whole_regions(images.sizes), span=span)
        self.words = np.zeros(self.upload.words_on_gpu, np.int32)
        self.upload.write(self.words[: self.upload.words])
        self.status = np.zeros(len(files), np.int32)
        arguments = self.words, np.int32(self.upload.totals["scan_word"]), self.status
        run(ptx_of(kernels.JPEG["find"], (9, 0)), (len(self.scans), 1), upload.PARTS, arguments)

    @property
    def scans(self) -> Any:
        at, n = int(self.upload.totals["scan_word"]), int(self.upload.totals["scans"])
        return self.words[at : at + n * upload.SCAN_WORDS].view(upload.SCAN)

    def segments(self, scan: Any) -> Any:
        at, n = int(scan["found"]), int(scan["count"])
        return self.words[at : at + n * upload.SEGMENT_WORDS].view(upload.SEGMENT)


def walked(data: bytes) -> list[tuple[int, int, tuple[int, ...]]]:
    """Bit, place in the MCU and predictors at the begin of each block, and at the end."""
    rows, columns = grid_of(data)
    header = jpegs.header_of(data)
    across, down = divmod(int(header["sampling"][0]), 16)
    per = across * down + 2 if header["components"] == 3 else 1
    blocks = islice(blocks_of(data), rows * columns * per + 1)
    return [(bit, place, point.predictors) for point, bit, place in blocks]


def assert_walked(found: Found, data: bytes, scan: Any) -> None:
    """The segments of a file are those of a walk through it."""
    blocks = walked(data)
    n = len(blocks) - 1
    assert (scan["skip"], scan["blocks"]) == (0, n)
    parts = np.array([bit for bit, _, _ in blocks[:n]]) // int(scan["span"])
    for part, segment in enumerate(found.segments(scan)):
        own = np.flatnonzero(parts == part)
        assert segment["blocks"] == len(own)
        assert segment["image"] == scan["image"]
        if not len(own):
            assert not any(segment[name] for name in ("end", "before", "between", "after", "state", "skip"))
            continue
        bit, place, predictors = blocks[own[0]]
        assert 32 * (segment["word"] - scan["word"]) + segment["shift"] == bit
        assert (segment["state"], segment["skip"]) == (2 * place, 0)
        assert segment["block"] == scan["block"] + own[0]
        halves = segment[["before", "between", "after"]].tolist()
        both = [half for word in halves for half in (word & 0xFFFF, word >> 16 & 0xFFFF)]
        assert both[:3] == [value & 0xFFFF for value in predictors]
        end = segment["end"] + 32 * (segment["word"] - scan["word"])
        if segment["slack"]:  # the last one
            assert own[-1] == n - 1
            assert segment["slack"] == scan["end"] >= end >= blocks[n][0]
        else:
            assert end == blocks[own[-1] + 1][0]
            assert both[3:] == [value & 0xFFFF for value in blocks[own[-1] + 1][2]]


def made() -> list[bytes]:
    """A photo and noise in every sampling, with tables of both kinds; gray with one interval, and tiny files."""
    files = []
    for k, sampling in enumerate(jpegs.SAMPLINGS):
        image = noise(45 + k, 41, k) if k % 2 else photo(90, 81 + k)
        files.append(encoded(image, sampling, quality=(60, 92, 80)[k % 3], optimize=k % 3 == 0))
    files.append(encoded(photo(90, 80), "gray", restart_marker_blocks=10_000))
    return files + [encoded(noise(*size, 1), "4:2:0") for size in ((8, 8), (7, 19))]


def test_segments_are_those_of_a_walk() -> None:
    files = made()
    assert all(jpegs.is_baseline(data) for data in files)
    found = Found(files, 1024)
    assert found.upload.taken == list(range(len(files)))
    assert not found.status.any()
    assert sum(int(scan["count"]) > 3 for scan in found.scans) > 5
    for data, scan in zip(files, found.scans, strict=True):
        assert_walked(found, data, scan)


@pytest.mark.slow
def test_many_parts() -> None:
    """More than are searched at a time; the end of one search is the begin of the next."""
    files = [encoded(photo(450, 310), sampling, quality=quality) for sampling, quality in (("4:2:0", 88), ("gray", 90))]
    found = Found(files, 512)
    assert not found.status.any()
    for data, scan in zip(files, found.scans, strict=True):
        assert scan["count"] > upload.PARTS
        assert_walked(found, data, scan)


def damaged() -> list[bytes]:
    """Files without some of their data, or with others."""
    files = []
    for k, data in enumerate(8 * [encoded(photo(70, 61), sampling, quality=85) for sampling in jpegs.SAMPLINGS]):
        start, random = jpegs.scan_start(data), np.random.default_rng(k)
        at = int(random.integers(start, len(data) - 2))
        junk = random.integers(0, 255, random.choice((1, 9, 300)), np.uint8).tobytes()
        files.append(data[:at] + (b"" if k % 3 else junk) + data[at + len(junk) : -2] + data[-2:])
    return files


def test_shared_memory() -> None:
    """As little as lets five blocks run at a time on every GPU, beside other kernels."""
    sizes = re.findall(r"\.shared \.align \d+ \.b8 \w+\[(\d+)\]", ptx_of(kernels.JPEG["find"], (9, 0)))
    assert 10 << 10 < sum(map(int, sizes)) <= 12 << 10
