"""Results of images of several sizes: one flat array, padded arrays, and patches for transformers."""

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from .._checks import arguments
from .._checks.types import Array, Ints, Mask
from .._data.patches import PatchLayout
from ..errors import Failure
from .recording import Recording
from .result_spec import check_layout, result_dtype

#: Run a batch into a flat array, at an element offset for each image.
Run: TypeAlias = Callable[[Any, Ints, Any], None]

Order: TypeAlias = Literal["CTPP", "PPC"]


class Ragged(NamedTuple):
    """Images of several sizes in one flat array, as :meth:`gpuimg.Batch.ragged` returns them.

    Attributes
    ----------
    values : array
        The pixels of all images.
    starts : (N,) int64
        Position of each image's first value.
    sizes : (N, 2) int64
        Height and width.
    """

    values: Array
    starts: Ints
    sizes: Ints


class Padded(NamedTuple):
    """Images of several sizes in one array, as :meth:`gpuimg.Batch.padded` returns them.

    Attributes
    ----------
    values : array
        (N, H, W, C) or (N, C, H, W), as high and as wide as the largest image.
    mask : (N, H, W) bool
        True for pixels of images, False for padding.
    corners, sizes : (N, 2) int64
        Row and column of each image's first pixel, and its height and width.
    """

    values: Array
    mask: Mask
    corners: Ints
    sizes: Ints


class Tokens(NamedTuple):
    """Patches of images, as :meth:`gpuimg.Batch.tokens` returns them.

    Attributes
    ----------
    values : array
        (sum of tokens, values of a token), or (samples, tokens, values) if padded.
    starts : (N + 1,) int64
        Tokens of image or clip ``k`` are ``starts[k]`` to ``starts[k + 1]``, not counting padding.
    grids : (N, 3) int64
        Patches in time, down and across.
    mask : (samples, tokens) bool, optional
        True for tokens, False for padding; None if not padded.
    errors : dict of int to Failure
        Images or clips that could not be decoded; their tokens are those of a black image.
    """

    values: Array
    starts: Ints
    grids: Ints
    mask: Mask | None
    errors: dict[int, Failure]


#: Results that a function of a loader may return in place of a batch.
RESULTS = (Ragged, Padded, Tokens)


