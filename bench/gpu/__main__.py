"""All parts, each a process with a limit of its own: ``make gpu``, or ``python -m bench.gpu [PART ...]``.

The parts begin in the order of what they are worth, some beside each other, until the time is over. One that hangs,
crashes or fails costs itself alone; one that a fault of the GPU ends runs again by itself, with a launch at a time, and
under compute-sanitizer. They use the gpuimg that is installed, and that of this folder where none is.

The folder of results gets summary.txt, a line for each part, what failed, and all findings in short; results.jsonl, all
findings; logs.tgz; differences.tgz, files, the pixels of both sides, memory of kernels; kernels.tgz, compiled here.
"""

import argparse
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from bench.gpu import REHEARSAL

ROOT = Path(__file__).parents[2]  # this module needs nothing but Python
_CACHE = ROOT / "build" / "gpu-cache"  # of kernels and loops that do not come compiled
_SITE = ROOT / "site"  # packages of `make gpu-pack`
_RESERVE_S, _LEAST_S = 8.0, 5.0  # for the results; a part with less is left out
_MOST_BYTES = 15 << 20  # of a file of results

# Runs a module as a program, behind all that is installed.
_RUN = "import runpy, sys; sys.path.append('.'); runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
_FAULT = re.compile(r"illegal (?:memory|address|instruction)|ILLEGAL_\w+|misaligned|LAUNCH_FAILED|launch failure", re.I)
_STACK = re.compile(r"Current thread .*\n  (.*)")
_PYTEST = (
    "pytest -v -ra -p bench.gpu -p xdist.plugin -p _hypothesis_pytestplugin -p no:cacheprovider --import-mode=append"
)
_SANITIZER = "compute-sanitizer --error-exitcode 99 --print-limit 8 --log-file"
_GPU, _LOADER = "tests/cuda/test_gpu.py", "tests/cuda/test_gpu_loader.py"
_ENVIRONMENT = {
    "PYTHONUNBUFFERED": "1", "PYNVIMGCODEC_VERBOSITY": "3", "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "GPUIMG_TEST_LIMIT": "100",
    "PYTHONPATH": os.pathsep.join(filter(None, [str(_SITE) if _SITE.exists() else "", os.environ.get("PYTHONPATH")])),
    **({} if REHEARSAL else {"GPUIMG_REQUIRE_GPU": "1", "NUMBA_CACHE_DIR": str(_CACHE)}),
}  # fmt: skip


class Part(NamedTuple):
    """A module with its arguments, as in a shell, and the seconds that it may take."""

    name: str
    seconds: float
    command: str
    sanitized: bool = False  # whether it runs under compute-sanitizer


def _check(name: str, seconds: float) -> Part:
    return Part(name, seconds, f"bench.gpu.checks {name}")


def _tests(name: str, seconds: float, which: str) -> Part:
    return Part(name, seconds, f"{_PYTEST} {which}")


#: Those of a row run beside each other.
PLAN: tuple[tuple[Part, ...], ...] = (
    (_check("facts", 60), _check("probe", 60)),
    (Part("warm", 150, "gpuimg warm --all"),),
    (_check("kernels", 60),),
    (_check("self-test", 45),),
    (_check("ours", 60), _check("nvimagecodec-cuda", 60), _check("nvimagecodec-hardware", 60),
     _check("first-batch", 40)),
    (_check("both", 60), _check("others", 40),
     _tests("functions", 60, f"{_GPU} -k float_results"), _tests("nvdec", 60, f"{_GPU} -k nvdec"),
     _tests("hand-off", 80, f"{_GPU} {_LOADER} -k 'torch or jax or interface'"),
     _tests("loaders", 70, f"{_LOADER} -k 'not torch and not flat'")),
    (Part("rates", 120, "bench.gpu.rates"),),
    (_tests("tests", 130, f"-n 6 --dist worksteal --max-worker-restart 15 {_GPU}"),),
    (_tests("memory", 30, f"{_LOADER} -k flat"),),  # of the whole GPU: beside nothing else
    (_check("nvimagecodec-batches", 45),),
    (Part("memcheck", 45, "bench.gpu.checks small", sanitized=True),),
)  # fmt: skip


