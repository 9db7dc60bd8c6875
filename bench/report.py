"""Plots of the peer benchmark's results (needs matplotlib).

    python -m bench.report bench/results/peers.json [bench/results/peers-L.json ...] [--out docs]

One picture of images/s for each result, ``peers-S.png``, and, given several sets, one of the time of an image against
its size, ``peers-size.png``. Of ``load.json`` one of what a position costs against the size of the data set. And the
page that shows them, ``results.md``.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

OURS_COLOR, COLOR = "#1b7837", "#8c96a8"
SHOWN_OVER_SIZE = ("eval", "train")


def _plots() -> Any:
    """Matplotlib, drawing into files."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise SystemExit("the plots need matplotlib: pip install matplotlib") from None
    mpl.use("agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlesize": 10,
            "svg.hashsalt": "0",
        }
    )
    return plt


def _save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None}, pil_kwargs={"optimize": True})
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


def _machine(result: dict[str, Any]) -> str:
    machine = result["machine"]
    return f"{machine['processor']}, {machine['threads']} threads each"


def speeds(result: dict[str, Any], path: Path) -> None:
    """Bars of images/s, a panel for each work."""
    plt = _plots()
    peers, works = result["peers"], result["works"]
    present = {work: [name for name in peers if entries.get(name)] for work, entries in works.items()}
    heights = [max(len(names), 1) for names in present.values()]
    figure, panels = plt.subplots(
        len(works),
        1,
        figsize=(7.2, 0.24 * sum(heights) + 0.55 * len(works) + 0.6),
        height_ratios=heights,
        layout="constrained",
        squeeze=False,
        sharex=True,
    )
    for panel, (work, names) in zip(panels[:, 0], present.items(), strict=True):
        rates = [works[work][name]["images_per_second"] for name in names]
        colors = [OURS_COLOR if name.startswith("gpuimg") else COLOR for name in names]
        panel.barh(range(len(names)), rates, color=colors, height=0.72)
        for y, rate in enumerate(rates):
            panel.text(rate, y, f" {rate:,}", va="center", fontsize=8)
        panel.set_yticks(range(len(names)), [peers[name]["name"] for name in names])
        panel.invert_yaxis()
        panel.set_title(work, loc="left", fontweight="bold")
        panel.tick_params(axis="y", length=0)
    panels[-1, 0].set_xlabel("images/s (more is better)")
    panels[-1, 0].margins(x=0.1)
    photos = result["photos"]
    figure.suptitle(
        f"Set {photos['set']}: {photos['mean_megapixels']} megapixels on average; {_machine(result)}", fontsize=9
    )
    _save(figure, path)
    plt.close(figure)


def costs(results: list[dict[str, Any]], path: Path) -> None:
    """Milliseconds of an image against its megapixels, a line for each peer."""
    plt = _plots()
    works = [work for work in SHOWN_OVER_SIZE if all(work in result["works"] for result in results)]
    if not works:
        print("no work is in all of the results")
        return
    figure, panels = plt.subplots(
        1, len(works), figsize=(4.6 * len(works), 4.0), layout="constrained", squeeze=False, sharey=True
    )
    names = list(dict.fromkeys(name for result in results for name in result["peers"]))
    styles = dict(zip(names, "os^vDP*X<>ph", strict=False))
    for panel, work in zip(panels[0], works, strict=True):
        for k, name in enumerate(names):
            points = [
                (result["photos"]["mean_megapixels"], 1000 / result["works"][work][name]["images_per_second"])
                for result in results
                if result["works"][work].get(name)
            ]
            if points:
                ours = name.startswith("gpuimg")
                label = next(result["peers"][name]["name"] for result in results if name in result["peers"])
                panel.plot(
                    *zip(*points, strict=True),
                    marker=styles.get(name, "."),
                    markersize=5,
                    linewidth=2.2 if ours else 1.1,
                    linestyle="-" if name != "gpuimg.load" else "--",
                    color=OURS_COLOR if ours else f"C{k}",
                    label=label,
                )
        panel.set_xscale("log")
        panel.set_yscale("log")
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_major_formatter("{x:g}")
        panel.set_title(work, loc="left", fontweight="bold")
        panel.set_xlabel("megapixels of a photo")
        panel.grid(True, which="major", linewidth=0.4)
    panels[0, 0].set_ylabel("ms for an image (less is better)")
    panels[0, -1].legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.suptitle(_machine(results[0]), fontsize=9)
    _save(figure, path)
    plt.close(figure)


