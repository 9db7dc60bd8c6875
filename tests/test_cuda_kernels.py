"""What can be said of the CUDA kernels without a GPU: their machine code, and their results in Numba's simulator."""

import functools
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
import pytest

import gpuimg as gi
from gpuimg.kernels import layout
from gpuimg.pixels import offsets_of

KINDS = {"float32": layout.FLOAT32, "uint8": layout.UINT8, "float16": layout.FLOAT16, "bfloat16": layout.BFLOAT16}
CAPABILITIES = [(7, 5), (8, 0), (9, 0)]


@numba.njit
def dim(r, g, b, y, x, value):  # type: ignore[no-untyped-def]
    return r * value, g * value + x * np.float32(0.001), b * value + y * np.float32(0.001)


def _find(name: str) -> str:
    spec = importlib.util.find_spec("nvidia")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    for place in spec.submodule_search_locations:
        for path in Path(place).rglob(name):
            if os.access(path, os.X_OK):
                return str(path)
    raise AssertionError(f"{name} is not installed; it comes with numba-cuda[cu12]")


Variant = tuple[str, str, str, tuple[object, ...], bool]


@functools.cache
def _variant(variant: Variant) -> tuple[object, object, int | None]:
    from gpuimg.kernels import cuda as kernels

    name, source, kind, functions, neighbours = variant
    if name == "mix":
        return kernels.mix, kernels.MIX_SIGNATURE, None
    if name == "statistics":
        reduce = kernels.make_statistics(functions, neighbours)
        return reduce, kernels.statistics_signature(source), kernels.STATISTICS_BLOCK
    transform = kernels.make_transform(functions, KINDS[kind], neighbours)
    return transform, kernels.transform_signature(source, KINDS[kind]), None


SOURCES = ("uint8", "float32")
VARIANTS: list[Variant] = [
    *(("transform", source, kind, (), near) for source in SOURCES for kind in KINDS for near in (False, True)),
    *(("statistics", source, "", (), near) for source in SOURCES for near in (False, True)),
    ("transform", "uint8", "float16", (dim,), False),
    ("statistics", "uint8", "", (dim,), False),
    ("mix", "float32", "float32", (), False),
]


def _name(variant: Variant) -> str:
    *words, functions, neighbours = variant
    return "-".join([*map(str, words), "user" if functions else "plain", "neighbours" if neighbours else ""]).strip("-")


