"""What a loader is told: the settings, and the checks of what users pass."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from .._batch.batch import Batch, Images, as_batch
from .._batch.result_spec import CLIP_LAYOUTS, DTYPES, dtype_name
from .._checks.arguments import one_of, whole_number
from .._decoding.options import DecodeOptions
from .._index.learned import LearnedIndex
from .._index.seek_index import SeekIndex
from .._random.mixing import Mix
from .._random.rng import Rng
from .._runtimes.devices import runtime_for
from .._runtimes.protocol import PER_THREAD_STREAM, Runtime
from ..sources._table import is_remote
from ..sources.stream import Stream
from .clips import Clips, VideoClips
from .samples import Columns
from .sharding import ENDLESS, Level, Share

#: What users pass: of a batch, its random numbers and its labels, as many as it has parameters.
UserFunction: TypeAlias = (
    Callable[[Batch, Rng], Images] | Callable[[Batch], Images] | Callable[[Batch, Rng, Any], tuple[Images, Any]]
)
Preprocess: TypeAlias = Callable[[Batch, Rng, Any], tuple[Batch, Any]]  # (batch, rng, labels) -> (images, labels)


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
    options: DecodeOptions
    columns: Columns
    index: SeekIndex | LearnedIndex | None = None
    videos: VideoClips | None = None  # where samples are videos
    worker: int = 0  # of the workers that deal out the rank's batches among them,
    workers: int = 1
    samples: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "samples", ENDLESS if self.of_stream else len(self.source))

    @property
    def of_stream(self) -> bool:
        """Whether the source has no length."""
        return isinstance(self.source, Stream)

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

    def called(x: Batch, rng: Rng, labels: Any) -> tuple[Batch, Any]:
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
        return _as_images(given[0]), given[1]

    return called


def _as_images(given: Any) -> Batch:
    """What ``preprocess`` returned as a batch, which arrays become."""
    try:
        return as_batch(given)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"preprocess must return a Batch, as gpuimg's functions do; the loader makes the arrays, as dtype= and "
            f"layout= say. It returned {type(given).__name__}: {error}"
        ) from error


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


#: Keywords of PyTorch's ``DataLoader`` and data sets, and what stands for them.
LOAD_HINTS = {
    "num_workers": "the loader has threads rather than worker processes; readers= and decoders= say how many",
    "workers": "the loader has threads rather than worker processes; readers= and decoders= say how many",
    "transform": "give a function (batch, rng) -> Batch as preprocess=",
    "transforms": "give a function (batch, rng) -> Batch as preprocess=",
    "target_transform": "give a function (batch, rng, labels) -> (images, labels) as preprocess=",
    "sampler": "give a source whose samples are those you want, in their order; shuffle= and shard= do the rest",
    "batch_sampler": "give a source whose samples are those you want, in their order, with batch_size= and shuffle=",
    "collate_fn": "batches are made without it; a preprocess= function (batch, rng, labels) may change both",
    "pin_memory": "images are decoded where device= says, and are not copied there",
    "prefetch_factor": "prefetch= is the number of batches made ahead",
    "persistent_workers": "the threads of a loop end with it, and those of the next start in a moment",
    "worker_init_fn": "there are no worker processes; preprocess= is given random numbers as its second parameter",
    "generator": "seed= sets the order and all random numbers",
    "multiprocessing_context": "the loader has threads rather than worker processes",
    "timeout": "a source that reads over a network has its own; see gpuimg.Remote",
    "rank": "give shard=(rank, world)",
    "world_size": "give shard=(rank, world)",
}

_ON_ERROR = ("raise", "skip", "fill")


_READERS = 4
_REMOTE_READERS = 16  # where a request takes tens of milliseconds, whatever it brings


def readers_for(source: Any, readers: Any) -> int:
    """The number of threads that read: what the user says, else what suits the source."""
    if readers is None:
        return _REMOTE_READERS if is_remote(source) else _READERS
    return whole_number(readers, "readers")


def check_source(source: Any, *, streams: bool = False) -> None:
    if streams and isinstance(source, Stream):
        return
    if not (hasattr(source, "__len__") and hasattr(source, "__getitem__")):
        hint = "; gpuimg.iterable makes a source of what can only be iterated over" if streams else ""
        raise TypeError(f"source must have a length and give samples by index, not {type(source).__name__}{hint}")
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


def check_words(layout: Any, dtype: Any, on_error: Any, of_clips: bool) -> None:
    layouts = ("NHWC", "NCHW", *(CLIP_LAYOUTS if of_clips else ()))
    one_of(layout, "layout", layouts)
    if dtype is not None and dtype_name(dtype) not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(map(repr, DTYPES))}, not {dtype!r}")
    one_of(on_error, "on_error", _ON_ERROR)


def opener(clips: Any, draft: Any, index: Any) -> VideoClips | None:
    """What opens a loader's samples, where they are videos."""
    if clips is None:
        return None
    if not isinstance(clips, Clips):
        raise TypeError(f"clips must be gpuimg.Clips(frames, ...), not {clips!r}")
    if draft is not None or index is not None:
        raise ValueError("draft and index are for images, not for clips of videos")
    return VideoClips(clips)


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
