"""Regions of JPEGs with restart markers, between which decoding can begin: Pillow's pixels, bit for bit."""

import numpy as np
import pytest
from PIL import Image

from gpuimg.kernels.jpeg import layout as words

from . import jpegs
from .jpegs import Decoder, encoded, pillow_pixels, some_region


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    return Decoder()


@pytest.mark.parametrize("interval", [1, 3, 7, 19, 40])
@pytest.mark.parametrize("sampling", ["4:2:0", "4:4:4", "gray"])
def test_regions_between_restart_markers(interval: int, sampling: str, decoder: Decoder, photo: Image.Image) -> None:
    rng = np.random.default_rng()
    data = encoded(photo, sampling, quality=90, restart_marker_blocks=interval)
    whole = {channels: pillow_pixels(data, channels) for channels in ((1,) if sampling == "gray" else (3, 1))}
    for _ in range(20):
        x0, y0, x1, y1 = region = some_region(rng, photo.height, photo.width)
        for channels, pixels in whole.items():
            found = decoder(data, region, channels)
            assert found.how == words.DONE
            np.testing.assert_array_equal(found.pixels, pixels[y0:y1, x0:x1])


def markers(data: bytes) -> list[int]:
    """Offsets of the restart markers."""
    start = jpegs.scan_start(data)
    return [k for k in range(start, len(data) - 1) if data[k] == 0xFF and 0xD0 <= data[k + 1] <= 0xD7]


@pytest.mark.parametrize("damage", ["one missing", "eight missing", "another marker"])
def test_restart_markers_out_of_order_are_not_trusted(damage: str, decoder: Decoder, photo: Image.Image) -> None:
    """Intervals that are passed over unseen would make the rest another part of the image."""
    data = encoded(photo, quality=90, restart_marker_blocks=5)
    at = markers(data)
    bad = {
        "one missing": data[: at[8]] + data[at[9] :],
        "eight missing": data[: at[8]] + data[at[16] :],
        "another marker": data[: at[9] + 1] + bytes((0xD0 | (data[at[9] + 1] + 1) & 7,)) + data[at[9] + 2 :],
    }[damage]
    region = (120, 230, 160, 240)
    assert decoder(data, region).how == words.DONE
    assert decoder(bad, region).how != words.DONE
