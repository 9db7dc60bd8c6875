"""Every function with a different parameter for each image: for what must hold for all of them."""

import inspect
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import gpuimg as gi

from ..samples import PUBLIC

try:
    import numba
except ModuleNotFoundError:  # as in the tests of a wheel, which needs it for users' functions only
    numba = None


def dim(r: Any, g: Any, b: Any, y: Any, x: Any, value: Any) -> Any:
    return r * value, g * value + y * np.float32(0.01), b * value + x * np.float32(0.01)


def gaussian_blur(images: Any, sigma: Any, **options: Any) -> gi.Batch:
    """With the largest kernel up to 5 that the images allow."""
    kernel = np.minimum(2 * gi.pad(images, 0).sizes - 1, 5)
    return gi.gaussian_blur(images, (kernel[:, 1], kernel[:, 0]), sigma, **options)


def of_channels(function: Callable[..., gi.Batch], name: str) -> Callable[..., gi.Batch]:
    """With the first row and column only of what is for three channels, if the images are gray."""

    def call(images: Any, **options: Any) -> gi.Batch:
        if gi.pad(images, 0).channels == 1:
            value = options[name]
            options[name] = value[:, :1, ::3] if value.ndim == 3 else value[:, :1] * (name != "permutation")
        return function(images, **options)

    call.__name__ = function.__name__
    return call


class Call(NamedTuple):
    """A function, what it is given for each image, and what for all of them."""

    function: Callable[..., gi.Batch]
    # Random generator, N, and what the unit of the images is worth (255 or 1) -> (N, ...) arrays by name.
    each: Callable[[np.random.Generator, int, float], dict[str, Any]] = lambda rng, n, white: {}
    fixed: dict[str, Any] = {}  # noqa: RUF012  (never changed)

    def run(self, images: Any, each: dict[str, Any], **options: Any) -> gi.Batch:
        return self.function(images, **each, **self.fixed, **options)


def _sizes(rng: np.random.Generator, n: int, white: float) -> dict[str, Any]:
    return {"size": rng.integers(1, 40, (n, 2))}


def _windows(rng: np.random.Generator, n: int, white: float) -> dict[str, Any]:
    return {"kernel_size": rng.integers(1, 8, (n, 2))}


def _window(rng: np.random.Generator, n: int, white: float) -> dict[str, Any]:
    names = ("top", "left", "height", "width")
    return dict(zip(names, (*rng.integers(-6, 12, (2, n)), *rng.integers(1, 30, (2, n))), strict=True))


def _rectangle(rng: np.random.Generator, n: int, white: float) -> dict[str, Any]:
    return dict(zip("ijhw", rng.integers(0, 12, (4, n)), strict=True))


def _seed(rng: np.random.Generator, n: int, white: float) -> dict[str, Any]:
    return {"seed": rng.integers(0, 2**48, n)}


def _color(rng: np.random.Generator, n: int, white: float, name: str) -> dict[str, Any]:
    return {name: rng.random((n, 1)) * white}


def _threshold(rng: np.random.Generator, n: int, white: float) -> dict[str, Any]:
    """Numbers that are not within 1e-6 of white above a byte, which counts as at the threshold (solarize_parameter)."""
    values = rng.uniform(0, white, n)
    return {"threshold": np.where(values * 255 / white % 1 < 0.01, values + 0.02 * white / 255, values)}


def _points(rng: np.random.Generator, n: int, white: float) -> dict[str, Any]:
    start = np.tile([(0.0, 0.0), (20.0, 0.0), (20.0, 20.0), (0.0, 20.0)], (n, 1, 1))
    return {"startpoints": start, "endpoints": start + rng.uniform(-4, 4, (n, 4, 2))}


def _uniform(**ranges: tuple[float, float]) -> Callable[[np.random.Generator, int, float], dict[str, Any]]:
    return lambda rng, n, white: {name: rng.uniform(*ends, n) for name, ends in ranges.items()}