class Run:
    """Parts until a time is over, and their results."""

    def __init__(self, out: Path, seconds: float) -> None:
        self._begin = time.monotonic()
        self._end = self._begin + seconds - _RESERVE_S
        self._out, self._summary = out, out / "summary.txt"
        self._running: list[subprocess.Popen[Any]] = []
        self._work = Path(tempfile.mkdtemp(prefix="gpuimg-"))
        self._logs, self._differences = self._work / "logs", self._work / "differences"
        for folder in (out, self._logs, self._differences, _CACHE):
            folder.mkdir(parents=True, exist_ok=True)
        self._summary.write_text("")

    def say(self, line: str) -> None:
        print(line, flush=True)
        with self._summary.open("a") as file:
            print(line, file=file)

    def part(self, part: Part, **environment: str) -> bool:
        """Run a part; return True if a fault of the GPU ended it."""
        begin = time.monotonic()
        limit = min(part.seconds * float(os.environ.get("GPU_SLOWER", "1")), self._end - begin)
        if limit < _LEAST_S:
            self.say(f"{part.name:24} left out: no time")
            return False
        before: list[str] = []
        if part.sanitized:
            if not shutil.which("compute-sanitizer"):
                self.say(f"{part.name:24} left out: no compute-sanitizer")
                return False
            before = [*_SANITIZER.split(), str(self._logs / f"{part.name}.txt")]
            environment["GPU_PHOTOS"] = "4"
        logs = [self._logs / f"{part.name}.{ending}" for ending in ("out", "err")]
        given = {"GPU_DIFFERENCES": str(self._differences), "GPU_SECONDS": str(limit), **environment}
        with logs[0].open("w") as out, logs[1].open("w") as errors:
            process = subprocess.Popen(
                [*before, sys.executable, "-P", "-X", "faulthandler", "-c", _RUN, *shlex.split(part.command)],
                cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, start_new_session=True,
                env={**os.environ, **_ENVIRONMENT, **given},
            )  # fmt: skip
            self._running.append(process)
            status = _ended(process, limit)
        said, err = (log.read_text(errors="replace") for log in logs)
        for report in self._logs.glob(f"{part.name}.txt"):  # compute-sanitizer's
            err += report.read_text(errors="replace")
        problems = [f"{one.get('what')}: {one['problem']}" for one in _findings(said) if "problem" in one]
        problems += [line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))]
        found = _FAULT.search(said) or _FAULT.search(err)
        how = ["out of time" if status is None else f"exit {status}" if status > 0 else ""]
        if status is not None and (found or status < 0):
            by = found[0] if found else f"it ended by {signal.Signals(-status).name}"
            how.append(f"a fault of the GPU or a crash: {by}")
        if problems:
            how.append(f"{len(problems)} problems")
        elif status is None or status < 0:
            how += _STACK.findall(err)[-1:]
        else:
            how += err.strip().splitlines()[-1:] if status else ["ok"]
        taken = f"{time.monotonic() - begin:4.0f} of {limit:4.0f} s"
        self.say(f"{part.name:24} {taken}  {'; '.join(filter(None, how))[:300]}")
        for line in problems[:8]:
            self.say(f"    {line[:300]}")
        return status is not None and (found is not None or status < 0)

    def all(self, chosen: list[str]) -> int:
        """Run parts in their order; return the exit status."""
        for row in PLAN:
            parts = [part for part in row if part.name in chosen or not chosen]
            with ThreadPoolExecutor(len(row)) as pool:
                try:
                    faults = list(pool.map(self.part, parts))
                except BaseException:  # such as Ctrl-C
                    for process in filter(lambda process: process.poll() is None, self._running):
                        _kill(process, signal.SIGKILL, 2.0)
                    raise
            for part, is_fault in zip(parts, faults, strict=True):
                if is_fault and part.command.startswith("bench") and not part.sanitized:  # each test says what it is
                    blocking = part._replace(name=f"{part.name}-blocking", seconds=30)
                    self.part(blocking, CUDA_LAUNCH_BLOCKING="1")
                    self.part(part._replace(name=f"{part.name}-memcheck", seconds=70, sanitized=True))
                if part.name == "probe" and '{"what": "usable"}' not in (self._logs / "probe.out").read_text():
                    self.say("no usable GPU, see probe: the rest is left out")
                    return 1
        return 0

    def pack(self) -> None:
        """Write the results; an archive that is larger than a file may be is left out."""
        self.say("findings")
        with (self._out / "results.jsonl").open("w") as results:
            for path in sorted(self._logs.glob("*.out"), key=lambda path: path.stat().st_mtime):
                for found in _findings(path.read_text(errors="replace")):
                    print(json.dumps({"part": path.stem, **found}), file=results)
                    self.say(f"    {path.stem}: {_short(found)}")
        for name, folder in (("logs", self._logs), ("differences", self._differences), ("kernels", _CACHE)):
            archive = self._out / f"{name}.tgz"
            with tarfile.open(archive, "w:gz", compresslevel=5) as tar:
                tar.add(folder, name)
            if archive.stat().st_size > _MOST_BYTES:
                archive.unlink()
        shutil.rmtree(self._work, ignore_errors=True)
        self.say(f"{time.monotonic() - self._begin:.0f} s; results in {self._out}")


def _ended(process: "subprocess.Popen[Any]", limit: float) -> int | None:
    """Wait for a process; after the limit have it print its stacks, end all that it started, and return None."""
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        _kill(process, signal.SIGABRT, 3.0)
        _kill(process, signal.SIGKILL, 2.0)
        return None


def _kill(process: "subprocess.Popen[Any]", number: int, seconds: float) -> None:
    with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
        os.killpg(process.pid, number)
        process.wait(seconds)


def _findings(said: str) -> Iterator[dict[str, Any]]:
    for line in filter(lambda line: line.startswith("{"), said.splitlines()):
        with contextlib.suppress(ValueError):  # a process may end in the middle of a line
            yield json.loads(line)


def _short(found: dict[str, Any]) -> str:
    left_out = ("what", "range", "stats", "versions", "registers_and_spills")
    rest = ", ".join(
        f"{name} {value}" for name, value in found.items() if name not in left_out and value not in ([], {})
    )
    return f"{found.get('what')}: {rest}"[:400]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [part.name for row in PLAN for part in row]
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"by default all: {', '.join(names)}")
    parser.add_argument("--seconds", type=float, default=420, help="for everything (%(default)s)")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results" / "gpu", help="folder of the results")
    options = parser.parse_args()
    if unknown := {*options.parts} - {*names}:
        parser.error(f"there is no part {', '.join(unknown)}: {', '.join(names)}")
    needed = [sys.executable, ROOT / "gpuimg" / "_runtimes" / "probe.py"]  # prints the extra that this machine needs
    if not REHEARSAL and "cuda" not in subprocess.run(needed, capture_output=True, text=True, timeout=30).stdout:
        print("no usable GPU: no driver for CUDA 12 or later, or no device", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    run = Run(options.out.absolute(), options.seconds)
    try:
        return run.all(options.parts)
    finally:
        run.pack()


if __name__ == "__main__":
    sys.exit(main())
