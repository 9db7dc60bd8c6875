"""Faults put into the kernels, each of which the interpreter names."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from gpuimg.kernels import cuda as kernels

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


def _without(number: int) -> Callable[[str], str]:
    """A text without one of its barriers."""

    def edit(text: str) -> str:
        places = [found.start() for found in re.finditer(r"bar\.sync", text)]
        assert len(places) == 9
        end = text.index(";", places[number])
        return text[: places[number]] + text[end + 1 :]

    return edit


@pytest.mark.parametrize("number", [0, 1, 2, 4, 5, 6, 7, 8])
def test_each_barrier_of_the_statistics_is_missed(number: int) -> None:
    chain = measured if number < 5 else equalized
    with pytest.raises(Fault, match=r"no barrier between|that nothing wrote"):
        _run(chain, _edited("statistics", _without(number)))


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
    assert not all(right(_edited("statistics", _without(3)), turns) for turns in (3, 2, 4, 1, 5))


def _replaced(pattern: str, by: str, count: int = 1) -> Callable[[str], str]:
    return lambda text: re.sub(pattern, by, text, count=count)


FAULTS = {
    "a store one pixel on": (r"st\.global\.f32 \t\[(%rd\d+)\]", r"st.global.f32 [\1+12]", "race|out of bounds"),
    "a store one byte on": (r"st\.global\.f32 \t\[(%rd\d+)\]", r"st.global.f32 [\1+1]", "misaligned"),
    "a load of one record too many": (
        r"mul\.lo\.s32 \t(%r\d+), (%r\d+), 26;",
        r"mad.lo.s32 \1, \2, 26, 26;",
        "ints",
    ),
    "no end of the threads": (r"@%p\d+ bra", r"// bra", "out of bounds|race"),
    "an opcode that is not known": (r"fma\.rn\.ftz\.f32", r"fma.rn.ftz.f31", r"fma\.rn\.ftz\.f31 .*not known"),
    "a parameter less": (r"\.param \.u64 \S+_param_0,\n", r"", "wrong parameters"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_the_transform_are_named(name: str) -> None:
    pattern, by, said = FAULTS[name]
    with pytest.raises(Fault, match=said):
        _run(shrunk, _edited("transform", _replaced(pattern, by)))


def test_a_stride_that_is_not_theimages_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host passes a row stride that is too large."""
    with executing() as launches:
        compile_plan = launches.standin.runtime.compile_plan

        def wrong(plan: Any) -> Any:
            passes, region = compile_plan(plan)
            return [replace(made, records=made.records.view(_Wide)) for made in passes], region

        monkeypatch.setattr(launches.standin.runtime, "compile_plan", wrong)
        monkeypatch.setattr("tests.standin.launches._part", lambda array, first, stop: array.range)
        with pytest.raises(Fault, match=r"of source .* out of bounds|of source that nothing wrote"):
            shrunk(on_device(launches, images_of("uint8"))).compute()


class _Wide(np.ndarray[Any, Any]):
    """Records whose strides are three elements longer than what is put into them."""

    def __setitem__(self, name: Any, value: Any) -> None:
        super().__setitem__(name, value + 3 if name == "stride" else value)
