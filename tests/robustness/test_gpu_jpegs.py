"""A sample of the JPEGs that kernels decode; all: ``python -m tests.robustness.gpu_jpegs --out bench/results``."""

from __future__ import annotations

import numpy as np
import pytest

from gpuimg._runtimes.jpeg_upload import SPAN
from gpuimg.kernels import cuda as kernels
from gpuimg.kernels.jpeg import upload

pytest.importorskip("numba_cuda")

from ..ptx.launch import run
from ..ptx.program import program
from ..ptx.variants import ptx_of
from . import gpu_jpegs


def test_the_loops_are_the_kernels() -> None:
    """The same segments, and the same files are reported, of intact and of damaged files."""
    files = [gpu_jpegs.damaged(seed) for seed in range(0, 24, 2)] + [gpu_jpegs.made(number) for number in range(2, 12)]
    files += [gpu_jpegs.periodic(number) for number in range(12)]
    ours = gpu_jpegs.Decoded(files, span=512)
    assert {0, 1, upload.UNSYNCHRONIZED} <= set(ours.status.tolist())
    words, status = np.zeros_like(ours.words), np.zeros_like(ours.status)
    ours.uploaded.write(words[: ours.uploaded.words])
    at, n = int(ours.uploaded.totals["scan_word"]), int(ours.uploaded.totals["scans"])
    run(program(ptx_of(kernels.JPEG["find"], (9, 0))), (n, 1), upload.PARTS, (words, np.int32(at), status))
    given_up = ours.status == upload.UNSYNCHRONIZED
    np.testing.assert_array_equal(status == upload.UNSYNCHRONIZED, given_up)
    segments, found = (
        one[ours.uploaded.words :].view(upload.SEGMENT)[: int(ours.uploaded.totals["found"])]
        for one in (words, ours.words)
    )
    kept = ~given_up[found["image"]]
    assert np.count_nonzero(found["blocks"][kept]) > 40
    np.testing.assert_array_equal(segments[kept], found[kept])


@pytest.mark.parametrize("color", ["rgb", "gray"])
def test_made_files(color: str) -> None:
    numbers = [number for number in range(60) if number != 1 and (color == "rgb" or number % 6 != 5)]
    files = [gpu_jpegs.made(number) for number in numbers]
    for span in (upload.LEAST_SPAN, 256, SPAN):
        counts = gpu_jpegs.compared(files, span, color)
        assert not counts["WRONG"]
        assert counts["the CPU's pixels"] > (40 if span > upload.LEAST_SPAN else 15)
        assert not counts["reported: the CPU decodes it"]
    counts = gpu_jpegs.compared(files, color=color, regions=gpu_jpegs.regions_of(files, 0))
    assert not counts["WRONG"]
    assert counts["the CPU's pixels"] > 40


@pytest.mark.parametrize("color", ["rgb", "gray"])
@pytest.mark.parametrize("scale", gpu_jpegs.SCALES)
def test_made_files_at_a_scale(scale: int, color: str) -> None:
    """Whole images, and regions; very narrow ones of 4:2:2 are the CPU's."""
    numbers = [number for number in range(90) if number != 1 and (color == "rgb" or number % 6 != 5)]
    files = [gpu_jpegs.made(number) for number in numbers]
    for regions in (None, gpu_jpegs.regions_of(files, scale, scale)):
        counts = gpu_jpegs.compared(files, 256, color, regions, scale)
        assert not counts["WRONG"]
        assert counts["the CPU's pixels"] > 55
        assert not counts["reported: the CPU decodes it"]


def test_periodic_and_damaged_files() -> None:
    counts = gpu_jpegs.compared([gpu_jpegs.periodic(number) for number in range(40)])
    assert not counts["WRONG"]
    assert min(counts[what] for what in ("the CPU's pixels", "not synchronized: the CPU decodes it"))
    counts = gpu_jpegs.compared([gpu_jpegs.damaged(seed) for seed in range(300)], 512)
    assert not counts["WRONG"]
    assert min(counts[what] for what in ("the CPU's pixels", "reported: the CPU decodes it", "not for these kernels"))


def test_wrong_pixels_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    files = [gpu_jpegs.made(number) for number in range(2, 6)]
    pixels = gpu_jpegs.pixels

    def changed(*arguments: object) -> None:
        pixels(*arguments)
        arguments[7][:] += np.uint8(1)  # type: ignore[index]

    monkeypatch.setattr(gpu_jpegs, "pixels", changed)
    assert gpu_jpegs.compared(files)["WRONG"] == len(files)
