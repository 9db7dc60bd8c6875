"""Notebook output of a batch, a few captioned pictures for every kind of batch, and of a description."""

import base64
import io
import re
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gpuimg as gi

from ..libraries import library, needs
from ..samples import PHOTOS
from ..video.videos import made, number_in


def pictures(html: str) -> list[np.ndarray]:
    files = re.findall(r'src="data:image/png;base64,([^"]+)"', html)
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(file)))) for file in files]


def captions(html: str) -> list[str]:
    return re.findall(r"<figcaption[^>]*>(.*?)</figcaption>", html)


def test_progress_is_a_widget_in_notebooks(monkeypatch: pytest.MonkeyPatch) -> None:
    """By tqdm.auto, which looks where it runs."""
    needs("ipywidgets")
    tqdm, auto, seen = library("tqdm").tqdm, library("tqdm.auto"), list[Any]()
    monkeypatch.setattr(auto, "tqdm", lambda *given, **options: seen.append(given) or tqdm(*given, **options))
    list(gi.load([(PHOTOS[0], 0)], lambda x, rng: x, batch_size=1, device="cpu", progress=True))
    assert seen


def test_pictures_are_the_results() -> None:
    x = gi.rotate(gi.resize(gi.open_batch(PHOTOS[:3], device="cpu"), (128, 96)), [10, 20, 30])
    html = gi.Batch._repr_html_(x)
    np.testing.assert_array_equal(pictures(html), x.array())
    assert captions(html) == ["rotate by 10 degrees", "rotate by 20 degrees", "rotate by 30 degrees"]
    assert "all: resize to 128 x 96<" in html
    assert "and" not in html.replace("rotate", "")


@pytest.mark.parametrize(("dtype", "layout"), [("bfloat16", "NHWC"), ("float32", "NCHW"), ("uint8", "NHWC")])
def test_any_result_is_shown(dtype: str, layout: str) -> None:
    images = np.random.default_rng().integers(0, 256, (2, 128, 128, 3), np.uint8)
    result = gi.invert(images).compute(dtype, layout)
    np.testing.assert_allclose(pictures(gi.Batch._repr_html_(result)), 255 - images.astype(int), atol=1)


def test_normalized_and_small_images_are_shown() -> None:
    images = np.random.default_rng().integers(0, 256, (2, 8, 4, 3), np.uint8)
    html = gi.Batch._repr_html_(gi.normalize(images, gi.IMAGENET_MEAN, gi.IMAGENET_STD))
    np.testing.assert_array_equal(pictures(html), images.repeat(16, 1).repeat(16, 2))
    # Where it is not known how they were normalized, they are stretched to all levels.
    unknown = gi.resize(gi.normalize(images, 0.2, 0.1).array(), (8, 4))
    assert [(p.min(), p.max()) for p in pictures(gi.Batch._repr_html_(unknown))] == [(0, 255)] * 2


def test_few_images_are_decoded() -> None:
    """The ninth and those after it are not: they would raise."""
    x = gi.open_batch([*PHOTOS[:8], *[PHOTOS[0].read_bytes()[:3000]] * 40], device="cpu")
    html = gi.Batch._repr_html_(x)
    assert len(pictures(html)) == 8
    assert all(max(picture.shape) == 128 for picture in pictures(html))
    assert "and 40 more" in html
    assert set(x.status) == {"ok"}  # as before a run
    with pytest.raises(gi.DecodeError, match="40 of 48 images"):
        x.compute()


@pytest.mark.parametrize("on_error", ["raise", "fill"])
def test_bad_images_are_named(on_error: str) -> None:
    damaged = PHOTOS[0].read_bytes()[:3000]
    x = gi.open_batch([PHOTOS[1], damaged], on_error=on_error, device="cpu")
    html = gi.Batch._repr_html_(gi.resize(x, 64))
    good, bad = pictures(html)
    assert good.any()
    assert not bad.any()
    assert "not decoded: " in captions(html)[1]
    # Those known from the header are text of the file, which is not to be read as HTML.
    html = gi.Batch._repr_html_(gi.open_batch([b"<script>alert(1)</script>"], on_error="fill", device="cpu"))
    assert "not decoded" in html
    assert "<script" not in html


def test_batches_of_none_one_and_gray() -> None:
    assert pictures(gi.Batch._repr_html_(gi.resize(np.zeros((0, 4, 4, 3), np.uint8), 2))) == []
    (picture,) = pictures(gi.Batch._repr_html_(gi.invert(np.zeros((1, 300, 150, 1), np.uint8))))
    assert picture.shape == (128, 64, 3)
    assert (picture == 255).all()
    assert captions(gi.Batch._repr_html_(gi.resize(np.zeros((1, 4, 4, 3), np.uint8), 2))) == ["resize to 2 x 2"]


def test_frames_of_the_first_clip() -> None:
    html = gi.Batch._repr_html_(gi.open_clips([made("h264"), b"no video"], frames=20, on_error="fill", device="cpu"))
    assert (captions(html)[0], captions(html)[-1]) == ("frame 0", "frame 19")
    found = [np.asarray(Image.fromarray(picture).resize((96, 64))) for picture in pictures(html)]
    assert [f"frame {number_in(picture[..., 1])}" for picture in found] == captions(html)
    assert "and 32 more" in html
