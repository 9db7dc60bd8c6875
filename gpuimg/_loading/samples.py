"""What a source gives for one sample, and the labels of several as one array."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._io.file_bytes import printable, read
from .._io.native_read import ChunkReader
from ..sources._table import is_remote, read_together
from ..sources.folder import ImageFiles
from ..sources.stream import Stream
from .waits import Watch

_PROBES = 8  # samples that are read at most to find out what labels look like


@dataclass
class Sample:
    """What was read of one sample."""

    source: Any
    index: int
    real: bool  # not padding
    path: str | None = None
    data: Any = b""
    label: Any = None
    error: Exception | None = None
    entry: tuple[int, int] = (0, 0)  # of a seek index: its address and bytes,
    memory: Any = None  # and what it is in
    renewed: bool = False  # read again, see :func:`renew`

    @property
    def name(self) -> str:
        """The sample in a message."""
        try:
            return str(self.source.describe(self.index))
        except Exception:  # a source need not have it, and it must not hide the failure it is asked about
            return printable(self.path) if self.path else f"sample {self.index}"

    @property
    def reason(self) -> str:
        """Why there are no data."""
        error = self.error
        text = str((error.strerror if isinstance(error, OSError) else None) or error or type(error).__name__)
        return f"cannot be read: {text.removeprefix(f'{self.name}: ')}"


class SampleNames(Sequence[str]):
    """Names of samples, made when they are asked for."""

    def __init__(self, samples: list[Sample]) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: Any) -> Any:
        return self._samples[index].name


class Columns(NamedTuple):
    """Which entries of a mapping are the image and the label; None for all others."""

    image: str = "image"
    label: str | None = "label"


def read_samples(
    source: Any, indices: Sequence[int], reals: Sequence[bool], columns: Columns, reader: ChunkReader
) -> list[Sample]:
    """Read several samples; what goes wrong inside the source is a failure of the sample."""
    samples = [Sample(source, index, real) for index, real in zip(indices, reals, strict=True)]
    return finished(samples, _items(source, indices, reader), columns, reader)


def finished(samples: list[Sample], items: Sequence[Any], columns: Columns, reader: ChunkReader) -> list[Sample]:
    """Samples of which a source gave these items, with what is behind their paths."""
    for sample, item in zip(samples, items, strict=True):
        if isinstance(item, Exception):
            sample.error = item
            continue
        sample.data, sample.label = _pair(item, sample.index, columns)
        if not _is_ready(sample.data) and isinstance(sample.data, (str, os.PathLike)):
            sample.path = os.fspath(sample.data)
    of_paths = [sample for sample in samples if sample.path is not None]
    for sample, data in zip(of_paths, reader.read([sample.data for sample in of_paths]), strict=True):
        sample.data = sample.data if data is None else data
    most = reader.max_bytes
    left = [one for one in samples if one.error is None and (not _is_ready(one.data) or len(one.data) > most)]
    with Watch(len(left)) as watch:
        for sample in left:
            _read_plainly(sample, most)
    reader.add(watch.seconds, watch.cpu)
    return samples


def renew(sample: Sample, columns: Columns, max_bytes: int) -> bool:
    """Read a sample again, once, that did not decode and may have come from a cache of files behind URLs.

    The cache then has what was read now. Returns whether that is other than what did not decode.
    """
    source = sample.source
    if sample.renewed or sample.error is not None or not read_together(source) or not source.has_disk_cache:
        return False
    sample.renewed = True
    reader = ChunkReader(max_bytes=max_bytes)
    for forgets in (False, True):  # another thread may have read the same block anew already
        if forgets:
            with suppress(OSError, ValueError):  # the server may be gone
                source.forget(sample.index)
        (again,) = read_samples(source, [sample.index], [sample.real], columns, reader)
        if again.error is None and bytes(again.data) != bytes(sample.data):
            sample.data, sample.label = again.data, again.label
            return True
    return False


def name_videos(
    source: Any, indices: Sequence[int], reals: Sequence[bool], columns: Columns, max_bytes: int
) -> list[Sample]:
    """As :func:`read_samples`, but what is behind a path is left to the decoder, which reads no more than it needs."""
    samples = [Sample(source, index, real) for index, real in zip(indices, reals, strict=True)]
    for sample in samples:
        item = _video(source, sample.index, max_bytes)
        if isinstance(item, Exception):
            sample.error = item
            continue
        sample.data, sample.label = _pair(item, sample.index, columns)
        if isinstance(sample.data, (str, os.PathLike)):
            sample.data = sample.path = os.fspath(sample.data)
        else:
            _read_plainly(sample, max_bytes)
    return samples


def _video(source: Any, index: int, max_bytes: int) -> Any:
    """What a source gives, with the path of a file rather than its bytes."""
    if read_together(source) and isinstance(source, ImageFiles) and not is_remote(source):
        return os.fsdecode(source.path(index)), source.label(index)
    if read_together(source):
        return source.read_several([index], ChunkReader(max_bytes=max_bytes))[0]
    return _item(source, index)


def _items(source: Any, indices: Sequence[int], reader: ChunkReader) -> list[Any]:
    """What a source gives; an exception that it raises in its place."""
    if read_together(source):
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


def _is_ready(data: Any) -> bool:
    """Whether there is nothing to read: bytes, or what a ``ChunkReader`` gives."""
    if type(data) is np.ndarray:
        return bool(data.dtype == np.uint8 and data.ndim == 1 and data.flags.c_contiguous)
    return type(data) is bytes


def _read_plainly(sample: Sample, max_bytes: int) -> None:
    """Bring the data into one of the forms that are decoded."""
    try:
        sample.data = read(sample.data, max_bytes)
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
        sample.data, sample.error = b"", error
    except TypeError as error:
        raise TypeError(f"source[{sample.index}]: {error}") from error


def _pair(item: Any, index: int, columns: Columns) -> tuple[Any, Any]:
    """Data and label of what a source gave: a pair, or a mapping as of Hugging Face's ``datasets``."""
    if isinstance(item, (tuple, list)) and len(item) == 2:
        data, label = item
        hint = "with torchvision's ImageFolder, ImageFolder(root, loader=lambda path: path)"
    elif isinstance(item, Mapping):
        data, label = _of_columns(item, index, columns)
        hint = f"with Hugging Face's datasets, ds.cast_column({columns.image!r}, datasets.Image(decode=False))"
    else:
        raise TypeError(
            f"source[{index}] must be a pair (file bytes or path, label), or a mapping with {columns.image!r}, "
            f"not {type(item).__name__}"
        )
    if _is_decoded(data):
        raise TypeError(
            f"source[{index}] gives a decoded image ({type(data).__name__}), but gpuimg decodes by itself: let the "
            f"source give file bytes or paths; {hint}"
        )
    return data, label


