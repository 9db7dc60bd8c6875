"""A consumer that is busy in Python: how much of the loader's work it still overlaps, and whether it starves the lanes.

The consumer takes about as long for a batch as the loader does alone. With perfect overlap the two take no longer than
the longer one, with none at all their sum.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import gpuimg as gi
from bench.gpu.chains import CHAINS, DTYPE, LAYOUT
from bench.gpu.child import Context
from bench.gpu.measure import cpu_seconds, settle

BATCH = 64
BATCHES = 24
SWITCH_S = 5e-4
_DECODERS = (2, 3)
_LEAST_S = 2.0
_LOST = 1.25  # times the longer of the two


def run(context: Context) -> None:
    """The loader alone says how long the consumer is to take."""
    files = context.photos("S", 256)
    rows: dict[str, Any] = {}
    for decoders in _DECODERS[:1] if context.smoke else _DECODERS:
        _beside(context, files, decoders, rows)
        context.record("rows", rows)


def _beside(context: Context, files: list[bytes], decoders: int, rows: dict[str, Any]) -> None:
    name = f"{decoders} decoders"
    alone = rows[f"{name}, {ALONE}"] = _measured(context, files, decoders, lambda: None)
    seconds = alone["ms a batch"] / 1e3
    for consumer, (act, often) in CONSUMERS.items():
        if context.left() > _LEAST_S:
            with _switching(SWITCH_S if often else sys.getswitchinterval()):
                rows[f"{name}, {consumer}"] = _measured(context, files, decoders, partial(act, seconds))


def _compute(seconds: float) -> None:
    """Hold the GIL but for what the interpreter gives others."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        sum(range(100))


ALONE, BUSY, OFTEN = "nothing", "Python", "Python, switching every 0.5 ms"
CONSUMERS: dict[str, tuple[Callable[[float], None], bool]] = {
    "asleep": (time.sleep, False),
    BUSY: (_compute, False),
    OFTEN: (_compute, True),
}


@contextlib.contextmanager
def _switching(seconds: float) -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _measured(context: Context, files: list[bytes], decoders: int, act: Callable[[], None]) -> dict[str, Any]:
    """Milliseconds of a batch, the consumer's part included, while the loader goes on."""
    count = 2 if context.smoke else BATCHES
    loader: Any = gi.load(
        [(data, i) for i, data in enumerate(files)], CHAINS["train"], batch_size=min(BATCH, len(files)),
        device=context.device, dtype=DTYPE, layout=LAYOUT, epochs=None, decoders=decoders,
    )  # fmt: skip
    with contextlib.closing(iter(loader)) as batches:
        for _ in range(2 if context.smoke else 6):
            next(batches)
        begin, used = time.perf_counter(), cpu_seconds()
        for _ in range(count):
            next(batches)
            settle(context.device)
            act()
        taken, used = time.perf_counter() - begin, cpu_seconds() - used
    images = count * min(BATCH, len(files))
    return {
        "ms a batch": round(1e3 * taken / count, 2),
        "images_per_second": round(images / taken, 1),
        "cpu_us_an_image": round(1e6 * used / images, 1),
        "n": count,
    }


def claims(results: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Milliseconds by consumer."""
    rows = results.get("rows", {})
    if not rows:
        return [], []
    lines = ["", "| consumer | ms a batch | images/s | CPU us an image | n |", "|---|---|---|---|---|"]
    lines += [
        f"| {name} | {row['ms a batch']} | {row['images_per_second']:,.0f} | {row['cpu_us_an_image']} | {row['n']} |"
        for name, row in rows.items()
    ]
    return [], [*lines, ""]


def advice(results: dict[str, Any]) -> list[str]:
    """Whether the interpreter's switch interval matters."""
    rows = results.get("rows", {})
    said = []
    for name in {key.partition(",")[0]: None for key in rows}:
        alone, busy = rows[f"{name}, {ALONE}"]["ms a batch"], rows.get(f"{name}, {BUSY}", {}).get("ms a batch")
        often = rows.get(f"{name}, {OFTEN}", {}).get("ms a batch")
        if busy is None or often is None:
            continue
        lost = busy / max(alone, 1e-9)
        said.append(
            f"{name}: beside a consumer busy in Python as long as the loader a batch takes {lost:.2f} times as long: "
            + (
                "it overlaps, leave it"
                if lost <= _LOST
                else f"let load() switch every 0.5 ms while it runs ({often / alone:.2f} times)"
                if often < 0.9 * busy
                else "the lanes wait for the GIL, and switching more often does not help: move more of them out of it"
            )
        )
    return said
