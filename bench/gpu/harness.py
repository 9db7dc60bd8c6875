"""Parts in separate processes: time limits, results as they come, and one result of all parts.

A part's process updates ``parts/NAME.json`` while it measures. The parent adds the part's status, and writes
``gpu.json`` and ``summary.md`` after every part, so that no measurement is lost. In the end ``parts`` becomes one file,
``parts.tar.gz``, because some machines return few files.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_STACKS_S = 2.0  # to write where a process hangs
_DEATH_S = 10.0  # to die: a process inside the GPU's driver takes its time
_TAIL = 2000  # characters of a process's last words
_TRY_S = 600.0  # for each part of a try
_MOST = 3.0  # times its weight in seconds that a part gets, where few are chosen

CHILD: tuple[str, ...] = ("bench.gpu.child",)  # the module that runs a part in its process; the stand-in's has its own
PROBE = "probe"  # the part that says what is broken
BROKEN = "broken"
Result = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """One part: its module, its share of the time, and its title."""

    name: str
    module: str
    weight: float
    title: str
    least: float = 8.0  # seconds; with less it is left out
    needs: tuple[str, ...] = ()  # checks of the part "probe" without which it cannot run


@dataclass(frozen=True)
class Settings:
    """Settings of all parts."""

    out: Path
    device: str = "cuda"
    smoke: bool = False


class Budget:
    """Time for all parts: each gets its share of the remaining time."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Return the remaining seconds."""
        return self._end - time.monotonic()

    def share(self, rest: Sequence[Part]) -> float:
        """Return the seconds for the first of the remaining parts."""
        return min(self.left() * rest[0].weight / sum(part.weight for part in rest), _MOST * rest[0].weight)

    def limit(self, share: float) -> float:
        """Seconds after which a part with this share is ended; by itself it ends with its share."""
        return min(1.25 * share + 10.0, max(self.left(), 0.0))


def write_json(path: Path, value: Any) -> None:
    """Write a file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".tmp")
    part.write_text(json.dumps(value, indent=1, default=_plain) + "\n")
    part.replace(path)


def _plain(value: Any) -> Any:
    """Convert NumPy's numbers and arrays for JSON."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def read_json(path: Path) -> Result:
    """Read a file of results; return an empty one if it is missing or cannot be read."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def part_path(out: Path, name: str, suffix: str = ".json") -> Path:
    """Return the path of a part's results."""
    return out / "parts" / f"{name}{suffix}"


@contextlib.contextmanager
def parts_in_one_file(out: Path) -> Iterator[None]:
    """Unpack the parts of an earlier run, and pack all after the block."""
    folder, packed = out / "parts", out / "parts.tar.gz"
    if packed.exists():
        with tarfile.open(packed) as archive:
            archive.extractall(out, filter="data")
    try:
        yield
    finally:
        with tarfile.open(packed.with_suffix(".new"), "w:gz") as archive:
            archive.add(folder, folder.name)
        packed.with_suffix(".new").replace(packed)
        shutil.rmtree(folder)


def run_part(part: Part, settings: Settings, seconds: float, limit: float) -> Result:
    """Run a part in a separate process; return and write its result, whatever its status."""
    path = part_path(settings.out, part.name)
    write_json(path, {"status": "running", "results": {}})
    begin = time.monotonic()
    with part_path(settings.out, part.name, ".log").open("wb") as log:
        child = subprocess.Popen(
            _command(part, settings, seconds), cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            how = _wait(child, limit)
        except BaseException:
            _end(child)
            _finish(part, settings, "interrupted", time.monotonic() - begin)
            raise
    return _finish(part, settings, how, time.monotonic() - begin)


def _command(part: Part, settings: Settings, seconds: float) -> list[str]:
    """Return the command of a process that runs a part."""
    return [
        sys.executable, "-X", "faulthandler", "-m", *CHILD, part.name, part.module, str(settings.out),
        "--device", settings.device, "--seconds", f"{seconds:.1f}", *(["--smoke"] if settings.smoke else []),
    ]  # fmt: skip


def _wait(child: subprocess.Popen[bytes], limit: float) -> str:
    """Wait for a process; return "" if it succeeded, else the reason."""
    try:
        status = child.wait(limit)
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGABRT)  # faulthandler writes where it hangs
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_STACKS_S)
        _end(child)
        return f"timeout: still running after {limit:.0f} s"
    _end(child)
    if status < 0:
        return f"killed by signal {-status} ({signal.Signals(-status).name})"
    return f"exit status {status}" if status else ""


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a process and those it started, except one that hangs in the driver."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)  # the group is the child's own: it leads a session
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_DEATH_S)


def _finish(part: Part, settings: Settings, how: str, seconds: float) -> Result:
    """Add its status to a part's results."""
    path = part_path(settings.out, part.name)
    found = read_json(path)
    status, error = found.get("status", "running"), found.get("error")
    if how.startswith(("timeout", "interrupted")):
        status = how.partition(":")[0]
    elif how or status == "running":
        status = "failed"
    if status not in ("ok", "ok (a try)") and not error:
        error = f"{how or 'ended without a word'}\n{_last_words(part_path(settings.out, part.name, '.log'))}".strip()
    result = {"status": status, "seconds": round(seconds, 1), "results": found.get("results", {}), "error": error}
    write_json(path, result)
    return result


def _last_words(path: Path) -> str:
    """Return the end of a log, or after a crash the stacks that faulthandler wrote."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return ""
    stacks = text.find("Fatal Python error")
    if stacks >= 0:
        return text[stacks:].partition("Extension modules:")[0][:_TAIL].strip()
    return text[-_TAIL:].strip()


def run_parts(
    parts: Sequence[Part], settings: Settings, seconds: float, after: Callable[[dict[str, Result]], None]
) -> dict[str, Result]:
    """Run parts one after another; ``after`` is given all results after each of them.

    A try of the program runs all parts to their ends: it measures little, on any machine, with whatever is there.
    """
    budget = Budget(seconds)
    found = {part.name: not_run("not reached yet") for part in parts}
    for k, part in enumerate(parts):
        share, limit, why = _TRY_S, _TRY_S, ""
        if not settings.smoke:
            share = budget.share(parts[k:])
            limit = budget.limit(share)
            why = broken(part, found.get(PROBE, {})) or ("out of time" if share < part.least else "")
        if why:
            found[part.name] = not_run(why)
            print(f"{part.name}: not run, {why}", flush=True)
        else:
            print(f"{part.name}: {share:.0f} s", flush=True)
            try:
                found[part.name] = run_part(part, settings, share, limit)
            except BaseException:
                found[part.name] = read_json(part_path(settings.out, part.name))
                after(found)
                raise
            print(f"{part.name}: {found[part.name]['status']} in {found[part.name]['seconds']} s", flush=True)
        after(found)
    return found


def broken(part: Part, probed: Result) -> str:
    """Return what a part needs and the probe found broken; "" if nothing is, or if the probe has not run."""
    checks = probed.get("results", {}).get("checks", {})
    found = [name for name in part.needs if checks.get(name, {}).get("status") == BROKEN]
    return f"it needs {', '.join(found)}: {checks[found[0]]['why']}" if found else ""


def not_run(why: str) -> Result:
    """Return the result of a part that did not run."""
    return {"status": "not run", "seconds": 0.0, "results": {}, "error": why}
