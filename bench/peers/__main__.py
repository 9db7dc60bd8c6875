"""gpuimg and its peers on the same works: same photos, same threads, same run.

    python -m bench.peers [--set S] [--rounds 5] [--works decode,eval] [--peers gpuimg,dali] [--threads 2]
                          [--out bench/results/peers.json]

Each peer has a separate process; they take turns, one epoch each, in an order that rotates by one every round. The
first round warms up. Before that the outputs are checked against gpuimg's: decode and eval by their difference in
levels, the random works for shape, dtype and range. Medians of the rounds; a ratio is that of one round's times.

The result also has each peer's CPU time and peak memory (worker processes included), import time, time to the first
batch, and installed size. Failed and missing peers are named with the reason, and do not stop the others. The pages
have the tables (``python -m bench.page``).
"""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench import common, photos
from bench.peers import costs
from bench.peers.base import WORKS
from bench.peers.race import Race
from bench.peers.registry import CPU, GPU, PEERS, peer_class


def no_gpu() -> str | None:
    """Return the reason why the peers on a GPU cannot run."""
    if not any(Path("/dev").glob("nvidia[0-9]*")):
        return "no NVIDIA GPU"
    return None if find_spec("cupy") else "CuPy is not installed"


def _costs(name: str, work: str, threads: int, batch: int, files: Path, tries: int) -> dict[str, Any]:
    """Measure costs one by one, so that a failure does not lose the others."""
    measures: dict[str, Callable[[], Any]] = {
        "import_seconds": lambda: costs.import_seconds(name, threads, tries),
        "first_batch_cold_seconds": lambda: costs.cold_seconds(name, work, threads, batch, files),
        "first_batch_seconds": lambda: costs.first_batch_seconds(name, work, threads, batch, files, tries),
        "peak_mib": lambda: costs.peak_mib(name, work, threads, batch, files),
        "installed_megabytes": lambda: costs.installed_megabytes(peer_class(name)),
    }
    result: dict[str, Any] = {}
    for measure, function in measures.items():
        try:
            result[measure] = function()
        except Exception as error:
            result[measure] = f"failed: {error}"
    return result


def measure(
    files: list[bytes],
    names: list[str],
    works: list[str],
    rounds: int,
    threads: int,
    batch: int,
    costs_too: bool = True,
) -> dict[str, Any]:
    """Measure everything in a result except the environment; costs take longer than the works."""
    not_run: dict[str, str] = {}
    if reason := no_gpu():
        not_run = {name: reason for name in names if name in GPU}
    with tempfile.NamedTemporaryFile(suffix=".pickle") as file:
        pickle.dump(files, file)
        file.flush()
        path = Path(file.name)
        with Race([name for name in names if name not in not_run], threads, batch, path) as race:
            result = race.run(works, rounds, len(files))
        for name, peer in result["peers"].items() if costs_too else ():
            print(f"costs: {name}", flush=True)
            work = "train" if "train" not in peer["lacks"] else "decode"
            peer["costs_of"] = work
            peer.update(_costs(name, work, threads, batch, path, min(rounds, 3)))
    result["not_run"] = {**not_run, **result["not_run"]}
    return result


def _listed(text: str | None, allowed: list[str]) -> list[str]:
    chosen = allowed if text is None else [part.strip() for part in text.split(",")]
    unknown = [name for name in chosen if name not in allowed]
    if unknown:
        raise SystemExit(f"unknown: {', '.join(unknown)}; there are {', '.join(allowed)}")
    return chosen


def main(command: list[str] | None = None) -> None:
    """Measure, print, and write the result and its table."""
    parser = common.arguments(__doc__, "peers.json", rounds=5)
    parser.add_argument("--set", choices=list(photos.SETS), default="S")
    parser.add_argument("--count", type=int, help="use only the first files of the set, for a try")
    parser.add_argument("--works", help=f"some of {','.join(WORKS)}")
    parser.add_argument("--peers", help=f"some of {','.join(PEERS)}")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--batch", type=int, help="images of a batch, instead of the set's")
    parser.add_argument("--no-costs", action="store_true", help="neither memory nor the times of starts")
    options = parser.parse_args(command)
    works = _listed(options.works, list(WORKS))
    names = _listed(options.peers, list(PEERS))
    files = photos.load_set(options.set, options.count)
    batch = options.batch or photos.SETS[options.set].batch
    result = {
        **common.environment(photos.summary_of_set(options.set, files), options.rounds, batch),
        **measure(files, names, works, options.rounds, options.threads, batch, not options.no_costs),
    }
    result["machine"]["threads"] = options.threads
    common.write(result, options.out)
    print(f"wrote {options.out}; peers on the CPU: {', '.join(CPU)}")


if __name__ == "__main__":
    main()
