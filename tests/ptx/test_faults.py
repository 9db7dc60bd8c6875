"""Faults that are put into programs on purpose; each must be named, with its instruction and its thread."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from .fault import Fault
from .launch import Buffer, pointer, run
from .snippets import buffers, kernel, on_warps, with_pointers
from .test_machine import _HANDED

_ALL = "0xffffffff"


def _zeros(n: int) -> Any:
    return np.zeros(n, np.uint32)


def _named(message: str) -> Any:
    return pytest.raises(Fault, match=re.escape(message))


def _told(pattern: str) -> Any:
    return pytest.raises(Fault, match=pattern)


# -- bounds and alignment ----------------------------------------------------------------------------------------------

_LOAD = "add.s64 %d1, %d20, %d18; ld.global.u32 %r1, [%d1{0}];"


@pytest.mark.parametrize(
    ("offset", "where"),
    [("+4", r"thread \(15, 0, 0\) of block \(0, 0, 0\) reads 4 bytes at byte 64 of a \(64 bytes\)"),
     ("-4", r"thread \(0, 0, 0\) of block \(0, 0, 0\) reads 4 bytes at byte -4 of a \(64 bytes\)")],
)  # fmt: skip
def test_a_load_one_word_off(offset: str, where: str) -> None:
    with _told(rf"line \d+: ld.global.u32 %r1, \[%d1\{offset}\]: {where}, out of bounds; so do 1 threads"):
        on_warps(_LOAD.format(offset), 1, 16, _zeros(16))


def test_a_store_by_one_thread_too_many() -> None:
    array = _zeros(100)
    view = array[:50]  # what lies behind belongs to the process, but not to the argument
    with _told(r"thread \(18, 0, 0\) of block \(1, 0, 0\) writes 4 bytes at byte 200 of a \(200 bytes\).*14 threads"):
        on_warps("add.s64 %d1, %d20, %d18; st.global.u32 [%d1], %r21;", 2, 32, view)
    assert not array.any()


def test_the_last_byte_of_a_wide_load() -> None:
    with _named("reads 8 bytes at byte 8 of a (12 bytes)"):
        on_warps(
            "mad.lo.s64 %d1, %d19, 8, %d20; ld.global.v2.u32 {%r1, %r2}, [%d1];", 1, 2, np.zeros(64, np.uint32)[:3]
        )


def test_a_wrong_stride_is_misaligned_or_beyond() -> None:
    body = "mul.wide.u32 %d2, %r20, {}; add.s64 %d1, %d20, %d2; ld.global.u32 %r1, [%d1];"
    with _told("reads 4 bytes at 0x[0-9a-f]+, misaligned; so do 8 threads"):
        on_warps(body.format(2), 1, 16, _zeros(16))
    with _named("reads 4 bytes at byte 64 of a (64 bytes), out of bounds; so do 8 threads"):
        on_warps(body.format(8), 1, 16, _zeros(16))


def test_a_buffer_that_is_itself_misaligned() -> None:
    memory = np.zeros(68, np.uint8)
    with _named("misaligned; so do 16 threads"):
        on_warps(_LOAD.format(""), 1, 16, memory[1:65])
    odd = 1 - memory.__array_interface__["data"][0] % 2  # an odd address, whatever NumPy gave
    with _named("misaligned"):
        on_warps("ld.global.u16 %h1, [%d20];", 1, 1, memory[odd : odd + 16])


def test_no_buffer_at_all() -> None:
    with _named("reads at 0x0: no buffer"):
        on_warps("mov.u64 %d1, 0; ld.global.u32 %r1, [%d1];", 1, 1, _zeros(1))


def test_memory_that_may_only_be_read() -> None:
    array = _zeros(4)
    array.flags.writeable = False
    with _named("st.global.u32 [%d20], %r20: writes to a, which may only be read"):
        on_warps("st.global.u32 [%d20], %r20;", 1, 1, array)
    with _named("writes to lut, which may only be read"):
        on_warps("st.global.u32 [lut], %r20;", 1, 1, _zeros(1), before=".const .align 4 .u32 lut[1] = {1};")


def test_a_shared_variable_is_not_its_neighbor() -> None:
    before = ".shared .align 4 .b8 one[16];\n.shared .align 4 .b8 two[16];"
    with _named(r"writes 4 bytes at byte 16 of one, out of bounds; so do 1 threads"):
        on_warps(
            "mov.u64 %d1, one; mul.wide.u32 %d2, %r20, 4; add.s64 %d1, %d1, %d2; st.shared.u32 [%d1], %r20;", 1, 5,
            _zeros(1), before=before,
        )  # fmt: skip


def test_what_nothing_wrote() -> None:
    with _named(
        "ld.shared.u32 %r1, [one+4]: thread (0, 0, 0) of block (0, 0, 0) reads 4 bytes of shared memory that nothing"
    ):
        on_warps(
            "st.shared.u32 [one], %r20; ld.shared.u32 %r1, [one+4];",
            1,
            1,
            _zeros(1),
            before=".shared .align 4 .b8 one[8];",
        )
    known = np.zeros(16, np.bool_)
    known[:12] = True
    text = with_pointers(1, "mad.lo.s64 %d1, %d19, 4, %d20; ld.global.u32 %r1, [%d1];")
    with _named("thread (3, 0, 0) of block (0, 0, 0) reads 4 bytes of a that nothing wrote"):
        run(text, 1, 4, [Buffer(_zeros(4), "a", known, pointer)])


def test_what_a_kernel_wrote_is_told() -> None:
    known = np.zeros(16, np.bool_)
    text = with_pointers(1, "mad.lo.s64 %d1, %d19, 8, %d20; st.global.u16 [%d1+2], 5;")
    run(text, 1, 2, [Buffer(_zeros(4), "a", known, pointer)])
    assert np.flatnonzero(known).tolist() == [2, 3, 10, 11]


# -- races -------------------------------------------------------------------------------------------------------------

_BOX = ".shared .align 4 .b8 box[256];"
_TURNED = """
    mul.wide.u32 %d3, %r20, 4; mov.u64 %d4, box; add.s64 %d3, %d4, %d3; st.shared.u32 [%d3], %r20; {between}
    xor.b32 %r2, %r20, {other}; mul.wide.u32 %d5, %r2, 4; add.s64 %d5, %d4, %d5; ld.shared.u32 %r3, [%d5]; {behind}
    add.s64 %d6, %d20, %d18; st.global.u32 [%d6], %r3;
