"""The parts of the proof on a GPU, each from end to end on the stand-in: what they measure there means nothing."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from bench.gpu import agreement, hooks, jpeg, peers, sentinel
from bench.gpu.child import Context
from bench.gpu.decoders import KINDS
from bench.gpu.parts import PARTS

from .standin import Standin, installed
from .standin.bench import extended, leaving_out, photos
from .standin.work import Source, epoch, load, opened

pytestmark = pytest.mark.slow

_WITHOUT_ORDER = {"order", "video"}  # parts that take out what gives an order, to see whether that shows


@pytest.fixture(scope="module")
def whole() -> Iterator[Standin]:
    """One for all parts: what they have in common is made once."""
    with installed() as standin, extended(standin):
        yield standin


@pytest.fixture
def standin(whole: Standin) -> Standin:
    """Of which nothing bad is known."""
    del whole.problems[:]
    return whole


class Tried(Context):
    """A part's context with the stand-in's photos."""

    def photos(self, name: str, count: int) -> list[bytes]:
        """A few."""
        return photos(8)


def module_of(name: str) -> Any:
    return importlib.import_module(next(part.module for part in PARTS if part.name == name))


def run(name: str, out: Path, device: str = "cuda:0") -> dict[str, Any]:
    module_of(name).run(Tried(name, out, device, 120.0, True))
    found: dict[str, Any] = json.loads((out / "parts" / f"{name}.json").read_text())["results"]
    return found


@pytest.mark.parametrize("name", [part.name for part in PARTS])
def test_a_part_goes_through(standin: Standin, name: str, tmp_path: Path) -> None:
    found = run(name, tmp_path)
    _, lines = module_of(name).claims(found)
    assert lines
    assert all(isinstance(line, str) for line in lines)
    assert "skipped" not in found
    if name not in _WITHOUT_ORDER:
        assert standin.problems == []
    check = LOOKED_AT.get(name)
    if check is not None:
        check(found)


# -- what some of them must have seen ----------------------------------------------------------------------------------


def _probe(found: dict[str, Any]) -> None:
    status = {name: check["status"] for name, check in found["checks"].items()}
    # The stand-in's kernels compute nothing, and neither torch nor JAX knows it.
    assert status == {
        "allocate": "ok", "nvrtc": "broken", "kernel": "broken", "nvimgcodec": "ok", "torch": "absent", "jax": "absent"
    }  # fmt: skip
    assert "32 threads added 7 each, that gave 0; CuPy compiles" in found["checks"]["nvrtc"]["why"]


def _warm(found: dict[str, Any]) -> None:
    assert found["capability"] == "9.0"
    assert "error" not in found["processes"]["a kernel"]


def _order(found: dict[str, Any]) -> None:
    assert list(found["decoders"]) == list(KINDS)
    assert all(row["wrong_decodes"] == 0 for cases in found["decoders"].values() for row in cases.values())


def _sentinel(found: dict[str, Any]) -> None:
    assert list(found["decoders"]) == [*KINDS, sentinel.OURS]
    for row in found["decoders"].values():
        assert row["images"] >= 8
        assert row["unwritten"] == row["partly written"] == row["wrong"] == row["not decoded"] == 0


def _peers(found: dict[str, Any]) -> None:
    assert found["works"]["train"][peers.OURS]["images_per_second"] > 0
    assert "torchvision-gpu, train" in found["not run"]


def _video(found: dict[str, Any]) -> None:
    for row in found["frames"].values():
        assert row["frames"] == 24
        assert row["wrong frames"] == row["clips_on_cpu"] == 0
    assert set(found["opening"]["h264"]) == {"cpu", "cuda:0"}
    assert found["rates"]["hevc, 10 bits, 4 at once"]["images_per_second"] > 0
    assert found["memory"]["last"]["opens"] == 3


LOOKED_AT: dict[str, Callable[[dict[str, Any]], None]] = {
    "probe": _probe, "warm": _warm, "order": _order, "sentinel": _sentinel, "peers": _peers,
    "video": _video,
}  # fmt: skip


# -- what they must find -----------------------------------------------------------------------------------------------


def test_images_that_are_not_written_are_counted(standin: Standin, tmp_path: Path) -> None:
    with leaving_out(4):
        found = run("sentinel", tmp_path)
    for row in found["decoders"].values():
        assert 0.2 * row["images"] <= row["unwritten"] <= 0.3 * row["images"]
    problems, _ = sentinel.claims(found)
    assert len(problems) == len(KINDS) + 1


def test_what_is_kept_of_a_mark_is_counted_once() -> None:
    mark = np.full((5, 3, 8), 77, np.uint8)
    expected = np.full((5, 3, 8), 100, np.int16)
    seen = np.full((5, 3, 8), 101, np.uint8)
    seen[1] = mark[1]  # nobody wrote it
    seen[2, 2] = mark[2, 2]  # but for its last row
    seen[3] = 200  # somebody else's
    seen[4] = 0
    done = np.array([True, True, True, True, False])
    found = sentinel.counted(seen, mark, expected, done)
    assert found == {"images": 5, "not decoded": 1, "unwritten": 1, "partly written": 1, "wrong": 1}


def test_the_wait_for_an_arena_gives_an_order(standin: Standin) -> None:
    def work() -> None:
        with hooks.new_runtime(), standin.stream():
            for _ in range(3):
                standin.use(gi.resize(opened([(30, 30)] * 3), (8, 8)).array())
            epoch(standin, load(Source(24), None, decoders=1))

    work()
    assert standin.problems == []
    with hooks.without_arena_wait():
        work()
    assert standin.problems != []


# -- on the CPU, where results mean something --------------------------------------------------------------------------


def test_functions_agree_with_themselves(tmp_path: Path) -> None:
    found = run("agreement", tmp_path, "cpu")
    assert max(row["largest_difference"] for row in found["functions"].values()) == 0.0
    assert not any(row["errors"] for row in found["functions"].values())
    assert agreement.claims(found)[0] == []


def test_segments_decode_as_without(tmp_path: Path) -> None:
    found = run("jpeg", tmp_path, "cpu")
    assert found["pixels"]["values"] > 0
    assert found["pixels"]["whole images"] == found["pixels"]["crops"] == 0
    assert all(row["images_per_second"] > 0 for row in found["rates"].values())
    assert jpeg.claims(found)[0] == []
