"""gpuimg and its peers on the same works: same photos, same threads, same run.

    python -m bench.peers [--set S] [--rounds 5] [--works decode,eval] [--peers gpuimg,dali] [--threads 2]
                          [--no-costs] [--out bench/results/peers.json]

Each peer has a separate process; they take turns, one epoch each, in an order that rotates by one every round. The
first round warms up. Before that the outputs are checked against gpuimg's: decode and eval by their difference in
levels, the random works for shape, dtype and range. Medians of the rounds; a ratio is that of two medians. If the
rounds of a peer differ by more than 15 %, all are measured once more, and the calmer measurement counts.

The result also has each peer's CPU time and peak memory (worker processes included), import time, and time to the first
batch. Failed and missing peers are named with the reason, and do not stop the others.
"""

import os
import pickle
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from bench import common, photos
from bench.peers import ON_GPU, PEERS
from bench.peers.base import MEAN, SIZE, STD, WORKS
from bench.peers.costs import costs_of
from bench.peers.host import Host, PeerError

OURS = "gpuimg"
_MEAN, _STD = (np.array(values, np.float32)[:, None, None] for values in (MEAN, STD))
_SLACK = 2.0  # levels that results may lie outside 0 to 255: rounding, and interpolation in other color spaces


def levels(images: Any) -> Any:
    return (images * _STD + _MEAN) * 255


def checked(work: str, results: Any, ours: Any, count: int) -> dict[str, float]:
    """Refuse wrong results; return differences from gpuimg's in levels, except for random works."""
    if work in ("decode", "eval"):
        if [one.shape for one in results] != [one.shape for one in ours]:
            raise ValueError("images of other shapes than gpuimg's")
        pairs = [(one.astype(np.float32), other.astype(np.float32)) for one, other in zip(results, ours, strict=True)]
        if work == "eval":
            pairs = [(levels(one), levels(other)) for one, other in pairs]
        every = np.concatenate([np.abs(one - other).ravel() for one, other in pairs])
        return {"mean_difference_in_levels": round(float(every.mean()), 3)}
    if results.shape != (count, 3, SIZE, SIZE) or results.dtype != np.float32:
        raise ValueError(f"{results.dtype} of shape {results.shape} instead of float32 {(count, 3, SIZE, SIZE)}")
    values = levels(results)
    low, high = float(values.min()), float(values.max())
    if not -_SLACK <= low <= high <= 255 + _SLACK:
        raise ValueError(f"values from {low:.1f} to {high:.1f} instead of 0 to 255")
    return {}


class Race:
    """The peers that could be started, in their processes, and why others failed."""

    def __init__(self, hosts: dict[str, Host], count: int, batch: int) -> None:
        self._hosts, self._count, self._batch = hosts, count, batch
        self.peers: dict[str, dict[str, Any]] = {}
        self.not_run: dict[str, str] = {}
        for name, host in hosts.items():
            try:
                self.peers[name] = {**host.request("describe"), "failed": {}}
            except PeerError as error:
                self.not_run[name] = str(error)

    def _request(self, name: str, request: str, work: str) -> Any:
        """Return a peer's answer, or None after a failure, which excludes the peer from this work."""
        try:
            return self._hosts[name].request(request, work)
        except PeerError as error:
            print(f"{name}, {work}: {error}", flush=True)
            self.peers[name]["failed"][work] = str(error)
            return None

    def check(self, work: str) -> dict[str, Any]:
        """Compare the first batches; a wrong output is a failure, because its timing means nothing."""
        found: dict[str, Any] = {}
        ours: Any = None
        for name in sorted(self.able(work), key=lambda name: name != OURS):
            if (results := self._request(name, "first", work)) is None:
                continue
            ours = results if ours is None else ours
            try:
                found[name] = checked(work, results, ours, min(self._count, self._batch))
            except ValueError as error:
                self.peers[name]["failed"][work] = f"wrong output: {error}"
        return found

    def able(self, work: str) -> list[str]:
        return [name for name, one in self.peers.items() if work not in one["lacks"] and work not in one["failed"]]

    def time(self, work: str, rounds: int) -> dict[str, dict[str, Any] | None]:
        """Measure each round, and return each peer's entry."""
        names = self.able(work)
        print(f"{work}: {', '.join(names)}", flush=True)
        times = common.in_turn(names, lambda name: self._request(name, "epoch", work), rounds)
        for name in self.able(work):
            self._request(name, "forget", work)
        found: dict[str, dict[str, Any] | None] = dict.fromkeys(self.peers)
        ours = [wall for wall, _ in times[OURS]] if OURS in times else None
        for name, taken in times.items():
            walls, worked = zip(*taken, strict=True)
            seconds = round(1000 * float(np.median(worked)) / self._count, 2)
            found[name] = common.rated(self._count, walls, ours) | {"cpu_seconds_per_1000_images": seconds}
        return found


def main() -> None:
    parser = common.arguments(__doc__, "peers.json", count=True)
    parser.add_argument("--set", choices=list(photos.SETS), default="S")
    parser.add_argument("--works", default=",".join(WORKS), help="%(default)s")
    parser.add_argument("--peers", default=",".join(name for name in PEERS if name not in ON_GPU), help="%(default)s")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--batch", type=int, help="images of a batch, instead of the set's")
    parser.add_argument("--no-costs", action="store_true", help="neither memory nor the times of starts")
    options = parser.parse_args()
    works, names = options.works.split(","), options.peers.split(",")
    if unknown := {*works, *names} - {*WORKS, *PEERS}:
        parser.error(f"there are {', '.join(WORKS)} and {', '.join(PEERS)}, not {', '.join(unknown)}")
    files = photos.load_set(options.set, options.count)
    batch = options.batch or photos.SETS[options.set].batch
    result = common.environment(photos.summary_of_set(options.set, files), options.rounds, batch)
    result["machine"]["threads"] = options.threads
    with tempfile.NamedTemporaryFile(suffix=".pickle") as file, ExitStack() as stack:
        pickle.dump(files, file)
        file.flush()
        given = options.threads, batch, Path(file.name)
        race = Race({name: stack.enter_context(Host(name, *given)) for name in names}, len(files), batch)
        result |= {"peers": race.peers, "not_run": race.not_run, "works": {}, "checks": {}}
        for work in works:
            result["checks"][work] = race.check(work)
            result["works"][work] = race.time(work, options.rounds)
        for name, peer in race.peers.items() if not options.no_costs else ():
            print(f"costs: {name}", flush=True)
            work = "train" if "train" not in peer["lacks"] else "decode"
            peer.update(costs_of(name, work, *given, min(options.rounds, 3)))
    common.write(result, options.out)


if __name__ == "__main__":
    main()
