"""Rates of gpuimg with what the GPU did for them: kernel launches of a batch, and images that the CPU decoded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.gpu.hooks import counted
from bench.gpu.measure import rate

HEAD = "launches a batch | on the CPU"


def own_rate(device: str, run: Callable[[], object], images: int, batch: int, **rounds: Any) -> dict[str, Any]:
    """Measure images/s of our own code as :func:`bench.gpu.measure.rate` does, and count on a GPU.

    Launches are those that reach the driver, of decoding too. A loader works ahead, so that its numbers may be those of
    a few batches more or less.
    """
    if device == "cpu":
        return rate(run, images, **rounds)
    with counted() as counts:
        found = rate(run, images, **rounds)
    total = images * found["calls"]
    return {
        **found,
        "launches_a_batch": round(counts.launches * min(batch, images) / total, 2),
        "on_the_cpu": round(counts.on_the_cpu / total, 4),
    }


def cells(row: dict[str, Any]) -> str:
    """Return both numbers as cells of a table: the share of images decoded on the CPU in percent."""
    launches, share = row.get("launches_a_batch"), row.get("on_the_cpu")
    return f"{'-' if launches is None else f'{launches:g}'} | {'-' if share is None else f'{share:.1%}'}"


def words(row: dict[str, Any]) -> str:
    """Return both numbers as the end of a sentence; nothing where they were not counted."""
    if "on_the_cpu" not in row:
        return ""
    return f"; {row['launches_a_batch']:g} launches a batch, {row['on_the_cpu']:.1%} decoded on the CPU"
