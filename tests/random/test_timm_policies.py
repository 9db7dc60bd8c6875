"""timm's policies against timm, where it is installed: what their text means, what is drawn, and the pixels."""

import itertools
import math
import random
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageFilter

import gpuimg as gi
from gpuimg._batch.batch import recording_of
from gpuimg._random import mixing, timm_policies
from gpuimg._random.policies import apply_ops
from gpuimg._random.policy_tables import IDENTITY
from gpuimg._random.timm_config import parsed
from gpuimg._random.timm_policies import OPS, magnitudes

from ..libraries import cases, is_here, library
from ..samples import PHOTOS
from .distributions import SMALLEST, assert_share, rng, same_distribution

MANY = 6000

#: Policies as people write them, and each section at least once.
POLICIES = (
    "rand-m9-mstd0.5-inc1", "rand-m15-mmax20-p0.8", "rand-m3-mstd101-n1", "rand-mmax0-m12-p2",
    "rand-m9-mstd0.5-mstd2-inc0", "rand-m5-t3a-p1", "rand-m8-n3-t3aw-mstd1", "rand-mstd1-tweights", "rand-n0",
    "augmix", "augmix-m3-w2-d0-a0.5-mstd1-b1", "original", "originalr-mstd0.5", "v0", "v0r-mstd1", "3a-mstd0.5",
)  # fmt: skip

#: What neither timm nor gpuimg takes.
REFUSED = (
    "randx", "rand9-m3", "rand-q3", "rand-m1.5", "rand-mstd0.5x", "rand-w0", "augmixed", "augmix-n3", "augmix-m5.5",
    "v1", "v0-m5", "3a-m9", "original-mmax5", "", "m9", "rand-m9-mstd.5",
)  # fmt: skip
#: What timm ignores, and gpuimg refuses.
IGNORED = ("rand-m", "rand-inc", "rand-m9-mstdinf", "rand-tbest", "augmix-w", "v0-mstd")
STRENGTHS = (*np.arange(0, 10.5, 0.5).tolist(), 12.0, 15.0, 20.0)
WITHOUT_STRENGTH = ("AutoContrast", "Equalize", "Invert")


def timm() -> Any:
    return library("timm.data.auto_augment")


def transform_of(module: Any, text: str) -> Any:
    """The policy as ``create_transform`` creates it, with ImageNet's mean."""
    hparams: dict[str, Any] = {"translate_const": 100, "img_mean": (124, 116, 104)}
    if text.startswith("rand"):
        return module.rand_augment_transform(text, hparams)
    if text.startswith("augmix"):
        return module.augment_and_mix_transform(text, hparams | {"translate_pct": 0.3})
    return module.auto_augment_transform(text, hparams)


def ops_of(transform: Any) -> list[Any]:
    return transform.ops if hasattr(transform, "ops") else [op for row in transform.policy for op in row]


def argument(name: str, level: Any, sign: Any) -> Any:
    """timm's argument: translations are a share of the side, and "Desaturate" has 1 minus the factor."""
    found = OPS[name].argument(np.asarray(level, np.float64), np.asarray(sign, np.float64))
    return found * 0.45 if name.startswith("Translate") else 1.0 - found if name == "Desaturate" else found


