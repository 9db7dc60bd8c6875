"""The proof on a GPU, as far as it goes without one: its processes, its results, and its parts on the CPU."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from bench.gpu import __main__ as program
from bench.gpu import agreement, harness, jpeg, order, probe, suite, summary, targets
from bench.gpu.child import Context
from bench.gpu.harness import Budget, Part, Result, Settings
from bench.gpu.measure import gil_seconds, rate, replaced
from bench.gpu.parts import PARTS
from gpuimg._runtimes.probe import gpu_problem

from .jpegs import encoded, noise
from .standin import Standin

pytestmark = pytest.mark.slow

MODULES = [importlib.import_module(part.module) for part in PARTS]

FAKES = {
    "fine": "context.record('answer', 42)",
    "raises": "context.record('answer', 1); raise ValueError('no such thing')",
    "hangs": "context.record('answer', 2); time.sleep(60)",
    "aborts": "context.record('answer', 3); os.abort()",
    "killed": "context.record('answer', 4); os.kill(os.getpid(), signal.SIGKILL)",
    "silent": "context.record('answer', 5); os._exit(0)",
    "leaves": "context.record('child', subprocess.Popen(['sleep', '60']).pid)",
    "obeys": "\n    while context.left() > 0: time.sleep(0.01)\n    context.record('answer', 6)",
}
_HEAD = "import os, signal, subprocess, time\ndef run(context):\n    "
_CLAIMS = "\ndef claims(results): return [f'bad {results}'], [f'good {results}', '| a | b |']\n"


@pytest.fixture
def part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Part]:
    """Parts that do what their name says."""
    for name, body in FAKES.items():
        (tmp_path / f"fake_{name}.py").write_text(_HEAD + body + _CLAIMS)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{harness.ROOT}")
    monkeypatch.syspath_prepend(str(tmp_path))
    return lambda name: Part(name, f"fake_{name}", 1, f"about {name}", least=0.01)


def run(part: Part, out: Path, seconds: float = 5.0, limit: float = 20.0) -> Result:
    result = harness.run_part(part, Settings(out, "cpu"), seconds, limit)
    assert harness.read_json(out / "parts" / f"{part.name}.json") == result
    return result


# -- processes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "status", "error", "results"),
    [
        ("fine", "ok", None, {"answer": 42}),
        ("raises", "failed", "ValueError: no such thing", {"answer": 1}),
        ("aborts", "failed", "SIGABRT", {"answer": 3}),
        ("killed", "failed", "SIGKILL", {"answer": 4}),
        ("silent", "failed", "without a word", {"answer": 5}),
        ("obeys", "ok", None, {"answer": 6}),
    ],
)
def test_how_a_part_ends(
    name: str, status: str, error: str | None, results: Any, part: Callable[[str], Part], tmp_path: Path
) -> None:
    result = run(part(name), tmp_path / "out", seconds=0.2 if name == "obeys" else 5.0)
    assert (result["status"], result["results"]) == (status, results)
    assert result["error"] is None if error is None else error in result["error"]


def test_a_crash_says_where(part: Callable[[str], Part], tmp_path: Path) -> None:
    assert "fake_aborts.py" in run(part("aborts"), tmp_path)["error"]


def test_a_part_that_hangs_is_ended_and_says_where(part: Callable[[str], Part], tmp_path: Path) -> None:
    begin = time.monotonic()
    result = run(part("hangs"), tmp_path, limit=1.0)
    assert time.monotonic() - begin < 8
    assert result["status"] == "timeout"
    assert result["results"] == {"answer": 2}
    assert "fake_hangs.py" in result["error"]


def test_what_a_part_started_ends_with_it(part: Callable[[str], Part], tmp_path: Path) -> None:
    pid = run(part("leaves"), tmp_path)["results"]["child"]
    for _ in range(100):
        state = Path(f"/proc/{pid}/stat")
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    raise AssertionError("a process was left running")


def test_a_module_that_is_missing_is_a_failure(tmp_path: Path) -> None:
    result = run(Part("gone", "no_such_module_here", 1, "nothing"), tmp_path)
    assert result["status"] == "failed"
    assert "no_such_module_here" in result["error"]


def test_results_so_far_are_there_after_each_part(part: Callable[[str], Part], tmp_path: Path) -> None:
    parts = [part(name) for name in ("fine", "raises", "silent")]
    seen: list[list[str]] = []
    found = harness.run_parts(
        parts, Settings(tmp_path, "cpu"), 60.0, lambda found: seen.append([part["status"] for part in found.values()])
    )
    assert seen == [["ok", "not run", "not run"], ["ok", "failed", "not run"], ["ok", "failed", "failed"]]
    assert found["silent"]["results"] == {"answer": 5}


def test_an_interruption_keeps_what_was_measured(
    part: Callable[[str], Part], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(child: Any, limit: float) -> str:
        while harness.read_json(tmp_path / "parts" / "hangs.json").get("results") != {"answer": 2}:
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(harness, "_wait", interrupted)
    seen: list[Result] = []
    with pytest.raises(KeyboardInterrupt):
        harness.run_parts([part("hangs"), part("fine")], Settings(tmp_path, "cpu"), 60.0, lambda f: seen.append({**f}))
    assert seen[-1]["hangs"]["status"] == "interrupted"
    assert seen[-1]["hangs"]["results"] == {"answer": 2}
    assert seen[-1]["fine"]["status"] == "not run"


# -- time --------------------------------------------------------------------------------------------------------------


def test_parts_without_time_are_named(part: Callable[[str], Part], tmp_path: Path) -> None:
    late = Part("late", "fake_fine", 1, "too late", least=50.0)
    found = harness.run_parts([part("fine"), late], Settings(tmp_path, "cpu"), 20.0, lambda found: None)
    assert found["fine"]["status"] == "ok"
    assert (found["late"]["status"], found["late"]["error"]) == ("not run", "out of time")


def test_a_part_gets_its_share_of_what_is_left() -> None:
    parts = [Part("a", "", 20, ""), Part("b", "", 60, "")]
    budget = Budget(100.0)
    assert budget.share(parts) == pytest.approx(25.0, abs=0.1)
    assert budget.share(parts[1:]) == pytest.approx(100.0, abs=0.1)
    assert budget.limit(20.0) == pytest.approx(35.0)
    assert budget.limit(99.0) <= 100.0
    assert Budget(-1.0).limit(5.0) == 0.0


def test_a_part_alone_does_not_get_all_the_time() -> None:
    assert Budget(540.0).share([Part("order", "", 30, "")]) == pytest.approx(90.0)


def test_nine_minutes_are_enough_for_every_part() -> None:
    whole = sum(part.weight for part in PARTS)
    assert all(0.85 * 540 * part.weight / whole >= part.least for part in PARTS)
    assert len({part.name for part in PARTS}) == len(PARTS)


# -- what is broken ----------------------------------------------------------------------------------------------------


def test_parts_that_need_what_is_broken_are_left_out(part: Callable[[str], Part], tmp_path: Path) -> None:
    (tmp_path / "fake_probe.py").write_text(
        "def run(context):\n"
        "    context.record('checks', {'nvrtc': {'status': 'broken', 'why': 'no headers; install them'},"
        " 'kernel': {'status': 'ok', 'why': ''}, 'jax': {'status': 'absent', 'why': 'not installed'}})\n"
    )
    parts = [
        Part(harness.PROBE, "fake_probe", 1, "what works", least=0.01),
        replace(part("fine"), needs=("kernel", "jax")),
        replace(part("obeys"), needs=("kernel", "nvrtc")),
    ]
    found = harness.run_parts(parts, Settings(tmp_path, "cpu"), 20.0, lambda found: None)
    assert found["fine"]["status"] == "ok"
    assert (found["obeys"]["status"], found["obeys"]["error"]) == (
        "not run",
        "it needs nvrtc: no headers; install them",
    )


def test_a_check_that_ends_the_probe_is_broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def crashes(context: Context) -> None:
        raise SystemExit

    monkeypatch.setattr(probe, "CHECKS", {"kernel": crashes, "jax": lambda context: None})
    with pytest.raises(SystemExit):
        probe.run(Context("probe", tmp_path, "cuda:0", 5.0, True))
    result = harness.read_json(tmp_path / "parts" / "probe.json")
    assert "the process ended in it" in harness.broken(Part("a", "", 1, "", needs=("kernel",)), result)
    assert not harness.broken(Part("a", "", 1, "", needs=("jax",)), result)


def test_chosen_parts_bring_what_they_need() -> None:
    def names(*arguments: Any) -> list[str]:
        return [part.name for part in program.chosen(*arguments)]

    assert names(None) == [part.name for part in PARTS]
    assert names("order probe") == names("probe,order") == ["machine", "probe", "warm", "order"]
    assert names("probe") == ["machine", "probe"]
    assert names("order", True) == ["machine", "order"]
    assert {need for part in PARTS for need in part.needs} <= set(probe.CHECKS)
    assert set(probe.DO) == set(probe.CHECKS)


# -- words -------------------------------------------------------------------------------------------------------------


def test_summary_names_failures_first(part: Callable[[str], Part], tmp_path: Path) -> None:
    parts = [part("fine"), part("raises")]
    found = {
        "fine": {"status": "ok", "seconds": 1.0, "results": {"answer": 1}, "error": None},
        "raises": {"status": "timeout", "seconds": 9.0, "results": {}, "error": "still running\nFile x\nFile y"},
    }
    summary.assemble(parts, Settings(tmp_path, "cuda"), found, {"date": "today"})
    text = (tmp_path / "summary.md").read_text()
    failures, _, claims = text.partition("## About fine")
    assert "**raises: timeout**: still running" in failures
    assert "File y" in failures
    assert "fine: bad {'answer': 1}" in failures
    assert "- good {'answer': 1}\n| a | b |" in claims
    assert "| raises | timeout | 9.0 |" in claims
    assert json.loads((tmp_path / "gpu.json").read_text())["parts"] == found
    short = json.loads((tmp_path / "summary.json").read_text())["parts"]["fine"]
    assert short == {"status": "ok", "failures": ["bad {'answer': 1}"]}


def test_summary_of_results_that_nobody_understands(tmp_path: Path) -> None:
    results = {"points": [{"share": 1.0}]}
    found = {"paths": {"status": "ok", "seconds": 1.0, "results": results, "error": None}}
    assert "could not be put in words: KeyError" in summary.markdown(PARTS, Settings(tmp_path), found, {})


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_parts_have_words_for_nothing(module: Any) -> None:
    assert module.claims({}) == ([], [])


def test_every_part_is_a_module_that_runs() -> None:
    for part in [program.PHOTOS, *PARTS]:
        module = importlib.import_module(part.module)
        assert callable(module.run)
        assert callable(module.claims)


def test_claims_of_the_checks_of_order() -> None:
    row = {"corrupted_reads": 0, "wrong_decodes": 0, "n": 100, "decode_call_ms": 0.1}
    cases = {"same stream, no wait": {**row, "corrupted_reads": 100}, "same stream, host wait": row}
    problems, lines = order.claims({"decoders": {"hardware, batched": cases, "hybrid": {"error": "none here"}}})
    assert problems == ["hybrid: none here"]
    assert "| hardware, batched | same stream, no wait | 100 | 100 | 0.1 |" in lines
    cases["same stream, host wait"]["corrupted_reads"] = 1
    assert "despite the wait" in order.claims({"decoders": {"hardware, batched": cases}})[0][0]


# -- targets -----------------------------------------------------------------------------------------------------------


def measured(**changed: float) -> dict[str, Any]:
    """Results of all parts in which every target is just met, but for what is changed."""
    of = {
        "decode": 950.0, "nvimagecodec": 951.0, "best": 1000.0, "index": 50_000.0, "find": 40_000.0, "dali": 100.0,
        "load": 200.0, "load_nvimagecodec": 120.0, "python": 12.0,
    } | changed  # fmt: skip
    results = {
        "throughput": {
            "best decoding of set S": of["best"],
            "S, train": {targets.DECODE_BATCH: {"images_per_second": of["decode"]}},
            "S, train, batch 256": {targets.BY_NVIMAGECODEC: {"images_per_second": of["nvimagecodec"]}},
        },
        "jpeg": {
            "rates": {
                "kernels, batch 64": {"images_per_second": 9.0},
                "kernels, batch 256": {"images_per_second": of["index"]},
                "kernels, without an index, batch 256": {"images_per_second": of["find"]},
                f"{targets.PYTHON}, batch 256": {"images_per_second": 1.0, "microseconds_an_image": 1.0},
                f"{targets.PYTHON}, without an index, batch 256": {
                    "images_per_second": 1.0, "microseconds_an_image": of["python"]
                },
            }
        },
        "peers": {
            "works": {
                "train, batch 256": {
                    targets.LOADER: {"images_per_second": 50.0},
                    targets.INDEXED: {"images_per_second": of["load"]},
                    targets.NVIMAGECODEC: {"images_per_second": of["load_nvimagecodec"]},
                    targets.DALI: {"images_per_second": of["dali"]},
                },
                "train+rotate+color, batch 256": {
                    targets.LOADER: {"images_per_second": 1e9}, targets.DALI: {"images_per_second": 1.0}
                },
            }
        },
    }  # fmt: skip
    return {name: {"status": "ok", "results": part} for name, part in results.items()}


def met(found: dict[str, Any]) -> list[str]:
    return [row.split("|")[4].strip() for row in targets.table(found)[2:]]


def test_targets_are_met_or_not() -> None:
    assert met(measured()) == ["yes"] * len(targets.TARGETS)
    fails = {
        "decode": 949.0, "nvimagecodec": 949.0, "index": 49_999.0, "find": 39_999.0, "load_nvimagecodec": 119.0,
        "load": 199.0, "python": 12.1,
    }  # fmt: skip
    for k, (name, number) in enumerate(fails.items()):
        assert [i for i, word in enumerate(met(measured(**{name: number}))) if word == "**no**"] == [k]
    assert "| 0.95 |" in targets.table(measured())[2]
    assert "| 49,999 photos/s |" in targets.table(measured(index=49_999.0))[4]


def test_targets_without_a_measurement() -> None:
    assert met({}) == [""] * len(targets.TARGETS)
    assert all("not measured" in row for row in targets.table({})[2:])
    assert met(measured(best=0.0, dali=0.0)) == ["", "", "yes", "yes", "", "", "yes"]
    broken = measured()
    broken["jpeg"]["results"] = {"rates": {"kernels, batch 1": {}}}
    assert "KeyError" in targets.table(broken)[4]
    assert met(broken)[:2] == ["yes", "yes"]


def test_targets_are_at_the_head_of_the_summary() -> None:
    text = summary.markdown(PARTS, Settings(Path(), "cuda"), measured(), {})
    assert (
        text.index("## Targets") < text.index("of nvImageCodec's best setting | at least 0.95") < text.index("## Fai")
    )


def test_a_thread_that_computes_holds_the_gil() -> None:
    """And one that sleeps does not: all of its time is the other thread's."""

    def computes() -> None:
        end = time.thread_time() + 0.2
        while time.thread_time() < end:
            pass

    assert gil_seconds(computes) >= 0.2
    interval = sys.getswitchinterval()
    gil_seconds(lambda: None)
    assert sys.getswitchinterval() == interval


