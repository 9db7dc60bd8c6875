"""The tests that need a GPU: first those of the CUDA runtime, then all others marked ``gpu``."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

from bench.gpu.child import Context
from bench.gpu.harness import ROOT, part_path

_FIRST_SHARE = 0.6  # of the time, for the CUDA runtime's tests
_RERUN_S = 15.0
_INTERRUPT_S = 8.0  # pytest writes its results when it is interrupted
_TAIL = 1500  # characters of a failure
_LINE = re.compile(r"^(\S+?\.py::.+?) (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b")
_STARTED = re.compile(r"^(\S+?\.py::.+?)\s*$")


def run(context: Context) -> None:
    """Run both; tests that fail only because of a warning run again with warnings allowed."""
    chosen = ["tests/test_gpu.py", *(["-x"] if context.smoke else [])]
    first = _pytest(context, "test_gpu", chosen, _FIRST_SHARE * context.left())
    context.record("tests/test_gpu.py", first)
    warned = [name for name, words in first["failed"].items() if "Warning" in words]
    if warned and context.left() > _RERUN_S:
        again = _pytest(context, "test_gpu_again", ["-W", "default", *warned], 0.5 * context.left())
        context.record("those with warnings, warnings allowed", again)
    if context.left() > _RERUN_S and not context.smoke:
        others = ["-m", "gpu", "--continue-on-collection-errors", "--ignore=tests/test_gpu.py", "tests"]
        context.record("all others marked gpu", _pytest(context, "marked_gpu", others, context.left() - _INTERRUPT_S))


def _pytest(context: Context, name: str, arguments: list[str], seconds: float) -> dict[str, Any]:
    """Run pytest; return tests that passed, failed (with the end of the report) and were skipped (with the reason)."""
    path, log = part_path(context.out, name, ".xml"), part_path(context.out, name, ".log")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    command = [sys.executable, "-X", "faulthandler", "-m", "pytest", "-v", "-p", "no:cacheprovider", "--tb=short",
               "--color=no", f"--junit-xml={path}", *arguments]  # fmt: skip
    required = {"GPUIMG_REQUIRE_GPU": "1"} if context.on_gpu else {}
    with log.open("wb") as file:
        child = subprocess.Popen(command, cwd=ROOT, env=os.environ | required, stdout=file, stderr=subprocess.STDOUT)
        ended = _wait(child, seconds)
    found = parsed(path) if path.exists() else from_log(log.read_text(errors="replace"))
    return {**found, "exit_status": child.returncode, "ended": ended}


def _wait(child: subprocess.Popen[bytes], seconds: float) -> str:
    """Return the status of a run; one that takes too long is interrupted as by the keyboard."""
    late = False
    for limit, way in ((seconds, signal.SIGINT), (_INTERRUPT_S, signal.SIGKILL)):
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(limit)
            break
        late = True
        child.send_signal(way)
    child.wait()
    if late:
        return f"interrupted after {seconds:.0f} s"
    return f"signal {-child.returncode}" if child.returncode < 0 else "by itself"


def parsed(path: Path) -> dict[str, Any]:
    """Return the outcomes in a junit file."""
    found: dict[str, Any] = {"passed": [], "failed": {}, "skipped": {}, "seconds": 0.0}
    for case in ElementTree.parse(path).iter("testcase"):
        name = _node(case.get("classname", ""), case.get("name", ""))
        found["seconds"] = round(found["seconds"] + float(case.get("time", 0)), 2)
        bad = [child for child in case if child.tag in ("failure", "error")]
        skip = case.find("skipped")
        if bad:
            found["failed"][name] = "\n".join(_report(child) for child in bad)[-_TAIL:]
        elif skip is not None:
            found["skipped"][name] = skip.get("message", "")
        else:
            found["passed"].append(name)
    return found


def _report(element: ElementTree.Element) -> str:
    """Return the end of the report and of the message after it."""
    return f"{(element.text or '').strip()}\n{element.get('message', '')[:400]}"


def _node(module: str, name: str) -> str:
    """Return a test's name for pytest's command line; junit has dots instead of the path's slashes."""
    parts = module.split(".")
    for k in range(len(parts), 0, -1):
        if (ROOT / Path(*parts[:k]).with_suffix(".py")).exists():
            return "::".join(["/".join(parts[:k]) + ".py", *parts[k:], name])
    return f"{module}::{name}"


def from_log(text: str) -> dict[str, Any]:
    """Return the outcomes from the output of ``pytest -v`` after a crash without a junit file, in the last test."""
    found: dict[str, Any] = {"passed": [], "failed": {}, "skipped": {}, "seconds": None}
    running = None
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            running = started[1] if (started := _STARTED.match(line)) else running
            continue
        running = None
        name, outcome = match.groups()
        if outcome in ("PASSED", "XFAIL"):
            found["passed"].append(name)
        elif outcome == "SKIPPED":
            found["skipped"][name] = ""
        else:
            found["failed"][name] = outcome
    found["failed"][running or "pytest itself"] = text[-_TAIL:]
    return found


def claims(results: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the failures, and the number of tests that passed."""
    problems, lines = [], []
    for title, run in results.items():
        counts = ", ".join(f"{len(run[key])} {key}" for key in ("passed", "failed", "skipped"))
        lines.append(f"{title}: {counts} (n = 1; {run['seconds']} s; ended {run['ended']})")
        problems += [f"`{name}`: {_last(words)}" for name, words in run["failed"].items()]
        if not run["passed"] and not run["failed"] and not run["skipped"]:
            problems.append(f"{title}: no test ran (exit status {run['exit_status']})")
    return problems, lines


def _last(words: str) -> str:
    """Return the most informative line."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("E ") or "Error" in line]
    return (errors or lines or ["no report"])[-1][:300]
