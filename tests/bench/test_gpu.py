"""``python -m bench.gpu``: every part on a fake GPU, and parts that fail, hang and crash."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.gpu.__main__ import PLAN
from gpuimg._runtimes.probe import gpu_problem

from ..libraries import needs

ROOT = Path(__file__).parents[2]
#: The others run tests that run on the fake by themselves.
CHECKS = [part.name for row in PLAN for part in row if part.command.startswith("bench.gpu") and part.name != "memcheck"]


def measured(folder: Path, *parts: str, **environment: str) -> tuple[int, str, list[dict[str, Any]]]:
    """Return the exit status, the summary and the findings."""
    command = [sys.executable, "-m", "bench.gpu", "--seconds", "900", "--out", str(folder), *parts]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, **environment}, check=False
    )
    if not folder.exists():
        return done.returncode, done.stderr, []
    assert len(list(folder.iterdir())) <= 8
    findings = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    return done.returncode, (folder / "summary.txt").read_text(), findings


@pytest.mark.skipif(gpu_problem() is None, reason="this machine has a GPU")
def test_without_a_gpu_one_line_says_so(tmp_path: Path) -> None:
    status, said, _ = measured(tmp_path / "out")
    assert (status, said.splitlines()) == (1, ["no usable GPU: no driver for CUDA 12 or later, or no device"])


@pytest.mark.slow
def test_every_part_comes_to_its_end(tmp_path: Path) -> None:
    needs("numba_cuda")
    status, said, findings = measured(tmp_path, *CHECKS, GPU_REHEARSAL="tests.bench.rehearsal", GPU_SLOWER="5")
    assert status == 0, said
    ended = {one["part"] for one in findings if one["what"] in ("ended", "which decoder is faster")}
    assert ended == {*CHECKS}, said
    problems = [
        one for one in findings if "problem" in one and one["part"] != "facts"
    ]  # of this machine, which has none
    assert problems == []


@pytest.mark.slow
@pytest.mark.parametrize(("planted", "named", "others"), [
    ("ours=illegal", "illegal memory access", {"nvimagecodec-cuda", "ours-blocking"}),
    ("ours=crash", "SIGABRT", {"nvimagecodec-cuda"}),
    ("ours=hang", "rehearsal.py", {"nvimagecodec-cuda"}),
    ("nvimagecodec-cuda=nvimgcodec", "libnvjpeg.so.13: cannot open", {"ours"}),
    ("", "libnvcuvid.so.1 is missing", {"ours", "nvimagecodec-cuda"}),  # which this machine has not
])  # fmt: skip
def test_a_fault_is_named_and_costs_its_part_alone(tmp_path: Path, planted: str, named: str, others: set[str]) -> None:
    needs("numba_cuda")
    environment = {"GPU_REHEARSAL": "tests.bench.rehearsal", "GPU_PLANTED": planted}
    _, said, findings = measured(tmp_path, "facts", "ours", "nvimagecodec-cuda", **environment)
    assert named in said.partition("findings")[0]
    assert others <= {one["part"] for one in findings if one["what"] == "ended"}


SANITIZER = """#!/usr/bin/env bash
# As NVIDIA's where it finds something: a report in a file, and the status of the program unless it is told another.
while [ "${1#--}" != "$1" ]; do option=${1#--} && declare "${option//-/_}=$2" && shift 2; done
"$@"
echo "========= ERROR SUMMARY: 1 error" > "$log_file"
exit "${error_exitcode:-$?}"
"""


@pytest.mark.slow
def test_what_compute_sanitizer_finds_is_said(tmp_path: Path) -> None:
    needs("numba_cuda")
    program = tmp_path / "compute-sanitizer"
    program.write_text(SANITIZER)
    program.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    _, said, findings = measured(tmp_path / "out", "memcheck", GPU_REHEARSAL="tests.bench.rehearsal", PATH=path)
    assert "exit 99; ========= ERROR SUMMARY: 1 error" in said.splitlines()[0]
    assert findings[0] == {"part": "memcheck", "what": "done", "images": 4}
