"""One JPEG in one call: its records are filled directly, which takes a tenth of the time of describing a batch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from .._checks.types import Ints
from .._decoding import exif, jpeg, route
from .._decoding.options import DecodeOptions
from .._plan.scale import FULL
from .._threads.threads import threads
from ..kernels.cpu import batch, records
from ..kernels.cpu.describe import NEEDS, describe
from ..kernels.jpeg import decode as decoder
from ..kernels.jpeg import layout, progressive, recoded
from ..kernels.jpeg.books import books
from ..kernels.jpeg.rows import FINISH_ROW_FUNCTION
from ..kernels.layout import SCALES
from .cpu_memory import ThreadMemory, address_of

# Nanoseconds after which the main thread returns from the native loop, between two images, to handle signals.
_SIGNALS = 50_000_000

NO_FILES = jpeg.Headers(np.zeros(0, layout.HEADER), np.zeros(0, np.int64), np.zeros(0, np.int64))
NO_PASSES = np.zeros(0, records.PASS)
NONE = np.zeros(0, np.int64)
#: By EXIF orientation, how records.IMAGE is turned.
TURNS = np.stack(exif.turns(np.arange(9)), 1) @ (records.SWAP, records.FLIP_ROWS, records.FLIP_COLUMNS)
_FIRST = np.zeros(1, np.int64)


def decode_jpeg(
    data: Any, options: DecodeOptions, memory: ThreadMemory, running: Any, empty: Callable[[int, str], Any]
) -> Any | None:
    """Return the pixels (H, W, C) of a JPEG as displayed; None for a file that our decoders do not take, or reject.

    Parameters
    ----------
    data : bytes or (N,) uint8
    options : DecodeOptions
    memory : ThreadMemory
        Of the calling thread.
    running : (1,) records.RUNNING
    empty : function
        ``(elements, dtype)``: memory for the result.
    """
    if route.is_special(options):
        return None
    headers = jpeg.read_header(data)
    header = headers.records
    sizes, left = jpeg.shown_sizes(header, route.pillow_only([data], header, options), options.max_pixels)
    kind = int(header["kind"][0])
    if left or kind not in route.OURS:
        return None
    (height, width), channels = sizes[0].tolist(), options.channels
    size = height * width * channels
    pixels = empty(size, "uint8")
    images, needs = np.zeros(1, records.IMAGE), np.zeros(1, NEEDS)
    describe(images, *headers, TURNS, sizes, NO_PASSES, NONE, channels, needs)
    images["scale"], images["out"], images["out_bytes"] = FULL, address_of(pixels), size
    memory.reserve({"work": work_bytes(header), "stored": int(needs["stored"][0])})
    statuses = np.zeros(1, layout.STATUS)
    shared = batch_of_bytes(channels, frozenset((kind,)))
    queue = np.zeros(1, records.QUEUE)
    while not run_images(_FIRST, queue, images, header, NO_PASSES, statuses, shared, memory, running):
        pass  # signals are handled here
    return None if statuses["result"][0] else pixels.reshape(height, width, channels)


@cache
def batch_of_bytes(channels: int, kinds: frozenset[int]) -> Any:
    """Return a (1,) BATCH for bytes that are decoded from files of these kinds; not to be changed."""
    shared = np.zeros(1, records.BATCH)
    shared["channels"], shared["scale"] = channels, SCALES["uint8"]
    shared["decoder"], shared["row_maker"] = decoder.DECODE_FUNCTION.address, FINISH_ROW_FUNCTION.address
    if layout.PROGRESSIVE in kinds:
        shared["progressive_decoder"] = progressive.DECODE_FUNCTION.address
    if layout.RECODED in kinds:
        shared["recoded_decoder"], shared["books"] = recoded.DECODE_FUNCTION.address, address_of(books())
    return shared


def work_bytes(headers: Any) -> int:
    """Return the bytes of scratch that the decoders need for (N,) HEADER."""
    widths, kinds = headers["width"], headers["kind"]
    work = max(decoder.work_bytes(int(np.max(widths, initial=1))), progressive.work_bytes(headers))
    if (kinds == layout.RECODED).any():
        work = max(work, recoded.work_bytes(int(np.max(widths))))
    return work


def run_images(
    order: Ints, queue: Any, images: Any, headers: Any, passes: Any, statuses: Any, shared: Any, memory: ThreadMemory,
    running: Any,
) -> bool:  # fmt: skip
    """Run the native loop on this thread; return False if images are left, for signals to be handled between."""
    thread = memory.thread
    # Not current_thread(), which would create an object for each helper that is never removed.
    thread["limit"] = _SIGNALS if threading.get_ident() == threading.main_thread().ident else 0
    thread["most"] = threads()
    whole: bool = batch.run_images(
        order, queue, images, headers, passes, statuses, shared, memory.scratch, thread, running
    )
    return whole
