"""CuPy's own kernels, which NumPy computes: their source says which function it is, and what the parameters are."""

import ctypes
import re
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from .order import Range

_DTYPES = {
    "bool": "?", "signed char": "i1", "unsigned char": "u1", "short": "i2", "unsigned short": "u2", "int": "i4",
    "unsigned int": "u4", "long long": "i8", "unsigned long long": "u8", "long": "i8", "unsigned long": "u8",
    "float16": "f2", "float": "f4", "double": "f8",
}  # fmt: skip
Content: TypeAlias = Callable[[int, int], Any]  # of these addresses
_PARAMETER = re.compile(r"(?:CArray<([\w ]+), (\d+)[^>]*>|([\w ]+?)) \w+$")


def run(source: str, name: str, parameters: int, content: Content) -> tuple[list[Range], list[Range], str]:
    """Compute a kernel; return the addresses it reads and writes, and whether it is a copy or arithmetic."""
    signature = re.search(rf"void {name}\(([^)]*)\)", source)
    function = re.fullmatch(r"cupy_(\w+?)(?:__\w+)?", name)
    if signature is None or function is None:
        raise NotImplementedError(f"CuPy's kernel {name}")
    texts = [one.strip() for one in re.split(r",(?![^<]*>)", signature[1])]
    inputs, out = list[Any](), None
    reads, writes = list[Range](), list[Range]()
    for k, text in enumerate(texts):
        if text.startswith(("CIndexer", "const CIndexer")):
            continue
        found = _PARAMETER.fullmatch(text.removeprefix("const "))
        if found is None:
            raise NotImplementedError(f"parameter {text} of CuPy's kernel {name}")
        address = ctypes.c_uint64.from_address(parameters + 8 * k).value
        if found[1] is None:
            inputs.append(np.frombuffer(ctypes.string_at(address, 8), _DTYPES[found[3]], 1)[0])
            continue
        values, span = _array(address, np.dtype(_DTYPES[found[1]]), int(found[2]), content)
        if text.startswith("const "):
            inputs.append(values)
            reads.append(span)
        else:
            out = values
            writes.append(span)
    with np.errstate(all="ignore"):  # of memory that nothing was written to
        if function[1] in ("copy", "fill"):
            out[...] = inputs[0]
        else:
            getattr(np, function[1])(*inputs, out=out, casting="unsafe")
    return reads, writes, "copy" if function[1] == "copy" and reads else "arithmetic"


def _array(at: int, dtype: Any, ndim: int, content: Content) -> tuple[Any, Range]:
    """An array as CuPy describes it to a kernel: its address, size, shape and strides."""
    low, size, *rest = np.frombuffer(ctypes.string_at(at, 8 * (2 + 2 * ndim)), np.int64).tolist()
    shape, strides = rest[:ndim], rest[ndim:]
    if not size:
        return np.empty(shape, dtype), (low, low)
    reach = [(n - 1) * step for n, step in zip(shape, strides, strict=True)]
    first = low + sum(step for step in reach if step < 0)
    last = low + sum(step for step in reach if step > 0) + dtype.itemsize
    return np.ndarray(shape, dtype, content(first, last), low - first, strides), (first, last)