# -- tests' outcomes ---------------------------------------------------------------------------------------------------


def test_outcomes_of_tests_are_read(tmp_path: Path) -> None:
    path = tmp_path / "test_three.py"
    path.write_text(
        "import pytest\n"
        "def test_good(): pass\n"
        "@pytest.mark.parametrize('x', ['a b'])\n"
        "def test_bad(x): raise ValueError('x is wrong')\n"
        "def test_left(): pytest.skip('no reason')\n"
    )
    context = Context("tests", tmp_path, "cpu", 60.0, True)
    found = suite._pytest(context, "three", ["--rootdir", str(tmp_path), str(path)], 30.0)
    assert found["passed"] == ["test_three::test_good"]
    assert list(found["failed"]) == ["test_three::test_bad[a b]"]
    assert "x is wrong" in found["failed"]["test_three::test_bad[a b]"]
    assert found["skipped"] == {"test_three::test_left": "no reason"}
    problems, lines = suite.claims({"three": found})
    assert problems == ["`test_three::test_bad[a b]`: ValueError: x is wrong"]
    assert lines[0].startswith("three: 1 passed, 1 failed, 1 skipped")


def test_outcomes_of_a_crash_are_read_from_the_log() -> None:
    lines = [
        "tests/test_gpu.py::test_a[x y] PASSED  [ 1%]",
        "tests/test_gpu.py::test_b ",
        "Fatal Python error: Segmentation fault",
    ]
    found = suite.from_log("\n".join(lines))
    assert found["passed"] == ["tests/test_gpu.py::test_a[x y]"]
    assert "Segmentation fault" in found["failed"]["tests/test_gpu.py::test_b"]


