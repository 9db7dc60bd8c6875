"""Other libraries, if installed, on the same work and the same photos, from bytes to batches.

The shapes of results are checked before timing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from bench.gpu.child import Context
from bench.gpu.measure import attempted, rate
from bench.peers import base

OURS = "gpuimg-gpu"
PEERS = (OURS, "dali-mixed", "torchvision-gpu")
ON_THE_CPU = (
    "gpuimg",
    "nvimagecodec",
    "torchvision-gpu",
)  # to try the program: two that are there, and one that is not
WORKS = ("train", "train+rotate+color")
BATCH = 64
_ROUNDS = 3
_LEAST_S = 4.0


def run(context: Context) -> None:
    """Run one peer after another on all works."""
    files = context.photos("S", 256)
    batch = min(BATCH, len(files))
    table: dict[str, dict[str, Any]] = {work: {} for work in WORKS}
    missing: dict[str, str] = {}
    context.record("batch", batch)
    for name in PEERS if context.on_gpu else ON_THE_CPU:
        for work in WORKS[:1] if context.smoke else WORKS:
            if context.left() < _LEAST_S:
                missing[f"{name}, {work}"] = "out of time"
                continue
            try:
                table[work][name] = _measured(context, name, work, files, batch)
            except Exception as error:
                missing[f"{name}, {work}"] = f"{type(error).__name__}: {error}"[:300]
            context.record("works", table)
            context.record("not run", missing)


def _measured(context: Context, name: str, work: str, files: list[bytes], batch: int) -> dict[str, Any]:
    """Measure images/s of a peer; its library is imported here."""
    from bench.peers.registry import peer_class

    peer = peer_class(name)(len(os.sched_getaffinity(0)), batch)
    if work in peer.lacks:
        raise NotImplementedError(peer.lacks[work])
    epoch = peer.start(work, files)
    try:
        for result in epoch():  # to the end: some do not like to be stopped in between
            _check(result)
        rounds = context.rounds or {"rounds": _ROUNDS}
        return {"peer": peer.name, **attempted(lambda: rate(lambda: _drain(epoch()), len(files), **rounds))}
    finally:
        peer.close()


def _check(result: Any) -> None:
    shape = result.shape() if callable(getattr(result, "shape", None)) else getattr(result, "shape", None)
    if shape is not None and tuple(shape)[1:] != (3, base.SIZE, base.SIZE):
        raise ValueError(f"its results have the shape {tuple(shape)}")


def _drain(epoch: Iterator[Any]) -> None:
    for _ in epoch:
        pass


def claims(results: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return images/s of each, and the ratio of gpuimg."""
    problems, lines = [], []
    for work, rows in results.get("works", {}).items():
        problems += [f"{work}, {name}: {row['error']}" for name, row in rows.items() if "error" in row]
        good = {name: row for name, row in rows.items() if "error" not in row}
        own = good.get(OURS, {}).get("images_per_second", 0.0)
        if good:
            lines += ["", f"| {work} | images/s | range | gpuimg over it | n |", "|---|---|---|---|---|"]
            lines += [_row(row, own) for row in good.values()]
    lines += [""] if lines else []
    lines += [f"skipped: {name}: {why}" for name, why in results.get("not run", {}).items()]
    return problems, lines


def _row(row: dict[str, Any], own: float) -> str:
    low, high = row["range"]
    ratio = f"{own / row['images_per_second']:.2f}" if own and row["images_per_second"] else ""
    return (
        f"| {row['peer']} | {row['images_per_second']:,.0f} | {low:,.0f} to {high:,.0f} | {ratio} | {row['rounds']} |"
    )
