"""The machine code of the CUDA kernels, compiled without a GPU: registers, memory, and growth over a budget."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

from gpuimg.kernels import ops

from . import variants

pytest.importorskip("numba_cuda")

BUDGETS: dict[str, Any] = json.loads(variants.BUDGETS.read_text())


@pytest.mark.parametrize("capability", variants.CAPABILITIES, ids=variants.target)
@pytest.mark.parametrize("variant", variants.parameters())
def test_machine_code(variant: variants.Variant, capability: tuple[int, int]) -> None:
    """Single precision only, everything in registers, as few as many blocks at a time need, and no larger than it was.

    No more than one atomic operation spins: that of the sums of warps.
    """
    code = variants.compiled(variant, capability)
    assert ".f64" not in code.ptx
    assert ".local" not in code.ptx
    assert f".target {variants.target(capability)}" in code.ptx
    assert code.stack == 0
    # GPUs of capability 7.5 have room for 4 blocks of 256 threads; averages along lines run as many on all. Of blocks
    # of statistics, 1,024 threads, one runs at a time whether they take 33 registers or 64; plain ones have room.
    most = 60 if variant.kernel == "statistics" else 48 if capability >= (8, 0) else 64
    most = 64 if variant.build == ops.MOVING or (variant.kernel == "statistics" and variant.build) else most
    # Of blocks of "code_blocks", 64 threads, 16 run at a time; of those of "elastic", 256 threads, 4.
    most = 64 if variant.kernel in ("code_blocks", "elastic") else most
    assert code.instructions["registers"] <= most
    if variant.kernel == "jpeg":
        assert ".f32" not in code.ptx
        assert not re.search(r"(div|rem)\.[su]64", code.ptx)  # take a hundred instructions
        assert capability < (8, 0) or code.instructions["registers"] <= 48
    assert code.instructions["spins"] == (variant.kernel == "statistics")
    assert code.instructions.get("tap", 0) <= 35
    assert code.instructions.get("a pixel", 0) <= 80
    outgrown = variants.outgrown(variants.key(variant, capability), code.instructions, BUDGETS)
    assert outgrown is None, outgrown


def test_every_kernel_has_a_budget_and_every_budget_a_kernel() -> None:
    expected = {
        variants.key(variant, capability) for variant in variants.VARIANTS for capability in variants.CAPABILITIES
    }
    assert set(BUDGETS["kernels"]) == expected


def test_a_kernel_that_has_grown_is_named() -> None:
    budgets = {"made_with": {}, "kernels": {"mix sm_90": {"ptx": 100, "machine": 100, "registers": 20}}}
    assert variants.outgrown("mix sm_90", {"ptx": 110, "machine": 60, "registers": 22}, budgets) is None
    said = variants.outgrown("mix sm_90", {"ptx": 110, "machine": 111, "registers": 23}, budgets)
    assert said is not None
    assert "mix sm_90 has grown by more than 10%: machine 100 -> 111, registers 20 -> 23" in said
    assert "python -m tests.ptx.variants --record" in said
    assert "no budget" in (variants.outgrown("new sm_90", {"ptx": 1}, budgets) or "")


@pytest.mark.parametrize("capability", variants.CAPABILITIES, ids=variants.target)
def test_figures_of_machine_code_are_the_assemblers(capability: tuple[int, int]) -> None:
    """Also of code that needs local memory."""
    from gpuimg.kernels.cuda.compiler import assembled

    text = variants.ptx_of(variants.kernel_of(variants.Variant("jpeg", "colors")), capability)
    for changed in (text, text.replace(".maxntid", ".maxnreg 24\n.maxntid", 1)):
        image, said = assembled(changed, capability)
        assert variants.registers(image.code) == int(re.findall(r"[Uu]sed (\d+) registers", said)[0])
        assert variants.stack(image.code) == int(re.findall(r"(\d+) bytes stack frame", said)[0])
    assert variants.stack(image.code) > 0


def test_instructions_are_counted() -> None:
    text = (
        ".version 8.0\n.visible .entry f(\n)\n{\n\t.reg .b32 %r<3>;\n$L:\n\tld.u32 %r1, [a];\n\t@%p bra $L;\n// x;\n}"
    )
    assert variants.ptx_instructions(text) == 2


def test_instructions_a_symbol_are_those_of_its_loop() -> None:
    """Without those of the branch that most symbols pass over."""
    text = "bar.sync 0;\n$A:\n a;\n @%p bra $C;\n$B:\n x;\n y;\n @%p bra $B;\n$C:\n b;\n c;\n @%p bra $A;\n d;\n"
    assert variants.instructions_a_symbol(text) == 5


def test_the_longest_path() -> None:
    """0, 1, 4, 2, 3; without the branch back 0, 1, 4, 5."""

    def branch(at: int, to: int, condition: int = 7) -> int:
        distance = 4 * (to - at - 1)
        return (distance >> 8 & (1 << 48) - 1) << 34 | (distance & 0xFF) << 16 | condition << 12 | 0x947

    exit_, other = 7 << 12 | 0x94D, 7 << 12 | 0x210
    code = [other, branch(1, 4, condition=0), other, exit_, branch(4, 2), exit_]
    words = np.array([[word & (1 << 64) - 1, word >> 64] for word in code], np.uint64)
    assert variants.longest_path(words) == 5
    words[4] = other, 0
    assert variants.longest_path(words) == 4
    words[4] = branch(4, 0) & (1 << 64) - 1, branch(4, 0) >> 64
    with pytest.raises(AssertionError, match="a loop"):
        variants.longest_path(words)
