"""Damaged input by number, in child processes: each number has an outcome that is allowed, or is a finding.

    python -m tests.robustness                                    # a thousand numbers of each subject
    python -m tests.robustness jpegs sources --number 20000 --first 0 --out FOLDER

A subject turns a number into damaged input, gives that to gpuimg, and checks the result. The engine finds crashes,
hangs, output on stderr, and descriptors, threads and memory that are kept. A child that dies is replaced by another,
which continues with the next number. With ``--bounds``, native code checks every index.
"""

import argparse
import ctypes
import faulthandler
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

#: Takes a number; returns its outcome, or counts of several; raises for a finding. Made with a folder for its files.
Check: TypeAlias = "Callable[[int], str | Mapping[str, int]]"


class Subject(NamedTuple):
    """Where the check of a subject is made, and what it may take."""

    check: str  # "module:function"
    share: float = 1.0  # numbers of a run, as a share of ``--number``: some are many files, or take long
    seconds: float = 5.0  # of the processor that a number may take twice
    kept: int = 60  # MiB that a child may keep: caches
    room: int = 0  # bytes of address space beyond what it begins with; 0 for any
    is_loud: bool = False  # libraries write to stderr, which Python cannot stop
    chunk: int = 400  # numbers of a child
    threads: int = 0  # that a child may keep, of servers in it


SUBJECTS = {
    "jpegs": Subject("jpegs:batches", 0.1, kept=200),
    "guard pages": Subject("guard_pages:check", chunk=2000),
    "guard recoded": Subject("guard_pages:check_recoded", seconds=1.0, room=64 << 20, chunk=2000),
    "guard pngs": Subject("guard_pages:check_pngs", chunk=2000),
    "gpu jpegs": Subject("jpegs:gpu_batches", 0.05, 60.0, 400, is_loud=True),
    "changing": Subject("changing:check", 0.02, 60.0, kept=200, threads=1),
    "formats": Subject("formats:check", kept=100),
    "tiff": Subject("formats:check_tiff", 0.2, kept=100, is_loud=True),
    "foreign": Subject("foreign:check", kept=100),
    "prepared": Subject("prepared:check", 0.5, 60.0),
    "sources": Subject("sources:check", room=1 << 30),
    "slides": Subject("slides:check", kept=400, is_loud=True),  # tiles of up to 16 million pixels
    "remote": Subject("remote:check", 0.1, 60.0, 300, chunk=50, threads=40),
    "videos": Subject("videos:check", 0.5, 20.0, 600, is_loud=True),
}
_SILENCE, _START = 600.0, 900.0  # seconds for a number, and before the first one, after which a child hangs
_WARM = 3  # numbers before memory counts


class Result(NamedTuple):
    number: int
    outcomes: dict[str, int]
    finding: str = ""


def _kept() -> dict[str, int]:
    """Descriptors, threads, and MiB resident, without what malloc keeps for later."""
    getattr(ctypes.CDLL(None), "malloc_trim", lambda _: None)(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "descriptors": len(os.listdir("/proc/self/fd")), "threads": threading.active_count(),
        "MiB": pages * resource.getpagesize() >> 20,
    }  # fmt: skip


def _end_process(error: Any) -> None:
    """End the process for exceptions of native code, which cannot propagate and which Python would only print."""
    print(f"{error.exc_type.__name__}: {error.exc_value}", file=sys.stderr, flush=True)
    os.abort()


