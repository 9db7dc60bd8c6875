"""Agreement of the GPU's results with the CPU's: every function, and random chains of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import gpuimg as gi
from bench.gpu.child import Context
from bench.gpu.measure import to_device, to_host

FLOAT_LIMIT = 1e-4  # of the range 0 to 1
SHARE_LIMIT = 0.001  # of the values may be further off: they lie on the edge of a level or of a pixel
IMAGES = 26  # of a function: each of the tests' awkward sizes twice
CHAIN_IMAGES = 6
CHAINS = 200
_CHAINS_LEAST_S = 3.0
_WORST = 12  # listed


@dataclass
class Difference:
    """Differences between the results of one device and the other's."""

    values: int = 0
    worst: float = 0.0
    beyond: int = 0
    byte_values: int = 0
    worst_byte: int = 0
    bytes_beyond_1: int = 0
    errors: list[str] = field(default_factory=list)

    def add_floats(self, results: Iterable[Any], expected: Iterable[Any]) -> None:
        """Add float32 results."""
        for a, e in zip(results, expected, strict=True):
            one, other = to_host(a), to_host(e)
            if one.shape != other.shape:
                self.errors.append(f"shape {one.shape}, not {other.shape}")
                continue
            difference = np.abs(one.astype(np.float64) - other)
            alike = np.where(one == other, 0.0, np.inf)  # of values that are not finite
            difference = np.where(np.isfinite(one) & np.isfinite(other), difference, alike)
            self.values += difference.size
            self.worst = max(self.worst, float(difference.max(initial=0.0)))
            self.beyond += int((difference > FLOAT_LIMIT).sum())

    def add_bytes(self, results: Iterable[Any], expected: Iterable[Any]) -> None:
        """Add uint8 results."""
        for a, e in zip(results, expected, strict=True):
            one, other = to_host(a), to_host(e)
            if one.shape != other.shape:
                continue  # reported with the floats
            difference = np.abs(one.astype(int) - other.astype(int))
            self.byte_values += difference.size
            self.worst_byte = max(self.worst_byte, int(difference.max(initial=0)))
            self.bytes_beyond_1 += int((difference > 1).sum())

    def result(self) -> dict[str, Any]:
        """Return the differences as numbers."""
        return {
            "values": self.values,
            "largest_difference": self.worst,
            "share_beyond_1e-4": self.beyond / max(self.values, 1),
            "uint8_values": self.byte_values,
            "uint8_largest_difference": self.worst_byte,
            "uint8_share_beyond_1": self.bytes_beyond_1 / max(self.byte_values, 1),
            "errors": self.errors[:3],
        }


def compare(difference: Difference, result: gi.Batch, expected: gi.Batch) -> None:
    """Compare both as float32 and, if they are in range, as uint8."""
    difference.add_floats(result.compute("float32"), expected.compute("float32"))
    if not expected.normalized:
        difference.add_bytes(result.compute("uint8"), expected.compute("uint8"))


def run(context: Context) -> None:
    """Compare functions, then chains."""
    _functions(context)
    _chains(context)


def _functions(context: Context) -> None:
    from tests.calls import CALLS
    from tests.samples import KINDS, images

    table = {}
    for name, call in CALLS.items():
        difference = Difference()
        for dtype, channels in KINDS[-1:] if context.smoke else KINDS:
            rng = np.random.default_rng(7)
            pictures = images(rng, dtype, channels, 4 if context.smoke else IMAGES)
            each = call.each(rng, len(pictures), 255.0 if dtype == "uint8" else 1.0)
            try:
                result = call.run(to_device(pictures, context.device), each)
                compare(difference, result, call.run(pictures, each))
            except Exception as error:
                difference.errors.append(f"{dtype}, {channels} channels: {type(error).__name__}: {error}"[:300])
        table[name] = difference.result()
        context.record("functions", table)


