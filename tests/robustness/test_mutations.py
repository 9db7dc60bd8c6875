"""A sample of the damaged files, and that the checks can fail; all of them: ``python -m tests.robustness.soak``."""

import functools
import hashlib
import io
import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

import gpuimg as gi
from gpuimg._runtimes import cpu

from . import check, children, images, mutate, originals, soak

SAMPLE = 3024  # 54 batches
INTACT = check.EVERY // 2  # place of the first intact file of a batch


@pytest.fixture(scope="module")
def checker() -> Iterator[check.Checker]:
    made = check.Checker()
    yield made
    made.close()


# -- the mutator --------------------------------------------------------------------------------------------------


def plain_jpeg() -> bytes:
    """The segments of a JPEG without the help of an encoder, whose version would change the bytes."""
    frame = bytes((8, 0, 16, 0, 16, 3, 1, 0x22, 0, 2, 0x11, 1, 3, 0x11, 1))
    parts = [
        b"\xff\xd8", mutate.segment(mutate.DQT, bytes(65)), mutate.segment(0xC0, frame),
        mutate.segment(mutate.DHT, bytes(29)), mutate.segment(mutate.SOS, bytes((3, 1, 0, 2, 17, 3, 17, 0, 63, 0))),
        bytes(range(200)), b"\xff\xd9",
    ]  # fmt: skip
    return b"".join(parts)


def test_a_seed_gives_the_same_bytes_everywhere() -> None:
    files = {"a": plain_jpeg(), "b": plain_jpeg()[::-1], "c": plain_jpeg()}
    made = hashlib.sha256()
    for seed in range(3000):
        data, words = mutate.mutation(seed, files)
        made.update(data + words.encode())
    assert made.hexdigest()[:16] == "b68f245eccd23946"


def test_seeds_differ_and_every_kind_appears() -> None:
    made = [mutate.mutation(seed) for seed in range(SAMPLE)]
    kinds = Counter(kind for _, words in made for kind in mutate.kinds_of(words))
    assert set(kinds) == set(mutate.KINDS)
    assert min(kinds.values()) >= 10
    assert len({data for data, _ in made}) > 0.9 * SAMPLE
    intact = set(originals.originals().values())
    assert sum(data in intact for data, _ in made) < 0.05 * SAMPLE


@pytest.mark.parametrize("name", originals.originals())
def test_segments_join_to_the_file(name: str) -> None:
    data = originals.originals()[name]
    pieces = mutate.segments(data)
    assert b"".join(pieces) == data
    assert pieces[0] == b"\xff\xd8"
    assert pieces[-1] == b"\xff\xd9"
    assert all(piece[0] == 0xFF for piece in pieces)


@pytest.mark.parametrize("value", range(1, 9))
def test_turning_is_what_pillow_does(value: int) -> None:
    image = originals.picture(7, 11, value)
    data = originals.jpeg(image, orientation=value)
    stored = np.asarray(Image.open(io.BytesIO(data)))
    upright = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))))
    np.testing.assert_array_equal(check.turned(stored, value), upright)
    x0, y0, x1, y1 = check.stored_region((2, 1, 5, 6), value, 7, 11)
    np.testing.assert_array_equal(check.turned(stored[y0:y1, x0:x1], value), upright[1:6, 2:5])


@pytest.mark.parametrize("name", originals.originals())
@pytest.mark.parametrize("color", ["rgb", "gray"])
def test_reference_turns_intact_files_as_nvimagecodec_does(name: str, color: str) -> None:
    data, alone = originals.originals()[name], check.Alone()
    expected = alone.pixels(data, color, apply=True)
    assert expected is not None
    pixels = alone.pixels(data, color)
    assert pixels is not None
    np.testing.assert_array_equal(pixels, expected)


# -- the rules ----------------------------------------------------------------------------------------------------


def test_rules_hold_for_a_sample(tmp_path: Path) -> None:
    """In a child, so that a crash is a failed test; with a stop in between."""
    state = tmp_path / "state.json"
    for count in (1000, SAMPLE):  # in the middle of a batch
        run = soak.Soak(tmp_path, state)
        run.run("mutations", count)
        run.save()
    result = json.loads((tmp_path / "robustness.json").read_text())
    assert result["good"], json.dumps(
        {k: result[k] for k in ("broken_rules", "findings", "crashes", "hangs")}, indent=1
    )
    assert result["counts"]["mutations"] == SAMPLE
    for way in ("whole", "crop"):
        outcomes = result["outcomes"][way]
        assert sum(outcomes.values()) == SAMPLE
        assert outcomes["decoded"] > SAMPLE // 4
        assert outcomes["refused"] > SAMPLE // 8


def test_rules_hold_for_photos_with_damaged_ones_among_them() -> None:
    ways = [images.batches, *([images.loader] if hasattr(gi, "load") else [])]
    for way in ways:
        counts: Counter[str] = Counter()
        for _, _, found, findings in way(0, 640):
            counts.update(found)
            assert not findings
        assert sum(counts.values()) == 640
        assert counts[f"{way.__name__}: intact"] > 600


Decode = Callable[[Any, int, Any, Any, Any], str | None]
held: list[Any] = []


