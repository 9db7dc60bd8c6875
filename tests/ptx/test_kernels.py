"""Every kernel, as it is compiled, launched by the runtime on awkward images: the CPU's pixels."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from bench import bench_kernels as bench
from gpuimg.kernels import cuda as kernels
from tests.calls import CALLS
from tests.standin.work import files, turned_files
from tests.watchdog import no_hang

numba_cuda = pytest.importorskip("numba_cuda")

from .device import Edit, Launches, executing  # noqa: E402 - needs numba-cuda
from .fault import Fault  # noqa: E402
from .launch import array_parameters  # noqa: E402

Chain = Callable[[Any], gi.Batch]
CAPABILITIES = [(8, 0), (9, 0)]
LAYOUTS = [(3, "NCHW"), (3, "NHWC"), (1, "NHWC")]  # channels, and order of the result
SIZES = [(1, 1), (1, 9), (11, 1), (13, 7), (9, 33)]
_RANDOM = np.random.default_rng()


@pytest.fixture
def launches() -> Iterator[Launches]:
    """The stand-in with its kernels interpreted, and nothing on it out of order."""
    with executing(CAPABILITIES[-1]) as made:
        yield made
        assert made.standin.problems == []


@pytest.fixture(autouse=True)
def _ends() -> Iterator[None]:
    with no_hang(300.0):
        yield


def _images(source: str, channels: int = 3) -> list[Any]:
    bytes_ = [_RANDOM.integers(0, 256, (*size, channels), np.uint8) for size in SIZES]
    return bytes_ if source == "uint8" else [(image / 255).astype(np.float32) for image in bytes_]


def _on_device(launches: Launches, images: list[Any]) -> list[Any]:
    return [launches.standin.cupy.asarray(image) for image in images]


# -- how close ---------------------------------------------------------------------------------------------------------


def _ordered(bits: Any) -> Any:
    """16-bit floats' bits as integers in the order of their values."""
    signed = bits.view(np.int16).astype(np.int32)
    return np.where(signed < 0, -32768 - signed, signed)


def _apart(found: Any, expected: Any) -> Any:
    """How far results are from those of the CPU: in values of float32, in steps of the other dtypes."""
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if found.dtype == np.float32:
        difference = np.abs(found.astype(np.float64) - expected)
        return np.where(np.isnan(difference), np.inf, difference).ravel()
    if found.dtype == np.uint8:
        return np.abs(found.astype(np.int32) - expected).ravel()
    steps = np.abs(_ordered(found.view(np.uint16)) - _ordered(expected.view(np.uint16)))
    # Around zero steps are smaller than what float32 rounds away.
    near = np.abs(found.astype(np.float32) - expected.astype(np.float32)) <= 1e-5
    return np.where(near, np.minimum(steps, 1), steps).ravel()


def _assert_close(differences: list[Any], dtype: str, share: float) -> None:
    """Within 1e-4, or one step in a small share; where a formula has steps, that share may be further off."""
    apart = np.concatenate(differences)
    if dtype == "float32":
        assert np.mean(apart > 1e-4) <= share, f"{apart.max()} apart, {np.mean(apart > 1e-4)} of all values"
        return
    assert apart.max() <= 1
    # What is less than 1e-5 off falls to another side of a step of 1/255, 2^-11 or 2^-8 no more often than this.
    assert np.mean(apart > 0) <= {"uint8": 0.001, "float16": 0.02, "bfloat16": 0.005}[dtype]


# -- every function ----------------------------------------------------------------------------------------------------

_STEPS = ("equalize", "posterize", "solarize", "nearest")  # where a rounding may fall to another side


@pytest.mark.parametrize("source", bench.SOURCES)
@pytest.mark.parametrize("name", CALLS)
def test_every_function_has_the_cpus_pixels(launches: Launches, name: str, source: str) -> None:
    images = _images(source)
    each = CALLS[name].each(_RANDOM, len(images), 255.0 if source == "uint8" else 1.0)
    expected = CALLS[name].run(images, each).compute("float32")
    found = CALLS[name].run(_on_device(launches, images), each).compute("float32")
    apart = [_apart(one.values, other) for one, other in zip(found, expected, strict=True)]
    _assert_close(apart, "float32", 0.001 if any(step in name for step in _STEPS) else 0.0)


