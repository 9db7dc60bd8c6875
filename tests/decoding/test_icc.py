"""Embedded ICC profiles: colors converted to sRGB, against the formula of the profile and Pillow's own conversion."""

import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageCms

import gpuimg as gi

from ..samples import file_of

# Display P3 (SMPTE EG 432-1): its primaries in XYZ, adapted to D50, as Apple's profile has them; here with gamma 2.2.
P3 = np.array([[0.51512, 0.29198, 0.15710], [0.24120, 0.69225, 0.06657], [-0.00105, 0.04189, 0.78407]])
# sRGB (IEC 61966-2-1) likewise.
SRGB = np.array([[0.43607, 0.38515, 0.14307], [0.22249, 0.71687, 0.06061], [0.01392, 0.09708, 0.71410]])
D50 = (0.9642, 1.0, 0.8249)
GAMMA = 563 / 256  # an exact number of the profile's format


def profile(space: bytes = b"RGB ") -> bytes:
    """A profile of version 2 (ICC.1:2001-04) with one gamma, and primaries if it is of colors."""

    def xyz(values: Any) -> bytes:
        return b"XYZ \0\0\0\0" + struct.pack(">3i", *(round(value * 65536) for value in values))

    text = b"test\0"
    curve = b"curv\0\0\0\0" + struct.pack(">IHxx", 1, round(GAMMA * 256))
    tags = {
        b"desc": b"desc\0\0\0\0" + struct.pack(">I", len(text)) + text + bytes(79),
        b"cprt": b"text\0\0\0\0" + text + bytes(3),
        b"wtpt": xyz(D50),
    }
    if space == b"RGB ":
        tags |= {name + b"XYZ": xyz(P3[:, k]) for k, name in enumerate((b"r", b"g", b"b"))}
        tags |= {name + b"TRC": curve for name in (b"r", b"g", b"b")}
    else:
        tags[b"kTRC"] = curve
    table, body, at = b"", b"", 128 + 4 + 12 * len(tags)
    for name, content in tags.items():
        content += bytes(-len(content) % 4)
        table += name + struct.pack(">2I", at + len(body), len(content))
        body += content
    header = struct.pack(">I4sI4s4s4s", at + len(body), bytes(4), 0x02400000, b"mntr", space, b"XYZ ")
    header += struct.pack(">6H4s", 2026, 1, 1, 0, 0, 0, b"acsp") + bytes(28) + xyz(D50)[8:]
    return header.ljust(128, b"\0") + struct.pack(">I", len(tags)) + table + body


def by_formula(pixels: NDArray[np.uint8]) -> Any:
    """P3 with a gamma to sRGB, of 0 to 255."""
    linear = np.clip((pixels / 255) ** GAMMA @ P3.T @ np.linalg.inv(SRGB).T, 0, 1)
    return 255 * np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def by_pillow(data: bytes, mode: str = "RGB") -> NDArray[np.uint8]:
    with Image.open(io.BytesIO(data)) as image:
        source = ImageCms.ImageCmsProfile(io.BytesIO(image.info["icc_profile"]))
        made = ImageCms.profileToProfile(image.convert(mode), source, ImageCms.createProfile("sRGB"), outputMode="RGB")
        return np.asarray(made)


@pytest.fixture
def image() -> Image.Image:
    y, x = np.mgrid[:61, :87]
    return Image.fromarray(np.stack([3 * x - 4, 4 * y + 5, 255 - 2 * (x + y) % 256], -1).clip(0, 255).astype(np.uint8))


def decoded(data: bytes, **options: Any) -> NDArray[np.uint8]:
    return np.asarray(gi.decode_batch([data], device="cpu", **options)[0])


