"""Functions through which Python and other loops call compiled code, as LLVM text.

An entrance for Python is a METH_FASTCALL function: ``PyObject *name(PyObject *self, PyObject **arguments, ssize_t n)``.
It checks the arguments, reads arrays from NumPy's structures, releases the GIL and calls the loop. Python's functions
and objects are reached through a table that the loader fills, ``PYTHON_FUNCTIONS`` of kernels/native.py: so a library
has no undefined symbol of Python, needs none of its headers and serves every version.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from gpuimg.kernels.native import PYTHON_FUNCTIONS, PYTHON_OBJECTS, parse, symbol

from .codegen import Compiled

_WORD: Final = 8
_PYTHON: Final = (*PYTHON_FUNCTIONS, *(getattr(one, "__name__", str(one)) for one in PYTHON_OBJECTS))

# Bytes from the end of an object's header: its type (before it), and the fields of PyArrayObject_fields, whose layout
# is part of NumPy's ABI.
_TYPE: Final = -8
_DATA: Final = 0
_DIMENSIONS: Final = 8
_SHAPE: Final = 16
_DTYPE: Final = 40
_FLAGS: Final = 48
_USABLE: Final = 0x1 | 0x100  # NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_ALIGNED
_WRITEABLE: Final = 0x400  # NPY_ARRAY_WRITEABLE
_EQUAL: Final = 2  # Py_EQ

#: Scalars: the LLVM type that loops take, the function that converts from Python, and its type.
_SCALARS: Final = {
    "int64": ("i64", "PyLong_AsLongLong", "i64"),
    "uint64": ("i64", "PyLong_AsUnsignedLongLongMask", "i64"),
    "float32": ("float", "PyFloat_AsDouble", "double"),
}
#: Results: the LLVM type that loops store, and what it is extended to for the function that converts to Python.
_RESULTS: Final = {"int64": ("i64", "i64", "PyLong_FromLongLong"), "bool": ("i8", "i32", "PyBool_FromLong")}
_NO_VALUE: Final = -2  # the status of a Numba function that returned None, as 0 is that of one that returned a value


class _Body:
    """The body of a function: numbered values, and blocks that end in branches."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._count = 0

    def let(self, expression: str) -> str:
        """Name the value of an expression."""
        self._count += 1
        self.lines.append(f"%v{self._count} = {expression}")
        return f"%v{self._count}"

    def load(self, kind: str, address: str, offset: int | str = 0) -> str:
        """The value at an address and a number of bytes."""
        place = self.let(f"getelementptr i8, ptr {address}, i64 {offset}")
        return self.let(f"load {kind}, ptr {place}")

    def equal(self, kind: str, one: str, other: int | str) -> str:
        """Compare two values."""
        return self.let(f"icmp eq {kind} {one}, {other}")

    def branch(self, condition: str, otherwise: str, block: str = "") -> None:
        """Resume in another block where a condition does not hold, and here, in a block with a name, where it does."""
        self._count += 1
        name = block or f"b{self._count}"
        self.lines += [f"br i1 {condition}, label %{name}, label %{otherwise}", f"{name}:"]

    def python(self, name: str) -> str:
        """A function or an object of Python."""
        return self.load("ptr", "@gpuimg_python", _WORD * _PYTHON.index(name))

    def call(self, kind: str, name: str, *arguments: str) -> str:
        """Call a function of Python."""
        text = f"call {kind} {self.python(name)}({', '.join(arguments)})"
        if kind != "void":
            return self.let(text)
        self.lines.append(text)
        return ""

    def fail(self, error: str, message: str) -> None:
        """Return with an exception."""
        self.call("void", "PyErr_SetString", f"ptr {self.python(error)}", f"ptr {message}")
        self.lines.append("ret ptr null")


def _array(body: _Body, array: str, dimensions: int, dtype: str, usable: int, otherwise: str) -> tuple[str, list[str]]:
    """Check an array, which must have these flags, and the dtype at an address; its data and its shape."""
    head = body.load("i64", "@gpuimg_head")

    def field(kind: str, place: int) -> str:
        return body.load(kind, array, body.let(f"add i64 {head}, {place}"))

    body.branch(body.equal("ptr", field("ptr", _TYPE), body.python("ndarray")), otherwise)
    flags = body.let(f"and i32 {field('i32', _FLAGS)}, {usable}")
    body.branch(body.equal("i32", flags, usable), otherwise)
    body.branch(body.equal("i32", field("i32", _DIMENSIONS), dimensions), otherwise)
    # Equal dtypes are mostly one object, else Python compares them.
    given, wanted = field("ptr", _DTYPE), body.load("ptr", dtype)
    same, block = body.equal("ptr", given, wanted), len(body.lines)
    body.lines += [f"br i1 {same}, label %same{block}, label %compare{block}", f"compare{block}:"]
    equal = body.call("i32", "PyObject_RichCompareBool", f"ptr {given}", f"ptr {wanted}", f"i32 {_EQUAL}")
    body.branch(body.equal("i32", equal, 1), otherwise)
    body.lines += [f"br label %same{block}", f"same{block}:"]
    shape = field("ptr", _SHAPE)
    return field("ptr", _DATA), [body.load("i64", shape, _WORD * axis) for axis in range(dimensions)]


def _passed(body: _Body, data: str, shape: list[str], itemsize: int) -> list[str]:
    """Arguments of Numba for an array: its memory's manager and owner, elements, bytes of one, data, shape, strides."""
    strides, stride, elements = list[str](), str(itemsize), "1"
    for size in reversed(shape):
        strides.insert(0, f"i64 {stride}")
        stride, elements = body.let(f"mul i64 {stride}, {size}"), body.let(f"mul i64 {elements}, {size}")
    sizes = [f"i64 {size}" for size in shape]
    return ["ptr null", "ptr null", f"i64 {elements}", f"i64 {itemsize}", f"ptr {data}", *sizes, *strides]