# -- every variant -----------------------------------------------------------------------------------------------------


def _shrunk(x: Any) -> gi.Batch:
    return gi.horizontal_flip(gi.adjust_saturation(gi.resize(x, (15, 17), "bicubic"), 1.7))


def _turned(x: Any) -> gi.Batch:
    return gi.adjust_hue(gi.rotate(gi.resize(x, (17, 9)), np.arange(len(x)) * 37.0, fill=0.0), 0.2)


def _enlarged(x: Any) -> gi.Batch:
    return gi.adjust_gamma(gi.perspective(gi.resize(x, (19, 23), "nearest"), _SQUARE, _BENT), 0.7)


_SQUARE = [(0, 0), (18, 0), (18, 18), (0, 18)]
_BENT = [(2, 1), (17, 3), (18, 17), (1, 16)]


def _measured(x: Any) -> gi.Batch:
    n = len(x)
    x = gi.adjust_contrast(gi.resize(x, (12, 11)), 0.6)
    x = gi.autocontrast(gi.rotate(x, 20, "bilinear"), where=np.arange(n) % 2 == 0)
    return gi.adjust_contrast(x, 1.4)


def _equalized(x: Any) -> gi.Batch:
    return gi.equalize(gi.resize(x, (33, 34)), where=np.arange(len(x)) % 3 > 0)


def _sharpened(chain: Chain) -> Chain:
    return lambda x: gi.adjust_sharpness(chain(x), np.linspace(0.0, 2.0, len(x)))


def _of_the_users(chain: Chain) -> Chain:
    return lambda x: gi.adjust_contrast(gi.pointwise(chain(x), bench.dim, 0.8), 1.2)


def _normalized(chain: Chain) -> Chain:
    return lambda x: gi.normalize(chain(x), 0.5, 0.25)


def _chains(variant: bench.Variant) -> list[Chain]:
    chains: list[Chain] = [_shrunk, _turned, _enlarged]
    if variant.kernel == "statistics":
        chains = [_measured, _equalized]
    if variant.neighbours:
        chains = [_sharpened(chain) for chain in chains]
        if variant.kernel == "statistics":
            chains.append(lambda x: _measured(_sharpened(_shrunk)(x)))
    if variant.functions:
        chains = [_of_the_users(chain) for chain in chains[:2]]
    return chains if variant.kind == "uint8" else [chains[0], *(_normalized(chain) for chain in chains[1:])]


def _on_both(variant: bench.Variant) -> bool:
    """Compiled for the older architecture too, whose instructions differ little: one of each kind of kernel."""
    return variant.source == "uint8" and variant.kind in ("", "float32") and not variant.functions


@pytest.mark.parametrize("variant", [v for v in bench.VARIANTS if v.kernel in ("transform", "statistics")], ids=str)
def test_every_variant_has_the_cpus_pixels(variant: bench.Variant) -> None:
    dtype = variant.kind or "float32"
    chains = _chains(variant)
    for capability in CAPABILITIES if _on_both(variant) else CAPABILITIES[-1:]:
        with executing(capability) as launches:
            apart = []
            newest = capability == CAPABILITIES[-1]
            layouts = LAYOUTS[: (2 if variant.functions else 3) if newest else 1]
            for (channels, order), chain in zip(layouts, cycle(chains), strict=False):
                images = _images(variant.source, channels)
                expected = chain(images).array(dtype, order)
                found = chain(_on_device(launches, images)).array(dtype, order)
                apart.append(_apart(found.values.view(expected.dtype), expected))
            assert bench.kernel_of(variant) in launches.kernels
            _assert_close(apart, dtype, 0.001)
            assert launches.standin.problems == []


