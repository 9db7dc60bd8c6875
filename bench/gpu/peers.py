"""Other libraries, if installed, on the same work and the same photos, from bytes to batches.

The shapes of results are checked before timing.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from typing import Any

from bench.gpu.child import Context
from bench.gpu.measure import attempted, rate
from bench.gpu.rows import HEAD, cells, own_rate
from bench.gpu.targets import DALI, INDEXED, LOADER, NVIMAGECODEC
from bench.peers import base
from bench.peers.base import Epoch

OURS = "gpuimg-gpu"
PEERS = (LOADER, INDEXED, NVIMAGECODEC, DALI, OURS, "torchvision-gpu")
ON_THE_CPU = ("gpuimg.load", "nvimagecodec", "torchvision-gpu")  # to try the program: the last is not there
#: The most important first: works and batch sizes.
WORKS = (("train", 256), ("train", 64), ("train+rotate+color", 256))
_ROUNDS = 3
_LEAST_S = 4.0
_LEAST_EPOCH_S = 0.2  # a loader's first batches take longer than the others
_MOST_REPEATS = 16


def run(context: Context) -> None:
    """Run all peers on one work after another."""
    files = context.photos("S", 256)
    table: dict[str, dict[str, Any]] = {}
    missing: dict[str, str] = {}
    for work, batch in WORKS[:1] if context.smoke else WORKS:
        size = min(batch, len(files))
        rows = table.setdefault(f"{work}, batch {size}", {})
        for name in PEERS if context.on_gpu else ON_THE_CPU:
            if context.left() < _LEAST_S:
                missing[f"{name}, {work}, batch {size}"] = "out of time"
                continue
            try:
                rows[name] = _measured(context, name, work, files, size)
            except Exception as error:
                missing[f"{name}, {work}, batch {size}"] = f"{type(error).__name__}: {error}"[:300]
            context.record("works", table)
            context.record("not run", missing)


def _measured(context: Context, name: str, work: str, files: list[bytes], batch: int) -> dict[str, Any]:
    """Measure images/s of a peer; its library is imported here."""
    from bench.peers.registry import peer_class

    peer = peer_class(name)(len(os.sched_getaffinity(0)), batch)
    if work in peer.lacks:
        raise NotImplementedError(peer.lacks[work])
    try:
        epoch = peer.start(work, files)
        for result in epoch():  # to the end: some do not like to be stopped in between
            _check(result)
        begin = time.perf_counter()
        _drain(epoch())
        repeats = min(math.ceil(_LEAST_EPOCH_S / max(time.perf_counter() - begin, 1e-3)), _MOST_REPEATS)
        if repeats > 1 and not context.smoke:
            files = files * repeats
            epoch = peer.start(work, files)
        return {"peer": peer.name, **attempted(lambda: _rate(context, name, epoch, len(files), batch))}
    finally:
        peer.close()


def _rate(context: Context, name: str, epoch: Epoch, images: int, batch: int) -> dict[str, Any]:
    """Measure images/s, and count what the GPU did for our own."""
    rounds = context.rounds or {"rounds": _ROUNDS}
    if name.startswith("gpuimg"):
        return own_rate(context.device, lambda: _drain(epoch()), images, batch, **rounds)
    return rate(lambda: _drain(epoch()), images, **rounds)


def _check(result: Any) -> None:
    shape = result.shape() if callable(getattr(result, "shape", None)) else getattr(result, "shape", None)
    if shape is not None and tuple(shape)[1:] != (3, base.SIZE, base.SIZE):
        raise ValueError(f"its results have the shape {tuple(shape)}")


def _drain(epoch: Iterator[Any]) -> None:
    for _ in epoch:
        pass


def claims(results: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return images/s of each, and the ratio of gpuimg's loader."""
    problems, lines = [], []
    for work, rows in results.get("works", {}).items():
        problems += [f"{work}, {name}: {row['error']}" for name, row in rows.items() if "error" in row]
        good = {name: row for name, row in rows.items() if "error" not in row}
        own = good.get(LOADER, {}).get("images_per_second", 0.0)
        if good:
            lines += ["", f"| {work} | images/s | range | gpuimg.load over it | {HEAD} | n |"]
            lines += ["|---|---|---|---|---|---|---|", *(_row(row, own) for row in good.values())]
    lines += [""] if lines else []
    lines += [f"skipped: {name}: {why}" for name, why in results.get("not run", {}).items()]
    return problems, lines


def _row(row: dict[str, Any], own: float) -> str:
    low, high = row["range"]
    ratio = f"{own / row['images_per_second']:.2f}" if own and row["images_per_second"] else ""
    return (
        f"| {row['peer']} | {row['images_per_second']:,.0f} | {low:,.0f} to {high:,.0f} | {ratio} | {cells(row)} "
        f"| {row['rounds']} |"
    )
