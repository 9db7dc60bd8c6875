"""DLPack capsules of results, including arrays that their own libraries cannot export (bfloat16 on the host)."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

CPU = 1
_BFLOAT16_CODE = 4  # kDLBfloat


class Exporter:
    """An array as a DLPack producer, with the exports of :func:`export`."""

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
    """Return a DLPack capsule of a result; the parameters are those of the array API standard's ``__dlpack__``.

    Raises BufferError if the memory cannot be shared without a copy and ``copy`` is False, or not with that device.
    """
    on_host = isinstance(array, np.ndarray)
    if not on_host and dl_device is not None and dl_device[0] == CPU:
        if copy is False:
            raise BufferError("a result on a GPU reaches the host only by a copy")
        array, on_host, copy, stream = array.get(), True, None, None
    if on_host:
        if stream is not None:
            raise BufferError("a result on the CPU has no stream; pass stream=None")
        if dl_device is not None and tuple(dl_device) != (CPU, 0):
            raise BufferError(f"a result on the CPU cannot be handed to DLPack device {tuple(dl_device)}")
        if copy:
            array = array.copy()
        if array.dtype.name == "bfloat16":
            return _as_bfloat16(array.view(np.uint16).__dlpack__(max_version=max_version))
        return array.__dlpack__(max_version=max_version)
    if copy:  # CuPy refuses copy=True (until 14.2 at least); copy here, on its current stream
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
    """Change a new uint16 capsule into a bfloat16 capsule: NumPy has no such dtype to export."""
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