def _scalar(body: _Body, value: str, kind: str) -> str:
    """Argument of Numba for a number; Python notes an error where it is none."""
    wanted, convert, found = _SCALARS[kind]
    number = body.call(found, convert, f"ptr {value}")
    return f"{wanted} {number}" if wanted == found else f"{wanted} {body.let(f'fptrunc {found} {number} to {wanted}')}"


def python_entrance(
    name: str, signatures: Sequence[str], loops: Sequence[Compiled], dtypes: Mapping[str, Any], nogil: bool
) -> str:
    """The entrance of a function for Python, which calls the first loop whose signature fits the arguments."""
    body, arrays = _Body(), 0
    table = f"@{symbol('dtypes', name)}"
    messages = {"mismatch": f"arguments of {name} are not {' or '.join(signatures)}", "failed": f"{name} failed"}
    for number, (signature, loop) in enumerate(zip(signatures, loops, strict=True)):
        otherwise = f"signature{number + 1}" if number + 1 < len(signatures) else "mismatch"
        kinds = parse(signature)[1]
        body.branch(body.equal("i64", "%count", len(kinds)), otherwise)
        values = [body.load("ptr", "%arguments", _WORD * position) for position in range(len(kinds))]
        passed: list[list[str]] = []
        for value, (kind, dimensions) in zip(values, kinds, strict=True):
            if dimensions:
                place = body.let(f"getelementptr i8, ptr {table}, i64 {_WORD * arrays}")
                # The fifth argument of Numba for an array is its data, see _passed.
                is_written = loop.written[sum(map(len, passed)) + 4]
                data, shape = _array(body, value, dimensions, place, _USABLE | _WRITEABLE * is_written, otherwise)
                passed.append(_passed(body, data, shape, np.dtype(dtypes.get(kind, kind)).itemsize))
                arrays += 1
            else:
                passed.append([""])
        scalars = [k for k, (_, dimensions) in enumerate(kinds) if not dimensions]
        for k in scalars:
            passed[k] = [_scalar(body, values[k], kinds[k][0])]
        if scalars:
            body.branch(body.equal("ptr", body.call("ptr", "PyErr_Occurred"), "null"), "raised")
        _call(body, [one for group in passed for one in group], loop, nogil)
        body.lines.append(f"{otherwise}:")
    body.fail("TypeError", f"@{symbol('mismatch', name)}")
    body.lines.append("failed:")
    body.fail("RuntimeError", f"@{symbol('failed', name)}")
    body.lines += ["raised:", "ret ptr null"]
    texts = [
        f'@{symbol(key, name)} = private constant [{len(one) + 1} x i8] c"{one}\\00"' for key, one in messages.items()
    ]
    lines = "\n  ".join(body.lines)
    return "\n".join([
        f"{table} = global [{max(arrays, 1)} x ptr] zeroinitializer",
        *texts,
        *map(_declaration, loops),
        f"define ptr @{symbol('entrance', name)}(ptr %self, ptr %arguments, i64 %count) {{\n  {lines}\n}}",
    ])  # fmt: skip


def _call(body: _Body, passed: list[str], loop: Compiled, nogil: bool) -> None:
    """Call a loop and return its result, or go to ``failed``."""
    if [one.split()[0] for one in passed] != loop.arguments:
        raise ValueError(f"{loop.name} takes {loop.arguments}, not {passed}")
    result = body.let("alloca i64, align 8")
    body.lines.append(f"store i64 0, ptr {result}")
    error = body.let("alloca ptr, align 8")
    state = body.call("ptr", "PyEval_SaveThread") if nogil else ""
    status = body.let(f'call i32 @"{loop.name}"({", ".join([f"ptr {result}", f"ptr {error}", *passed])})')
    if nogil:
        body.call("void", "PyEval_RestoreThread", f"ptr {state}")
    succeeded = body.let(f"or i1 {body.equal('i32', status, 0)}, {body.equal('i32', status, _NO_VALUE)}")
    body.branch(succeeded, "failed")
    if loop.result == "none":
        none = body.python("None")
        body.call("void", "Py_IncRef", f"ptr {none}")
        body.lines.append(f"ret ptr {none}")
        return
    stored, extended, convert = _RESULTS[loop.result]
    value = body.load(stored, result)
    if stored != extended:
        value = body.let(f"zext {stored} {value} to {extended}")
    body.lines.append(f"ret ptr {body.call('ptr', convert, f'{extended} {value}')}")


def _declaration(loop: Compiled) -> str:
    return f'declare i32 @"{loop.name}"({", ".join(["ptr", "ptr", *loop.arguments])})'


def loop_entrance(name: str, loop: Compiled) -> str:
    """The entrance of a loop for others, which call it by its address: a C function without a result."""
    names = [f"{kind} %a{k}" for k, kind in enumerate(loop.arguments)]
    passed = ", ".join(["ptr %result", "ptr %error", *names])
    return f"""{_declaration(loop)}
define void @{symbol("loop", name)}({", ".join(names)}) {{
  %result = alloca i64, align 8
  %error = alloca ptr, align 8
  %status = call i32 @"{loop.name}"({passed})
  ret void
}}"""


def common() -> str:
    """Tables that all entrances use; parts of a library share the first one's."""
    return f"@gpuimg_python = weak global [{len(_PYTHON)} x ptr] zeroinitializer\n@gpuimg_head = weak global i64 0\n"
