"""Results in the frameworks' own hands: the same memory, alive as long as it is used."""

import gc
import importlib
import os
import weakref
from types import ModuleType

import numpy as np
import pytest

import gpuimg as gi


def framework(name: str) -> ModuleType:
    """An optional framework; missing is a failure where the interop tests must run."""
    try:
        return importlib.import_module(name)
    except ImportError:
        if os.environ.get("GPUIMG_REQUIRE_INTEROP") == "1":
            raise
        pytest.skip(f"{name} is not installed")


def batch(n: int = 3) -> gi.Batch:
    images = np.random.default_rng(0).integers(0, 256, (n, 10, 12, 3), np.uint8)
    return gi.resize(images, (6, 7))


DTYPES = ["uint8", "float16", "bfloat16", "float32"]


def as_float(array: np.ndarray) -> np.ndarray:
    return np.asarray(array).astype(np.float32)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_torch_shares_the_memory(dtype: str, layout: str) -> None:
    torch = framework("torch")
    x = batch()
    expected = as_float(x.array(dtype, layout))
    address = x.array(dtype, layout).ctypes.data
    tensor = gi.to_torch(x, dtype=dtype, layout=layout)
    assert tensor.dtype == getattr(torch, dtype)
    assert tensor.data_ptr() == address
    del x
    gc.collect()
    np.testing.assert_array_equal(tensor.to(torch.float32).numpy(), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_jax_shares_the_memory(dtype: str, layout: str) -> None:
    framework("jax")
    x = batch()
    expected = as_float(x.array(dtype, layout))
    address = x.array(dtype, layout).ctypes.data
    array = gi.to_jax(x, dtype=dtype, layout=layout)
    assert str(array.dtype) == dtype
    assert array.unsafe_buffer_pointer() == address
    del x
    gc.collect()
    np.testing.assert_array_equal(as_float(np.asarray(array)), expected)


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_memory_lives_as_long_as_the_tensor(name: str) -> None:
    framework(name)
    x = batch()
    array = x.array("float32", "NCHW")
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    alive = weakref.ref(owner)
    tensor = (gi.to_torch if name == "torch" else gi.to_jax)(x, dtype="float32", layout="NCHW")
    del x, array, owner
    gc.collect()
    assert alive() is not None
    del tensor
    gc.collect()
    assert alive() is None


def test_the_frameworks_own_functions_take_a_batch() -> None:
    torch = framework("torch")
    x = batch()
    assert torch.from_dlpack(x).data_ptr() == x.array().ctypes.data
    assert torch.from_dlpack(x.array()).shape == (3, 6, 7, 3)
    jax = framework("jax")
    assert jax.dlpack.from_dlpack(x).unsafe_buffer_pointer() == x.array().ctypes.data


def test_jax_would_copy_unaligned_memory_so_it_is_refused() -> None:
    framework("jax")
    memory = np.zeros(2 * 4 * 4 * 3 + 65, np.uint8)
    start = -memory.ctypes.data % 64 + 1
    images = memory[start : start + 96].reshape(2, 4, 4, 3)
    with pytest.raises(ValueError, match="without a copy"):
        gi.to_jax(images)


def test_numpy() -> None:
    x = batch()
    assert np.shares_memory(np.asarray(x), x.array())
    assert np.shares_memory(np.from_dlpack(x), x.array())
    copied = np.array(x)
    assert not np.shares_memory(copied, x.array())
    assert np.asarray(x, dtype=np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="needs a copy"):
        np.array(x, dtype=np.float32, copy=False)


def test_dlpack_options() -> None:
    x = batch()
    assert x.__dlpack_device__() == (1, 0)
    assert '"dltensor"' in repr(x.__dlpack__())
    assert '"dltensor_versioned"' in repr(x.__dlpack__(max_version=(1, 0)))
    assert '"dltensor_versioned"' in repr(x.__dlpack__(max_version=(1, 0), dl_device=(1, 0), copy=False))
    with pytest.raises(BufferError, match="stream"):
        x.__dlpack__(stream=1)
    with pytest.raises(BufferError, match="device"):
        x.__dlpack__(dl_device=(2, 0))


def test_dlpack_copy_is_a_copy() -> None:
    class Copied:
        def __init__(self, source: gi.Batch) -> None:
            self.source = source

        def __dlpack__(self, **options: object) -> object:
            return self.source.__dlpack__(**{**options, "copy": True})

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.source.__dlpack_device__()

    x = batch()
    taken = np.from_dlpack(Copied(x))  # type: ignore[arg-type]
    np.testing.assert_array_equal(taken, x.array())
    assert not np.shares_memory(taken, x.array())


def test_bfloat16_capsule_says_bfloat16() -> None:
    torch = framework("torch")

    class Producer:
        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __dlpack__(self, **options: object) -> object:
            from gpuimg._batch.dlpack import export

            return export(self.array, **options)  # type: ignore[arg-type]

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    tensor = torch.from_dlpack(Producer(batch().array("bfloat16")))
    assert tensor.dtype == torch.bfloat16


def test_no_cuda_interface_on_the_cpu() -> None:
    assert not hasattr(batch(), "__cuda_array_interface__")


def test_ragged_batches_are_refused() -> None:
    framework("torch")
    x = gi.resize([np.zeros((4, 8, 3), np.uint8), np.zeros((8, 4, 3), np.uint8)], 3)
    with pytest.raises(ValueError, match="differ in size"):
        gi.to_torch(x)


def test_missing_framework_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(ImportError, match="tensorflow is not installed"):
        gi.to_tensorflow(batch())


def test_any_frameworks_arrays_can_be_images() -> None:
    torch = framework("torch")
    images = torch.arange(2 * 4 * 5 * 3, dtype=torch.uint8).reshape(2, 4, 5, 3)
    np.testing.assert_array_equal(gi.invert(images).array(), 255 - images.numpy())
    np.testing.assert_array_equal(gi.invert([images[0], images[1]]).array(), 255 - images.numpy())
