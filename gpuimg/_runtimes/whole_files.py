"""Files that are decoded whole, before any plan runs: images with alpha, or with 16-bit values."""

from dataclasses import replace
from typing import Any

import numpy as np

from .._data.images import Encoded, EncodedImages, Pixels, offsets_of
from .._data.selection import unique
from .._decoding import one_file, route
from .._threads.helpers import each_side_by_side
from .._threads.threads import threads
from .protocol import Outcome, Runtime

_OPAQUE = 255


def is_special(source: Encoded) -> bool:
    """Return True if the options of a batch require this."""
    return isinstance(source, EncodedImages) and route.is_special(source.options)


def decode(runtime: Runtime, source: Encoded) -> tuple[Pixels, Outcome]:
    """Implement :meth:`Runtime.decode` for all batches of files."""
    if not is_special(source):
        return runtime.decode(source)
    assert isinstance(source, EncodedImages)
    images, first, inverse = unique(source, source.first_occurrences())
    offsets, total = offsets_of(images.sizes, images.channels)
    flat = runtime.empty(total, images.dtype)
    with runtime.device():
        flat[:] = 0
    pixels = Pixels(flat, offsets, images.sizes, images.channels, failures=images.failures)
    good = [i for i in range(len(images)) if i not in images.failures]
    individual = {i for i in good if route.is_individual(images.others.get(i), images.options)}
    outcome = _decode_plain(runtime, images, [i for i in good if i not in individual], pixels)
    outcome.failures.update(_decode_individually(runtime, images, sorted(individual), pixels))
    if first is None or inverse is None:
        return pixels, outcome
    outcome.failures = {int(first[k]): reason for k, reason in outcome.failures.items()}
    return pixels.take(inverse), outcome


def _decode_plain(runtime: Runtime, source: EncodedImages, indices: list[int], pixels: Pixels) -> Outcome:
    """Decode files of 8 bits without alpha with the runtime's batch decoder."""
    if not indices:
        return Outcome()
    part = source.part(indices)
    part = replace(part, options=part.options.without_extras)
    colors = part.channels
    decoded, outcome = runtime.decode(part)
    factor = one_file.FROM_BYTES if source.options.bits != 8 else 1
    with runtime.device():
        for k, i in enumerate(indices):
            to = pixels.view(i)
            to[..., :colors] = decoded.view(k)
            to[..., colors:] = _OPAQUE
            if factor != 1:
                np.multiply(to, np.uint16(factor), out=to)
    outcome.failures = {indices[k]: reason for k, reason in outcome.failures.items()}
    return outcome


def _decode_individually(runtime: Runtime, source: EncodedImages, indices: list[int], pixels: Pixels) -> dict[int, str]:
    """Decode files one by one on the host's threads; return reasons of failures by index."""
    failures: dict[int, str] = {}
    found: dict[int, np.ndarray[Any, Any]] = {}

    def work(i: int) -> None:
        try:
            decoded = one_file.decode(source.data[i], source.others[i], source.options)
        except ValueError as error:
            failures[i] = str(error)
        else:
            if runtime.on_host:
                pixels.view(i)[:] = decoded
            else:
                found[i] = decoded

    deep = [i for i in indices if source.options.bits != 8 and source.others[i].depth > 8]
    done = set(runtime.decode_deep(source, np.array(deep, np.int64), pixels).tolist()) if deep else set()
    indices = [i for i in indices if i not in done]
    each_side_by_side(work, indices, min(threads(), len(indices)))
    if found:
        uploaded = runtime.from_arrays(list(found.values()))
        with runtime.device():
            for k, i in enumerate(found):
                pixels.view(i)[:] = uploaded.view(k)
    return dict(sorted(failures.items()))
