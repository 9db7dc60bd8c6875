"""Pictures of animations, and pages of TIFF files."""

import io
import pickle
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageCms

import gpuimg as gi

from .test_icc import profile
from .tiffs import of_array, pages

H, W, T = 21, 34, 5
FORMS = ("GIF", "WEBP", "PNG")
MORE: dict[str, dict[str, Any]] = {"WEBP": {"lossless": True, "exact": True}, "GIF": {"disposal": 2}}


def frames(alpha: bool = False) -> NDArray[np.uint8]:
    """Few colors, as GIF has few: a square that moves, and with alpha a transparent border that grows."""
    found = np.full((T, H, W, 4 if alpha else 3), 255, np.uint8)
    for k in range(T):
        found[k, 2 + k : 9 + k, 3 * k : 3 * k + 8, :3] = (40 * k, 200 - 30 * k, 90)
        found[k, :, : W // 2, 0] = 17
        if alpha:
            found[k, :, W - k - 1 :] = 0
    return found


def animation(form: str, pictures: NDArray[np.uint8], **options: Any) -> bytes:
    first, *others = (Image.fromarray(one) for one in pictures)
    file = io.BytesIO()
    first.save(file, form, save_all=True, append_images=others, duration=40, **{**MORE.get(form, {}), **options})
    return file.getvalue()


def stack(pictures: NDArray[np.uint8], dtype: str = "uint8", **options: Any) -> bytes:
    """A TIFF file of a page for each picture, uncompressed."""
    parts = []
    for one in pictures.astype(dtype):
        tags = {256: W, 257: H, 258: [8 * one.itemsize] * 3, 259: 1, 262: 2, 277: 3, 278: H, 284: 1}
        order = options.get("order", "<")
        parts.append(([one.astype(one.dtype.newbyteorder(order)).tobytes()], tags))
    return pages(parts, **options)


@pytest.mark.parametrize("form", FORMS)
def test_animations(form: str) -> None:
    wanted = frames()
    data = animation(form, wanted)
    read = cv2.imdecodeanimation(np.frombuffer(data, np.uint8))[1].frames
    np.testing.assert_array_equal([one[..., 2::-1] for one in read], wanted)  # what the file says, by OpenCV
    np.testing.assert_array_equal(gi.decode_image(data, device="cpu", pages="all"), wanted)
    for k in range(T):
        np.testing.assert_array_equal(gi.decode_image(data, device="cpu", pages=k), wanted[k])
    found = gi.decode_batch([data] * 3, device="cpu", pages=[4, 0, 2])
    for one, k in zip(found, (4, 0, 2), strict=True):
        np.testing.assert_array_equal(one, wanted[k])
    opened = gi.open_batch([data] * 3, device="cpu", pages=[4, 0, 2])
    for batch in (opened, opened.take([2, 1, 0])[::-1], pickle.loads(pickle.dumps(opened))):
        np.testing.assert_array_equal(gi.horizontal_flip(batch).array(), wanted[[4, 0, 2], :, ::-1])
    assert gi.image_info(data).pages == T


@pytest.mark.parametrize("form", FORMS)
def test_transparent_animations(form: str) -> None:
    wanted = frames(alpha=True)
    data = animation(form, wanted)
    found = gi.decode_image(data, device="cpu", color="rgba", pages="all")
    np.testing.assert_array_equal(found[..., 3], wanted[..., 3])
    np.testing.assert_array_equal(found * (found[..., 3:] > 0), wanted * (wanted[..., 3:] > 0))
    black = gi.decode_batch([data], device="cpu", alpha="black", pages="all")
    np.testing.assert_array_equal(black, np.where(wanted[..., 3:] > 0, wanted[..., :3], 0))


@pytest.mark.parametrize("options", [{}, {"order": ">"}, {"big": True}, {"big": True, "order": ">"}])
@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_pages_of_a_tiff(options: dict[str, Any], dtype: str) -> None:
    wanted = frames().astype(dtype) * (257 if dtype == "uint16" else 1) - (np.arange(W) % 7)[:, None].astype(dtype)
    data, depth = stack(wanted, dtype, **options), "native" if dtype == "uint16" else "uint8"
    np.testing.assert_array_equal(gi.decode_image(data, device="cpu", depth=depth, pages="all"), wanted)
    found = gi.open_batch([data] * T, device="cpu", depth=depth, pages=np.arange(T))
    for k, one in enumerate(gi.decode_batch([data] * T, device="cpu", depth=depth, pages=np.arange(T))):
        np.testing.assert_array_equal(one, wanted[k])
    assert found.sizes.tolist() == [[H, W]] * T
    assert gi.image_info(data).pages == T


def test_clips() -> None:
    """They are clips for every function; and several files are decoded at once."""
    files = [animation("GIF", frames()), animation("WEBP", frames()[:, ::-1].copy()), stack(frames()[::-1])]
    clips = gi.decode_batch(files, device="cpu", pages="all")
    assert (len(clips), clips.frames) == (3 * T, T)
    np.testing.assert_array_equal(clips.array(layout="NTHWC")[2], frames()[::-1])
    flipped = gi.horizontal_flip(clips).array(layout="NTHWC")
    np.testing.assert_array_equal(flipped[1], frames()[:, ::-1, ::-1])
    assert gi.decode_batch([], device="cpu", pages="all").array().shape[0] == 0
    still = Image.new("RGB", (W, H))
    file = io.BytesIO()
    still.save(file, "JPEG")
    assert gi.decode_image(file.getvalue(), device="cpu", pages="all").shape == (1, H, W, 3)


def in_srgb(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    source, target = ImageCms.ImageCmsProfile(io.BytesIO(profile())), ImageCms.createProfile("sRGB")
    return np.asarray(ImageCms.profileToProfile(Image.fromarray(pixels), source, target, outputMode="RGB"))


@pytest.mark.parametrize("form", ["WEBP", "PNG"])
def test_all_pictures_of_an_animation_have_its_profile(form: str) -> None:
    wanted = np.stack([in_srgb(one) for one in frames()])
    data = animation(form, frames(), icc_profile=profile())
    np.testing.assert_array_equal(gi.decode_image(data, device="cpu", icc="srgb", pages="all"), wanted)
    for k in range(T):
        np.testing.assert_array_equal(gi.decode_image(data, device="cpu", icc="srgb", pages=k), wanted[k])


def test_pages_of_a_tiff_have_their_own_profiles() -> None:
    tags = {256: W, 257: H, 258: [8] * 3, 259: 1, 262: 2, 277: 3, 278: H}
    more: list[dict[int, Any]] = [{}, {34675: profile()}]
    data = pages([([one.tobytes()], tags | own) for one, own in zip(frames(), more, strict=False)])
    wanted = np.stack([frames()[0], in_srgb(frames()[1])])
    np.testing.assert_array_equal(gi.decode_image(data, device="cpu", icc="srgb", pages="all"), wanted)
    np.testing.assert_array_equal(gi.decode_image(data, device="cpu", icc="srgb", pages=1), wanted[1])


def _sized(height: int) -> bytes:
    tags = {256: W, 257: height, 258: [8] * 3, 259: 1, 262: 2, 277: 3, 278: height}
    return pages([([bytes(3 * W * h)], tags | {257: h, 278: h}) for h in (H, height)])


def _jpeg() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (W, H)).save(file, "JPEG")
    return file.getvalue()


BAD: dict[str, tuple[bytes, Any, str]] = {
    "GIF": (animation("GIF", frames()), 5, "it has no page 5, but 5, of which the first is 0"),
    "still PNG": (animation("PNG", frames()[:1]), 1, "it has no page 1, but 1"),
    "TIFF": (stack(frames()), 7, "it has no page 7, but 5"),
    "JPEG": (_jpeg(), 1, "pages of JPEG files are not supported, only of GIF, WebP, APNG and TIFF files"),
    "sizes": (_sized(9), "all", "its pages have 2 sizes: decode them one by one"),
    "cut off": (animation("GIF", frames())[:-60], 4, "damaged GIF file|it has no page 4"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_pages(name: str) -> None:
    data, number, message = BAD[name]
    with pytest.raises(gi.DecodeError, match=message):
        gi.decode_image(data, device="cpu", pages=number)
    if number != "all":
        batch = gi.decode_batch([_jpeg(), data], device="cpu", pages=[0, number], on_error="fill")
        assert batch.status[0] == "ok"
        assert batch.status[1] != "ok"


def test_refused() -> None:
    gif = animation("GIF", frames())
    for number in (-1, 1.5, [0, 1]):
        with pytest.raises(ValueError, match="pages"):
            gi.decode_image(gif, device="cpu", pages=number)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="pages must be one of 'all'"):
        gi.decode_batch([gif], device="cpu", pages="every")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="pages must be one of 'all'"):
        gi.decode_batch([], device="cpu", pages="every")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="pages must be numbers, not 'all'"):
        gi.open_batch([gif], device="cpu", pages="all")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r'pages="all" needs on_error="raise"'):
        gi.decode_batch([gif], device="cpu", pages="all", on_error="fill")
    with pytest.raises(ValueError, match=r"files have different numbers of pictures, .* 5 and .* 1: "):
        gi.decode_batch([gif, _jpeg()], device="cpu", pages="all")
    with pytest.raises(gi.DecodeError, match=f"over the limit of max_pixels={2 * H * W}"):
        gi.decode_image(gif, device="cpu", pages="all", max_pixels=2 * H * W)
    looped = bytearray(of_array(np.zeros((4, 4, 3), np.uint8), 2))
    start = int.from_bytes(looped[4:8], "little")
    at = start + 2 + 12 * int.from_bytes(looped[start : start + 2], "little")
    looped[at : at + 4] = looped[4:8]
    with pytest.raises(gi.DecodeError, match="comes twice"):
        gi.decode_image(bytes(looped), device="cpu", pages=3)
