"""Laws of every random function: generators, seeds in their place, and no images."""

import inspect
from typing import Any

import numpy as np
import pytest

import gpuimg as gi

from ..compare import assert_same
from ..operations.calls import CALLS
from ..samples import PUBLIC, pictures

#: Arguments of each after the images; of policies and geometry, color and filters.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "random_resized_crop": (8,), "random_crop": (8,), "random_rotation": (30,),
    "random_affine": (30, (0.1, 0.1), (0.8, 1.2), 10), "random_resize": (5, 12), "scale_jitter": (9,),
    "random_short_side_resize": ([5, 12], 20), "color_jitter": (0.4, 0.4, 0.4, 0.1), "random_solarize": (128,),
    "random_posterize": (4,), "random_sharpness": (2,), "random_grid_mask": ((2, 5),), "random_gaussian_blur": (5,),
    "random_jpeg": (50,), "auto_augment": ("imagenet",),
}  # fmt: skip

OTHERS = {  # which take or give more than images
    "cutmix", "mixup", "mosaic", "copy_paste", "random_clips", "random_iou_crop", "apply_plan",
}  # fmt: skip
FUNCTIONS = [
    name
    for name in PUBLIC
    if inspect.isfunction(getattr(gi, name))
    and "rng" in inspect.signature(getattr(gi, name)).parameters
    and name not in OTHERS
]
functions = pytest.mark.parametrize("name", FUNCTIONS)


def run(name: str, images: Any, **options: Any) -> gi.Batch:
    made: gi.Batch = getattr(gi, name)(images, *ARGUMENTS.get(name, ()), **options)
    return made


@functions
def test_the_rng_is_required(name: str) -> None:
    images = pictures([(20, 30), (21, 29), (22, 28)])
    with pytest.raises(TypeError, match="rng"):
        run(name, images)
    for wrong in (None, False, np.random.default_rng(0)):
        with pytest.raises(TypeError, match=r"rng must be a gpuimg\.Rng or an int seed, not "):
            run(name, images, rng=wrong)
    with pytest.raises(ValueError, match="rng is for 2 samples, but the batch has 3 images: image 2 has no index"):
        run(name, images, rng=gi.Rng(0, indices=range(2)))


@functions
def test_int_seed_is_an_rng(name: str) -> None:
    images = pictures([(20 + i, 30 - i) for i in range(5)])
    split = gi.Rng(5, indices=range(5)).split(name)
    assert_same(list(run(name, images, rng=5).compute()), list(run(name, images, rng=split).compute()))
    nothing = run(name, np.zeros((0, 9, 9, 3), np.uint8), rng=gi.Rng(0, indices=[]))
    assert len(nothing) == len(list(nothing.compute())) == 0
    drawn = {run(name, np.zeros((1, 9, 9, 3), np.uint8), rng=seed).array().shape[1:] for seed in range(9)}
    assert len(drawn) > 1 or drawn == {nothing.array().shape[1:]}


@pytest.mark.parametrize("name", [name for name in PUBLIC if inspect.isfunction(getattr(gi, name))])
def test_the_result_is_as_documented(name: str) -> None:
    """Where the sizes, channels and dtype are said to be those of the input."""
    function = getattr(gi, name)
    if "sizes, channels and dtype of the input." not in function.__doc__ or name not in {*CALLS, *FUNCTIONS}:
        return  # pointwise has a call where Numba is installed
    images = pictures([(20, 30), (21, 29), (22, 28)])
    for white, batch in ((255, images), (1, [np.float32(image) / 255 for image in images])):
        if name in CALLS:
            made = CALLS[name].run(batch, CALLS[name].each(np.random.default_rng(0), 3, white))
        elif name == "random_solarize" and white == 1:
            made = gi.random_solarize(batch, 0.5, rng=1)
        else:
            made = run(name, batch, rng=1)
        given = gi.pad(batch, 0)
        assert (made.sizes.tolist(), made.channels) == (given.sizes.tolist(), given.channels)
        assert [one.dtype for one in made.arrays()] == [one.dtype for one in given.arrays()]
