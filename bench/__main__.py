"""All benchmarks by one command: ``make bench``, or ``python -m bench``; see ``--help``.

Each part writes one file in bench/results, with the command, version, commit, machine, date and load. Parts run in the
order of ``--list``, the most important first, so that an interrupted run has these; the same command resumes, because a
part whose result is of this version and code (comments do not count) is skipped. A part that fails keeps its earlier
result, and the others go on. At the end the pages take their figures from the results (``python -m bench.figures``).

A part starts when the machine is quiet: no other process has used more than 2 % of a core for 30 s, and, before the
first part, the load is below 0.7. If that takes longer than ``--patience``, the command ends and names the process. A
part that was disturbed, by a process or by other virtual machines on the same host, is measured again at the end.
Loops are compiled for this machine first, into build/loops.
"""

import argparse
import json
import os
import subprocess
import sys

from bench import common, figures, peers
from bench.quiet import Watch

_BUILD = common.ROOT / "build"
_LOGS, _LOOPS = _BUILD / "bench", _BUILD / "loops"
_LIMIT_S = 1200  # for one part

_ALL = ",".join([name for name in peers.PEERS if name not in peers.ON_GPU])
_SIZES = "--peers gpuimg,gpuimg-calls,simplejpeg,dali,torchvision,kornia,pillow --works decode,train --no-costs"
_ONE = "--peers gpuimg,gpuimg-calls,dali,torchvision,albumentations,kornia,pillow --works train --no-costs"

#: Names of results, their modules and arguments, the most important first.
PARTS = {
    "peers-S": f"bench.peers --set S --peers {_ALL}",
    "peers-S-4.8": f"bench.peers --set S-4.8 --peers {_ALL} --works decode,eval,train --no-costs",
    "peers-S-1": f"bench.peers --set S --threads 1 --rounds 3 {_ONE}",
    "peers-1280x960": f"bench.peers --set 1280x960 --rounds 3 {_SIZES}",
    "peers-1280x960-4.8": f"bench.peers --set 1280x960-4.8 --rounds 3 {_SIZES}",
    "peers-L": f"bench.peers --set L --rounds 3 {_SIZES}",
    "peers-L-4.8": f"bench.peers --set L-4.8 --rounds 3 {_SIZES}",
    "one-image": "bench.one_image",
    "png": "bench.formats png",
    "progressive": "bench.formats progressive",
    "decode": "bench.formats decode",
    "exact": "bench.exact",
    "pixels": "bench.pixels",
    "encode": "bench.encode",
    "tiles": "bench.tiles",
    "areas": "bench.areas",
    "vlm": "bench.models",
    "stages": "bench.stages",
    "processors": "bench.processors",
    "draft": "bench.less_decoding draft",
    "prepare": "bench.less_decoding prepare",
    "recode": "bench.less_decoding recode",
    "load": "bench.loader",
    "remote": "bench.remote",
    "video": "bench.video",
    "compiling": "bench.compiling",
}
_ONE_THREAD = {"progressive", "png", "vlm", "processors", "load", "exact", "stages", "tiles", "areas"}


def compiled() -> dict[str, str]:
    """Compile the loops for this machine, unless the present ones are of the same sources; return the environment."""
    # This tree first, also in processes that other libraries start, whatever the environment has installed.
    path = os.pathsep.join([str(common.ROOT), *filter(None, [os.environ.get("PYTHONPATH")]), str(_LOOPS)])
    environment = os.environ | {"PYTHONPATH": path}
    check = "from gpuimg.kernels import native; raise SystemExit(native.LEVEL is None)"
    command = [sys.executable, "-W", "ignore", "-c", check]
    if subprocess.run(command, cwd=common.ROOT, env=environment, check=False).returncode:
        place = _LOOPS / "gpuimg" / "kernels" / "_lib"
        subprocess.run(
            [sys.executable, "-m", "buildtools", "--symbols", "--out", str(place)], cwd=common.ROOT, check=True
        )
    return environment


def measure(name: str, watch: Watch, environment: dict[str, str]) -> str | None:
    """Run a part; return why it failed, or None. Its result replaces the earlier one only at the end."""
    _LOGS.mkdir(parents=True, exist_ok=True)
    out, log = _LOGS / f"{name}.json", _LOGS / f"{name}.log"
    out.unlink(missing_ok=True)
    module, *arguments = PARTS[name].split()
    command = [sys.executable, "-m", module, *arguments, "--out", str(out)]
    environment = environment | ({"GPUIMG_NUM_THREADS": "1"} if name in _ONE_THREAD else {})
    watch.start()
    with log.open("w") as file:
        try:
            subprocess.run(
                command, cwd=common.ROOT, env=environment, stdout=file, stderr=subprocess.STDOUT, timeout=_LIMIT_S,
                check=True,
            )  # fmt: skip
        except subprocess.SubprocessError as error:
            return f"{error} ({log})"
    found = json.loads(out.read_text())
    found["run"] |= watch.record()
    (common.RESULTS / out.name).write_text(json.dumps(found, indent=1) + "\n")
    return None


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", metavar="NAMES", help=", ".join(PARTS))
    parser.add_argument("--again", action="store_true", help="also parts that are current")
    parser.add_argument("--list", action="store_true", help="list the parts, and measure nothing")
    parser.add_argument("--anyway", action="store_true", help="on a busy machine, too; results are marked as not quiet")
    parser.add_argument("--patience", type=float, default=600, help="seconds to wait for a quiet machine (%(default)s)")
    given = parser.parse_args()
    given.names = given.only.split(",") if given.only else list(PARTS)
    if unknown := set(given.names) - set(PARTS):
        parser.error(f"there are {', '.join(PARTS)}, not {', '.join(unknown)}")
    return given


def main() -> None:
    given, now = arguments(), common.run_record()

    def is_current(name: str) -> bool:
        path = common.RESULTS / f"{name}.json"
        run = json.loads(path.read_text()).get("run", {}) if path.exists() else {}
        return all(run.get(key) == now[key] for key in ("version", "code")) and bool(run.get("quiet") or given.anyway)

    current = {name for name in given.names if is_current(name)}
    if given.list:
        for name in given.names:
            print(f"{name:18} {'current' if name in current else 'not current':12} python -m {PARTS[name]}")
        return
    names = [name for name in given.names if given.again or name not in current]
    watch, environment, failed, disturbed = Watch(), compiled(), [], set[str]()
    try:
        for number, name in enumerate(names):  # grows while it runs
            if not given.anyway and (problem := watch.wait(given.patience, not number)):
                sys.exit(
                    f"the machine is not quiet: {problem}. --anyway measures in spite of it, and marks the results."
                )
            print(f"{name}, with a load of {os.getloadavg()[0]:.1f}", flush=True)
            if reason := measure(name, watch, environment):
                failed.append(name)
                print(f"    FAILED: {reason}", flush=True)
            elif not (given.anyway or watch.record()["quiet"] or name in disturbed):
                (share, other), taken = watch.busiest, watch.record()["stolen"]
                reason = f"{other} used {share:.1%} of a core, the host took {taken:.1%}"
                print(f"    {reason}: measured again at the end", flush=True)
                disturbed.add(name)
                names.append(name)
    finally:  # also after an interruption, or on a machine that is not quiet
        figures.main()
    sys.exit(f"not measured: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
