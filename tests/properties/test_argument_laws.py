"""Laws of arguments: the forms in which the same parameters can be passed mean the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import gpuimg as gi

from ..compare import assert_same
from . import strategies

Form = Callable[[Any, Any], gi.Batch]  # of the images and the argument
#: Functions of two numbers for each image, what one number stands for, and the range of the numbers.
PAIRS: dict[str, tuple[Form, Callable[[Any], tuple[Any, Any]] | None, tuple[int, int]]] = {
    "gaussian_blur size": (lambda x, v: gi.gaussian_blur(gi.pad(x, 3), v), lambda one: (one, one), (0, 2)),
    "gaussian_blur sigma": (lambda x, v: gi.gaussian_blur(gi.pad(x, 3), 5, v), lambda one: (one, one), (1, 4)),
    "center_crop": (gi.center_crop, lambda one: (one, one), (1, 40)),
    "pad": (gi.pad, lambda one: (one, one), (0, 9)),
    "resize": (gi.resize, None, (1, 40)),  # one number is the shorter side
    "random_crop": (lambda x, v: gi.random_crop(gi.resize(x, (33, 31)), v, rng=1), lambda one: (one, one), (1, 31)),
    "translate": (lambda x, v: gi.affine(x, 10, v, 1, 0, "bilinear"), None, (-9, 9)),
    "shear": (lambda x, v: gi.affine(x, 10, (0, 0), 1, v, "bilinear"), lambda one: (one, 0), (-40, 40)),
    "center": (lambda x, v: gi.rotate(x, 10, "bilinear", center=v), None, (-9, 40)),
}
names = st.sampled_from(sorted(PAIRS))


def numbers(data: st.DataObject, name: str, shape: tuple[int, ...]) -> NDArray[np.int64]:
    low, high = PAIRS[name][2]
    drawn: NDArray[np.int64] = np.random.default_rng(data.draw(st.integers(0, 2**32))).integers(low, high + 1, shape)
    return 2 * drawn + 1 if name == "gaussian_blur size" else drawn


def same(one: gi.Batch, other: gi.Batch) -> None:
    assert_same(list(one.compute("float32")), list(other.compute("float32")))


@given(st.data(), names, strategies.ragged())
def test_pair_is_its_array(data: st.DataObject, name: str, images: list[NDArray[Any]]) -> None:
    call, n = PAIRS[name][0], len(images)
    rows = numbers(data, name, (n, 2))
    same(call(images, (rows[:, 0], rows[:, 1])), call(images, rows))
    first, second = rows[0].tolist()
    pair = data.draw(st.sampled_from([(first, second), [first, second], (np.full(n, first), second)]))
    same(call(images, pair), call(images, np.tile([first, second], (n, 1))))


@given(st.data(), names, strategies.ragged())
def test_one_number_stands_for_two(data: st.DataObject, name: str, images: list[NDArray[Any]]) -> None:
    call, both, _ = PAIRS[name]
    one = int(numbers(data, name, ()))
    if both is not None:
        same(call(images, one), call(images, both(one)))
    if name not in ("translate", "center"):
        # torchvision's shear of one number is along x, and of a sequence of one along both.
        same(call(images, [one]), call(images, (one, one) if name == "shear" else one))
        same(call(images, (one,)), call(images, [one]))
