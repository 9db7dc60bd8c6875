"""Compiled loops in the wheel, and the package's description.

The description is the README without what leads nowhere outside of the repository.
"""

import re
import shutil
from pathlib import Path
from typing import Any

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

from buildtools.levels import levels_to_build
from buildtools.sbom import write_sbom


class BuildPackage(build_py):
    """Modules, and libraries of the loops; an editable install compiles loops where they are first used."""

    def run(self) -> None:
        """Build the modules, then the libraries."""
        super().run()
        chosen = levels_to_build()
        if chosen.levels and not self.editable_mode:
            from buildtools.build import build  # needs Numba

            folder = Path(self.build_lib, "gpuimg", "kernels", "_lib")
            shutil.rmtree(folder, ignore_errors=True)  # of an earlier build, for other levels
            build(chosen.levels, folder, chosen.cuda)


class BuildWheel(bdist_wheel):
    """A wheel for any Python: nothing in a library depends on its version."""

    def get_tag(self) -> tuple[str, str, str]:
        """Tags of the file name."""
        chosen = levels_to_build()
        return "py3", "none", f"manylinux_2_28_{chosen.machine}" if chosen.levels else "any"

    def write_wheelfile(self, wheelfile_base: str, *arguments: Any, **options: Any) -> None:
        """Write WHEEL, and the bill of materials to the same folder."""
        super().write_wheelfile(wheelfile_base, *arguments, **options)
        libraries = Path(self.bdist_dir, "gpuimg", "kernels", "_lib")
        distribution, folder = self.distribution, Path(wheelfile_base, "sboms")
        write_sbom(folder, distribution.get_name(), distribution.get_version(), libraries, levels_to_build())


class Package(Distribution):
    """A package with machine code, or without."""

    def has_ext_modules(self) -> bool:
        """Return True for a wheel that is of one machine."""
        return bool(levels_to_build().levels)


text = Path(__file__).with_name("README.md").read_text("utf-8")
text = re.sub(r"!\[[^]]*\]\((?!https?:)[^)]*\)\n*", "", text)  # pictures
text = re.sub(r"\[([^]]*)\]\((?!https?:|#)[^)]*\)", r"\1", text)  # links, of which the words stay
setup(
    long_description=text,
    long_description_content_type="text/markdown",
    distclass=Package,
    cmdclass={"build_py": BuildPackage, "bdist_wheel": BuildWheel},
)
