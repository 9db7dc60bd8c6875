"""Zero-copy hand-off of results to frameworks.

JAX receives DLPack and never ``__cuda_array_interface__``: its import of the latter keeps no reference to the memory
and ignores the stream. TensorFlow accepts a legacy capsule and no stream, so the work is finished first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._checks.docstrings import documented
from .._checks.types import DType, Layout
from .batch import Images, as_batch
from .dlpack import export, exported_as

if TYPE_CHECKING:
    import jax
    import torch

__all__ = ["to_jax", "to_tensorflow", "to_torch"]

_documented = documented(
    "images : Batch, list of arrays or array",
    'dtype : {"uint8", "uint16", "float16", "bfloat16", "float32"}, optional',
    'layout : {"NHWC", "NCHW"}',
    returns="tensor or array\n    (N, H, W, C) or (N, C, H, W) on the batch's device; it keeps the memory alive.",
    raises="ImportError\n    If the framework is not installed.\nValueError\n    If the images differ in size.",
    example='>>> gpuimg.{}(np.zeros((2, 4, 5, 3), np.uint8), layout="NHWC").shape  # doctest: +SKIP\n(2, 4, 5, 3)',
)


@_documented
def to_torch(images: Images, *, dtype: DType | None = None, layout: Layout = "NCHW") -> torch.Tensor:
    """Return a ``torch.Tensor`` that shares memory with the result.

    Notes
    -----
    An array (N, H, W, C) is copied for another layout or dtype; ``layout="NHWC"`` shares its memory. Uses DLPack, which
    makes PyTorch's current stream wait for the result. ``torch.as_tensor`` of a CuPy array does not.
    """
    return as_tensor(as_batch(images).array(dtype, layout))


def as_tensor(array: Any) -> torch.Tensor:
    """Return an array as a ``torch.Tensor`` of the same memory."""
    library = _import("torch")
    unknown = isinstance(array, np.ndarray) and exported_as(array) is not None
    return library.from_dlpack(export(array) if unknown else array)


@_documented
def to_jax(images: Images, *, dtype: DType | None = None, layout: Layout = "NHWC") -> jax.Array:
    """Return a ``jax.Array`` that shares memory with the result.

    Raises
    ------
    ImportError
        If jax is not installed.
    ValueError
        If the images differ in size, or JAX would have to copy (host memory that is not aligned to 64 bytes, such
        as your own NumPy array without any operation applied).
    """
    dlpack = _import("jax.dlpack")
    computed = as_batch(images).compute(dtype, layout)
    try:
        return dlpack.from_dlpack(computed, copy=False)
    except Exception as error:
        if "align" in str(error) or "copy" in str(error):
            raise ValueError(f"JAX cannot take this memory without a copy: {error}") from error
        raise


@_documented
def to_tensorflow(images: Images, *, dtype: DType | None = None, layout: Layout = "NHWC") -> Any:
    """Return a ``tf.Tensor`` that shares memory with the result.

    Notes
    -----
    TensorFlow does not synchronize with other streams, so on a GPU this call waits for the result.
    """
    tf = _import("tensorflow")
    array = as_batch(images).array(dtype, layout)
    if not isinstance(array, np.ndarray):
        array.device.synchronize()
    return tf.experimental.dlpack.from_dlpack(export(array))


def _import(module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise ImportError(f"{name} is not installed; see {name}'s own installation page for your device") from error
