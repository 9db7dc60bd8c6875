"""Whole chains of functions, those with random parameters among them, as a strategy."""

from collections.abc import Callable
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

import gpuimg as gi

from ..operations.calls import CALLS


class Step(NamedTuple):
    name: str
    # Batch, parameters of each image by name, generator for these images -> Batch.
    run: Callable[[Any, dict[str, Any], gi.Rng], gi.Batch]
    each: dict[str, Any] = {}  # noqa: RUF012  (never changed)


def large(images: Any, side: int) -> Any:
    """1.0 for the images that a filter of this reach can be laid over: a probability of each image."""
    return (gi.pad(images, 0).sizes.min(1) > side).astype(float)


GEOMETRY: dict[str, Callable[[Any, gi.Rng], gi.Batch]] = {
    "random_resized_crop": lambda x, rng: gi.random_resized_crop(x, (9, 14), rng=rng),
    "random_resized_crop nearest": lambda x, rng: gi.random_resized_crop(x, 11, interpolation="nearest", rng=rng),
    "random_crop": lambda x, rng: gi.random_crop(x, (8, 5), padding=1, pad_if_needed=True, rng=rng),
    "random_horizontal_flip": lambda x, rng: gi.random_horizontal_flip(x, rng=rng),
    "random_vertical_flip": lambda x, rng: gi.random_vertical_flip(x, rng=rng),
    "random_rotation": lambda x, rng: gi.random_rotation(x, 180, "bilinear", fill=1, rng=rng),
    "random_rotation expand": lambda x, rng: gi.random_rotation(x, 60, expand=True, rng=rng),
    "random_affine": lambda x, rng: gi.random_affine(x, 30, (0.2, 0.1), (0.7, 1.4), 10, "bilinear", rng=rng),
    "random_perspective": lambda x, rng: gi.random_perspective(x, 0.6, 0.8, rng=rng),
}

POINTWISE: dict[str, Callable[[Any, gi.Rng], gi.Batch]] = {
    "color_jitter": lambda x, rng: gi.color_jitter(x, 0.5, 0.5, 0.5, 0.3, rng=rng),
    "color_jitter without contrast": lambda x, rng: gi.color_jitter(x, 0.5, None, 0.5, 0.5, rng=rng),
    "random_invert": lambda x, rng: gi.random_invert(x, rng=rng),
    "random_solarize": lambda x, rng: gi.random_solarize(x, 0.6, rng=rng),
    "random_posterize": lambda x, rng: gi.random_posterize(x, 3, rng=rng),
    "random_autocontrast": lambda x, rng: gi.random_autocontrast(x, rng=rng),
    "random_equalize": lambda x, rng: gi.random_equalize(x, rng=rng),
    "random_erasing": lambda x, rng: gi.random_erasing(x, 0.8, value=1, rng=rng),
}

OTHERS: dict[str, Callable[[Any, gi.Rng], gi.Batch]] = {
    "random_grayscale": lambda x, rng: gi.random_grayscale(x, 0.5, rng=rng),
    "random_gaussian_blur": lambda x, rng: gi.random_gaussian_blur(x, 3, p=0.7 * large(x, 1), rng=rng),
    "random_sharpness": lambda x, rng: gi.random_sharpness(x, 3, rng=rng),
    "three_augment": lambda x, rng: gi.three_augment(gi.resize(x, (9, 12)), rng=rng),
    "rand_augment": lambda x, rng: gi.rand_augment(x, rng=rng),
    "trivial_augment": lambda x, rng: gi.trivial_augment(x, interpolation="bilinear", rng=rng),
    "augmix": lambda x, rng: gi.augmix(x, interpolation="bilinear", rng=rng),
    "timm_augment": lambda x, rng: gi.timm_augment(x, interpolation="bilinear", rng=rng),
    "timm_augment augmix": lambda x, rng: gi.timm_augment(x, "augmix-m5-w2-d2", "bilinear", rng=rng),
    "auto_augment": lambda x, rng: gi.auto_augment(x, "cifar10", rng=rng),
}

#: Values outside [0, 1] are theirs to give.
UNBOUNDED = {"normalize", "pointwise", "resize bicubic", "resize lanczos", "resize plain"}
RESAMPLING = {
    name for name, call in CALLS.items() if call.function.__module__ in ("gpuimg._ops.resize_crop", "gpuimg._ops.warp")
}
#: They draw from the light that a pixel has: normalized values have none.
BEFORE_NORMALIZE = {"salt_and_pepper", "shot_noise"}
FILTERS = {name for name, call in CALLS.items() if call.function.__module__ == "gpuimg._ops.filters"}


@st.composite
def _steps(draw: st.DrawFn, n: int, dtype: str, given: list[str], drawn: dict[str, Any]) -> Step:
    name = draw(st.sampled_from([*given, *drawn]))
    if name in drawn:
        return Step(name, lambda x, each, rng: drawn[name](x, rng))
    call, rng = CALLS[name], np.random.default_rng(draw(st.integers(0, 2**32)))
    return Step(name, lambda x, each, _: call.run(x, each), call.each(rng, n, 255.0 if dtype == "uint8" else 1.0))


@st.composite
def chains(draw: st.DrawFn, n: int, dtype: str, *, bounded: bool = False) -> list[Step]:
    """One to five functions of all kinds, for ``n`` images."""
    # A normalised image has another unit; filters refuse what resizing before them may leave too small.
    left_out = {"normalize"} | FILTERS | (UNBOUNDED if bounded else set())
    given = [name for name in CALLS if name not in left_out]
    steps: list[Step] = []
    for _ in range(draw(st.integers(1, 5))):
        mixed = any("augmix" in step.name for step in steps)  # floating-point from there on
        steps.append(draw(_steps(n, "float32" if mixed else dtype, given, GEOMETRY | POINTWISE | OTHERS)))
    return steps


def pointwise_chains(n: int, dtype: str) -> st.SearchStrategy[list[Step]]:
    """One to five functions of single pixels and of statistics over them."""
    given = [
        name for name, call in CALLS.items() if call.function.__module__ in ("gpuimg._ops.color", "gpuimg._ops.pixels")
    ]
    steps = st.lists(_steps(n, dtype, given, POINTWISE), min_size=1, max_size=5)
    return steps.filter(
        lambda steps: (
            not any(
                earlier.name == "normalize" and later.name in BEFORE_NORMALIZE
                for earlier, later in combinations(steps, 2)
            )
        )
    )


def geometric_steps(n: int, dtype: str) -> st.SearchStrategy[Step]:
    return _steps(n, dtype, sorted(RESAMPLING), GEOMETRY)


def run(steps: list[Step], images: Any, rng: gi.Rng, part: Any = None, *, computed: bool = False) -> gi.Batch:
    """The chain on ``images``, which are those of ``part``; or one function at a time."""
    for k, step in enumerate(steps):
        each = step.each if part is None else {name: np.asarray(values)[part] for name, values in step.each.items()}
        images = step.run(images, each, rng.split(str(k)))
        images = images.compute("float32") if computed else images
    batch: gi.Batch = images
    return batch
