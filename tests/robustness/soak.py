"""The whole run: damaged files and intact ones by the hundred thousand, in child processes, resumable.

    python -m tests.robustness.soak --mutations 100000 --bounds 20000 --images 1000000 --out DIR --state FILE

The first mutations run once more with every index of the native code checked, compiled by NUMBA_BOUNDSCHECK=1. Cases of
:mod:`.guard_pages` run with all of the decoder's memory flush against pages that cannot be touched.

``DIR/robustness.json`` is written as it goes: counts by outcome and kind of damage, the slowest files, everything that
broke a rule of :mod:`tests.robustness.check` with its seed, crashes and hangs with theirs, and memory. A run that is
stopped goes on from the state file. A child that dies or makes no progress is not the end: the mutations it was at are
run again one by one, the guilty ones are recorded, and the run resumes after them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeAlias

import gpuimg as gi

from . import check, children, guard_pages, images, last_words, prepared
from .mutate import mutation
from .originals import digest, originals, photos

Events: TypeAlias = "Callable[..., Iterable[children.Event]]"

PER_CHILD = {
    "mutations": 25_000, "bounds": 10_000, "guard pages": 5_000, "batches": 100_000, "loader": 100_000,
    "prepared": 10_000,
}  # fmt: skip
DAMAGED = check.BATCH - check.EVERY  # of a batch
_GUARDED = 200  # cases with guard pages at a time
_KEPT = 200  # findings, crashes and hangs that are written in full
_WARM = 0.4  # of a child's run before its memory counts: buffers grow to the largest image met
_PACKAGES = ("numpy", "numba", "pillow")
_MOST_GROWTH = 2000  # KiB of the heap per 10,000 files; lost memory grows by more in every child


@dataclass
class Memory:
    """Memory of one child, sampled after each batch."""

    what: str
    first: int
    samples: list[tuple[int, int, int]] = field(default_factory=list)  # images so far; KiB resident, and of the heap

    def summary(self) -> dict[str, Any] | None:
        """Start and end, as medians of a tenth of the samples each, and the growth between."""
        warm = [s for s in self.samples if s[0] >= _WARM * self.samples[-1][0]] if self.samples else []
        if len(warm) < 20:
            return None
        tenth = len(warm) // 10
        first, last = (
            [statistics.median(column) for column in zip(*part, strict=True)] for part in (warm[:tenth], warm[-tenth:])
        )
        count, resident, heap = (end - start for start, end in zip(first, last, strict=True))
        return {
            "what": self.what, "first": self.first, "images": self.samples[-1][0],
            "start_kib": round(first[1]), "end_kib": round(last[1]),
            "growth_kib_per_10000": {
                "resident": round(resident / count * 10_000), "heap": round(heap / count * 10_000),
            },
        }  # fmt: skip


@dataclass
class Totals:
    """Everything known so far; what the state file holds."""

    next: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PER_CHILD, 0))
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PER_CHILD, 0.0))
    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    decoders: Counter[str] = field(default_factory=Counter)
    last_words: Counter[str] = field(default_factory=Counter)
    images: Counter[str] = field(default_factory=Counter)
    slow: list[tuple[float, int, str]] = field(default_factory=list)
    broken: Counter[str] = field(default_factory=Counter)  # findings by rule
    findings: list[dict[str, Any]] = field(default_factory=list)
    crashes: list[dict[str, Any]] = field(default_factory=list)
    hangs: list[dict[str, Any]] = field(default_factory=list)
    memory: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def load(cls, path: Path) -> Totals:
        """Read a state file, or return an initial state."""
        if not path.exists():
            return cls()
        read = json.loads(path.read_text())
        for name in ("outcomes", "reasons", "decoders", "last_words", "images", "broken"):
            read[name] = Counter(read[name])
        read["slow"] = [tuple(entry) for entry in read["slow"]]
        for name in ("next", "seconds"):  # what an earlier version did not know
            read[name] = dict.fromkeys(PER_CHILD, 0) | read[name]
        return cls(**read)

    def add(self, event: children.Event) -> None:
        """Count what a child said of a batch."""
        for name in ("outcomes", "reasons", "decoders", "images"):
            getattr(self, name).update(event.get(name, {}))
        self.slow = sorted([*self.slow, *map(tuple, event.get("slow", []))], reverse=True)[:20]
        for rule, seed, detail in event.get("findings", []):
            self.broken[rule] += 1
            if len(self.findings) < _KEPT:
                self.findings.append({"rule": rule, "seed": seed, "detail": detail})

    def died(self, dead: children.Dead, **where: Any) -> None:
        """Record a crash or a hang."""
        kept = self.hangs if dead.how.startswith("no progress") else self.crashes
        if len(kept) < _KEPT:
            kept.append({**where, "how": dead.how, "last_words": dead.last_words})
        self.broken["hang" if kept is self.hangs else "crash"] += 1

    @property
    def good(self) -> bool:
        """Return True if no rule was broken."""
        return not self.broken and not self.leaks

    @property
    def leaks(self) -> list[str]:
        """Return the kinds that leak memory: the heap grew in each of their children."""
        growth: dict[str, list[float]] = {}
        for one in self.memory:
            growth.setdefault(one["what"], []).append(one["growth_kib_per_10000"]["heap"])
        return [what for what, rates in growth.items() if len(rates) > 1 and min(rates) > _MOST_GROWTH]

    def result(self) -> dict[str, Any]:
        """Return the content of ``robustness.json``."""
        ways: dict[str, Counter[str]] = {}
        kinds: dict[str, Counter[str]] = {}
        for name, count in self.outcomes.items():
            kind, way, outcome = name.split(" | ")
            ways.setdefault(way, Counter())[outcome] += count
            kinds.setdefault(kind, Counter())[f"{way}: {outcome}"] += count
        growth: dict[str, dict[str, float]] = {}
        for what in {m["what"] for m in self.memory}:
            rates = [m["growth_kib_per_10000"] for m in self.memory if m["what"] == what]
            growth[what] = {kind: statistics.median(rate[kind] for rate in rates) for kind in ("resident", "heap")}
        return {
            "good": self.good,
            "versions": versions(),
            "counts": self.next,
            "seconds": {name: round(seconds, 1) for name, seconds in self.seconds.items()},
            "for": self.decoders,
            "outcomes": ways,
            "by_kind": dict(sorted(kinds.items())),
            "images": self.images,
            "reasons": dict(self.reasons.most_common(60)),
            "slowest": [{"seconds": s, "seed": seed, "what": words} for s, seed, words in self.slow],
            "broken_rules": self.broken,
            "leaks": self.leaks,
            "findings": self.findings,
            "crashes": self.crashes,
            "hangs": self.hangs,
            "last_words": self.last_words,
            "growth_kib_per_10000": growth,
            "memory": self.memory,
        }


def versions() -> dict[str, str]:
    """Describe the tested code and its environment."""
    found = {"python": platform.python_version(), "platform": platform.platform(), "gpuimg": gi.__version__}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found | {"originals": digest(originals().values()), "photos": digest(photos().values())}


# -- the parent ---------------------------------------------------------------------------------------------------


class Soak:
    """Runs children until the counts are reached, and keeps the files up to date."""

    def __init__(self, out: Path, state: Path, *, run: Events = children.events, every: float = 5.0) -> None:
        self.totals = Totals.load(state)
        self._out = out / "robustness.json"
        self._state = state
        self._run = run
        self._every = every
        self._saved = 0.0
        out.mkdir(parents=True, exist_ok=True)

    def save(self) -> None:
        """Write both files, each at once."""
        for path, content in ((self._state, vars(self.totals)), (self._out, self.totals.result())):
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh = path.with_name(path.name + ".new")
            fresh.write_text(json.dumps(content, indent=1))
            fresh.replace(path)
        self._saved = time.monotonic()

    def run(self, what: str, count: int) -> None:
        """Go on with ``what``, one of :data:`PER_CHILD`, up to number ``count``."""
        while self.totals.next[what] < count:
            first = self.totals.next[what]
            self._child(what, first, min(first + PER_CHILD[what], count))
            self.save()

    def run_deaths(self, count: int) -> None:
        """Go on to ``count`` processes of each kind that die while a loader runs, and look for their last words."""
        for way in last_words.WAYS:
            while self.totals.last_words[f"{way}: run"] < count:
                self.totals.last_words[f"{way}: run"] += 1
                problem = last_words.problem(way)
                self.totals.last_words[f"{way}: heard"] += not problem
                self.totals.broken["last words"] += bool(problem)
                self.totals.broken += Counter()  # no zeros
                self.save()

    def _child(self, what: str, first: int, stop: int) -> None:
        memory = Memory(what, first)
        at, phase = (first, first), "start"
        begin = time.monotonic()
        try:
            for event in self._events(what, what, first, stop):
                at, phase = tuple(event.get("at", at)), event.get("phase", phase)
                if "rss" not in event:
                    continue
                self.totals.add(event)
                self.totals.next[what] = at[1]
                memory.samples.append((at[1] - first, event["rss"], event["heap"]))
                begin = self._clock(what, begin)
        except children.Dead as dead:
            self._after(dead, what, at, phase, stop)
            self._clock(what, begin)
        if summary := memory.summary():
            self.totals.memory.append(summary)

    def _events(self, what: str, way: str, first: int, stop: int) -> Iterable[children.Event]:
        """Run a child on a range of cases and yield its messages; ``way`` selects its work."""
        arguments = [way, str(first), str(stop)]
        return self._run(arguments, environment=checked_bounds()) if what == "bounds" else self._run(arguments)

    def _clock(self, what: str, begin: float) -> float:
        now = time.monotonic()
        self.totals.seconds[what] += now - begin
        if now - self._saved > self._every:
            self.save()
        return now

    def _after(self, dead: children.Dead, what: str, at: tuple[int, int], phase: str, stop: int) -> None:
        """Find which of a child's current images killed it, and resume after them."""
        done = self.totals.next[what]
        if done >= at[1] or what not in ("mutations", "bounds"):  # between batches, or with no single image to blame
            self.totals.died(dead, what=what, between=list(at), phase=phase)
            self.totals.next[what] = max(done, min(at[1] + (at[1] <= done), stop)) if done < stop else done
            return
        guilty = 0
        seed = at[0]
        while seed < at[1]:
            try:
                for event in self._events(what, "singles", seed, at[1]):
                    seed, phase = event.get("at", (seed,))[0], event.get("phase", phase)
                    if "rss" in event:
                        self.totals.add(event)
                        seed += 1
            except children.Dead as one:
                guilty += 1
                self.totals.died(one, what=what, seed=seed, phase=phase, mutation=mutation(seed)[1])
                seed += 1
        if not guilty:
            self.totals.died(dead, what=what, between=list(at), phase=f"{phase}; none of them alone")
        self.totals.next[what] = at[1]


