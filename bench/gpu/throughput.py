"""Throughput from files, as bytes and in the page cache, to finished batches: gpuimg, and decoding alone."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gpuimg as gi
from bench.gpu.chains import CHAINS, DTYPE, LAYOUT, SIZE
from bench.gpu.child import Context
from bench.gpu.jpeg import with_index
from bench.gpu.measure import attempted, wait_for_stream
from bench.gpu.paths import best_decode
from bench.gpu.rows import HEAD, cells, own_rate
from bench.gpu.targets import BY_NVIMAGECODEC, DECODE_BATCH
from bench.photos import write_classes
from gpuimg.typing import Decoder

BATCH = 64
ROUND = 2048  # images of a round of the loader
WORKS = ("train", "train+rotate+color")
_LEAST_S = 5.0


@dataclass(frozen=True)
class Loading:
    """Settings of the loader."""

    decoders: int = 2
    prefetch: int = 2
    readers: int = 4

    def __str__(self) -> str:
        """Return the settings for the table."""
        return f"{self.decoders} decoders, prefetch {self.prefetch}, {self.readers} readers"


class Rows:
    """Measured rates by name."""

    def __init__(self, context: Context, key: str, files: list[bytes], batch: int) -> None:
        self.context = context
        self.files = files
        self.batch = batch
        self._key = key
        self.rows: dict[str, Any] = {}

    def add(self, name: str, run: Callable[[], object], images: int | None = None) -> float:
        """Measure a rate; return its images/s, 0 after an error."""
        if self.context.left() < _LEAST_S:
            return 0.0
        return self.keep(name, attempted(lambda: self.rated(run, images or len(self.files))))

    def rated(self, run: Callable[[], object], images: int, **options: Any) -> dict[str, Any]:
        """Measure a rate."""
        return own_rate(self.context.device, run, images, self.batch, **options | self.context.rounds)

    def keep(self, name: str, found: dict[str, Any]) -> float:
        """Add a row; return its images/s."""
        self.rows[name] = found
        self.context.record(self._key, self.rows)
        return float(found["images_per_second"])


def run(context: Context) -> None:
    """Measure all of set S, then larger batches and photos."""
    files = context.photos("S", 256)
    batch = min(BATCH, len(files))
    context.record("batch", batch)
    context.record("best decoding of set S", best_decode(context.out))
    with tempfile.TemporaryDirectory() as name, with_index(files) as index:
        paths = write_classes(files, Path(name))
        best = Loading()
        for work in WORKS:
            rows = Rows(context, f"S, {work}", files, batch)
            _direct(rows, work, paths)
            best = _loaded(rows, work, best)
            _load(rows, f"gpuimg.load, {best}, from files", gi.folder(Path(name)), work, best)
            _indexed(rows, work, best, index)
        if not context.smoke:
            large = Rows(context, f"S, train, batch {min(256, len(files))}", files, min(256, len(files)))
            for rows in (large, Rows(context, "P, train", context.photos("P", 128), batch)):
                _direct(rows, "train", None)
                _memory(rows, "train", best)
            _indexed(large, "train", best, index)


def _memory_of(device: str, batch: int) -> Any:
    """Return a result array that all batches reuse."""
    if device == "cpu":
        import numpy as np

        return np.zeros((batch, 3, SIZE, SIZE), DTYPE)
    import cupy

    return cupy.zeros((batch, 3, SIZE, SIZE), DTYPE)


def _direct(rows: Rows, work: str, paths: list[str] | None) -> None:
    """Measure the functions, one batch after another, and decoding alone."""
    device, batch = rows.context.device, rows.batch
    out = _memory_of(device, batch)
    number = itertools.count()

    def decode(decoder: Decoder) -> None:
        for at in range(0, len(rows.files), batch):
            gi.decode_batch(rows.files[at : at + batch], device=device, decoder=decoder)
        wait_for_stream(device)

    def functions(sources: list[Any]) -> None:
        epoch = next(number)
        for at in range(0, len(sources), batch):
            x = gi.open_batch(sources[at : at + batch], device=device)
            rng = gi.Rng(0, epoch=epoch, indices=range(at, at + len(x)))
            CHAINS[work](x, rng).array(DTYPE, LAYOUT, out=out[: len(x)])
        wait_for_stream(device)

    rows.add(DECODE_BATCH, lambda: decode("auto"))
    if rows.context.on_gpu:
        rows.add(BY_NVIMAGECODEC, lambda: decode("nvimagecodec"))
    rows.add("gpuimg, functions", lambda: functions(rows.files))
    if paths is not None:
        rows.add("gpuimg, functions, from files", lambda: functions(list(paths)))


def _loader(rows: Rows, source: Any, work: str, loading: Loading, epochs: int | None, **options: Any) -> Any:
    return gi.load(
        source, CHAINS[work], batch_size=rows.batch, device=rows.context.device, dtype=DTYPE, layout=LAYOUT,
        shuffle=True, epochs=epochs, drop_last=True, decoders=loading.decoders, prefetch=loading.prefetch,
        readers=loading.readers, **options,
    )  # fmt: skip


def _load(rows: Rows, name: str, source: Any, work: str, loading: Loading, **options: Any) -> float:
    """Measure the running loader, with its threads and queues as in the middle of an epoch."""
    count = 2 if rows.context.smoke else -(-ROUND // rows.batch)
    if rows.context.left() < _LEAST_S:
        return 0.0

    def measure() -> dict[str, Any]:
        with contextlib.closing(iter(_loader(rows, source, work, loading, None, **options))) as batches:

            def some() -> None:
                for _ in range(count):
                    next(batches)
                wait_for_stream(rows.context.device)

            return rows.rated(some, count * rows.batch, passes=1)

    return rows.keep(name, attempted(measure))


def _memory(rows: Rows, work: str, loading: Loading) -> float:
    """Measure the loader on bytes."""
    return _load(rows, f"gpuimg.load, {loading}", _bytes(rows), work, loading)


def _indexed(rows: Rows, work: str, loading: Loading, index: Any) -> None:
    """Measure the loader on bytes with a seek index."""
    _load(rows, f"gpuimg.load, index, {loading}", _bytes(rows), work, loading, index=index)


def _bytes(rows: Rows) -> list[tuple[bytes, int]]:
    """Return the files as a source."""
    return [(data, i) for i, data in enumerate(rows.files)]


def _loaded(rows: Rows, work: str, start: Loading) -> Loading:
    """Vary one setting of the loader after another for the first work, with a whole loop for each."""
    best, most = start, _memory(rows, work, start)
    if work == WORKS[0] and not rows.context.smoke:
        for name, values in (("decoders", (1, 3)), ("prefetch", (4,)), ("readers", (2, 8))):
            for value in values:
                tried = replace(best, **{name: value})
                found = _memory(rows, work, tried)
                if found > most:
                    best, most = tried, found
    epochs = 1 if rows.context.smoke else -(-ROUND // len(rows.files))
    loader = _loader(rows, _bytes(rows), work, best, epochs)

    def loop() -> None:
        for _ in loader:
            pass
        wait_for_stream(rows.context.device)

    images = epochs * (len(rows.files) // rows.batch) * rows.batch
    rows.add(f"gpuimg.load, {best}, a loop of {images:,} images", loop, images)
    return best


def claims(results: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return images/s compared with decoding alone."""
    problems: list[str] = []
    best = results.get("best decoding of set S", 0.0)
    lines = [f"the best decoders' setting for set S decodes {best:,.0f} images/s"] if best else []
    for key, rows in results.items():
        if not isinstance(rows, dict) or not any(isinstance(row, dict) for row in rows.values()):
            continue
        base = next((row["images_per_second"] for name, row in rows.items() if name.startswith("decode alone")), 0)
        problems += [f"{key}, {name}: {row['error']}" for name, row in rows.items() if "error" in row]
        good = [_row(name, row, base) for name, row in rows.items() if "error" not in row]
        if good:
            lines += ["", f"| {key} | images/s | range | of decode alone | CPU s / 1,000 | {HEAD} | n |"]
            lines += ["|---|---|---|---|---|---|---|---|", *good, ""]
    return problems, lines


def _row(name: str, row: dict[str, Any], base: float) -> str:
    low, high = row["range"]
    of = f"{row['images_per_second'] / base:.2f}" if base else ""
    return (
        f"| {name} | {row['images_per_second']:,.0f} | {low:,.0f} to {high:,.0f} | {of} "
        f"| {row['cpu_seconds_per_1000_images']} | {cells(row)} | {row['rounds']} |"
    )