"""


def _turn(between: str, other: int, behind: str = "") -> Any:
    out = _zeros(64)
    on_warps(_TURNED.format(between=between, other=other, behind=behind), 1, 64, out, before=_BOX)
    return out


def test_a_missing_barrier() -> None:
    assert _turn("bar.sync 0;", 63).tolist() == [k ^ 63 for k in range(64)]
    with _told(
        r"race at byte 0 of shared memory: thread \(0, 0, 0\) of block \(0, 0, 0\) writes at line \d+: st.shared.u32 "
        r"\[%d3\], %r20; thread \(63, 0, 0\) of block \(0, 0, 0\) reads at line \d+: ld.shared.u32.*no barrier "
        "between; 64 such"
    ):
        _turn("", 63)


def test_a_missing_barrier_behind_the_loads() -> None:
    with _named("no barrier between"):
        _turn("bar.sync 0;", 1, "st.shared.u32 [%d3], 5;")
    _turn("bar.sync 0;", 1, "bar.sync 0; st.shared.u32 [%d3], 5;")


def test_a_barrier_of_a_warp_orders_its_own_lanes_only() -> None:
    _turn(f"bar.warp.sync {_ALL};", 1)
    with _named("no barrier between; 64 such words"):
        _turn(f"bar.warp.sync {_ALL};", 32)
    with _named("no barrier between"):  # a shuffle is none
        _turn(f"shfl.sync.idx.b32 %r9, %r20, 0, 31, {_ALL};", 1)


def test_two_threads_that_store_to_one_word() -> None:
    with _named("race at byte 0 of a: thread (0, 0, 0) of block (0, 0, 0) writes"):
        on_warps("st.global.u32 [%d20], %r20;", 1, 2, _zeros(1))
    on_warps("st.global.u32 [%d20], %r20;", 1, 1, _zeros(1))


def test_bytes_of_one_word_are_no_race() -> None:
    out = np.zeros(64, np.uint8)
    on_warps("add.s64 %d1, %d20, %d19; st.global.u8 [%d1], %r20;", 1, 64, out)
    assert out.tolist() == list(range(64))
    with _named("race at byte 1 of a"):  # the upper half of the first, the lower of the second
        on_warps(
            "add.s64 %d1, %d20, %d19; st.global.u8 [%d1], %r20; bar.warp.sync 1; ld.global.u16 %h1, [%d20];", 1, 1, out
        )
        on_warps(
            "add.s64 %d1, %d20, %d19; st.global.u8 [%d1], %r20; setp.ne.u32 %p1, %r20, 0; @%p1 ret;"
            "ld.global.u16 %h1, [%d20];", 1, 2, out,
        )  # fmt: skip


def test_blocks_that_share_a_word() -> None:
    with _told(r"race at byte 0 of a: thread \(5.* of block \(0, .*thread \(5.* of block \(1.*no order between blocks"):
        on_warps("setp.ne.u32 %p1, %r20, 5; @%p1 ret; bar.sync 0; st.global.u32 [%d20], %r22;", 2, 8, _zeros(1))


def test_atomics_mixed_with_plain_accesses() -> None:
    with _named(r"writes (atomic or volatile) at line"):
        on_warps("atom.global.add.u32 %r1, [%d20], 1; ld.global.u32 %r2, [%d20];", 1, 2, _zeros(1))
    on_warps("atom.global.add.u32 %r1, [%d20], 1; bar.sync 0; ld.global.u32 %r2, [%d20];", 1, 2, _zeros(1))
    on_warps("atom.global.add.u32 %r1, [%d20], 1; ld.volatile.global.u32 %r2, [%d20];", 2, 2, _zeros(1))
    with _named("no order between blocks"):
        on_warps("atom.global.add.u32 %r1, [%d20], 1; bar.sync 0; ld.global.u32 %r2, [%d20];", 2, 2, _zeros(1))


def test_values_handed_on_without_a_fence() -> None:
    with _named("no order between blocks"):
        on_warps(_HANDED.format(fence=""), 2, 64, _zeros(66), _zeros(128))


def test_constant_loads_of_what_is_written() -> None:
    with _named("ld.global.nc.u32 %r1, [%d20]: reads byte 0 of a as constant, and the kernel writes it"):
        on_warps("ld.global.nc.u32 %r1, [%d20]; st.global.u32 [%d20], %r1;", 1, 1, _zeros(1))


# -- threads that do not meet ------------------------------------------------------------------------------------------


def test_a_barrier_that_some_never_reach() -> None:
    body = "setp.lt.u32 %p1, %r20, 5; @%p1 bra other; bar.sync 0; ret; other: bar.sync 1;"
    with _told(r"waits for threads that never come; threads wait at: .*bar.sync 0.*bar.sync 1"):
        on_warps(body, 1, 64, _zeros(1))


def test_a_warp_at_two_barriers() -> None:
    body = "setp.lt.u32 %p1, %r20, 5; @%p1 bra other; bar.sync 0; ret; other: bar.sync 0;"
    with _told(r"threads of one warp wait at different barriers: line \d+: bar.sync 0 and line \d+: bar.sync 0"):
        on_warps(body, 1, 32, _zeros(1))
    on_warps(body.replace("bar.sync", "barrier.sync"), 1, 32, _zeros(1))
    on_warps(body.replace("5", "32"), 1, 64, _zeros(1))


def test_members_that_do_not_come_or_do_not_agree() -> None:
    half = "setp.lt.u32 %p1, %r20, 16; @%p1 bra low; {0} ret; low: {1}"
    shuffle = "shfl.sync.idx.b32 %r1, %r20, {}, 31, {};"
    with _named("waits for threads that never come"):
        on_warps(half.format(shuffle.format(16, _ALL), "bar.sync 0;"), 1, 32, _zeros(1))
    with _named("is not among its own members 0x1"):
        on_warps(shuffle.format(0, 1), 1, 32, _zeros(1))
    with _named("reads from lane 20, which is not there"):
        on_warps(shuffle.format(20, _ALL), 1, 17, _zeros(1))
    body = f"setp.lt.u32 %p1, %r20, 16; selp.u32 %r2, {_ALL}, 0xffff0000, %p1; shfl.sync.idx.b32 %r1, %r20, 0, 31, %r2;"
    with _named("names the members"):
        on_warps(body, 1, 32, _zeros(1))


def test_a_loop_without_end() -> None:
    text = with_pointers(1, "mov.u32 %r1, 1; again: add.u32 %r1, %r1, 1; bra again;")
    with _told(r"no end after 500 rounds: thread \(0, 0, 0\) of block \(0, 0, 0\) is at line \d+: add.u32 %r1, %r1, 1"):
        run(text, 1, 32, buffers(_zeros(1)), most_steps=500)


def test_a_flag_that_nobody_sets() -> None:
    text = with_pointers(1, "spin: ld.volatile.global.u32 %r1, [%d20]; setp.eq.u32 %p1, %r1, 0; @%p1 bra spin;")
    with _named("no end after 9000 rounds"):
        run(text, 1, 32, buffers(_zeros(1)), most_steps=9000)


# -- arithmetic and launches -------------------------------------------------------------------------------------------


def test_results_that_are_not_defined() -> None:
    with _named(r"div.s32 %r1, %r21, %r20: a division by zero"):
        on_warps("div.s32 %r1, %r21, %r20;", 1, 2, _zeros(1))
    with _named("trap: thread (1, 0, 0) of block (0, 0, 0) gives up"):
        on_warps("setp.ne.u32 %p1, %r20, 1; @%p1 ret; trap;", 1, 2, _zeros(1))
    with _named("a branch beyond its table"):
        on_warps("to: .branchtargets end; brx.idx %r20, to; end: ret;", 1, 2, _zeros(1))


def test_wrong_parameters() -> None:
    text = kernel(".param .u64 a, .param .u32 b, .param .u64 c", "ret;")
    run(text, 1, 1, [1, np.int32(2), 3])
    for given, said in (
        ([1, np.int32(2)], "takes 3 of 20 bytes, given are 2 of 12; the first that differs is number 2"),
        ([1, 2, 3], "given are 3 of 24; the first that differs is number 1"),
        ([np.int32(2), 1, 3], "the first that differs is number 0"),
        ([np.zeros(4, np.uint8), np.int32(2), 3], "given are 9 of 68; the first that differs is number 1"),
    ):
        with _named(f"wrong parameters: the kernel {said}" if said.startswith("takes") else said):
            run(text, 1, 1, given)


def test_launches_that_are_none() -> None:
    text = kernel("", "ret;", limits=".maxntid 64, 1, 1")
    run(text, (3, 2), (8, 8), [])
    for grid, block in ((1, 65), (0, 1), (1, (1, 1, 65)), ((1, 65536), 1)):
        with _named("cannot be launched: at most 64 threads"):
            run(text, grid, block, [])
    with _named("blocks of (32, 1, 1) threads, where the kernel needs (64, 1, 1)"):
        run(kernel("", "ret;", limits=".reqntid 64, 1, 1"), 1, 32, [])
    with _named("the module holds the kernels f, not g"):
        run(text, 1, 1, [], name="g")


def test_arrays_that_are_not_contiguous() -> None:
    with _named("a is not contiguous"):
        run(with_pointers(1, ""), 1, 1, buffers(_zeros(8)[::2]))


@pytest.mark.parametrize(
    ("text", "said"),
    [("bra nowhere;", "bra nowhere: there is no such label"),
     ("ld.global.u32 %r1, [nothing];", "nothing is not declared"),
     ("@%r1 bra nowhere;", "%r1 is no predicate"),
     (".frob 3;", "a directive that is not known: '.frob 3'"),
     ("call.uni nothing;", "such a call is not known"),
     ("mov.u32 %r1, %frob;", "the special register %frob is not known"),
     ("ld.shared.u32 %r1, [%r2];", "reads 4 bytes at byte 0 of shared memory (0 bytes)"),
     ("add.u32 %r1, %r2", "a statement without its end")],
)  # fmt: skip
def test_texts_that_are_no_program(text: str, said: str) -> None:
    with _named(said):
        run(kernel("", text), 1, 1, [])
