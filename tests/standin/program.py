"""``python -m tests.standin.program``: the program of ``bench.gpu``, to try it with the stand-in as its GPU.

Its options are those of ``python -m bench.gpu``. Numbers of such a run mean nothing.
"""

from __future__ import annotations

import sys

from bench.gpu import __main__ as program
from bench.gpu import child, harness

from . import installed
from .bench import Tried, extended

CHILD = "tests.standin.program"


def main(command: list[str]) -> int:
    """Run the program, or one of its parts in this process, which is how it runs each."""
    if command[:1] == ["--child"]:
        with installed() as standin, extended(standin):
            child.Context = Tried  # type: ignore[misc]
            return child.main(command[1:])
    harness.CHILD = CHILD, "--child"
    return program.main(["--smoke", *command])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
