"""Results in the frameworks' own hands: the same memory, alive as long as it is used."""

import gc
import weakref
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from gpuimg.kernels.layout import DTYPES

from ..libraries import cases, needs


def batch(n: int = 3) -> gi.Batch:
    return gi.resize(np.random.default_rng().integers(0, 256, (n, 10, 12, 3), np.uint8), (6, 7))


# Conversion, address of the memory, and values.
FRAMEWORKS: dict[str, tuple[Any, Callable[[Any], int], Callable[[Any], Any]]] = {
    "torch": (gi.to_torch, lambda tensor: tensor.data_ptr(), lambda tensor: tensor.float().numpy()),
    "jax": (gi.to_jax, lambda array: array.unsafe_buffer_pointer(), lambda array: np.asarray(array).astype(np.float32)),
}


@cases("torch", "dtype", list(DTYPES))
@cases("torch", "layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_frameworks_share_the_memory(name: str, dtype: Any, layout: Any) -> None:
    """Which lives as long as their tensor."""
    needs(name)
    convert, address, values = FRAMEWORKS[name]
    x = batch()
    array = x.array(dtype, layout)
    expected, place = array.astype(np.float32), array.ctypes.data
    tensor = convert(x, dtype=dtype, layout=layout)
    assert str(tensor.dtype).removeprefix("torch.") == dtype
    assert address(tensor) == place
    while isinstance(array.base, np.ndarray):
        array = array.base
    alive = weakref.ref(array)
    del x, array
    gc.collect()
    assert alive() is not None
    np.testing.assert_array_equal(values(tensor), expected)
    del tensor
    gc.collect()
    assert alive() is None


def test_frameworks_own_functions_take_a_batch() -> None:
    needs("torch", "jax")
    torch, jax = import_module("torch"), import_module("jax")
    x = batch()
    assert torch.from_dlpack(x).data_ptr() == x.array().ctypes.data
    assert torch.from_dlpack(x.array()).shape == (3, 6, 7, 3)
    assert jax.dlpack.from_dlpack(x).unsafe_buffer_pointer() == x.array().ctypes.data


def test_unaligned_memory_is_refused_where_jax_would_copy() -> None:
    needs("jax")
    memory = np.zeros(2 * 4 * 4 * 3 + 65, np.uint8)
    start = -memory.ctypes.data % 64 + 1
    with pytest.raises(ValueError, match="without a copy"):
        gi.to_jax(memory[start : start + 96].reshape(2, 4, 4, 3))


def test_dlpack_options() -> None:
    x = batch()
    assert not hasattr(x, "__cuda_array_interface__")
    assert x.__dlpack_device__() == (1, 0)
    assert '"dltensor"' in repr(x.__dlpack__())
    assert '"dltensor_versioned"' in repr(x.__dlpack__(max_version=(1, 0)))
    assert '"dltensor_versioned"' in repr(x.__dlpack__(max_version=(1, 0), dl_device=(1, 0), copy=False))
    for options in ({"stream": 1}, {"dl_device": (2, 0)}):
        with pytest.raises(BufferError, match=r"stream|device"):
            x.__dlpack__(**options)  # type: ignore[arg-type]
    export = lambda **options: x.__dlpack__(**{**options, "copy": True})  # noqa: E731
    copied = np.from_dlpack(SimpleNamespace(__dlpack__=export, __dlpack_device__=lambda: (1, 0)))
    np.testing.assert_array_equal(copied, x.array())
    np.testing.assert_array_equal(np.array(x, np.float32), x.array().astype(np.float32), strict=True)
    assert not np.shares_memory(copied, x.array())


def test_any_frameworks_arrays_can_be_images() -> None:
    needs("torch")
    torch = import_module("torch")
    with pytest.raises(ValueError, match="differ in size"):
        gi.to_torch(gi.resize([np.zeros((4, 8, 3), np.uint8), np.zeros((8, 4, 3), np.uint8)], 3))
    images = torch.arange(2 * 4 * 5 * 3, dtype=torch.uint8).reshape(2, 4, 5, 3)
    for given in (images, [images[0], images[1]]):
        np.testing.assert_array_equal(gi.invert(given).array(), 255 - images.numpy())
