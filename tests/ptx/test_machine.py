"""Instructions of several threads: branches, barriers, shared memory, warps, atomics, calls, memory of all kinds."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from .launch import Buffer, pointer, run
from .snippets import HEAD, buffers, kernel, on_warps, with_pointers

_RANDOM = np.random.default_rng()
_ALL = "0xffffffff"


def _words(n: int, high: int = 1 << 32) -> Any:
    return _RANDOM.integers(0, high, n, np.uint64).astype(np.uint32)


_IN = "add.s64 %d1, %d20, %d18; ld.global.u32 %r1, [%d1];"
_OUT = "add.s64 %d2, %d21, %d18; st.global.u32 [%d2], %r2;"


# -- where a thread is -------------------------------------------------------------------------------------------------


def test_threads_know_their_place_in_three_dimensions() -> None:
    names = ["tid", "ntid", "ctaid", "nctaid"]
    reads = "\n".join(
        f"mov.u32 %r2, %{name}.{axis}; st.global.u32 [%d2+{4 * (3 * k + a)}], %r2;"
        for k, name in enumerate(names)
        for a, axis in enumerate("xyz")
    )
    grid, block = (2, 3, 2), (5, 2, 3)
    body = """
    mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ctaid.y; mov.u32 %r5, %ctaid.z;
    mad.lo.u32 %r4, %r5, 3, %r4; mad.lo.u32 %r3, %r4, 2, %r3;
    mov.u32 %r6, %tid.x; mov.u32 %r7, %tid.y; mov.u32 %r8, %tid.z;
    mad.lo.u32 %r7, %r8, 2, %r7; mad.lo.u32 %r6, %r7, 5, %r6; mad.lo.u32 %r3, %r3, 30, %r6;
    mul.wide.u32 %d1, %r3, 48; add.s64 %d2, %d20, %d1;
    """
    out = np.full((12, 30, 12), -1, np.int32)
    run(with_pointers(1, body + reads), grid, block, buffers(out))
    places = itertools.product(*(range(size) for size in (2, 3, 2, 3, 2, 5)))
    for row, (cz, cy, cx, tz, ty, tx) in zip(out.reshape(-1, 12).tolist(), places, strict=True):
        assert row == [tx, ty, tz, *block, cx, cy, cz, *grid]


def test_lanes_and_their_masks() -> None:
    names = ["laneid", "warpid", "lanemask_eq", "lanemask_lt", "lanemask_le", "lanemask_gt", "lanemask_ge"]
    out = np.zeros((7, 2 * 40), np.uint32)
    body = "".join(f"mov.u32 %r2, %{name}; st.global.u32 [%d2+{320 * k}], %r2;" for k, name in enumerate(names))
    on_warps(f"add.s64 %d2, %d20, %d18; {body}", 2, 40, out)
    thread = np.arange(80) % 40
    lane = (thread % 32).tolist()
    whole = (1 << 32) - 1
    np.testing.assert_array_equal(out[0], lane)
    np.testing.assert_array_equal(out[1], thread // 32)
    np.testing.assert_array_equal(out[2], [1 << k for k in lane])
    np.testing.assert_array_equal(out[3], [(1 << k) - 1 for k in lane])
    np.testing.assert_array_equal(out[4], [(2 << k) - 1 for k in lane])
    np.testing.assert_array_equal(out[5], [whole & -(2 << k) for k in lane])
    np.testing.assert_array_equal(out[6], [whole & -(1 << k) for k in lane])


# -- branches ----------------------------------------------------------------------------------------------------------


def test_a_loop_that_each_thread_leaves_in_its_own_time() -> None:
    """The steps of Collatz's sequence."""
    body = f"""{_IN}
    mov.u32 %r2, 0;
    again: setp.eq.u32 %p1, %r1, 1; @%p1 bra done;
    and.b32 %r3, %r1, 1; setp.eq.b32 %p2, %r3, 0; @%p2 bra even;
    mad.lo.u32 %r1, %r1, 3, 1; bra.uni next;
    even: shr.u32 %r1, %r1, 1;
    next: add.u32 %r2, %r2, 1; bra again;
    done: {_OUT}"""
    start, out = _words(96, 500) + np.uint32(1), np.zeros(96, np.uint32)
    on_warps(body, 2, 48, start.copy(), out)
    for value, steps in zip(start.tolist(), out.tolist(), strict=True):
        expected = 0
        while value != 1:
            value = 3 * value + 1 if value % 2 else value // 2
            expected += 1
        assert steps == expected