FILTERS = ("nearest", "bicubic", "lanczos", "box", "hamming")
CALLS = {
    "resize": Call(gi.resize, _sizes),
    **{f"resize {how}": Call(gi.resize, _sizes, {"interpolation": how}) for how in FILTERS},
    "resize plain": Call(gi.resize, _sizes, {"interpolation": "bicubic", "antialias": False}),
    "crop": Call(gi.crop, _window),
    "center_crop": Call(gi.center_crop, lambda rng, n, white: {"output_size": rng.integers(1, 40, (n, 2))}),
    "resized_crop": Call(gi.resized_crop, lambda *draw: _window(*draw) | _sizes(*draw)),
    "letterbox": Call(gi.letterbox, lambda *draw: _sizes(*draw) | _color(*draw, "fill")),
    "pad": Call(gi.pad, lambda *draw: _color(*draw, "fill"), {"padding": (1, 0, 3, 2)}),
    "pad reflect": Call(gi.pad, fixed={"padding": (3, 40, 0, 5), "padding_mode": "reflect"}),
    "pad symmetric": Call(gi.pad, fixed={"padding": (0, 1, 70, 2), "padding_mode": "symmetric"}),
    "pad edge": Call(gi.pad, fixed={"padding": 3, "padding_mode": "edge"}), "horizontal_flip": Call(gi.horizontal_flip),
    "vertical_flip": Call(gi.vertical_flip),
    "rotate": Call(gi.rotate, lambda rng, n, white: {
        "angle": rng.uniform(-180, 180, n), "center": rng.uniform(0, 30, (n, 2)), **_color(rng, n, white, "fill"),
    }, {"interpolation": "bilinear"}),
    "rotate expand": Call(gi.rotate, _uniform(angle=(-180, 180)), {"expand": True}),
    "affine": Call(gi.affine, lambda rng, n, white: {
        "angle": rng.uniform(-180, 180, n), "translate": rng.uniform(-5, 5, (n, 2)), "scale": rng.uniform(0.5, 2, n),
        "shear": rng.uniform(-30, 30, (n, 2)),
    }, {"interpolation": "bilinear"}),
    "perspective": Call(gi.perspective, _points), "adjust_hue": Call(gi.adjust_hue, _uniform(hue_factor=(-0.5, 0.5))),
    "adjust_hsv": Call(gi.adjust_hsv, _uniform(hue_factor=(-1, 1), saturation_factor=(0, 2), value_factor=(0, 2))),
    "permute_channels": Call(of_channels(gi.permute_channels, "permutation"), lambda rng, n, white: {
        "permutation": rng.random((n, 3)).argsort(1),
    }),
    "rgb_to_grayscale": Call(gi.rgb_to_grayscale, fixed={"num_output_channels": 3}), "invert": Call(gi.invert),
    "solarize": Call(gi.solarize, _threshold),
    "solarize_add": Call(gi.solarize_add, lambda *draw: _uniform(addition=(0, draw[2]))(*draw) | _threshold(*draw)),
    "posterize": Call(gi.posterize, lambda rng, n, white: {"bits": rng.integers(1, 8, n)}),
    "autocontrast": Call(gi.autocontrast), "equalize": Call(gi.equalize),
    "erase": Call(gi.erase, lambda *draw: _rectangle(*draw) | _color(*draw, "v")),
    "erase random": Call(gi.erase, lambda *draw: _rectangle(*draw) | _seed(*draw), {"v": "random"}),
    "gaussian_noise": Call(
        gi.gaussian_noise, lambda *draw: _uniform(mean=(-0.2, 0.2), sigma=(0, 0.3))(*draw) | _seed(*draw)),
    "grid_mask": Call(gi.grid_mask, lambda rng, n, white: {
        "cell": rng.uniform(1, 12, n), "share": rng.random(n), "angle": rng.uniform(-180, 180, n),
        "offset": rng.random((n, 2)), **_color(rng, n, white, "value"),
    }),
    "color_matrix": Call(of_channels(gi.color_matrix, "matrix"), lambda rng, n, white: {
        "matrix": rng.normal(0.3, 0.3, (n, 3, 4)) * (1, 1, 1, white / 3),
    }),
    "rgb_shift": Call(of_channels(gi.rgb_shift, "shift"), lambda rng, n, white: {
        "shift": rng.uniform(-0.5, 0.5, (n, 3)) * white,
    }),
    "channel_dropout": Call(of_channels(gi.channel_dropout, "channels"), lambda rng, n, white: {
        "channels": rng.random((n, 3)) < 0.5, "fill": rng.random(n) * white,
    }),
    "salt_and_pepper": Call(
        gi.salt_and_pepper, lambda *draw: _uniform(amount=(0, 1), salt=(0, 1))(*draw) | _seed(*draw)),
    "shot_noise": Call(gi.shot_noise, lambda *draw: _uniform(photons=(1, 200))(*draw) | _seed(*draw)),
    "fog": Call(gi.fog, lambda *draw: (
        _uniform(density=(0, 1), scale=(1, 40))(*draw) | _color(*draw, "color") | _seed(*draw))),
    "rain": Call(gi.rain, lambda *draw: (
        _uniform(amount=(0, 1), length=(2, 30), width=(1, 3), angle=(-90, 90), opacity=(0, 1))(*draw)
        | _color(*draw, "color") | _seed(*draw))),
    "shadow": Call(gi.shadow, lambda rng, n, white: {
        "corners": rng.uniform(-9, 40, (n, rng.integers(3, 7), 2)), "factor": rng.uniform(0, 2, n),
    }),
    "emboss": Call(gi.emboss, _uniform(alpha=(0, 1), strength=(0, 2))),
    "normalize": Call(gi.normalize, fixed={"mean": 0.4, "std": 0.3}),
    "gaussian_blur": Call(gaussian_blur, _uniform(sigma=(0.3, 2))),
    "elastic": Call(gi.elastic, lambda rng, n, white: {
        "alpha": rng.uniform(0, 40, (n, 2)), "sigma": rng.uniform(4, 9, n), **_seed(rng, n, white),
        **_color(rng, n, white, "fill"),
    }, {"interpolation": "bilinear"}),
    "elastic edge": Call(gi.elastic, _seed, {"fill": None}),
    "motion_blur": Call(gi.motion_blur, lambda rng, n, white: {
        "length": rng.integers(1, 20, n), "angle": rng.uniform(-180, 180, n),
    }),
    "median_blur": Call(gi.median_blur, lambda rng, n, white: {"kernel_size": rng.choice((3, 5, 7), n)}),
    **{f"morphology {kind} {shape}": Call(gi.morphology, _windows, {"kind": kind, "shape": shape})
       for kind, shape in (("erode", "cross"), ("dilate", "ellipse"), ("open", "rectangle"))},
    "filter2d": Call(gi.filter2d, lambda rng, n, white: {
        "kernel": rng.normal(0.1, 0.3, (n, *rng.integers(1, 6, 2))), **_color(rng, n, white, "fill"),
    }, {"padding_mode": "constant"}),
    "box_blur": Call(gi.box_blur, _windows), "laplacian": Call(gi.laplacian),
    "clahe": Call(gi.clahe, lambda rng, n, white: {
        "clip_limit": rng.uniform(0, 6, n), "tiles": rng.integers(1, 9, (n, 2)),
    }),
    "lookup_table": Call(gi.lookup_table, lambda rng, n, white: {"table": rng.random((n, 256, 1)) * white}),
    "remap": Call(gi.remap, lambda rng, n, white: {
        "grid": rng.uniform(-9, 60, (n, *rng.integers(1, 30, 2), 2)), **_color(rng, n, white, "fill"),
    }),
    "remap smooth": Call(gi.remap, lambda rng, n, white: {
        "grid": gi.optical_distortion(np.tile([(50, 60)], (n, 1)), rng.uniform(-0.3, 0.3, n)),
        **_color(rng, n, white, "fill"),
    }),
    "remap nearest": Call(gi.remap, lambda rng, n, white: {"grid": rng.uniform(-9, 60, (n, 7, 9, 2))}, {
        "interpolation": "nearest", "padding_mode": "symmetric"}),
    "jpeg": Call(gi.jpeg, lambda rng, n, white: {"quality": rng.integers(1, 101, n)}),
    "pointwise": Call(gi.pointwise, _uniform(value=(0, 1)), {"function": numba.njit(dim) if numba else dim}),
}  # fmt: skip