def checked_bounds() -> dict[str, str]:
    """Environment in which native code checks every index; its machine code is cached separately."""
    return {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(Path(__file__).parents[2] / ".soak-bounds")}


def memory() -> dict[str, int]:
    """KiB resident and KiB malloc has given, of this process."""
    return {"rss": check.memory(), "heap": check.allocated() // 1024}


# -- the child ----------------------------------------------------------------------------------------------------


def _end_process(error: Any) -> None:
    """Collect exceptions of native code that cannot propagate, which Python would only print."""
    print(f"{error.exc_type.__name__}: {error.exc_value}", file=sys.stderr, flush=True)
    os.abort()


def child(what: str, first: int, stop: int) -> None:
    """Do a part of the work, saying what it is at before and what came of it after."""
    import faulthandler

    voice = children.Voice()
    faulthandler.enable(os.dup(2))  # descriptor 2 itself leads elsewhere while gpuimg decodes
    sys.unraisablehook = _end_process
    runs = {"batches": images.batches, "loader": images.loader, "prepared": prepared.runs}
    if what in runs:
        for start, end, counts, findings in runs[what](first, stop):
            voice.say(at=(start, end), **memory(), images=counts, findings=findings)
        return
    if what == "guard pages":
        for start in range(first, stop, _GUARDED):
            end = min(start + _GUARDED, stop)
            voice.say(at=(start, end))
            outcomes, broken = guard_pages.part(start, end, voice)
            voice.say(at=(start, end), **memory(), images=outcomes, findings=broken)
        return
    check.compile_all()
    checker = check.Checker(lambda phase: voice.say(phase=phase))
    step = 1 if what == "singles" else DAMAGED
    edges = sorted({first, *range(first - first % step + step, stop, step), stop})  # batches are the same ones always
    for seeds in map(range, edges, edges[1:]):
        voice.say(at=(seeds.start, seeds.stop))
        report = checker.check(seeds)
        voice.say(
            at=(seeds.start, seeds.stop), **memory(), outcomes=report.outcomes, reasons=report.reasons,
            slow=report.slow, findings=report.findings, decoders=report.decoders,
        )  # fmt: skip
    checker.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; 0 if no rule was broken."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments and not arguments[0].startswith("-"):
        child(arguments[0], int(arguments[1]), int(arguments[2]))
        return 0
    parser = argparse.ArgumentParser(prog="python -m tests.robustness.soak", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--first", type=int, default=0, help="number of the first mutation, which is its seed")
    parser.add_argument("--mutations", type=int, default=100_000)
    parser.add_argument("--bounds", type=int, default=20_000, help="of these mutations, with checked bounds")
    parser.add_argument("--guards", type=int, default=20_000, help="cases with guard pages around all memory")
    parser.add_argument("--deaths", type=int, default=100, help="processes that die while a loader runs")
    parser.add_argument("--images", type=int, default=1_000_000, help="half in batches, half through the loader")
    parser.add_argument("--prepared", type=int, default=2000, help="damaged folders of gpuimg.prepare")
    parser.add_argument("--out", type=Path, required=True, help="folder for robustness.json")
    parser.add_argument("--state", type=Path, required=True, help="file to go on from")
    options = parser.parse_args(arguments)
    soak = Soak(options.out, options.state)
    soak.totals.next["mutations"] = max(soak.totals.next["mutations"], options.first)
    soak.run("mutations", options.first + options.mutations)
    soak.run("bounds", options.bounds)
    soak.run("guard pages", options.guards)
    soak.run_deaths(options.deaths)
    soak.run("prepared", options.prepared)
    halves = options.images // 2 if hasattr(gi, "load") else 0
    soak.run("batches", options.images - halves)
    soak.run("loader", halves)
    soak.save()
    result = soak.totals.result()
    told = ("good", "counts", "seconds", "for", "outcomes", "last_words", "broken_rules", "leaks")
    print(json.dumps({name: result[name] for name in told}, indent=1))
    return 0 if soak.totals.good else 1


if __name__ == "__main__":
    sys.exit(main())
