"""All benchmarks by one command: ``make bench``, or ``python -m bench [--only peers-S,png] [--again] [--list]``.

Each part writes one file in bench/results, with the command, version, commit, machine, date and load. A part whose
result is of this version and of the same code (comments do not count) is skipped, so that the command can be
interrupted and repeated. A part that fails keeps its earlier result, and the others go on. Parts use the compiled loops
of .venv-wheel, if there is one (``make wheel-venv``). At the end the pages take their figures from the results
(``python -m bench.figures``).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from bench import common, figures, peers

_LOGS = common.ROOT / "build" / "bench"
_LIMIT_S = 2400  # for one part

_ALL = ",".join([name for name in peers.PEERS if not name.endswith("-mixed")])
_SWEEP = "gpuimg,gpuimg.load,simplejpeg,dali,torchvision,albumentations,grain,kornia"


def _peers() -> Iterator[tuple[str, str]]:
    yield "S", f"--peers {_ALL}"
    for name in ("S-4.8", "S-2.7", "1280x960", "1280x960-2.7", "1280x960-4.8"):
        yield name, f"--peers {_ALL} --works decode,eval,train --no-costs"
    for name in ("L", "L-2.7", "L-4.8"):
        yield name, f"--peers {_ALL} --works decode,train --no-costs"


def _threads(cores: int) -> str:
    """Return 1, 2, 4, ... and the number of cores."""
    return ",".join(map(str, sorted({2**k for k in range(cores.bit_length()) if 2**k <= cores} | {cores})))


_CORES = len(os.sched_getaffinity(0))
#: Names of results, their modules and arguments.
PARTS = {f"peers-{name}": f"bench.peers --set {name} {arguments}" for name, arguments in _peers()} | {
    "progressive": "bench.formats progressive",
    "png": "bench.formats png",
    "decode": "bench.formats decode",
    "vlm": "bench.models",
    "load": "bench.loader load",
    "busy": "bench.loader busy",
    "threads": f"bench.peers --threads {_threads(_CORES)} --peers {_SWEEP} --works decode,train --no-costs",
    "exact": "bench.exact",
    "board": "bench.board",
    "draft": "bench.less_decoding draft",
    "seek": "bench.less_decoding seek",
    "prepare": "bench.less_decoding prepare",
    "recode": "bench.less_decoding recode",
    "remote": "bench.remote",
    "video": "bench.video",
}
_ONE_THREAD = {"progressive", "png", "vlm", "busy", "exact"}


def recorded(name: str) -> dict[str, Any]:
    """Return the record of the run that a part's present result is of; empty where there is none."""
    path = common.RESULTS / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text()).get("run", {}) if path.exists() else {}
    return found


def measure(name: str) -> str | None:
    """Run a part; return why it failed, or None. Its result replaces the earlier one only at the end."""
    _LOGS.mkdir(parents=True, exist_ok=True)
    out, log = _LOGS / f"{name}.json", _LOGS / f"{name}.log"
    out.unlink(missing_ok=True)
    places = [str(place) for place in (common.ROOT / ".venv-wheel").glob("lib/python*/site-packages")]
    path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), *places])
    environment = os.environ | {"PYTHONPATH": path}
    if name in _ONE_THREAD:
        environment |= {"GPUIMG_NUM_THREADS": "1"}
    command = [sys.executable, "-m", *PARTS[name].split(), "--out", str(out)]
    with log.open("w") as file:
        try:
            subprocess.run(
                command, cwd=common.ROOT, env=environment, stdout=file, stderr=subprocess.STDOUT, timeout=_LIMIT_S,
                check=True,
            )  # fmt: skip
        except subprocess.SubprocessError as error:
            return f"{error} ({log})"
    out.replace(common.RESULTS / out.name)
    return None


def main() -> None:
    """Measure what is not current, and write the pages."""
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", metavar="NAMES", help=", ".join(PARTS))
    parser.add_argument("--again", action="store_true", help="also parts that are current")
    parser.add_argument("--list", action="store_true", help="list the parts, and measure nothing")
    given = parser.parse_args()
    names = given.only.split(",") if given.only else list(PARTS)
    if unknown := set(names) - set(PARTS):
        parser.error(f"there are {', '.join(PARTS)}, not {', '.join(unknown)}")
    now = common.run_record()
    current = {name for name in names if all(recorded(name).get(key) == now[key] for key in ("version", "code"))}
    if given.list:
        for name in names:
            print(f"{name:18} {'current' if name in current else 'not current':12} python -m {PARTS[name]}")
        return
    failed = []
    for name in names:
        if given.again or name not in current:
            print(f"{name}, with a load of {os.getloadavg()[0]:.1f}", flush=True)
            if reason := measure(name):
                failed.append(name)
                print(f"    FAILED: {reason}", flush=True)
    figures.main()
    sys.exit(f"not measured: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
