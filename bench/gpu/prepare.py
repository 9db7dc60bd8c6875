"""The photos: made on the CPU, kept on the disk, so that no GPU waits for them."""

from __future__ import annotations

from typing import Any

from bench.gpu.child import Context
from bench.gpu.harness import ROOT

COUNTS = {"S": 256, "P": 128, "M": 64, "L": 8}


def run(context: Context) -> None:
    """Make what is missing of each set; where the time runs out, what was made stays."""
    for name, count in COUNTS.items():
        if present()[name] < count:
            from bench import photos  # needs packages that those who only use the photos do not

            photos.load_set(name, count)
        context.record(name, present()[name])


def claims(results: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Nothing: the parts say which photos they used."""
    return [], []


def present() -> dict[str, int]:
    """How many photos of each set are on the disk, at most as many as are used."""
    folder = ROOT / "bench" / ".photos"
    return {name: min(len(list((folder / name).glob("*.jpg"))), count) for name, count in COUNTS.items()}
