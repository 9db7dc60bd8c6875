"""The parts of ``python -m bench``: each writes one result file, and takes a few minutes on two quiet cores."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from bench.common import RESULTS

_MAIN = (
    "gpuimg,gpuimg-index,gpuimg.load,nvimagecodec,simplejpeg,dali,torchvision,albumentations,spdl,grain,kornia,pillow"
)
_ALL = f"{_MAIN},gpuimg-planes"


@dataclass(frozen=True)
class Part:
    """One measurement: ``python -m MODULE ARGUMENTS`` writes ``bench/results/NAME.json``."""

    name: str
    module: str
    arguments: str = ""
    minutes: float = 3.0
    environment: dict[str, str] = field(default_factory=dict)
    needs: str = ""  # a file without which it cannot run

    @property
    def command(self) -> list[str]:
        """The arguments of Python, without the place of the result."""
        return ["-m", self.module, *self.arguments.split()]

    @cached_property
    def recorded(self) -> dict[str, Any]:
        """The record of the run that the present result is of; empty where there is none."""
        path = RESULTS / f"{self.name}.json"
        found: dict[str, Any] = json.loads(path.read_text()).get("run", {}) if path.exists() else {}
        return found


def _peers(photos: str, peers: str, works: str, rounds: int, minutes: float, costs: bool = False) -> Part:
    arguments = f"--set {photos} --rounds {rounds} --peers {peers} --works {works}{'' if costs else ' --no-costs'}"
    return Part(f"peers-{photos}", "bench.peers", arguments, minutes)


_ONE = {"GPUIMG_NUM_THREADS": "1"}

#: The numbers of the README, the most important ones first.
README = (
    _peers("S", _ALL, "decode,eval,train,train+rotate+color", 5, 9, costs=True),
    _peers("S-4.8", _MAIN, "decode,eval,train", 5, 3),
    _peers("S-2.7", _MAIN, "decode,eval,train", 5, 3),
    Part("progressive", "bench.bench_decode", "--only progressive", 2, _ONE),
    Part("png", "bench.bench_png", "", 2, _ONE),
    Part("decode", "bench.bench_decode", "", 3),
    Part("vlm", "bench.bench_vlm", "", 4, _ONE),
    Part("native", "bench.bench_native", "", 4, needs=".venv-wheel/bin/python"),
    Part("load", "bench.bench_load", "", 3),
    Part("threads", "bench.bench_threads", "", 3),
)
#: The others, of the pages.
OTHERS = (
    *(_peers(f"1280x960{rate}", _MAIN, "decode,eval,train", 3, 3) for rate in ("", "-2.7", "-4.8")),
    *(_peers(f"L{rate}", _MAIN, "decode,train", 3, 3) for rate in ("", "-2.7", "-4.8")),
    Part("busy", "bench.bench_busy", "", 4, _ONE),
    Part("exact", "bench.bench_exact", "", 4, _ONE),
    Part("core", "bench.bench_core", "", 3),
    Part("random", "bench.bench_random", "", 3),
    Part("transfer", "bench.transfer", "", 6),
    Part("draft", "bench.bench_draft", "", 9),
    Part("seek", "bench.bench_seek", "", 9),
    Part("views", "bench.bench_views", "", 4),
    Part("prepare", "bench.bench_prepare", "", 5),
    Part("pixels", "bench.bench_pixels", "", 3),
    Part("pipelines", "bench.bench_pipelines", "", 8),
    Part("board", "bench.imread_board", "", 3),
    Part("many", "bench.bench_many", "", 5),
    Part("remote", "bench.bench_remote", "", 6),
    Part("serve", "bench.bench_serve", "", 6),
    Part("video", "bench.bench_video", "", 8),
    Part("exact-values", "bench.bench_exact", "--values 1e9", 9),
    Part("accuracy", "bench.bench_accuracy", "", 9),
)
PARTS = (*README, *OTHERS)
#: Results of other commands: `make soak` and its parts, `make dist`, ``bench_remote`` with faults and with blocks.
ELSEWHERE = ("robustness", "indexes", "video-robustness", "remote-faults", "remote-blocks", "gpu-jpegs")
