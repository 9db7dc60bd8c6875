"""Targets of the GPU path, and whether the measurements meet them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.gpu.harness import Result

# Names of rows, which the parts import from here: this module imports nothing that may be broken.
LOADER, INDEXED, NVIMAGECODEC = "gpuimg.load-gpu", "gpuimg.load-gpu-index", "gpuimg.load-gpu-nvimagecodec"
DALI = "dali-mixed"
DECODE_BATCH = "decode alone: gpuimg.decode_batch"
BY_NVIMAGECODEC = f"{DECODE_BATCH}, nvImageCodec"
KERNELS = "kernels"
PYTHON = "bytes to train batches with a busy thread"
WITHOUT_INDEX = ", without an index"


@dataclass(frozen=True)
class Target:
    """A number to reach: at least, or at most; and where to find it in the results of the parts."""

    what: str
    number: float
    unit: str
    measured: Callable[[dict[str, Any]], float | None]
    at_most: bool = False

    def row(self, results: dict[str, Any]) -> str:
        """Return the row of a table."""
        found = self.measured(results)
        bound = f"at {'most' if self.at_most else 'least'} {self.number:,g}{self.unit}"
        if found is None:
            return f"| {self.what} | {bound} | not measured | |"
        met = found <= self.number if self.at_most else found >= self.number
        return f"| {self.what} | {bound} | {_rounded(found)}{self.unit} | {'yes' if met else '**no**'} |"


def _rounded(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.2f}"


def _rates(rows: dict[str, Any], *starts: str) -> list[float]:
    """Return images/s of the rows whose names start so."""
    return [row["images_per_second"] for name, row in rows.items() if name.startswith(starts) and "error" not in row]


def _decode_batch(name: str) -> Callable[[dict[str, Any]], float | None]:
    def measured(results: dict[str, Any]) -> float | None:
        best = results.get("throughput", {}).get("best decoding of set S", 0.0)
        tables = [rows for key, rows in results.get("throughput", {}).items() if key.startswith("S, train")]
        own = [row["images_per_second"] for rows in tables for key, row in rows.items() if key == name]
        return max(own) / best if best and own else None

    return measured


def _kernels(ending: str) -> Callable[[dict[str, Any]], float | None]:
    def measured(results: dict[str, Any]) -> float | None:
        return max(_rates(results.get("jpeg", {}).get("rates", {}), f"{KERNELS}{ending}, batch"), default=None)

    return measured


def _over_dali(*peers: str) -> Callable[[dict[str, Any]], float | None]:
    def measured(results: dict[str, Any]) -> float | None:
        found = []
        for work, rows in results.get("peers", {}).get("works", {}).items():
            own = [rows[name]["images_per_second"] for name in peers if name in rows]
            theirs = rows.get(DALI, {}).get("images_per_second", 0.0)
            if work.startswith("train, ") and own and theirs:
                found.append(max(own) / theirs)
        return max(found, default=None)

    return measured


def _python(results: dict[str, Any]) -> float | None:
    rows = results.get("jpeg", {}).get("rates", {})
    found = [
        row["microseconds_an_image"]
        for name, row in rows.items()
        if name.startswith(f"{PYTHON}{WITHOUT_INDEX}") and "microseconds_an_image" in row
    ]
    return min(found, default=None)


TARGETS = [
    Target("`decode_batch`, of nvImageCodec's best setting", 0.95, "", _decode_batch(DECODE_BATCH)),
    Target('the same with `decoder="nvimagecodec"`', 0.95, "", _decode_batch(BY_NVIMAGECODEC)),
    Target("kernels, with a seek index", 50_000, " photos/s", _kernels("")),
    Target("kernels, without an index", 40_000, " photos/s", _kernels(WITHOUT_INDEX)),
    Target('`gpuimg.load` with `decoder="nvimagecodec"`, of DALI\'s rate', 1.2, "", _over_dali(NVIMAGECODEC)),
    Target("`gpuimg.load` with its own kernels, of DALI's rate", 2.0, "", _over_dali(LOADER, INDEXED)),
    Target("Python for a photo without an index", 12.0, " us", _python, at_most=True),
]


def table(found: dict[str, Result]) -> list[str]:
    """Return targets, measured numbers, and whether they are met; each is the best of its batch sizes."""
    results = {name: part.get("results") or {} for name, part in found.items()}
    lines = ["| target | | measured | met |", "|---|---|---|---|"]
    for target in TARGETS:
        try:
            lines.append(target.row(results))
        except Exception as error:  # of results that are not what they should be, which must not lose the report
            lines.append(f"| {target.what} | | {type(error).__name__}: {error} | |")
    return lines
