"""``gpuimg bench``: loading speed of a data set, the bottleneck, and a comparison with Pillow and torchvision."""

import json
import statistics
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np

from .._batch.batch import Batch, as_batch
from .._batch.opening import open_batch
from .._checks.text import counted
from .._io.native_read import ChunkReader
from .._loading.load import load
from .._loading.loader import Loader
from .._loading.samples import Columns, read_samples
from .._runtimes.devices import runtime_for
from .._threads.threads import threads
from . import contenders, info, operations, preview
from .options import UserError, add_device, add_json
from .source import add_source, open_source

EXAMPLE = "gpuimg bench train --batch-size 128 --seconds 20"

_ROUNDS = 3
_SAMPLED = 256  # samples whose headers are read

# The bottleneck by its name in ``Loader.stats``, with remedies.
_ADVICE = {
    "read": "the storage: more readers (readers=), larger files (gpuimg prepare --tar), smaller images "
    "(gpuimg prepare --short-side)",
    "decode": "decoding: smaller images (gpuimg prepare --short-side), recoded ones (--recode), draft=, more cores",
    "kernels": "image operations: smaller results, fewer or cheaper functions, more cores",
    "record": "Python in the preprocessing: larger batches, fewer calls",
    "python": "the GIL, which other threads hold: larger batches, fewer calls",
    "cores": "the cores, which other threads or processes keep busy",
    "consumer": "the consumer, which does nothing here: the loader is as fast as an empty Python loop",
}


def add_options(command: ArgumentParser) -> None:
    """Add the options."""
    command.description = (
        "Load a data set for a while and report images/s and the bottleneck. Pillow in threads and "
        "torchvision in worker processes run in turn with gpuimg for comparison; they run only the preset "
        "imagenet_train."
    )
    add_source(command)
    preview.add_preprocessing(command)
    command.add_argument(
        "--operations", action="store_true",
        help="measure without each operation in turn, instead of other libraries: what each costs",
    )  # fmt: skip
    command.add_argument("--batch-size", type=int, default=64, metavar="N", help="(default: %(default)s)")
    command.add_argument(
        "--seconds", type=float, default=60.0, metavar="S", help="total duration, approximately (default: 60)"
    )
    add_device(command)
    add_json(command)


def run(options: Namespace) -> int:
    """Measure, print the report, and return the exit status."""
    try:
        report = _measured(options)
    except (ValueError, TypeError, RuntimeError) as error:
        raise UserError(str(error)) from error
    print(json.dumps(report, indent=1) if options.json else "\n".join(_lines(report)))
    return 0


def _measured(options: Namespace) -> dict[str, Any]:
    if options.batch_size < 1:
        raise ValueError(f"--batch-size must be at least 1, not {options.batch_size}")
    if not 1 <= options.seconds <= 86400:
        raise ValueError(f"--seconds must be 1 to 86400, not {options.seconds:g}")
    name = options.function or options.preset or preview.PRESET
    preprocess = preview.imported(name) if options.function else preview.preset(name, None)
    source = open_source(options, label=None)
    if not len(source):
        raise ValueError("the source has no samples")
    device = runtime_for(options.device).name
    batch_size = min(options.batch_size, len(source))
    loader = endless(source, preprocess, batch_size, device)
    cores = threads()
    contestants: dict[str, Callable[[], Iterator[int]]] = {"gpuimg": partial(_gpuimg, loader)}
    left_out = {}
    costs = operations.can_be_left_out(preprocess, _first(source, device)) if options.operations else {}
    for one in (one for one, possible in costs.items() if possible):
        contestants[one] = partial(_without, one, loader)
    if name == preview.PRESET and not options.function and not options.operations:
        files = contenders.Files(source)
        contestants["Pillow"] = partial(contenders.pillow, files, batch_size, cores)
        left_out = {"torchvision": contenders.torchvision_problem()}
        if left_out["torchvision"] is None:
            contestants["torchvision"] = partial(contenders.torchvision, files, batch_size, cores)
    if not options.json:
        info.announce_warming()
    images_per_second(loader, 0.05 * options.seconds)
    rounds = _compare(contestants, 0.95 * options.seconds)
    rates = {one: statistics.median(found) for one, found in rounds.items() if one not in costs}
    without = {one: _share(rounds["gpuimg"], rounds[one]) if possible else None for one, possible in costs.items()}
    stats = loader.stats()
    images = _images(source, device)
    mean = rates["gpuimg"] * images["mean_bytes"] / 1e6
    return {
        "samples": len(source), "images": images, "device": device, "threads": cores, "preprocess": name,
        "batch_size": batch_size, "images_per_second": rates, "left_out": {k: v for k, v in left_out.items() if v},
        "without": without, "megabytes_per_second": mean, "limit": stats["limit"], "stats": stats,
    }  # fmt: skip


def endless(source: Any, preprocess: preview.Preprocess, batch_size: int, device: str) -> Loader:
    """Return a loader of shuffled batches without end, in which bad images are black."""
    return load(
        source, preprocess, batch_size=batch_size, device=device, dtype="float16", layout="NCHW", shuffle=True,
        seed=time.time_ns(), epochs=None, on_error="fill", label=None, shard=(0, 1),
    )  # fmt: skip


