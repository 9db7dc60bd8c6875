"""The build backend: that of setuptools, which needs Numba only where the loops are compiled."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

from .levels import LEVELS, compiler_driver, levels_to_build

__all__ = [
    "build_editable", "build_sdist", "build_wheel", "get_requires_for_build_editable", "get_requires_for_build_sdist",
    "get_requires_for_build_wheel", "prepare_metadata_for_build_editable", "prepare_metadata_for_build_wheel",
]  # fmt: skip


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """Return what setuptools needs, and the pinned compilers and linker."""
    chosen = levels_to_build()
    _, _setuptools, loops, link, cuda = re.split("#.*\n", Path(__file__).with_name("requirements.txt").read_text())
    text = loops if chosen.levels else ""
    text += "" if all(compiler_driver(LEVELS[level].triple) for level in chosen.levels) else link
    text += cuda if chosen.cuda else ""
    own: list[str] = build_meta.get_requires_for_build_wheel(config_settings)
    return [*own, *text.split()]
