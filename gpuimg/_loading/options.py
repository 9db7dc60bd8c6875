"""Types of the keyword arguments of :func:`gpuimg.load`, for functions that pass them on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal, Required, TypedDict

from .._checks.types import (
    Alpha,
    ClipLayout,
    ColorMode,
    Decoder,
    Depth,
    Device,
    DType,
    Icc,
    Indices,
    OnSampleError,
    SupportsArray,
)
from .._index.seek_index import SeekIndex
from .blocks import Blocks
from .buckets import Buckets, TokenBudget
from .clips import Clips


class SharedOptions(TypedDict, total=False):
    """Keyword arguments of :func:`gpuimg.load` but ``device``, which is another one for tensors."""

    batch_size: Required[int | Buckets | TokenBudget]
    devices: Sequence[Device] | None
    dtype: DType | None
    layout: ClipLayout
    shuffle: bool | Blocks
    seed: int
    epochs: int | None
    drop_last: bool
    prefetch: int
    readers: int | None
    decoders: int
    shard: tuple[int, int] | Literal["auto"]
    on_error: OnSampleError
    max_failures: float | None
    progress: bool
    stream: Any
    color: ColorMode
    alpha: Alpha
    max_pixels: int
    max_bytes: int
    draft: float | None
    depth: Depth
    icc: Icc
    decoder: Decoder
    image: str
    label: str | None
    index: str | os.PathLike[str] | SeekIndex | None
    cache: str | int | None
    clips: Clips | None
    indices: Indices | None
    weights: Sequence[float] | SupportsArray | None
    repeats: int


class LoadOptions(SharedOptions, total=False):
    """Keyword arguments of :func:`gpuimg.load`."""

    device: Device | None
