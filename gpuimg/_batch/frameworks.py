"""Zero-copy hand-off of results to frameworks.

JAX receives DLPack and never ``__cuda_array_interface__``: its import of the latter keeps no reference to the memory
and ignores the stream. TensorFlow accepts a legacy capsule and no stream, so the work is finished first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._checks.docstrings import documented
from .._checks.types import DType, Layout

if TYPE_CHECKING:
    import jax
    import torch

from .batch import Images, as_batch
from .dlpack import Exporter, export

_handed_over = documented(
    "images : Batch, list of arrays or array",
    'dtype : {"uint8", "float16", "bfloat16", "float32"}, optional',
    'layout : {"NHWC", "NCHW"}',
    returns="",
    raises="ImportError\n    If the framework is not installed.\nValueError\n    If the images differ in size.",
)


@_handed_over
def to_torch(images: Images, *, dtype: DType | None = None, layout: Layout = "NCHW") -> torch.Tensor:
    """Return a ``torch.Tensor`` that shares memory with the result.

    Returns
    -------
    torch.Tensor
        (N, C, H, W) or (N, H, W, C) on the batch's device; it keeps the memory alive.

    Notes
    -----
    Uses DLPack, which makes PyTorch's current stream wait for the result. ``torch.as_tensor`` of a CuPy array does
    not.

    Examples
    --------
    >>> gpuimg.to_torch(np.zeros((2, 4, 5, 3), np.uint8)).shape  # doctest: +SKIP
    torch.Size([2, 3, 4, 5])
    """
    return as_tensor(as_batch(images).array(dtype, layout))


def as_tensor(array: Any) -> torch.Tensor:
    """Return an array as a ``torch.Tensor`` of the same memory."""
    library = _import("torch")
    if isinstance(array, np.ndarray) and array.dtype.name == "bfloat16":
        return library.from_dlpack(array.view(np.uint16)).view(library.bfloat16)
    return library.from_dlpack(array)


@_handed_over
def to_jax(images: Images, *, dtype: DType | None = None, layout: Layout = "NHWC") -> jax.Array:
    """Return a ``jax.Array`` that shares memory with the result.

    Returns
    -------
    jax.Array
        On the batch's device; it keeps the memory alive.

    Raises
    ------
    ImportError
        If jax is not installed.
    ValueError
        If the images differ in size, or JAX would have to copy (host memory that is not aligned to 64 bytes, such
        as your own NumPy array without any operation applied).

    Examples
    --------
    >>> gpuimg.to_jax(gpuimg.invert(np.zeros((2, 4, 5, 3), np.uint8))).shape  # doctest: +SKIP
    (2, 4, 5, 3)
    """
    dlpack = _import("jax.dlpack", "jax")
    array = as_batch(images).array(dtype, layout)
    try:
        return dlpack.from_dlpack(Exporter(array), copy=False)
    except Exception as error:
        if "align" in str(error) or "copy" in str(error):
            raise ValueError(f"JAX cannot take this memory without a copy: {error}") from error
        raise


@_handed_over
def to_tensorflow(images: Images, *, dtype: DType | None = None, layout: Layout = "NHWC") -> Any:
    """Return a ``tf.Tensor`` that shares memory with the result.

    Returns
    -------
    tf.Tensor
        On the batch's device; it keeps the memory alive.

    Notes
    -----
    TensorFlow does not synchronize with other streams, so on a GPU this call waits for the result.

    Examples
    --------
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
