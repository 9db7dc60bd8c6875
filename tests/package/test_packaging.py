"""The package as it is installed: what the wheel holds, and what `import gpuimg` loads."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import gpuimg

from ..processes import python as run
from ..samples import ROOT


def python(code: str, **environment: str) -> str:
    """Run code in a separate process, outside the source tree's root; return its output."""
    return run("-c", code, folder=ROOT / "examples", **environment).strip()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pure wheel, with the setuptools that is installed."""
    pytest.importorskip("setuptools", minversion="77")
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", target, ROOT]
    environment = os.environ | {"GPUIMG_BUILD": "pure"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = target.glob("gpuimg-*-py3-none-any.whl")
    return path


@pytest.mark.slow
def test_wheel_holds_the_package_once(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    wanted = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "gpuimg").rglob("*.py")
        if "kernels" not in path.parts[len(ROOT.parts) :]
    }
    wanted |= {f"gpuimg/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "kernels").rglob("*.py")}
    wanted |= {"_gpuimg_cli.py", "gpuimg/py.typed"}
    wanted |= {path.relative_to(ROOT).as_posix() for path in (ROOT / "gpuimg/_cli/photos").iterdir()}
    code = [name for name in names if ".dist-info/" not in name]
    assert sorted(code) == sorted(wanted)
    assert f"gpuimg-{gpuimg.__version__}.dist-info/licenses/LICENSE" in names


def test_wheel_declares_command_and_extras(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        folder = f"gpuimg-{gpuimg.__version__}.dist-info"
        metadata = archive.read(f"{folder}/METADATA").decode()
        assert "gpuimg = _gpuimg_cli:main" in archive.read(f"{folder}/entry_points.txt").decode()
    assert {"License-Expression: Apache-2.0", "License-File: LICENSE"} <= set(metadata.splitlines())
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    # As they are spelled here, too: not every pip matches `_` with the `-` of the metadata.
    assert {f"Provides-Extra: {extra}" for extra in extras} == set(re.findall("Provides-Extra: .*", metadata))
    required = [line for line in metadata.splitlines() if line.startswith("Requires-Dist") and "extra ==" not in line]
    assert sorted(line.split()[1].partition(">")[0] for line in required) == ["numba", "numpy", "pillow"]
    for extra in ("cuda12", "cuda13"):  # bfloat16 is a dtype for GPUs
        assert re.search(rf'^Requires-Dist: ml_dtypes>=[\d.]+; extra == "{extra}"$', metadata, re.MULTILINE)


def test_sdist_has_the_tests_and_what_they_use(tmp_path: Path) -> None:
    """All files but those that only a repository has."""
    pytest.importorskip("setuptools", minversion="77")
    made = ("__pycache__", "_lib", "_build", "generated", ".photos", "*.egg-info", "build")
    for path in ROOT.iterdir():
        if path.is_dir() and path.name in ("buildtools", "gpuimg", "kernels", "tests", "examples", "docs", "bench"):
            shutil.copytree(path, tmp_path / path.name, symlinks=True, ignore=shutil.ignore_patterns(*made))
        elif path.is_file():
            shutil.copy(path, tmp_path)
    build = "import buildtools.backend as backend; print(backend.build_sdist('dist'))"
    done = subprocess.run(
        [sys.executable, "-B", "-c", build], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = (tmp_path / "dist").iterdir()
    with tarfile.open(path) as archive:
        found = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {
        file.relative_to(tmp_path).as_posix()
        for folder in ("buildtools", "gpuimg", "tests", "examples", "bench")
        for file in (tmp_path / folder).rglob("*")
        if file.is_file()
    }
    wanted |= {f"gpuimg/{file.relative_to(tmp_path).as_posix()}" for file in (tmp_path / "kernels").rglob("*.py")}
    wanted |= {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")}
    wanted |= {"Makefile", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "LICENSE", "pyproject.toml", "setup.py"}
    assert wanted - found == set()
    assert [name for name in found if name.endswith(".pyc")] == []


@pytest.mark.slow
def test_wheel_works_where_it_is_installed(wheel: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target", str(tmp_path), str(wheel)]
    subprocess.run(command, capture_output=True, check=True, timeout=300)
    code = (
        "import gpuimg, numpy as np; print(gpuimg.__file__, gpuimg.invert(np.full((1, 1, 1, 1), 5, np.uint8))[0].max())"
    )
    where, value = python(code, PYTHONPATH=str(tmp_path)).split()
    assert Path(where).is_relative_to(tmp_path)
    assert value == "250"


def test_import_loads_no_framework() -> None:
    heavy = "cupy torch jax tensorflow nvidia.nvimgcodec numba llvmlite numba_cuda PIL cv2 av fsspec"
    code = f"import gpuimg, sys; print([m for m in {heavy!r}.split() if m in sys.modules])"
    assert python(code) == "[]"


HANDED = "import numpy as np; gpuimg.{}(np.zeros((1, 2, 2, 3), np.uint8))"
#: Packages that are missing, what is called then, and what it says.
MISSING = [
    ("torch", HANDED.format("to_torch"), "torch is not installed"),
    ("jax", HANDED.format("to_jax"), "jax is not installed"),
    ("tensorflow", HANDED.format("to_tensorflow"), "tensorflow is not installed"),
    ("torch", "import gpuimg.torch", 'gpuimg.torch needs torch; in a checkout of gpuimg, pip install ".[torch]"'),
    ("tqdm", "next(gpuimg.load([(b'', 0)], len, batch_size=1, progress=True))",
     'progress=True needs tqdm; in a checkout of gpuimg, pip install ".[progress]"'),
    ("nvidia.nvimgcodec", "from gpuimg._decoding.nvimgcodec import decoders, library; assert not decoders(); library()",
     'nvImageCodec is not installed; in a checkout of gpuimg, pip install ".[cuda12]" or pip install ".[cuda13]", '
     "never both"),
    ("nvidia.nvimgcodec", "raise ImportError(gpuimg.decode_batch(['photos/cat.jpg'], device='cpu')[0].shape[2])", "3"),
]  # fmt: skip


@pytest.mark.parametrize(("package", "call", "words"), MISSING)
def test_missing_package_is_named(package: str, call: str, words: str) -> None:
    code = f"import sys, gpuimg\nsys.modules[{package!r}] = None\ntry:\n    {call}\nexcept ImportError as error:\n"
    assert python(code + "    print(error)").startswith(words)


def test_no_hint_installs_gpuimg_from_an_index() -> None:
    """The name is nobody's there: whoever took it would be installed."""
    commands = [
        (path.name, command)
        for folder in ("gpuimg", "kernels", "docs", "examples", "bench")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".md", ".ipynb") and "_build" not in path.parts
        for command in re.findall(r"pip install [^\n`]*", path.read_text("utf-8"))
    ]
    assert commands
    assert [found for found in commands if re.search(r"""[ "']gpuimg""", found[1])] == []
