"""A Python for Arm that runs on this machine, in an emulator, with a wheel installed: ``make cross`` tests it there.

``python -m buildtools.cross dist/gpuimg-...aarch64.whl build/cross``: Debian's Python and the packages of the tests are
unpacked into the folder, nothing of them runs natively. Needs Debian or Ubuntu, ``apt install qemu-user-static
debian-archive-keyring``.
"""

import argparse
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Final

from .wheel_env import HOOK, copy_tests

_SUITE: Final = "bookworm"
_KEYS: Final = "/usr/share/keyrings/debian-archive-keyring.gpg"
_PYTHON: Final = "3.11"  # of that suite
_DEBIAN: Final = (f"python{_PYTHON}-minimal", f"libpython{_PYTHON}-stdlib", "libstdc++6")
_PACKAGES: Final = ("numpy", "pillow", "pytest", "hypothesis", "opencv-python-headless", "ml_dtypes")
_PLATFORMS: Final = ("manylinux2014", "manylinux_2_17", "manylinux_2_27", "manylinux_2_28")
# What a test starts by ``sys.executable`` is started in the emulator, too.
_START: Final = """#!/bin/sh
export PYTHONHOME={root}/usr PYTHONPATH={root}/site:$PYTHONPATH PYTHONDONTWRITEBYTECODE=1
exec {emulator} -0 {start} -L {root} {root}/usr/bin/python{python} "$@"
"""


def create(wheel: Path, folder: Path) -> None:
    """Create ``folder/python``, with the wheel, and the copy of the tests ``folder/tree``; Debian's part is kept."""
    emulator = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if not emulator:
        raise SystemExit("make cross needs an emulator: apt install qemu-user-static debian-archive-keyring")
    root, start = folder / "root", folder / "python"
    if not root.exists():
        unfinished = folder / "unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        _unpack_debian(folder / "apt", unfinished)
        _pip(unfinished / "site", *(f"{name}=={version(name)}" for name in _PACKAGES))
        (unfinished / "site" / "sitecustomize.py").write_text(HOOK)
        unfinished.rename(root)
    _pip(root / "site", "--upgrade", "--no-deps", wheel)
    start.write_text(_START.format(root=root, emulator=emulator, start=start, python=_PYTHON))
    start.chmod(0o755)
    shutil.rmtree(folder / "tree", ignore_errors=True)
    copy_tests(folder / "tree")


def _unpack_debian(state: Path, root: Path) -> None:
    """Unpack Debian's packages for Arm, which apt downloads without regard to this system's."""
    (state / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    (state / "archives" / "partial").mkdir(parents=True, exist_ok=True)
    (state / "sources.list").write_text(f"deb [signed-by={_KEYS}] http://deb.debian.org/debian {_SUITE} main\n")
    options = [
        f"Dir::State={state}", "Dir::State::status=/dev/null", f"Dir::Cache={state}", "APT::Architecture=arm64",
        "APT::Architectures=arm64", f"Dir::Etc::sourcelist={state}/sources.list", "Dir::Etc::sourceparts=/dev/null",
    ]  # fmt: skip
    apt = ["apt-get", "-qq", *(part for one in options for part in ("-o", one))]
    subprocess.run([*apt, "update"], check=True)
    subprocess.run([*apt, "install", "-y", "--no-install-recommends", "--download-only", *_DEBIAN], check=True)
    root.mkdir(parents=True)
    for package in sorted((state / "archives").glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", package, root], check=True)


def _pip(target: Path, *what: str | Path) -> None:
    platforms = [part for name in _PLATFORMS for part in ("--platform", f"{name}_aarch64")]
    options = [*platforms, "--python-version", _PYTHON, "--only-binary=:all:", "--target", str(target)]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet", *options, *what], check=True
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m buildtools.cross", description="Install a wheel for Arm.")
    parser.add_argument("wheel", type=Path)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    create(given.wheel, given.folder.absolute())
