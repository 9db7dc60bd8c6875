"""The rounds of the peers, after the checks."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench import common
from bench.peers import checks
from bench.peers.base import WORKS
from bench.peers.host import Host, PeerError
from bench.peers.registry import FLOOR, OURS, OURS_ON_GPU, compared_with


class Race:
    """The peers that could be started, in their processes."""

    def __init__(self, names: list[str], threads: int, batch: int, files: Path) -> None:
        self._hosts = {name: Host(name, threads, batch, files) for name in names}
        self._batch = batch
        self._peers: dict[str, dict[str, Any]] = {}
        self._not_run: dict[str, str] = {}
        for name, host in self._hosts.items():
            try:
                self._peers[name] = {**host.request("describe"), "failed": {}}
            except PeerError as error:
                self._not_run[name] = str(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for host in self._hosts.values():
            host.close()

    def run(self, works: list[str], rounds: int, count: int) -> dict[str, Any]:
        """Check and time every work; return the result."""
        result: dict[str, Any] = {"works": {}, "checks": {}}
        floor: list[float] | None = None
        for work in sorted(works, key=list(WORKS).index):
            print(f"{work}: outputs", flush=True)
            result["checks"][work] = self._checked(work, min(count, self._batch))
            times = self._timed(work, rounds, floor_too=work != "decode")
            seconds = {name: [wall for wall, _ in every] for name, every in times.items()}
            floor = seconds.pop(FLOOR, None) if work != "decode" else seconds.get(FLOOR)
            result["works"][work] = {
                name: self._entry(times[name], seconds.get(compared_with(name)), floor, count)
                if name in seconds
                else None
                for name in self._peers
            }
        return {"peers": self._peers, "not_run": self._not_run, **result}

    def _able(self, work: str) -> list[str]:
        return [name for name, peer in self._peers.items() if work not in peer["lacks"] and work not in peer["failed"]]

    def _request(self, name: str, request: str, work: str, failed_in: str | None = None) -> Any:
        """Return a peer's answer, or None after a failure, which is recorded and excludes the peer from this work."""
        try:
            return self._hosts[name].request(request, work)
        except PeerError as error:
            print(f"{name}, {work}: {error}", flush=True)
            self._peers[name]["failed"][failed_in or work] = str(error)
            return None

    def _checked(self, work: str, count: int) -> dict[str, Any]:
        """Compare the first batches; a wrong output is a failure, because its timing means nothing."""
        found: dict[str, Any] = {}
        ours: Any = None
        names = self._able(work)
        first = OURS if OURS in names else OURS_ON_GPU  # to compare the others with
        for name in sorted(names, key=lambda name: name != first):
            results = self._request(name, "first", work)
            if results is None:
                continue
            ours = results if name == first else ours
            try:
                if work not in checks.DETERMINISTIC:
                    found[name] = checks.plausible(results, count)
                elif ours is None:
                    found[name] = "not compared: gpuimg is not among the peers"
                else:
                    found[name] = checks.difference(work, results, ours)
            except ValueError as error:
                self._peers[name]["failed"][work] = f"wrong output: {error}"
        return found

    def _timed(self, work: str, rounds: int, *, floor_too: bool) -> dict[str, list[tuple[float, float]]]:
        """Measure wall-clock and CPU seconds of each round; the floor decodes in every work."""
        names = self._able(work)
        if floor_too and FLOOR in self._peers:
            names = [FLOOR, *(name for name in names if name != FLOOR)]
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
        for k in range(rounds + 1):
            print(f"{work}: {f'round {k} of {rounds}' if k else 'warming up'}", flush=True)
            start = k % max(len(names), 1)  # no peer always runs after the same one
            for name in [*names[start:], *names[:start]]:
                if name in times:
                    taken = self._request(name, "epoch", "decode" if name == FLOOR else work, work)
                    if taken is None:
                        del times[name]
                    elif k:  # the first round warms up
                        times[name].append(taken)
        for name in times:
            self._request(name, "forget", work)
        return times

    def _entry(
        self,
        times: list[tuple[float, float]],
        ours: list[float] | None,
        floor: list[float] | None,
        count: int,
    ) -> dict[str, Any]:
        seconds = [wall for wall, _ in times]
        used = sorted(cpu for _, cpu in times)[len(times) // 2]
        entry: dict[str, Any] = {
            "images_per_second": common.per_second(count, seconds),
            "cpu_seconds_per_1000_images": round(1000 * used / count, 2),
        }
        if floor is not None:
            entry["ratio_to_floor"], entry["ratio_to_floor_range"] = common.ratio(floor, seconds)
        if ours is not None:
            entry["gpuimg_over_this"], entry["gpuimg_over_this_range"] = common.ratio(seconds, ours)
        return entry