def other_pixels(real: Decode, files: Any, i: int, scratch: Any, out: Any, region: Any) -> str | None:
    reason = real(files, i, scratch, out, region)
    if reason is None and files.on_error == "fill":
        out[0, 0] ^= 1
    return reason


def one_neighbour(real: Decode, files: Any, i: int, scratch: Any, out: Any, region: Any) -> str | None:
    reason = real(files, i, scratch, out, region)
    if i == INTACT and files.on_error == "fill":
        out[-1, -1] ^= 1
    return reason


def no_reason(real: Decode, files: Any, i: int, scratch: Any, out: Any, region: Any) -> str | None:
    return real(files, i, scratch, out, region) and ""


def not_black(real: Decode, files: Any, i: int, scratch: Any, out: Any, region: Any) -> str | None:
    reason = real(files, i, scratch, out, region)
    if reason is not None:
        out[:] = 7
    return reason


def says_something(real: Decode, files: Any, i: int, scratch: Any, out: Any, region: Any) -> str | None:
    if i == INTACT:
        os.write(2, b"a library's line\n")
    return real(files, i, scratch, out, region)


def keeps_a_descriptor(real: Decode, files: Any, i: int, scratch: Any, out: Any, region: Any) -> str | None:
    if i == INTACT:
        held.append(os.fdopen(os.dup(1)))
    return real(files, i, scratch, out, region)


def keeps_a_thread(real: Decode, files: Any, i: int, scratch: Any, out: Any, region: Any) -> str | None:
    if i == INTACT:
        end = threading.Event()
        threading.Thread(target=end.wait, daemon=True).start()
        held.append(end)
    return real(files, i, scratch, out, region)


def raises(real: Decode, files: Any, i: int, scratch: Any, out: Any, region: Any) -> str | None:
    raise KeyError(i)


FAULTS = {
    "pixels": other_pixels, "neighbour": one_neighbour, "reason": no_reason, "black": not_black,
    "stderr": says_something, "descriptors": keeps_a_descriptor, "threads": keeps_a_thread, "exception": raises,
}  # fmt: skip


def test_rules_hold_without_a_fault(checker: check.Checker) -> None:
    assert checker.check(range(check.BATCH - check.EVERY)).findings == []


@pytest.mark.parametrize("rule", FAULTS)
def test_a_planted_fault_is_found(rule: str, checker: check.Checker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_decode", functools.partial(FAULTS[rule], cpu._decode))
    try:
        findings = checker.check(range(check.BATCH - check.EVERY)).findings
    finally:
        for thing in held:
            (thing.close if hasattr(thing, "close") else thing.set)()
        held.clear()
    assert rule in {finding.rule for finding in findings}


# -- children -----------------------------------------------------------------------------------------------------

CRASHING = """
import os, signal
from tests.robustness import check, soak
real = check.Checker.check
def planted(self, seeds):
    self._phase("gpuimg")
    if 70 in seeds:
        os.kill(os.getpid(), signal.SIGSEGV)
    return real(self, seeds)
check.Checker.check = planted
soak.main()
"""


def test_a_crash_is_laid_to_its_seed_and_the_run_goes_on(tmp_path: Path) -> None:
    command = (sys.executable, "-c", CRASHING)
    run = soak.Soak(tmp_path, tmp_path / "state.json", run=functools.partial(children.events, command=command))
    run.run("mutations", 3 * soak.DAMAGED)
    totals = run.totals
    (crash,) = totals.crashes
    assert crash["seed"] == 70
    assert crash["phase"] == "gpuimg"
    assert "SIGSEGV" in crash["how"]
    assert crash["mutation"] == mutate.mutation(70)[1]
    assert "planted" in crash["last_words"]
    assert totals.broken["crash"] == 1
    assert totals.next["mutations"] == 3 * soak.DAMAGED
    assert sum(n for name, n in totals.outcomes.items() if "| whole |" in name) == 3 * soak.DAMAGED - 1


@pytest.mark.parametrize(
    ("program", "how"),
    [
        ("import time; print('{}', flush=True); time.sleep(60)", "no progress"),
        ("print('{}', flush=True); raise SystemExit(3)", "exit status 3"),
        ("import os; print('{}', flush=True); os.abort()", "SIGABRT"),
    ],
)
def test_a_child_that_dies_or_hangs(program: str, how: str) -> None:
    said: list[children.Event] = []
    with pytest.raises(children.Dead, match=how):
        said.extend(children.events([], command=(sys.executable, "-c", program), timeout=2.0))
    assert said == [{}]


@pytest.mark.parametrize(("step", "lost", "growth"), [(0, 0, 0), (56, 0, 10_000), (56, 56, 0)])
def test_growth_of_memory(step: int, lost: int, growth: int) -> None:
    memory = soak.Memory("mutations", 0)
    for k in range(1, 180):
        kib = 100_000 - (5000 if k < 40 else 0) + step * k  # still growing to its full size at first
        memory.samples.append((56 * k, kib + 7, kib, lost * k))
    summary = memory.summary()
    assert summary is not None
    assert summary["growth_kib_per_10000"] == {"resident": step and 10_000, "heap": growth}
