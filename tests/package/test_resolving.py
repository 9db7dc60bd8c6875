"""What users and contributors install: a resolver asks PyPI, as on a machine that knows nothing else."""

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import requires
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ..libraries import needs
from ..samples import ROOT

pytestmark = pytest.mark.slow
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
GROUPS: dict[str, list[str]] = PROJECT["dependency-groups"]
PYTHONS = [text.rpartition(" ")[2] for text in PROJECT["project"]["classifiers"] if "Python :: 3." in text]
#: Extras that go together, and groups with the extras that make installs them with.
WANTED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "a user": ((), ()), "all extras of a CPU": (tuple(name for name in EXTRAS if "cuda" not in name), ()),
    **{f"{cuda}{torch}": ((cuda, f"jit-{cuda}", *torch.split()), ())
       for cuda, torch in product(("cuda12", "cuda13"), ("", " torch", " jax"))},
    **{f"{cuda} TIFF": ((cuda, f"jit-{cuda}", f"tiff-{cuda}"), ()) for cuda in ("cuda12", "cuda13")},
    "make test": (("jit",), ("test", "dev")), "make test with a GPU": (("cuda13", "jit-cuda13"), ("test", "dev")),
    "make test-all": (("jit",), ("test", "dev", "oracles", "engines", "s3", "without-gpu")),
    "make docs": (("jit", "progress", "video"), ("docs",)), "make bench": (("jit",), ("photos", "peers", "s3")),
}  # fmt: skip
TORCH = re.findall(r"^TORCH +\?= (\S+)", (ROOT / "Makefile").read_text(), re.MULTILINE)[0]
#: numba-cuda up to this version does not work with this NumPy or a later one.
BROKEN = (0, 30, 4), (2, 5)
MOST_PACKAGES, MOST_MEGABYTES = 90, 450  # of `make test`


def requirements(extras: tuple[str, ...], groups: tuple[str, ...]) -> list[str]:
    """Requirements of the installed package, of extras and of groups."""
    found = [text for text in requires("gpuimg") or [] if "extra ==" not in text]
    for text in [one for extra in extras for one in EXTRAS[extra]] + [one for group in groups for one in GROUPS[group]]:
        inner = re.fullmatch(r"gpuimg\[(.*)\]", text)
        found += EXTRAS[inner[1]] if inner else [text]
    return found + [TORCH for group in groups if group == "oracles"]


def resolved(wanted: list[str], python: str, folder: Path) -> dict[str, dict[str, Any]]:
    """Packages by name, as wheels for Linux on x86-64."""
    command = [
        sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-config", "--no-python-downloads",
        "--python-version", python, "--python-platform", "x86_64-manylinux_2_28", "--format", "pylock.toml",
        "-o", "pylock.toml", "-",
    ]  # fmt: skip
    # No local wheels, constraints or indexes of this machine.
    known = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    done = subprocess.run(command, cwd=folder, env=known, input="\n".join(wanted), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {one["name"]: one for one in tomllib.loads((folder / "pylock.toml").read_text())["packages"]}


def size(package: dict[str, Any], python: str) -> int:
    """Bytes of the largest file that this Python may be given on Linux with x86-64."""
    kinds = rf"cp{python.replace('.', '')}-cp|abi3|-py[23]|py3-none|none-any"
    wheels = [one for one in package.get("wheels", ()) if re.search(kinds, one["url"])]
    linux = [one for one in wheels if re.search("any.whl$|linux.*x86_64.whl$", one["url"]) and "musl" not in one["url"]]
    return max((one["size"] for one in linux or [package["sdist"]]), default=0)


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("name", WANTED)
def test_it_resolves(name: str, python: str, tmp_path: Path) -> None:
    needs("uv")
    packages = resolved(requirements(*WANTED[name]), python, tmp_path)
    versions = {key: tuple(map(int, re.findall(r"\d+", one["version"])[:3])) for key, one in packages.items()}
    if versions.get("numba-cuda", (9,)) <= BROKEN[0]:
        assert versions["numpy"] < BROKEN[1]
    assert versions["numpy"] >= (2, 4)  # nothing holds it back
    if name == "make test":
        assert len(packages) <= MOST_PACKAGES
        assert sum(size(one, python) for one in packages.values()) <= MOST_MEGABYTES * 1e6
        assert not {"torch", "ray", "keras", "jax"} & packages.keys()
