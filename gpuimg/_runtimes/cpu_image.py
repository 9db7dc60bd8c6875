"""One JPEG in one call: its records are filled directly, which skips the records of a batch."""

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from .._decoding import exif, jpeg, route
from .._decoding.options import DecodeOptions
from .._plan.draft import FULL
from ..kernels.cpu import batch, records
from ..kernels.cpu.inputs import set_images, set_job
from ..kernels.cpu.records import address_of
from ..kernels.jpeg import decode as decoder
from ..kernels.jpeg import layout, progressive, recoded
from ..kernels.jpeg.books import books
from ..kernels.jpeg.headers import read_header, shown_sizes
from ..kernels.jpeg.rows import FINISH_ROW_FUNCTION
from ..kernels.layout import SCALES
from .cpu_encode import NO_ENCODINGS
from .cpu_memory import SINGLE, CallMemory
from .cpu_team import team

# Nanoseconds after which the main thread returns from the native loop, between two images, to handle signals.
_SIGNALS = 50_000_000

NO_FILES = jpeg.Headers(np.zeros(0, layout.HEADER), np.zeros(0, np.int64), np.zeros(0, np.int64))
NO_PASSES = np.zeros(0, records.PASS)
NONE = np.zeros(0, np.int64)
#: By EXIF orientation, how records.IMAGE is turned.
TURNS = np.stack(exif.turns(np.arange(9)), 1) @ (records.SWAP, records.FLIP_ROWS, records.FLIP_COLUMNS)
_FIRST, _FULL = np.zeros(1, np.int64), np.full(1, FULL)
_PLACES = np.zeros(4, np.int64)  # scratch of a loop that keeps the GIL


def _word_of(record: str, field: str = "") -> int:
    """Return the place of a field in the words of a thread's records, without an object for each record."""
    inner: Any = SINGLE.fields[record] if SINGLE.fields else None
    return int(inner[1] + (inner[0].fields[field][1] if field else 0)) // 8


_KIND, _RESULT = _word_of("header", "kind"), _word_of("status", "result")
_SOURCE, _STATISTICS = _word_of("needs", "source"), _word_of("needs", "statistics")
_ADDRESS, _SIZE, _LEFT = map(_word_of, ("address", "size", "left"))
_NEEDS = slice(_STATISTICS, _STATISTICS + records.NEEDS.itemsize // 8)


_LIMIT = (records.THREAD.names or ()).index("limit")


def decode_jpeg(data: Any, options: DecodeOptions, memory: CallMemory, empty: Callable[[int, str], Any]) -> Any | None:
    """Return the pixels (H, W, C) of a JPEG as displayed; None for a file that our decoders do not take, or reject.

    ``empty`` returns memory for the result.
    """
    if route.is_special(options):
        return None
    one, words, channels = memory.single, memory.single_words, options.channels
    words.fill(0)
    image, header, status, sizes, left = one["image"], one["header"], one["status"], one["shown_size"], one["left"]
    words[_ADDRESS] = read_header(np.frombuffer(data, np.uint8), header, _PLACES)
    words[_SIZE] = len(data)
    only = route.pillow_only([data], header, options)
    words[_LEFT] = only is not None and only[0]
    kind = words[_KIND]
    if shown_sizes(header, options.max_pixels, sizes, left) or kind not in route.OURS:
        return None
    height, width = sizes[0].tolist()
    size = height * width * channels
    pixels = empty(size, "uint8")
    set_images(
        image, header, one["address"], one["size"], TURNS, sizes, _FULL, NO_PASSES, NONE, channels, pixels, _FIRST, 1,
        sizes, channels, one["needs"],
    )  # fmt: skip
    words[_SOURCE] = 0  # it is decoded into place
    memory.reserve(words[_NEEDS])
    job, shared = one["job"], batch_of_bytes(channels, frozenset((int(kind),)))
    set_job(job, _FIRST, image, header, status, NO_PASSES, shared, memory.scratch, memory.threads, NO_ENCODINGS, 0)
    team.begin_call(0)
    while not run_images(job, memory, 0):
        pass  # signals are handled here
    return None if words[_RESULT] else pixels.reshape(height, width, channels)


@cache
def batch_of_bytes(channels: int, kinds: frozenset[int], streamed: bool = False) -> Any:
    """Return a (1,) BATCH for bytes that are decoded from files of these kinds; not to be changed."""
    shared = np.zeros(1, records.BATCH)
    shared["channels"], shared["scale"], shared["streamed"] = channels, SCALES["uint8"], streamed
    shared["decoder"], shared["row_maker"] = decoder.DECODE_FUNCTION.address, FINISH_ROW_FUNCTION.address
    if layout.PROGRESSIVE in kinds:
        shared["progressive_decoder"] = progressive.DECODE_FUNCTION.address
    if layout.RECODED in kinds:
        shared["recoded_decoder"], shared["books"] = recoded.DECODE_FUNCTION.address, address_of(books())
    return shared


def run_images(job: Any, memory: CallMemory, thread: int) -> bool:
    """Run the native loop as a thread of a job; return False if images are left, for signals to be handled between."""
    set_limit(memory, thread)
    whole: bool = batch.run_images(job, team.records, team.offers, thread)
    return whole


def set_limit(memory: CallMemory, thread: int) -> None:
    """Set the time after which this thread returns from native code, if it is the one that handles signals."""
    # Not current_thread(), which would create an object for each helper that is never removed.
    memory.words[thread, _LIMIT] = _SIGNALS if threading.get_ident() == threading.main_thread().ident else 0