def test_names_of_tests_are_those_of_the_command_line() -> None:
    assert suite._node("tests.test_gpu", "test_a[x]") == "tests/test_gpu.py::test_a[x]"
    assert suite._node("tests.sources.test_files.TestOf", "test_b") == "tests/sources/test_files.py::TestOf::test_b"


# -- numbers -----------------------------------------------------------------------------------------------------------


def test_a_difference_is_counted() -> None:
    difference = agreement.Difference()
    one, other = np.zeros((2, 2, 1), np.float32), np.zeros((2, 2, 1), np.float32)
    other[0, 0] = 0.25
    difference.add_floats([one], [other])
    difference.add_bytes([np.array([0, 9], np.uint8)], [np.array([1, 7], np.uint8)])
    found = difference.result()
    assert found["largest_difference"] == 0.25
    assert found["share_beyond_1e-4"] == 0.25
    assert (found["uint8_largest_difference"], found["uint8_share_beyond_1"]) == (2, 0.5)
    one[0, 0] = np.nan
    difference.add_floats([one], [other])
    assert difference.worst == np.inf


def test_a_rate_is_that_of_the_median_round() -> None:
    found = rate(lambda: time.sleep(0.002), 10, rounds=3, passes=2)
    assert found["rounds"] == 3
    assert found["images_per_round"] == 20
    assert 1000 < found["images_per_second"] <= 5000
    assert found["range"][0] <= found["images_per_second"] <= found["range"][1]


