"""The photos: computed on the CPU in advance and stored on disk, so that no GPU waits for them."""

from __future__ import annotations

from typing import Any

from bench.gpu.child import Context
from bench.gpu.harness import ROOT

COUNTS = {"S": 256, "P": 128}
FOLDER = ROOT / "bench" / ".photos"
PACKED = "packed"  # a file there where the photos were brought along: none are made on the GPU's time


def run(context: Context) -> None:
    """Create the missing photos of each set; if the time runs out, the finished ones remain."""
    for name, count in COUNTS.items():
        if present()[name] < count and not (FOLDER / PACKED).exists():
            from bench import photos  # needs packages that those who only use the photos do not

            photos.load_set(name, count)
        context.record(name, present()[name])


def claims(results: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return nothing: the parts report their photos."""
    return [], []


def present() -> dict[str, int]:
    """Return the number of photos of each set on disk, at most as many as are used."""
    return {name: min(len(list((FOLDER / name).glob("*.jpg"))), count) for name, count in COUNTS.items()}
