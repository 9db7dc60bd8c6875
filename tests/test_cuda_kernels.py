"""What can be said of the CUDA kernels without a GPU: their machine code, and their results in Numba's simulator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from bench import bench_kernels as bench
from gpuimg._batch.batch import recording_of
from gpuimg._plan.compile import build_for, compile_plan
from gpuimg._runtimes.images import KINDS, offsets_of
from gpuimg.kernels import ops

from .forks import Forks, forks

BUDGETS: dict[str, Any] = json.loads(bench.BUDGETS.read_text())


@pytest.mark.parametrize("capability", bench.CAPABILITIES, ids=bench.target)
@pytest.mark.parametrize("variant", bench.VARIANTS, ids=str)
def test_machine_code(variant: bench.Variant, capability: tuple[int, int]) -> None:
    """Single precision only, everything in registers, as few as many blocks at a time need, and no larger than it was.

    No more than one atomic operation spins: that of the sums of warps.
    """
    pytest.importorskip("numba_cuda")
    code = bench.compiled(variant, capability)
    assert ".f64" not in code.ptx
    assert ".local" not in code.ptx
    assert f".target {bench.target(capability)}" in code.ptx
    assert code.stack == code.spilled == 0
    # GPUs of capability 7.5 have room for 4 blocks of 256 threads; averages along lines run as many on all. Of blocks
    # of statistics, 1,024 threads, one runs at a time whether they take 33 registers or 64; plain ones have room.
    most = 60 if variant.kernel == "statistics" else 48 if capability >= (8, 0) else 64
    most = 64 if variant.build == ops.MOVING or (variant.kernel == "statistics" and variant.build) else most
    # Of blocks of "code_blocks", 64 threads, 16 run at a time; of those of "elastic", 256 threads, 4.
    most = 64 if variant.kernel in ("code_blocks", "elastic") else most
    assert code.instructions["registers"] <= most
    assert code.instructions["spins"] == (variant.kernel == "statistics")
    assert code.instructions.get("tap", 0) <= 35
    outgrown = bench.outgrown(bench.key(variant, capability), code.instructions, BUDGETS)
    assert outgrown is None, outgrown


def test_every_kernel_has_a_budget_and_every_budget_a_kernel() -> None:
    expected = {bench.key(variant, capability) for variant in bench.VARIANTS for capability in bench.CAPABILITIES}
    assert set(BUDGETS["kernels"]) == expected


def test_a_kernel_that_has_grown_is_named() -> None:
    pytest.importorskip("numba_cuda")
    budgets = {"made_with": {}, "kernels": {"mix sm_90": {"ptx": 100, "machine": 100, "registers": 20}}}
    assert bench.outgrown("mix sm_90", {"ptx": 110, "machine": 60, "registers": 22}, budgets) is None
    said = bench.outgrown("mix sm_90", {"ptx": 110, "machine": 111, "registers": 23}, budgets)
    assert said is not None
    assert "mix sm_90 has grown by more than 10%: machine 100 -> 111, registers 20 -> 23" in said
    assert "python -m bench.bench_kernels --record" in said
    assert "no budget" in (bench.outgrown("new sm_90", {"ptx": 1}, budgets) or "")


def test_instructions_are_counted() -> None:
    text = (
        ".version 8.0\n.visible .entry f(\n)\n{\n\t.reg .b32 %r<3>;\n$L:\n\tld.u32 %r1, [a];\n\t@%p bra $L;\n// x;\n}"
    )
    assert bench.ptx_instructions(text) == 2


# -- bytes -------------------------------------------------------------------------------------------------------------


def _bytes(chain: Any, sizes: Any, dtype: str) -> tuple[bench.Bytes, float]:
    """Of a chain: bytes a pixel of the result, and pixels of all results."""
    batch = chain(bench.batch_of(sizes))
    return bench.bytes_per_pixel(batch, dtype), float(np.sum(np.prod(batch.sizes, 1)))


WINDOWS = {
    # chain, source pixels its taps touch, source and result channels
    "whole": (lambda x: gi.resize(x, (20, 30)), 2 * 60 * 80, 3),
    "crop": (lambda x: gi.resized_crop(x, 3, 5, 40, 51, (20, 30)), 2 * 40 * 51, 3),
    "enlarged": (lambda x: gi.resized_crop(x, 3, 5, 10, 9, (20, 30)), 2 * 10 * 9, 3),
    "crop alone": (lambda x: gi.crop(x, 7, 9, 11, 13), 2 * 11 * 13, 3),
    "flipped": (lambda x: gi.horizontal_flip(gi.crop(x, 7, 9, 11, 13)), 2 * 11 * 13, 3),
    "turned": (lambda x: gi.rotate(gi.crop(x, 7, 9, 12, 12), 90), 2 * 12 * 12, 3),
    "nearest": (lambda x: gi.resize(x, (15, 20), "nearest"), 2 * 15 * 20, 3),
    "windows of their own": (lambda x: gi.crop(gi.pad(x, 0), 0, [0, 78], 60, 2), 2 * 60 * 2, 3),
    "gray": (lambda x: gi.rgb_to_grayscale(gi.resize(x, (20, 30))), 2 * 60 * 80, 1),
}


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
@pytest.mark.parametrize("name", WINDOWS)
def test_bytes_are_those_of_the_window_and_the_result(name: str, dtype: str) -> None:
    chain, window, channels = WINDOWS[name]
    cost, pixels = _bytes(chain, [(60, 80), (60, 80)], dtype)
    itemsize = {"uint8": 1, "float16": 2, "float32": 4}[dtype]
    assert cost.total * pixels == pytest.approx(window * 3 + pixels * channels * itemsize)


def test_bytes_of_statistics_and_segments() -> None:
    sizes = [(60, 80), (50, 40)]
    source = (60 * 80 + 50 * 40) * 3

    def contrast(x: gi.Batch) -> gi.Batch:
        return gi.equalize(gi.adjust_contrast(gi.resize(x, (20, 20)), 0.5), where=[True, False])

    cost, pixels = _bytes(contrast, sizes, "uint8")
    assert cost.source * pixels == pytest.approx(source)
    assert cost.statistics * pixels == pytest.approx(source + 60 * 80 * 3)  # the second image has one of them
    assert cost.result == 3

    cost, pixels = _bytes(lambda x: gi.resize(gi.gaussian_blur(gi.resize(x, (20, 20)), 3, 1.0), (5, 5)), sizes, "uint8")
    between = 2 * 20 * 20 * 3 * 4  # float32; of the resized and of the blurred images
    assert cost.source * pixels == pytest.approx(source)
    assert cost.segments * pixels == pytest.approx(4 * between)
    assert cost.statistics == 0


def test_bytes_of_a_rotation_are_those_of_the_pixels_it_shows() -> None:
    cost, pixels = _bytes(lambda x: gi.rotate(x, 45, "bilinear", expand=True), [(100, 100)], "uint8")
    assert cost.source * pixels == pytest.approx(100 * 100 * 3)
    cost, pixels = _bytes(lambda x: gi.crop(gi.rotate(x, 45, "bilinear"), 30, 30, 40, 40), [(100, 100)], "uint8")
    assert 40 * 40 * 3 <= cost.source * pixels <= 44 * 44 * 3  # and a pixel around them


_SIMULATE = """
import sys
import numpy as np
from gpuimg.kernels import cuda as kernels, layout, ops
from gpuimg.kernels.cuda import statistics
from numba import cuda


