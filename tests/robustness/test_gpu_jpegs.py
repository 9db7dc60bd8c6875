"""Loops of the GPU's JPEG functions on the CPU: they are the kernels, and have the CPU decoder's pixels."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from gpuimg._plan.scale import FULL
from gpuimg._runtimes.jpeg_upload import SPAN
from gpuimg.kernels import cuda as kernels
from gpuimg.kernels.jpeg import upload

pytest.importorskip("numba_cuda")

from ..ptx.launch import run
from ..ptx.program import program
from ..ptx.variants import ptx_of
from . import gpu_jpegs


@pytest.mark.slow
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
@pytest.mark.parametrize("scale", [FULL, *gpu_jpegs.SCALES])
def test_made_files(scale: int, color: str) -> None:
    """Whole images in parts of several sizes, and regions; very narrow ones of 4:2:2 are the CPU's."""
    numbers = [number for number in range(60) if number != 1 and (color == "rgb" or number % 6 != 5)]
    files = [gpu_jpegs.made(number) for number in numbers]
    regions = gpu_jpegs.regions_of(files, scale, scale)
    for span, box in ((256, None), (SPAN, None), (SPAN, regions), (upload.LEAST_SPAN, None)):
        counts = gpu_jpegs.compared(files, span, color, box, scale)
        assert not counts["WRONG"]
        assert counts["the CPU's pixels"] > (30 if span > upload.LEAST_SPAN else 10)
        assert not counts["reported: the CPU decodes it"]


def test_a_sample_of_other_files(tmp_path: Path) -> None:
    counts = sum(map(gpu_jpegs.check(tmp_path), (0, 3, 4, 7, 8)), Counter[str]())
    ends = "the CPU's pixels", "not synchronized: the CPU decodes it", "reported: the CPU decodes it"
    assert min(counts[what] for what in (*ends, "not for these kernels"))
