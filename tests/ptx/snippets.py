"""Small PTX programs for the interpreter's own tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from .launch import Buffer, pointer, run

RANDOM = np.random.default_rng()  # a failure quotes its operands
HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def kernel(parameters: str, body: str, before: str = "") -> str:
    """A module with one kernel; registers of each type are declared."""
    return f"""{HEAD}{before}
.visible .entry f({parameters})
{{
    .reg .pred %p<20>;
    .reg .b16 %h<20>;
    .reg .b32 %r<40>;
    .reg .b64 %d<40>;
    .reg .f32 %f<20>;
{body}
}}
"""


def buffers(*arrays: Any) -> list[Buffer]:
    """Arrays as pointers, named a, b, c and so on."""
    return [Buffer(array, "abcdefgh"[k], pack=pointer) for k, array in enumerate(arrays)]


def with_pointers(count: int, body: str, before: str = "") -> str:
    """A kernel of pointers %d20, %d21 and so on; the thread's number is in %r20 and %d19."""
    loads = (f"ld.param.u64 %d{20 + k}, [p{k}]; cvta.to.global.u64 %d{20 + k}, %d{20 + k};" for k in range(count))
    head = "\n".join([*loads, "mov.u32 %r20, %tid.x; cvt.u64.u32 %d19, %r20;"])
    return kernel(", ".join(f".param .u64 p{k}" for k in range(count)), f"{head}\n{body}\nret;", before)


def evaluate(instructions: str, result: str, *arrays: Any) -> Any:
    """Return the result ``{d}`` of instructions on ``{a}``, ``{b}``... for each thread; ``result`` is its dtype."""
    out = np.zeros(len(arrays[0]), result)
    names = [*"abcefgh"[: len(arrays)], "d"]
    declared, moves = [], []
    for k, (name, array) in enumerate(zip(names, [*arrays, out], strict=True)):
        bits = 8 * array.dtype.itemsize
        memory = {"u": "u", "i": "s", "f": "f"}[array.dtype.kind] + str(bits)
        declared.append(f".reg .{memory if memory == 'f32' else f'b{bits}'} %v{name};")
        access = f"st.global.{memory} [%d1], %vd;" if name == "d" else f"ld.global.{memory} %v{name}, [%d1];"
        moves.append(f"mad.lo.s64 %d1, %d19, {array.dtype.itemsize}, %d{20 + k};\n{access}")
    moves.insert(-1, instructions.format(**{name: f"%v{name}" for name in names}))
    run(with_pointers(len(names), "\n".join(declared + moves)), 1, len(out), buffers(*arrays, out))
    return out


def on_warps(body: str, blocks: int, threads: int, *arrays: Any, before: str = "") -> None:
    """Run a body with pointers to arrays, and %r21 the thread's number in the grid; %d18 is four times that."""
    number = (
        "mov.u32 %r22, %ctaid.x; mov.u32 %r23, %ntid.x; mad.lo.s32 %r21, %r22, %r23, %r20;\n"
        "mul.wide.u32 %d18, %r21, 4;\n"
    )
    run(with_pointers(len(arrays), number + body, before), blocks, threads, buffers(*arrays))


# One block hands values to another: a flag that both access atomically, with a fence before and after.
HANDED = """
    setp.ne.u32 %p1, %r22, 0; @%p1 bra second;
    mul.wide.u32 %d4, %r20, 4; add.s64 %d4, %d4, %d20; st.global.u32 [%d4+8], %r20; {fence} bar.sync 0;
    setp.ne.u32 %p2, %r20, 0; @%p2 bra end; atom.global.add.u32 %r4, [%d20], 1; bra end;
    second: setp.ne.u32 %p2, %r20, 0; @%p2 bra wait;
    spin: atom.global.add.u32 %r5, [%d20], 0; setp.eq.u32 %p3, %r5, 0; @%p3 bra spin; {fence}
    wait: bar.sync 0; mul.wide.u32 %d4, %r20, 4; add.s64 %d4, %d4, %d20; ld.global.u32 %r6, [%d4+8];
    add.s64 %d5, %d21, %d18; st.global.u32 [%d5], %r6; end:
"""
