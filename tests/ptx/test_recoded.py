"""The kernel that decodes segments of recoded JPEGs, as it is compiled, launched by the runtime: the CPU's pixels."""

from itertools import product

import numpy as np
import pytest
from PIL import Image

import gpuimg as gi
from gpuimg._batch.batch import recording_of
from gpuimg.kernels.jpeg import layout as words
from tests.cuda.test_cuda_jpeg import JPEG, photo, turned
from tests.decoding import jpegs, recoded_oracle
from tests.decoding.jpegs import SAMPLINGS, encoded, noise
from tests.decoding.test_recoded import forged_segments
from tests.libraries import needs
from tests.samples import file_of

needs("numba_cuda")

from .device import Launches
from .pixels import RANDOM
from .test_jpeg import assert_pillows, random_regions, same_as_the_cpus, small, spans

pytestmark = pytest.mark.usefixtures("watched")

STEPS = ["recoded", *JPEG[2:]]


def recoded(files: list[bytes]) -> list[bytes]:
    return [gi.recode_jpeg(data) for data in files]


def made() -> list[bytes]:
    """Files of each sampling, of odd sizes and many qualities, and so sets of tables; one with large coefficients."""
    sizes = ((21, 17), (1, 1), (50, 33), (16, 91), (70, 40), (9, 8), (1, 5))
    files = [
        encoded(photo(w, h) if k % 2 else noise(h, w, k), SAMPLINGS[k % len(SAMPLINGS)], quality=quality)
        for k, ((h, w), quality) in enumerate(zip(3 * sizes, range(1, 101, 6), strict=False))
    ]
    stripes = np.where(np.indices((24, 40)).sum(0) % 2, 255, 0).astype(np.uint8)
    files = [data for data in files if jpegs.is_baseline(data)]  # narrow ones of some samplings are not
    return [*files, encoded(Image.fromarray(stripes), "gray", quality=100)]


@pytest.mark.parametrize("color", ["rgb", "gray"])
def test_whole_images(launches: Launches, color: str) -> None:
    files = [data for data in recoded(made()) if color == "rgb" or jpegs.header_of(data)["color"] != words.RGB]
    assert len({data[25] for data in files}) > 3
    _, x = same_as_the_cpus(launches, files, color=color)
    assert [kernel.name for kernel in launches.kernels] == STEPS
    assert recording_of(x).timings.jpegs_on_cpu == 0


@pytest.mark.slow
def test_segments_of_many_bytes(launches: Launches) -> None:
    """Sizes of streams of four bytes; and more blocks than an MCU row of a photo has."""
    (data,) = recoded([encoded(noise(8, 2000, 1), "4:4:4", quality=100)])
    assert len(recoded_oracle.parts_of(data).segments[0]) >= words.WIDE
    same_as_the_cpus(launches, [data])


def test_regions_of_turned_images_in_parts(launches: Launches, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which only the needed segments are copied; next to other files, in any order."""
    spans(monkeypatch, most_blocks=400)
    turns = [turned(data, 1 + (k + 1) % 8) for k, data in enumerate(small(((70, 61), (33, 90), (90, 20))))]
    files = [*recoded(turns), *turns[:2], file_of(photo(30, 20), "PNG"), gi.recode_jpeg(turns[0])]
    sizes = gi.open_batch(files, device="cpu").sizes
    _, x = same_as_the_cpus(launches, files, random_regions(sizes))
    assert recording_of(x).timings.jpegs_on_cpu == 0
    assert [kernel.name for kernel in launches.kernels].count("recoded") > 1
    assert "find" in {kernel.name for kernel in launches.kernels}


@pytest.mark.parametrize("scale", [4, 2, 1])
def test_scaled_images_are_pillows(launches: Launches, scale: int) -> None:
    files = [turned(data, 1 + k % 8) for k, data in enumerate(small(((41, 57), (64, 33), (50, 50))))]
    assert_pillows(launches, recoded(files), scale, parts=True, exact=files)


def test_views(launches: Launches) -> None:
    """Several of each file, which is decoded once."""
    files = recoded([encoded(photo(90, 80)), encoded(photo(61, 120), "4:4:4")])
    place = np.arange(6) * 7
    found, expected = (
        gi.resized_crop(gi.open_batch(files, device=d).take([0, 1] * 3), place, place, 30, 20, (9, 9)).compute("uint8")
        for d in ("cuda:0", "cpu")
    )
    for one, other in zip(found, expected, strict=True):
        assert np.abs(one.values.astype(int) - other).max() <= 1
    assert [kernel.name for kernel in launches.kernels].count("recoded") == 1


# -- damage ------------------------------------------------------------------------------------------------------------


def damaged(data: bytes, right: bool) -> bytes:
    """A file with a few other bytes in one of its segments, perhaps with the right checksum of them, or shorter."""
    parts = recoded_oracle.parts_of(data)
    k = int(RANDOM.integers(len(parts.segments)))
    one = bytearray(parts.segments[k])
    for at in RANDOM.integers(4, len(one), 2).tolist():
        one[at if RANDOM.random() < 0.7 else 4 + at % 8] ^= int(RANDOM.integers(1, 256))  # sizes of streams
    if not right:
        return data.replace(parts.segments[k], bytes(one))
    one = one[: int(RANDOM.integers(4, len(one) + 1))] + bytes(k) if RANDOM.random() < 0.3 else one
    return parts._replace(segments=[*parts.segments[:k], bytes(one), *parts.segments[k + 1 :]]).joined()


@pytest.mark.parametrize("right", [False, True], ids=["noticed by the checksum", "with the right checksum"])
def test_damaged_segments_are_the_cpus(launches: Launches, right: bool) -> None:
    """They fail there for its reasons, or have its pixels; nothing is read or written that is not theirs."""
    files = recoded(small(((41, 57), (64, 33), (50, 50)), quality=90))
    statuses, x = same_as_the_cpus(launches, [damaged(data, right) for data in files + files])
    assert recording_of(x).timings.jpegs_on_cpu >= sum(status != "ok" for status in statuses) > 0


def test_forged_segments_are_refused(launches: Launches) -> None:
    """For the CPU's reasons; and by the CPU, which a test of its own has shown."""
    statuses, x = same_as_the_cpus(launches, list(forged_segments().values()))
    assert "ok" not in statuses
    assert recording_of(x).timings.jpegs_on_cpu == sum("segment of" in status for status in statuses) == 10


def test_ends_of_segments_that_lie(launches: Launches) -> None:
    """With the right checksum of the header; a crop of other segments is decoded."""
    (data,) = recoded([encoded(photo(90, 80), "4:4:4", quality=95)])
    parts, files = recoded_oracle.parts_of(data), []
    begin, count = 28 + len(parts.header), len(parts.segments)
    for k, value in product(range(count), (0, 1, 1 << 31, (1 << 32) - 1, int(RANDOM.integers(1 << 14)))):
        ends = np.frombuffer(data, "<u4", count, begin).copy()
        ends[k] = value
        files.append(recoded_oracle.resummed(data[:begin] + ends.tobytes() + data[begin + 4 * count :]))
    assert set(same_as_the_cpus(launches, files)[0]) != {"ok"}
    assert "ok" in same_as_the_cpus(launches, files, np.tile([0, 0, 7, 7], (len(files), 1)))[0]
