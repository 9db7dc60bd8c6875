"""Loader settings and the validation of their arguments."""

import ctypes
import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from .._batch.batch import Batch, Images, as_batch
from .._batch.result_spec import CLIP_LAYOUTS, known_dtype
from .._batch.tokens import RESULTS, Padded, Ragged, Tokens
from .._checks.arguments import one_of, whole_number
from .._decoding.options import DecodeOptions
from .._random.mixing import Mix
from .._random.rng import Rng
from .._runtimes.devices import runtime_for
from .._runtimes.protocol import PER_THREAD_STREAM, ResultMemory, Runtime
from .._threads.threads import MOST_THREADS
from ..sources._table import is_remote
from ..sources.stream import Stream
from .batches import Batches
from .cache import DecodedImages, cache_of
from .clips import Clips, VideoClips
from .order import Order
from .samples import Columns
from .sharding import Level, Position, Share

#: What ``preprocess`` returns for the images.
Returned: TypeAlias = Images | Padded | Ragged | Tokens | Mapping[str, Any]
#: ``preprocess`` as users pass it; it is called with as many of (batch, rng, labels) as it has parameters.
UserFunction: TypeAlias = (
    Callable[[Batch, Rng], Returned]
    | Callable[[Batch], Returned]
    | Callable[[Batch, Rng, Any], tuple[Returned, Any] | Mapping[str, Any]]
)
#: (batch, rng, labels) -> (images, labels), where images are a Batch, one of RESULTS, or a dict.
Preprocess: TypeAlias = Callable[[Batch, Rng, Any], tuple[Any, Any]]


@dataclass(frozen=True)
class Reading:
    """What a loader reads and decodes, and what becomes of samples for which that fails."""

    source: Any
    columns: Columns
    readers: int
    on_error: str
    max_failures: float | None  # per epoch: a number if it is an int, else a fraction of the samples
    decode: DecodeOptions
    videos: VideoClips | None  # if samples are videos
    cache: DecodedImages | None


@dataclass(frozen=True)
class Schedule:
    """The batches of a rank, and their order."""

    order: Order | Batches
    rank: int
    world: int
    batch_size: int  # samples; 1 with listed batches, of which each is a place
    drop_last: bool
    seed: int
    epochs: int | None  # of a loop; None: endless

    def images(self, epoch: int | None = None, levels: tuple[Level, ...] = (), first: int = 0) -> int:
        """Return the number of images, padding included, of this rank's share of an epoch from a place on."""
        if not isinstance(self.order, Batches):
            return self.count(epoch, levels) - first
        epoch = self.order.known(epoch)  # once: meanwhile, readers may be the first that need another one
        count = self.count(epoch, levels)
        places = self.share(epoch, levels).places(first, count)[0]
        return int(np.diff(self.order.of(epoch).offsets)[places].sum())

    def share(self, epoch: int | None, levels: tuple[Level, ...] = ()) -> Share:
        """Return this rank's share of the rest of an epoch."""
        return Share(self.order.places(epoch), levels, self.rank, self.world, self.order.run)

    def count(self, epoch: int | None = None, levels: tuple[Level, ...] = ()) -> int:
        """Return the number of places of this rank's share, padding included."""
        return self.share(epoch, levels).count(self.batch_size, self.drop_last)

    def epochs_from(self, position: Position, last: int | None) -> Iterator[tuple[Position, int]]:
        """Yield the epochs from a position to the one before ``last``, endless if that is None.

        Each is the position at which it is entered, and the number of the rank's samples from there on.
        """
        while last is None or position.epoch < last:
            yield position, self.count(position.epoch, position.levels) - position.given
            position = Position(position.epoch + 1)


@dataclass(frozen=True)
class Result:
    """How batches are computed, and where they are stored."""

    preprocess: Preprocess | None
    runtimes: Sequence[Runtime]
    dtype: Any
    layout: str
    prefetch: int
    decoders: int
    stream: int | None
    memory: ResultMemory | None = None  # for results, instead of the runtimes' own
    place: Callable[[Any], Any] | None = None  # called with each LoadedBatch on the thread that computed it