@pytest.mark.parametrize("mix", [gi.mixup, gi.cutmix])
def test_images_are_mixed(launches: Launches, mix: Any) -> None:
    for channels in (1, 3):
        images = _images("uint8", channels)
        seed = int(_RANDOM.integers(1 << 31))
        same = [mix(gi.resize(x, (9, 11)), rng=seed).images for x in (images, _on_device(launches, images))]
        same = [gi.adjust_contrast(x, 0.7) for x in same]
        _assert_close([_apart(same[1].array().values, same[0].array())], "float32", 0.0)
    assert kernels.MIX in launches.kernels


def test_images_of_one_pixel_are_blended(launches: Launches) -> None:
    pair = [_RANDOM.random((3, 1, 1, 1), np.float32) for _ in range(2)]
    expected, found = (gi.blend(one, other, 0.3).array() for one, other in (pair, _on_device(launches, pair)))
    _assert_close([_apart(found.values, expected)], "float32", 0.0)


@pytest.mark.parametrize("color", ["rgb", "gray"])
def test_files_go_through_the_arena(launches: Launches, color: str) -> None:
    """Turned ones, ones that the CPU decodes, and segments that are computed in between."""
    sources = [*files(), *turned_files([3, 6, 8]), *files([(7, 9)], ("png",))]

    def chain(device: str) -> Any:
        x = gi.open_batch(sources, device=device, color=color)
        return gi.resize(gi.gaussian_blur(gi.resized_crop(x, 0, 1, 20, 8, (16, 15)), 3, 1.5), (8, 9)).array("uint8")

    _assert_close([_apart(chain("cuda:0").values, chain("cpu"))], "uint8", 0.0)


def _contrasts(x: Any) -> gi.Batch:
    return gi.autocontrast(gi.adjust_contrast(x, 0.5))


@pytest.mark.parametrize("chain", [_contrasts, lambda x: gi.equalize(gi.pad(x, 1))], ids=["contrasts", "equalize"])
@pytest.mark.parametrize("behind", [None, (33, 3)], ids=["together", "one warp late"])
def test_many_blocks(launches: Launches, chain: Chain, behind: Any) -> None:
    """An image of more pixels than a block of statistics has threads, in two orders of the threads."""
    launches.behind = behind
    images = [_RANDOM.integers(0, 256, (*size, 3), np.uint8) for size in ((1, 1), (9, 7), (33, 32))]
    expected, found = chain(images).compute("uint8"), chain(_on_device(launches, images)).compute("uint8")
    _assert_close([_apart(a.values, b) for a, b in zip(found, expected, strict=True)], "uint8", 0.001)


# -- parameters --------------------------------------------------------------------------------------------------------


def test_arrays_are_passed_as_the_runtime_passes_them(launches: Launches) -> None:
    """What programs of tests are given by default."""
    from gpuimg._runtimes.cuda_launch import Arguments

    packing = Arguments(kernels.MIX)
    given, expected = [], []
    for k, kind in enumerate(kernels.MIX.signature.args):
        if hasattr(kind, "dtype"):
            given.append(launches.standin.cupy.zeros(k, np.dtype(str(kind.dtype))))
            expected += array_parameters(given[-1].values, given[-1].data.ptr)
        else:
            given.append(k)
            expected.append(k)
    packed = bytearray(packing.layout.size)
    packing.pack_into(packed, tuple(given))
    assert list(packing.layout.unpack(packed)) == expected


# -- faults put into the kernels ---------------------------------------------------------------------------------------


def _edited(name: str, edit: Callable[[str], str]) -> Edit:
    """Kernels whose names begin so are edited."""

    def edited(kernel: kernels.Kernel, text: str) -> str:
        if not kernel.name.startswith(name):
            return text
        made = edit(text)
        assert made != text
        return made

    return edited


def _run(chain: Chain, edit: Edit, images: Any = None, behind: Any = None) -> Any:
    with executing((9, 0), edit) as launches:
        launches.behind = behind
        images = _images("uint8") if images is None else images
        return [one.values for one in chain(_on_device(launches, images)).compute("float32")]


