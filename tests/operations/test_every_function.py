"""Every function: its formula, and laws of parameters, ``where``, awkward and unchanged inputs, and N = 0."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gpuimg as gi
from tests.video.videos import made

from .. import references
from ..compare import FORMULA, GEOMETRY, HUE, assert_bytes, assert_close, assert_same, counting
from ..references import to_bytes, to_unit
from ..samples import SIZES, images, kinds, pictures_of
from .calls import CALLS, MOVES, RESIZING, Call

calls = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
with_parameters = pytest.mark.parametrize(
    "call", [pytest.param(c, id=name) for name, c in CALLS.items() if c.each(np.random.default_rng(0), 1, 1.0)]
)

COUNT = 26  # each size twice


def noisy(x: Any, mean: float, sigma: float, seed: int) -> Any:
    return np.clip(x + mean + sigma * references.noise(*x.shape[:2], seed)[1][..., : x.shape[2]], 0, 1)


def speckled(x: Any, amount: float, salt: float, seed: int) -> Any:
    drawn = references.noise(*x.shape[:2], seed)[0][..., :1]
    return np.where(drawn < amount, np.where(drawn < salt * amount, 1.0, 0.0), x)


def foggy(x: Any, density: float, scale: float, color: Any, seed: int) -> Any:
    share = np.minimum(2 * density * references.clouds(*x.shape[:2], scale, seed), 1)[..., None]
    return x * (1 - share) + color * share


def combined(x: Any, matrix: Any) -> Any:
    """Of gray images, the matrix is its corners."""
    rows = matrix if x.shape[2] == 3 else matrix[:1, ::3]
    return np.clip(x @ rows[:, :-1].T + rows[:, -1], 0, 1)


def shaded(x: Any, corners: Any, factor: float) -> Any:
    """By the even-odd rule: an odd number of edges meets the line to the right of a pixel's middle."""
    rows, columns = np.mgrid[: x.shape[0], : x.shape[1]] + 0.5
    met = np.zeros(x.shape[:2], int)
    for (x0, y0), (x1, y1) in zip(corners, np.roll(corners, 1, 0), strict=True):
        at = x0 + (rows - y0) * (x1 - x0) / (y1 - y0)
        met += ((rows < y0) != (rows < y1)) & (columns < at)
    return np.clip(np.where(met[..., None] % 2 == 1, x * factor, x), 0, 1)


def dimmed(x: Any, value: float) -> Any:
    """The user's function of CALLS; of gray images the first channel is kept."""
    rows, columns = np.mgrid[: x.shape[0], : x.shape[1]] * 0.01
    return (x * value + np.stack([0 * rows, rows, columns], 2))[..., : x.shape[2]]


def bent(x: Any, alpha: Any, sigma: float, seed: int, fill: Any) -> Any:
    at = np.stack(np.meshgrid(np.arange(x.shape[1]) + 0.5, np.arange(x.shape[0]) + 0.5), -1)
    xs, ys = np.moveaxis(references.displaced(at, seed, alpha, sigma) - 0.5, 2, 0)
    return references.sample(x, xs, ys, "bilinear", fill)


def blurred(x: Any, sigma: float) -> Any:
    height, width = np.minimum(2 * np.array(x.shape[:2]) - 1, 5).tolist()
    return references.gaussian_blur(x, (width, height), (sigma, sigma))


#: Formulas that are not of the same name in references, and tolerances.
FORMULAS: dict[str, tuple[Callable[..., Any] | None, float]] = {
    **dict.fromkeys(("adjust_brightness", "adjust_contrast", "adjust_saturation", "adjust_gamma", "adjust_sharpness",
                     "invert", "autocontrast", "equalize", "solarize", "solarize_add", "erase"), (None, FORMULA)),
    "adjust_hue": (references.adjust_hsv, HUE), "adjust_hsv": (None, HUE), "motion_blur": (None, 4 * FORMULA),
    "normalize": (lambda x: (x - 0.4) / 0.3, FORMULA), "gaussian_blur": (blurred, FORMULA),
    "rgb_to_grayscale": (lambda x: references.gray(x).repeat(3, 2), FORMULA),
    "permute_channels": (lambda x, order: x[..., order[: x.shape[2]] * (x.shape[2] > 1)], FORMULA),
    "color_matrix": (combined, FORMULA),
    "rgb_shift": (lambda x, shift: np.clip(x + shift[: x.shape[2]], 0, 1), FORMULA), "shadow": (shaded, FORMULA),
    "channel_dropout": (lambda x, chosen, value: np.where(chosen[: x.shape[2]], value, x), FORMULA),
    "salt_and_pepper": (speckled, FORMULA), "fog": (foggy, FORMULA),
    "gaussian_noise": (noisy, FORMULA), "pointwise": (dimmed, FORMULA), "elastic": (bent, GEOMETRY),
}  # fmt: skip
COLORS = {"v", "fill", "addition", "threshold", "shift", "color"}  # in the unit of the images


