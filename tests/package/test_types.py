"""Type checkers on users' programs, and the coverage of the public API by types."""

import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

import gpuimg
import gpuimg.typing
from gpuimg._checks.types import DType
from gpuimg.kernels.layout import DTYPES

from ..libraries import needs
from ..samples import ROOT

TYPED = ROOT / "tests" / "typed"
#: Public parameters of no type, and why.
UNTYPED = {
    "load.stream": "the stream objects of CuPy, PyTorch and Numba have nothing in common",
    "Stream.__init__.samples": "made by gpuimg.iterable, which has the types",
}


def mypy(folder: Path) -> dict[str, set[int]]:
    """Lines that mypy reports, by file."""
    needs("mypy")
    command = ["mypy", "--strict", "--config-file=", "--follow-imports=silent", f"--cache-dir={ROOT}/.mypy_cache/typed"]
    done = subprocess.run(
        [sys.executable, "-m", *command, "--no-error-summary", "right.py", "wrong.py"],
        cwd=folder, env=os.environ | {"MYPYPATH": str(ROOT)}, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    return found(re.findall(r"^(\w+\.py):(\d+): error", done.stdout, re.MULTILINE))


def pyright(folder: Path) -> dict[str, set[int]]:
    """Lines that Pyright reports, by file; basedpyright is Pyright with the Node.js that it needs."""
    needs("basedpyright")
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT)]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable],
        cwd=folder, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    reports = [one for one in json.loads(done.stdout)["generalDiagnostics"] if one["severity"] == "error"]
    return found([(Path(one["file"]).name, one["range"]["start"]["line"] + 1) for one in reports])


def found(reports: list[tuple[str, Any]]) -> dict[str, set[int]]:
    lines: dict[str, set[int]] = {"right.py": set(), "wrong.py": set()}
    for file, line in reports:
        lines[file].add(int(line))
    return lines


@pytest.mark.slow
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_mistakes_are_reported_and_nothing_else(checker: Callable[[Path], Any], tmp_path: Path) -> None:
    for name in ("right.py", "wrong.py"):
        shutil.copy(TYPED / name, tmp_path)
    text = (TYPED / "wrong.py").read_text().splitlines()
    wrong = {number for number, line in enumerate(text, 1) if "# wrong" in line}
    assert len(wrong) >= 12
    assert checker(tmp_path) == {"right.py": set(), "wrong.py": wrong}


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    for module in (gpuimg, gpuimg.presets, gpuimg.sources, gpuimg.typing):
        for name, value in vars(module).items():
            if name.startswith("_") or getattr(value, "__module__", "").split(".")[0] != "gpuimg":
                continue
            if inspect.isfunction(value) and (module is not gpuimg.presets or value.__module__ == module.__name__):
                yield name, value
            elif inspect.isclass(value):
                for method, function in vars(value).items():
                    if inspect.isfunction(function) and (method == "__init__" or not method.startswith("_")):
                        yield f"{name}.{method}", function


def test_parameters_and_results_have_types() -> None:
    untyped = {
        f"{name}.{parameter.name}"
        for name, function in public()
        for parameter in inspect.signature(function).parameters.values()
        if re.fullmatch(r"(.*\| )?Any( \|.*)?", str(parameter.annotation))
    }
    assert untyped == set(UNTYPED)
    untyped = {name for name, function in public() if inspect.signature(function).return_annotation == "Any"}
    assert untyped == {"to_tensorflow"}  # which has no types


def test_options_of_load_are_its_parameters() -> None:
    """The copy of them, for functions that pass them on."""
    parameters = list(inspect.signature(gpuimg.load).parameters.values())[2:]
    options = {name: value.__forward_arg__ for name, value in gpuimg.typing.LoadOptions.__annotations__.items()}
    annotations = {each.name: each.annotation for each in parameters}
    assert options == annotations


def test_dtypes_are_those_of_the_table() -> None:
    """In the types for annotations, and in every docstring that lists them."""
    literal, *_ = get_args(DType)
    assert set(get_args(literal)) == set(DTYPES)
    listed = [
        text for path in (ROOT / "gpuimg").rglob("*.py") for text in re.findall(r"dtype : {(.*)}", path.read_text())
    ]
    assert [sorted(json.loads(f"[{names}]")) for names in listed] == [sorted(DTYPES)] * 4