def images_per_second(loader: Loader, seconds: float) -> float:
    """Return the images/s of a loader that :func:`endless` returned; see :func:`_rate`."""
    return _rate(_gpuimg(loader), seconds)


def _gpuimg(loader: Loader) -> Iterator[int]:
    loop = iter(loader)
    try:
        for batch in loop:
            yield len(batch.indices)
    finally:
        loader.close()


def _without(operation: str, loader: Loader) -> Iterator[int]:
    with operations.left_out(operation):
        yield from _gpuimg(loader)


def _first(source: Any, device: str) -> Batch:
    """Return some good images."""
    loader = load(source, batch_size=4, device=device, on_error="skip", label=None, shard=(0, 1))
    with closing(loader):
        return as_batch(next(loader).images)


def _share(whole: list[float], without: list[float]) -> dict[str, float]:
    """Return an operation's share of the time, and its lowest and highest in a round, by rates with and without it."""
    shares = [1 - one / other for one, other in zip(whole, without, strict=True)]
    return {"share": statistics.median(shares), "lowest": min(shares), "highest": max(shares)}


def _compare(contestants: dict[str, Callable[[], Iterator[int]]], seconds: float) -> dict[str, list[float]]:
    """Return the images/s of each contestant in rounds in which they run in turn."""
    each = seconds / (_ROUNDS * len(contestants))
    rounds = [{name: _rate(begin(), each) for name, begin in contestants.items()} for _ in range(_ROUNDS)]
    return {name: [one[name] for one in rounds] for name in contestants}


def _rate(batches: Iterator[int], seconds: float) -> float:
    """Return images/s after the first batch, which includes start-up."""
    with closing(batches):  # type: ignore[type-var]
        next(batches)
        start = time.perf_counter()
        images = 0
        for count in batches:
            images += count
            taken = time.perf_counter() - start
            if taken >= seconds:
                break
    return images / taken


def _images(source: Any, device: str) -> dict[str, Any]:
    """Return sizes of some of the images, and how many of them are bad."""
    step = -(-len(source) // _SAMPLED)
    numbers = range(0, len(source), step)
    samples = read_samples(source, numbers, [True] * len(numbers), Columns(label=None), ChunkReader())
    files = [bytes(sample.data) for sample in samples if sample.error is None]
    batch = open_batch(files, device="cpu", on_error="fill")
    good = [k for k, status in enumerate(batch.status) if status == "ok"]
    height, width = np.median(batch.sizes[good], 0).tolist() if good else (0, 0)
    return {
        "looked_at": len(numbers), "bad": len(numbers) - len(good), "median_height": int(height),
        "median_width": int(width), "mean_bytes": float(np.mean([len(data) for data in files] or [0])),
    }  # fmt: skip


def _lines(report: dict[str, Any]) -> Iterator[str]:
    images, rates = report["images"], report["images_per_second"]
    bad = f"; {counted(images['bad'], 'image')} of {images['looked_at']} cannot be decoded" if images["bad"] else ""
    yield f"samples      {report['samples']:,}"
    yield (
        f"images       {images['median_width']} x {images['median_height']} pixels (median), "
        f"{images['mean_bytes'] / 1e3:,.0f} kB on average{bad}"
    )
    where = info.describe_device(report["device"])
    yield f"measured     {report['preprocess']}, batches of {report['batch_size']}, {report['device']} ({where})"
    for name, rate in rates.items():
        yield f"{name:13}{rate:,.0f} images/s{_comparison(name, report)}"
    costs = {name: cost for name, cost in report["without"].items() if cost is not None}
    for name in (name for name in report["without"] if name not in costs):
        yield f"operation    {name} stays, because it sets the sizes of the results"
    for name, cost in sorted(costs.items(), key=lambda one: -one[1]["share"]):
        if cost["lowest"] > 0:
            between = f"{cost['lowest']:.0%} to {cost['highest']:.0%} in {_ROUNDS} rounds"
            yield f"operation    {name} takes {cost['share']:.0%} of the time ({between})"
        else:
            most = max(cost["highest"], 0)
            yield f"operation    {name} takes too little time to tell: at most {most:.0%}, or the machine is busy"
    for name, reason in report["left_out"].items():
        yield f"{name:13}left out: {reason}"
    yield f"limit        {_ADVICE[report['limit']]}"
    yield (f"storage      {report['megabytes_per_second']:,.0f} MB/s required; recently read files come from memory")


def _comparison(name: str, report: dict[str, Any]) -> str:
    """Return the number of threads or processes of a contestant, and gpuimg's rate relative to its rate."""
    if name == "gpuimg":
        return ""
    one, many = ("process", "processes") if name == "torchvision" else ("thread", "threads")
    rates = report["images_per_second"]
    return f" in {counted(report['threads'], one, many)}; gpuimg: {rates['gpuimg'] / rates[name]:.1f} times as fast"
