"""Decoders: the hardware's share, threads, batch size, options, and how many decoders at a time.

One coordinate after another rather than all combinations, with the best found so far for the others; sets S, P, M and
L are photos of about 0.2, 0.4, 1 and 12 megapixels, of which 4 % are progressive and 4 % gray, as in the wild.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np

from bench.gpu.child import Context
from bench.gpu.decoders import LEGACY, ONE_BY_ONE, Setting, gpuimg_decoder, measured
from bench.gpu.hooks import hardware_share
from bench.gpu.measure import kept, rate, synchronize

LOADS = (0.65, 1.0, 0.35, 0.0)
COUNTS = {"S": 256, "P": 128, "M": 64, "L": 8}
HUFFMAN = "nvjpeg_cuda_decoder:hybrid_huffman_threshold"
OPTIONS = {
    "as it is": "",
    "Huffman on the GPU": f"{HUFFMAN}=0",
    "Huffman on the CPU": f"{HUFFMAN}=1000000000",
    "hardware one by one": ONE_BY_ONE,
    "hardware legacy batch": LEGACY,
    "hardware preallocated": "nvjpeg_hw_decoder:preallocate_width_hint=1280 "
    "nvjpeg_hw_decoder:preallocate_height_hint=960 nvjpeg_hw_decoder:preallocate_batch_size=256",
}
PATHS = ("as it is", "hardware one by one", "hardware legacy batch")
_CHROMA = ("4:2:0 baseline only", "as they come")
_LEAST_S = 4.0  # for one more point
_WORTH = 1.1  # a gain for which a default is changed


class Table:
    """Points as they are measured; none is measured twice, none begun without time for it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._points: list[dict[str, Any]] = []

    def point(self, name: str, files: list[bytes], setting: Setting) -> dict[str, Any] | None:
        """Images/s of a setting on a set."""
        for known in self._points:
            if known["set"] == name and all(known[key] == value for key, value in asdict(setting).items()):
                return known
        if self._context.left() < _LEAST_S:
            return None
        found: dict[str, Any] = {
            "set": name,
            **asdict(setting),
            **kept(partial(measured, files, setting, **self._context.rounds)),
        }
        self._points.append(found)
        self._context.record("points", self._points)
        return found

    def best_of(self, name: str, files: list[bytes], start: Setting, axis: str, values: Sequence[Any]) -> Setting:
        """The setting with the best of some values of one coordinate."""
        best, most = start, 0.0
        for value in values:
            setting = replace(start, **{axis: value})
            found = self.point(name, files, setting)
            if found is not None and not found.get("failed") and found["images_per_second"] > most:
                best, most = setting, found["images_per_second"]
        return best


def run(context: Context) -> None:
    """What decides about gpuimg's default first."""
    if not context.on_gpu:
        context.record("skipped", "needs a GPU")
        return
    counts = {"S": 256} if context.smoke else COUNTS
    sets = {name: context.photos(name, count) for name, count in counts.items()}
    start = Setting(threads=min(len(os.sched_getaffinity(0)), 16))
    context.record("images", {name: len(files) for name, files in sets.items()})
    context.record("start", asdict(start))
    table = Table(context)
    _ours(context, sets["S"], start)
    for name, files in sets.items():
        table.best_of(name, files, replace(start, batch=min(start.batch, len(files))), "load", LOADS)
    if not context.smoke:
        _further(context, table, sets, start)
    _chroma(context, sets["S"], start)


def _further(context: Context, table: Table, sets: dict[str, list[bytes]], start: Setting) -> None:
    """The best setting for set S, and which options are best with it on the others."""
    best = _descend(table, sets["S"], start)
    context.record("best on S", asdict(best))
    for name in ("M", "L", "P"):
        beginning = replace(best, batch=min(best.batch, len(sets[name])))
        table.best_of(name, sets[name], beginning, "options", list(OPTIONS.values()))