def _without(number: int) -> Callable[[str], str]:
    """A text without one of its barriers."""

    def edit(text: str) -> str:
        places = [found.start() for found in re.finditer(r"bar\.sync", text)]
        assert len(places) == 9
        end = text.index(";", places[number])
        return text[: places[number]] + text[end + 1 :]

    return edit


@pytest.mark.parametrize("number", [0, 1, 2, 4, 5, 6, 7, 8])
def test_each_barrier_of_the_statistics_is_missed(number: int) -> None:
    chain = _measured if number < 5 else _equalized
    with pytest.raises(Fault, match=r"no barrier between|that nothing wrote"):
        _run(chain, _edited("statistics", _without(number)))


def test_the_barrier_in_front_of_the_ticket_is_missed_by_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """All it orders are atomics, which are no race; but the last block may look before all of another have added."""
    made = kernels.statistics_kernel((), "uint8", False)
    monkeypatch.setattr(kernels.Kernel, "all", [])
    smaller = kernels.Kernel(made.name, made.function, made.signature, 64)
    monkeypatch.setattr(kernels, "statistics_kernel", lambda *_: smaller)
    images = [_RANDOM.integers(0, 256, (16, 17, 3), np.uint8)]
    expected = gi.equalize(images).compute("float32")[0]

    def right(edit: Edit, turns: int) -> bool:
        found = _run(gi.equalize, edit, images, behind=(1, turns))[0]  # the second warp of the first block
        return bool(np.abs(found - expected).max() <= 1e-4)

    assert [right(lambda kernel, text: text, turns) for turns in range(5)] == [True] * 5
    # After three turns it is past the barrier in front of the missing one, and has added nothing to the image's sums.
    assert [right(_edited("statistics", _without(3)), turns) for turns in range(5)] == [True, True, True, False, True]


def _replaced(pattern: str, by: str, count: int = 1) -> Callable[[str], str]:
    return lambda text: re.sub(pattern, by, text, count=count)


FAULTS = {
    "a store one pixel on": (r"st\.global\.f32 \t\[(%rd\d+)\]", r"st.global.f32 [\1+12]", "race|out of bounds"),
    "a store one byte on": (r"st\.global\.f32 \t\[(%rd\d+)\]", r"st.global.f32 [\1+1]", "misaligned"),
    "a load of one record too many": (
        r"mul\.lo\.s32 \t(%r\d+), (%r\d+), 26;",
        r"mad.lo.s32 \1, \2, 26, 26;",
        "ints",
    ),
    "no end of the threads": (r"@%p\d+ bra", r"// bra", "out of bounds|race"),
    "an opcode that is not known": (r"fma\.rn\.ftz\.f32", r"fma.rn.ftz.f31", r"fma\.rn\.ftz\.f31 .*not known"),
    "a parameter less": (r"\.param \.u64 \S+_param_0,\n", r"", "wrong parameters"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_the_transform_are_named(name: str) -> None:
    pattern, by, said = FAULTS[name]
    with pytest.raises(Fault, match=said):
        _run(_shrunk, _edited("transform", _replaced(pattern, by)))


def test_a_stride_that_is_not_the_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """Told by the host: rows that lie further apart than they do."""
    with executing((9, 0)) as launches:
        compile_plan = launches.standin.runtime.compile_plan

        def wrong(plan: Any) -> Any:
            passes, region = compile_plan(plan)
            return [replace(made, records=made.records.view(_Wide)) for made in passes], region

        monkeypatch.setattr(launches.standin.runtime, "compile_plan", wrong)
        monkeypatch.setattr("tests.standin.launches._part", lambda array, first, stop: array.range)
        with pytest.raises(Fault, match=r"of source .* out of bounds|of source that nothing wrote"):
            _shrunk(_on_device(launches, _images("uint8"))).compute()


class _Wide(np.ndarray[Any, Any]):
    """Records whose strides are three elements longer than what is put into them."""

    def __setitem__(self, name: Any, value: Any) -> None:
        super().__setitem__(name, value + 3 if name == "stride" else value)
