"""Sources of a kernel's machine code: those of its module and of all that it imports of the package.

Their checksum is a part of the name of a file with machine code, in place of the versions of Python, Numba and CUDA. So
a file is found wherever these sources are, and by a process that has nothing to compile with.
"""

import hashlib
import re
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_IMPORT = re.compile(r"^[ \t]*from[ \t]+(\.+)([\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^#\n]*)", re.MULTILINE)


@cache
def digest(module: str) -> str:
    """Checksum of a module of device code of this folder, and of what it imports of the package."""
    found = hashlib.sha256()
    for path in sorted(files(module)):
        found.update(path.relative_to(_ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def files(module: str) -> set[Path]:
    """Sources of a module of this folder, and of those of the package that it imports, directly or not."""
    found: set[Path] = set()
    new = {Path(__file__).resolve().with_name(f"{module}.py")}
    while new:
        found |= new
        new = set().union(*map(_imported, new)) - found
    return found


@cache
def _imported(path: Path) -> frozenset[Path]:
    """Modules of the package that one imports."""
    found = set()
    for dots, name, what in _IMPORT.findall(path.read_text()):
        place = path.parents[len(dots) - 1].joinpath(*filter(None, name.split(".")))
        # Names after "import" are modules of a package, or values of a module.
        found |= {place / f"{one}.py" for one in re.findall(r"\w+", what)} | {place.with_suffix(".py")}
        if name:  # else the package that the module is in, or one above
            found.add(place / "__init__.py")
    return frozenset(one for one in found if one.is_file())
