"""Results: dtypes to the bit, layouts, arrays of the caller, batches of several sizes."""

import threading
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gpuimg as gi

from ..compare import assert_same, counting
from ..libraries import library
from ..processes import python
from ..samples import image, images, kinds
from ..watchdog import on_threads

ml_dtypes = library("ml_dtypes")

layouts = pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
NUMPY = {name: np.dtype(name) for name in ("uint8", "float16", "float32")} | {"bfloat16": np.dtype(ml_dtypes.bfloat16)}


def recorded(dtype: str, channels: int, seed: int = 0) -> gi.Batch:
    """Seven images of one size, with values beyond 0 and 1."""
    rng = np.random.default_rng(seed)
    x = gi.resize(np.stack([image(rng, 19, 14, channels, dtype) for _ in range(7)]), (23, 9), "bicubic")
    return gi.rotate(x, rng.uniform(-40, 40, 7), "bilinear")


def bits(array: NDArray[Any]) -> NDArray[Any]:
    return array.view(f"u{array.itemsize}")


@kinds
@layouts
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_short_floats_are_float32_rounded_to_even(name: str, layout: str, dtype: str, channels: int) -> None:
    for x in (recorded(dtype, channels), gi.normalize(recorded(dtype, channels), 0.45, 1e-3)):
        expected = x.array("float32", layout).astype(NUMPY[name])
        np.testing.assert_array_equal(bits(x.array(name, layout)), bits(expected))


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_short_floats_of_every_kind_of_number(name: str) -> None:
    rng = np.random.default_rng(1)
    random = rng.integers(0, 2**32, 200_000, np.uint32).view(np.float32)
    edges = np.array([0, 1, 65504, 65519.996, 65520, 3.4e38, 6e-8, 2.98e-8, 5.97e-8, 6.1e-5, 1e-45], np.float32)
    with np.errstate(invalid="ignore"):  # of signaling NaN, which processors differ in
        halves = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32)
    finite = halves[np.isfinite(halves)]
    ties = np.float32(0.5) * (finite[1:] + finite[:-1])
    numbers = np.concatenate([random, edges, -edges, halves, ties, np.array([np.nan], np.float32)])
    numbers = numbers[~np.isinf(numbers)]
    x = gi.horizontal_flip(numbers.reshape(1, 1, -1, 1))
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_array_equal(x.array("float32").ravel(), numbers[::-1])
        expected = x.array("float32").ravel().astype(NUMPY[name])
    result = x.array(name).ravel()
    nan = np.isnan(expected.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(result.astype(np.float32)), nan)
    np.testing.assert_array_equal(bits(result)[~nan], bits(expected)[~nan])


@kinds
@layouts
def test_bytes_are_rounded_once(layout: str, dtype: str, channels: int) -> None:
    x = recorded(dtype, channels)
    expected = np.clip(x.array("float32", layout).astype(np.float64), 0, 1) * 255
    result = x.array("uint8", layout)
    assert result.dtype == np.uint8
    assert np.abs(result - expected).max() <= 0.5 + 1e-3


@kinds
@layouts
@pytest.mark.parametrize("name", NUMPY)
def test_out(name: str, layout: str, dtype: str, channels: int) -> None:
    expected = recorded(dtype, channels).array(name)
    expected = expected if layout == "NHWC" else np.ascontiguousarray(expected.transpose(0, 3, 1, 2))
    memory = np.full(expected.size + 2, 77, NUMPY[name])
    out = memory[1:-1].reshape(expected.shape)
    x = recorded(dtype, channels)
    assert x.array(layout=layout, out=out) is out
    np.testing.assert_array_equal(bits(out), bits(expected))
    assert memory[0] == memory[-1] == 77
    assert x.array(name, layout, out=out) is out
    # The batch's own result is another array, which later writing to out does not change.
    kept = x.array(name, layout)
    out[:] = 0
    np.testing.assert_array_equal(bits(kept), bits(expected))


SOURCE, LOCKED = np.zeros((2, 3, 4, 5, 3), np.uint8)
LOCKED.flags.writeable = False