def _of_columns(item: Mapping[str, Any], index: int, columns: Columns) -> tuple[Any, Any]:
    names = ", ".join(map(repr, item))
    if columns.image not in item:
        raise TypeError(f"source[{index}] has no {columns.image!r}, but {names}; name the one with images by image=")
    image = item[columns.image]
    if isinstance(image, Mapping):
        image = image.get("bytes") if image.get("bytes") is not None else image.get("path")
    others = {key: value for key, value in item.items() if key != columns.image}
    if columns.label is None:
        return image, others or None
    if columns.label not in item and (others or columns.label != "label"):
        raise TypeError(
            f"source[{index}] has no {columns.label!r}, but {names}; name the one with labels by label=, or give "
            "label=None for a dict of all but the image"
        )
    return image, item.get(columns.label)


def _is_decoded(data: Any) -> bool:
    """Whether these are pixels: an image of Pillow, or an array of more than one dimension."""
    return type(data).__module__.partition(".")[0] == "PIL" or len(getattr(data, "shape", ())) > 1


def label_examples(source: Any, columns: Columns) -> list[Any]:
    """One or two labels of samples that can be read, of at most eight samples spread over a source."""
    if isinstance(source, Stream):  # gives no sample by its number
        return []
    found: list[Any] = []
    for index in range(0, len(source), -(-len(source) // _PROBES)):
        if read_together(source) and isinstance(source, ImageFiles):
            found.append(source.label(index))  # known without the file
        elif not isinstance(item := _item(source, index), Exception):
            found.append(_pair(item, index, columns)[1])
        if len(found) == 2:
            break
    return found


def collate(labels: list[Any], missing: list[bool], known: list[Any]) -> Any:
    """Labels of samples as one array where they, that is those known, are numbers or arrays of one shape."""
    if all(label is None for label in known):
        return None
    if all(map(_fits, known)):
        return np.array([-1 if gone else label for label, gone in zip(labels, missing, strict=True)], np.int64)
    if all(isinstance(label, (float, np.floating)) or _fits(label) for label in known):
        return np.array([np.nan if gone else label for label, gone in zip(labels, missing, strict=True)], np.float64)
    first = known[0]
    if all(isinstance(label, np.ndarray) and label.shape == first.shape for label in known):
        nothing = np.zeros_like(first)
        return np.stack([nothing if gone else label for label, gone in zip(labels, missing, strict=True)])
    return [None if gone else label for label, gone in zip(labels, missing, strict=True)]


def _fits(label: Any) -> bool:
    """Whether a label is a whole number of 64 bits."""
    return isinstance(label, (int, np.integer)) and -(1 << 63) <= int(label) < 1 << 63