def test_what_was_replaced_comes_back() -> None:
    class Owner:
        value = 1

    with replaced(Owner, "value", 2):
        assert Owner.value == 2
    assert Owner.value == 1


def test_wrong_pixels_are_a_problem(gpu: Standin, tmp_path: Path) -> None:
    """The stand-in's kernels compute nothing."""
    files = [encoded(noise(40, 50, k)) for k in range(4)]
    gi.build_index(jpeg.Files(files), tmp_path / "index")
    index = gi.SeekIndex(tmp_path / "index")
    found = jpeg.pixels("cuda:0", files, index)
    assert found["whole images"] > 0.9 * 4 * 40 * 50 * 3
    assert found["crops"] > 0
    problems, lines = jpeg.claims({"pixels": found})
    assert len(lines) == 1
    assert "differ from the CPU's" in problems[0]
    assert jpeg.pixels("cpu", files, index) | {"values": 0} == {"whole images": 0, "crops": 0, "values": 0}
    bad = {"images_per_second": 9.0, "range": [8.0, 10.0], "rounds": 5, "reported": 2}
    assert jpeg.claims({"rates": {"kernels": bad}})[0] == ["kernels: 2 images were reported as damaged"]


# -- all together ------------------------------------------------------------------------------------------------------


def test_the_program_goes_through_on_the_cpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = "order,throughput"
    assert program.main(["--device", "cpu", "--out", str(tmp_path), "--parts", chosen]) == 0
    found = json.loads((tmp_path / "gpu.json").read_text())["parts"]
    assert set(found) == {"machine", *chosen.split(",")}
    assert {part["status"] for part in found.values()} == {"ok (a try)"}
    assert found["throughput"]["results"]["S, train"]["gpuimg, functions"]["images_per_second"] > 0
    text = (tmp_path / "summary.md").read_text()
    assert "none of these numbers says anything about one" in text
    assert "| gpuimg, functions | " in text
    assert set(json.loads((tmp_path / "summary.json").read_text())["parts"]) == set(found)
    capsys.readouterr()


