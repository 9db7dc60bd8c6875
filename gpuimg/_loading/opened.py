"""Images of samples: files of which the headers are read, or arrays that a source returned."""

from dataclasses import replace
from typing import Any

import numpy as np

from .._batch.encoded import open_images, size_as_others
from .._checks.text import counted
from .._data.images import EncodedImages, Pixels
from .._decoding.options import DecodeOptions
from .._runtimes.devices import runtime_for
from .._runtimes.protocol import Runtime
from ..errors import Failure
from .samples import Sample, SampleNames, reasons_of


def open_samples(samples: list[Sample], options: DecodeOptions, *, alike: bool = False) -> EncodedImages | Pixels:
    """Return files of samples, of which only the headers were read, or pixels on the host if they are arrays.

    Black images of unknown size, in place of those that cannot be read, are 1 x 1 pixel, or as others if all are
    ``alike`` in size. Failures are recorded; none is raised.
    """
    names, reasons = SampleNames(samples), reasons_of(samples)
    arrays = [k for k, sample in enumerate(samples) if sample.is_array]
    if arrays:
        return _arrays(samples, arrays, {k: Failure(k, names[k], reason) for k, reason in reasons.items()}, alike)
    images = open_images([sample.data for sample in samples], options, "fill", names)
    images.record_failures(reasons)
    if alike:
        size_as_others(images)
    return images


def on_device(images: Any, runtime: Runtime) -> Any:
    """Return pixels of :func:`open_samples` in the memory of a runtime, and files as they are."""
    if not isinstance(images, Pixels) or runtime.on_host:
        return images
    there = runtime.from_arrays([images.view(k) for k in range(len(images.sizes))])
    return replace(there, failures=images.failures)


def _arrays(samples: list[Sample], arrays: list[int], failures: dict[int, Failure], alike: bool) -> Pixels:
    """Return arrays in one buffer, with black images for failures."""
    first = samples[arrays[0]]
    black = np.zeros((*(first.data.shape[:2] if alike else (1, 1)), first.data.shape[2]), first.data.dtype)
    for k, sample in enumerate(samples):
        if k not in failures and not sample.is_array:
            raise TypeError(
                f"source[{sample.index}] is a file and source[{first.index}] an array: a source returns files or "
                "arrays; gpuimg.decode_image(file) returns an array"
            )
        if sample.is_array and (sample.data.shape[2], sample.data.dtype) != (first.data.shape[2], first.data.dtype):
            shown = [f"{one.data.dtype} with {counted(one.data.shape[2], 'channel')}" for one in (sample, first)]
            raise ValueError(
                f"source[{sample.index}] is {shown[0]} and source[{first.index}] {shown[1]}: arrays of a source must "
                "agree in both; np.repeat(gray, 3, 2) has three channels"
            )
    images = [black if k in failures else sample.data for k, sample in enumerate(samples)]
    return replace(runtime_for("cpu").from_arrays(images), failures=failures)
