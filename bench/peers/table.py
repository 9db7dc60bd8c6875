"""A result of the peer benchmark as Markdown."""

from __future__ import annotations

from typing import Any

from bench.peers.base import WORKS


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [_row(head), _row(["---"] * len(head)), *map(_row, rows), ""]


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return f"{value['own']:,} ({value['with_all_it_needs']:,})"
    if isinstance(value, str):
        return "failed" if value.startswith("failed") else value
    return "-" if value is None else f"{value:,}"


def _differences(result: dict[str, Any], peers: dict[str, Any]) -> list[list[str]]:
    rows = []
    for work, found in result["checks"].items():
        values = [found.get(name) for name in peers]
        if any(isinstance(value, dict) and "mean_difference_in_levels" in value for value in values):
            cells = [_cell(value["mean_difference_in_levels"]) if isinstance(value, dict) else "-" for value in values]
            rows.append([f"{work}: mean difference to gpuimg, levels of 255", *cells])
    return rows


def _cpu(result: dict[str, Any], peers: dict[str, Any]) -> list[list[str]]:
    rows = []
    for work, entries in result["works"].items():
        cells = [entries[name]["cpu_seconds_per_1000_images"] if entries.get(name) else None for name in peers]
        rows.append([f"{work}: CPU seconds for 1,000 images", *map(_cell, cells)])
    return rows


def details(result: dict[str, Any]) -> list[str]:
    """Return lines of Markdown: a table of costs, CPU time and differences, and what peers do differently."""
    peers = result["peers"]
    costs = {
        "import_seconds": "import, seconds",
        "first_batch_cold_seconds": "import to first batch of train, from the disk, seconds",
        "first_batch_seconds": "import to first batch of train, seconds",
        "peak_mib": "peak memory, MiB",
        "installed_megabytes": "installed, MB (with all it needs)",
    }
    lines = _table(
        ["", *(f"{peer['name']} {peer['version']}" for peer in peers.values())],
        [
            *(
                [label, *(_cell(peer.get(key)) for peer in peers.values())]
                for key, label in costs.items()
                if any(key in peer for peer in peers.values())
            ),
            *_cpu(result, peers),
            *_differences(result, peers),
        ],
    )
    lines += [f"- {work}: {WORKS[work]}." for work in result["works"]]
    for peer in peers.values():
        if peer["notes"]:
            lines.append(f"- {peer['name']}: {peer['notes']}.")
        lines += [
            f"- {peer['name']}, {work}: {reason}." for work, reason in peer["lacks"].items() if len(peer["lacks"]) < 4
        ]
        lines += [f"- {peer['name']}, {work}, failed: {reason}." for work, reason in peer["failed"].items()]
    return lines + [f"- {name} was not run: {reason}." for name, reason in result["not_run"].items()]
