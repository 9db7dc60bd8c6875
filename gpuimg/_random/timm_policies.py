"""RandAugment, AugMix, AutoAugment and 3-Augment as timm has them: its ops, levels and chances."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from .._batch.batch import Batch, Images, as_batch, recording_of
from .._batch.recording import Recording
from .._checks import docstrings
from .._checks.types import Color, Floats, Interpolation, Ints, Mask
from .._ops.filters import gaussian_blur
from . import policy_tables as tables
from . import timm_config
from .draws import rng_of
from .filters import BLUR_KERNEL
from .policies import apply_ops, mixed_chains
from .rng import Rng

__all__ = ["timm_augment"]

_BLUR = 16  # after the ops of policy_tables, which are steps of a program
_GRAY = 128.0  # of 255, timm's fill without a data configuration
_SHARE = {"rand": 0.45, "auto": 0.45, "augmix": 0.3}  # of the image's side: the largest translation


class _Op(NamedTuple):
    """An op of timm."""

    code: int  # of policy_tables, or _BLUR
    #: timm's argument (N,), from levels, a magnitude of 10 being 1, and signs of 1 or -1
    argument: Callable[[Floats, Floats], Floats]


def _scaled(most: float) -> Callable[[Floats, Floats], Floats]:
    return lambda level, sign: level * most * sign


def _between(low: float, high: float) -> Callable[[Floats, Floats], Floats]:
    return lambda level, sign: np.clip(low + (high - low) * level, low, high)


def _bits(level: Floats, sign: Floats) -> Floats:
    return np.trunc(level * 4.0)


def _threshold(level: Floats, sign: Floats) -> Floats:
    return np.minimum(256.0, np.trunc(level * 256.0))


OPS: dict[str, _Op] = {
    "AutoContrast": _Op(tables.AUTOCONTRAST, _scaled(0.0)),
    "Equalize": _Op(tables.EQUALIZE, _scaled(0.0)),
    "Invert": _Op(tables.INVERT, _scaled(0.0)),
    "Rotate": _Op(tables.ROTATE, _scaled(30.0)),
    "Posterize": _Op(tables.POSTERIZE, _bits),
    "PosterizeIncreasing": _Op(tables.POSTERIZE, lambda level, sign: 4.0 - _bits(level, sign)),
    "PosterizeOriginal": _Op(tables.POSTERIZE, lambda level, sign: 4.0 + _bits(level, sign)),
    "Solarize": _Op(tables.SOLARIZE, _threshold),
    "SolarizeIncreasing": _Op(tables.SOLARIZE, lambda level, sign: 256.0 - _threshold(level, sign)),
    "SolarizeAdd": _Op(tables.SOLARIZE_ADD, lambda level, sign: np.minimum(128.0, np.trunc(level * 110.0))),
    **{
        name + suffix: _Op(code, argument)
        for name, code in (
            ("Color", tables.COLOR), ("Contrast", tables.CONTRAST), ("Brightness", tables.BRIGHTNESS),
            ("Sharpness", tables.SHARPNESS),
        )
        for suffix, argument in (
            ("", lambda level, sign: level * 1.8 + 0.1),
            ("Increasing", lambda level, sign: np.maximum(0.1, 1.0 + level * 0.9 * sign)),
        )
    },
    "ShearX": _Op(tables.SHEAR_X, _scaled(0.3)),
    "ShearY": _Op(tables.SHEAR_Y, _scaled(0.3)),
    "TranslateXRel": _Op(tables.TRANSLATE_X, _scaled(1.0)),  # of the largest share
    "TranslateYRel": _Op(tables.TRANSLATE_Y, _scaled(1.0)),
    "Desaturate": _Op(tables.COLOR, lambda level, sign: np.clip(1.0 - _between(0.5, 1.0)(level, sign), 0.0, 1.0)),
    "GaussianBlur": _Op(_BLUR, _between(0.1, 2.0)),
    "GaussianBlurRand": _Op(_BLUR, _between(0.0, 1.0)),  # of the largest radius, which is drawn
}  # fmt: skip


@docstrings.of_images
def timm_augment(
    images: Images,
    policy: str = "rand-m9-mstd0.5-inc1",
    interpolation: Interpolation | Literal["random"] = "random",
    fill: Color | None = None,
    *,
    rng: Rng | int,
) -> Batch:
    """Apply an augmentation policy written as timm's: RandAugment, AugMix, AutoAugment or 3-Augment.

    Parameters
    ----------
    policy : str
        Name and sections, joined by "-". ``rand``: ``m`` magnitude (10), ``n`` number of ops (2), ``p`` probability of
        each (0.5), ``mstd`` standard deviation of magnitudes (0; above 100 they are uniform from 0), ``mmax`` their
        limit (10), ``inc1`` ops whose strength increases with the magnitude, ``t`` and a set of ops: ``t3a``, ``t3aw``
        or ``tweights``. ``augmix``: ``m`` (3), ``w`` chains (3), ``d`` ops of a chain (1 to 3), ``a`` parameter of
        the weights (1), ``mstd`` (uniform), ``b`` (no effect). ``original``, ``originalr``, ``v0``, ``v0r`` and ``3a``:
        ``mstd`` (0). Sections without a number, which timm ignores, are refused.
    interpolation : {"random", "nearest", "bilinear", "bicubic"}
        Interpolation of ops that move pixels; ``"random"`` draws bilinear or bicubic for each of them.
    fill : number, tuple of C, or (N,) or (N, C) array, optional
        Color around moved images, in the unit of the images. None is timm's gray, 128 of 255.

    Returns
    -------
    Batch
        Of AugMix: float32 images in [0, 1], computed immediately.

    Notes
    -----
    Differences from timm: a chain's first op that moves pixels and the geometry before it are one resampling; values
    are not rounded to bytes between ops; the blur is a Gaussian, not Pillow's approximation by boxes, and refuses
    images with a side below 7 pixels. AugMix's ``b`` changes only rounding in timm.

    References
    ----------
    Wightman: timm 1.0, ``timm/data/auto_augment.py``.
    """
    batch = as_batch(images)
    recording = recording_of(batch)
    rng = rng_of(recording, rng, "timm_augment")
    if not isinstance(policy, str):
        raise TypeError(f"policy must be a string, not {policy!r}")
    config = timm_config.parsed(policy)
    draw = _Draws(config, rng, interpolation, _GRAY / 255.0 / recording.unit if fill is None else fill)
    if config.kind == "augmix":
        # The chains start from bytes in memory, as in timm: the source is not decoded again for each.
        return mixed_chains(batch.compute(), rng, config.alpha, config.width, config.depth, draw.one_op)
    for which, p, magnitude in draw.steps():
        recording = draw.apply(recording, which, rng.bernoulli(p), magnitude)
    return Batch(recording)


class _Draws(NamedTuple):
    """A policy with the generator that it draws from."""

    config: timm_config.Config
    rng: Rng
    interpolation: Interpolation | Literal["random"]
    fill: Any

    def steps(self) -> list[tuple[Ints, Any, Any]]:
        """Draw the ops of RandAugment and AutoAugment: positions (N,), probabilities and magnitudes."""
        config, rng = self.config, self.rng
        if config.rows is not None:
            row = rng.choice(len(config.rows[0]))
            which, strength = config.rows[0][row], config.rows[1][row]
            return [(which[:, k], strength[:, k, 0], strength[:, k, 1]) for k in range(which.shape[1])]
        if config.weights is None:
            chosen = [rng.choice(len(config.ops)) for _ in range(config.layers)]
        else:
            # The first arrivals of independent exponential clocks are a draw without replacement.
            arrivals = -np.log1p(-rng.units(len(config.ops))) / config.weights
            chosen = list(np.argsort(arrivals, 1, kind="stable").T[: config.layers])
        return [(which, config.p, config.magnitude) for which in chosen]

    def one_op(self, recording: Recording, active: Mask) -> Recording:
        """Apply a random op to the active images."""
        return self.apply(recording, self.rng.choice(len(self.config.ops)), active, self.config.magnitude)

    def apply(self, recording: Recording, which: Ints, active: Mask, magnitude: Any) -> Recording:
        """Apply op ``which[i]`` of the policy to the active images, at magnitudes near those given."""
        config, rng = self.config, self.rng
        if config.std == math.inf:
            magnitude = rng.uniform(0.0, magnitude)
        elif config.std > 0.0:
            magnitude = rng.normal(magnitude, config.std)
        level = np.broadcast_to(np.clip(magnitude, 0.0, config.largest) / 10.0, len(which))
        sign = np.where(rng.bernoulli(0.5), 1.0, -1.0)
        ops = [OPS[name] for name in config.ops]
        argument = np.stack([op.argument(level, sign) for op in ops], 1)[np.arange(len(which)), which]
        codes = np.where(active, np.array([op.code for op in ops])[which], tables.IDENTITY)
        chosen = self.interpolation
        if isinstance(chosen, str) and chosen == "random":
            chosen = rng.choice(["bilinear", "bicubic"])
        blurred = codes == _BLUR
        values = magnitudes(codes, argument, recording.sizes.astype(np.float64) * _SHARE[config.kind])
        recording = apply_ops(recording, np.where(blurred, tables.IDENTITY, codes), values, chosen, self.fill)
        if "GaussianBlurRand" in config.ops:
            argument = np.maximum(0.1 + (2.0 * argument - 0.1) * rng.uniform(), 1e-6)
        if any(op.code == _BLUR for op in ops):
            recording = gaussian_blur.record(recording, BLUR_KERNEL, np.where(blurred, argument, 1.0), where=blurred)
        return recording


def magnitudes(codes: Ints, argument: Floats, most: Floats) -> Floats:
    """Return the magnitudes of :func:`apply_ops` for timm's arguments; ``most`` (N, 2) are the largest translations."""
    factor = (codes >= tables.BRIGHTNESS) & (codes <= tables.SHARPNESS)
    of_bytes = (codes == tables.SOLARIZE) | (codes == tables.SOLARIZE_ADD)
    # timm's positive translation reads further to the right or below, and moves the image to the left or up.
    scale = np.select(
        [of_bytes, codes == tables.TRANSLATE_X, codes == tables.TRANSLATE_Y],
        [1.0 / 255.0, -most[:, 1], -most[:, 0]],
        1.0,
    )
    values = np.where(codes == tables.POSTERIZE, np.clip(argument, 0.0, 8.0), argument) * scale
    result: Floats = np.where(factor, values - 1.0, values)
    return result
