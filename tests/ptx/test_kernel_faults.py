"""Faults put into the kernels, each of which the interpreter names."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from gpuimg.kernels import cuda as kernels
from tests.cuda.test_cuda_jpeg import opened, photo
from tests.decoding.jpegs import encoded, entries_of, noise

pytest.importorskip("numba_cuda")

from .device import Edit, executing
from .fault import Fault
from .pixels import Chain, equalized, images_of, measured, on_device, shrunk, use_small_blocks

pytestmark = pytest.mark.usefixtures("watched")


def _edited(name: str, edit: Callable[[str], str]) -> Edit:
    """Kernels whose names begin so are edited."""

    def edited(kernel: kernels.Kernel, text: str) -> str:
        if not kernel.name.startswith(name):
            return text
        made = edit(text)
        assert made != text
        return made

    return edited


def _run(chain: Chain, edit: Edit, images: Any = None, behind: Any = None) -> Any:
    with executing(edit) as launches:
        launches.behind = behind
        images = images_of("uint8") if images is None else images
        return [one.values for one in chain(on_device(launches, images)).compute("float32")]


def _without(number: int, count: int) -> Callable[[str], str]:
    """A text without one of its barriers."""

    def edit(text: str) -> str:
        places = [found.span() for found in re.finditer(r"bar\.(warp\.)?sync[^;]*;", text)]
        assert len(places) == count
        start, stop = places[number]
        return text[:start] + text[stop:]

    return edit


_MISSED = pytest.raises(Fault, match=r"no barrier between|that nothing wrote")


@pytest.mark.parametrize("number", [1, 5])
def test_missing_barriers_of_statistics(number: int) -> None:
    with _MISSED:
        _run(measured if number < 5 else equalized, _edited("statistics", _without(number, 9)))


@pytest.mark.parametrize(
    ("name", "number", "count"), [("find", 2, 4), ("huffman", 0, 2), ("inverse_dct", 1, 3), ("reduced_dct", 0, 2)]
)
def test_missing_barriers_of_jpeg_kernels(monkeypatch: pytest.MonkeyPatch, name: str, number: int, count: int) -> None:
    files = [encoded(noise(40, 48, 1) if name != "find" else photo(250, 161), quality=90)]
    entries, draft = (None if name == "find" else entries_of(files, 1)), 1.0 if name == "reduced_dct" else None
    with executing(_edited(name, _without(number, count))), _MISSED:
        x = gi.open_batch(files, device="cuda:0", draft=draft)
        gi.resize(x if entries is None else opened(files, entries, 1, draft=draft), (20, 24)).compute()


def test_the_barrier_in_front_of_the_ticket_is_missed_by_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """All it orders are atomics, which are no race; but the last block may look before all of another have added."""
    use_small_blocks(monkeypatch)
    images = images_of("uint8", sizes=[(16, 17)])
    expected = gi.equalize(images).compute("float32")[0]

    def right(edit: Edit, turns: int) -> bool:
        found = _run(gi.equalize, edit, images, behind=(1, turns))[0]  # the second warp of the first block
        return bool(np.abs(found - expected).max() <= 1e-4)

    assert right(lambda kernel, text: text, 3)
    # After three turns it is past the barrier in front of the missing one, and has added nothing to the image's sums.
    assert not all(right(_edited("statistics", _without(3, 9)), turns) for turns in (3, 2, 4, 1, 5))


@pytest.mark.parametrize(
    ("pattern", "by", "said"),
    [
        (r"st\.global\.f32 \t\[(%rd\d+)\]", r"st.global.f32 [\1+12]", "race|out of bounds"),  # one pixel on
        (r"mul\.lo\.s32 \t(%r\d+), (%r\d+), 26;", r"mad.lo.s32 \1, \2, 26, 26;", "ints"),  # one record too many
        (r"@%p\d+ bra", r"// bra", "out of bounds|race"),  # no end of the threads
    ],
)
def test_faults_of_the_transform(pattern: str, by: str, said: str) -> None:
    with pytest.raises(Fault, match=said):
        _run(shrunk, _edited("transform", lambda text: re.sub(pattern, by, text, count=1)))
