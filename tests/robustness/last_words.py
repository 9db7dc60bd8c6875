"""A process's output to stderr arrives while a loader runs, whatever happens to the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]

_SCRIPT = """
import faulthandler, logging, os, signal, sys
from tests.loading import Source, cpu

batches = iter(cpu(Source(64, corrupt=[3, 20]), epochs=None, on_error="fill"))
next(batches)
{body}
"""

_LINES = [
    "[ERROR] my loss is NaN", "[WARNING] disk", "Invalid learning rate 3", "Unsupported dtype: bfloat16",
    "Progressive resizing: now 224", "Premature end of JPEG file", "ordinary",
]  # fmt: skip

_SAY_LINES = f"""
for line in {_LINES!r}:
    os.write(2, line.encode() + bytes([10]))
    print(line, file=sys.stderr)
    next(batches)
logging.basicConfig(format="[%(levelname)s] %(message)s")
logging.error("checkpoint failed")
os._exit(0)
"""

_LAST = "my last words\n"

#: How a process ends -> what it does, and what it must have said. The loader goes on meanwhile.
WAYS = {
    "lines": (_SAY_LINES, "".join(f"{line}\n{line}\n" for line in _LINES) + "[ERROR] checkpoint failed\n"),
    "abort": ("faulthandler.enable()\nos.abort()", "Fatal Python error: Aborted\n\n"),
    "kill": (f"print({_LAST!r}, end='', file=sys.stderr, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)", _LAST),
    "exit": (f"os.write(2, {_LAST.encode()!r})\nos._exit(1)", _LAST),
    "traceback": (
        "faulthandler.dump_traceback_later(0.05, exit=True)\nwhile True:\n    next(batches)",
        "Timeout (0:00:00.050000)!\n",
    ),
}


def problem(way: str) -> str:
    """Return the missing parts of a process's last output; empty if it is complete."""
    body, words = WAYS[way]
    command = [sys.executable, "-W", "ignore::RuntimeWarning", "-c", _SCRIPT.format(body=body)]
    for _ in range(3):
        said = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=300).stderr
        if way != "traceback" or said.endswith("\n"):
            break  # else Python did not survive reading the stacks of threads that run
    if way in ("abort", "traceback"):  # followed by the stacks of all threads, of which one is the consumer's
        return "" if said.startswith(words) and 'File "<string>"' in said and said.endswith("\n") else f"{said!r}"
    return "" if said == words else f"{said!r} and not {words!r}"