def _descend(table: Table, files: list[bytes], start: Setting) -> Setting:
    """One coordinate after another, the share once more at the end."""
    best = table.best_of("S", files, start, "load", LOADS)
    best = table.best_of("S", files, best, "decoders", (1, 2, 3))
    best = table.best_of("S", files, best, "threads", (16, 8, 4, 2, 1))
    best = table.best_of("S", files, best, "batch", (64, 128, 32, 256, 16))
    best = table.best_of("S", files, best, "options", list(OPTIONS.values()))
    return table.best_of("S", files, best, "load", LOADS)


def _ours(context: Context, files: list[bytes], start: Setting) -> None:
    """gpuimg's own decoder, and gpuimg's own call."""
    import gpuimg as gi

    found: dict[str, Any] = {"HARDWARE_SHARE": hardware_share(), "to make a decoder, ms": _to_make(start)}
    found["decoder of gpuimg"] = kept(lambda: measured(files, start, gpuimg_decoder, **context.rounds))
    context.record("gpuimg", found)

    def decode() -> None:
        for at in range(0, len(files), start.batch):
            gi.decode_batch(files[at : at + start.batch], device=context.device)
        synchronize(context.device)

    found["gpuimg.decode_batch"] = kept(lambda: rate(decode, len(files), **context.rounds))
    context.record("gpuimg", found)
    found["decoder of gpuimg, first call of one image"] = kept(
        lambda: measured(files, start, gpuimg_decoder, first_alone=True, **context.rounds)
    )
    context.record("gpuimg", found)


def _to_make(setting: Setting) -> list[float]:
    """Milliseconds of some constructions of gpuimg's decoder: each thread of each loop over a loader makes one."""
    taken = []
    for _ in range(3):
        begin = time.perf_counter()
        gpuimg_decoder(setting)
        taken.append(round(1e3 * (time.perf_counter() - begin), 1))
    return taken


def _chroma(context: Context, files: list[bytes], start: Setting) -> None:
    """Batches of one chroma subsampling against batches as they come, on each path of the hardware decoder."""
    from bench.gpu.order import is_common

    pure = [data for data in files if is_common(data)]
    mixed = files[: len(pure)]
    found: dict[str, Any] = {"images": len(pure)}
    for path in PATHS:
        for name, chosen in zip(_CHROMA, (pure, mixed), strict=True):
            if context.left() > _LEAST_S:
                setting = replace(start, options=OPTIONS[path])
                found[f"{path}, {name}"] = kept(partial(measured, chosen, setting, **context.rounds))
                context.record("chroma", found)


def recommended(points: list[dict[str, Any]]) -> dict[str, Any]:
    """The share that is best over the sets, by its rate as a part of the best share's there; all else as at first."""
    rates: dict[float, dict[str, float]] = {}
    for name in COUNTS:
        first = next((p for p in points if p["set"] == name), None)
        if first is None:
            continue
        others = {key: first[key] for key in ("threads", "decoders", "options", "batch")}
        for point in points:
            if (
                point["set"] == name
                and all(point[key] == value for key, value in others.items())
                and not point.get("failed")
            ):
                rates.setdefault(point["load"], {})[name] = point["images_per_second"]
    most = {name: max((each.get(name, 0.0) for each in rates.values()), default=0.0) for name in COUNTS}
    measured_sets = [name for name in COUNTS if most[name] > 0]
    scores = {
        load: round(float(np.mean([each[name] / most[name] for name in measured_sets])), 3)
        for load, each in rates.items()
        if all(name in each for name in measured_sets)
    }
    best = max(scores, key=lambda load: scores[load]) if scores else None
    return {"HARDWARE_SHARE": best, "scores": scores, "sets": measured_sets, "rates": rates}


