"""Sources that return pixels: what the loader does with arrays in place of files."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gpuimg as gi
from tests.data_sets import FILES, cpu

from ..libraries import library

pytestmark = pytest.mark.usefixtures("watched")

_RNG = np.random.default_rng(5)
IMAGES = [_RNG.integers(0, 256, (20 + k, 31 - k, 3), np.uint8) for k in range(9)]
PAIRS = [(image, k) for k, image in enumerate(IMAGES)]


def cropped(x: Any) -> gi.Batch:
    return gi.horizontal_flip(gi.crop(x, 1, 2, 16, 17))


def by_numpy(images: list[NDArray[Any]], indices: Any) -> NDArray[Any]:
    return np.stack([images[i][1:17, 2:19][:, ::-1] for i in indices])


@pytest.mark.parametrize("images", [
    IMAGES, [image[..., :1] for image in IMAGES], [image.astype(np.uint16) * 251 for image in IMAGES],
    [np.float32(image) / 255 for image in IMAGES], [np.asfortranarray(image) for image in IMAGES],
    [image[::-1, :, ::-1] for image in IMAGES],
], ids=["bytes", "gray", "16 bits", "float", "Fortran", "reversed"])  # fmt: skip
def test_arrays_pass_as_they_are(images: list[NDArray[Any]]) -> None:
    for batch in cpu([(image, k) for k, image in enumerate(images)], cropped, batch_size=4, shuffle=True):
        assert batch.images.dtype == images[0].dtype
        np.testing.assert_array_equal(batch.images, by_numpy(images, batch.indices))
        assert batch.labels.tolist() == batch.indices.tolist()


def test_random_parameters_are_those_of_files() -> None:
    """Of the same pixels, by the sample's index alone."""
    decoded = gi.decode_batch(FILES[:9], device="cpu")
    train = gi.presets.imagenet_train(8)
    found = [cpu(one, train, batch_size=size) for one, size in (
        ([(data, 0) for data in FILES[:9]], 4), ([(np.asarray(image), 0) for image in decoded], 5)
    )]  # fmt: skip
    files, arrays = (np.concatenate([batch.images for batch in loader]) for loader in found)
    np.testing.assert_array_equal(files, arrays)


def test_arrays_of_streams_mappings_and_lists_of_batches() -> None:
    rows = [{"image": image, "label": k} for image, k in PAIRS]
    for loader in (
        cpu(gi.iterable(PAIRS), cropped, batch_size=9), cpu(rows, cropped, batch_size=9),
        cpu(PAIRS, cropped, batch_size=None, batches=[[*range(9)]]),
    ):  # fmt: skip
        (batch,) = loader
        np.testing.assert_array_equal(batch.images, by_numpy(IMAGES, range(9)))
    assert gi.read_sizes(PAIRS).tolist() == [[20 + k, 31 - k] for k in range(9)]


def test_tensors() -> None:
    torch = library("torch")
    import gpuimg.torch

    tensors = [(torch.from_numpy(image), k) for image, k in PAIRS]
    for batch in cpu(tensors, cropped, batch_size=4):
        np.testing.assert_array_equal(batch.images, by_numpy(IMAGES, batch.indices))
    dataset = gpuimg.torch.Dataset(tensors, cropped, device="cpu", layout="NHWC")
    np.testing.assert_array_equal(dataset[3][0].numpy(), by_numpy(IMAGES, [3])[0])


class Broken:
    """Sample 3 cannot be read, and sample 4 has no pixels."""

    def __len__(self) -> int:
        return len(IMAGES)

    def __getitem__(self, i: int) -> tuple[NDArray[Any], int]:
        if i == 3:
            raise OSError(5, "disk error")
        return IMAGES[i][: 0 if i == 4 else None], i


def test_samples_without_pixels() -> None:
    reasons = r"2 of 9 images(?s:.*)sample 3\): cannot be read: disk error(?s:.*)shape \(0, 27, 3\) has no pixels"
    with pytest.raises(gi.DecodeError, match=reasons):
        next(cpu(Broken(), cropped, batch_size=9))
    with pytest.warns(RuntimeWarning, match="2 samples could not be decoded"):
        (filled,) = cpu(Broken(), gi.presets.imagenet_eval(8, 8), batch_size=9, on_error="fill")
    assert np.flatnonzero(~filled.valid).tolist() == [3, 4]
    black = gi.normalize([np.zeros((8, 8, 3), np.uint8)], gi.IMAGENET_MEAN, gi.IMAGENET_STD).array()[0]
    for k in (3, 4):
        np.testing.assert_array_equal(filled.images[k], black)
    with pytest.warns(RuntimeWarning, match="2 samples could not be decoded"):
        (skipped, *_) = cpu(Broken(), cropped, batch_size=7, on_error="skip")
    np.testing.assert_array_equal(skipped.images, by_numpy(IMAGES, [0, 1, 2, 5, 6, 7, 8]))
    with pytest.warns(RuntimeWarning, match="2 samples could not be decoded"):
        (alike,) = cpu(Broken(), None, batch_size=None, batches=[[2, 3, 4]], on_error="fill")
    assert np.shape(alike.images) == (3, 22, 29, 3)


@pytest.mark.parametrize(("images", "options", "message"), [
    ([IMAGES[0].astype(float)] * 2, {}, r"source\[0\] must be uint8, uint16 or float32, not float64; pass .*astype"),
    ([IMAGES[0][..., 0]] * 2, {}, r"source\[0\] must be an \(H, W, C\) array, .* a gray image is image\[..., None\]"),
    ([IMAGES[0].transpose(2, 0, 1)] * 2, {}, r"source\[0\] must have .* pass source\[0\]\.transpose\(1, 2, 0\)"),
    ([IMAGES[0], IMAGES[0][..., :1]], {}, r"source\[1\] is uint8 with 1 channel and source\[0\] uint8 with 3 channels"),
    ([IMAGES[0], np.float32(IMAGES[1])], {}, r"source\[1\] is float32 with 3 channels and source\[0\] uint8 with 3"),
    ([IMAGES[0], FILES[0]], {}, r"source\[1\] is a file and source\[0\] an array: .*gpuimg.decode_image\(file\)"),
    (IMAGES[:2], {"cache": "1 MiB"}, "cache= is for sources of files"),
    (IMAGES[:2], {"clips": gi.Clips(2)}, r"source\[0\] must be a video file for clips=, not an array"),
])  # fmt: skip
def test_arrays_that_are_refused(images: list[Any], options: dict[str, Any], message: str) -> None:
    """Whatever is done with bad samples: these are mistakes of the source."""
    with pytest.raises((TypeError, ValueError), match=message):
        next(cpu([(image, 0) for image in images], cropped, on_error="fill", **options))