def adapted(preprocess: Any) -> Preprocess | None:
    """Adapt a user's function to ``(batch, rng, labels) -> (images, labels)``."""
    if preprocess is None:
        return None
    if not callable(preprocess):
        raise TypeError(f"preprocess must be a function (batch, rng) -> Batch, not {type(preprocess).__name__}")
    if inspect.isfunction(preprocess) and preprocess.__module__ in ("gpuimg.presets", "gpuimg.models"):
        name = f"{preprocess.__module__}.{preprocess.__name__}"
        raise TypeError(f"preprocess must be a function (batch, rng) -> Batch; {name}() returns one")
    required, accepted = _arity(preprocess)

    def called(x: Batch, rng: Rng, labels: Any) -> tuple[Any, Any]:
        if required >= 3:
            result = preprocess(x, rng, labels)
            result = (result, labels) if isinstance(result, Mapping) else result
        else:
            result = (preprocess(x, rng) if accepted >= 2 else preprocess(x)), labels
        if not isinstance(result, tuple) or isinstance(result, (Mix, *RESULTS)) or len(result) != 2:
            raise TypeError(
                "preprocess with three parameters (batch, rng, labels) must return (images, labels) or a dict, not "
                f"{type(result).__name__}"
            )
        if isinstance(result[0], Mix):
            raise TypeError(
                "preprocess returned a Mix, whose labels would be lost: take labels as a third parameter and return "
                "(mix.images, mix.labels(labels, num_classes))"
            )
        if result[0] is None:
            raise TypeError("preprocess returned None instead of a Batch; is a return missing?")
        return (result[0] if isinstance(result[0], (Mapping, *RESULTS)) else _as_images(result[0])), result[1]

    return called


def _as_images(result: Any) -> Batch:
    """Convert the result of ``preprocess``, a batch or arrays, to a batch."""
    if isinstance(result, (tuple, list)) and any(isinstance(one, Batch) for one in result):
        raise TypeError(
            f"preprocess returned {len(result)} batches in a {type(result).__name__}: return a dict of them, such as "
            '{"one": a, "other": b}; for views of one preprocessing, repeat the samples by Batch.take'
        )
    try:
        return as_batch(result)
    except (TypeError, ValueError) as error:
        raise type(error)(
            "preprocess must return a Batch, as gpuimg's functions do, the result of its padded(), ragged() or "
            "tokens(), or a dict of several; the loader converts batches to arrays of dtype= and layout=. It returned "
            f"{type(result).__name__}: {error}"
        ) from error