def test_a_branch_by_a_table() -> None:
    body = f"""{_IN}
    and.b32 %r1, %r1, 3; mov.u32 %r2, 9;
    places: .branchtargets none, ten, twenty, ten;
    brx.idx %r1, places;
    ten: mov.u32 %r2, 10; bra none;
    twenty: mov.u32 %r2, 20;
    none: {_OUT}"""
    index, out = _words(64), np.zeros(64, np.uint32)
    on_warps(body, 1, 64, index, out)
    np.testing.assert_array_equal(out, np.array([9, 10, 20, 10])[index & 3])


def test_guards_leave_what_was_there() -> None:
    body = f"""{_IN}
    mov.u32 %r2, 5; setp.gt.u32 %p1, %r1, 9; setp.eq.u32 %p3, %r1, 1000;
    @%p1 add.u32 %r2, %r1, 1; @!%p1 mov.u32 %r2, 3; @%p3 mov.u32 %r2, 0; @%p1 ret; {_OUT}"""
    values, out = _words(64, 20), np.full(64, 77, np.uint32)
    on_warps(body, 1, 64, values, out)
    np.testing.assert_array_equal(out, np.where(values > 9, 77, 3))


def test_calls_are_put_in_their_place() -> None:
    before = """
    .func (.param .b32 back) twice(.param .b32 given, .param .b64 where) {
        .reg .b32 %r<4>; .reg .b64 %d<3>; .reg .pred %p<2>;
        ld.param.u32 %r1, [given]; ld.param.u64 %d1, [where];
        setp.gt.u32 %p1, %r1, 100; @%p1 bra large;
        add.u32 %r2, %r1, %r1; st.param.b32 [back+0], %r2; ret;
        large: mov.u32 %r3, 1; st.param.b32 [back], %r3; ret;
    }"""

    def call(target: str, value: str) -> str:
        return f"""{{ .param .b32 p_in; st.param.b32 [p_in+0], {value}; .param .b64 p_at; st.param.b64 [p_at], %d20;
        .param .b32 p_out; call.uni (p_out), twice, (p_in, p_at); ld.param.b32 {target}, [p_out+0]; }}"""

    body = f"{_IN} {call('%r3', '%r1')} {call('%r2', '%r3')} {_OUT}"
    values, out = _words(64, 200), np.zeros(64, np.uint32)
    on_warps(body, 1, 64, values, out, before=before)
    once = np.where(values > 100, 1, 2 * values)
    np.testing.assert_array_equal(out, np.where(once > 100, 1, 2 * once))


# -- shared memory and barriers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 31, 64, 100])
def test_a_block_turns_its_values_around(threads: int) -> None:
    body = f"""{_IN}
    mov.u64 %d3, box; mul.wide.u32 %d4, %r20, 4; add.s64 %d5, %d3, %d4; st.shared.u32 [%d5], %r1;
    bar.sync 0;
    sub.u32 %r4, %r23, %r20; mul.wide.u32 %d6, %r4, 4; add.s64 %d7, %d3, %d6; ld.shared.u32 %r2, [%d7-4];
    {_OUT}"""
    values, out = _words(3 * threads), np.zeros(3 * threads, np.uint32)
    on_warps(body, 3, threads, values, out, before=".shared .align 4 .b8 box[400];")
    np.testing.assert_array_equal(out.reshape(3, -1), values.reshape(3, -1)[:, ::-1])


def test_memory_told_at_the_launch_and_generic_addresses() -> None:
    body = f"""{_IN}
    mov.u64 %d3, box; cvta.shared.u64 %d3, %d3; mul.wide.u32 %d4, %r20, 4; add.s64 %d5, %d3, %d4; st.u32 [%d5], %r1;
    isspacep.shared %p1, %d5; isspacep.global %p2, %d5; bar.sync 0;
    xor.b32 %r4, %r20, 1; mul.wide.u32 %d6, %r4, 4; add.s64 %d7, %d3, %d6;
    and.b32 %r5, %r20, 2; setp.eq.u32 %p3, %r5, 0; selp.b64 %d7, %d7, %d1, %p3; ld.u32 %r2, [%d7];
    @!%p1 mov.u32 %r2, 0; @%p2 mov.u32 %r2, 0; {_OUT}"""
    values, out = _words(32), np.zeros(32, np.uint32)
    text = with_pointers(2, "mul.wide.u32 %d18, %r20, 4;" + body, ".extern .shared .align 16 .b8 box[];")
    run(text, 1, 32, buffers(values, out), dynamic_shared=128)
    index = np.arange(32)
    np.testing.assert_array_equal(out, values[np.where(index & 2, index, index ^ 1)])


