"""What results may be asked for: dtypes, layouts, and memory of the caller."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._runtimes.images import KINDS


def dtype_name(dtype: Any) -> str:
    """The name of a dtype of NumPy, torch or JAX."""
    if isinstance(dtype, str):
        return dtype
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None)
    return str(name) if name else str(dtype).rpartition(".")[2]


def checked_dtype(dtype: Any, *, normalized: bool) -> str:
    """The name of a dtype that results can have."""
    name = dtype_name(dtype)
    if name not in KINDS:
        raise ValueError(f"dtype must be one of {', '.join(map(repr, KINDS))}, not {dtype!r}")
    if name == "uint8" and normalized:
        raise ValueError('normalised images do not fit "uint8"; ask for "float32", "float16" or "bfloat16"')
    return name


def check_layout(layout: str) -> None:
    """Refuse any other layout."""
    if layout not in ("NHWC", "NCHW"):
        raise ValueError(f'layout must be "NHWC" or "NCHW", not {layout!r}')


def check_out(out: Any, name: str, shape: tuple[int, ...]) -> None:
    """Refuse an array that results of a dtype and shape cannot be written into."""
    if out.dtype.name != name:
        raise ValueError(f"out is {out.dtype.name}, but dtype={name!r} was asked for")
    if not out.dtype.isnative:
        raise ValueError(f"out must be in the machine's byte order, not {out.dtype.str!r}")
    if tuple(out.shape) != shape:
        raise ValueError(f"out must have shape {shape}, not {tuple(out.shape)}")
    if not out.flags.c_contiguous:
        raise ValueError("out must be C-contiguous")
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise ValueError("out must be writable")


def may_overlap(a: Any, b: Any) -> bool:
    """Whether two arrays on the host may share memory."""
    return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.may_share_memory(a, b)
