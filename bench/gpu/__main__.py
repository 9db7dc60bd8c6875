"""Checks and measurements on a GPU: tests, agreement with the CPU, order, decoders, video, throughput, peers.

    python -m bench.gpu --prepare                   makes the photos, on the CPU; do this before the GPU's time runs
    python -m bench.gpu --out DIR [--minutes 9] [--parts tests,paths]
    python -m bench.gpu --out DIR --device cpu      tries the program itself, with tiny sizes (--smoke)

It runs unattended. A failure is reported with its reason, and does not stop the rest. ``DIR/gpu.json`` has all figures,
``DIR/summary.md`` the report, ``DIR/summary.json`` the status of each part, ``DIR/parts.tar.gz`` the logs; they are
rewritten after every part, and parts that run later into the same folder join the earlier ones.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.gpu.harness import PROBE, ROOT, Part, Result, Settings, parts_in_one_file, run_part, run_parts
from bench.gpu.parts import PARTS
from bench.gpu.summary import GOOD, assemble, results_of

PHOTOS = Part("photos", "bench.gpu.prepare", 1, "the photos")
COMMIT = "COMMIT"  # the file in which `bench.gpu.pack` leaves the version where no repository is
_PREPARE_S = 600.0  # for --prepare
_PREPARE_SHARE = 0.15  # of --minutes, where they were not made before
_MINUTES = 9.0


def chosen(names: str | None, smoke: bool = False) -> list[Part]:
    """Return the parts by name, and those that they need: the machine, the probe, and compiled kernels."""
    if names is None:
        return PARTS
    wanted = set(names.replace(",", " ").split())
    unknown = wanted - {part.name for part in PARTS}
    if unknown:
        raise SystemExit(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(p.name for p in PARTS)}")
    needs = {name for part in PARTS if part.name in wanted for name in part.needs}
    wanted |= {"machine"} if smoke else {"machine", *([PROBE] if needs else []), *(["warm"] if needs else [])}
    return [part for part in PARTS if part.name in wanted]


def header(minutes: float, device: str) -> dict[str, Any]:
    """Return the time and the version of a run."""
    commit = ""
    with contextlib.suppress(OSError):  # no git, or no file
        command = ["git", "describe", "--always", "--dirty"]
        commit = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
        commit = commit or (ROOT / COMMIT).read_text().strip()
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit or "unknown",
        "device": device,
        "minutes": minutes,
    }


def main(command: list[str] | None = None) -> int:
    """Run the parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results" / "gpu")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--parts", help=f"some of {','.join(part.name for part in PARTS)} (commas or spaces)")
    parser.add_argument("--prepare", action="store_true", help="only make the photos")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--smoke", action="store_true", help="only try the program")
    options = parser.parse_args(command)
    settings = Settings(options.out.resolve(), options.device, smoke=options.smoke or options.device == "cpu")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as an interrupt: ends the part, keeps its results
    if options.prepare:
        made = run_part(PHOTOS, settings, _PREPARE_S, _PREPARE_S)
        print(made["results"], made["error"] or "")
        return int(made["status"] not in GOOD)
    return _measure(chosen(options.parts, settings.smoke), settings, options.minutes or _MINUTES)


def _measure(parts: list[Part], settings: Settings, minutes: float) -> int:
    """Run parts; those chosen by name join the results of an earlier run in the same folder."""
    with parts_in_one_file(settings.out):
        return _measure_parts(parts, settings, minutes)


def _measure_parts(parts: list[Part], settings: Settings, minutes: float) -> int:
    begin = time.monotonic()
    about = header(minutes, settings.device)
    earlier = results_of(settings.out)
    if not settings.smoke:
        limit = 60 * minutes * _PREPARE_SHARE
        earlier["photos"] = run_part(PHOTOS, settings, limit, limit)
        print(f"photos: {earlier['photos']['results']}", flush=True)

    def after(found: dict[str, Result]) -> None:
        assemble([PHOTOS, *PARTS], settings, {**earlier, **found}, about)

    found = run_parts(parts, settings, 60 * minutes - (time.monotonic() - begin), after)
    print(f"wrote {settings.out / 'summary.md'} after {time.monotonic() - begin:.0f} s")
    return int(any(result["status"] not in GOOD for result in found.values()))


if __name__ == "__main__":
    raise SystemExit(main())
