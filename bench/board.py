"""gpuimg on the method of imread_benchmark, a public board of JPEG decoders (github.com/ternaus/imread_benchmark).

    python -m bench.board [--rounds 5] [--set S-4.8] [--out bench/results/board.json]

The board is not on PyPI in a version that takes other decoders, so that its method is repeated here: files in memory,
one call an image, one thread; and a DataLoader of torch with batches of 32 for 0, 1, 2, ... workers. The decoders take
turns. The row "gpuimg, batches" needs no workers: threads decode the same batches.
"""

from __future__ import annotations

import functools
import io
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from PIL import Image

import gpuimg
from bench import common, photos

_BATCH = 32


def decoders() -> dict[str, Callable[[bytes], Any]]:
    """Return the decoders as the board calls them."""
    import cv2
    import simplejpeg

    cv2.setNumThreads(1)
    return {
        "gpuimg": lambda data: gpuimg.decode_image(data, device="cpu"),
        "simplejpeg": lambda data: simplejpeg.decode_jpeg(data, colorspace="RGB"),
        "opencv": lambda data: cv2.cvtColor(cv2.imdecode(np.frombuffer(data, np.uint8), 1), cv2.COLOR_BGR2RGB),
        "pillow": lambda data: np.asarray(Image.open(io.BytesIO(data)).convert("RGB")),
    }


class _InMemory:
    def __init__(self, files: list[bytes], decode: Callable[[bytes], Any]) -> None:
        self._files, self._decode = files, decode

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> Any:
        return self._decode(self._files[index])


def _through_loader(files: list[bytes], decode: Callable[[bytes], Any], workers: int) -> Callable[[], object]:
    from torch.utils.data import DataLoader

    loader: Any = DataLoader(
        _InMemory(files, decode),  # type: ignore[arg-type]
        batch_size=_BATCH, num_workers=workers, collate_fn=list, persistent_workers=workers > 0,
    )  # fmt: skip
    return lambda: sum(len(batch) for batch in loader)


def _batches(files: list[bytes]) -> Iterator[list[bytes]]:
    return (files[at : at + _BATCH] for at in range(0, len(files), _BATCH))


def _in_batches(files: list[bytes], threads: int) -> Callable[[], object]:
    def run() -> int:
        os.environ["GPUIMG_NUM_THREADS"] = str(threads)
        with ThreadPoolExecutor(1) as ahead:  # the next batch while the loop has this one, as a loader does
            decode = functools.partial(gpuimg.decode_batch, device="cpu")
            return sum(len(batch) for batch in ahead.map(decode, _batches(files)))

    return run


def _rates(runs: dict[str, Callable[[], object]], count: int, rounds: int) -> dict[str, Any]:
    walls, _ = common.interleaved(runs, rounds)
    return {
        name: common.rated(count, seconds, None if name.startswith("gpuimg") else walls["gpuimg"])
        for name, seconds in walls.items()
    }


def main() -> None:
    """Measure, print, and write the result."""
    parser = common.arguments(__doc__, "board.json", rounds=5)
    parser.add_argument("--set", choices=list(photos.SETS), default="S-4.8")
    parser.add_argument("--count", type=int, help="use only the first files of the set, for a try")
    options = parser.parse_args()
    files = photos.load_set(options.set, options.count)
    found = decoders()
    for decode in found.values():
        np.testing.assert_array_equal(decode(files[0]), found["pillow"](files[0]))
    os.environ["GPUIMG_NUM_THREADS"] = "1"
    single = {
        name: functools.partial(lambda decode: [decode(data) for data in files], one) for name, one in found.items()
    }
    loaders: dict[str, Any] = {}
    for workers in range(len(os.sched_getaffinity(0)) + 1):
        runs = {name: _through_loader(files, decode, workers) for name, decode in found.items()}
        if workers:
            runs["gpuimg, batches"] = _in_batches(files, workers)
        loaders[str(workers)] = _rates(runs, len(files), options.rounds)
        os.environ["GPUIMG_NUM_THREADS"] = "1"
    about = common.environment(photos.summary_of_set(options.set, files), options.rounds, _BATCH)
    common.write(about | {"single": _rates(single, len(files), options.rounds), "workers": loaders}, options.out)


if __name__ == "__main__":
    main()
