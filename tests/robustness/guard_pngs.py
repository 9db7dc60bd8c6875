"""The PNG decoder with all its memory flush against pages that cannot be touched, as in :mod:`.guard_pages`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gpuimg._decoding import pillow, png
from gpuimg._decoding.options import DecodeOptions

from ..decoding.pngs import BUILDS, FILTERS, OPTIONS
from ..decoding.pngs import made as made_file
from . import formats
from .guard_pages import MOST_PIXELS, POISONS, Flushed
from .mutate import Draw, changed


def file(seed: int) -> bytes:
    """File number ``seed``: a third is of :mod:`.formats`, the others are of any build, half of them damaged."""
    draw = Draw(seed)
    if draw.below(3) == 0:
        return formats.mutation("png", seed)[0]
    filters = [draw.pick(FILTERS) for _ in range(draw.between(1, 6))]
    size = draw.between(1, 60), draw.between(1, 60)
    build, part = draw.pick(BUILDS), draw.between(1, draw.pick((400, 3000)))
    data = made_file(np.random.default_rng(seed), *size, *build, filters, part=part)
    if draw.below(2):
        data = changed(draw, data)[0]
        if draw.below(3):
            data = formats.with_checksums(data)
    return data


def _pixels(data: bytes, options: DecodeOptions, region: Any, fill: int, at_end: bool) -> NDArray[np.uint8] | None:
    """The pixels of a region; None where the decoder leaves the file to Pillow."""
    memory = Flushed(fill, at_end=at_end)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(png, "np", memory)
        part, out = png.part_of(data, options, region), None
        if part is not None:
            out = memory.empty(part.shape, np.uint8)
            part.write(out.reshape(-1))
    memory.check()
    return out


def check(folder: Path) -> Callable[[int], str]:
    return _outcome


def _outcome(seed: int) -> str:
    """Return the outcome of a case; raise AssertionError if it is not allowed."""
    data, draw = file(seed), Draw(~seed)
    try:
        header = pillow.read_header(data, MOST_PIXELS)
    except ValueError:
        return "refused by its header"
    if header.codec != "png":
        return "no PNG"
    options = draw.pick(OPTIONS)
    x0, y0 = draw.below(header.width), draw.below(header.height)
    region = np.array([x0, y0, draw.between(x0 + 1, header.width), draw.between(y0 + 1, header.height)])
    whole = [_pixels(data, options, None, *how) for how in POISONS.items()]
    part = [_pixels(data, options, region, *how) for how in POISONS.items()]
    for one, other in (whole, part):
        assert (one is None) == (other is None), "left to Pillow or not"
        assert one is None or np.array_equal(one, other), "pixels depend on what memory held before"
    try:
        reference = pillow.decode(data, header, options)
    except ValueError:
        assert whole[0] is None, "decoded what Pillow refuses"
        return "refused"
    if whole[0] is not None:
        assert np.array_equal(whole[0], reference), "other pixels than Pillow's"
        assert part[0] is not None, "the whole, but not a region"
    if part[0] is not None:
        x0, y0, x1, y1 = region.tolist()
        assert np.array_equal(part[0], reference[y0:y1, x0:x1]), f"other pixels than Pillow's in {region}"
    return "as Pillow's" if whole[0] is not None else "left to Pillow"
