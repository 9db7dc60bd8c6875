"""The PNG decoder with all its memory flush against pages that cannot be touched, as in :mod:`.guard_pages`."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gpuimg._decoding import pillow, png
from gpuimg._decoding.options import DecodeOptions

from ..decoding.pngs import BUILDS, FILTERS
from ..decoding.pngs import made as made_file
from . import formats
from .guard_pages import Flush
from .mutate import Draw, changed

_MOST_PIXELS = 1 << 18
_FILLS = {0x55: True, 0xAA: False}  # what memory holds before, and whether it is flush at its end
_OPTIONS = [DecodeOptions(color) for color in ("rgb", "gray", "rgba", "graya")] + [DecodeOptions(alpha="black")]


def file(seed: int) -> bytes:
    """File number ``seed``: a third is of :mod:`.formats`, the others are of any build, half of them damaged."""
    draw = Draw(seed)
    if draw.below(3) == 0:
        return formats.mutation("png", seed)[0]
    filters = [draw.pick(FILTERS) for _ in range(draw.between(1, 6))]
    size = draw.between(1, 60), draw.between(1, 60)
    data = made_file(np.random.default_rng(seed), *size, *draw.pick(BUILDS), filters, part=draw.between(20, 3000))
    if draw.below(2):
        data = changed(draw, data)[0]
        if draw.below(3):
            data = formats.with_checksums(data)
    return data


def _numpy(made: list[Flush], fill: int, *, at_end: bool) -> SimpleNamespace:
    """NumPy, except that arrays which the decoder makes are flush against a page that cannot be touched."""

    def empty(shape: int | Sequence[int], dtype: Any, fill: int = fill) -> NDArray[Any]:
        count = math.prod(np.atleast_1d(shape).tolist())
        made.append(Flush(count * np.dtype(dtype).itemsize, fill, at_end=at_end))
        found: NDArray[Any] = made[-1].bytes.view(dtype).reshape(shape)
        return found

    def frombuffer(data: Any, dtype: Any) -> NDArray[Any]:
        found = empty(len(data), dtype)
        found[:] = np.frombuffer(data, dtype)
        return found

    return SimpleNamespace(**vars(np) | {"empty": empty, "zeros": partial(empty, fill=0), "frombuffer": frombuffer})


def _pixels(data: bytes, options: DecodeOptions, region: Any, fill: int, at_end: bool) -> NDArray[np.uint8] | None:
    """The pixels of a region; None where the decoder leaves the file to Pillow."""
    made: list[Flush] = []
    memory = _numpy(made, fill, at_end=at_end)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(png, "np", memory)
        part = png.part_of(data, options, region)
        out = None
        if part is not None:
            out = memory.empty(math.prod(part.shape), np.uint8)
            part.write(out)
            out = out.reshape(part.shape)
    broken = [one for memory in made if (one := memory.broken())]
    assert not broken, broken
    return out


def check(folder: Path) -> Callable[[int], str]:
    return _outcome


def _outcome(seed: int) -> str:
    """Return the outcome of a case; raise AssertionError if it is not allowed."""
    data, draw = file(seed), Draw(~seed)
    try:
        header = pillow.read_header(data, _MOST_PIXELS)
    except ValueError:
        return "refused by its header"
    if header.codec != "png":
        return "no PNG"
    options = draw.pick(_OPTIONS)
    x0, y0 = draw.below(header.width), draw.below(header.height)
    region = np.array([x0, y0, draw.between(x0 + 1, header.width), draw.between(y0 + 1, header.height)])
    whole = [_pixels(data, options, None, *how) for how in _FILLS.items()]
    part = [_pixels(data, options, region, *how) for how in _FILLS.items()]
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
