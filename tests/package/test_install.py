"""Ways to install from source, with loops that are not compiled: front ends, folders, users, missing tools."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from buildtools.backend import _NOT_COPIED
from buildtools.levels import levels_to_build

from ..samples import ROOT

pytestmark = pytest.mark.slow
PIPS = ("pip==23.2.1", "pip")  # the oldest, and this year's
TAG = levels_to_build().platform
#: Modules of buildtools that stand in for the compiler and the linker.
STUBS = {
    "library": "def compile_part(level, path, part, parts):\n    path.write_text(f'{level.cpu} {part}')\n",
    "link": "def link(objects, path, *_):\n    path.write_text(' '.join(one.read_text() for one in objects))\n",
}
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "GPUIMG_BUILD")} | {
    "PIP_NO_COMPILE": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}  # fmt: skip


def run(*command: str | Path, folder: Path, **environment: str) -> str:
    given = ENVIRONMENT | environment
    done = subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the front ends: each pip as a wheel, which Python runs, and build."""
    folder = tmp_path_factory.mktemp("tools")
    for pip in PIPS:
        run(sys.executable, "-m", "pip", "download", "--no-deps", "-d", folder / pip, pip, folder=folder)
    run(sys.executable, "-m", "pip", "install", "--target", folder / "site", "build", folder=folder)
    return folder


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources, in a folder with a blank and an umlaut; of the compilers only NumPy is required."""
    folder = tmp_path_factory.mktemp("clone") / "my clöne"
    shutil.copytree(ROOT, folder, symlinks=True, ignore=_NOT_COPIED)
    for name, text in STUBS.items():
        (folder / "buildtools" / f"{name}.py").write_text(text)
    pins = folder / "buildtools" / "requirements.txt"
    kept = [line for line in pins.read_text().splitlines() if line.startswith(("#", "setuptools", "numpy"))]
    pins.write_text("\n".join(kept) + "\n")
    return folder


def pip(tools: Path, version: str = "pip") -> Path:
    (wheel,) = (tools / version).glob("pip-*.whl")
    return wheel / "pip"


def check(wheel: Path) -> None:
    """A wheel has the modules, the loops of this processor, and the need for Numba on an older one."""
    assert wheel.name.endswith(f"-py3-none-{TAG}.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        libraries = json.loads(archive.read("gpuimg/kernels/_lib/manifest.json"))["libraries"]
        (metadata,) = (archive.read(name).decode() for name in names if name.endswith(".dist-info/METADATA"))
    assert set(libraries) == set(levels_to_build().levels)
    assert {"gpuimg/__init__.py", "gpuimg/kernels/native.py"} <= set(names)
    assert not [name for name in names if "stale" in name or name.startswith(("tests", "buildtools", "build"))]
    assert ("Requires-Dist: numba" in metadata) == (not levels_to_build().is_portable)


#: Front ends: arguments of Python, and its environment; "SOURCE" are the sources.
BUILDS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "oldest pip": (("pip==23.2.1", "wheel", "--no-deps", "SOURCE"), {}),
    "pip": (("pip", "wheel", "--no-deps", "SOURCE"), {}),
    "isolated": (("-I", "pip", "wheel", "--no-deps", "--no-build-isolation", "SOURCE"), {}),
    "safe path": (("-P", "pip", "wheel", "--no-deps", "--no-build-isolation", "SOURCE"), {"PYTHONSAFEPATH": "1"}),
    "source distribution": (("-m", "build", "-o", ".", "SOURCE"), {"PYTHONPATH": "site"}),
}


@pytest.mark.parametrize("name", BUILDS)
def test_front_ends_build_a_wheel(name: str, tools: Path, source: Path, tmp_path: Path) -> None:
    given, environment = BUILDS[name]
    command = [pip(tools, one) if one in PIPS else source if one == "SOURCE" else one for one in given]
    environment = environment | ({"PYTHONPATH": str(tools / "site")} if "PYTHONPATH" in environment else {})
    run(sys.executable, *command, folder=tmp_path, **environment)
    check(next(tmp_path.glob("*.whl")))
    assert len(list(tmp_path.glob("*.tar.gz"))) == (name == "source distribution")


def test_clone_is_only_read(tools: Path, source: Path, tmp_path: Path) -> None:
    """It may belong to another user, and what older builds left there is not packed."""
    (source / "build" / "lib" / "gpuimg").mkdir(parents=True)
    (source / "build" / "lib" / "gpuimg" / "stale.py").touch()
    rights = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    run("chmod", "-R", "a-w", source, folder=tmp_path)
    try:
        with pytest.raises(AssertionError, match="Permission denied"):
            run(*rights, "touch", source / "file", folder=tmp_path)
        command = [pip(tools), "wheel", "--no-deps", "--no-build-isolation", f"gpuimg[progress] @ {source.as_uri()}"]
        run(*rights, sys.executable, "-B", *command, folder=tmp_path)
    finally:
        run("chmod", "-R", "u+w", source, folder=tmp_path)
    shutil.rmtree(source / "build")
    check(next(tmp_path.glob("*.whl")))


def test_editable_installation_needs_numba(tools: Path, source: Path, tmp_path: Path) -> None:
    command = [pip(tools), "install", "--no-deps", "--no-build-isolation", "--target", tmp_path, "-e", source]
    run(sys.executable, *command, folder=tmp_path)
    (metadata,) = tmp_path.glob("gpuimg-*.dist-info/METADATA")
    assert "Requires-Dist: numba" in metadata.read_text()
    (path,) = tmp_path.glob("*.pth")
    assert str(source) in path.read_text()
