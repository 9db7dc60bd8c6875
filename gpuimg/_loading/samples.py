"""Reading samples from a source, and collating their labels."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._batch.arrays import check_image
from .._io.file_bytes import is_constant, printable, read, url_hint
from .._io.native_read import ChunkReader
from .._runtimes.devices import is_on_host
from .._threads.turn import Watch
from ..errors import ImageError
from ..sources._table import FileTable, is_remote
from ..sources.folder import ImageFiles
from ..sources.stream import Stream
from ..sources.tiles import Tiles

_KNOWN_LABELS = ImageFiles, Tiles  # sources that know a label without the image
_PROBES = 8  # samples read at most to find the type of the labels


@dataclass(slots=True)
class Sample:
    """One sample as read from a source."""

    source: Any
    index: int
    real: bool  # False for padding
    copy: int = 0  # number of earlier occurrences in the epoch, see Order
    path: str | None = None
    data: Any = b""
    label: Any = None
    error: Exception | None = None
    was_reread: bool = False  # see :func:`reread`
    stand_in: int = 0  # 1: without its label, 2 and more: with that of another sample, see :func:`ease`
    own: Any = None  # label in place of which another stands
    place: int | None = None  # of the image in the memory of a cache

    @property
    def name(self) -> str:
        """Name of the sample in messages."""
        try:
            return str(self.source.describe(self.index))
        except Exception:  # `describe` is optional, and its failure must not hide the one being reported
            return printable(self.path) if self.path else f"sample {self.index}"

    @property
    def reason(self) -> str:
        """The reason why the sample could not be read, or that ``preprocess`` gave."""
        error = self.error
        if isinstance(error, ImageError):
            return error.reason
        text = str((error.strerror if isinstance(error, OSError) else None) or error)
        if not text or (
            type(error) not in (OSError, ValueError, RuntimeError) and not getattr(error, "strerror", None)
        ):
            text = described(error)  # the text of a KeyError is the key alone
        return f"cannot be read: {text.removeprefix(f'{self.name}: ')}{url_hint(self.path)}"

    @property
    def is_array(self) -> bool:
        """True for pixels that the source returned, instead of a file."""
        return isinstance(self.data, np.ndarray) and self.data.ndim == 3

    @property
    def lacks_label(self) -> bool:
        """True if the label is left out: of a sample without a file, unless the source knows the label by itself."""
        own = self.error is None or (self.label is not None and isinstance(self.source, _KNOWN_LABELS))
        return self.stand_in == 1 or (self.stand_in == 0 and not own)


def reasons_of(samples: Sequence[Sample]) -> dict[int, str]:
    """Return by position why samples could not be read."""
    return {k: sample.reason for k, sample in enumerate(samples) if sample.error is not None}


def described(error: Exception | None) -> str:
    """Return the type of an error, and its text if it has one."""
    return type(error).__name__ + (f": {error}" if str(error) else "")


def ease(sample: Sample, others: Sequence[Any]) -> bool:
    """Replace the label of a sample that has no image, as ``preprocess`` fails for it; return False if nothing is left.

    First it is left out, as that of a sample that cannot be read. Not every function expects that, so then it is one of
    the labels of ``others`` after the other: these may be of no use, too.
    """
    if sample.stand_in == 0 and not sample.lacks_label:
        sample.stand_in = 1
        return True
    place = max(sample.stand_in - 1, 0)
    if place == len(others):
        return False
    sample.own = sample.own if place else sample.label
    sample.label, sample.stand_in = others[place], place + 2
    return True


def with_own(labels: Any, samples: Sequence[Sample]) -> Any:
    """Put labels of samples back, where ``preprocess`` returned those that :func:`ease` chose, as they were passed."""
    if isinstance(labels, list) and len(labels) == len(samples):
        for k, sample in enumerate(samples):
            if sample.stand_in > 1 and labels[k] is sample.label:
                labels[k] = sample.own
    return labels


class SampleNames(Sequence[str]):
    """Names of samples as a sequence; each is computed on access."""

    def __init__(self, samples: list[Sample]) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: Any) -> Any:
        return self._samples[index].name


class Columns(NamedTuple):
    """Names of the image and label columns of a mapping; a label of None stands for all other columns."""

    image: str = "image"
    label: str | None = "label"


def read_samples(
    source: Any, indices: Sequence[int], reals: Sequence[bool], columns: Columns, reader: ChunkReader
) -> list[Sample]:
    """Read several samples; an exception of the source is recorded in its sample."""
    samples = [Sample(source, index, real) for index, real in zip(indices, reals, strict=True)]
    if not samples:
        return samples
    return with_data(samples, _items(source, indices, reader), columns, reader)


def with_data(samples: list[Sample], items: Sequence[Any], columns: Columns, reader: ChunkReader) -> list[Sample]:
    """Fill samples with the items that a source returned for them, and read the files at their paths."""
    for sample, item in zip(samples, items, strict=True):
        if isinstance(item, Exception):
            _fail(sample, item)
            continue
        sample.data, sample.label = _pair(item, sample.index, columns)
        if not is_constant(sample.data) and isinstance(sample.data, (str, os.PathLike)):
            sample.path = os.fspath(sample.data)
    of_paths = [sample for sample in samples if sample.path is not None]
    for sample, data in zip(of_paths, reader.read([sample.data for sample in of_paths]), strict=True):
        sample.data = sample.data if data is None else data
    most = reader.max_bytes
    left = [one for one in samples if one.error is None and (not is_constant(one.data) or len(one.data) > most)]
    with Watch(len(left)) as watch:
        for sample in left:
            _read_plainly(sample, most)
    reader.add(watch.seconds, watch.cpu)
    return samples


def _fail(sample: Sample, error: Exception) -> None:
    """Record an exception of the source, and the label if it is known without the file."""
    sample.error = error
    if isinstance(sample.source, _KNOWN_LABELS):
        with suppress(Exception):  # of a derived class
            sample.label = sample.source.label(sample.index)


def reread(sample: Sample, columns: Columns, max_bytes: int) -> bool:
    """Read a sample again, once, if it could not be decoded and may have come from the disk cache of remote files.

    If the cached bytes are still the same, they are removed and read from the server. Return True if the bytes changed.
    """
    source = sample.source
    if sample.was_reread or sample.error is not None or not isinstance(source, FileTable) or not source.has_disk_cache:
        return False
    sample.was_reread = True
    reader = ChunkReader(max_bytes=max_bytes)
    for evict in (False, True):  # first without eviction: another thread may have read the block again already
        if evict:
            with suppress(OSError, ValueError):  # the server may be unreachable
                source.forget(sample.index)
        (again,) = read_samples(source, [sample.index], [sample.real], columns, reader)
        if again.error is None and bytes(again.data) != bytes(sample.data):
            sample.data, sample.label = again.data, again.label
            return True
    return False


def name_videos(
    source: Any, indices: Sequence[int], reals: Sequence[bool], columns: Columns, max_bytes: int
) -> list[Sample]:
    """Read samples as :func:`read_samples`, but leave files at paths to the decoder, which reads only parts of them."""
    samples = [Sample(source, index, real) for index, real in zip(indices, reals, strict=True)]
    for sample in samples:
        item = _video(source, sample.index, max_bytes)
        if isinstance(item, Exception):
            _fail(sample, item)
            continue
        sample.data, sample.label = _pair(item, sample.index, columns)
        if isinstance(sample.data, (str, os.PathLike)):
            sample.data = sample.path = os.fspath(sample.data)
        elif _is_decoded(sample.data):
            raise TypeError(f"source[{sample.index}] must be a video file for clips=, not an array")
        else:
            _read_plainly(sample, max_bytes)
    return samples


def _video(source: Any, index: int, max_bytes: int) -> Any:
    """Return an item of a source, with the path of a local file instead of its bytes."""
    if isinstance(source, ImageFiles) and source.is_plain and not is_remote(source):
        return os.fsdecode(source.path(index)), source.label(index)
    return _items(source, [index], ChunkReader(max_bytes=max_bytes))[0]


def _items(source: Any, indices: Sequence[int], reader: ChunkReader) -> list[Any]:
    """Return items of a source, with an exception in place of each that fails."""
    if isinstance(source, FileTable) and source.is_plain:
        return source.read_several(indices, reader)
    with Watch(len(indices)) as watch:
        items = [_item(source, index) for index in indices]
    reader.add(watch.seconds, watch.cpu)
    return items


def _item(source: Any, index: int) -> Any:
    try:
        return source[index]
    except Exception as error:  # whatever a source raises
        return error


def _read_plainly(sample: Sample, max_bytes: int) -> None:
    """Convert the data to file bytes by reading a path or another accepted type; copy an array, as buffers."""
    if _is_decoded(sample.data):
        _copy(sample)
        return
    try:
        sample.data = read(sample.data, max_bytes)
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
        sample.data, sample.error = b"", error
    except TypeError as error:
        raise TypeError(f"source[{sample.index}]: {error}") from error


def _copy(sample: Sample) -> None:
    """Copy an image (H, W, C) of any library into memory that its source does not change; refuse other arrays."""
    name, image = f"source[{sample.index}]", sample.data
    if not isinstance(image, np.ndarray) and not is_on_host(image):
        raise TypeError(f"{name} must be an array on the CPU, not {type(image).__name__}")
    image = np.asarray(image)
    if not all(image.shape):
        sample.data, sample.error = b"", ValueError(f"an array of shape {tuple(image.shape)} has no pixels")
        return
    if len(image.shape) != 3:
        hint = "; a gray image is image[..., None]" if len(image.shape) == 2 else ""
        raise ValueError(f"{name} must be an (H, W, C) array, not of shape {tuple(image.shape)}{hint}")
    check_image(image, name)
    sample.data = np.array(image, order="C")


def _pair(item: Any, index: int, columns: Columns) -> tuple[Any, Any]:
    """Return data and label of an item: a pair, or a mapping as in Hugging Face's ``datasets``."""
    if isinstance(item, (tuple, list)) and len(item) == 2:
        data, label = item
        hint = "with torchvision's ImageFolder, ImageFolder(root, loader=lambda path: path)"
    elif isinstance(item, Mapping):
        data, label = _of_columns(item, index, columns)
        hint = f"with Hugging Face's datasets, ds.cast_column({columns.image!r}, datasets.Image(decode=False))"
    else:
        hint = ""
        if isinstance(item, (str, bytes, os.PathLike)):
            hint = "; for images without labels pass gpuimg.file_list(paths), or pairs with the label None"
        raise TypeError(
            f"source[{index}] must be a pair (file bytes, path or array, label), or a mapping with {columns.image!r}, "
            f"not {type(item).__name__}{hint}"
        )
    if type(data).__module__.partition(".")[0] == "PIL":
        raise TypeError(
            f"source[{index}] returns a decoded image ({type(data).__name__}), but gpuimg decodes itself, in less "
            f"time: let the source return file bytes or paths; {hint}. For its pixels, return np.asarray(image)"
        )
    return data, label


