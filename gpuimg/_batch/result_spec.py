"""What results may be asked for: dtypes, layouts, and memory of the caller."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._checks.types import Ints
from .._data.images import KINDS, Pixels

#: Dtypes that results can have.
DTYPES = (*KINDS, "uint16")

#: Dtypes of images that functions take, and what one step of a color in them is.
UNITS = {"uint8": 1.0 / 255.0, "uint16": 1.0 / 65535.0, "float32": 1.0}

#: Layouts of batches of clips, and those of their frames.
CLIP_LAYOUTS = {"NTHWC": "NHWC", "NTCHW": "NCHW", "NCTHW": "NCHW"}


def dtype_name(dtype: Any) -> str:
    """The name of a dtype of NumPy, torch or JAX."""
    if isinstance(dtype, str):
        return dtype
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None)
    return str(name) if name else str(dtype).rpartition(".")[2]


def checked_dtype(dtype: Any, *, normalized: bool) -> str:
    """The name of a dtype that results can have."""
    name = dtype_name(dtype)
    if name not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(map(repr, DTYPES))}, not {dtype!r}")
    if name.startswith("uint") and normalized:
        raise ValueError(f'normalised images do not fit "{name}"; ask for "float32", "float16" or "bfloat16"')
    return name


def result_dtype(batch: Any, dtype: Any) -> str:
    """The same for a batch, of which None is the default."""
    return checked_dtype(batch.dtype if dtype is None else dtype, normalized=batch.normalized)


def check_layout(layout: str) -> None:
    """Refuse any other layout."""
    if layout not in ("NHWC", "NCHW"):
        clips = f"; array() also gives clips as {', '.join(map(repr, CLIP_LAYOUTS))}"
        raise ValueError(f'layout must be "NHWC" or "NCHW", not {layout!r}{clips}')


def one_size(sizes: Ints) -> tuple[int, int]:
    """Height and width of all results, where they are to be one array; 0 x 0 of none."""
    if len(sizes) == 0:
        return 0, 0
    others = np.any(sizes != sizes[0], 1)
    if others.any():
        k = int(np.argmax(others))
        raise ValueError(
            f"the images differ in size (image 0 is {tuple(sizes[0].tolist())}, image {k} "
            f"{tuple(sizes[k].tolist())}) and make no single array; resize or crop them, or use compute()"
        )
    return int(sizes[0, 0]), int(sizes[0, 1])


def checked_out(batch: Any, out: Any, dtype: Any, shape: tuple[int, ...]) -> str:
    """The name of a dtype; refuses an array that a batch's results of it and a shape cannot be written into."""
    if not batch.runtime.owns(out):
        raise ValueError(f"out must be an array on {batch.runtime.name}, as the batch, not {type(out).__name__}")
    name = checked_dtype(out.dtype if dtype is None else dtype, normalized=batch.normalized)
    _check_out(out, name, shape)
    if isinstance(batch.source, Pixels) and _may_overlap(out, batch.source.flat):
        raise ValueError("out must not overlap the images it is computed from")
    return name


def _check_out(out: Any, name: str, shape: tuple[int, ...]) -> None:
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


def _may_overlap(a: Any, b: Any) -> bool:
    """Whether two arrays on the host may share memory."""
    return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.may_share_memory(a, b)
