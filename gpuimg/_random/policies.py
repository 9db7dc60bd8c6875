"""Augmentation policies: draw an op and its strength for each image, then apply them to the whole batch.

One step of a policy is one matrix and one step of the program for the whole batch, whichever ops were drawn.
Operations, magnitudes and probabilities are those of ``torchvision.transforms.v2`` (``_auto_augment.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._batch.batch import Batch, Images, as_batch, recording_of
from .._batch.functions import of_images
from .._batch.recording import Recording
from .._checks import docstrings
from .._checks.arguments import flag, number, whole_number
from .._checks.docstrings import of_policies
from .._checks.types import Color, Floats, Interpolation, Ints, Mask, Policy
from .._ops.color import posterize_parameters, solarize_parameter
from .._ops.warp import affine
from ..kernels import ops as op_table
from . import mixing
from . import policy_tables as tables
from .draws import rng_of
from .rng import LEAST_BETA, Rng

__all__ = ["augmix", "auto_augment", "rand_augment", "trivial_augment"]

# Op codes of the policies' ops, in the order of policy_tables; ops that move pixels have no color op.
_COLOR_OPS = (
    op_table.BRIGHTNESS, op_table.SATURATION, op_table.CONTRAST, op_table.SHARPNESS, op_table.POSTERIZE,
    op_table.SOLARIZE, op_table.AUTOCONTRAST, op_table.EQUALIZE, op_table.INVERT, op_table.SOLARIZE_ADD,
)  # fmt: skip
_CODES = np.array([op_table.SKIP.code] * tables.BRIGHTNESS + [op.code for op in _COLOR_OPS], np.int32)
_OPS = tables.INVERT  # ops that torchvision's policies draw from, without Invert, which only AutoAugment has


class _Space(NamedTuple):
    """The magnitudes of a policy's ops at strength 1."""

    shear: float
    shift: float  # share of the image's side, or pixels if above 1
    turn: float  # degrees
    factor: float  # change of a factor
    bits: tuple[int, int]  # at strength 0, and the difference to strength 1

    def magnitudes(self, ops: Ints, strength: Floats, sign: Floats, size: Floats) -> Floats:
        """Return magnitudes (N,) at strengths in [0, 1], with signs of 1 or -1; ``size`` (N, 2) is in x and y."""
        largest = np.zeros((len(ops), tables.INVERT + 1))
        largest[:, [tables.SHEAR_X, tables.SHEAR_Y]] = self.shear
        largest[:, [tables.TRANSLATE_X, tables.TRANSLATE_Y]] = self.shift if self.shift > 1.0 else self.shift * size
        largest[:, tables.ROTATE] = self.turn
        largest[:, tables.BRIGHTNESS : tables.SHARPNESS + 1] = self.factor
        found = strength * largest[np.arange(len(ops)), ops] * sign
        shifted = (ops == tables.TRANSLATE_X) | (ops == tables.TRANSLATE_Y)
        found = np.where(shifted, np.trunc(found), found)
        found = np.where(ops == tables.POSTERIZE, np.round(self.bits[0] - strength * self.bits[1]), found)
        return np.where(ops == tables.SOLARIZE, 1.0 - strength, found)


_USUAL = _Space(0.3, 150.0 / 331.0, 30.0, 0.9, (8, 4))
_WIDE = _Space(0.99, 32.0, 135.0, 0.99, (8, 6))
_AUGMIX = _Space(0.3, 1.0 / 3.0, 30.0, 0.9, (4, 4))


@of_images
@of_policies
def rand_augment(
    recording: Recording,
    num_ops: int = 2,
    magnitude: int = 9,
    num_magnitude_bins: int = 31,
    interpolation: Interpolation = "nearest",
    fill: Color = 0,
    *,
    rng: Rng | int,
) -> Recording:
    """Apply RandAugment: several random ops to each image, all of the same strength.

    Parameters
    ----------
    num_ops : int
        Number of ops applied to each image in turn, at least 0.
    magnitude : int
        Strength of the ops, 0 to ``num_magnitude_bins - 1``.
    num_magnitude_bins : int
        Number of strengths, at least 2.

    Notes
    -----
    Ops whose strength has a sign use the negative one for half of the images. Each op is a separate pass over the
    pixels, as if the ops were applied one by one.

    References
    ----------
    Cubuk et al.: "RandAugment: Practical automated data augmentation", 2019; torchvision ``RandAugment``.
    """
    rng = rng_of(recording, rng, "rand_augment")
    num_ops = whole_number(num_ops, "num_ops", 0)
    bins = whole_number(num_magnitude_bins, "num_magnitude_bins", 2)
    chosen = whole_number(magnitude, "magnitude", 0, bins - 1)
    strength = np.full(len(recording), chosen / (bins - 1))
    for _ in range(num_ops):
        recording = _step(recording, _USUAL, rng.choice(_OPS), strength, rng, interpolation, fill)
    return recording


