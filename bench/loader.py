"""The loader: compared with direct calls, its position, and together with a loop that needs the GIL or a core itself.

    python -m bench.loader load [--rounds 7] [--out bench/results/load.json]
    GPUIMG_NUM_THREADS=1 python -m bench.loader busy [--rounds 5] [--out bench/results/busy.json]

- load: ``imagenet_train`` on bytes in memory batch by batch, and through ``gpuimg.load`` from the same bytes and from
  files; and shuffling, sharding and resuming sources of a thousand to a hundred million samples;
- busy: a consumer that computes in pure Python for as long as the producer takes a batch, and one that sleeps. The
  files are photos, and tiny images, whose batches take some 6 ms, about one switch interval. The wall time of both
  together over that of the longer one alone: 1.0 is perfect overlap, 2.0 none. On one core there can be none;
- busy, training: a small convolutional network trained on the CPU by one torch thread, alone, with ``gpuimg.load``, and
  with a ``DataLoader`` with one worker process whose transforms are Pillow's and NumPy's, the same recipe.

Works take turns, medians of the rounds, ratios of each round's neighbors.
"""

from __future__ import annotations

import io
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import gpuimg as gi
from bench import common, photos
from bench.common import BATCH, drain
from bench.peers.pillow_threads import trained
from gpuimg._loading.sharding import Share, shuffled

SIZE = 224
TINY = 64, 160, 64  # tiny images: the batches of a loop, the images of a batch, and the size of the results
EPOCHS = 4  # of one measurement of a busy loop: the first batch is waited for in any case

Step = Callable[[], Any]


def loader(source: Any, batch: int = BATCH, size: int = SIZE, **options: Any) -> gi.Loader:
    """Return the loader to measure."""
    preprocess = gi.presets.imagenet_train(size)
    return gi.load(
        source, preprocess, batch_size=batch, device="cpu", dtype="float32", layout="NCHW", **options
    )  # fmt: skip


# -- load --------------------------------------------------------------------------------------------------------------


def throughput(files: list[bytes], folder: Path, rounds: int) -> dict[str, Any]:
    """Measure images/s directly and through the loader."""
    train, out, epochs = gi.presets.imagenet_train(SIZE), np.zeros((BATCH, 3, SIZE, SIZE), np.float32), count()

    def direct() -> None:
        epoch = next(epochs)
        for at in range(0, len(files), BATCH):
            x = gi.open_batch(files[at : at + BATCH], device="cpu")
            rng = gi.Rng(0, epoch=epoch, indices=np.arange(at, at + len(x)))
            train(x, rng).array("float32", "NCHW", out=out[: len(x)])

    memory = [(data, i) for i, data in enumerate(files)]
    loaders = {
        "load": loader(memory),
        "load, shuffled": loader(memory, shuffle=True),
        "load, files": loader(gi.folder(folder), shuffle=True),
        "load, skip": loader(memory, on_error="skip"),
        "load, two decoders": loader(memory, decoders=2),
    }
    one, other = next(iter(loaders["load"])).images, train(
        gi.open_batch(files[:BATCH], device="cpu"), gi.Rng(0, indices=np.arange(min(BATCH, len(files))))
    ).array("float32", "NCHW")  # fmt: skip
    np.testing.assert_array_equal(one, other)
    runs: dict[str, Step] = {"direct": direct} | {name: partial(drain, each) for name, each in loaders.items()}
    seconds, _ = common.interleaved(runs, rounds)
    result: dict[str, Any] = {}
    for name, taken in seconds.items():
        of_direct, spread = common.ratio(seconds["direct"], taken)
        rate = common.per_second(len(files), taken)
        result[name] = {"images_per_second": rate, "of_direct": of_direct, "range": spread}
    return result


class Generated:
    """A source of N samples, all the same file."""

    def __init__(self, data: bytes, n: int) -> None:
        self.data, self.n = data, n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> tuple[bytes, int]:
        return self.data, i


def _milliseconds(run: Step) -> float:
    start = time.perf_counter()
    run()
    return 1e3 * (time.perf_counter() - start)


def position(data: bytes, n: int) -> dict[str, Any]:
    """Measure milliseconds for shuffling, sharding and resuming anywhere in ``n`` samples."""
    source = Generated(data, n)
    state = loader(source, shuffle=True).state_dict()

    def resume(taken: int) -> None:
        resumed = loader(source, shuffle=True, shard=(5, 8))
        resumed.load_state_dict({**state, "taken": taken, "given": taken})
        places, _ = Share(n, resumed._position.levels, 5, 8).places(0, BATCH)
        shuffled(places, n, 0, 0)

    resume(0)
    times = [_milliseconds(partial(resume, taken)) for taken in np.linspace(0, n - 1, 50).astype(int).tolist()]
    return {
        "samples": n,
        "resume_and_first_batch_order_ms": round(float(np.median(times)), 3),
        # The cost, at each start and resume, of a sampler that stores the order.
        "numpy_permutation_ms": round(_milliseconds(lambda: np.random.default_rng(0).permutation(n)), 3),
    }


# -- busy --------------------------------------------------------------------------------------------------------------