def add_warp(shared_sum, value, thread):  # the simulator knows no warps
    statistics.cuda.atomic.add(shared_sum, 0, value)

statistics.add_warp = add_warp
case = np.load(sys.argv[1])
n, slots = int(case["n"]), int(case["slots"])
tables = np.zeros(max(n * slots * ops.STATISTICS_WORDS, 1), np.float32)
out = np.zeros_like(case["expected"])
source = case["source"]
scale = np.float32(1 / 255 if source.dtype == np.uint8 else 1)
reduce = cuda.jit(kernels.make_statistics((), str(case["build"])))
transform = cuda.jit(kernels.make_transform((), int(case["kind"]), str(case["build"])))
passes = int(case["passes"])
for k in range(passes):
    ints, programs = case[f"ints{k}"], case[f"programs{k}"]
    common = (source, int(case["channels"]), scale, ints, ints.view(np.float32), programs.reshape(-1),
              programs.shape[1], tables, slots * ops.STATISTICS_WORDS)
    pixels = int(case["pixels"])
    for slot in range(int(case["first"][k]), int(case["end"][k])):
        sums = np.zeros(n, np.int64)
        extremes = np.full(n * kernels.EXTREMES, -0x7F7F7F80, np.int32)
        counts = np.zeros(n * ops.STATISTICS_WORDS, np.int32)
        tickets = np.zeros(n, np.int32)
        block = 32  # fewer than on a device: the simulator starts a thread for each
        reduce[(-(-pixels // block), n), block](*common, slot, sums, extremes, counts, tickets)
    if k == passes - 1:
        transform[(-(-pixels // 64), n), 64](*common, out, int(case["out_channels"]), int(case["planar"]))
np.save(sys.argv[2], out)
"""


def _images(channels: int, dtype: str) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    images = [rng.integers(0, 256, (9, 7, channels), np.uint8), rng.integers(0, 256, (5, 11, channels), np.uint8)]
    return images if dtype == "uint8" else [(i / 255).astype(np.float32) for i in images]


def _geometric(images: list[np.ndarray]) -> gi.Batch:
    x = gi.resized_crop(images, [0, 1], [1, 2], 4, [5, 9], (7, 8))
    x = gi.adjust_brightness(x, [0.7, 1.2])
    x = gi.rotate(x, [30.0, -70.0], fill=200 if recording_of(x).unit != 1 else 0.8, expand=False)
    x = gi.erase(x, 1, 2, 3, 2, 9 if recording_of(x).unit != 1 else 0.1, where=[True, False])
    return gi.normalize(x, 0.5, 0.25)


def _statistical(images: list[np.ndarray]) -> gi.Batch:
    x = gi.adjust_contrast(images, [0.5, 1.5])
    x = gi.crop(x, 1, 0, 6, 6)
    x = gi.autocontrast(x, where=[False, True])
    x = gi.equalize(x)
    return gi.adjust_saturation(gi.adjust_hue(x, 0.1), 1.4)


def _other(images: list[np.ndarray]) -> gi.Batch:
    x = gi.resize(gi.pad(images, 1, padding_mode="edge"), (6, 5), "bicubic")
    x = gi.solarize(gi.posterize(x, 5), 100 if recording_of(x).unit != 1 else 0.4)
    return gi.horizontal_flip(gi.invert(gi.pad(x, 1, fill=7)))


def _filtered(images: list[np.ndarray]) -> gi.Batch:
    same_size = [image[:5, :7] for image in images]
    return gi.adjust_brightness(gi.gaussian_blur(same_size, np.array([3, 5]), np.array([0.8, 2.0])), 1.3)


def _sharpened(images: list[np.ndarray]) -> gi.Batch:
    x = gi.adjust_sharpness(gi.resize(gi.invert(images), (6, 7)), [0.2, 1.9])
    return gi.adjust_contrast(x, 0.7)


def _noisy(images: list[np.ndarray]) -> gi.Batch:
    x = gi.horizontal_flip(gi.resize(images, (6, 7)))
    x = gi.permute_channels(x, (1, 2, 0) if x.channels == 3 else (0,))
    x = gi.gaussian_noise(x, [0.1, -0.1], [0.1, 0.3], seed=[5, 2**48 - 1])
    x = gi.erase(x, 1, 1, 3, [2, 4], "random", seed=7)
    return gi.autocontrast(gi.grid_mask(x, [3.3, 5], 0.5, 20, (0.1, 0.7), 9 if recording_of(x).unit != 1 else 0.1))


def _mirrored(images: list[np.ndarray]) -> gi.Batch:
    same_size = [image[:5, :7] for image in images]
    return gi.adjust_brightness(gi.pad(same_size, (9, 2, 0, 7), padding_mode="reflect"), 1.2)


def _mirrored_edges(images: list[np.ndarray]) -> gi.Batch:
    same_size = [image[:5, :7] for image in images]
    return gi.pad(same_size, ([0, 3], 2, [3, 0], -1), padding_mode="symmetric", where=[True, True])


def _moving(images: list[np.ndarray]) -> gi.Batch:
    same_size = [image[:5, :7] for image in images]
    return gi.adjust_brightness(gi.motion_blur(same_size, [4, 9], [30, -100]), 1.2)


CASES = [
    (_moving, 3, "uint8", "float32", "NCHW"),
    (_moving, 1, "float32", "float32", "NHWC"),
    (_mirrored, 3, "uint8", "float32", "NCHW"),
    (_mirrored_edges, 1, "float32", "float32", "NHWC"),
    (_noisy, 3, "uint8", "float32", "NHWC"),
    (_noisy, 1, "float32", "uint8", "NHWC"),
    (_geometric, 3, "uint8", "float32", "NCHW"),
    (_geometric, 3, "float32", "bfloat16", "NHWC"),
    (_statistical, 3, "uint8", "uint8", "NHWC"),
    (_statistical, 1, "float32", "float32", "NHWC"),
    (_other, 3, "uint8", "float16", "NCHW"),
    (_other, 1, "uint8", "uint8", "NHWC"),
    (_filtered, 3, "uint8", "float32", "NHWC"),
    (_sharpened, 3, "uint8", "float32", "NCHW"),
    (_sharpened, 1, "float32", "uint8", "NHWC"),
]


@pytest.fixture(scope="module")
def simulator() -> Iterator[Forks]:
    """Processes in which kernels are plain Python."""
    pytest.importorskip("numba_cuda")
    imports = "import gpuimg.kernels.cuda, numba.cuda, tests.simulator"
    with forks(imports, NUMBA_ENABLE_CUDASIM="1", NUMBA_DISABLE_JIT="1") as simulator:
        yield simulator


@pytest.mark.parametrize(("chain", "channels", "source", "dtype", "order"), CASES)
def test_simulated_results_are_the_cpus(
    simulator: Forks, chain: object, channels: int, source: str, dtype: str, order: str, tmp_path: Path
) -> None:
    assert callable(chain)
    batch = chain(_images(channels, source))
    assert len(recording_of(batch).segments) == 1
    expected = batch.array(dtype, order)
    passes, region = compile_plan(recording_of(batch).plan)
    pixels = recording_of(batch).source
    offsets, _ = offsets_of(batch.sizes, batch.channels)
    stride = pixels.sizes[:, 1] * channels
    stored = expected.view(np.uint16) if dtype.endswith("float16") else expected
    case: dict[str, object] = {
        "n": len(batch),
        "slots": passes[-1].end_slot,
        "source": pixels.flat,
        "channels": channels,
        "kind": KINDS[dtype],
        "build": build_for(recording_of(batch).plan),
        "passes": len(passes),
        "first": [p.first_slot for p in passes],
        "end": [p.end_slot for p in passes],
        "pixels": max(int((p.records["height"] * p.records["width"]).max()) for p in passes),
        "out_channels": batch.channels,
        "planar": int(order == "NCHW"),
        "expected": stored.reshape(-1),
    }
    for k, run in enumerate(passes):
        run.records["source"] = pixels.offsets + region[:, 1] * stride + region[:, 0] * channels
        run.records["output"] = offsets
        run.records["stride"] = stride
        case[f"ints{k}"] = run.records.view(np.int32)
        case[f"programs{k}"] = run.programs
    np.savez(tmp_path / "case.npz", **case)  # type: ignore[arg-type]
    done = simulator.run(_SIMULATE, str(tmp_path / "case.npz"), str(tmp_path / "out.npy"))
    assert done.returncode == 0, done.stderr[-2000:]
    out = np.load(tmp_path / "out.npy").view(expected.dtype).reshape(expected.shape)
    if dtype == "uint8":
        difference = np.abs(out.astype(int) - expected.astype(int))
        assert difference.max() <= 1
        assert np.mean(difference > 0) <= 0.001
    else:
        tolerance = {"float32": 1e-4, "float16": 2e-3, "bfloat16": 2e-2}[dtype]
        np.testing.assert_allclose(out.astype(np.float32), expected.astype(np.float32), rtol=0, atol=tolerance)


# -- marks -------------------------------------------------------------------------------------------------------------

_MARKS = """
import sys
import numpy as np
from gpuimg.kernels.cuda import marks
from numba import cuda

case = np.load(sys.argv[1])
out, places, pair = case["out"], case["places"], (np.uint64(case["first"]), np.uint64(case["second"]))
status = np.zeros(len(places), np.int32)
grid = -(-len(places) // 32), 32
cuda.jit(marks.MARK.function)[grid](out, places, *pair)
marked = out.copy()
out[case["changed"]] ^= case["by"]
cuda.jit(marks.COMPARE.function)[grid](out, places, *pair, status)
np.savez(sys.argv[2], marked=marked, status=status)
"""


def test_marks(simulator: Forks, tmp_path: Path) -> None:
    """Each at its place and nowhere else; one changed bit, at any place in it, and it is another one."""
    rng = np.random.default_rng()
    places = 17 * rng.permutation(40)
    places[rng.random(40) < 0.2] = -1
    mark = rng.bytes(16)
    chosen = np.flatnonzero((places >= 0) & (rng.random(40) < 0.5))
    changed = places[chosen] + rng.integers(0, 16, len(chosen))
    first, second = (np.frombuffer(half, "<u8")[0] for half in (mark[:8], mark[8:]))
    before = rng.integers(0, 256, 17 * 40, np.uint8)
    np.savez(
        tmp_path / "case.npz", out=before, places=places, first=first, second=second, changed=changed,
        by=np.uint8(1) << rng.integers(0, 8, len(chosen)).astype(np.uint8),
    )  # fmt: skip
    done = simulator.run(_MARKS, str(tmp_path / "case.npz"), str(tmp_path / "out.npz"))
    assert done.returncode == 0, done.stderr[-2000:]
    found = np.load(tmp_path / "out.npz")
    expected = before.copy()
    for at in places[places >= 0].tolist():
        expected[at : at + 16] = np.frombuffer(mark, np.uint8)
    np.testing.assert_array_equal(found["marked"], expected)
    still_there = (places >= 0) & ~np.isin(np.arange(40), chosen)
    np.testing.assert_array_equal(found["status"], still_there)