@of_images
@of_policies
def trivial_augment(
    recording: Recording,
    num_magnitude_bins: int = 31,
    interpolation: Interpolation = "nearest",
    fill: Color = 0,
    *,
    rng: Rng | int,
) -> Recording:
    """Apply TrivialAugment (wide): one random op of random strength to each image, with nothing to tune.

    Parameters
    ----------
    num_magnitude_bins : int
        Number of strengths, at least 2; each is drawn with equal probability.

    References
    ----------
    Müller, Hutter: "TrivialAugment: Tuning-free yet state-of-the-art data augmentation", ICCV 2021; torchvision
    ``TrivialAugmentWide``.
    """
    rng = rng_of(recording, rng, "trivial_augment")
    bins = whole_number(num_magnitude_bins, "num_magnitude_bins", 2)
    ops = rng.choice(_OPS)
    strength = rng.integers(0, bins) / (bins - 1)
    return _step(recording, _WIDE, ops, strength, rng, interpolation, fill)


@of_images
@of_policies
def auto_augment(
    recording: Recording,
    policy: Policy = "imagenet",
    interpolation: Interpolation = "nearest",
    fill: Color = 0,
    *,
    rng: Rng | int,
) -> Recording:
    """Apply AutoAugment: a random one of the pairs of ops that were learned on a data set, to each image.

    Parameters
    ----------
    policy : {"imagenet", "cifar10", "svhn"}
        The data set on which the pairs of ops were learned.

    References
    ----------
    Cubuk et al.: "AutoAugment: Learning augmentation strategies from data", CVPR 2019; torchvision ``AutoAugment``.
    """
    rng = rng_of(recording, rng, "auto_augment")
    name = getattr(policy, "value", policy)
    if name not in tables.AUTO_AUGMENT_POLICIES:
        raise ValueError(f'policy must be "imagenet", "cifar10" or "svhn", not {policy!r}')
    table = tables.AUTO_AUGMENT_POLICIES[name]
    chosen = table[rng.choice(len(table))]  # (N, 2, 3): op, probability, bin
    for k in range(2):
        applied = rng.bernoulli(chosen[:, k, 1])
        ops = np.where(applied, chosen[:, k, 0], tables.IDENTITY).astype(np.int64)
        recording = _step(recording, _USUAL, ops, chosen[:, k, 2] / 9.0, rng, interpolation, fill)
    return recording


@docstrings.of_images
@of_policies
def augmix(
    images: Images,
    severity: int = 3,
    mixture_width: int = 3,
    chain_depth: int = -1,
    alpha: float = 1.0,
    all_ops: bool = True,
    interpolation: Interpolation = "bilinear",
    fill: Color = 0,
    *,
    rng: Rng | int,
) -> Batch:
    """Apply AugMix: mix each image with results of random chains of ops.

    Computed immediately in float32.

    Parameters
    ----------
    severity : int
        Largest strength of the ops, 1 to 10.
    mixture_width : int
        Number of chains, at least 1.
    chain_depth : int
        Number of ops of each chain, at least 1; -1 draws 1 to 3 for each image.
    alpha : float
        Parameter of the beta and Dirichlet distributions of the mixing weights, at least 1e-6.
    all_ops : bool
        Include brightness, color, contrast and sharpness.

    Returns
    -------
    Batch
        float32 images in [0, 1].

    References
    ----------
    Hendrycks et al.: "AugMix: A simple data processing method to improve robustness and uncertainty", ICLR 2020;
    torchvision ``AugMix``.
    """
    batch = as_batch(images)
    rng = rng_of(recording_of(batch), rng, "augmix")
    severity = whole_number(severity, "severity", 1, 10)
    mixture_width = whole_number(mixture_width, "mixture_width")
    if chain_depth != -1:
        chain_depth = whole_number(chain_depth, "chain_depth")
    alpha = number(alpha, "alpha", low=LEAST_BETA)
    without_factors = [*range(tables.SHEAR_X, tables.BRIGHTNESS), *range(tables.POSTERIZE, _OPS)]
    choices = range(tables.SHEAR_X, _OPS) if flag(all_ops, "all_ops") else without_factors

    def one_op(chain: Recording, active: Mask) -> Recording:
        ops = np.where(active, rng.choice(choices), tables.IDENTITY)
        strength = rng.integers(0, severity) / 9.0
        return _step(chain, _AUGMIX, ops, strength, rng, interpolation, fill)

    return mixed_chains(batch, rng, alpha, mixture_width, chain_depth, one_op)