def tiny_images() -> list[tuple[bytes, int]]:
    """Return JPEGs of 96x64, of smooth random content."""
    batches, batch, _ = TINY
    rng, files = np.random.default_rng(), []
    for i in range(batches * batch // EPOCHS):
        file = io.BytesIO()
        coarse = rng.integers(0, 256, (8, 12, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((96, 64), Image.Resampling.BICUBIC).save(file, "JPEG", quality=90)
        files.append((file.getvalue(), i % 4))
    return files


def wall(batches: Iterable[Any], step: Callable[..., object]) -> float:
    """Return the seconds of a loop."""
    start = time.perf_counter()
    for batch in batches:
        step(batch)
    return time.perf_counter() - start


def spin(steps: int) -> None:
    """Compute in pure Python, which holds the GIL except for its switches."""
    value = 0
    for k in range(steps):
        value = (value * 31 + k) & 0xFFFF


def consumer_of(kind: str, seconds: float) -> Callable[..., object]:
    """Return a consumer that takes a number of seconds for a batch."""
    if kind == "busy":
        steps = int(seconds * 1e9 / _milliseconds(lambda: spin(1_000_000)))
        return lambda batch: spin(steps)
    return lambda batch: time.sleep(seconds)


def busy(loaders: dict[str, tuple[gi.Loader, int]], rounds: int) -> dict[str, Any]:
    """Return the wall time together over the longer of the two alone, by loader (with its batch size) and consumer."""
    names = [(source, kind) for source in loaders for kind in ("busy", "sleeping")]
    multiples: dict[tuple[str, str], list[float]] = {name: [] for name in names}
    producers: dict[tuple[str, str], list[float]] = {name: [] for name in names}
    for k in range(rounds + 1):
        for source, kind in names:
            batches, _ = loaders[source]
            alone = wall(batches, lambda batch: None)
            step = consumer_of(kind, alone / len(batches))
            consumer = wall(range(len(batches)), step)
            together = wall(batches, step)
            if k:  # the first round warms up
                multiples[source, kind].append(together / max(alone, consumer))
                producers[source, kind].append(alone)
    result = {}
    for source, kind in names:
        batches, batch = loaders[source]
        every = multiples[source, kind]
        result[f"{source}, {kind} consumer"] = {
            "producer_images_per_second": common.per_second(len(batches) * batch, producers[source, kind]),
            "wall_of_longer": round(float(np.median(every)), 3),
            "range": [round(min(every), 3), round(max(every), 3)],
        }
    return result


class Photos:
    """The data set of a worker process."""

    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.rglob("*.jpg"))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, i: int) -> tuple[Any, int]:
        return trained(self.paths[i].read_bytes(), np.random.default_rng()), i % 4


def training(folder: Path, rounds: int) -> dict[str, Any]:
    """Return the rate of training with each loader, and of the training alone, always on the same batch."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    network = nn.Sequential(
        nn.Conv2d(3, 16, 7, 4), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(32, 4),
    )  # fmt: skip
    optimizer = torch.optim.SGD(network.parameters(), 0.01)

    def step(batch: Any) -> None:
        images, labels = batch
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(images), labels).backward()
        optimizer.step()

    def ours_step(batch: Any) -> None:
        step((torch.from_numpy(batch.images), torch.from_numpy(batch.labels)))

    ours = loader(gi.folder(folder), drop_last=True)
    theirs: Any = torch.utils.data.DataLoader(
        Photos(folder), BATCH, num_workers=1, persistent_workers=True, drop_last=True  # type: ignore[arg-type]
    )  # fmt: skip
    same = torch.randn(BATCH, 3, SIZE, SIZE), torch.arange(BATCH) % 4
    runs: dict[str, Step] = {
        "training alone": lambda: wall([same] * len(ours), step),
        "gpuimg": lambda: wall(ours, ours_step),
        "DataLoader": lambda: wall(theirs, step),
    }
    seconds, _ = common.interleaved(runs, rounds)
    result: dict[str, Any] = {"batches": len(ours)}
    for name, times in seconds.items():
        ratio, spread = common.ratio(seconds["DataLoader"], times)
        rate = common.per_second(len(ours) * BATCH, times)
        result[name] = {"images_per_second": rate, "of_dataloader": ratio, "range": spread}
    return result


def main() -> None:
    """Measure, print, and write the result."""
    parser = common.arguments(__doc__, "", rounds=5)
    parser.add_argument("what", choices=["load", "busy"])
    parser.add_argument("--count", type=int, default=photos.COUNT, help="photos, for a try")
    options = parser.parse_args()
    files = photos.load(options.count)
    found: dict[str, Any]
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's own, of the worker's fork
        folder = Path(name)
        photos.write_classes(files, folder)
        if options.what == "load":
            positions = [position(files[0], 10**k) for k in range(3, 9)]
            found = {"throughput": throughput(files, folder, options.rounds), "positions": positions}
        else:
            in_memory = [(data, i) for i, data in enumerate(files)]
            loaders = {
                "bytes": (loader(in_memory, epochs=EPOCHS, drop_last=True), BATCH),
                "tiny": (loader(tiny_images(), *TINY[1:], epochs=EPOCHS, drop_last=True), TINY[1]),
            }
            found = {"busy": busy(loaders, options.rounds), "training": training(folder, options.rounds)}
    out = options.out if options.out.suffix else common.RESULTS / f"{options.what}.json"
    common.write({**common.environment(photos.summary(files), options.rounds), **found}, out)


if __name__ == "__main__":
    main()