def _numbers(function: Callable[..., gi.Batch]) -> Call:
    """A function that is not named above, with numbers for each parameter documented as ``float or (N,) float``."""
    names = re.findall(r"^ *([\w, ]+) : float or \(N,\) float", function.__doc__ or "", re.MULTILINE)
    names = [name for group in names for name in group.split(", ")]
    return Call(function, _uniform(**dict.fromkeys(names, (0.0, 3.0))))


_NAMED = {call.function.__name__ for call in CALLS.values()}
for _name in PUBLIC:
    _function = getattr(gi, _name)
    if inspect.isfunction(_function) and "where" in inspect.signature(_function).parameters and _name not in _NAMED:
        CALLS[_name] = _numbers(_function)

#: Those that change sizes.
RESIZING = ["resize", *(f"resize {how}" for how in FILTERS), "resize plain", "crop", "center_crop", "resized_crop",
            "letterbox", "pad", "pad edge", "pad reflect", "pad symmetric", "rotate expand"]  # fmt: skip
#: Every function that moves pixels.
MOVING = [*RESIZING, "horizontal_flip", "vertical_flip", "rotate", "affine", "perspective", "elastic"]
MOVING.append("remap smooth")
RESIZING += ["remap", "remap smooth", "remap nearest"]
if numba is None:
    del CALLS["pointwise"]

