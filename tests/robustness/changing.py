"""Files in memory that are overwritten before their batch runs, and while it is opened: pixels or a reason, no crash.

What changes after a batch was opened has no effect. A file that changes while it is opened is some file, whole or
damaged: it lies flush against a page that cannot be read, and a process forked from this one overwrites parts of it
meanwhile.
"""

import itertools
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gpuimg as gi

from ..data_sets import Source
from ..decoding.jpegs import DQT, header_segments, joined, scan_start
from ..decoding.pngs import encode
from ..samples import file_of
from .guard_pages import flush
from .mutate import Draw
from .originals import jpeg, picture

SIZE = 41, 57
FORMATS = ("baseline", "progressive", "recoded", "png", "webp")
SECONDS = 0.5  # that a file is disturbed for
_LARGEST = 1 << 16  # bytes of a buffer that holds every file


@cache
def files() -> dict[str, list[bytes]]:
    """Two files of one size, and one of another size, by decoder."""
    three = [picture(*SIZE, 1), picture(*SIZE, 2), picture(9, 200, 3)]
    return {
        "baseline": [jpeg(one) for one in three],
        "steps": [_steps_last(jpeg(one)) for one in three],
        "progressive": [jpeg(one, progressive=True) for one in three],
        "recoded": [gi.recode_jpeg(jpeg(one)) for one in three],
        "png": [encode(np.asarray(one), "rgb", 8, (4, 1), part=900) for one in three],
        "webp": [file_of(one, "WEBP") for one in three],
    }


def _steps_last(data: bytes) -> bytes:
    """A file whose quantization tables end close before the end of the file."""
    parts = header_segments(data)
    parts = [*(one for one in parts[:-1] if one[0] != DQT), *(one for one in parts if one[0] == DQT), parts[-1]]
    return joined(parts, data[scan_start(data) :][:9])


def overwritten() -> Counter[str]:
    every, count = [data for name in FORMATS for data in files()[name]], 0
    buffer, lock = np.zeros(_LARGEST, np.uint8), threading.Lock()
    memory = memoryview(buffer)
    for given, before, after, cropped in itertools.product((buffer, memory), every, every, (False, True)):
        memory[: len(before)] = before
        x = gi.open_batch([given, before], device="cpu")
        x = gi.crop(x, 2, 3, 5, 40) if cropped else x
        memory[: len(after)] = after
        np.testing.assert_array_equal(x[0], x[1])
        count += 1

    class OneBuffer(Source):
        """A source that reads all its files into one buffer."""

        def __getitem__(self, i: int) -> Any:
            with lock:
                memory[: len(every[i])] = every[i]
            return buffer, i

    loader = gi.load(OneBuffer(len(every)), shuffle=False, batch_size=1, dtype="uint8", readers=1, device="cpu")
    for batch, data in zip(loader, every, strict=True):
        np.testing.assert_array_equal(batch.images[0], gi.decode_batch([data], device="cpu")[0])
    return Counter(pixels=count)


@contextmanager
def _disturbed(buffer: NDArray[np.uint8], other: bytes) -> Iterator[None]:
    """Let another process, which shares the memory, overwrite parts of a file and put them back, until the end."""
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        draw, own = Draw(time.time_ns()), buffer.copy()
        contents = [np.full_like(own, 0xFF), np.zeros_like(own), np.resize(np.frombuffer(other, np.uint8), own.size)]
        while os.getppid() == parent:
            size = draw.pick((1, 2, 4, 16, 64, 400, own.size))
            at = draw.below(min(own.size, draw.pick((60, 700, own.size))))
            window, new, old = (array[at : at + size] for array in (buffer, draw.pick(contents), own))
            for _ in range(300):
                window[:] = new
                window[:] = old
        os._exit(0)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def disturbed(form: str) -> Counter[str]:
    data, other, _ = files()[form]
    buffer, draw = flush(data, at_end=True), Draw(time.time_ns())
    height, width = gi.image_info(data)[:2]
    outcomes: Counter[str] = Counter()
    with _disturbed(buffer, other):
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            x = gi.open_batch([buffer], on_error="fill", device="cpu", max_pixels=1 << 16)
            if draw.below(2) and x.sizes.tolist() == [[height, width]]:
                y0, x0 = draw.below(height), draw.below(width)
                x = gi.crop(x, y0, x0, height - y0, width - x0)
            x[0]
            status = x.status[0]
            outcomes["pixels" if status == "ok" else "a reason" if status else "none"] += 1
    assert not outcomes["none"]
    return outcomes


def check(_: Path) -> Callable[[int], Counter[str]]:
    forms = list(files())

    def checked(number: int) -> Counter[str]:
        which = number % (len(forms) + 1)
        return overwritten() if which == len(forms) else disturbed(forms[which])

    return checked