@cases("timm", "name", [name for name in OPS if name not in WITHOUT_STRENGTH])
def test_arguments_are_timms(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    level_to_argument = timm().LEVEL_TO_ARG[name]
    for sign in (1.0, -1.0):
        monkeypatch.setattr(random, "random", lambda sign=sign: 0.9 if sign < 0 else 0.1)
        expected = [float(level_to_argument(level, {"translate_pct": 0.45})[0]) for level in STRENGTHS]
        np.testing.assert_allclose(argument(name, np.array(STRENGTHS) / 10.0, sign), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("text", [*REFUSED, *IGNORED])
def test_what_timm_refuses_or_ignores_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"needs a number|must"):
        gi.timm_augment(np.zeros((1, 8, 8, 3), np.uint8), text, rng=0)
    if text in REFUSED and is_here("timm"):
        with pytest.raises((AssertionError, ValueError)):
            transform_of(timm(), text)


Drawn = dict[int, list[float]]
BLUR = OPS["GaussianBlur"].code


class Recorder:
    """Takes the place of the functions that a policy calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
        self.config = parsed(text)
        self.steps: list[tuple[Any, Any]] = []
        self.interpolations: list[Any] = []
        self.blurs: list[tuple[Any, Any]] = []
        monkeypatch.setattr(timm_policies, "apply_ops", self.apply_ops)
        monkeypatch.setattr(timm_policies, "gaussian_blur", SimpleNamespace(record=self.blur))
        monkeypatch.setattr(mixing, "blend", lambda one, other, weight: one)

    def apply_ops(self, batch: Any, codes: Any, values: Any, interpolation: Any, fill: Any) -> Any:
        self.steps.append((codes, values))
        self.interpolations.append(interpolation)
        return batch

    def blur(self, batch: Any, kernel: int, sigma: Any, where: Any) -> Any:
        self.blurs.append((sigma, where))
        return batch

    def drawn(self) -> Drawn:
        """Magnitudes by code of the op."""
        found: Drawn = defaultdict(list)
        for codes, values in self.steps:
            for code in np.unique(codes[codes != IDENTITY]).tolist():
                found[code] += values[codes == code].tolist()
        for sigma, where in self.blurs:
            found[BLUR] += sigma[where].tolist()
        return found


def our_draws(monkeypatch: pytest.MonkeyPatch, text: str, size: tuple[int, int] = (20, 10)) -> Recorder:
    recorder = Recorder(monkeypatch, text)
    gi.timm_augment(np.zeros((MANY, *size, 3), np.uint8), text, rng=rng(zlib.crc32(text.encode()), MANY))
    return recorder


def test_interpolation_of_each_op(monkeypatch: pytest.MonkeyPatch) -> None:
    for interpolation in ("random", "bicubic"):
        recorder = Recorder(monkeypatch, "rand-n2")
        gi.timm_augment(np.zeros((MANY, 8, 8, 3), np.uint8), "rand-n2", interpolation, rng=rng(3, MANY))  # type: ignore[arg-type]
        if interpolation == "bicubic":
            assert recorder.interpolations == ["bicubic"] * 2
        else:
            first, second = (drawn == "bicubic" for drawn in recorder.interpolations)
            assert {*recorder.interpolations[0]} == {"bilinear", "bicubic"}
            assert_share(first, 0.5)
            assert_share(first == second, 0.5)


def their_draws(text: str) -> Drawn:
    """Arguments of timm's functions by name of the op, in our unit."""
    transform = transform_of(timm(), text)
    found: dict[str, list[float]] = defaultdict(list)

    def recorder(name: str) -> Callable[..., Any]:
        def record(image: Any, *arguments: float, **_: Any) -> Any:
            if name == "GaussianBlurRand":
                arguments = (random.uniform(0.1, 2.0 * arguments[0]),)
            found[name].append(float(arguments[0]) if arguments else 0.0)
            return image

        return record

    for op in ops_of(transform):
        op.aug_fn = recorder(op.name)
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002  (timm draws from it)
    image = Image.new("RGB", (10, 20))
    for _ in range(MANY):
        transform(image)
    by_code: Drawn = defaultdict(list)
    for name, values in found.items():
        code, value = OPS[name].code, np.array(values)
        value = 1.0 - value if name == "Desaturate" else value
        if code != BLUR:
            value = magnitudes(np.full(len(value), code), value, np.full((len(value), 2), [20.0, 10.0]))
        by_code[code] += value.tolist()
    return by_code


@cases("timm", "text", [text for text in POLICIES if text != "rand-n0"])
def test_draws_are_timms(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    theirs, found = their_draws(text), our_draws(monkeypatch, text).drawn()
    if text.startswith("augmix"):  # whose weights are not among the draws
        assert parsed(text).alpha == transform_of(timm(), text).alpha
    assert found.keys() == theirs.keys()
    counts = np.array([[len(drawn[code]) for code in theirs] for drawn in (found, theirs)], np.float64)
    expected = counts.sum(0) * counts.sum(1, keepdims=True) / counts.sum()
    few = expected.min(0) < 5
    # A chi-square of the table, of a distribution with columns minus one degrees of freedom and twice as many cells.
    statistic = float(np.sum(((counts - expected) ** 2 / expected)[:, ~few]))
    degrees = max(int((~few).sum()) - 1, 1)
    assert statistic < degrees + 4.0 * math.sqrt(2.0 * degrees) + 4.0
    total, other = counts.sum(1)
    assert abs(total - other) < 5.0 * math.sqrt(total + other)
    for code, values in theirs.items():
        if len(values) > 50:
            # Rounded: equal values, computed in another order. One of the 200 samples may well be below SMALLEST.
            assert same_distribution(np.round(found[code], 9), np.round(values, 9)) > SMALLEST / 100, code


BICUBIC, BILINEAR = Image.Resampling.BICUBIC, Image.Resampling.BILINEAR
FILL = (124, 116, 104)


def by_timm(name: str, image: Image.Image, value: float, interpolation: Any) -> NDArray[np.uint8]:
    if (name, value) == ("PosterizeIncreasing", 0.0):  # Pillow 13 refuses 0 bits; earlier ones return black
        return np.zeros((*image.size[::-1], 3), np.uint8)
    given = () if name in WITHOUT_STRENGTH else (int(value) if OPS[name].code in (10, 11, 15) else value,)
    return np.asarray(timm().NAME_TO_OP[name](image, *given, resample=interpolation, fillcolor=FILL))


def applied(name: str, interpolation: str) -> Iterator[tuple[NDArray[Any], Image.Image, float]]:
    """Results, the images they are from, and timm's arguments."""
    sizes = ((97, 64), (128, 128), (75, 140))
    images = [
        np.asarray(Image.open(path).convert("RGB").resize(size)) for path, size in zip(PHOTOS, sizes, strict=False)
    ]
    if name == "AutoContrast":  # which photos do not need
        images = [image // 2 + 40 for image in images]
    for level, sign in itertools.product((0.2, 0.55, 0.9, 1.0), (1.0, -1.0)):
        n, code, x = len(images), OPS[name].code, gi.pad(images, 0)
        values = magnitudes(np.full(n, code), OPS[name].argument(np.full(n, level), np.full(n, sign)), x.sizes * 0.45)
        blurred = code == BLUR
        moved = recording_of(x), np.full(n, code), values, interpolation, FILL
        x = gi.gaussian_blur(x, 13, values) if blurred else gi.Batch(apply_ops(*moved))
        for result, image in zip(x.compute("uint8"), images, strict=True):
            yield result, Image.fromarray(image), float(argument(name, level, sign))


#: Largest and mean difference in levels of 255.
TOLERANCE = {
    "AutoContrast": (1, 0.7), "Equalize": (0, 0), "Invert": (0, 0), "PosterizeIncreasing": (0, 0),
    "SolarizeIncreasing": (0, 0), "SolarizeAdd": (0, 0), "Color": (1, 0.6), "Contrast": (1, 0.7),
    "Brightness": (1, 0.6), "Sharpness": (1, 0.5), "Desaturate": (1, 0.6), "GaussianBlur": (6, 0.9),
}  # fmt: skip


@cases("timm", "name", TOLERANCE)
def test_colors_are_timms(name: str) -> None:
    most, mean = TOLERANCE[name]
    for result, image, value in applied(name, "bilinear"):
        away = np.abs(result.astype(int) - by_timm(name, image, value, BILINEAR))
        if name == "GaussianBlur":  # Pillow repeats the border, which is mirrored here
            away = away[7:-7, 7:-7]
        assert away.max() <= most
        assert away.mean() <= mean


@cases("timm", "interpolation, how, most, mean", [("bilinear", BILINEAR, 1, 0.5), ("bicubic", BICUBIC, 15, 1.4)])
@cases("timm", "name", ["Rotate", "ShearX", "ShearY", "TranslateXRel", "TranslateYRel"])
def test_moved_pixels_are_timms(name: str, interpolation: str, how: Any, most: int, mean: float) -> None:
    """Away from borders, where Pillow repeats the outermost pixels; its cubic has a = -1, torch's and ours -0.75."""
    for result, image, value in applied(name, interpolation):
        white = by_timm(name, Image.new("RGB", image.size, (255, 255, 255)), value, how)
        inside = (white == 255).all(2)
        inner = np.asarray(Image.fromarray(np.pad(inside, 3)).filter(ImageFilter.MinFilter(7)))[3:-3, 3:-3]
        outer = np.asarray(Image.fromarray(inside).filter(ImageFilter.MaxFilter(7)))
        away = np.abs(result.astype(int) - by_timm(name, image, value, how))
        assert inner.mean() > 0.15
        assert away[inner].max() <= most
        assert away[inner].mean() <= mean
        assert away[~outer].max(initial=0) == 0
