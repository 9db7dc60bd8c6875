"""What a source gives for one sample, and the labels of several as one array."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._decoding.file_bytes import read


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

    @property
    def name(self) -> str:
        """The sample in a message."""
        try:
            return str(self.source.describe(self.index))
        except Exception:  # a source need not have it, and it must not hide the failure it is asked about
            return self.path or f"sample {self.index}"

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


def read_sample(source: Any, index: int, real: bool = True) -> Sample:
    """Read one sample; what goes wrong inside the source is a failure of the sample."""
    sample = Sample(source, index, real)
    try:
        item = source[index]
    except Exception as error:  # whatever a source raises
        sample.error = error
        return sample
    data, sample.label = _pair(item, index)
    try:
        if isinstance(data, (str, os.PathLike)):
            sample.path = os.fspath(data)
        sample.data = read(data)
    except OSError as error:
        sample.error = error
    except TypeError as error:
        raise TypeError(f"source[{index}]: {error}") from error
    return sample


def _pair(item: Any, index: int) -> tuple[Any, Any]:
    """Data and label of what a source gave: a pair, or a mapping with "image" as of Hugging Face's ``datasets``."""
    if isinstance(item, (tuple, list)) and len(item) == 2:
        return item[0], item[1]
    if isinstance(item, Mapping) and "image" in item:
        image = item["image"]
        if isinstance(image, Mapping):
            image = image.get("bytes") if image.get("bytes") is not None else image.get("path")
        rest = {key: value for key, value in item.items() if key != "image"}
        return image, rest["label"] if set(rest) == {"label"} else rest or None
    raise TypeError(
        f'source[{index}] must be a pair (file bytes, label), or a mapping with "image", not {type(item).__name__}'
    )


def collate(labels: list[Any], missing: list[bool]) -> Any:
    """Labels of samples as one array where they are numbers or arrays of one shape."""
    known = [label for label, gone in zip(labels, missing, strict=True) if not gone]
    if all(label is None for label in known):
        return None
    if all(isinstance(label, (int, np.integer)) for label in known):
        return np.array([-1 if gone else label for label, gone in zip(labels, missing, strict=True)], np.int64)
    if all(isinstance(label, (int, float, np.integer, np.floating)) for label in known):
        return np.array([np.nan if gone else label for label, gone in zip(labels, missing, strict=True)], np.float64)
    first = known[0]
    if all(isinstance(label, np.ndarray) and label.shape == first.shape for label in known):
        nothing = np.zeros_like(first)
        return np.stack([nothing if gone else label for label, gone in zip(labels, missing, strict=True)])
    return [None if gone else label for label, gone in zip(labels, missing, strict=True)]