_CORNERS, _MOVED = [(0, 0), (60, 0), (60, 50), (0, 50)], [(2, 1), (55, 3), (58, 49), (4, 46)]
#: Geometry of images of 50 x 60 pixels here, and by the module ``torchvision.transforms.v2.functional``.
MOVES: dict[str, tuple[Callable[[Any], gi.Batch], Callable[[Any, Any], Any]]] = {
    "rotate": (lambda x: gi.rotate(x, 33), lambda v2, x: v2.rotate(x, 33)),
    "affine": (lambda x: gi.affine(x, 20, (3, -4), 1.25, (10, 5)),
               lambda v2, x: v2.affine(x, 20, [3, -4], 1.25, [10, 5])),
    "perspective": (lambda x: gi.perspective(x, _CORNERS, _MOVED),
                    lambda v2, x: v2.perspective(x, _CORNERS, _MOVED, fill=0)),
    "crop, rotate": (lambda x: gi.rotate(gi.crop(x, 3, 10, 20, 30), -15),
                     lambda v2, x: v2.rotate(v2.crop(x, 3, 10, 20, 30), -15)),
    "resize": (lambda x: gi.resize(x, (25, 90)), lambda v2, x: v2.resize(x, [25, 90])),
    "resized_crop": (lambda x: gi.resized_crop(x, 3, 10, 20, 30, (40, 45)),
                     lambda v2, x: v2.resized_crop(x, 3, 10, 20, 30, [40, 45])),
    "horizontal_flip": (gi.horizontal_flip, lambda v2, x: v2.horizontal_flip(x)),
    "vertical_flip": (gi.vertical_flip, lambda v2, x: v2.vertical_flip(x)),
    "crop": (lambda x: gi.crop(x, -5, 9, 40, 90), lambda v2, x: v2.crop(x, -5, 9, 40, 90)),
    "center_crop": (lambda x: gi.center_crop(x, (31, 40)), lambda v2, x: v2.center_crop(x, [31, 40])),
    "pad": (lambda x: gi.pad(x, (1, 2, 3, 4)), lambda v2, x: v2.pad(x, [1, 2, 3, 4])),
}  # fmt: skip
