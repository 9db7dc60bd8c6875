"""What a loader is told: the settings, and the checks of what users pass."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from .._batch.asked import dtype_name
from .._batch.batch import Batch
from .._checks.arguments import whole_number
from .._index.learned import LearnedIndex
from .._index.seek_index import SeekIndex
from .._random.mixing import Mix
from .._random.rng import Rng
from .._runtimes.devices import runtime_for
from .._runtimes.images import KINDS
from .._runtimes.protocol import PER_THREAD_STREAM, Runtime
from .samples import Columns
from .sharding import Level, Share

Preprocess: TypeAlias = Callable[[Batch, Rng, Any], tuple[Any, Any]]  # (batch, rng, labels) -> (images, labels)


@dataclass(frozen=True)
class Settings:
    """What a loader does; checked by :func:`gpuimg.load`."""

    source: Any
    preprocess: Preprocess | None
    batch_size: int
    runtimes: Sequence[Runtime]
    dtype: Any
    layout: str
    shuffle: bool
    seed: int
    drop_last: bool
    prefetch: int
    readers: int
    decoders: int
    rank: int
    world: int
    on_error: str
    stream: int | None
    color: str
    alpha: str
    max_pixels: int
    columns: Columns
    draft: float | None
    index: SeekIndex | LearnedIndex | None = None
    worker: int = 0  # of the workers that deal out the rank's batches among them,
    workers: int = 1
    samples: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "samples", len(self.source))

    def share(self, levels: tuple[Level, ...] = ()) -> Share:
        """The share of this rank of what is left of an epoch."""
        return Share(self.samples, levels, self.rank, self.world)


def adapted(preprocess: Any) -> Preprocess | None:
    """A user's function as ``(batch, rng, labels) -> (images, labels)``."""
    if preprocess is None:
        return None
    if not callable(preprocess):
        raise TypeError(f"preprocess must be a function (batch, rng) -> Batch, not {type(preprocess).__name__}")
    least, most = _arity(preprocess)

    def called(x: Batch, rng: Rng, labels: Any) -> tuple[Any, Any]:
        given = preprocess(x, rng, labels) if least >= 3 else preprocess(x, rng) if most >= 2 else preprocess(x)
        if least < 3:
            given = given, labels
        if not isinstance(given, tuple) or isinstance(given, Mix) or len(given) != 2:
            raise TypeError(
                "preprocess with three parameters (batch, rng, labels) must return (images, labels), not "
                f"{type(given).__name__}"
            )
        if isinstance(given[0], Mix):
            raise TypeError(
                "preprocess returned a Mix, whose labels would be lost: take labels as a third parameter and return "
                "(mix.images, mix.labels(labels, num_classes))"
            )
        if given[0] is None:
            raise TypeError("preprocess returned None instead of a Batch; is a return missing?")
        return given

    return called


def _arity(function: Any) -> tuple[int, int]:
    """How many arguments a function needs, and takes, by position."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # not known for some built-in functions
        return 2, 2
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    least = sum(p.default is p.empty for p in positional)
    endless = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    return least, 2 if endless else len(positional)


_ON_ERROR = ("raise", "skip", "fill")


def check_source(source: Any) -> None:
    if not (hasattr(source, "__len__") and hasattr(source, "__getitem__")):
        raise TypeError(f"source must have a length and give samples by index, not {type(source).__name__}")
    if len(source) == 0:
        raise ValueError("source has no samples")


def opened_index(index: Any, source: Any) -> SeekIndex | LearnedIndex | None:
    """The seek index that :func:`gpuimg.load` is given for a source."""
    if index is None:
        return None
    if isinstance(index, str) and index == "memory":
        return LearnedIndex(len(source))
    found = index if isinstance(index, SeekIndex) else SeekIndex(index)
    problem = found.problem_with(source)
    if problem:
        raise ValueError(f"the seek index {problem}")
    return found


def check_words(layout: Any, dtype: Any, on_error: Any) -> None:
    if layout not in ("NHWC", "NCHW"):
        raise ValueError(f'layout must be "NHWC" or "NCHW", not {layout!r}')
    if dtype is not None and dtype_name(dtype) not in KINDS:
        raise ValueError(f"dtype must be one of {', '.join(map(repr, KINDS))}, not {dtype!r}")
    if on_error not in _ON_ERROR:
        raise ValueError(f"on_error must be one of {', '.join(map(repr, _ON_ERROR))}, not {on_error!r}")


def check_columns(image: Any, label: Any) -> Columns:
    """Names of entries of a mapping, see :func:`gpuimg.load`."""
    if not isinstance(image, str) or not image:
        raise ValueError(f"image must be the name of a column, not {image!r}")
    if label is not None and (not isinstance(label, str) or not label):
        raise ValueError(f"label must be the name of a column or None, not {label!r}")
    if image == label:
        raise ValueError(f"image and label must be two columns, not both {image!r}")
    return Columns(image, label)


def runtimes_for(device: str | None, devices: Sequence[str] | None) -> list[Runtime]:
    if devices is None:
        return [runtime_for(device)]
    if device is not None:
        raise ValueError("give device or devices, not both")
    if isinstance(devices, str) or not len(devices):
        raise ValueError(f"devices must be a list of device names, not {devices!r}")
    return [runtime_for(name) for name in devices]


def failure_limit(most: Any, samples: int) -> int | None:
    """The number of failures allowed in an epoch of so many samples: a number, or a fraction of them."""
    if most is None:
        return None
    if not isinstance(most, (float, np.floating)):
        return whole_number(most, "max_failures, where it is not a fraction,", 0)
    if not 0.0 <= most <= 1.0:
        raise ValueError(f"max_failures must be a whole number or a fraction from 0.0 to 1.0, not {most!r}")
    return int(most * samples)


def stream_address(stream: Any) -> int | None:
    """A CUDA stream's address: of CuPy's, torch's and Numba's stream objects, or the number itself."""
    for name in ("ptr", "cuda_stream", "handle"):
        stream = getattr(stream, name, stream)
    if stream is None:
        return None
    try:
        address = int(getattr(stream, "value", stream))
    except (TypeError, ValueError):
        raise TypeError(f"stream must be a CUDA stream or its address, not {type(stream).__name__}") from None
    if address == PER_THREAD_STREAM:
        raise ValueError(
            "stream must not be the per-thread default stream (address 2): it is another one on each thread, and a "
            "batch may be let go on any; give a stream that was created, or 0 for the default stream"
        )
    return address
