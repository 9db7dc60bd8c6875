"""Faults that are put into small programs on purpose; each must be named, with its instruction and its thread."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from .fault import Fault
from .launch import Buffer, pointer, run
from .snippets import HANDED, on_warps, with_pointers

_ALL = "0xffffffff"


def _zeros(n: int) -> Any:
    return np.zeros(n, np.uint32)


def _named(message: str) -> Any:
    return pytest.raises(Fault, match=re.escape(message))


# -- memory ------------------------------------------------------------------------------------------------------------

_LOAD = "add.s64 %d1, %d20, %d18; ld.global.u32 %r1, [%d1{}];"
_STRIDE = "mul.wide.u32 %d2, %r20, {}; add.s64 %d1, %d20, %d2; ld.global.u32 %r1, [%d1];"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (_LOAD.format("+4"), r"line \d+: ld.global.u32 %r1, \[%d1\+4\]: thread \(15, 0, 0\) of block \(0, 0, 0\) reads "
                             r"4 bytes at byte 64 of a \(64 bytes\), out of bounds; so do 1 threads"),
        (_LOAD.format("-4"), r"thread \(0, 0, 0\) of block \(0, 0, 0\) reads 4 bytes at byte -4 of a \(64 bytes\)"),
        (_STRIDE.format(2), "reads 4 bytes at 0x[0-9a-f]+, misaligned; so do 8 threads"),
        (_STRIDE.format(8), r"reads 4 bytes at byte 64 of a \(64 bytes\), out of bounds; so do 8 threads"),
        ("mov.u64 %d1, 0; ld.global.u32 %r1, [%d1];", "reads at 0x0: no buffer"),
        ("mov.u64 %d1, one; mul.wide.u32 %d2, %r20, 4; add.s64 %d1, %d1, %d2; st.shared.u32 [%d1], %r20;",
         "writes 4 bytes at byte 16 of one, out of bounds; so do 12 threads"),
        ("ld.shared.u32 %r1, [one+4];", "reads 4 bytes of shared memory that nothing"),
        ("div.s32 %r1, %r21, %r20;", "div.s32 %r1, %r21, %r20: a division by zero"),
    ],
)  # fmt: skip
def test_accesses_and_results_that_are_not_defined(body: str, said: str) -> None:
    with pytest.raises(Fault, match=said):
        on_warps(body, 1, 16, _zeros(16), before=".shared .align 4 .b8 one[16];\n.shared .align 4 .b8 two[16];")


def test_bytes_that_nothing_wrote() -> None:
    known = np.zeros(16, np.bool_)
    text = with_pointers(1, "mad.lo.s64 %d1, %d19, 8, %d20; st.global.u16 [%d1+2], 5;")
    run(text, 1, 2, [Buffer(_zeros(4), "a", known, pointer)])
    assert np.flatnonzero(known).tolist() == [2, 3, 10, 11]
    known[:12] = True
    text = with_pointers(1, "mad.lo.s64 %d1, %d19, 4, %d20; ld.global.u32 %r1, [%d1];")
    with _named("thread (3, 0, 0) of block (0, 0, 0) reads 4 bytes of a that nothing wrote"):
        run(text, 1, 4, [Buffer(_zeros(4), "a", known, pointer)])


# -- races -------------------------------------------------------------------------------------------------------------


def _turn(between: str, other: int, after: str = "") -> Any:
    """Values that the threads of a block exchange in shared memory."""
    body = f"""
    mul.wide.u32 %d3, %r20, 4; mov.u64 %d4, box; add.s64 %d3, %d4, %d3; st.shared.u32 [%d3], %r20; {between}
    xor.b32 %r2, %r20, {other}; mul.wide.u32 %d5, %r2, 4; add.s64 %d5, %d4, %d5; ld.shared.u32 %r3, [%d5]; {after}
    add.s64 %d6, %d20, %d18; st.global.u32 [%d6], %r3;"""
    out = _zeros(64)
    on_warps(body, 1, 64, out, before=".shared .align 4 .b8 box[256];")
    return out


def test_missing_barriers() -> None:
    assert _turn("bar.sync 0;", 63).tolist() == [k ^ 63 for k in range(64)]
    with pytest.raises(
        Fault,
        match=r"race at byte 0 of shared memory: thread \(0, 0, 0\) of block \(0, 0, 0\) writes at line \d+: "
        r"st.shared.u32 \[%d3\], %r20; thread \(63, 0, 0\) of block \(0, 0, 0\) reads at line \d+: ld.shared.u32.*no "
        "barrier between; 64 such",
    ):
        _turn("", 63)
    with _named("no barrier between"):
        _turn("bar.sync 0;", 1, "st.shared.u32 [%d3], 5;")
    _turn("bar.sync 0;", 1, "bar.sync 0; st.shared.u32 [%d3], 5;")
    _turn(f"bar.warp.sync {_ALL};", 1)
    with _named("no barrier between; 64 such words"):
        _turn(f"bar.warp.sync {_ALL};", 32)
    with _named("no barrier between"):  # a shuffle is none
        _turn(f"shfl.sync.down.b32 %r9|%p9, %r20, 0, 31, {_ALL};", 1)


_ADD = "atom.global.add.u32 %r1, [%d20], 1;"
_BYTES = "add.s64 %d1, %d20, %d19; st.global.u8 [%d1], %r20;"


@pytest.mark.parametrize(
    ("body", "blocks", "said"),
    [
        ("st.global.u32 [%d20], %r20;", 1, r"race at byte 0 of a: thread \(0, 0, 0\) of block \(0, 0, 0\) writes"),
        (f"{_BYTES} setp.ne.u32 %p1, %r20, 0; @%p1 bra end; ld.global.u16 %h1, [%d20]; end:", 1, "race at byte 1 of a"),
        (_BYTES, 1, ""),  # bytes of one word are no race
        ("setp.ne.u32 %p1, %r20, 1; @%p1 bra end; bar.sync 0; st.global.u32 [%d20], %r22; end:", 2,
         r"thread \(1.* of block \(0, .*thread \(1.* of block \(1.*no order between blocks"),
        (f"{_ADD} ld.global.u32 %r2, [%d20];", 1, r"writes \(atomic\) at line"),
        (f"{_ADD} bar.sync 0; ld.global.u32 %r2, [%d20];", 1, ""),
        (f"{_ADD} bar.sync 0; ld.global.u32 %r2, [%d20];", 2, "no order between blocks"),
    ],
)  # fmt: skip
def test_races_in_global_memory(body: str, blocks: int, said: str) -> None:
    if not said:
        on_warps(body, blocks, 2, _zeros(1))
        return
    with pytest.raises(Fault, match=said):
        on_warps(body, blocks, 2, _zeros(1))


def test_flags_without_fences() -> None:
    with _named("no order between blocks"):
        on_warps(HANDED.format(fence=""), 2, 64, _zeros(66), _zeros(128))


# -- threads that do not meet ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("threads", "body", "said"),
    [
        (64, "setp.lt.u32 %p1, %r20, 5; @%p1 bra other; bar.sync 0; bra end; other: bar.sync 1; end:",
         "waits for threads that never come; threads wait at: .*bar.sync 0.*bar.sync 1"),
        (32, "setp.lt.u32 %p1, %r20, 5; @%p1 bra other; bar.sync 0; bra end; other: bar.sync 0; end:",
         r"threads of one warp wait at different barriers: line \d+: bar.sync 0 and line \d+: bar.sync 0"),
        (32, "setp.lt.u32 %p1, %r20, 16; @%p1 bra end; bar.sync 0;"
             f"shfl.sync.up.b32 %r1|%p2, %r20, 1, 0, {_ALL}; end:", "reads from lane 15, which is not there"),
        (32, "shfl.sync.up.b32 %r1|%p2, %r20, 0, 0, 1;", "is not among its own members 0x1"),
        (32, f"setp.lt.u32 %p1, %r20, 16; selp.u32 %r2, {_ALL}, 0xffff0000, %p1;"
             "shfl.sync.up.b32 %r1|%p2, %r20, 0, 0, %r2;", "names the members"),
    ],
)  # fmt: skip
def test_threads_that_do_not_meet(threads: int, body: str, said: str) -> None:
    with pytest.raises(Fault, match=said):
        on_warps(body, 1, threads, _zeros(1))