def child(name: str, first: int, stop: int) -> None:
    reports = os.dup(1)  # a separate descriptor: output of libraries does not mix with them
    os.dup2(2, 1)

    words = os.dup(2)
    faulthandler.enable(words)
    faulthandler.dump_traceback_later(_START, exit=True, file=words)

    def report(number: int, outcomes: Mapping[str, int], finding: str) -> None:
        os.write(reports, json.dumps([number, outcomes, finding]).encode() + b"\n")
        faulthandler.dump_traceback_later(_SILENCE, exit=True, file=words)

    sys.unraisablehook = _end_process
    subject = SUBJECTS[name]
    module, _, function = subject.check.partition(":")
    with tempfile.TemporaryDirectory() as folder:
        make = getattr(import_module(f".{module}", __package__), function)
        check: Check = make(Path(folder))
        if subject.room:
            mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (mapped + subject.room,) * 2)
        before: dict[str, int] = {}
        report(first, {}, "")  # it has begun
        for number in range(first, stop):
            said, start, broken = os.fstat(2).st_size, time.process_time(), list[str]()
            outcomes: Mapping[str, int] = {"broken": 1}
            try:
                found = check(number)
                if time.process_time() - start > subject.seconds:  # it compiled
                    start = time.process_time()
                    check(number)
                outcomes = {found: 1} if isinstance(found, str) else found
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                broken.append(f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})")
            if (seconds := time.process_time() - start) > subject.seconds:
                broken.append(f"{seconds:.1f} s")
            if os.fstat(2).st_size > said and not subject.is_loud:
                broken.append(f"{os.fstat(2).st_size - said} bytes on stderr")
            kept = _kept()
            if number - first == _WARM:
                before = kept
            limits = {"descriptors": 16 + subject.threads, "threads": subject.threads, "MiB": subject.kept}
            over = [what for what in before if kept[what] > before[what] + limits[what]]
            broken += [f"{before[what]} {what} before, {kept[what]} now" for what in over]
            before |= {what: kept[what] for what in over}  # reported once
            report(number, outcomes, "; ".join(broken))


def run(name: str, first: int, stop: int, *, bounds: bool = False) -> Iterator[Result]:
    """Check numbers ``first`` to ``stop - 1`` of a subject; a child that dies is a finding."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    if bounds:
        folder = Path(__file__).parents[2] / ".soak-bounds"  # other machine code, in other files
        environment |= {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(folder)}
    while first < stop:
        end = min(first + SUBJECTS[name].chunk, stop)
        with tempfile.TemporaryFile() as reports, tempfile.TemporaryFile() as words:
            command = [sys.executable, "-X", "faulthandler", "-m", "tests.robustness", "--child", name]
            child = subprocess.run([*command, str(first), str(end)], stdout=reports, stderr=words, env=environment)
            reports.seek(0)
            words.seek(0)
            has_begun, *results = [Result(*json.loads(line)) for line in reports] or [None]
            last_words = words.read().decode(errors="replace").partition("Extension modules:")[0][-3000:]
        yield from results
        first += len(results)
        if not has_begun:
            raise RuntimeError(f"{name} does not begin: status {child.returncode}: {last_words}")
        if child.returncode:
            yield Result(first, {"died": 1}, f"status {child.returncode}: {last_words}")
            first += 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Check subjects, write ``robustness.json``; return 1 if there are findings."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["--child"]:
        warnings.simplefilter("ignore")  # checks that are about warnings record them
        child(arguments[1], int(arguments[2]), int(arguments[3]))
        return 0
    parser = argparse.ArgumentParser(prog="python -m tests.robustness", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("subjects", nargs="*", metavar="subject", help=", ".join(SUBJECTS))
    parser.add_argument("--number", type=int, default=1000, help="numbers of each subject, fewer of the slow ones")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--bounds", action="store_true", help="check every index of native code")
    parser.add_argument("--out", type=Path, help="folder for robustness.json")
    options = parser.parse_args(arguments)
    if unknown := set(options.subjects) - set(SUBJECTS):
        parser.error(f"{', '.join(sorted(unknown))}: subjects are {', '.join(SUBJECTS)}")
    versions = {name: version(name) for name in ("numpy", "numba", "pillow")} | {"python": platform.python_version()}
    report: dict[str, Any] = {"version": version("gpuimg"), "good": True, "versions": versions, "subjects": {}}
    for name in options.subjects or SUBJECTS:
        begin, outcomes, findings = time.monotonic(), Counter[str](), list[str]()
        count = -(-options.number // round(1 / SUBJECTS[name].share))
        for result in run(name, options.first, options.first + count, bounds=options.bounds):
            outcomes.update(result.outcomes)
            if result.finding:
                findings.append(f"{name} {result.number}: {result.finding}")
                print(findings[-1], flush=True)
        report["good"] &= not findings
        report["subjects"][name] = {
            "first": options.first, "numbers": count, "seconds": round(time.monotonic() - begin, 1),
            "outcomes": dict(outcomes.most_common(60)), "findings": findings[:200],
        }  # fmt: skip
        print(name, json.dumps(report["subjects"][name]["outcomes"]), flush=True)
        if options.out is not None:
            options.out.mkdir(parents=True, exist_ok=True)
            (options.out / "robustness.json").write_text(json.dumps(report, indent=1) + "\n")
    return int(not report["good"])