def padded(recording: Recording, run: Run, value: Any, align: str, multiple: int, dtype: Any, layout: str) -> Padded:
    """Implement :meth:`gpuimg.Batch.padded`."""
    name = result_dtype(recording, dtype)
    check_layout(layout)
    arguments.one_of(align, "align", ("corner", "center"))
    (step,) = arguments.sides(multiple=multiple)
    limits = {"low": 0, "high": np.iinfo(name).max, "whole": True} if name.startswith("uint") else {}
    filling = arguments.number(value, "value", **limits)
    sizes, channels, n = recording.sizes, recording.channels, len(recording)
    largest = np.maximum(sizes.max(0, initial=0), recording.plan.empty_size)
    height, width = (-(-largest // step) * step).tolist()
    shape = (n, height, width, channels) if layout == "NHWC" else (n, channels, height, width)
    runtime = recording.runtime
    flat = runtime.empty(int(np.prod(shape)), name)  # waits for earlier readers of this memory
    with runtime.device():
        flat[:] = filling
    spare = np.array([height, width]) - sizes
    corners = spare // 2 if align == "center" else np.zeros_like(spare)
    first = corners[:, 0] * width + corners[:, 1]
    if layout == "NHWC":
        first = first * channels
    patches = PatchLayout.of(max(height, 1), max(width, 1), channels, last=layout == "NHWC")
    run(flat, np.arange(n) * patches.size + first, patches)
    rows, columns = (
        (np.arange(length) >= first[:, None]) & (np.arange(length) < (first + size)[:, None])
        for length, first, size in zip((height, width), corners.T, sizes.T, strict=True)
    )
    return Padded(flat.reshape(shape), rows[:, :, None] & columns[:, None], corners, np.array(sizes))


def tokens(
    recording: Recording, run: Run, patch: int, merge: int, frames: int, order: str, pad: Any, counts: Any, dtype: Any
) -> Tokens:
    """Implement :meth:`gpuimg.Batch.tokens`."""
    name = result_dtype(recording, dtype)
    side, merged, deep = arguments.sides(patch=patch, merge=merge, frames=frames)
    arguments.one_of(order, "order", ("CTPP", "PPC"))
    if order == "PPC" and deep > 1:
        raise ValueError(f'order="PPC" has no time; use "CTPP" with frames={deep}')
    clip = recording.frames or 1
    sizes = recording.sizes[::clip]
    _check_sizes(sizes, side * merged)
    repeats = deep if recording.frames is None else 1
    patches = PatchLayout.of(
        side, side, recording.channels, last=order == "PPC", merge=merged, frames=deep, repeats=repeats
    )
    grids = np.concatenate([np.full((len(sizes), 1), max(clip // deep, 1)), sizes // side], 1)
    starts = np.concatenate([[0], np.cumsum(grids.prod(1))])
    if counts is not None and pad is None:
        raise ValueError("counts is for padded tokens: pass pad, too")
    samples = sample_ends(counts, len(sizes))
    used = np.diff(starts[samples])
    one = math.prod(length // side for length in recording.plan.empty_size) * max(clip // deep, 1)  # 0 with images
    room = _room(used, pad, one)
    first = starts[:-1]
    if room is not None:
        first = first + np.repeat(np.arange(len(used)) * room - starts[samples[:-1]], np.diff(samples))
    total = int(starts[-1]) if room is None else len(used) * room
    runtime = recording.runtime
    flat = runtime.empty(total * patches.size, name)  # waits for earlier readers of this memory
    values = flat.reshape(total, patches.size)
    mask = None
    if room is not None:
        values = flat.reshape(len(used), room, patches.size)
        mask = np.arange(room) < used[:, None]
        with runtime.device():
            for k, count in enumerate(used.tolist()):
                values[k, count:] = 0
    time = np.arange(clip)
    inner = time // deep * grids[:, 1:].prod(1)[:, None] * patches.size + time % deep * patches.repeat
    run(flat, (first[:, None] * patches.size + inner).reshape(-1), patches)
    return Tokens(values, starts, grids, mask, dict(recording.source.failures))


def sample_ends(counts: Any, n: int) -> Ints:
    """Return offsets (M + 1,): sample m has the images offsets[m] to offsets[m + 1]; by default one each."""
    ends = np.arange(n + 1) if counts is None else np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    if ends[-1] != n or np.any(np.diff(ends) < 0):
        raise ValueError(f"counts must be numbers of images that add up to {n}, not {counts}")
    return ends


def times_of_whole_patches(recording: Recording, frames: Any) -> Ints | None:
    """Return the frames of clips whose last one is repeated to a multiple of ``frames``; None if they are whole."""
    (deep,) = arguments.sides(frames=frames)
    if recording.frames is None or recording.frames % deep == 0:
        return None
    return np.minimum(np.arange(-(-recording.frames // deep) * deep), recording.frames - 1)


def _check_sizes(sizes: Ints, step: int) -> None:
    wrong = np.any(sizes % step != 0, 1)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise ValueError(
            f"height and width must be multiples of {step}, which is patch * merge, not {tuple(sizes[i].tolist())} as "
            f"of image {i}; resize to a size of gpuimg.sizes, or pad"
        )


def _room(used: Ints, pad: Any, least: int) -> int | None:
    """Return the tokens that every sample has after padding, at least as many; None without."""
    if pad is None:
        return None
    most = int(used.max(initial=least))
    if isinstance(pad, str):
        arguments.one_of(pad, "pad", ("longest",))
        return most
    (room,) = arguments.sides(pad=pad)
    if most > room:
        raise ValueError(f"pad must be at least {most}, the most tokens of an image, not {room}")
    return room
