"""New processes that run Python, and forks of one that has imported everything, without the cost of imports.

A fork has compiled nothing and holds only imported modules, so it reads the same from disk as a new process. Tests of
the start-up itself start a process by :func:`python`.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]

# Reads lines of [code, arguments, environment, file for what it prints] and answers each with the exit status.
_SERVER = """
import json, os, sys
exec(sys.argv[1])
for line in sys.stdin:
    code, arguments, environment, path = json.loads(line)
    child = os.fork()
    if child == 0:
        os.environ.update(environment)
        sys.argv[1:] = arguments
        for number, ending in enumerate(("in", "out", "err")):
            os.dup2(os.open(path + ending, os.O_RDWR | os.O_CREAT), number)
        exec(code, {"__name__": "__main__"})
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def python(*arguments: str | Path, folder: Path = ROOT, **environment: str | None) -> str:
    """Run Python in a separate process that imports this tree's package; assert success and return its output.

    ``environment`` is added to that of this process; None removes a variable.
    """
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    given = {**os.environ, "PYTHONPATH": path, "PYTHONFAULTHANDLER": "1", **environment}
    used = {name: value for name, value in given.items() if value is not None}
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, env=used, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


class Forks:
    """A process that has imported what it was started for, and forks."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, code: str, *arguments: str, **environment: str) -> Done:
        """Run code in a fork, with arguments in ``sys.argv`` and more environment than this process has."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps([code, arguments, environment, f"{folder}/"]), file=self._process.stdin, flush=True)
            status = self._process.stdout.readline()
            assert status, "the process that forks has ended"
            out, err = ((Path(folder) / name).read_text() for name in ("out", "err"))
        return Done(int(status), out, err)


@contextmanager
def forks(imports: str, *options: str, **environment: str) -> Iterator[Forks]:
    """A process that runs ``imports`` once, with options of the interpreter such as ``-W error``."""
    # NumPy's threads are of no use here, and a process that has some cannot be forked without a warning.
    given = os.environ | {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"} | environment
    command, pipe = [sys.executable, *options, "-c", _SERVER, imports], subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env=given, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield Forks(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()


def run_command(*arguments: object) -> int:
    """Run a command of gpuimg in this process; return its exit status."""
    from gpuimg._cli import main

    return main.main([*map(str, arguments)])
