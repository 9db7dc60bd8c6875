"""Publication: the source distribution and wheels, each checked, installed in a fresh environment and tried.

``python -m buildtools.dist dist [--machines x86_64 aarch64]``, in an environment of requirements.lock. Wheels for
machines other than this one are checked, but not tried.
"""

import argparse
import hashlib
import os
import platform
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path
from typing import Final

from .levels import WHEELS
from .wheel_env import READ_ONLY

_ROOT: Final = Path(__file__).resolve().parents[1]
_QUIET: Final = {"--global-option": "--quiet"}  # of setuptools
_LIBRARIES: Final = "gpuimg/kernels/_lib/"
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


def _run(*command: str | Path, **environment: str) -> None:
    subprocess.run(command, cwd=_ROOT, env=os.environ | environment, check=True)


def check_wheel(path: Path, with_cuda: bool) -> None:
    """Raise where a wheel is too large, lacks a file of machine code, or has one too many."""
    levels = WHEELS[path.stem.rpartition("manylinux_2_28_")[2]]
    with zipfile.ZipFile(path) as archive:
        found = {name.removeprefix(_LIBRARIES) for name in archive.namelist() if name.startswith(_LIBRARIES)}
    wanted = {"manifest.json", *(f"gpuimg-{level}.so" for level in levels), *(["cuda.xz"] if with_cuda else [])}
    if found != wanted:
        raise SystemExit(f"{path.name} has {sorted(found)}, not {sorted(wanted)}")
    if path.stat().st_size > _LARGEST:
        raise SystemExit(f"{path.name} has {path.stat().st_size} bytes, more than {_LARGEST}")


def try_out(path: Path) -> None:
    """Install a distribution with what it needs in a fresh environment; import, decode, augment, run the demo."""
    photos = sorted(_ROOT.glob("examples/photos/*.jpg"))
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder, "bin", "python")
        _run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", path)
        _run(python, "-IB", "-c", _TRY, *photos)
        _run(python.with_name("gpuimg"), "demo", "--out", Path(folder, "sheet.png"))


def main() -> None:
    """Build, check and try."""
    parser = argparse.ArgumentParser(prog="python -m buildtools.dist", description="Build what is published.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--machines", nargs="+", choices=WHEELS, default=[platform.machine()])
    parser.add_argument("--without-cuda", action="store_true", help="no kernels for GPUs")
    given = parser.parse_args()
    with_cuda = not given.without_cuda
    out = given.out.absolute()
    # Equal sources make equal wheels: times are those of the commit, and the compiler of this environment is pinned.
    log = ("git", "log", "-1", "--format=%ct")
    commit = subprocess.run(log, cwd=_ROOT, capture_output=True, text=True, check=False)
    dated = {"SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH") or commit.stdout.strip() or "1700000000"}
    _run(sys.executable, "-c", f"from buildtools import backend; backend.build_sdist({str(out)!r}, {_QUIET})", **dated)
    pip = (sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "--no-build-isolation", "--no-deps")
    for machine in given.machines:
        _run(*pip, "--wheel-dir", out, ".", GPUIMG_BUILD=machine + "+cuda" * with_cuda, **dated)
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
