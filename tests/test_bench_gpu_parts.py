"""The parts of the proof on a GPU, each from end to end on the stand-in: what they measure there means nothing."""

from __future__ import annotations

import importlib
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from bench.gpu import agreement, hooks, jpeg, peers, sentinel, targets
from bench.gpu.decoders import KINDS
from bench.gpu.parts import PARTS

from .jpegs import noise
from .standin import Standin, installed
from .standin.bench import Tried, extended, leaving_out, photos
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
    (rows,) = found["works"].values()
    ours = [name for name in peers.PEERS if name.startswith("gpuimg")]
    assert list(rows) == ours
    assert len(ours) == 4
    for row in rows.values():
        assert row["images_per_second"] > 0
        assert row["launches_a_batch"] >= 1
        assert row["on_the_cpu"] == 0
    assert {"torchvision-gpu, train, batch 8", "dali-mixed, train, batch 8"} == set(found["not run"])


def _throughput(found: dict[str, Any]) -> None:
    rows = found["S, train"]
    # Our own kernels' five launches, without an index, and the transform; nvImageCodec's marks.
    assert rows["gpuimg, functions"]["launches_a_batch"] == 5
    assert rows[targets.DECODE_BATCH]["launches_a_batch"] == 4
    assert rows[targets.BY_NVIMAGECODEC]["launches_a_batch"] == 2
    assert all(row["on_the_cpu"] == 0 for row in rows.values())
    (indexed,) = (row for name, row in rows.items() if name.startswith("gpuimg.load, index, "))
    assert indexed["images_per_second"] > 0


def _jpeg(found: dict[str, Any]) -> None:
    rates = found["rates"]
    assert rates["bytes to whole images, batch 8"]["launches_a_batch"] == 3
    assert rates[f"bytes to whole images{targets.WITHOUT_INDEX}, batch 8"]["launches_a_batch"] == 4
    assert rates[f"{targets.PYTHON}{targets.WITHOUT_INDEX}, batch 8"]["microseconds_an_image"] > 0


def _video(found: dict[str, Any]) -> None:
    for row in found["frames"].values():
        assert row["frames"] == 24
        assert row["wrong frames"] == row["clips_on_cpu"] == 0
    assert set(found["opening"]["h264"]) == {"cpu", "cuda:0"}
    assert found["rates"]["hevc, 10 bits, 4 at once"]["images_per_second"] > 0
    assert found["memory"]["last"]["opens"] == 3


LOOKED_AT: dict[str, Callable[[dict[str, Any]], None]] = {
    "probe": _probe, "warm": _warm, "order": _order, "sentinel": _sentinel, "peers": _peers,
    "throughput": _throughput, "jpeg": _jpeg, "video": _video,
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


def test_launches_and_images_on_the_cpu_are_counted(standin: Standin) -> None:
    """As the stand-in's driver saw them, on all threads; two of each batch are no JPEGs."""
    pngs = [png(noise(30, 40, k)) for k in range(2)]
    files = photos(6)
    before = len(standin.order.of("launch", "marks"))
    with hooks.counted() as counts:
        gi.resize(gi.open_batch([*files, *pngs], device="cuda:0"), (8, 8)).array()
        for batch in gi.load([(data, 0) for data in [*files, *pngs]], batched(8), batch_size=8, device="cuda:0"):
            assert len(batch.images) == 8
    assert counts.launches == len(standin.order.of("launch", "marks")) - before > 0
    assert counts.on_the_cpu == 4
    gi.resize(gi.open_batch(files, device="cuda:0"), (8, 8)).array()
    assert counts.on_the_cpu == 4


def batched(size: int) -> Callable[[Any, Any], Any]:
    return lambda x, rng: gi.resize(x, (size, size))


def png(image: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


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
