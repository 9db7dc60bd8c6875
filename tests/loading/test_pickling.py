"""Pickles and copies of batches and loaders."""

import copy
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import gpuimg as gi
from tests.data_sets import CORRUPT, FILES, Source, cpu
from tests.fakecuda import FakeGpu
from tests.fakecuda.work import opened

from ..processes import python


@numba.njit
def dim(r: Any, g: Any, b: Any, y: Any, x: Any, value: Any) -> Any:
    return r * value, g * value, b * value


def files(**options: Any) -> gi.Batch:
    return gi.open_batch(FILES[:3], device="cpu", **options)


ARRAYS = [np.random.default_rng(k).integers(0, 256, (6 + k, 9, 3), np.uint8) for k in range(3)]
BATCHES: dict[str, Callable[[], Any]] = {
    "gray files": lambda: files(color="gray"), "draft": lambda: gi.resize(files(draft=1.0), (8, 9)),
    "recorded": lambda: gi.normalize(gi.rotate(gi.resize(files(), (8, 9)), [10, 20, 30]), 0.5, 0.2),
    "two passes": lambda: gi.resize(gi.gaussian_blur(gi.resize(files(), (9, 9)), 3, 1.0), (7, 5)),
    "user function": lambda: gi.pointwise(gi.resize(files(), (8, 8)), dim, [0.1, 0.5, 1.0]),
    "decoded": lambda: gi.decode_batch(FILES[:3], device="cpu"), "arrays": lambda: gi.horizontal_flip(ARRAYS),
    "buffers": lambda: gi.open_batch([bytearray(FILES[0]), memoryview(FILES[1])], device="cpu"),
    "computed": lambda: gi.resize(files(), (8, 8)).compute("float16", "NCHW"),
    "of a loader": lambda: next(cpu(Source(4), None)).images, "none": lambda: gi.open_batch([], device="cpu"),
}  # fmt: skip


@pytest.mark.parametrize("make", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("again", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
@pytest.mark.parametrize("ran", [False, True])
def test_the_same_pixels(make: Callable[[], gi.Batch], again: Any, ran: bool) -> None:
    """Before and after it ran."""
    batch = make()
    expected = list(batch)
    if not ran:
        batch = make()
    other = again(batch)
    assert repr(other) == repr(batch)
    for image, wanted in zip(other, expected, strict=True):
        assert image.dtype == wanted.dtype
        np.testing.assert_array_equal(image, wanted)
        assert not np.shares_memory(image, wanted)


@pytest.mark.slow
def test_in_another_process(tmp_path: Path) -> None:
    batch = BATCHES["user function"]()
    (tmp_path / "batch").write_bytes(pickle.dumps(batch))
    code = "import pickle, sys, numpy\nnumpy.save(sys.argv[2], pickle.load(open(sys.argv[1], 'rb')).array())"
    python("-c", code, tmp_path / "batch", tmp_path / "pixels.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "pixels.npy"), batch.array())


def test_failures_are_kept() -> None:
    batch = gi.open_batch([FILES[0], b"", CORRUPT], device="cpu", on_error="fill")
    before = pickle.loads(pickle.dumps(batch))
    assert before.errors == batch.errors
    batch.compute()
    before.compute()
    after = pickle.loads(pickle.dumps(batch))
    assert after.status == before.status == batch.status
    assert not after[1].any()


def test_deep_copies_are_independent_and_copies_the_same() -> None:
    images = np.full((1, 4, 4, 3), 7, np.uint8)
    batch = gi.horizontal_flip(images)
    deep = copy.deepcopy(batch)
    assert copy.copy(batch) is batch
    images[:] = 9
    assert np.all(deep.array() == 7)
    assert deep.array().ctypes.data % 64 == 0


def test_a_function_that_cannot_be_pickled_is_named() -> None:
    lock = threading.Lock()

    @numba.njit
    def locked(r: Any, g: Any, b: Any, y: Any, x: Any, value: Any) -> Any:
        return r, g, lock

    batch = gi.pointwise(files(), locked, 0.0)
    with pytest.raises(TypeError, match=r"locked, passed to pointwise, refers to an object that cannot be: .*lock"):
        pickle.dumps(batch)
    assert len(copy.deepcopy(batch)) == 3


def test_on_a_gpu_it_is_refused(gpu: FakeGpu) -> None:
    for batch in (opened(), gi.resize(opened(), (8, 8)).compute()):
        with pytest.raises(TypeError, match=r"on cuda:0 cannot be pickled; .* cupy\.asnumpy\(batch\.array\(\)\)"):
            pickle.dumps(batch)
        assert copy.deepcopy(batch).device == "cuda:0"


def test_a_loader_names_its_state() -> None:
    for again in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"cannot be pickled or copied.* pickle loader\.state_dict\(\)"):
            again(cpu(Source(4)))
