"""The loader compared with direct calls of the same functions, and the cost of its position.

    python -m bench.bench_load [--rounds 7] [--out bench/results/load.json]

- direct: ``open_batch``, random resized crop, flip, normalize and ``array(out=)`` on bytes in memory, batch by batch;
- load: the same through ``gpuimg.load`` from the same bytes, from files in a class folder, and with each way of
  treating bad samples, two batches ahead;
- overlap: a consumer that takes as long as the producer, without using the cores (as a training step on a GPU);
- positions: shuffling, sharding and resuming sources of a thousand to a hundred million samples.

Round-robin, medians of the rounds, ratios of each round's neighbors.
"""

from __future__ import annotations

import tempfile
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

import gpuimg as gi
from bench import photos
from bench.common import arguments, environment, interleaved, per_second, ratio, write
from gpuimg._loading.sharding import Share, shuffled

BATCH = 64
SIZE = 224

train = gi.presets.imagenet_train(SIZE)


def loader(source: Any, **options: Any) -> gi.Loader:
    """Return the loader to measure."""
    return gi.load(source, train, batch_size=BATCH, device="cpu", dtype="float32", layout="NCHW", **options)


def throughput(files: list[bytes], folder: Path, rounds: int) -> dict[str, Any]:
    """Measure images/s directly and through the loader."""
    out = np.zeros((BATCH, 3, SIZE, SIZE), np.float32)
    epochs = count()

    def direct() -> None:
        epoch = next(epochs)
        for at in range(0, len(files), BATCH):
            x = gi.open_batch(files[at : at + BATCH], device="cpu")
            rng = gi.Rng(0, epoch=epoch, indices=np.arange(at, at + len(x)))
            train(x, rng).array("float32", "NCHW", out=out[: len(x)])

    memory = [(data, i) for i, data in enumerate(files)]
    table = gi.folder(folder)
    loaders = {
        "load": loader(memory),
        "load, shuffled": loader(memory, shuffle=True),
        "load, files": loader(table, shuffle=True),
        "load, skip": loader(memory, on_error="skip"),
        "load, two decoders": loader(memory, decoders=2),
    }
    runs: dict[str, Callable[[], None]] = {"direct": direct}
    runs |= {name: partial(_drain, each) for name, each in loaders.items()}
    seconds, _ = interleaved(runs, rounds)
    result: dict[str, Any] = {}
    for name, taken in seconds.items():
        middle, spread = ratio(seconds["direct"], taken)
        result[name] = {"images_per_second": per_second(len(files), taken), "of_direct": middle, "range": spread}
    return result


def _drain(batches: gi.Loader) -> None:
    for _ in batches:
        pass


def overlap(files: list[bytes], rounds: int) -> dict[str, Any]:
    """Measure the wall time with a consumer as slow as the producer, as a multiple of the longer of the two."""
    source = [(data, i) for i, data in enumerate(files)]
    batches = loader(source, epochs=8)  # filling the pipeline takes a batch, once
    _drain(batches)
    multiples, walls, producers = [], [], []
    for _ in range(rounds):
        start = time.perf_counter()
        _drain(batches)
        alone = time.perf_counter() - start
        step = alone / len(batches)
        start = time.perf_counter()
        for _ in batches:
            time.sleep(step)
        wall = time.perf_counter() - start
        multiples.append(wall / alone)
        walls.append(wall)
        producers.append(alone)
    return {
        "producer_s": round(float(np.median(producers)), 3),
        "wall_s": round(float(np.median(walls)), 3),
        "wall_of_longer": round(float(np.median(multiples)), 3),
        "range": [round(min(multiples), 3), round(max(multiples), 3)],
        "batches": len(batches),
    }


class Generated:
    """A source of N samples, all the same file."""

    def __init__(self, data: bytes, n: int) -> None:
        self.data = data
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> tuple[bytes, int]:
        return self.data, i


def position(data: bytes, n: int) -> dict[str, Any]:
    """Measure milliseconds and megabytes for shuffling, sharding and resuming anywhere in ``n`` samples."""
    source = Generated(data, n)
    state = loader(source, shuffle=True).state_dict()

    def resume(taken: int) -> None:
        resumed = loader(source, shuffle=True, shard=(5, 8))
        resumed.load_state_dict({**state, "taken": taken, "given": taken})
        share = Share(n, resumed._position.levels, 5, 8)
        places, _ = share.places(0, BATCH)
        shuffled(places, n, 0, 0)

    resume(0)
    times = [_seconds(lambda taken=taken: resume(taken)) for taken in np.linspace(0, n - 1, 50).astype(int).tolist()]  # type: ignore[misc]
    tracemalloc.start()
    resume(n // 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    places = np.arange(min(n, 1 << 16))
    return {
        "samples": n,
        "resume_and_first_batch_order_ms": round(1e3 * float(np.median(times)), 3),
        "worst_ms": round(1e3 * max(times), 3),
        "peak_megabytes": round(peak / 1e6, 3),
        "shuffle_us_per_sample": round(_seconds(lambda: shuffled(places, n, 0, 0)) / len(places) * 1e6, 3),
        # The cost, at each start and resume, of a sampler that stores the order.
        "numpy_permutation_ms": round(1e3 * _seconds(lambda: np.random.default_rng(0).permutation(n)), 3),
    }


def _seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> None:
    """Measure, print, and write the result."""
    options = arguments(__doc__, "load.json").parse_args()
    files = photos.load()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        photos.write_classes(files, folder)
        write(
            {
                **environment(photos.summary(files), options.rounds),
                "throughput": throughput(files, folder, options.rounds),
                "overlap": overlap(files, options.rounds),
                "positions": [position(files[0], 10**k) for k in range(3, 9)],
            },
            options.out,
        )


if __name__ == "__main__":
    main()
