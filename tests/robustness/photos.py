"""Small photos, one in a hundred of them damaged, augmented by the loader and as one batch: the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

import gpuimg as gi

from .jpegs import MAX_PIXELS
from .mutate import Draw, mutation
from .originals import photos

_IMAGES, _SIZE = 512, 64


def _preprocess(x: gi.Batch, rng: gi.Rng) -> gi.Batch:
    return gi.color_jitter(gi.random_resized_crop(x, _SIZE, rng=rng), 0.4, 0.4, 0.4, 0.1, rng=rng)


def check(folder: Path) -> Callable[[int], Counter[str]]:
    """Return the check of some images: all of them as one batch, an intact one by itself, and shuffled by a loader."""
    files = tuple(photos().values())

    def checked(number: int) -> Counter[str]:
        bad = np.array([Draw(number * _IMAGES + k).below(100) == 0 for k in range(_IMAGES)])
        data = [mutation(number * _IMAGES + k)[0] if bad[k] else files[k % len(files)] for k in range(_IMAGES)]

        def computed(chosen: list[int]) -> tuple[np.ndarray, np.ndarray]:
            rng = gi.Rng(number, epoch=0, indices=np.array(chosen))
            batch = gi.open_batch([data[k] for k in chosen], device="cpu", on_error="fill", max_pixels=MAX_PIXELS)
            return _preprocess(batch, rng).array(), np.array([status == "ok" for status in batch.status])

        pixels, valid = computed([*range(_IMAGES)])
        assert valid[~bad].all(), f"intact images are refused: {np.flatnonzero(~bad & ~valid).tolist()}"
        assert not pixels[~valid].any(), "an image is refused and not black"
        one = int(np.flatnonzero(~bad)[number % 100])
        assert np.array_equal(computed([one])[0][0], pixels[one]), f"image {one} differs from itself alone"
        seen = np.zeros(_IMAGES, np.int64)
        options = {"device": "cpu", "on_error": "fill", "max_pixels": MAX_PIXELS}
        source = [(one, k) for k, one in enumerate(data)]
        for batch in gi.load(source, _preprocess, batch_size=64, shuffle=True, seed=number, epochs=1, **options):
            np.add.at(seen, batch.indices, 1)
            assert np.array_equal(batch.labels, batch.indices), "labels of other images"
            assert np.array_equal(batch.valid, valid[batch.indices]), "other images are refused"
            assert np.array_equal(batch.images, pixels[batch.indices]), "other pixels by the loader"
        assert (seen == 1).all(), f"{np.count_nonzero(seen != 1)} images not exactly once"
        damaged = int((bad & valid).sum())
        return Counter(intact=int((~bad).sum()), decoded=damaged, refused=int(bad.sum()) - damaged)

    return checked