def _of_columns(item: Mapping[str, Any], index: int, columns: Columns) -> tuple[Any, Any]:
    names = ", ".join(map(repr, item))
    if columns.image not in item:
        raise TypeError(
            f"source[{index}] has no {columns.image!r}, but {names}; pass the name of the image column as image="
        )
    image = item[columns.image]
    if isinstance(image, Mapping):
        image = image.get("bytes") if image.get("bytes") is not None else image.get("path")
    others = {key: value for key, value in item.items() if key != columns.image}
    if columns.label is None:
        return image, others or None
    if columns.label not in item and (others or columns.label != "label"):
        raise TypeError(
            f"source[{index}] has no {columns.label!r}, but {names}; pass the name of the label column as label=, "
            "or label=None for a dict of all columns but the image"
        )
    return image, item.get(columns.label)


def _is_decoded(data: Any) -> bool:
    """Return True for an array of more than one dimension."""
    return not isinstance(data, (bytes, str)) and len(getattr(data, "shape", ())) > 1  # the former: most samples


def label_examples(source: Any, columns: Columns) -> list[Any]:
    """Return one or two labels of readable samples, among at most eight samples spread over a source."""
    if isinstance(source, Stream):  # cannot be indexed
        return []
    found: list[Any] = []
    for index in range(0, len(source), -(-len(source) // _PROBES)):
        if not isinstance(item := _item(source, index), Exception):
            found.append(_pair(item, index, columns)[1])
        if len(found) == 2:
            break
    return found


def collate(labels: list[Any], missing: list[bool], known: list[Any]) -> Any:
    """Collate labels into one array if the ``known`` ones are numbers or arrays of one shape, else into a list.

    In a list, a missing label is None, or empty where the others are lists or differ in length only, such as boxes.
    """
    if all(label is None for label in known):
        return None
    if all(map(_is_int64, known)):
        return np.array([-1 if gone else label for label, gone in zip(labels, missing, strict=True)], np.int64)
    if all(isinstance(label, (float, np.floating)) or _is_int64(label) for label in known):
        return np.array([np.nan if gone else label for label, gone in zip(labels, missing, strict=True)], np.float64)
    first = known[0]
    if all(is_on_host(label) and label.shape == first.shape for label in known):
        nothing = np.zeros_like(np.asarray(first))
        return np.stack([nothing if gone else np.asarray(label) for label, gone in zip(labels, missing, strict=True)])
    empty: Any = None
    if all(isinstance(label, list) for label in known):
        empty = []
    elif all(is_on_host(label) and label.ndim and label.shape[1:] == np.shape(first)[1:] for label in known):
        empty = np.asarray(first)[:0]
    return [copy(empty) if gone else label for label, gone in zip(labels, missing, strict=True)]


def _is_int64(label: Any) -> bool:
    return isinstance(label, (int, np.integer)) and -(1 << 63) <= int(label) < 1 << 63
