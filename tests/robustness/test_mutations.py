"""A sample of the damaged files, and that the checks can fail; all of them: ``python -m tests.robustness.soak``."""

import ctypes
import functools
import hashlib
import io
import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

import gpuimg as gi
from gpuimg._data.images import EncodedImages
from gpuimg._runtimes import cpu_call

from ..jpegs import is_baseline
from . import check, images, last_words, mutate, originals, soak

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
    assert made.hexdigest()[:16] == "d3b5db43b41789fd"


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


@pytest.mark.parametrize("name", originals.originals())
def test_what_our_decoder_takes(name: str) -> None:
    assert is_baseline(originals.originals()[name]) == originals.is_baseline(name)


@pytest.mark.parametrize("name", ["4:2:0", "gray", "restart rows"])
def test_what_pillow_is_given_instead(name: str) -> None:
    data = originals.originals()[name]
    whole = check.expected(data, "rgb").pixels
    assert whole is not None
    broken_exif = mutate.segment(mutate.APP1, b"Exif\0\0MM\0*\0\0\0\0")
    for change in (data[:-2], data[:-1], data + data, data[:2] + broken_exif + data[2:-2]):
        found = check.expected(change, "rgb")
        np.testing.assert_array_equal(found.pixels, whole)


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


Work = Callable[[cpu_call.Call, Any, Any], None]
held: list[Any] = []


def placed(call: cpu_call.Call, i: int) -> tuple[int, int]:
    """Address and bytes of a result."""
    image = call._images[i]
    return int(image["out"]), int(image["out_bytes"])


def is_fault(call: cpu_call.Call) -> bool:
    """Not of the references, and once."""
    was = getattr(call, "planted", False)
    call.planted = True  # type: ignore[attr-defined]  # for this
    return isinstance(call._source, EncodedImages) and len(call._images) > check.EVERY and not was


def changed(call: cpu_call.Call, i: int) -> None:
    """Another first value."""
    value = ctypes.c_uint8.from_address(placed(call, i)[0])
    value.value ^= 1


def other_pixels(real: Work, call: cpu_call.Call, scratch: Any, python: Any) -> None:
    real(call, scratch, python)
    planted = is_fault(call)
    for i in range(len(call._images)):
        if planted and not call._statuses["result"][i] and placed(call, i)[1]:
            changed(call, i)


def one_neighbour(real: Work, call: cpu_call.Call, scratch: Any, python: Any) -> None:
    real(call, scratch, python)
    if is_fault(call):
        changed(call, INTACT)


def no_reason(real: Work, call: cpu_call.Call, scratch: Any, python: Any) -> None:
    real(call, scratch, python)
    call.failures.update(dict.fromkeys(call.failures, ""))


def not_black(real: Work, call: cpu_call.Call, scratch: Any, python: Any) -> None:
    real(call, scratch, python)
    for i in call.failures:
        changed(call, i)


def behind_a_result(real: Work, call: cpu_call.Call, scratch: Any, python: Any) -> None:
    real(call, scratch, python)
    if is_fault(call):
        ctypes.memset(sum(placed(call, len(call._images) - 1)) + 200, 1, 1)


def before_scratch(real: Work, call: cpu_call.Call, scratch: Any, python: Any) -> None:
    real(call, scratch, python)
    if is_fault(call):
        ctypes.memset(scratch.tables.ctypes.data - 1, 1, 1)


def unset_memory(real: Work, call: cpu_call.Call, scratch: Any, python: Any) -> None:
    """Scratch in a result."""
    real(call, scratch, python)
    if is_fault(call):
        address, size = placed(call, INTACT)
        ctypes.memmove(address, scratch.flat("work", size, np.uint8).ctypes.data, size)


def says_something(real: Work, call: cpu_call.Call, scratch: Any, python: Any) -> None:
    if is_fault(call):
        os.write(2, b"a library's line\n")
    real(call, scratch, python)


def keeps_a_descriptor(real: Work, call: cpu_call.Call, scratch: Any, python: Any) -> None:
    held.append(os.fdopen(os.dup(1)))
    real(call, scratch, python)


def keeps_a_thread(real: Work, call: cpu_call.Call, scratch: Any, python: Any) -> None:
    end = threading.Event()
    threading.Thread(target=end.wait, daemon=True).start()
    held.append(end)
    real(call, scratch, python)


def raises(real: Work, call: cpu_call.Call, scratch: Any, python: Any) -> None:
    raise KeyError(0)


def with_fault(call: cpu_call.Call, fault: Callable[..., None], real: Work, scratch: Any, python: Any) -> None:
    fault(real, call, scratch, python)


FAULTS = [
    (other_pixels, "pixels"), (one_neighbour, "neighbour"), (unset_memory, "neighbour"), (no_reason, "reason"),
    (not_black, "black"), (behind_a_result, "memory"), (before_scratch, "memory"), (says_something, "stderr"),
    (keeps_a_descriptor, "descriptors"), (keeps_a_thread, "threads"), (raises, "exception"),
]  # fmt: skip


def test_rules_hold_without_a_fault(checker: check.Checker) -> None:
    assert checker.check(range(check.BATCH - check.EVERY)).findings == []


@pytest.mark.parametrize(("fault", "rule"), FAULTS, ids=lambda value: getattr(value, "__name__", value))
def test_a_planted_fault_is_found(
    fault: Callable[..., None], rule: str, checker: check.Checker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUIMG_NUM_THREADS", "1")  # else a fault might be there once a thread
    monkeypatch.setattr(cpu_call.Call, "work", functools.partialmethod(with_fault, fault, cpu_call.Call.work))
    try:
        findings = checker.check(range(check.BATCH - check.EVERY)).findings
    finally:
        for thing in held:
            (thing.close if hasattr(thing, "close") else thing.set)()
        held.clear()
    assert rule in {finding.rule for finding in findings}


# -- last words ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("way", last_words.WAYS)
def test_last_words_arrive_while_a_loader_runs(way: str) -> None:
    assert last_words.problem(way) == ""


def test_last_words_that_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(last_words.WAYS, "exit", ("os.close(2)\nos._exit(1)", "my last words\n"))
    assert last_words.problem("exit") == "'' and not 'my last words\\n'"