def mixed_chains(
    batch: Batch, rng: Rng, alpha: float, width: int, depth: int, one_op: Callable[[Recording, Mask], Recording]
) -> Batch:
    """Mix images with ``width`` chains of ``depth`` ops, or of 1 to 3 for -1; ``one_op`` applies one where (N,)."""
    own = rng.beta(alpha, alpha)  # weights of the images themselves
    gammas = np.stack([rng.gamma(alpha) for _ in range(width)], 1)
    weights = (1.0 - own)[:, None] * gammas / np.maximum(gammas.sum(1, keepdims=True), 1e-300)
    mixed = batch.compute("float32")
    so_far = own
    for k in range(width):
        length = np.full(len(batch), depth) if depth > 0 else rng.integers(1, 4)
        chain = recording_of(batch)
        for step in range(depth if depth > 0 else 3):
            chain = one_op(chain, step < length)
        # A running mean: after chain k, mixed holds the image and the first k chains, of total weight so_far.
        total = so_far + weights[:, k]
        mixed = mixing.blend(mixed, Batch(chain), so_far / np.maximum(total, 1e-300))
        so_far = total
    return mixed


def _step(
    recording: Recording, space: _Space, ops: Ints, strength: Floats, rng: Rng, interpolation: Interpolation, fill: Any
) -> Recording:
    """Apply op ``ops[i]`` to image i, at a strength in [0, 1] and with a random sign."""
    sign = np.where(rng.bernoulli(0.5), -1.0, 1.0)
    magnitudes = space.magnitudes(ops, strength, sign, recording.sizes[:, ::-1].astype(np.float64))
    return apply_ops(recording, ops, magnitudes, interpolation, fill)


def apply_ops(
    recording: Recording, ops: Ints, magnitudes: Floats, interpolation: Interpolation, fill: Any
) -> Recording:
    """Apply op ``ops[i]`` of policy_tables with ``magnitudes[i]`` to image i."""
    # The recorded steps do not depend on the ops drawn: the sharpness of one image must not decide whether another
    # image is resampled once or twice.
    recording = recording.for_geometry()
    moved = (ops >= tables.SHEAR_X) & (ops <= tables.ROTATE)
    recording = _move(recording, ops, np.where(moved, magnitudes, 0.0), moved, interpolation, fill)
    return recording.with_plan(_with_color_step(recording, ops, magnitudes))


def _move(
    recording: Recording, ops: Ints, magnitudes: Floats, moved: Any, interpolation: Interpolation, fill: Any
) -> Recording:
    """Shear, translate or rotate the images in ``moved``."""
    # torchvision's policies shear about the top left corner; affine takes the angle whose tangent is the magnitude.
    degrees = np.rad2deg(np.arctan(magnitudes))
    shears = np.where(ops[:, None] == (tables.SHEAR_X, tables.SHEAR_Y), degrees[:, None], 0.0)
    shifts = np.where(ops[:, None] == (tables.TRANSLATE_X, tables.TRANSLATE_Y), magnitudes[:, None], 0.0)
    angle = np.where(ops == tables.ROTATE, -magnitudes, 0.0)
    corner = (ops == tables.SHEAR_X) | (ops == tables.SHEAR_Y)
    center = np.where(corner[:, None], 0.0, recording.sizes[:, ::-1] / 2.0)
    return affine.record(recording, angle, shifts, 1.0, shears, interpolation, fill, center, where=moved)


def _with_color_step(recording: Recording, ops: Ints, magnitudes: Floats) -> Any:
    """Return the plan with one more step, in which each image has a separate color op, perhaps sharpness."""
    params = np.zeros((len(op_table.POSTERIZE.parameters), len(recording)))
    factor = (ops >= tables.BRIGHTNESS) & (ops <= tables.SHARPNESS)
    params[0] = np.where(factor, 1.0 + magnitudes, 0.0)
    unit = recording.unit
    params[0] = np.where(ops == tables.SOLARIZE, solarize_parameter(magnitudes, unit), params[0])
    params[0] = np.where(ops == tables.SOLARIZE_ADD, magnitudes, params[0])
    params[1] = np.where(
        ops == tables.SOLARIZE_ADD, solarize_parameter(np.full(len(recording), 128.0 / 255.0), unit), 0.0
    )
    posterized = ops == tables.POSTERIZE
    if posterized.any():
        levels = 2.0 ** np.where(posterized, np.trunc(magnitudes), 8.0)
        params = np.where(posterized, np.stack(posterize_parameters(levels, unit)), params)
    codes = _CODES[ops]
    if recording.channels == 1:
        codes = np.where(ops == tables.COLOR, np.int32(op_table.SKIP.code), codes)
    return recording.plan.with_entry(codes, tuple(params), sharpens=True)