def test_results_of_several_runs_are_a_few_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all logs in them, those of the earlier run too."""
    for parts in ("machine", "machine,video"):
        assert program.main(["--device", "cpu", "--out", str(tmp_path), "--parts", parts]) == 0
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["gpu.json", "parts.tar.gz", "summary.json", "summary.md"]
    (tmp_path / "parts.tar.gz").rename(tmp_path / "before.tar.gz")

    def interrupted(*given: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "run_parts", interrupted)
    (tmp_path / "before.tar.gz").rename(tmp_path / "parts.tar.gz")
    with pytest.raises(KeyboardInterrupt):
        program.main(["--device", "cpu", "--out", str(tmp_path)])
    with harness.parts_in_one_file(tmp_path):
        found = sorted(path.name for path in (tmp_path / "parts").iterdir())
    assert found == ["machine.json", "machine.log", "video.json", "video.log"]
    capsys.readouterr()


def test_make_gpu_goes_through_on_the_stand_in(tmp_path: Path) -> None:
    """Every part, each in its process, from the command to the summary."""
    command = ["make", "gpu", f"PYTHON={sys.executable}", f"OUT={tmp_path}", "GPU=tests.standin.program", "EXTRA=cpu"]
    environment = os.environ | {"PYTHONPATH": str(harness.ROOT)}
    done = subprocess.run(command, cwd=harness.ROOT, env=environment, capture_output=True, text=True, timeout=900)
    found = json.loads((tmp_path / "summary.json").read_text())["parts"]
    assert {name: part["status"] for name, part in found.items()} == {part.name: "ok (a try)" for part in PARTS}
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list(tmp_path.iterdir())) <= 8
    text = (tmp_path / "summary.md").read_text()
    measured_rows = [row for row in text.splitlines() if "| at least " in row or "| at most " in row]
    assert len(measured_rows) == len(targets.TARGETS)
    assert sum("not measured" in row for row in measured_rows) == 2  # DALI is not there
    assert "gpuimg.load, index, on the GPU" in text


def test_an_unknown_part_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="unknown: speed"):
        program.main(["--out", str(tmp_path), "--parts", "speed"])


def test_a_gpu_that_is_missing_is_a_failure(tmp_path: Path) -> None:
    if gpu_problem() is None:
        pytest.skip("there is a GPU")
    part = next(part for part in PARTS if part.name == "throughput")
    result = harness.run_part(part, Settings(tmp_path, "cuda"), 20.0, 40.0)
    assert result["status"] == "failed"
    assert result["error"]
