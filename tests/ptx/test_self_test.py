"""The self-test of a GPU: interpreted kernels pass it, and a fault in any of them is found."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.libraries import needs

needs("numba_cuda")

import gpuimg as gi
from gpuimg._runtimes import devices, probe, self_test
from gpuimg._runtimes.protocol import UnusableDeviceError
from gpuimg.kernels import cuda as kernels
from gpuimg.kernels import disk

from .device import executing

pytestmark = pytest.mark.usefixtures("watched")


@pytest.fixture
def proofs(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """What is stored."""
    monkeypatch.setenv("GPUIMG_SELFTEST", "1")
    stored: dict[str, bytes] = {}
    read, store, is_proof = disk.read, disk.store, re.compile("proof-").match
    monkeypatch.setattr(disk, "read", lambda name, make: stored.get(name) if is_proof(name) else read(name, make))
    monkeypatch.setattr(disk, "store", lambda *a: stored.update([a[:2]]) if is_proof(a[0]) else store(*a))
    monkeypatch.setattr(disk, "has", stored.__contains__)
    return stored


def stores(text: str) -> str:
    """A bit of what is stored is another."""
    store = re.compile(r"(@!?%p\d+\s+)?st\.global\.u(8|16|32)\s+\[[^\]]*\], (%r[sd]?\d+);")
    bits = {"8": ("b16", 1), "16": ("b16", 1 << 9), "32": ("b32", 1)}
    return store.sub(
        lambda found: f"xor.{bits[found[2]][0]} {found[3]}, {found[3]}, {bits[found[2]][1]};\n{found[0]}", text
    )


ROWS = [
    ("find", "", "", "jpegs"), ("huffman", "", "", "jpegs"), ("huffman", "mul.lo.s32", "add.s32", "jpegs"),
    ("recoded", "", "", "jpegs"), ("recoded", "st.global.u16", "st.global.u8", "jpegs"),
    ("inverse_dct", "", "", "jpegs"), ("inverse_dct", "shr.s32", "shr.u32", "jpegs"), ("colors", "", "", "jpegs"),
    ("transform", "", "", "functions"), ("transform", "sub.ftz.f32", "add.ftz.f32", "functions"),
    ("statistics", "atom.global.max.s32", "atom.global.add.u32", "functions"),
    ("statistics", "shfl.sync.down", "shfl.sync.up", "functions"),
    ("exact_pass", "", "", "functions"), ("exact_pass", "min.s32", "max.s32", "functions"), ("no kernel", "", "", ""),
]  # fmt: skip
SLOW = [pytest.param(*row, marks=pytest.mark.slow) for row in ROWS[:-3]]


@pytest.mark.parametrize(("name", "old", "new", "found"), [*SLOW, *ROWS[-3:]])
def test_a_fault_in_a_kernel_is_found(name: str, old: str, new: str, found: str, proofs: dict[str, bytes]) -> None:
    """Of its stores, or of an instruction."""
    edited = []

    def edit(kernel: kernels.Kernel, text: str) -> str:
        if not kernel.name.startswith(name):
            return text
        edited.append(kernel)
        assert old in text
        return text.replace(old, new) if old else stores(text)

    with executing(edit), pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUIMG_DECODER", "")
        if found == "functions":
            for _ in range(2):
                with pytest.raises(UnusableDeviceError, match="wrong results on cuda:0"):
                    devices.runtime_for("cuda:0")
            with pytest.warns(UserWarning, match=r"runs on the CPU: gpuimg's kernels give wrong"):
                assert devices.default_device.__wrapped__() == "cpu"
        elif found == "jpegs":
            file = self_test.files()["4:2:0"]
            with pytest.warns(RuntimeWarning, match="wrong results on cuda:0"):
                image = gi.decode_batch([file], device="cuda:0")[0]
            assert (image.values == gi.decode_batch([file], device="cpu")[0]).all()
            with pytest.raises(RuntimeError, match="does not work here: gpuimg's kernels give wrong"):
                gi.decode_batch([file], device="cuda:0", decoder="gpuimg")
        else:
            devices.runtime_for("cuda:0")
            assert probe.self_test_result(0) == "gives the CPU's results"
    assert bool(edited) == bool(found)
    assert len(proofs) == (not found)


ERRORS: dict[str, Callable[[Any], Exception]] = {
    "CUDARuntimeError: .*illegal memory access": lambda cupy: cupy.cuda.runtime.CUDARuntimeError(700),
    "OutOfMemoryError: Out of memory": lambda cupy: cupy.cuda.memory.OutOfMemoryError(1, 0, 0),
    "AttributeError: module 'numpy' has no": lambda _: AttributeError("module 'numpy' has no attribute 'row_stack'"),
    "ValueError: a kernel": lambda _: ValueError("a kernel has too many arguments"),
    "ImportError: libnvrtc": lambda _: ImportError("libnvrtc.so.13: cannot open shared object file"),
}


@pytest.mark.parametrize("words", ERRORS)
def test_a_gpu_that_fails_is_not_the_default(
    proofs: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    with executing() as launches:

        def fail(*_: object) -> None:
            raise ERRORS[words](launches.gpu.cupy)

        monkeypatch.setattr(launches.gpu.cupy.cuda.driver, "launchKernel", fail)
        with pytest.raises(UnusableDeviceError, match=f"^device 'cuda:0' does not work here: {words}"):
            devices.runtime_for("cuda:0")
        with pytest.warns(UserWarning, match="has a GPU, but gpuimg runs on the CPU: device 'cuda:0' does not"):
            assert devices.default_device.__wrapped__() == "cpu"
    assert proofs == {}
