"""Compiled loops in the wheel, the package's dependencies, and its description.

The description is the README without what leads nowhere outside of the repository.
"""

import re
from pathlib import Path

import setuptools

if int(setuptools.__version__.partition(".")[0]) < 77:
    raise SystemExit(
        f"gpuimg is built by setuptools 77 or later, not {setuptools.__version__}: pip install -U setuptools"
    )

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

from buildtools.levels import levels_to_build


class BuildPackage(build_py):
    """Modules, and libraries of the loops; an editable install compiles loops where they are first used."""

    def run(self) -> None:
        """Build the modules, then the libraries."""
        super().run()
        chosen = levels_to_build()
        if chosen.levels:
            from buildtools.build import build

            build(chosen.levels, Path(self.build_lib, "gpuimg", "kernels", "_lib"), chosen.cuda)


class BuildWheel(bdist_wheel):
    """A wheel for any Python: nothing in a library depends on its version."""

    def get_tag(self) -> tuple[str, str, str]:
        """Tags of the file name."""
        return "py3", "none", levels_to_build().platform


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
    # Numba compiles the loops where no library is for the processor.
    install_requires=["numpy>=2.1", "pillow>=12.0", *([] if levels_to_build().is_portable else ["numba>=0.61"])],
    distclass=Package,
    cmdclass={"build_py": BuildPackage, "bdist_wheel": BuildWheel},
)
