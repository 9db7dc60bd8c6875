"""An environment in which an installed wheel runs the tests, and nothing can import Numba.

``python -m buildtools.wheel_env dist/gpuimg-...whl .venv-wheel``: everything but gpuimg and Numba is that of the
environment that runs this. The tests are copied into the folder, away from the sources.
"""

import argparse
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).resolve().parents[1]
_COPIED: Final = ("bench", "buildtools", "docs", "examples", "tests", "README.md", "pyproject.toml")
HOOK: Final = '''"""Numba cannot be imported here."""

import sys


class _Forbidden:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in ("numba", "llvmlite", "numba_cuda"):
            raise ModuleNotFoundError(f"{name} is imported where all loops come compiled", name=name)


sys.meta_path.insert(0, _Forbidden)
'''

#: Raises where anything but a device is opened for writing, or made: root may write to what is read-only, too.
READ_ONLY: Final = """
import os, sys

class WrittenError(BaseException):
    pass

def watch(event, arguments):
    writes = event in ("os.mkdir", "os.rename", "os.symlink", "os.link", "os.truncate", "tempfile.mkstemp")
    if event == "open":
        path, _, flags = arguments
        writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and not str(path).startswith("/dev/")
    if writes:
        raise WrittenError(f"{event}{arguments}")

sys.addaudithook(watch)
"""


def create(wheel: Path, folder: Path) -> None:
    """Create the environment ``folder``, and the copy of the tests ``folder/tree``."""
    venv.create(folder, clear=True, symlinks=True)
    python = folder / "bin" / "python"
    options = ["--disable-pip-version-check", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", *options, wheel], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "without_numba.py").write_text(HOOK)
    (site / "shared.pth").write_text(f"import without_numba\n{sysconfig.get_path('purelib')}\n")
    copy_tests(folder / "tree")


def copy_tests(folder: Path) -> None:
    """Copy the tests and what they use, but not the sources."""
    for name in _COPIED:
        if (_ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "_build", "gallery", ".photos", ".videos")
            shutil.copytree(_ROOT / name, folder / name, ignore=ignored)
        else:
            shutil.copy(_ROOT / name, folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m buildtools.wheel_env", description="Install a wheel for the tests."
    )
    parser.add_argument("wheel", type=Path)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    create(given.wheel, given.folder)
