"""The plot of docs/prepare.md (needs matplotlib).

python -m bench.report bench/results/seek.json [--out docs/seek-index.png]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

OURS_COLOR, COLOR = "#1b7837", "#8c96a8"


def draw(result: dict[str, Any], path: Path) -> None:
    """Plot images/s of ``train``, and bytes of the seek index, by the number of MCUs between recorded starts."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise SystemExit("the plot needs matplotlib: pip install matplotlib") from None
    mpl.use("agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "0"})
    figure, (speed, size) = plt.subplots(1, 2, figsize=(8.4, 3.2), layout="constrained")
    for color, (photos, entries) in zip((OURS_COLOR, "C1"), result["every"].items(), strict=True):
        names = [name for name in entries if name != "none"]
        low, high = zip(*(entries[name]["range"] for name in names), strict=True)
        ratios = [entries[name]["over_none"] for name in names]
        speed.plot(names, ratios, marker="o", color=color, label=photos)
        speed.fill_between(names, low, high, color=color, alpha=0.12, linewidth=0)
        size.plot(names, [entries[name]["percent_of_files"] for name in names], marker="o", color=color, label=photos)
    speed.axhline(1.0, color=COLOR, linewidth=0.8)
    speed.set_ylabel("train, images/s over those without")
    size.set_yscale("log")
    size.yaxis.set_major_formatter("{x:g}")
    size.set_ylabel("bytes, % of the photos'")
    for panel in (speed, size):
        panel.set_xlabel("an entry every k MCUs of a row")
        panel.grid(True, which="major", linewidth=0.4)
    size.legend(frameon=False, fontsize=8)
    machine = result["machine"]
    figure.suptitle(f"Seek index; {machine['processor']}, {machine['threads']} threads each", fontsize=9)
    figure.savefig(path, dpi=110, metadata={"Software": None}, pil_kwargs={"optimize": True})
    plt.close(figure)


def main() -> None:
    """Draw the plot of a result file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "seek-index.png")
    options = parser.parse_args()
    draw(json.loads(options.results.read_text()), options.out)


if __name__ == "__main__":
    main()
