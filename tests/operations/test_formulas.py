"""The scalar formulas of the kernels as plain Python, against NumPy and the references: nothing is compiled.

Run this first after a change in ``kernels/color.py``, ``sampling.py``, ``cast.py`` or ``statistics.py``.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from .. import references

KERNELS = Path(__file__).parents[2] / "kernels"
F32 = np.float32


@pytest.fixture(scope="module")
def kernels() -> Iterator[Callable[[str], ModuleType]]:
    """Modules of the kernels, loaded once more with a decorator that leaves functions as they are."""

    def plain(function: Any = None, **options: Any) -> Any:
        return function if function is not None else lambda inner: inner

    package = ModuleType("plain_kernels")
    package.__path__ = [str(KERNELS)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, package.__name__, package)
        patch.setattr(numba, "njit", plain)
        yield lambda name: importlib.import_module(f"{package.__name__}.{name}")
        for name in [name for name in sys.modules if name.startswith("plain_kernels.")]:
            del sys.modules[name]


def picture(rng: np.random.Generator) -> NDArray[np.float64]:
    """Few pixels, some of them black, white, gray and in between by a rounding error."""
    pixels = rng.random((6, 9, 3)).astype(F32).astype(np.float64)
    pixels[0, :3] = np.array([[0, 0, 0], [1, 1, 1], [0.5, 0.5, 0.5]])
    return pixels


def applied(kernels: Any, op: Any, image: NDArray[np.float64], *values: float) -> NDArray[np.float64]:
    """An op's formula on every pixel."""
    formula = kernels("program").formula_of(op)
    given = tuple(F32(value) for value in values)
    zero = F32(0)
    rows = [[formula(*map(F32, pixel), zero, zero, given) for pixel in row] for row in image.tolist()]
    return np.array(rows, np.float64)


def table(values: NDArray[Any]) -> NDArray[np.float32]:
    """Statistics words with these first."""
    words = np.zeros(1 << 12, F32)
    words[: values.size] = values.ravel()
    return words