def test_barriers_that_count_the_block() -> None:
    body = f"""{_IN}
    setp.gt.u32 %p1, %r1, 4; bar.red.popc.u32 %r2, 0, %p1; barrier.cta.red.and.pred %p2, 0, !%p1;
    barrier.cta.red.or.pred %p3, 0, %p1; @%p2 add.u32 %r2, %r2, 1000; @%p3 add.u32 %r2, %r2, 2000; {_OUT}"""
    values, out = (
        np.concatenate([_words(40, 10), np.full(40, 9, np.uint32), np.zeros(40, np.uint32)]),
        np.zeros(120, np.uint32),
    )
    on_warps(body, 3, 40, values, out)
    for row, result in zip(values.reshape(3, 40), out.reshape(3, 40), strict=True):
        high = row > 4
        assert set(result.tolist()) == {int(high.sum()) + 1000 * int(not high.any()) + 2000 * int(high.any())}


def test_threads_that_are_gone_are_not_waited_for() -> None:
    body = f"{_IN} setp.lt.u32 %p1, %r20, 20; @%p1 ret; bar.sync 0; mov.u32 %r2, 1; {_OUT}"
    out = np.zeros(40, np.uint32)
    on_warps(body, 1, 40, _words(40), out)
    np.testing.assert_array_equal(out, np.arange(40) >= 20)


# -- warps -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [32, 16, 8, 4, 2])
@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shuffles_within_segments(mode: str, width: int) -> None:
    """Compute lanes as the documentation of CUDA's ``__shfl_sync`` and its variants with a width."""
    control = 32 - width << 8 | (0 if mode == "up" else 31)
    for step in {0, 1, 3 % width, width - 1}:
        body = f"{_IN} shfl.sync.{mode}.b32 %r2|%p1, %r1, {step}, {control}, {_ALL}; @!%p1 add.u32 %r2, %r2, 1; {_OUT}"
        values, out = _words(64), np.zeros(64, np.uint32)
        on_warps(body, 1, 64, values, out)
        for thread in range(64):
            own = thread % width
            other = {"up": own - step, "down": own + step, "bfly": own ^ step, "idx": step % width}[mode]
            found = 0 <= other < width
            expected = int(values[thread - own + other]) if found else int(values[thread]) + 1
            assert out[thread] == expected % (1 << 32), (mode, width, step, thread)


def test_a_sum_over_a_warp() -> None:
    steps = "".join(f"shfl.sync.bfly.b32 %r3, %r2, {k}, 31, {_ALL}; add.u32 %r2, %r2, %r3;" for k in (16, 8, 4, 2, 1))
    values, out = _words(96), np.zeros(96, np.uint32)
    on_warps(f"{_IN} mov.u32 %r2, %r1; {steps} {_OUT}", 3, 32, values, out)
    sums = values.reshape(3, 32).sum(1, dtype=np.uint32)
    np.testing.assert_array_equal(out, np.repeat(sums, 32))


def test_votes() -> None:
    body = f"""{_IN}
    setp.gt.u32 %p1, %r1, 4; vote.sync.ballot.b32 %r2, %p1, {_ALL}; vote.sync.all.pred %p2, %p1, {_ALL};
    vote.sync.any.pred %p3, %p1, {_ALL}; vote.sync.uni.pred %p4, %p1, {_ALL};
    selp.u32 %r3, 1, 0, %p2; selp.u32 %r4, 2, 0, %p3; selp.u32 %r5, 4, 0, %p4; add.u32 %r3, %r3, %r4;
    add.u32 %r3, %r3, %r5;
    {_OUT} add.s64 %d3, %d22, %d18; st.global.u32 [%d3], %r3;"""
    values = np.concatenate([_words(32, 10), np.full(32, 9, np.uint32), np.zeros(32, np.uint32), _words(7, 10)])
    out, other = np.zeros(103, np.uint32), np.zeros(103, np.uint32)
    on_warps(body, 1, 103, values, out, other)
    for start in (0, 32, 64, 96):
        high = (values[start : start + 32] > 4).tolist()
        assert set(out[start : start + 32].tolist()) == {sum(bit << k for k, bit in enumerate(high))}
        expected = all(high) + 2 * any(high) + 4 * (all(high) or not any(high))
        assert set(other[start : start + 32].tolist()) == {expected}