@kinds
@pytest.mark.parametrize("name", [name for name in FORMULAS if name in CALLS])
def test_pixels_are_those_of_the_formula(name: str, dtype: str, channels: int) -> None:
    rng, white = np.random.default_rng(), 255.0 if dtype == "uint8" else 1.0
    pictures = pictures_of(rng, dtype, channels)
    each = CALLS[name].each(rng, len(pictures), white)
    units = {**dict.fromkeys(COLORS, white), "matrix": np.r_[[1.0] * 3, white]}
    values = [array / units[key] if key in units else array for key, array in each.items()]
    formula, tolerance = FORMULAS[name]
    formula = formula or getattr(references, name)
    expected = [formula(to_unit(p), *(value[i] for value in values)) for i, p in enumerate(pictures)]
    x = CALLS[name].run(pictures, each)
    assert_close(x.compute("float32"), expected, tolerance)
    if name != "normalize":
        assert_bytes(x.compute("uint8"), map(to_bytes, expected))


def drawn(call: Call, seed: int, dtype: str, channels: int, n: int = COUNT) -> tuple[list[Any], dict[str, Any]]:
    """Images and parameters for each of them."""
    rng = np.random.default_rng(seed)
    return images(rng, dtype, channels, n), call.each(rng, n, 255.0 if dtype == "uint8" else 1.0)


def unchanged(picture: NDArray[Any], dtype: str) -> NDArray[Any]:
    """An image as a result of another dtype."""
    return picture * np.float32(1.0 / 255.0) if dtype != picture.dtype and picture.dtype == np.uint8 else picture


@kinds
@calls
def test_a_batch_is_the_loop_over_its_images(call: Call, dtype: str, channels: int) -> None:
    pictures, each = drawn(call, 1, dtype, channels)
    counted, runtime = counting(pictures)
    before = copy.deepcopy((pictures, each, repr(counted), counted.sizes))
    x = call.run(counted, each)
    sizes, runs = x.sizes.tolist(), runtime.runs
    together = list(x.compute())
    assert_same(together, list(call.run(pictures, each).compute()))
    np.testing.assert_equal((pictures, each, repr(counted), counted.sizes), before)  # nothing given is changed
    single = [{name: values[i : i + 1] for name, values in each.items()} for i in range(COUNT)]
    assert_same(together, [call.run([picture], own)[0] for picture, own in zip(pictures, single, strict=True)])
    # Sizes are known before anything runs.
    assert runs == 0
    assert [list(result.shape) for result in together] == [[*size, x.channels] for size in sizes]
    assert call in map(CALLS.get, RESIZING) or sizes == [list(SIZES[i % len(SIZES)]) for i in range(COUNT)]


@kinds
@calls
def test_where_takes_in_the_chosen_images_only(call: Call, dtype: str, channels: int) -> None:
    if call.function is gi.rgb_to_grayscale:  # where= needs the number of channels unchanged
        call = call._replace(fixed={"num_output_channels": channels})
    pictures, each = drawn(call, 2, dtype, channels)
    chosen = call.run(pictures, each).compute()
    for where in (np.random.default_rng(3).random(COUNT) < 0.5, False, [True] * COUNT):
        results = list(call.run(pictures, each, where=where).compute())
        used, kind = np.broadcast_to(where, COUNT), str(results[0].dtype)
        assert_same(results, [chosen[i] if used[i] else unchanged(p, kind) for i, p in enumerate(pictures)])


@with_parameters
def test_numbers_and_lists_are_parameters(call: Call) -> None:
    pictures, each = drawn(call, 7, "uint8", 3, n=5)
    for name, values in each.items():
        one = np.asarray(values)[0]
        # Parameters of two numbers take each of them alone; points are one (4, 2) array; a color is one number.
        scalar = one if one.ndim != 1 else one[0] if one.shape == (1,) else tuple(one)
        same = each | {name: np.repeat(np.asarray(values)[:1], 5, axis=0)}
        assert_same(list(call.run(pictures, each | {name: scalar}).compute()), list(call.run(pictures, same).compute()))
    lists = {name: tuple(v.T.tolist()) if v.shape == (5, 2) else v.tolist() for name, v in each.items()}
    if call.function.__name__ == "gaussian_blur":  # one list is (x, y)
        lists["sigma"] = lists["sigma"], lists["sigma"]
    assert_same(list(call.run(pictures, lists).compute()), list(call.run(pictures, each).compute()))


@calls
def test_bad_parameters_are_refused(call: Call) -> None:
    pictures, each = drawn(call, 9, "uint8", 3, n=5)
    for name, values in each.items():
        with pytest.raises(ValueError, match=rf"^{name}\b.*must .*\(5,.*not .*\(4,"):
            call.run(pictures, each | {name: values[:4]})
        broken = np.array(values, np.float64)
        broken[3, ...] = np.nan
        with pytest.raises(ValueError, match=rf"^{name}\b.*must be .*not .*nan"):
            call.run(pictures, each | {name: broken})
    with pytest.raises(ValueError, match=r"where must have shape \(5,\), one for each image, not \(4,\)"):
        call.run(pictures, each, where=[True, False, True, False])
    with pytest.raises(TypeError, match="where must be boolean, not int"):
        call.run(pictures, each, where=[1, 0, 1, 0, 1])
    with pytest.raises(TypeError, match=r"images must be a Batch, a list .*not str"):
        call.run("photo.jpg", each)


