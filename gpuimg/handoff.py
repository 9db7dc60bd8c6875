"""Handing results to frameworks without a copy, the right way for each.

JAX is given DLPack and never ``__cuda_array_interface__``: its import of the latter keeps no reference to the memory
and ignores the stream. TensorFlow takes a legacy capsule and no stream, so the work is finished first.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from .batch import Batch, as_batch

_CPU = 1
_BFLOAT16_CODE = 4  # kDLBfloat


def to_torch(images: Any, *, dtype: Any = None, layout: str = "NCHW") -> Any:
    """A ``torch.Tensor`` that shares memory with the result.

    Parameters
    ----------
    images : Batch, list of arrays or array
    dtype : {"uint8", "float16", "bfloat16", "float32"}, optional
    layout : {"NCHW", "NHWC"}

    Returns
    -------
    torch.Tensor
        (N, C, H, W) or (N, H, W, C) on the batch's device; it keeps the memory alive.

    Raises
    ------
    ImportError
        Where torch is missing.
    ValueError
        If the images differ in size.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> gpuimg.to_torch(np.zeros((2, 4, 5, 3), np.uint8)).shape  # doctest: +SKIP
    torch.Size([2, 3, 4, 5])
    """
    return as_tensor(as_batch(images).array(dtype, layout))


def as_tensor(array: Any) -> Any:
    """An array as a ``torch.Tensor`` of the same memory."""
    torch = _import("torch")
    if isinstance(array, np.ndarray) and array.dtype.name == "bfloat16":
        return torch.from_dlpack(array.view(np.uint16)).view(torch.bfloat16)
    return torch.from_dlpack(array)


def to_jax(images: Any, *, dtype: Any = None, layout: str = "NHWC") -> Any:
    """A ``jax.Array`` that shares memory with the result.

    Parameters
    ----------
    images : Batch, list of arrays or array
    dtype : {"uint8", "float16", "bfloat16", "float32"}, optional
    layout : {"NHWC", "NCHW"}

    Returns
    -------
    jax.Array
        On the batch's device; it keeps the memory alive.

    Raises
    ------
    ImportError
        Where jax is missing.
    ValueError
        If the images differ in size, or JAX could only take a copy (host memory that is not aligned to 64 bytes,
        such as a NumPy array of your own that nothing was done to).

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> gpuimg.to_jax(gpuimg.invert(np.zeros((2, 4, 5, 3), np.uint8))).shape  # doctest: +SKIP
    (2, 4, 5, 3)
    """
    dlpack = _import("jax.dlpack", "jax")
    array = as_batch(images).array(dtype, layout)
    try:
        return dlpack.from_dlpack(_Exporter(array), copy=False)
    except Exception as error:
        if "align" in str(error) or "copy" in str(error):
            raise ValueError(f"JAX cannot take this memory without a copy: {error}") from error
        raise


def to_tensorflow(images: Any, *, dtype: Any = None, layout: str = "NHWC") -> Any:
    """A ``tf.Tensor`` that shares memory with the result.

    Parameters
    ----------
    images : Batch, list of arrays or array
    dtype : {"uint8", "float16", "bfloat16", "float32"}, optional
    layout : {"NHWC", "NCHW"}

    Returns
    -------
    tf.Tensor
        On the batch's device; it keeps the memory alive.

    Raises
    ------
    ImportError
        Where tensorflow is missing.
    ValueError
        If the images differ in size.

    Notes
    -----
    TensorFlow orders nothing with other streams, so on a GPU this call waits for the result.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> gpuimg.to_tensorflow(np.zeros((2, 4, 5, 3), np.uint8)).shape  # doctest: +SKIP
    TensorShape([2, 4, 5, 3])
    """
    tf = _import("tensorflow")
    array = as_batch(images).array(dtype, layout)
    if not isinstance(array, np.ndarray):
        array.device.synchronize()
    return tf.experimental.dlpack.from_dlpack(export(array))


def _import(module: str, package: str | None = None) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = package or module
        raise ImportError(f"{name} is not installed; see {name}'s own installation page for your device") from error


class _Exporter:
    """An array as a DLPack producer that can do what the array's own library cannot (bfloat16 on the host)."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return export(self._array, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self._array.__dlpack_device__()
        return device


def export(
    array: Any,
    *,
    stream: int | None = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A DLPack capsule of a result; the parameters are those of the array API standard's ``__dlpack__``.

    Raises
    ------
    BufferError
        Where the memory cannot be handed over without a copy and ``copy`` is False, or not to that device.
    """
    on_host = isinstance(array, np.ndarray)
    if not on_host and dl_device is not None and dl_device[0] == _CPU:
        if copy is False:
            raise BufferError("a result on a GPU reaches the host only by a copy")
        array, on_host, copy, stream = array.get(), True, None, None
    if on_host:
        if stream is not None:
            raise BufferError("a result on the CPU has no stream; pass stream=None")
        if dl_device is not None and tuple(dl_device) != (_CPU, 0):
            raise BufferError(f"a result on the CPU cannot be handed to DLPack device {tuple(dl_device)}")
        if copy:
            array = array.copy()
        if array.dtype.name == "bfloat16":
            return _as_bfloat16(array.view(np.uint16).__dlpack__(max_version=max_version))
        return array.__dlpack__(max_version=max_version)
    if copy:  # CuPy refuses copy=True (until 14.2 at least); the copy is made here, on its current stream
        array = array.copy()
    return array.__dlpack__(stream=stream, max_version=max_version)


class _Tensor(ctypes.Structure):
    """DLTensor of dlpack.h, up to the fields needed."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    ]


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned of dlpack.h."""

    _fields_ = [
        ("version", ctypes.c_uint32 * 2),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


def _as_bfloat16(capsule: Any) -> Any:
    """Change a fresh capsule of uint16 into one of bfloat16: NumPy has no such dtype to export."""
    api = ctypes.pythonapi
    api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    if api.PyCapsule_IsValid(capsule, b"dltensor_versioned"):
        address = api.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
        _Versioned.from_address(address).tensor.code = _BFLOAT16_CODE
    else:
        _Tensor.from_address(api.PyCapsule_GetPointer(capsule, b"dltensor")).code = _BFLOAT16_CODE
    return capsule


__all__ = ["Batch", "export", "to_jax", "to_tensorflow", "to_torch"]
