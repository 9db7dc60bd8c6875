"""The build backend: that of setuptools in a copy of the sources, with Numba where the loops are compiled.

A copy, because setuptools writes into the sources: they may belong to another user, and what an earlier build left
there must not get into a wheel.
"""

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if sys.version_info < (3, 11):  # noqa: UP036  # pip installs what a build requires before it reads requires-python
    raise SystemExit(f"gpuimg needs Python 3.11 or later; this is Python {sys.version.split()[0]}")

from setuptools import build_meta

from .levels import LEVELS, compiler_driver, levels_to_build

__all__ = [
    "build_editable", "build_sdist", "build_wheel", "get_requires_for_build_editable", "get_requires_for_build_sdist",
    "get_requires_for_build_wheel", "prepare_metadata_for_build_editable", "prepare_metadata_for_build_wheel",
]  # fmt: skip

#: Packages of requirements.txt that a build needs.
_LOOPS = "numba", "llvmlite", "numpy"
_LINKER = "ziglang"
_CUDA = "numba-cuda", "cuda-bindings", *(f"nvidia-{name}-cu12" for name in ("cuda-nvcc", "nvjitlink", "cuda-nvrtc"))

_ROOT = Path(__file__).resolve().parents[1]
_NOT_COPIED = shutil.ignore_patterns(
    ".git", ".venv*", "*_cache", ".hypothesis", "__pycache__", "*.egg-info", "build", "dist", "_lib", "_build",
    ".photos", ".videos",
)  # fmt: skip


@contextlib.contextmanager
def _in_a_copy() -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="gpuimg-") as folder:
        copy = Path(folder, "gpuimg")
        shutil.copytree(_ROOT, copy, symlinks=True, ignore=_NOT_COPIED, copy_function=shutil.copyfile)
        for place, _, _ in os.walk(copy):
            os.chmod(place, 0o755)  # the mode of a folder is copied
        with contextlib.chdir(copy):
            yield


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """Return the pinned compilers, and a linker where the system has none."""
    chosen = levels_to_build()
    names = [*_LOOPS] if chosen.levels else []
    names += [] if all(compiler_driver(LEVELS[level].triple) for level in chosen.levels) else [_LINKER]
    names += _CUDA if chosen.cuda else ()
    text = Path(__file__).with_name("requirements.txt").read_text()
    return [line for line in text.splitlines() if line.partition("==")[0] in names]


def get_requires_for_build_sdist(config_settings: Any = None) -> list[str]:
    """Return nothing."""
    return []


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    """Return nothing: Numba compiles the loops where they are first used."""
    return []


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """Build a wheel."""
    folder, metadata = os.path.abspath(wheel_directory), metadata_directory and os.path.abspath(metadata_directory)
    with _in_a_copy():
        return str(build_meta.build_wheel(folder, config_settings, metadata))


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Any = None) -> str:
    """Write the metadata of a wheel."""
    folder = os.path.abspath(metadata_directory)
    with _in_a_copy():
        return str(build_meta.prepare_metadata_for_build_wheel(folder, config_settings))


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    """Build a source distribution."""
    folder = os.path.abspath(sdist_directory)
    with _in_a_copy():
        return str(build_meta.build_sdist(folder, config_settings))


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """Build a wheel that leads to the sources."""
    os.environ["GPUIMG_BUILD"] = "pure"
    return str(build_meta.build_editable(wheel_directory, config_settings, metadata_directory))


def prepare_metadata_for_build_editable(metadata_directory: str, config_settings: Any = None) -> str:
    """Write the metadata of such a wheel."""
    os.environ["GPUIMG_BUILD"] = "pure"
    return str(build_meta.prepare_metadata_for_build_editable(metadata_directory, config_settings))