def test_matches_and_reductions() -> None:
    body = f"""{_IN}
    match.any.sync.b32 %r2, %r1, {_ALL}; match.all.sync.b32 %r3|%p1, %r1, {_ALL}; redux.sync.add.u32 %r4, %r1, {_ALL};
    redux.sync.max.s32 %r5, %r1, {_ALL}; redux.sync.xor.b32 %r6, %r1, {_ALL}; @%p1 add.u32 %r4, %r4, %r3;
    {_OUT} add.s64 %d3, %d22, %d18; st.global.u32 [%d3], %r4;
    add.s64 %d3, %d23, %d18; st.global.u32 [%d3], %r5; add.s64 %d3, %d24, %d18; st.global.u32 [%d3], %r6;"""
    values = np.concatenate([_words(32, 4), np.full(32, 9, np.uint32), _words(32)])
    outs = [np.zeros(96, np.uint32) for _ in range(4)]
    on_warps(body, 1, 96, values, *outs)
    for start in (0, 32, 64):
        own = values[start : start + 32]
        same = [sum(int(own[k] == own[j]) << j for j in range(32)) for k in range(32)]
        assert outs[0][start : start + 32].tolist() == same
        everyone = 0xFFFFFFFF if (own == own[0]).all() else 0
        assert outs[1][start] == (int(own.sum(dtype=np.uint32)) + everyone) % (1 << 32)
        assert outs[2].view(np.int32)[start] == own.view(np.int32).max()
        assert outs[3][start] == np.bitwise_xor.reduce(own)


def test_half_a_warp_meets() -> None:
    body = f"""{_IN}
    and.b32 %r3, %r20, 16; setp.eq.u32 %p1, %r3, 0; @%p1 bra low;
    shfl.sync.bfly.b32 %r2, %r1, 1, 31, 0xffff0000; activemask.b32 %r4; xor.b32 %r2, %r2, %r4; bra done;
    low: shfl.sync.bfly.b32 %r2, %r1, 2, 31, 0x0000ffff; activemask.b32 %r4; xor.b32 %r2, %r2, %r4;
    done: {_OUT}"""
    values, out = _words(32), np.zeros(32, np.uint32)
    on_warps(body, 1, 32, values, out)
    index = np.arange(32)
    masks = np.where(index < 16, 0x0000FFFF, 0xFFFF0000).astype(np.uint32)
    np.testing.assert_array_equal(out, values[np.where(index < 16, index ^ 2, index ^ 1)] ^ masks)


# -- memory ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["u8", "s8", "u16", "s16", "u32", "s32", "u64"])
def test_loads_and_stores_of_every_width(kind: str) -> None:
    size = int(kind[1:]) // 8
    dtype = {"u": "uint", "s": "int"}[kind[0]] + kind[1:]
    values = _RANDOM.integers(0, 256, 16 * size, np.uint8).view(dtype)
    wide = np.zeros(16, np.int64 if kind[0] == "s" else np.uint64)
    back = np.zeros_like(values)
    body = f"""
    mad.lo.s64 %d1, %d19, {size}, %d20; mad.lo.s64 %d2, %d19, 8, %d21; mad.lo.s64 %d3, %d19, {size}, %d22;
    ld.global.nc.{kind} %d4, [%d1]; st.global.u64 [%d2], %d4; st.global.b{8 * size} [%d3], %d4;"""
    run(with_pointers(3, body), 1, 16, buffers(values, wide, back))
    np.testing.assert_array_equal(wide, values)
    np.testing.assert_array_equal(back, values)


