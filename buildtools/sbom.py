"""A wheel's bill of materials: its compiled libraries, and the packages that they were built with.

References
----------
PEP 770, ``.dist-info/sboms``; CycloneDX 1.6, where ``formulation`` says how a component was made.
"""

from __future__ import annotations

import hashlib
import json
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .levels import Chosen


def write_sbom(folder: Path, name: str, own_version: str, libraries: Path, chosen: Chosen) -> None:
    """Write ``folder/NAME.cdx.json`` for a wheel with these libraries; equal wheels get equal files."""
    files = [
        {
            "type": "file",
            "bom-ref": path.name,
            "name": path.name,
            "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}],
        }
        for path in sorted(libraries.glob("*"))
        if path.suffix in (".so", ".xz")
    ]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"lifecycles": [{"phase": "build"}], "component": _package(name, own_version)},
        "components": files,  # of which none is another project's
        "formulation": [{"components": [_package(tool, version(tool)) for tool in _tools(chosen)]}],
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.cdx.json").write_text(json.dumps(document, indent=1) + "\n")


def _package(name: str, its_version: str) -> dict[str, Any]:
    purl = f"pkg:pypi/{name}@{its_version}"
    return {"type": "library", "bom-ref": purl, "name": name, "version": its_version, "purl": purl}


def _tools(chosen: Chosen) -> list[str]:
    """Packages of requirements.txt that this environment has and the wheel needs."""
    text = Path(__file__).with_name("requirements.txt").read_text()
    _, setuptools, loops, linker, cuda = re.split("#.*\n", text)
    text = setuptools + (loops + linker if chosen.levels else "") + (cuda if chosen.cuda else "")
    return [name for name in re.findall(r"^([\w-]+)==", text, re.MULTILINE) if _is_installed(name)]


def _is_installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True