@pytest.mark.parametrize("form", ["PNG", "TIFF", "JPEG", "WEBP", "AVIF"])
def test_colors_are_those_of_the_profile(form: str, image: Image.Image) -> None:
    lossless = {"lossless": True} if form == "WEBP" else {}
    data = file_of(image, form, icc_profile=profile(), **lossless)
    with Image.open(io.BytesIO(data)) as opened:
        stored = np.asarray(opened.convert("RGB"))
    pixels = decoded(data, icc="srgb")
    assert np.abs(pixels - by_formula(stored)).max() <= 2.0  # LittleCMS computes with 16 bits, of rounded primaries
    np.testing.assert_array_equal(pixels, by_pillow(data))
    np.testing.assert_array_equal(decoded(data), decoded(file_of(image, form, icc_profile=None, **lossless)))


def test_files_of_a_batch_that_have_none_are_as_ever(image: Image.Image) -> None:
    files = [file_of(image, "JPEG", icc_profile=icc) for icc in (None, profile(), None)]
    found = gi.decode_batch(files, device="cpu", icc="srgb")
    plain = decoded(files[0])
    np.testing.assert_array_equal(found[0], plain)
    np.testing.assert_array_equal(found[2], plain)
    assert np.abs(found[1].astype(int) - plain).max() > 20


def test_gray(image: Image.Image) -> None:
    data = file_of(image, "PNG", icc_profile=profile())
    expected = by_formula(np.asarray(image)) @ [0.299, 0.587, 0.114]
    assert np.abs(decoded(data, icc="srgb", color="gray")[..., 0] - expected).max() <= 2.5
    data = file_of(image.convert("L"), "JPEG", icc_profile=profile(b"GRAY"))
    pixels = decoded(data, icc="srgb")
    np.testing.assert_array_equal(pixels, by_pillow(data, "L"))
    assert np.abs(pixels.astype(int) - decoded(data)).max() >= 2


def test_alpha_is_kept(image: Image.Image) -> None:
    image.putalpha(Image.fromarray((np.arange(61 * 87).reshape(61, 87) % 256).astype(np.uint8)))
    data = file_of(image, "PNG", icc_profile=profile())
    pixels = decoded(data, icc="srgb", color="rgba")
    np.testing.assert_array_equal(pixels[..., :3], by_pillow(data))
    np.testing.assert_array_equal(pixels[..., 3], np.asarray(image)[..., 3])


@pytest.mark.parametrize("icc", [b"no profile", profile()[:150], bytes(128)])
def test_damaged_profiles(icc: bytes, image: Image.Image) -> None:
    data = file_of(image, "JPEG", icc_profile=icc)
    assert decoded(data).shape == (61, 87, 3)
    with pytest.raises(gi.DecodeError, match="ICC profile cannot be used"):
        decoded(data, icc="srgb")


def test_a_profile_of_other_colors_is_ignored(image: Image.Image) -> None:
    data = file_of(image, "JPEG", icc_profile=profile(b"GRAY"))
    np.testing.assert_array_equal(decoded(data, icc="srgb"), decoded(data))


def test_open_batch_load_and_prepare(image: Image.Image, tmp_path: Path) -> None:
    data = file_of(image, "JPEG", icc_profile=profile(), quality=95, subsampling=0)
    expected = decoded(data, icc="srgb")
    crop = gi.crop(gi.open_batch([data], device="cpu", icc="srgb"), 10, 20, 30, 40).array("uint8")
    np.testing.assert_array_equal(crop[0], expected[10:40, 20:60])
    (batch,) = gi.load([(data, 0)], batch_size=1, device="cpu", icc="srgb", dtype="uint8")
    np.testing.assert_array_equal(batch.images[0], expected)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jpg").write_bytes(data)
    source = gi.file_list([tmp_path / "in" / "a.jpg"])
    gi.prepare(source, tmp_path / "out", short_side=512, icc="srgb", quality=95, subsampling="444")
    (path,) = (tmp_path / "out").rglob("*.jpg")
    made = decoded(path.read_bytes(), icc="srgb")
    assert np.abs(made.astype(int) - expected).mean() < 1.5
    with pytest.raises(ValueError, match="recode leaves the pixels as they are, and excludes icc"):
        gi.prepare(source, tmp_path / "other", recode=True, icc="srgb")