def test_vectors() -> None:
    body = """
    mad.lo.s64 %d1, %d19, 16, %d20; mad.lo.s64 %d2, %d19, 16, %d21;
    ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d1]; st.global.v2.u32 [%d2], {%r4, %r3};
    st.global.v2.u32 [%d2+8], {%r2, %r1};
    ld.global.v4.u8 {%h1, %h2, %h3, %h4}, [%d1]; mad.lo.s64 %d3, %d19, 4, %d22;
    st.global.v4.u8 [%d3], {%h4, %h3, %h2, %h1};"""
    values, out, small = _words(32), np.zeros(32, np.uint32), np.zeros(32, np.uint8)
    run(with_pointers(3, body), 1, 8, buffers(values, out, small))
    np.testing.assert_array_equal(out.reshape(8, 4), values.reshape(8, 4)[:, ::-1])
    np.testing.assert_array_equal(small.reshape(8, 4), values.view(np.uint8).reshape(8, 16)[:, 3::-1])


def test_variables_with_values() -> None:
    before = """.const .align 4 .u32 lut[4] = {1, 22, 333, 0xffffffff};
    .global .align 1 .b8 bytes[3] = {7, 8, 9}; .visible .global .align 8 .u64 empty;"""
    body = f"""
    and.b32 %r1, %r21, 3; mul.wide.u32 %d3, %r1, 4; mov.u64 %d4, lut; add.s64 %d4, %d4, %d3; ld.const.u32 %r2, [%d4];
    ld.global.u8 %r3, [bytes+1]; add.u32 %r2, %r2, %r3; ld.global.u64 %d5, [empty]; cvt.u32.u64 %r4, %d5;
    add.u32 %r2, %r2, %r4; {_OUT.replace("%d21", "%d20")}"""
    out = np.zeros(8, np.uint32)
    on_warps(body, 1, 8, out, before=before)
    np.testing.assert_array_equal(out, (np.array([1, 22, 333, 2**32 - 1] * 2, np.uint64) + 8).astype(np.uint32))


def test_memory_of_each_thread() -> None:
    body = f""".local .align 8 .b8 depot[16]; {_IN}
    mov.u64 %d3, depot; cvta.local.u64 %d4, %d3; st.local.u32 [%d3+8], %r1; st.u32 [%d4+4], %r20; bar.sync 0;
    ld.u32 %r2, [%d4+8]; ld.local.u32 %r3, [%d3+4]; xor.b32 %r2, %r2, %r3; {_OUT}"""
    values, out = _words(50), np.zeros(50, np.uint32)
    on_warps(body, 1, 50, values, out)
    np.testing.assert_array_equal(out, values ^ np.arange(50, dtype=np.uint32))


# -- atomics -----------------------------------------------------------------------------------------------------------

_ATOMICS: dict[str, Any] = {
    "add.u32": lambda old, v: (old + v) % (1 << 32),
    "max.u32": max,
    "min.u32": min,
    "and.b32": int.__and__,
    "or.b32": int.__or__,
    "xor.b32": int.__xor__,
    "exch.b32": lambda old, v: v,
    "inc.u32": lambda old, v: 0 if old >= v else old + 1,
    "dec.u32": lambda old, v: v if old == 0 or old > v else old - 1,
}


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("name", _ATOMICS)
def test_atomics_take_turns(name: str, space: str) -> None:
    """Each thread finds what those before it left."""
    body = f"""{_IN}
    mov.u64 %d3, box; and.b32 %r3, %r20, 1; mul.wide.u32 %d4, %r3, 4; mov.u32 %r5, 12;
    setp.lt.u32 %p1, %r20, 2; add.s64 %d5, %d3, %d4; @%p1 st.{space}.u32 [%d5], %r5; bar.sync 0;
    atom.{space}.{name} %r2, [%d5], %r1; bar.sync 0; ld.{space}.u32 %r6, [%d5]; {_OUT}
    add.s64 %d6, %d22, %d18; st.global.u32 [%d6], %r6;"""
    values = _words(64, 30)
    found, last = np.zeros(64, np.uint32), np.zeros(64, np.uint32)
    on_warps(body, 1, 64, values, found, last, before=f".{space} .align 8 .b8 box[8];")
    for parity in (0, 1):
        word = 12
        for thread in range(parity, 64, 2):
            assert found[thread] == word
            word = _ATOMICS[name](word, int(values[thread]))
        assert set(last[parity::2].tolist()) == {word}