def _chains(context: Context) -> None:
    """Compare chains drawn as by the property tests, each on new images."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import strategies as st

    from tests.properties import chains
    from tests.samples import images

    table: list[dict[str, Any]] = []
    refused = 0

    @settings(
        max_examples=5 if context.smoke else CHAINS,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def draw(data: Any) -> None:
        nonlocal refused
        if context.left() < _CHAINS_LEAST_S:
            return
        dtype, seed = data.draw(st.sampled_from(["uint8", "float32"])), data.draw(st.integers(0, 2**32))
        steps = data.draw(chains.chains(CHAIN_IMAGES, dtype))
        pictures = images(np.random.default_rng(seed), dtype, 3, CHAIN_IMAGES)
        difference = Difference()
        try:
            expected = chains.run(steps, pictures, gi.Rng(seed, indices=range(CHAIN_IMAGES)))
            expected.compute("float32")  # kept by the batch
        except (ValueError, TypeError):
            refused += 1  # by the functions' own rules: an image that is too small
            return
        try:
            rng = gi.Rng(seed, indices=range(CHAIN_IMAGES))
            compare(difference, chains.run(steps, to_device(pictures, context.device), rng), expected)
        except Exception as error:
            difference.errors.append(f"{type(error).__name__}: {error}"[:300])
        table.append({"chain": [step.name for step in steps], "dtype": dtype, "seed": seed, **difference.result()})

    draw()
    table.sort(key=lambda row: (len(row["errors"]), row["share_beyond_1e-4"], row["largest_difference"]), reverse=True)
    context.record(
        "chains",
        {
            "count": len(table),
            "refused": refused,
            "with_errors": sum(bool(row["errors"]) for row in table),
            "beyond_the_limit": sum(row["share_beyond_1e-4"] > SHARE_LIMIT for row in table),
            "median_largest_difference": float(np.median([row["largest_difference"] for row in table] or [0.0])),
            "worst": table[:_WORST],
        },
    )


def _beyond(row: dict[str, Any]) -> bool:
    return bool(row["errors"]) or row["share_beyond_1e-4"] > SHARE_LIMIT or row["uint8_share_beyond_1"] > SHARE_LIMIT


def claims(results: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the disagreements of the devices, and the largest differences."""
    problems, lines = [], []
    functions = results.get("functions", {})
    for name, row in functions.items():
        if _beyond(row):
            problems.append(f"{name}: {_said(row)}")
    if functions:
        worst = max(functions, key=lambda name: functions[name]["largest_difference"])
        values = sum(row["values"] for row in functions.values())
        lines.append(
            f"{len(functions)} functions, {values} values: the largest difference is "
            f"{functions[worst]['largest_difference']:.2g} ({worst}); "
            f"{sum(_beyond(row) for row in functions.values())} functions are beyond the limits: {FLOAT_LIMIT:g}, "
            f"and 1 as uint8, on all but {SHARE_LIMIT:.1%} of the values"
        )
        lines += ["", "| function | largest difference | share > 1e-4 | uint8 share > 1 |", "|---|---|---|---|"]
        ordered = sorted(functions.items(), key=lambda item: item[1]["largest_difference"], reverse=True)
        lines += [
            f"| {name} | {row['largest_difference']:.2g} | {row['share_beyond_1e-4']:.2g} "
            f"| {row['uint8_share_beyond_1']:.2g} |"
            for name, row in ordered[:_WORST]
        ] + [""]  # fmt: skip
    chains = results.get("chains")
    if chains:
        problems += [
            f"chain {', '.join(row['chain'])} ({row['dtype']}): {_said(row)}" for row in chains["worst"] if _beyond(row)
        ]
        lines.append(
            f"{chains['count']} random chains ({chains['refused']} more were refused): {chains['beyond_the_limit']} "
            f"beyond the limit, {chains['with_errors']} failed; the median chain's largest difference is "
            f"{chains['median_largest_difference']:.2g}"
        )
    return problems, lines


def _said(row: dict[str, Any]) -> str:
    if row["errors"]:
        return "; ".join(row["errors"])
    return (
        f"off by up to {row['largest_difference']:.2g}, {row['share_beyond_1e-4']:.2%} of the values by more than "
        f"1e-4; as uint8 {row['uint8_share_beyond_1']:.2%} by more than 1"
    )
