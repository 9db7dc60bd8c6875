"""Publication: the source distribution and wheels, each checked, installed in a fresh environment and tried.

``python -m buildtools.dist dist [--machines x86_64 aarch64]``. Wheels for machines other than this one are checked, but
not tried.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path
from typing import Final

from .elf import check
from .levels import LEVELS, WHEELS
from .wheel_env import READ_ONLY

_ROOT: Final = Path(__file__).resolve().parents[1]
_QUIET: Final = {"--global-option": "--quiet"}  # of setuptools
_LIBRARIES: Final = "gpuimg/kernels/_lib/"
_MANIFEST: Final = "manifest.json"
_LARGEST: Final = 4_000_000  # bytes of a wheel
#: The first batch: without a warning, without Numba, and without writing anything.
_TRY: Final = f"""{READ_ONLY}
import warnings
warnings.simplefilter("error")
import gpuimg
files = sys.argv[1:]
opened, rng = gpuimg.open_batch(files, device="cpu"), gpuimg.Rng(0, indices=range(len(files)))
batch = gpuimg.presets.imagenet_train(96)(opened, rng)
assert batch.array("float32", "NCHW").shape == (len(files), 3, 96, 96)
assert gpuimg.decode_batch(files, device="cpu")[0].ndim == 3
assert "numba" not in sys.modules
from gpuimg.kernels import native
print(native.describe())
"""


_DESCRIBE: Final = """
from gpuimg.kernels import native
from gpuimg.kernels.cuda import shipped
print(native.source_digest())
print(shipped.description())
"""


class BadWheelError(Exception):
    """A wheel must not be published."""


def _run(*command: str | Path, **environment: str) -> None:
    subprocess.run(command, cwd=_ROOT, env=os.environ | environment, check=True)


def check_wheel(path: Path, with_cuda: bool) -> None:
    """Raise where a wheel lacks a file of machine code, has one too many, or one that is not of its sources."""
    machine = path.stem.rpartition("manylinux_2_28_")[2]
    with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory() as folder:
        names = archive.namelist()
        manifest = json.loads(archive.read(f"{_LIBRARIES}{_MANIFEST}"))
        libraries = {name.removeprefix(_LIBRARIES) for name in names if name.startswith(_LIBRARIES)}
        wanted = {f"gpuimg-{level}.so" for level in WHEELS[machine]} | {_MANIFEST}
        if libraries != wanted | ({"cuda.xz"} if with_cuda else set()):
            raise BadWheelError(f"{path.name} has {sorted(libraries)} for {sorted(wanted)}")
        archive.extractall(folder)
        for level in WHEELS[machine]:
            library = Path(folder, _LIBRARIES, f"gpuimg-{level}.so")
            check(library, LEVELS[level].triple)
            if hashlib.sha256(library.read_bytes()).hexdigest() != manifest["libraries"][level]:
                raise BadWheelError(f"{library.name} is not the one of the manifest")
        done = subprocess.run([sys.executable, "-c", _DESCRIBE], cwd=folder, capture_output=True, text=True, check=True)
        sources, kernels = done.stdout.splitlines()
        if sources != manifest["sources"]:
            raise BadWheelError("the libraries are of other sources than those in the wheel")
        if with_cuda and not kernels.startswith("machine code for 7.5"):
            raise BadWheelError(f"CUDA kernels are {kernels}")
    if path.stat().st_size > _LARGEST:
        raise BadWheelError(f"{path.name} has {path.stat().st_size} bytes, more than {_LARGEST}")


def try_out(path: Path) -> None:
    """Install a distribution with what it needs in a fresh environment; import, decode, augment, run the demo."""
    photos = sorted(_ROOT.glob("examples/photos/*.jpg"))
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder, "bin", "python")
        _run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", path)
        _run(python, "-IB", "-c", _TRY, *photos)
        _run(python.with_name("gpuimg"), "demo", "--photos", photos[0].parent, "--out", Path(folder, "sheet.png"))


def main() -> None:
    """Build, check and try."""
    parser = argparse.ArgumentParser(prog="python -m buildtools.dist", description="Build what is published.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--machines", nargs="+", choices=WHEELS, default=[platform.machine()])
    parser.add_argument("--without-cuda", action="store_true", help="no kernels for GPUs")
    given = parser.parse_args()
    with_cuda = not given.without_cuda
    out = given.out.absolute()
    # Equal sources make equal wheels: times are those of the commit, and the compiler is pinned.
    log = ("git", "log", "-1", "--format=%ct")
    commit = subprocess.run(log, cwd=_ROOT, capture_output=True, text=True, check=False)
    pinned = {"PIP_CONSTRAINT": str(Path(__file__).with_name("requirements.txt"))}
    pinned |= {"SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH") or commit.stdout.strip() or "1700000000"}
    _run(sys.executable, "-c", f"from buildtools import backend; backend.build_sdist({str(out)!r}, {_QUIET})", **pinned)
    for machine in given.machines:
        command = (sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "--no-deps", "--wheel-dir", out)
        _run(*command, ".", GPUIMG_BUILD=machine + "+cuda" * with_cuda, **pinned)
    wheels, sources = sorted(out.glob("*.whl")), sorted(out.glob("*.tar.gz"))
    for path in wheels:
        check_wheel(path, with_cuda)
    _run(sys.executable, "-m", "twine", "check", "--strict", *wheels, *sources)
    for path in [*(one for one in wheels if one.stem.endswith(platform.machine())), *sources]:
        try_out(path)
    for path in [*wheels, *sources]:
        print(f"{path.name}: {path.stat().st_size} bytes, {hashlib.sha256(path.read_bytes()).hexdigest()}")


if __name__ == "__main__":
    main()
