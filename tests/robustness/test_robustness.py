"""A sample of every subject, from a new number in each run; more: ``make soak``. And planted faults are reported."""

import random

import pytest

from ..libraries import needs
from . import engine
from .foreign import FILES
from .formats import originals as formats

FIRST = random.SystemRandom().randrange(1 << 40)

#: Numbers of a sample, and outcomes that it must have.
SAMPLES = {
    "jpegs": (40, {"whole, ours: decoded", "crop, ours: decoded", "whole, Pillow: decoded", "whole, ours: refused"}),
    "guard pages": (400, {"as Pillow's", "damaged"}),
    "guard recoded": (200, {"as Pillow's", "decoded", "damaged", "not ours"}),
    "guard pngs": (300, {"as Pillow's", "refused", "left to Pillow"}),
    "gpu jpegs": (12, {"whole", "reported by kernels"}),
    "changing": (16, {"pixels", "a reason"}),
    "formats": (400, {f"{form}: refused" for form in formats() if form != "tiff"}),
    "tiff": (100, {"tiff: decoded", "tiff: refused"}),
    "foreign": (420, {f"{form}: decoded" for form in FILES} | {f"{form}: all bits" for form in ("png", "pnm", "tiff")}),
    "prepared": (100, {"resumed", "refused: ValueError"}),
    "sources": (300, {"lmdb: refused", "recordio: refused", "tar: refused", "tfrecord: some unreadable"}),
    "remote": (10, {"samples", "faults"}),
    "videos": (60, {"decoded", "refused"}),
}
NEEDED = {"gpu jpegs": ("numba_cuda",), "remote": ("moto", "s3fs")}
FAST = ("foreign", "jpegs", "guard pages", "guard recoded", "guard pngs")


def test_every_subject_has_a_sample() -> None:
    assert SAMPLES.keys() == engine.SUBJECTS.keys()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in SAMPLES]
)
def test_sample(name: str) -> None:
    needs(*NEEDED.get(name, ()))
    number, wanted = SAMPLES[name]
    results = list(engine.run(name, FIRST, FIRST + number))
    assert [one for one in results if one.finding] == []
    assert [one.number for one in results] == list(range(FIRST, FIRST + number))
    assert {outcome for one in results for outcome in one.outcomes} >= wanted, FIRST


@pytest.mark.slow
@pytest.mark.parametrize("name", ["guard pages", "guard recoded"])
def test_sample_with_checked_bounds(name: str) -> None:
    assert [one for one in engine.run(name, FIRST, FIRST + 200, bounds=True) if one.finding] == []