@pytest.mark.parametrize("capability", CAPABILITIES, ids=lambda c: f"sm_{c[0]}{c[1]}")
@pytest.mark.parametrize("variant", VARIANTS, ids=_name)
def test_machine_code(
    variant: Variant,
    capability: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Single precision only, everything in registers, and no more than 64 of them."""
    pytest.importorskip("numba_cuda")
    from gpuimg.kernels import cuda as kernels

    # numba-cuda asks the current device for its capability even when it is told one.
    device = SimpleNamespace(compute_capability=capability)
    monkeypatch.setattr("numba.cuda.dispatcher.get_current_device", lambda: device)
    function, signature, block = _variant(variant)
    ptx = kernels.compile_ptx(function, signature, capability, block)
    assert ".f64" not in ptx
    assert ".local" not in ptx
    target = f"sm_{capability[0]}{capability[1]}"
    assert f".target {target}" in ptx
    path = tmp_path / "kernel.ptx"
    path.write_text(ptx)
    done = subprocess.run(
        [_find("ptxas"), "-v", f"-arch={target}", str(path), "-o", str(tmp_path / "kernel.cubin")],
        capture_output=True,
        text=True,
        check=True,
    )
    match = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", done.stderr)
    registers = re.search(r"Used (\d+) registers", done.stderr)
    assert match is not None
    assert registers is not None
    assert match.groups() == ("0", "0", "0")
    assert int(registers[1]) <= 64


_SIMULATE = """
import sys
import numpy as np
from gpuimg.kernels import cuda as kernels, layout
from numba import cuda

case = np.load(sys.argv[1])
n, slots = int(case["n"]), int(case["slots"])
tables = np.zeros(max(n * slots * layout.STATISTICS_WORDS, 1), np.float32)
out = np.zeros_like(case["expected"])
source = case["source"]
scale = np.float32(1 / 255 if source.dtype == np.uint8 else 1)
reduce = cuda.jit(kernels.make_statistics((), bool(case["neighbours"])))
transform = cuda.jit(kernels.make_transform((), int(case["kind"]), bool(case["neighbours"])))
passes = int(case["passes"])
for k in range(passes):
    ints, programs = case[f"ints{k}"], case[f"programs{k}"]
    common = (source, int(case["channels"]), scale, ints, ints.view(np.float32), programs.reshape(-1),
              programs.shape[1], tables, slots * layout.STATISTICS_WORDS)
    pixels = int(case["pixels"])
    for slot in range(int(case["first"][k]), int(case["end"][k])):
        sums = np.zeros(n, np.int64)
        extremes = np.full(n * kernels.EXTREMES, -0x7F7F7F80, np.int32)
        counts = np.zeros(n * layout.STATISTICS_WORDS, np.int32)
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
    x = gi.rotate(x, [30.0, -70.0], fill=200 if x.unit != 1 else 0.8, expand=False)
    x = gi.erase(x, 1, 2, 3, 2, 9 if x.unit != 1 else 0.1, where=[True, False])
    return gi.normalize(x, 0.5, 0.25)


def _statistical(images: list[np.ndarray]) -> gi.Batch:
    x = gi.adjust_contrast(images, [0.5, 1.5])
    x = gi.crop(x, 1, 0, 6, 6)
    x = gi.autocontrast(x, where=[False, True])
    x = gi.equalize(x)
    return gi.adjust_saturation(gi.adjust_hue(x, 0.1), 1.4)


def _other(images: list[np.ndarray]) -> gi.Batch:
    x = gi.resize(gi.pad(images, 1, padding_mode="edge"), (6, 5), "bicubic")
    x = gi.solarize(gi.posterize(x, 5), 100 if x.unit != 1 else 0.4)
    return gi.horizontal_flip(gi.invert(gi.pad(x, 1, fill=7)))


def _filtered(images: list[np.ndarray]) -> gi.Batch:
    same_size = [image[:5, :7] for image in images]
    return gi.adjust_brightness(gi.gaussian_blur(same_size, [3, 5], [0.8, 2.0]), 1.3)


def _sharpened(images: list[np.ndarray]) -> gi.Batch:
    x = gi.adjust_sharpness(gi.resize(gi.invert(images), (6, 7)), [0.2, 1.9])
    return gi.adjust_contrast(x, 0.7)


CASES = [
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


@pytest.mark.parametrize(("chain", "channels", "source", "dtype", "order"), CASES)
def test_simulated_results_are_the_cpus(
    chain: object, channels: int, source: str, dtype: str, order: str, tmp_path: Path
) -> None:
    pytest.importorskip("numba_cuda")
    assert callable(chain)
    batch = chain(_images(channels, source))
    assert len(batch.stages) == 1
    expected = batch.array(dtype, order)
    passes, region = batch.plan.compile()
    pixels = batch._source
    offsets, _ = offsets_of(batch.sizes, batch.channels)
    stride = pixels.sizes[:, 1] * channels
    stored = expected.view(np.uint16) if dtype.endswith("float16") else expected
    case: dict[str, object] = {
        "n": len(batch),
        "slots": passes[-1].end_slot,
        "source": pixels.flat,
        "channels": channels,
        "kind": KINDS[dtype],
        "neighbours": batch.plan.sharpens,
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
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "NUMBA_DISABLE_JIT": "1"}
    arguments = [sys.executable, "-c", _SIMULATE, str(tmp_path / "case.npz"), str(tmp_path / "out.npy")]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    out = np.load(tmp_path / "out.npy").view(expected.dtype).reshape(expected.shape)
    if dtype == "uint8":
        difference = np.abs(out.astype(int) - expected.astype(int))
        assert difference.max() <= 1
        assert np.mean(difference > 0) <= 0.001
    else:
        tolerance = {"float32": 1e-4, "float16": 2e-3, "bfloat16": 2e-2}[dtype]
        np.testing.assert_allclose(out.astype(np.float32), expected.astype(np.float32), rtol=0, atol=tolerance)