def positions(result: dict[str, Any], path: Path) -> None:
    """Milliseconds to shuffle, shard and resume against the number of samples."""
    plt = _plots()
    points = result["positions"]
    samples = [point["samples"] for point in points]
    figure, panel = plt.subplots(figsize=(5.6, 3.4), layout="constrained")
    for key, label, color in (
        ("numpy_permutation_ms", "a permutation that is held (NumPy)", COLOR),
        ("resume_and_first_batch_order_ms", "gpuimg.load: resume, order of a batch", OURS_COLOR),
    ):
        panel.plot(samples, [point[key] for point in points], marker="o", color=color, label=label)
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.yaxis.set_major_formatter("{x:g}")
    panel.set_xlabel("samples of the data set")
    panel.set_ylabel("ms at each start (less is better)")
    panel.grid(True, which="major", linewidth=0.4)
    panel.legend(frameon=False, fontsize=8)
    figure.suptitle(_machine(result), fontsize=9)
    _save(figure, path)
    plt.close(figure)


def seek(result: dict[str, Any], path: Path) -> None:
    """Images/s of ``train``, and bytes of the seek index, for each number of MCUs from one entry to the next."""
    plt = _plots()
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
    figure.suptitle(f"Seek index; {_machine(result)}", fontsize=9)
    _save(figure, path)
    plt.close(figure)


def page(results: list[dict[str, Any]], load: dict[str, Any] | None, path: Path) -> None:
    """A page with the pictures and the numbers behind them."""
    lines = ["# Results", "", "Made by `make bench` (`python -m bench.report`) from the files in `bench/results`.", ""]
    lines += [f"All on {_machine(results[0])}; a virtual machine that others share, so look at the ranges there."]
    lines += ["On a GPU: not measured.", "", "## Beside other libraries", ""]
    lines += [
        "How many times faster gpuimg was in the same round, median of the rounds. Photos, batches, ranges and what",
        "each library does differently are in `bench/results/peers-*.md`.",
        "",
    ]
    names = list(dict.fromkeys(name for result in results for name in result["peers"] if name != "gpuimg"))
    titles = {name: result["peers"][name]["name"] for result in results for name in result["peers"]}
    lines += [
        "| photos | work | gpuimg, images/s | " + " | ".join(titles[name] for name in names) + " |",
        "|---" * (len(names) + 3) + "|",
    ]
    for result in results:
        photos = result["photos"]
        for work, entries in result["works"].items():
            if entries.get("gpuimg"):
                cells = [f"{entries[n]['gpuimg_over_this']:.2f}" if entries.get(n) else "-" for n in names]
                size = f"{photos['set']}, {photos['mean_megapixels']:.2g} MPix"
                rate = f"{entries['gpuimg']['images_per_second']:,}"
                lines.append(f"| {size} | {work} | {rate} | " + " | ".join(cells) + " |")
    lines += [
        "",
        *(f"![images/s, set {result['photos']['set']}](peers-{result['photos']['set']}.png)" for result in results),
    ]
    if len(results) > 1:
        lines += ["", "![milliseconds of an image against its size](peers-size.png)"]
    if load is not None:
        lines += [
            "",
            "## The loader",
            "",
            "Against calling the same functions directly on bytes in memory, same threads:",
            "",
        ]
        lines += ["| | images/s | of direct | range |", "|---|---|---|---|"]
        for name, entry in load["throughput"].items():
            low, high = entry["range"]
            lines.append(
                f"| {name} | {entry['images_per_second']:,} | {entry['of_direct']:.2f} | {low:.2f} to {high:.2f} |"
            )
        over = load["overlap"]
        lines += [
            "",
            f"With a consumer that takes as long as the producer, {over['batches']} batches took "
            f"{over['wall_of_longer']:.2f} times as long as either alone "
            f"({over['range'][0]:.2f} to {over['range'][1]:.2f}).",
            "",
            "![what a position costs](positions.png)",
        ]
    path.write_text("\n".join(lines) + "\n")
    print(path)


def main() -> None:
    """Draw what the results hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs")
    options = parser.parse_args()
    files = [json.loads(path.read_text()) for path in options.results]
    load = next((one for one in files if "positions" in one), None)
    results = [one for one in files if "works" in one]
    results.sort(key=lambda result: float(result["photos"]["mean_megapixels"]))
    for one in files:
        if "every" in one:
            seek(one, options.out / "seek-index.png")
    if load is not None:
        positions(load, options.out / "positions.png")
    for result in results:
        speeds(result, options.out / f"peers-{result['photos']['set']}.png")
    if len(results) > 1:
        costs(results, options.out / "peers-size.png")
    if results:
        page(results, load, options.out / "results.md")


if __name__ == "__main__":
    main()
