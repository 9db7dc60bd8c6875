"""DLPack capsules of results, including host arrays of dtypes that NumPy cannot export, such as bfloat16."""

import ctypes
from typing import Any

import numpy as np

from ..kernels.layout import DTYPES

CPU = 1
#: Names of capsules, and where DLManagedTensorVersioned and DLManagedTensor of dlpack.h hold the code of the dtype.
_CODE_AT = {b"dltensor_versioned": 52, b"dltensor": 20}


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
    if copy:  # CuPy refuses copy=True (until 14.2 at least); copy here, on its current stream
        array = array.copy()
    if on_host:
        if (code := exported_as(array)) is not None:
            stored = array.view(DTYPES[array.dtype.name].stored)
            return _retyped(stored.__dlpack__(max_version=max_version), code)
        return array.__dlpack__(max_version=max_version)
    return array.__dlpack__(stream=stream, max_version=max_version)


def exported_as(array: Any) -> int | None:
    """Return DLPack's code of the dtype of a host array, if NumPy cannot export it."""
    row = DTYPES.get(array.dtype.name)
    return None if row is None else row.dlpack


def _retyped(capsule: Any, code: int) -> Any:
    """Set the type's code in a new capsule."""
    api = ctypes.pythonapi
    api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    name = next(name for name in _CODE_AT if api.PyCapsule_IsValid(capsule, name))
    ctypes.c_uint8.from_address(api.PyCapsule_GetPointer(capsule, name) + _CODE_AT[name]).value = code
    return capsule