def claims(results: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The default to choose, the best that was found, and what each choice does."""
    points = results.get("points", [])
    problems = [f"{_named(point)}: {point['error']}" for point in points if "error" in point]
    problems += [f"{_named(point)}: {point['failed']} images did not decode" for point in points if point.get("failed")]
    lines: list[str] = []
    ours = results.get("gpuimg", {})
    for name, row in ours.items():
        if isinstance(row, dict):
            problems += [f"{name}: {row['error']}"] if "error" in row else []
            lines.append(f"{name}, set S: {_rate(row)}")
    if "to make a decoder, ms" in ours:
        lines.append(f"to make gpuimg's decoder takes {ours['to make a decoder, ms']} ms, one after another")
    if points:
        lines += _default(points, ours)
        lines += ["", "| set | share | threads | batch | decoders | options | images/s | range | CPU s / 1,000 | n |"]
        lines += ["|---|---|---|---|---|---|---|---|---|---|", *map(_row, points), ""]
    lines += [
        f"chroma, {name}: {_rate(row)}" for name, row in results.get("chroma", {}).items() if isinstance(row, dict)
    ]
    return problems, lines


def _default(points: list[dict[str, Any]], ours: dict[str, Any]) -> list[str]:
    advice = recommended(points)
    lines = [
        f"**the default gpuimg should choose: HARDWARE_SHARE = {advice['HARDWARE_SHARE']}** (it is "
        f"{ours.get('HARDWARE_SHARE')}); rate as a part of the best share's, mean over "
        f"sets {', '.join(advice['sets'])}: "
        + ", ".join(f"{load}: {score}" for load, score in sorted(advice["scores"].items()))
    ]
    for name in COUNTS:
        of = [point for point in points if point["set"] == name]
        if of:
            best = max(of, key=lambda point: point["images_per_second"])
            lines.append(f"best on {name}: {_rate(best)}, with {_named(best)}")
    return lines


def _named(point: dict[str, Any]) -> str:
    options = next((name for name, text in OPTIONS.items() if text == point["options"]), point["options"])
    return (
        f"set {point['set']}, share {point['load']}, {point['threads']} threads, batch {point['batch']}, "
        f"{point['decoders']} decoders, {options}"
    )


def _rate(row: dict[str, Any]) -> str:
    if "range" not in row:
        return "not measured"
    low, high = row["range"]
    return f"{row['images_per_second']:,.0f} images/s ({low:,.0f} to {high:,.0f}, n = {row['rounds']})"


def _row(point: dict[str, Any]) -> str:
    options = next((name for name, text in OPTIONS.items() if text == point["options"]), point["options"])
    low, high = point.get("range", (0, 0))
    return (
        f"| {point['set']} | {point['load']} | {point['threads']} | {point['batch']} | {point['decoders']} | {options} "
        f"| {point['images_per_second']:,.0f} | {low:,.0f} to {high:,.0f} "
        f"| {point.get('cpu_seconds_per_1000_images', '')} | {point.get('rounds', 0)} |"
    )


def advice(results: dict[str, Any]) -> list[str]:
    """Threads, batch size and options to take."""
    points = [p for p in results.get("points", []) if p["set"] == "S" and "error" not in p and not p.get("failed")]
    if not points:
        return []
    first, best = points[0], max(points, key=lambda point: point["images_per_second"])
    gain = best["images_per_second"] / max(first["images_per_second"], 1e-9)
    said = [
        f"set {_named(best)}: {gain:.2f} times the first setting"
        if gain > _WORTH
        else f"leave threads, batches and options: the best point is {gain:.2f} times the first"
    ]
    pure, mixed = (
        results.get("chroma", {}).get(f"as it is, {name}", {}).get("images_per_second", 0.0) for name in _CHROMA
    )
    if pure and mixed:
        said.append(
            f"batches of one chroma subsampling decode {pure / mixed:.2f} times as fast: "
            + ("divide a batch by it before decoding" if pure / mixed > _WORTH else "leave batches as they come")
        )
    alone = (
        results.get("gpuimg", {}).get("decoder of gpuimg, first call of one image", {}).get("images_per_second", 0.0)
    )
    usual = results.get("gpuimg", {}).get("decoder of gpuimg", {}).get("images_per_second", 0.0)
    if alone and usual:
        said.append(
            f"after a first call of one image decoding runs at {alone / usual:.2f} of the usual rate: "
            + (
                "keep making a new decoder for larger batches"
                if alone < 0.9 * usual
                else "one decoder a thread is enough"
            )
        )
    return said