@calls
def test_value_of_each_clip(call: Call) -> None:
    rng = np.random.default_rng(12)
    x = gi.resize(gi.open_clips([made("h264")] * 2, 4, start=[0, 20], device="cpu"), (21, 26)).compute()
    each = call.each(rng, 2, 255.0)
    every = {name: np.repeat(values, 4, axis=0) for name, values in each.items()}
    found = call.run(x, each, where=np.array([True, False]))
    assert_same(list(found.compute()), list(call.run(x, every, where=np.repeat([True, False], 4)).compute()))
    assert found.frames == 4
    for name, values in each.items():
        with pytest.raises(ValueError, match=rf"^{name}\b.*must .*\(8,.*\(2,.*not .*\(5,"):
            call.run(x, each | {name: np.repeat(values, [2, 3], axis=0)})


#: The same of images of 50 x 60 pixels, without parameters for each of them.
FIXED: dict[str, Callable[[Any], Any]] = {
    **{name: move for name, (move, _) in MOVES.items()},
    "short side": lambda x: gi.resize(x, 20, max_size=23), "exact": lambda x: gi.resize(x, (9, 7), exact="pillow"),
    "letterbox": lambda x: gi.letterbox(x, (9, 7)), "expand": lambda x: gi.rotate(x, 30, expand=True),
    "five_crop": lambda x: gi.five_crop(x, (9, 7)), "ten_crop": lambda x: gi.ten_crop(x, 8),
    "mosaic": lambda x: gi.mosaic(x, (9, 8), rng=0).images, "mixup": lambda x: gi.mixup(x, rng=0).images,
    "blend": lambda x: gi.blend(x, x, 0.5), "apply_plan": lambda x: gi.apply_plan(gi.resize(x, (9, 7)), x),
    "transform_images": lambda x: gi.transform_images(gi.center_crop(x, 9), x),
    "chain": lambda x: gi.normalize(gi.pad(gi.gaussian_blur(gi.resize(x, 20), 3), 2), 0.5, 0.5),
    "choices": lambda x: gi.resize(x, (9, 7), np.full(1, "bicubic")[: len(x)]),
}  # fmt: skip
ANY_NUMBER = CALLS | {f"{name} fixed": Call(lambda x, f=f, **_: f(x)) for name, f in FIXED.items()}


@pytest.mark.parametrize("call", ANY_NUMBER.values(), ids=ANY_NUMBER)
def test_no_images(call: Call) -> None:
    """They have the size that one would have, unless parameters of each image determine it."""
    picture = np.zeros((1, 50, 60, 3), np.uint8)
    each, other = (call.each(np.random.default_rng(seed), 1, 255.0) for seed in (0, 1))
    one = call.run(picture, each).array()
    any_size = call.run(picture, other).array().shape != one.shape
    none = {key: values[:0] for key, values in each.items()}
    for empty in (picture[:0], gi.pad(picture, 0).take([]), gi.invert(picture).compute().take([False])):
        for x in (call.run(empty, none), call.run(empty, none, where=np.zeros(0, bool)).compute()):
            assert len(x) == len(list(x.compute())) == 0
            for found in (x.array(), x.array(layout="NCHW").transpose(0, 2, 3, 1)):
                assert (len(found), found.dtype) == (0, one.dtype)
                assert any_size or found.shape[1:] == one.shape[1:]


def test_forms_of_no_images() -> None:
    x = gi.resize(np.zeros((2, 9, 9, 3), np.uint8), (8, 12))
    opened, decoded = (call([], device="cpu") for call in (gi.open_batch, gi.decode_batch))
    resized = (gi.resize(none, (8, 12)) for none in (opened, decoded))
    for y in (x[:0], x.compute().take(np.zeros(2, bool)), *resized, copy.deepcopy(x.take([]))):
        out = np.empty((0, 3, 8, 12), np.float32)
        assert y.array(layout="NCHW", out=out) is out
        assert np.asarray(y).shape == np.from_dlpack(y).shape == (0, 8, 12, 3)
        assert y.padded(multiple=5, layout="NCHW").values.shape == (0, 3, 10, 15)
        assert (y.tokens(4).values.shape, y.tokens(4).starts.tolist()) == ((0, 48), [0])
        assert (y.tokens(4, pad="longest").values.shape, y.ragged().values.size, y.arrays()) == ((0, 6, 48), 0, [])
        for dtype in ("uint8", "float16", "bfloat16", "float32"):
            for found in (y.compute(dtype, "NCHW"), x.compute(dtype, "NCHW").take([])):
                assert found.array(layout="NCHW").shape == (0, 3, 8, 12)
                assert found.array().dtype == dtype
    mixed = gi.resize(np.zeros((2, 9, 9, 3), np.uint8), ([4, 5], [6, 7]))
    assert mixed.take([]).array().shape == (0, 4, 6, 3)  # that of the first one
    assert gi.pad(opened, 3).array().shape == (0, 0, 0, 3)
