"""Libraries that some tests need and not every environment has: the module, or a skip that says what to install."""

import importlib
import importlib.util
import os
import tomllib
from collections.abc import Iterable
from typing import Any, NoReturn

import pytest

from .samples import ROOT

REQUIRED = os.environ.get("GPUIMG_REQUIRE_LIBRARIES") == "1"


def unavailable(reason: str) -> NoReturn:
    """Skip a test, or a module of tests, whose library or tool is missing; fail where everything must be there."""
    if REQUIRED:
        pytest.fail(f"GPUIMG_REQUIRE_LIBRARIES=1, but {reason}", pytrace=False)
    pytest.skip(reason, allow_module_level=True)


def is_here(module: str) -> bool:
    """Return True for a module that is installed, or has to be."""
    return REQUIRED or importlib.util.find_spec(module.partition(".")[0]) is not None


def group_of(module: str) -> str:
    """Return the dependency group that installs a module; the Makefile installs the rest of "oracles"."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    name = module.replace("_", "-")
    return next((group for group, members in groups.items() if any(one.startswith(name) for one in members)), "oracles")


def needs(*modules: str) -> None:
    """Skip a test that starts a program with these libraries where one of them is missing."""
    for module in modules:
        top = module.partition(".")[0]
        if importlib.util.find_spec(top) is None:
            unavailable(f"{top} is not installed: pip install --group {group_of(top)}, or make test-all")


def library(module: str) -> Any:
    """Return a module; skip the test where its library is missing."""
    needs(module)
    return importlib.import_module(module)


def cases(module: str, names: str, values: Iterable[Any]) -> pytest.MarkDecorator:
    """Parametrize a test that needs a library: where that is missing, it is skipped once and not for each value."""
    given = list(values)
    return pytest.mark.parametrize(names, given if is_here(module) else given[:1])