def _arity(function: Any) -> tuple[int, int]:
    """Return how many positional arguments a function requires and accepts."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some built-in functions have no signature
        return 2, 2
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = sum(p.default is p.empty for p in positional)
    unlimited = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    return required, 2 if unlimited else len(positional)


_ON_ERROR = ("raise", "skip", "fill")


_READERS = 4
_REMOTE_READERS = 16  # for URLs: a request takes tens of milliseconds, however few bytes it returns


def check_source(source: Any, *, streams: bool = False) -> None:
    if streams and isinstance(source, Stream):
        return
    is_path = isinstance(source, (str, bytes, os.PathLike))
    is_dict = isinstance(source, Mapping) and len(source) > 0 and 0 not in source  # of splits, for example
    if is_path or is_dict or not (hasattr(source, "__len__") and hasattr(source, "__getitem__")):
        hint = "; gpuimg.iterable makes a source of an iterable" if streams else ""
        if is_path:
            hint = "; open it with gpuimg.folder, gpuimg.file_list, gpuimg.tar or another source"
        elif callable(source):
            hint = ": the first argument is the source, and preprocess the second"
        elif is_dict:
            hint = f"; pass one of its items: {', '.join(map(repr, list(source)[:4]))}"
        raise TypeError(f"source must have a length and return samples by index, not {type(source).__name__}{hint}")
    if len(source) == 0:
        raise ValueError("source has no samples")


def reading_of(
    source: Any, columns: Columns, readers: Any, on_error: str, max_failures: Any, decode: DecodeOptions,
    runtimes: Sequence[Runtime], clips: Any, cache: Any,
) -> Reading:  # fmt: skip
    """Check what a loader reads, see :func:`gpuimg.load`, and reserve the memory of its cache."""
    if clips is not None and not isinstance(clips, Clips):
        raise TypeError(f"clips must be gpuimg.Clips(frames, ...), not {clips!r}")
    if clips is not None and decode.draft is not None:
        raise ValueError("draft is for images, not for clips of videos")
    if isinstance(max_failures, (float, np.floating)):
        if not 0.0 <= max_failures <= 1.0:
            raise ValueError(f"max_failures must be a whole number or a fraction from 0.0 to 1.0, not {max_failures!r}")
    elif max_failures is not None:
        max_failures = whole_number(max_failures, "max_failures, where it is not a fraction,", 0)
    if readers is None:
        readers = _REMOTE_READERS if is_remote(source) else _READERS
    return Reading(
        source=source, columns=columns, readers=whole_number(readers, "readers", 1, MOST_THREADS), on_error=on_error,
        max_failures=max_failures, decode=decode, videos=None if clips is None else VideoClips(clips),
        cache=cache_of(cache, source, runtimes, decode, of_clips=clips is not None),
    )  # fmt: skip


def check_choices(layout: Any, dtype: Any, on_error: Any, of_clips: bool) -> None:
    layouts = ("NHWC", "NCHW", *(CLIP_LAYOUTS if of_clips else ()))
    one_of(layout, "layout", layouts)
    if dtype is not None:
        known_dtype(dtype)
    one_of(on_error, "on_error", _ON_ERROR)


def check_columns(image: Any, label: Any) -> Columns:
    if not isinstance(image, str) or not image:
        raise ValueError(f"image must be the name of a column, not {image!r}")
    if label is not None and (not isinstance(label, str) or not label):
        raise ValueError(f"label must be the name of a column or None, not {label!r}")
    if image == label:
        raise ValueError(f"image and label must be two columns, not both {image!r}")
    return Columns(image, label)


def check_keys(keys: Any) -> tuple[str, str] | None:
    """Check the keys of images and labels for batches or samples that are dicts."""
    if keys is None:
        return None
    if not isinstance(keys, (tuple, list)) or len(keys) != 2 or not all(isinstance(key, str) for key in keys):
        raise ValueError(f"keys must be two strings, for images and labels, not {keys!r}")
    return keys[0], keys[1]


def runtimes_for(device: str | None, devices: Sequence[str] | None) -> list[Runtime]:
    if devices is None:
        return [runtime_for(device)]
    if device is not None:
        raise ValueError("pass device or devices, not both")
    if isinstance(devices, str) or not len(devices):
        raise ValueError(f"devices must be a list of device names, not {devices!r}")
    return [runtime_for(name) for name in devices]


def stream_address(stream: Any) -> int | None:
    """Return the address of a CUDA stream: an object with ``__cuda_stream__``, or the address itself.

    References: CUDA Python, "Interoperability": ``__cuda_stream__()`` returns (0, address); it once was a property.
    """
    if stream is None:
        return None
    found, version = stream, 0
    if (protocol := getattr(stream, "__cuda_stream__", None)) is not None:
        with suppress(TypeError, ValueError):  # a class in the place of its object; more or fewer than two values
            version, found = protocol() if callable(protocol) else protocol
    for name in ("ptr", "cuda_stream", "handle"):  # of CuPy and torch before the protocol, and Numba without numba-cuda
        found = getattr(found, name, found)
    if isinstance(found, ctypes.c_void_p):
        found = found.value or 0  # ctypes has None for a null pointer
    if isinstance(found, bool) or not hasattr(found, "__index__"):
        raise TypeError(
            "stream must be an object with __cuda_stream__, such as torch.cuda.current_stream(), or the address of a "
            f"CUDA stream, not {type(stream).__name__}"
        )
    address = whole_number(found, "the address of a stream", 0, 2**64 - 1)
    if version != 0:
        raise ValueError(f"stream has version {version} of __cuda_stream__, and gpuimg knows 0; pass its address")
    if address == PER_THREAD_STREAM:
        raise ValueError(
            "stream must not be the per-thread default stream (address 2): each thread has a different one, and a "
            "batch may be released on any thread; pass a stream that was created, or 0 for the default stream"
        )
    return address
