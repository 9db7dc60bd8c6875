"""All benchmarks by one command: ``make bench``, or ``python -m bench [--readme] [--only peers-S,png] [--list]``.

Each part writes one file in bench/results, with the command, version, commit, machine, date and load. A part whose
result is of this version and of the same code (comments do not count) is skipped, so that the command can be
interrupted and repeated; ``--again`` measures it nevertheless. A part that fails keeps its earlier result, and the
others go on. Parts use the compiled loops of .venv-wheel, if there is one (``make wheel-venv``). At the end the pages
take their figures from the results (``python -m bench.figures``).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from bench import common, figures
from bench.parts import PARTS, README, Part

_ROOT = Path(__file__).parents[1]
_LOGS = _ROOT / "build" / "bench"
_WHEEL = _ROOT / ".venv-wheel"


def is_current(part: Part, version: str, code: str) -> bool:
    """Return True if a part's result is of this version and code."""
    return part.recorded.get("version") == version and part.recorded.get("code") == code


def _environment(part: Part) -> dict[str, str]:
    """Return the environment of a part, in which the checkout has the compiled loops of a wheel, as its users have."""
    places = [str(place) for place in _WHEEL.glob("lib/python*/site-packages")]
    path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), *places])
    return os.environ | {"PYTHONPATH": path} | part.environment


def _seconds(part: Part) -> float:
    """Return the expected duration: that of the last run, if any."""
    return float(part.recorded.get("seconds") or 60 * part.minutes)


def measure(part: Part) -> str | None:
    """Run a part; return why it failed, or None. Its result replaces the earlier one only at the end."""
    if part.needs and not (_ROOT / part.needs).exists():
        return f"it needs {part.needs}: make wheel-venv"
    _LOGS.mkdir(parents=True, exist_ok=True)
    out, log = _LOGS / f"{part.name}.json", _LOGS / f"{part.name}.log"
    out.unlink(missing_ok=True)
    command = [sys.executable, *part.command, "--out", str(out)]
    try:
        with log.open("w") as file:
            done = subprocess.run(
                command, cwd=_ROOT, env=_environment(part), stdout=file, stderr=subprocess.STDOUT,
                timeout=300 + 180 * part.minutes, check=False,
            )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"longer than {5 + 3 * part.minutes:.0f} minutes: {log}"
    if done.returncode or not out.exists():
        lines = log.read_text(errors="replace").strip().splitlines()
        return f"{lines[-1] if lines else 'no output'} ({log})"
    out.replace(common.RESULTS / out.name)
    return None


def _listed(parts: list[Part], version: str, code: str) -> None:
    for part in parts:
        state = f"of {part.recorded.get('version', 'an earlier version')}"
        if is_current(part, version, code):
            state = "current"
        elif not (common.RESULTS / f"{part.name}.json").exists():
            state = "missing"
        print(f"{part.name:18} {state:21} {_seconds(part) / 60:4.1f} min  python {' '.join(part.command)}")


def run(parts: list[Part]) -> list[str]:
    """Measure parts with progress on standard output; return the names of those that failed."""
    failed: list[str] = []
    left = sum(map(_seconds, parts))
    for number, part in enumerate(parts, 1):
        load = os.getloadavg()[0]
        busy = f", load {load:.1f}: not quiet" if load > 0.5 else ""
        print(
            f"[{number}/{len(parts)}] {part.name}: {_seconds(part) / 60:.1f} of {left / 60:.0f} min{busy}", flush=True
        )
        start = time.monotonic()
        reason = measure(part)
        left -= _seconds(part)
        print(f"    {f'FAILED: {reason}' if reason else 'done'}, {time.monotonic() - start:.0f} s", flush=True)
        if reason:
            failed.append(part.name)
    return failed


def main() -> None:
    """Measure what is not current, and write the pages."""
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--readme", action="store_true", help="only the parts of the README's numbers")
    parser.add_argument("--only", metavar="NAMES", help=", ".join(part.name for part in PARTS))
    parser.add_argument("--again", action="store_true", help="also parts that are current")
    parser.add_argument("--list", action="store_true", help="list the parts, and measure nothing")
    given = parser.parse_args()
    parts = list(README if given.readme else PARTS)
    if given.only:
        names = given.only.split(",")
        parts = [part for part in PARTS if part.name in names]
        if len(parts) != len(names):
            parser.error(f"there are {', '.join(part.name for part in PARTS)}")
    record = common.run_record()
    version, code = record["version"], record["code"]
    if given.list:
        _listed(parts, version, code)
        return
    failed = run([part for part in parts if given.again or not is_current(part, version, code)])
    figures.main([])
    print(f"not measured: {', '.join(failed)}" if failed else "all results are of this version and code")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
