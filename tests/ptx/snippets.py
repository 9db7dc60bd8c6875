"""Small PTX programs for the interpreter's own tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from .launch import Buffer, pointer, run

_KINDS = {
    "uint8": ("u8", "b16"), "int8": ("s8", "b16"), "uint16": ("u16", "b16"), "int16": ("s16", "b16"),
    "float16": ("b16", "b16"), "uint32": ("u32", "b32"), "int32": ("s32", "b32"), "float32": ("f32", "f32"),
    "uint64": ("u64", "b64"), "int64": ("s64", "b64"), "float64": ("f64", "f64"),
}  # fmt: skip

RANDOM = np.random.default_rng()  # what fails is told with its operands
HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def kernel(parameters: str, body: str, before: str = "", name: str = "f", limits: str = "") -> str:
    """A module with one kernel; registers of each type are declared."""
    return f"""{HEAD}{before}
.visible .entry {name}({parameters}) {limits}
{{
    .reg .pred %p<20>;
    .reg .b16 %h<20>;
    .reg .b32 %r<40>;
    .reg .b64 %d<40>;
    .reg .f32 %f<20>;
    .reg .f64 %e<20>;
{body}
}}
"""


def buffers(*arrays: Any) -> list[Buffer]:
    """Arrays as pointers, named a, b, c and so on."""
    return [Buffer(array, "abcdefgh"[k], pack=pointer) for k, array in enumerate(arrays)]


def load_pointers(count: int) -> str:
    """Instructions that bring the pointers %d20, %d21 and so on, and the thread's number %r20 and %d19."""
    lines = [f"ld.param.u64 %d{20 + k}, [p{k}]; cvta.to.global.u64 %d{20 + k}, %d{20 + k};" for k in range(count)]
    return "\n".join([*lines, "mov.u32 %r20, %tid.x; cvt.u64.u32 %d19, %r20;"])


def with_pointers(count: int, body: str, before: str = "") -> str:
    """A kernel whose parameters are pointers."""
    parameters = ", ".join(f".param .u64 p{k}" for k in range(count))
    return kernel(parameters, f"{load_pointers(count)}\n{body}\nret;", before)


def evaluate(instructions: str, result: str, *arrays: Any) -> Any:
    """Return the result ``{d}`` of instructions on ``{a}``, ``{b}``... for each thread; ``result`` is its dtype."""
    n = len(arrays[0])
    out = np.zeros(n, result)
    lines, registers = [], {}
    declared = []
    for k, array in enumerate([*arrays, out]):
        memory, register = _KINDS[array.dtype.name]
        name = "abcefgh"[k] if k < len(arrays) else "d"
        registers[name] = f"%v{name}"
        declared.append(f".reg .{register} %v{name};")
        if k < len(arrays):
            lines.append(_element(k, array.dtype.itemsize) + f"ld.global.{memory} %v{name}, [%d1];")
    lines.append(instructions.format(**registers))
    memory, _ = _KINDS[out.dtype.name]
    lines.append(_element(len(arrays), out.dtype.itemsize) + f"st.global.{memory} [%d1], %vd;")
    text = with_pointers(len(arrays) + 1, "\n".join(declared + lines))
    run(text, 1, n, buffers(*arrays, out))
    return out


def _element(pointer_number: int, size: int) -> str:
    return f"mad.lo.s64 %d1, %d19, {size}, %d{20 + pointer_number};\n"


def on_warps(body: str, blocks: int, threads: int, *arrays: Any, before: str = "") -> None:
    """Run a body with pointers to arrays, and %r21 the thread's number in the grid; %d18 is four times that."""
    number = (
        "mov.u32 %r22, %ctaid.x; mov.u32 %r23, %ntid.x; mad.lo.s32 %r21, %r22, %r23, %r20;\n"
        "mul.wide.u32 %d18, %r21, 4;\n"
    )
    run(with_pointers(len(arrays), number + body, before), blocks, threads, buffers(*arrays))


INTS = {
    "u16": np.uint16, "s16": np.int16, "u32": np.uint32, "s32": np.int32, "u64": np.uint64, "s64": np.int64,
    "b16": np.uint16, "b32": np.uint32, "b64": np.uint64,
}  # fmt: skip


def bits_of(kind: str) -> int:
    """Width of a type."""
    return int(kind[1:])


def wrapped(value: int, kind: str) -> int:
    """An integer as a type holds it."""
    value &= (1 << bits_of(kind)) - 1
    return value - (1 << bits_of(kind)) if kind[0] == "s" and value >> (bits_of(kind) - 1) else value


def interesting(kind: str) -> list[int]:
    """Edges of a type, and some others."""
    bits = bits_of(kind)
    edges = [
        0,
        1,
        2,
        3,
        7,
        31,
        32,
        33,
        63,
        64,
        (1 << bits) - 1,
        1 << (bits - 1),
        (1 << (bits - 1)) - 1,
        0xA5 << (bits - 9),
    ]
    edges += [int(v) for v in RANDOM.integers(0, 1 << 62, 4)]
    return sorted({wrapped(edge, kind) for edge in edges})
