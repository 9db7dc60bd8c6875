"""Results of images of several sizes: flat, padded, and in patches; against NumPy's reshape and transpose."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import gpuimg as gi

from ..compare import counting
from ..video import videos

Images = list[NDArray[Any]]


def images_of(sizes: Any, channels: int = 3, seed: int = 0) -> Images:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 256, (h, w, channels), np.uint8) for h, w in sizes]


def patches_of(image: NDArray[Any], patch: int, merge: int, frames: int, order: str) -> NDArray[Any]:
    """Patches of an image (H, W, C), as the processors of Qwen-VL and SigLIP 2 make them."""
    h, w, c = image.shape
    if order == "PPC":
        merged = image.reshape(h // patch // merge, merge, patch, w // patch // merge, merge, patch, c)
        return merged.transpose(0, 3, 1, 4, 2, 5, 6).reshape(h * w // patch**2, -1)
    repeated = np.stack([image] * frames)
    merged = repeated.reshape(frames, h // patch // merge, merge, patch, w // patch // merge, merge, patch, c)
    return merged.transpose(1, 4, 2, 5, 7, 0, 3, 6).reshape(h * w // patch**2, -1)


SIZES = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=4)


@given(
    SIZES, st.sampled_from([1, 2, 5, 14, 16, 17]), st.sampled_from([1, 2, 3]),
    st.sampled_from([("CTPP", 1), ("CTPP", 2), ("CTPP", 3), ("PPC", 1)]), st.sampled_from([1, 3, 4]),
    st.sampled_from(["uint8", "float32", "float16", "bfloat16", "uint16"]),
)  # fmt: skip
def test_tokens_are_pixels_rearranged(
    sizes: Any, patch: int, merge: int, order_frames: tuple[str, int], channels: int, dtype: Any
) -> None:
    order, frames = order_frames
    images = images_of(np.array(sizes) * patch * merge, channels)
    x = gi.horizontal_flip(images)
    found = x.tokens(patch, merge=merge, frames=frames, order=order, dtype=dtype)  # type: ignore[arg-type]
    want = [patches_of(image, patch, merge, frames, order) for image in x.compute(dtype)]
    assert np.array_equal(found.values, np.concatenate(want))
    assert found.starts.tolist() == [0, *np.cumsum([len(each) for each in want])]
    assert found.grids.tolist() == [[1, h * merge, w * merge] for h, w in sizes]
    assert found.mask is None


@pytest.mark.parametrize("patch", [2, 14, 16, 33, 70, 200])
@pytest.mark.parametrize(("order", "frames"), [("CTPP", 1), ("CTPP", 2), ("PPC", 1)])
@pytest.mark.parametrize("channels", [1, 3])
def test_patches_of_resized_images(patch: int, order: Any, frames: int, channels: int) -> None:
    """In short and in long rows, of wide and tall images; exact ones are stored without float planes between."""
    images = images_of([(90, 50), (300, 40)], channels)
    for merge, exact in ((1, "torch"), (2, "pillow"), (2, None)):
        sizes = np.array([(2, 4), (4, 2)]) * patch
        x = gi.normalize(gi.resize(images, sizes, exact=exact), 0.4, 0.3)  # type: ignore[arg-type]
        for dtype in ("float32", "float16"):
            want = np.concatenate([patches_of(one, patch, merge, frames, order) for one in x.compute(dtype)])  # type: ignore[arg-type]
            found = x.tokens(patch, merge=merge, frames=frames, order=order, dtype=dtype)  # type: ignore[arg-type]
            assert np.array_equal(found.values, want)


@pytest.mark.parametrize("counts", [None, [2, 1], [0, 3, 0], [1, 1, 1]])
@pytest.mark.parametrize(("pad", "order"), [("longest", "CTPP"), ("longest", "PPC"), (9, "PPC"), (10, "CTPP")])
def test_padded_tokens(counts: Any, pad: Any, order: Any) -> None:
    """Of each image, or of samples of several."""
    x = gi.invert(images_of([(8, 12), (4, 4), (8, 4)]))
    alone, found = x.tokens(4, order=order), x.tokens(4, order=order, pad=pad, counts=counts)
    lengths = np.diff(alone.starts[np.cumsum([0, *(counts or [1, 1, 1])])])
    assert found.mask is not None
    assert found.values.shape[:2] == (len(lengths), max(lengths) if pad == "longest" else pad)
    assert np.array_equal(found.mask, np.arange(found.values.shape[1]) < lengths[:, None])
    assert np.array_equal(found.values[found.mask], alone.values)
    assert not found.values[~found.mask].any()
    assert found.starts.tolist() == alone.starts.tolist() == [0, 6, 7, 9]


@pytest.mark.parametrize("frames", [1, 2, 3, 4, 5])
def test_tokens_of_clips_are_qwens(frames: int) -> None:
    """Patches hold consecutive frames, and follow one another by time, then by blocks; the last frame is repeated."""
    clips = gi.open_clips([videos.made("h264")] * 2, 4, start=np.array([0, 5]), device="cpu")
    x = gi.resize(clips, (32, 64))
    pixels = x.array("float32", "NTCHW")
    pixels = np.concatenate([pixels, *[pixels[:, -1:]] * (-4 % frames)], 1)
    found = x.tokens(8, merge=2, frames=frames, dtype="float32")
    n, t, c, h, w = pixels.shape
    parts = pixels.reshape(n, t // frames, frames, c, h // 16, 2, 8, w // 16, 2, 8)
    want = parts.transpose(0, 1, 4, 7, 5, 8, 3, 2, 6, 9).reshape(-1, c * frames * 64)
    assert np.array_equal(found.values, want)
    assert found.grids.tolist() == [[t // frames, 4, 8]] * 2
    assert found.starts.tolist() == [0, len(want) // 2, len(want)]
    padded = x.tokens(8, merge=2, frames=frames, dtype="float32", pad=130).values
    assert np.array_equal(padded[:, : len(want) // 2].reshape(want.shape), want)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("align", ["corner", "center"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_padded_images(layout: Any, align: Any, channels: int) -> None:
    images = images_of([(5, 9), (6, 2), (1, 1)], channels)
    found = gi.horizontal_flip(images).padded(17, align, multiple=4, dtype="uint8", layout=layout)
    values = found.values if layout == "NHWC" else found.values.transpose(0, 2, 3, 1)
    assert values.shape == (3, 8, 12, channels)
    for k, image in enumerate(images):
        h, w, _ = image.shape
        y, x = ((8 - h) // 2, (12 - w) // 2) if align == "center" else (0, 0)
        assert found.corners[k].tolist() == [y, x]
        want = np.full((8, 12, channels), 17, np.uint8)
        want[y : y + h, x : x + w] = image[:, ::-1]
        assert np.array_equal(values[k], want)
        inside = np.zeros((8, 12), np.bool_)
        inside[y : y + h, x : x + w] = True
        assert np.array_equal(found.mask[k], inside)
    assert found.sizes.tolist() == [[5, 9], [6, 2], [1, 1]]


def test_ragged_images() -> None:
    x = gi.horizontal_flip(images_of([(5, 9), (7, 3), (1, 1)]))
    for layout in ("NHWC", "NCHW"):
        found = x.ragged("float32", layout)  # type: ignore[arg-type]
        for k, image in enumerate(x.compute("float32", layout)):  # type: ignore[arg-type]
            at = found.starts[k]
            assert np.array_equal(found.values[at : at + image.size], image.reshape(-1))
        assert found.sizes.tolist() == [[5, 9], [7, 3], [1, 1]]


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("name", ["uint8", "uint16", "float16", "bfloat16", "float32"])
@pytest.mark.parametrize("kind", [1, 2, 3, "sizes", "clips"])
def test_a_finished_result_is_copied(kind: Any, name: Any, layout: Any) -> None:
    """Into arrays of the caller's, padded images and patches: as if computed for them, and nothing runs again."""

    def made() -> gi.Batch:
        if kind == "clips":
            return gi.resize(gi.open_clips([videos.made("h264")] * 2, 4, device="cpu"), (8, 16))
        sizes = [(8, 12), (4, 4), (8, 4)] if kind == "sizes" else [(8, 12)] * 3
        return gi.horizontal_flip(images_of(sizes, 3 if kind == "sizes" else kind))

    def ways(x: gi.Batch) -> Iterator[Any]:
        yield x.padded(3, "center", multiple=5, dtype=name, layout=layout).values
        yield x.tokens(2, merge=2, frames=3, dtype=name).values
        yield x.tokens(4, order="PPC", pad="longest", dtype=name).values
        if kind != "sizes":
            yield x.array(layout=layout, out=np.zeros_like(made().array(name, layout)))

    x, runtime = counting(made())
    computed = x.compute(name, layout)
    runs = runtime.runs
    for copies in zip(ways(x), ways(computed), ways(made()), strict=True):
        assert all(np.array_equal(copies[2], one) for one in copies)
    assert runtime.runs == runs > 0


def test_images_that_failed_are_black_and_named() -> None:
    x = gi.open_batch([b"no image", b"none"], device="cpu", on_error="fill")
    found = gi.resize(x, (8, 8)).tokens(4)
    assert sorted(found.errors) == [0, 1]
    assert not found.values.any()
