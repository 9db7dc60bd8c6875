"""Conventions of the public API, by introspection; and every example in a docstring."""

import doctest
import importlib
import inspect
import pkgutil
import re
import tomllib
from dataclasses import is_dataclass
from types import FunctionType

import pytest

import gpuimg
import gpuimg.typing

from ..libraries import needs
from ..samples import PUBLIC, ROOT

FUNCTIONS = [name for name in PUBLIC if isinstance(getattr(gpuimg, name), FunctionType)]
RECORDS = {
    name: value
    for name, value in vars(gpuimg.typing).items()
    if inspect.isclass(value) and (is_dataclass(value) or issubclass(value, tuple))
}
IMAGE_FUNCTIONS = [
    name
    for name in FUNCTIONS
    if next(iter(inspect.signature(getattr(gpuimg, name)).parameters), None) == "images"
    and not name.startswith(("to_", "transform_", "encode_"))
    and name not in ("describe", "five_crop", "ten_crop", "uniform_temporal_subsample")
    and name not in vars(gpuimg.sources)["__all__"]
]
RANDOM_FUNCTIONS = [name for name in FUNCTIONS if "rng" in inspect.signature(getattr(gpuimg, name)).parameters]
# Only a machine with a GPU can import the CUDA runtime; the CUDA kernels load numba.cuda.
GPU = re.compile(r"\.(cuda(_(exact|prepass|decode|jpeg|launch|marks|memory|nvimgcodec|video))?|__main__)$")
FOUND = [module.name for module in pkgutil.walk_packages(gpuimg.__path__, "gpuimg.")]
MODULES = ["gpuimg", *sorted(name for name in FOUND if not GPU.search(name))]
NEEDED = {"gpuimg.torch": "torch", "gpuimg.integrations.": "torch", "gpuimg.kernels.cuda.compiler": "numba_cuda"}
SECTIONS = ("Parameters", "Attributes", "Returns", "Raises", "Notes", "References", "Examples")


def test_every_folder_is_installed() -> None:
    folders = [module.name for module in pkgutil.walk_packages(gpuimg.__path__, "gpuimg.") if module.ispkg]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert {*project["tool"]["setuptools"]["packages"]} == {"gpuimg", "gpuimg._io.photos", *folders}


def sections(docstring: str) -> dict[str, str]:
    """The numpydoc sections of a docstring by name, the text before them as ``""``."""
    parts = re.split(rf"^({'|'.join(SECTIONS)})\n-+\n", inspect.cleandoc(docstring), flags=re.MULTILINE)
    return dict(zip(["", *parts[1::2]], parts[::2], strict=True))


def documented_names(text: str) -> list[str]:
    """Names of a Parameters section: ``a, b : type`` lines at the margin."""
    heads = re.findall(r"^(\S.*?)(?: :.*)?$", text, re.MULTILINE)
    return [name.strip(" *") for head in heads for name in head.split(",")]


def test_all_is_sorted_complete_and_real() -> None:
    for package in (gpuimg, gpuimg.sources, gpuimg.typing):
        names = vars(package)["__all__"]
        assert names == sorted(set(names), key=lambda name: (not name.isupper(), not name[0].isupper(), name))
        public = {key for key, value in vars(package).items() if not (key.startswith("_") or inspect.ismodule(value))}
        assert public | {"__version__", "models", "presets", "sizes", "sources"} >= set(names) >= public
    assert len(IMAGE_FUNCTIONS) >= 23


def test_names_are_those_of_the_modules_that_define_them() -> None:
    """So that no name is public which a module merely imports."""
    for name in PUBLIC:
        value = getattr(gpuimg, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert name in importlib.import_module(value.__module__).__all__


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_is_documented(name: str) -> None:
    function = getattr(gpuimg, name)
    found = sections(function.__doc__)
    summary = found[""].strip().splitlines()[0]
    assert summary.endswith(".")
    assert len(summary) <= 110
    parameters = list(inspect.signature(function).parameters)
    assert {*["Parameters"][: len(parameters)], "Returns", "Examples"} <= set(found)
    assert ">>> " in found["Examples"]
    assert [s for s in SECTIONS if s in found] == [s for s in found if s], "sections out of order"
    assert documented_names(found.get("Parameters", "")) == parameters


@pytest.mark.parametrize("name", sorted({*IMAGE_FUNCTIONS, *RANDOM_FUNCTIONS} - {"blend"}))
def test_where_and_rng_are_keyword_only(name: str) -> None:
    option, default = ("rng", inspect.Parameter.empty) if name in RANDOM_FUNCTIONS else ("where", None)
    parameter = inspect.signature(getattr(gpuimg, name)).parameters[option]
    assert (parameter.kind, parameter.default) == (inspect.Parameter.KEYWORD_ONLY, default)
    assert name in RANDOM_FUNCTIONS or not name.startswith("random_")


@pytest.mark.parametrize(
    "name",
    [
        "decode_batch",
        "decode_image",
        "open_batch",
        "image_info",
        "to_torch",
        "to_jax",
        "to_tensorflow",
        "encode_batch",
        "encode_image",
    ],
)
def test_options_are_keyword_only(name: str) -> None:
    first, *others = inspect.signature(getattr(gpuimg, name)).parameters.values()
    assert first.default is inspect.Parameter.empty
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in others)


@pytest.mark.parametrize("name", MODULES)
def test_module_has_a_docstring_that_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUIMG_DEVICE", "cpu")
    needs(*(needed for start, needed in NEEDED.items() if name.startswith(start)))
    module = importlib.import_module(name)
    assert module.__doc__
    assert doctest.testmod(module).failed == 0
