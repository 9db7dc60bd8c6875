"""Dtypes, layouts and ``out=`` arrays of results, and their validation."""

from typing import Any

import numpy as np

from .._data.images import Pixels
from .._plan.plan import Plan
from ..kernels.layout import DTYPES

#: Dtypes of images that functions accept, and the size of one level in them on the scale 0 to 1.
UNITS = {name: row.unit for name, row in DTYPES.items() if row.unit is not None}

#: Layouts of clip batches, and the layouts of their frames.
CLIP_LAYOUTS = {"NTHWC": "NHWC", "NTCHW": "NCHW", "NCTHW": "NCHW"}


def dtype_name(dtype: Any) -> str:
    """Return the name of a dtype of NumPy, torch or JAX."""
    if isinstance(dtype, str):
        return dtype
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None)
    return str(name) if name else str(dtype).rpartition(".")[2]


def result_dtype(batch: Any, dtype: Any) -> str:
    """Return the name of a batch's result dtype; None is the default. Refuse others."""
    if dtype is None:
        return str(batch.dtype)
    name = known_dtype(dtype)
    if name.startswith("uint") and batch.normalized:
        raise ValueError(f'normalized images do not fit "{name}"; use "float32", "float16" or "bfloat16"')
    return name


def known_dtype(dtype: Any) -> str:
    """Return the name of a result dtype; refuse others."""
    if (name := dtype_name(dtype)) not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(map(repr, DTYPES))}, not {dtype!r}")
    return name


def check_layout(layout: str) -> None:
    """Refuse any other layout."""
    if not isinstance(layout, str) or layout not in ("NHWC", "NCHW"):
        clips = f"; array() also accepts {', '.join(map(repr, CLIP_LAYOUTS))} for clips"
        raise ValueError(f'layout must be "NHWC" or "NCHW", not {layout!r}{clips}')


def one_size(plan: Plan) -> tuple[int, int]:
    """Return the common height and width of all results."""
    sizes = plan.sizes
    if len(sizes) > 1 and (others := sizes != sizes[0]).any():
        k = int(np.argmax(others.any(1)))
        raise ValueError(
            f"the images differ in size (image 0 is {tuple(sizes[0].tolist())}, image {k} "
            f"{tuple(sizes[k].tolist())}) and cannot form one array; resize or crop them, or use compute()"
        )
    return plan.first_size


def checked_out(batch: Any, out: Any, dtype: Any, shape: tuple[int, ...]) -> str:
    """Return the name of the result dtype; refuse an ``out`` array that results of this dtype and shape do not fit."""
    if not batch.runtime.owns(out):
        raise ValueError(f"out must be an array on {batch.runtime.name}, as the batch, not {type(out).__name__}")
    name = result_dtype(batch, out.dtype if dtype is None else dtype)
    if out.dtype.name != name:
        raise ValueError(f"out is {out.dtype.name}, but dtype={name!r} was requested")
    if not out.dtype.isnative:
        raise ValueError(f"out must be in the machine's byte order, not {out.dtype.str!r}")
    if tuple(out.shape) != shape:
        raise ValueError(f"out must have shape {shape}, not {tuple(out.shape)}")
    if not out.flags.c_contiguous:
        raise ValueError("out must be C-contiguous")
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise ValueError("out must be writable")
    source = batch.source
    if isinstance(source, Pixels) and batch.runtime.on_host and np.may_share_memory(out, source.flat):
        raise ValueError("out must not overlap the images it is computed from")
    return name
