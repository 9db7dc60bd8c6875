"""A sample of every subject, from a new number in each run; more: ``make soak``. And planted faults are reported."""

from __future__ import annotations

import random
import sys

import numpy as np
import pytest
from PIL import ImageOps

from ..samples import with_orientation
from . import engine, originals
from .formats import originals as formats
from .jpegs import turned

FIRST = random.SystemRandom().randrange(1 << 40)

#: Numbers of a sample, and outcomes that it must have.
SAMPLES = {
    "jpegs": (40, {"whole, ours: decoded", "crop, ours: decoded", "whole, Pillow: decoded", "whole, ours: refused"}),
    "decoder": (300, {"decoded", "damaged", "not ours"}),
    "guard pages": (300, {"as Pillow's", "damaged"}),
    "guard progressive": (200, {"as Pillow's", "damaged"}),
    "guard pngs": (300, {"as Pillow's", "refused", "left to Pillow"}),
    "photos": (2, {"intact", "refused"}),
    "formats": (400, {f"{form}: refused" for form in formats() if form != "tiff"}),
    "tiff": (100, {"tiff: decoded", "tiff: refused"}),
    "indexes": (300, {"refused", "used", "damaged", "no entry", "other size", "built", "not built"}),
    "prepared": (100, {"resumed", "refused: ValueError"}),
    "plans": (200, {"refused", "applied"}),
    "sources": (420, {"tar index: built again", "lmdb: refused", "recordio: refused", "tar: refused"}),
    "remote": (1, {"samples"}),
    "videos": (60, {"decoded", "refused"}),
}
FAST = ("jpegs", "guard pages", "guard progressive", "guard pngs", "plans")


def test_every_subject_has_a_sample() -> None:
    assert SAMPLES.keys() == engine.SUBJECTS.keys() - {"gpu jpegs"}  # which has tests of its own


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in SAMPLES]
)
def test_sample(name: str) -> None:
    number, wanted = SAMPLES[name]
    results = list(engine.run(name, FIRST, FIRST + number))
    assert [one for one in results if one.finding] == []
    assert [one.number for one in results] == list(range(FIRST, FIRST + number))
    assert {outcome for one in results for outcome in one.outcomes} >= wanted, FIRST


@pytest.mark.slow
@pytest.mark.parametrize("name", ["decoder", "indexes"])
def test_sample_with_checked_bounds(name: str) -> None:
    assert [one for one in engine.run(name, FIRST, FIRST + 200, bounds=True) if one.finding] == []


PLANTED = {
    "crash": ("ctypes.string_at(8)", "signal 11 (SIGSEGV)"),
    "wrong pixel": ("array[0, 0, 0] ^= 1", "other pixels than Pillow's"),
    "thread": ("threading.Thread(target=time.sleep, args=(30,), daemon=True).start()", "threads before"),
    "write before a result": ("ctypes.memset(images[0].ctypes.data - 1, 1, 1)", "bytes written before"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", PLANTED)
def test_planted_fault_is_reported(fault: str) -> None:
    """In the pixels of a batch, before they are judged, of the second number after those that warm up."""
    code, finding = PLANTED[fault]
    script = f"""
import ctypes, os, sys, threading, time
from gpuimg import Batch
from tests.robustness import engine
compute, calls = Batch.compute, []
def planted(self, *arguments):
    images = compute(self, *arguments)
    calls.append(self)
    if len(calls) == {engine._WARM + 2}:
        array = next(images[i] for i in range(len(images)) if self.status[i] == "ok")
        {code}
    return images
Batch.compute = planted
engine.child(*sys.argv[1:2], *map(int, sys.argv[2:]))
"""
    results = list(engine.run("jpegs", 0, engine._WARM + 3, command=(sys.executable, "-W", "ignore", "-c", script)))
    findings = {one.number: one.finding for one in results if one.finding}
    assert list(findings) == [engine._WARM + 1]
    assert finding in findings[engine._WARM + 1]


@pytest.mark.parametrize("value", range(1, 9))
def test_turning_is_what_pillow_does(value: int) -> None:
    image = originals.picture(7, 11, value)
    image.info["exif"] = with_orientation(value).tobytes()
    np.testing.assert_array_equal(turned(np.asarray(image), value), ImageOps.exif_transpose(image))