@pytest.mark.parametrize(
    ("out", "options", "message"),
    [
        (np.zeros((2, 4, 5, 3), np.uint8), {}, r"out must have shape \(3, 4, 5, 3\), not \(2, 4, 5, 3\)"),
        (np.zeros((3, 4, 5, 3), np.uint8), {"layout": "NCHW"}, r"out must have shape \(3, 3, 4, 5\), not"),
        (np.zeros((3, 4, 5, 3), ">f4"), {}, "out must be in the machine's byte order, not '>f4'"),
        (np.zeros((3, 4, 5, 6), np.uint8)[..., ::2], {}, "out must be C-contiguous"),
        ([[0]], {}, "out must be an array on cpu, as the batch, not list"),
        (SOURCE, {}, "out must not overlap the images it is computed from"),
        (LOCKED, {}, "out must be writable"),
    ],
)
def test_out_that_does_not_fit_is_refused(out: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gi.invert(SOURCE).array(out=out, **options)
    assert not SOURCE.any()


@kinds
@layouts
@pytest.mark.parametrize("name", NUMPY)
def test_ragged_results_are_views_of_one_buffer(name: str, layout: str, dtype: str, channels: int) -> None:
    pictures = images(np.random.default_rng(2), dtype, channels, 13)
    x = gi.normalize(gi.horizontal_flip(pictures), 0, 1) if name != "uint8" else gi.horizontal_flip(pictures)
    x = x.compute(name, layout)
    flipped = [gi.horizontal_flip([picture]).array(name, layout)[0] for picture in pictures]
    assert_same(list(x), flipped)
    assert_same([x[i] for i in range(13)], flipped)
    bases = set()
    for base in x:
        while isinstance(base.base, np.ndarray):
            base = base.base
        bases.add(id(base))
    assert len(bases) == 1


def test_threads_share_one_result_of_each_kind() -> None:
    kinds = [("uint8", "NHWC"), ("float32", "NHWC"), ("float32", "NCHW")]
    batches, runtimes = zip(*[counting(recorded("uint8", 3)) for _ in range(10)], strict=True)
    found, begin = set(), threading.Barrier(6)

    def work() -> None:
        for x in batches:
            for name, layout in np.roll(kinds, begin.wait(), 0).tolist():
                found.add((id(x), name, layout, x.array(name, layout).ctypes.data))
                x.array(layout=layout, out=np.empty_like(x.array(name, layout)))

    on_threads(work, 6)
    assert (len(found), {runtime.runs for runtime in runtimes}) == (30, {3})


#: A signal handler requests the batch that it interrupts; then a forked child the one that a thread runs.
_MEANWHILE = """
import os, signal, threading, time, numpy as np, gpuimg as gi
blurred = lambda n: gi.gaussian_blur(np.full((n, 900, 900, 3), 7, np.uint8), 25, 9.0)
blurred(1).array()  # imports and compiles
x, y, inner = blurred(60), blurred(60), []
signal.signal(signal.SIGALRM, lambda *_: inner.append(x.array()))
signal.setitimer(signal.ITIMER_REAL, 0.1)
outer = x.array()
threading.Thread(target=y.array).start()
time.sleep(0.1)
child = os.fork()
signal.signal(signal.SIGALRM, signal.SIG_DFL)
signal.alarm(100)
assert (y.array() == 7).all()
child and print(all(one.base is outer.base for one in inner), os.waitpid(child, 0)[1])
"""


def test_a_batch_is_requested_while_it_runs() -> None:
    assert python("-W", "ignore", "-c", _MEANWHILE) == "True 0\n"


def test_going_on_from_results() -> None:
    levels = np.random.default_rng().integers(0, 256, (3, 4, 5, 3), np.uint8)
    nothing = gi.horizontal_flip(levels, where=[False] * 3)
    np.testing.assert_array_equal(nothing.array(layout="NCHW"), levels.transpose(0, 3, 1, 2))
    np.testing.assert_array_equal(nothing.array("float32"), levels * np.float32(1 / 255))
    pictures = images(np.random.default_rng(4), "uint8", 3, 13)
    half = gi.crop(pictures, 0, 0, [p.shape[0] for p in pictures], 3).compute()
    np.testing.assert_array_equal(gi.invert(half).compute()[7], 255 - half[7])
    assert gi.resize(half, (4, 4)).array().shape == (13, 4, 4, 3)
    x = gi.invert(np.zeros((1, 2, 2, 3), np.uint8)).compute(layout="NCHW")
    with pytest.raises(TypeError, match="cannot record operations on a uint8 NCHW result"):
        gi.invert(x).array()


def test_batch_is_an_array_and_a_sequence() -> None:
    x, runtime = counting(recorded("uint8", 3))
    for array in (x.array(), np.asarray(x), np.from_dlpack(x)):
        assert np.shares_memory(array, x.array())
    with pytest.raises(ValueError, match="needs a copy"):
        np.array(x, dtype=np.float32, copy=False)
    assert runtime.runs == 1
    assert (np.asarray(x).shape, np.asarray(x, np.float64).dtype) == ((7, 23, 9, 3), np.float64)
    assert not np.shares_memory(np.array(x, copy=True), x.array())
    assert (len(list(x)), len(x), x.status) == (7, 7, ["ok"] * 7)
    np.testing.assert_array_equal(x[-1], x[6])
    np.testing.assert_array_equal(x[1:3], x.array()[1:3])
    with pytest.raises(IndexError):
        x[7]


def test_other_dtypes_and_layouts_are_refused() -> None:
    x = gi.invert(np.zeros((1, 2, 2, 3), np.uint8))
    for fine in (np.float16, np.dtype("float16"), ml_dtypes.bfloat16):
        assert x.array(fine).dtype == fine
    for call in (x.array, x.compute):
        for given in ("float64", 3, float):
            with pytest.raises(ValueError, match=r"dtype must be one of 'float32', 'uint8', .*'uint16', not"):
                call(given)
        with pytest.raises(ValueError, match='layout must be "NHWC" or "NCHW", not \'HWC\''):
            call(layout="HWC")
    with pytest.raises(ValueError, match='normalized images do not fit "uint8"'):
        gi.normalize(x, 0.5, 0.5).array("uint8")
    x = gi.invert(images(np.random.default_rng(3), "uint8", 3, 4))
    for single in (x.array, lambda: np.asarray(x), lambda: x.array(out=np.zeros(3, np.uint8))):
        with pytest.raises(ValueError, match=r"differ in size \(image 0 is \(1, 1\), image 1 \(1, 9\)\)"):
            single()