FORMULAS: dict[str, tuple[tuple[float, ...], Callable[[Any], Any]]] = {
    "brightness": ((1.3,), lambda x: references.adjust_brightness(x, 1.3)),
    "saturation": ((0.4,), lambda x: references.adjust_saturation(x, 0.4)),
    "hue": ((-0.3,), lambda x: references.adjust_hue(x, -0.3)),
    "hsv": ((0.4, 1.6, 1.3), lambda x: references.adjust_hsv(x, 0.4, 1.6, 1.3)),
    "grayscale": ((), lambda x: np.repeat(references.rgb_to_grayscale(x), 3, 2)),
    "permute": ((2.0, 0.0, 1.0), lambda x: x[..., [2, 0, 1]]),
    "invert": ((), lambda x: 1.0 - x),
    "solarize": ((0.6,), lambda x: np.where(x >= F32(0.6), 1.0 - x, x)),
    "solarize_add": ((0.7, 0.6), lambda x: references.solarize_add(x, 0.7, F32(0.6))),
    "posterize": ((8.0, 7.0, 1 / 8), lambda x: np.clip(np.floor(x * 8), 0, 7) / 8),
    "contrast": ((1.7, 0.4), lambda x: np.clip(1.7 * x - 0.7 * 0.4, 0, 1)),
    "autocontrast": ((0.1, 2.0, 0.2, 1.5, 0.0, 1.0), lambda x: np.clip((x - [0.1, 0.2, 0]) * [2, 1.5, 1], 0, 1)),
    "normalize": ((2.0, 3.0, 4.0, -1.0, 0.5, 0.25), lambda x: x * [2, 3, 4] + [-1, 0.5, 0.25]),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formula_equals_its_reference(name: str, kernels: Any) -> None:
    values, reference = FORMULAS[name]
    (op,) = (op for op in kernels("ops").OPS if op.name == name)
    image = picture(np.random.default_rng())
    tolerance = 2e-5 if name in ("hue", "hsv") else 2e-6
    np.testing.assert_allclose(applied(kernels, op, image, *values), reference(image), atol=tolerance)


def test_every_op_of_the_table_has_a_formula_or_is_a_separate_loop(kernels: Any) -> None:
    ops, program = kernels("ops"), kernels("program")
    without = {op.name for op in ops.OPS} - {op.name for op in program.PIXEL_OPS}
    assert without == {"end", "skip", "sharpness", "motion", "jpeg", "elastic"}
    assert [op.code for op in ops.OPS] == list(range(len(ops.OPS)))
    assert len({op.name for op in ops.OPS}) == len(ops.OPS)


def test_parameters_are_read_from_where_the_table_says(kernels: Any) -> None:
    ops, program = kernels("ops"), kernels("program")
    words = np.arange(100, dtype=F32)
    statistics = np.arange(5000, dtype=F32) * 2
    for op in program.PIXEL_OPS:
        start = 3
        entry = words.copy()
        if op.statistic:
            entry[start + ops.SLOT] = 1.0
        found = program.values_of(op)(entry, start, statistics, 4)
        if op.statistic == ops.HISTOGRAM:
            assert found[0] is statistics
            assert found[1] == 4 + ops.STATISTICS_WORDS
            continue
        named = [start + op.at(name) for name in op.parameters]
        count = {None: 0, ops.MEAN: 1, ops.RANGE: 6}[op.statistic]
        assert list(found) == [*named, *(statistics[4 + ops.STATISTICS_WORDS :][:count])]


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_known_answers(counter: Any, key: Any, expected: Any, kernels: Any) -> None:
    """Those of Random123's ``kat_vectors``."""
    found = kernels("noise").philox(*map(np.uint32, (*counter, *key)))
    assert tuple(int(word) for word in found) == expected
    assert tuple(references.philox(np.array(counter), np.array(key)).tolist()) == expected


def test_logarithm_and_circle_are_numpys(kernels: Any) -> None:
    noise = kernels("noise")
    rng = np.random.default_rng()
    values = np.concatenate([rng.random(500), 2.0 ** -rng.uniform(0, 24, 500), [2.0**-24, 0.5, 0.70710677, 1.0]])
    values = values.astype(F32)
    exact = np.log(values.astype(np.float64))
    np.testing.assert_allclose([noise.log(value) for value in values], exact, rtol=2e-7, atol=1e-9)
    turns = np.concatenate([rng.random(500), np.arange(8) / 8]).astype(F32)
    found = np.array([noise.cosine_and_sine(turn) for turn in turns])
    angle = 2.0 * np.pi * turns.astype(np.float64)
    np.testing.assert_allclose(found, np.stack([np.cos(angle), np.sin(angle)], 1), atol=2e-7)


def test_equalize_looks_levels_up(kernels: Any) -> None:
    ops = kernels("ops")
    rng = np.random.default_rng()
    tables = rng.random((3, ops.LEVELS)).astype(F32)
    image = rng.integers(0, 256, (4, 5, 3))
    pixels = (image / 255.0).astype(F32)
    formula = kernels("program").formula_of(ops.EQUALIZE)
    values = table(tables), 0
    found = np.array([[formula(*pixel, F32(0), F32(0), values) for pixel in row] for row in pixels])
    expected = np.stack([tables[c][image[..., c]] for c in range(3)], 2)
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("inside", [0.0, 1.0])
def test_paint_blends_by_the_share_of_the_filter(inside: float, kernels: Any) -> None:
    formula = kernels("program").formula_of(kernels("ops").PAINT)
    values = tuple(map(F32, (2, 1, 6, 4, 1, 1, 0.9, 0.8, 0.7, inside)))
    for x, y, cover in [(4.0, 2.5, 1.0), (2.0, 2.5, 0.5), (0.0, 2.5, 0.0), (6.0, 4.0, 0.25), (5.75, 2.5, 0.75)]:
        share = cover if inside else 1.0 - cover
        found = formula(F32(0.1), F32(0.2), F32(0.3), F32(x), F32(y), values)
        expected = np.array([0.1, 0.2, 0.3]) * (1 - share) + np.array([0.9, 0.8, 0.7]) * share
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_stored_bytes_are_rounded_half_to_even(kernels: Any) -> None:
    store = kernels("color").store_byte
    levels = np.arange(0, 255.01, 0.25)
    found = [store(F32(level / 255.0)) for level in levels]
    assert np.array_equal(found, np.rint(levels))
    assert [store(F32(x)) for x in (-0.1, 1.1)] == [0.0, 255.0]


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
def test_casts_are_numpys(kernels: Any) -> None:
    cast = kernels("cast")
    rng = np.random.default_rng()
    values = np.concatenate([rng.normal(size=300) * 10.0 ** rng.integers(-9, 6, 300), [0, -0.0, 65504, 65520, 1e-8]])
    values = values.astype(F32)
    with np.errstate(over="ignore"):
        halves = values.astype(np.float16).view(np.uint16)
    assert np.array_equal([cast.float16_bits(value) for value in values], halves)
    ml_dtypes = pytest.importorskip("ml_dtypes")
    brains = values.astype(ml_dtypes.bfloat16).view(np.uint16)
    assert np.array_equal([cast.bfloat16_bits(value) for value in values], brains)


@pytest.mark.parametrize(("name", "a", "radius"), [("LINEAR", None, 1), ("CUBIC_RENORMALIZED", -0.5, 2)])
def test_tap_weights_are_those_of_their_filter(name: str, a: float | None, radius: int, kernels: Any) -> None:
    sampling, layout = kernels("sampling"), kernels("layout")
    kind = getattr(layout, name)
    assert layout.RADIUS[kind] == radius
    low, high = F32(-100), F32(100)
    for distance in np.linspace(-radius - 0.5, radius + 0.5, 41):
        d = abs(distance)
        if a is None:
            expected = max(1 - d, 0.0)
        elif d < 1:
            expected = (a + 2) * d**3 - (a + 3) * d**2 + 1
        else:
            expected = a * (d**3 - 5 * d**2 + 8 * d - 4) if d < 2 else 0.0
        weight = sampling.tap_weight(F32(3), F32(3.5 + 2 * distance), F32(0.5), kind, low, high)
        assert weight == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize(("name", "radius"), [("LANCZOS", 3), ("HAMMING", 1), ("BOX", 0.5)])
def test_rare_tap_weights_are_those_of_their_filter(name: str, radius: float, kernels: Any) -> None:
    sampling, layout = kernels("sampling"), kernels("layout")
    kind = getattr(layout, name)
    assert layout.RADIUS[kind] == radius
    assert kind in layout.RARE_FILTERS
    for distance in np.linspace(-radius - 0.5, radius + 0.5, 96):
        expected = 0.0
        if abs(distance) < radius:
            window = np.sinc(distance / 3) if name == "LANCZOS" else 0.54 + 0.46 * np.cos(np.pi * distance)
            expected = 1.0 if name == "BOX" else np.sinc(distance) * window
        weight = sampling.rare_weight(F32(3), F32(3.5 + 2 * distance), F32(0.5), kind)
        assert weight == pytest.approx(expected, abs=2e-6)


def test_a_flat_channel_is_not_stretched(kernels: Any) -> None:
    stretch = kernels("statistics").stretch_of
    assert stretch(F32(0.3), F32(0.3)) == (0.0, 1.0)
    low, gain = stretch(F32(0.25), F32(0.75))
    assert (float(low), float(gain)) == (0.25, 2.0)


def test_equalizing_levels_are_pillows(kernels: Any) -> None:
    from PIL import Image, ImageOps

    statistics = kernels("statistics")
    rng = np.random.default_rng()
    image = np.clip(rng.normal(90, 30, (30, 31)), 0, 255).astype(np.uint8)
    counts = np.bincount(image.ravel(), minlength=256)
    last = np.int32(counts[counts > 0][-1])
    step = statistics.equalize_step(np.int32(image.size), last)
    below = np.concatenate([[0], np.cumsum(counts)[:-1]])
    table = [statistics.equalize_level(level, np.int32(below[level]), step) * 255 for level in range(256)]
    expected = np.asarray(ImageOps.equalize(Image.fromarray(image)))
    assert np.array_equal(np.rint(np.array(table)[image]).astype(np.uint8), expected)