def test_reductions_without_a_result_and_of_floats() -> None:
    body = f"""{_IN}
    red.global.add.u32 [%d21], %r1; atom.global.max.u32 %r9, [%d21+4], %r1; cvt.rn.f32.u32 %f1, %r1;
    red.global.add.f32 [%d21+8], %f1; atom.relaxed.gpu.global.add.u64 %d9, [%d21+16], 1;"""
    values, out = _words(300, 100), np.zeros(6, np.uint32)
    on_warps(body, 3, 100, values, out)
    assert out[0] == values.sum()
    assert out[1] == values.max()
    assert out[2:3].view(np.float32)[0] == values.sum()
    assert out[4] == 300


def test_compare_and_swap_as_a_lock() -> None:
    """Every thread adds to a word that a lock guards, in its own turn."""
    body = """
    again: atom.acquire.gpu.global.cas.b32 %r2, [%d20], 0, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra again;
    ld.volatile.global.u32 %r3, [%d20+4]; add.u32 %r3, %r3, 1; st.volatile.global.u32 [%d20+4], %r3; membar.gl;
    atom.release.gpu.global.exch.b32 %r4, [%d20], 0;"""
    out = np.zeros(2, np.uint32)
    run(with_pointers(1, body), 2, 5, buffers(out))
    assert out.tolist() == [0, 10]


_HANDED = """
    setp.ne.u32 %p1, %r22, 0; @%p1 bra second;
    mul.wide.u32 %d4, %r20, 4; add.s64 %d4, %d4, %d20; st.global.u32 [%d4+8], %r20; {fence} bar.sync 0;
    setp.ne.u32 %p2, %r20, 0; @%p2 ret; atom.global.exch.b32 %r4, [%d20], 1; ret;
    second: setp.ne.u32 %p2, %r20, 0; @%p2 bra wait;
    spin: ld.volatile.global.u32 %r5, [%d20]; setp.eq.u32 %p3, %r5, 0; @%p3 bra spin; {fence}
    wait: bar.sync 0; mul.wide.u32 %d4, %r20, 4; add.s64 %d4, %d4, %d20; ld.global.u32 %r6, [%d4+8];
    add.s64 %d5, %d21, %d18; st.global.u32 [%d5], %r6;
"""


def test_one_block_hands_values_to_another() -> None:
    words, out = np.zeros(66, np.uint32), np.zeros(128, np.uint32)
    on_warps(_HANDED.format(fence="membar.gl;"), 2, 64, words, out)
    np.testing.assert_array_equal(out[64:], np.arange(64))


# -- several kernels ---------------------------------------------------------------------------------------------------


def test_a_kernel_is_picked_by_its_name() -> None:
    out = np.zeros(1, np.uint32)
    one, two = (
        kernel(
            ".param .u64 p0", f"ld.param.u64 %d1, [p0]; mov.u32 %r1, {k}; st.global.u32 [%d1], %r1; ret;", name=f"k{k}"
        )
        for k in (1, 2)
    )
    text = one + two.removeprefix(HEAD)
    for k in (1, 2):
        run(text, 1, 1, [Buffer(out, pack=pointer)], name=f"k{k}")
        assert out[0] == k


def test_parameters_of_every_size() -> None:
    parameters = ".param .u8 a, .param .u16 b, .param .f32 c, .param .align 8 .b8 d[12], .param .u64 e, .param .u64 p0"
    body = """ld.param.u8 %r1, [a]; ld.param.u16 %r2, [b]; ld.param.f32 %f1, [c]; ld.param.u32 %r3, [d+8];
    ld.param.u64 %d2, [e]; ld.param.u64 %d1, [p0]; st.global.u32 [%d1], %r1; st.global.u32 [%d1+4], %r2;
    st.global.f32 [%d1+8], %f1;
    st.global.u32 [%d1+12], %r3; st.global.u64 [%d1+16], %d2; ret;"""
    out = np.zeros(6, np.uint32)
    structure = np.arange(12, dtype=np.uint8).tobytes()
    run(
        kernel(parameters, body),
        1,
        1,
        [np.uint8(200), np.uint16(1000), np.float32(1.5), structure, -1, Buffer(out, pack=pointer)],
    )
    assert out.tolist() == [200, 1000, 0x3FC00000, 0x0B0A0908, 0xFFFFFFFF, 0xFFFFFFFF]
