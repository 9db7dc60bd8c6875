"""Results in patches, and in padded arrays: stored by the kernels that compute them, as the CPU stores them."""

from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from gpuimg._data.patches import PatchLayout
from tests.libraries import needs

needs("numba_cuda")

from .device import Launches
from .pixels import RANDOM, images_of, on_device


@pytest.fixture
def launches(launches: Launches, monkeypatch: pytest.MonkeyPatch) -> Launches:
    """And no copies of pixels to patches; the fake CUDA marks what kernels write by copies of masks."""
    put = PatchLayout.put

    def put_mask(self: PatchLayout, image: Any, out: Any, offset: int) -> None:
        put(self, image, out, offset) if image.dtype == np.bool_ else pytest.fail("copied")

    monkeypatch.setattr(PatchLayout, "put", put_mask)
    return launches


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("patch", "options"),
    [
        (4, {"merge": 2, "frames": 2}),
        (3, {"order": "PPC", "pad": "longest"}),
        (3, {"merge": 3, "frames": 1}),
        (6, {"frames": 3, "pad": 15}),
        (1, {"merge": 2}),
    ],
)
def test_patches_are_the_cpus(launches: Launches, channels: int, patch: int, options: dict[str, Any]) -> None:
    images = images_of("uint8", channels, [(9, 13), (5, 4), (20, 7)])
    step = patch * options.get("merge", 1)
    sizes = RANDOM.integers(1, 3, (3, 2)) * step
    found, expected = (
        gi.normalize(gi.resize(x, sizes, "bicubic", exact="torch"), 0.3, 0.7).tokens(patch, **options)
        for x in (on_device(launches, images), images)
    )
    np.testing.assert_array_equal(found.values.values.reshape(expected.values.shape), expected.values)
    assert found.starts.tolist() == expected.starts.tolist()


@pytest.mark.parametrize("dtype", ["uint8", "float16"])
def test_patches_of_every_kind_are_pixels(launches: Launches, dtype: Any) -> None:
    """Of float32 sampling, whose sums may differ from the CPU's: as pixels of the same device."""
    images = images_of("uint8", 3, [(9, 13), (5, 4)])
    x = gi.rotate(gi.resize(on_device(launches, images), np.array([(8, 12), (12, 4)])), 20, "bilinear")
    found = x.tokens(4, dtype=dtype).values.values.reshape(-1, 3, 4, 4).copy()
    pixels = [np.array(one.values) for one in x.compute(dtype, "NCHW")]
    want = [
        image[:, y : y + 4, x : x + 4]
        for image in pixels
        for y in range(0, image.shape[1], 4)
        for x in range(0, image.shape[2], 4)
    ]
    np.testing.assert_array_equal(found, np.stack(want))


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("align", ["corner", "center"])
def test_padded_images_are_the_cpus(launches: Launches, layout: Any, align: Any) -> None:
    images = images_of("uint8", 3, [(9, 13), (5, 4), (1, 1)])
    found, expected = (
        gi.horizontal_flip(gi.resize(x, np.array([(7, 5), (2, 9), (1, 1)]), exact="pillow")).padded(
            3, align, multiple=4, layout=layout
        )
        for x in (on_device(launches, images), images)
    )
    np.testing.assert_array_equal(found.values.values, expected.values)


def test_clips_are_the_cpus(launches: Launches) -> None:
    """Frames are values of one patch, and the last of an odd number is repeated."""
    clips = RANDOM.integers(0, 256, (2, 3, 30, 40, 3), np.uint8)
    prepare = gi.models.qwen_vl_video(2, 2, 2, 4 * 16, 8 * 16)
    found, expected = prepare(launches.gpu.cupy.asarray(clips)), prepare(clips)
    np.testing.assert_array_equal(found["pixel_values_videos"].values, expected["pixel_values_videos"])
