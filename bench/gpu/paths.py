"""The best division of a batch: combinations of the hardware's share, its path, and the number of decoding threads."""

from __future__ import annotations

import itertools
import os
from functools import partial
from pathlib import Path
from typing import Any

from bench.gpu.child import Context
from bench.gpu.decoders import LEGACY, ONE_BY_ONE, Setting, gpuimg_decoder, measured
from bench.gpu.harness import part_path, read_json
from bench.gpu.measure import attempted

SHARES = (1.0, 0.65, 0.35, 0.0)
PATHS = {"one by one": ONE_BY_ONE, "legacy batch": LEGACY}
LANES = (1, 2, 3)
_ROUNDS = 3
_LEAST_S = 2.5


def run(context: Context) -> None:
    """Measure gpuimg's own decoder, then the matrix, the most important combinations first."""
    if not context.on_gpu:
        context.record("skipped", "needs a GPU")
        return
    files = context.photos("S", 256)
    start = Setting(threads=min(len(os.sched_getaffinity(0)), 16))
    rounds = context.rounds or {"rounds": _ROUNDS}
    ours: dict[str, Any] = {}
    for lanes in LANES:
        setting = Setting(threads=_threads(start, lanes), decoders=lanes)
        ours[f"{lanes} lanes"] = attempted(partial(measured, files, setting, gpuimg_decoder, **rounds))
        context.record("gpuimg's decoder", ours)
    points: list[dict[str, Any]] = []
    for lanes, share, path in _order(context.smoke):
        if context.left() > _LEAST_S:
            setting = Setting(load=share, threads=_threads(start, lanes), decoders=lanes, options=PATHS[path])
            found = attempted(partial(measured, files, setting, **rounds))
            points.append({"share": share, "path": path, "lanes": lanes, **found})
            context.record("points", points)


def _threads(start: Setting, lanes: int) -> int:
    """Return the cores for each lane; with a single one, nvImageCodec never decodes images one by one."""
    return max(start.threads // lanes, 2)


def _order(smoke: bool) -> list[tuple[int, float, str]]:
    """Return lanes, share and path; without a share for the hardware there is no path."""
    found = [
        (lanes, share, path)
        for lanes, share, path in itertools.product((2, 1, 3), SHARES, PATHS)
        if share or path == "one by one"
    ]
    return found[:3] if smoke else found


def claims(results: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the matrix."""
    points = results.get("points", [])
    problems = [f"{_named(p)}: {p['error']}" for p in points if "error" in p]
    problems += [f"{_named(p)}: {p['failed']} images did not decode" for p in points if p.get("failed")]
    lines = []
    for name, row in results.get("gpuimg's decoder", {}).items():
        problems += [f"gpuimg's decoder, {name}: {row['error']}"] if "error" in row else []
        lines.append(f"gpuimg's decoder, {name}: {row['images_per_second']:,.0f} images/s")
    if points:
        lines += ["", "| share | path | lanes | images/s | CPU s / 1,000 |", "|---|---|---|---|---|"]
        lines += [
            f"| {p['share']} | {p['path'] if p['share'] else 'none'} | {p['lanes']} | {p['images_per_second']:,.0f} "
            f"| {p.get('cpu_seconds_per_1000_images', '')} |"
            for p in points
        ] + [""]  # fmt: skip
        best = max(points, key=lambda p: p["images_per_second"])
        own = max((row["images_per_second"] for row in results.get("gpuimg's decoder", {}).values()), default=0.0)
        lines.append(f"best: {_named(best)}" + (f", {best['images_per_second'] / own:.2f} of gpuimg's" if own else ""))
    return problems, lines


def _named(point: dict[str, Any]) -> str:
    return f"share {point['share']}, {point['path']}, {point['lanes']} lanes"


def best_decode(out: Path) -> float:
    """Return images/s of the best setting for set S; 0 if this part did not run."""
    points = read_json(part_path(out, "paths")).get("results", {}).get("points", [])
    return max((point["images_per_second"] for point in points), default=0.0)
