"""Conventions of the public API, by introspection; and every example in a docstring."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
from collections import Counter
from functools import cache
from pathlib import Path
from types import FunctionType

import pytest

import gpuimg

ROOT = Path(__file__).parents[2]
FUNCTIONS = [name for name in gpuimg.__all__ if isinstance(getattr(gpuimg, name), FunctionType)]
CLASSES = [name for name in gpuimg.__all__ if inspect.isclass(getattr(gpuimg, name))]
IMAGE_FUNCTIONS = [
    name
    for name in FUNCTIONS
    if next(iter(inspect.signature(getattr(gpuimg, name)).parameters)) == "images"
    and not name.startswith(("to_", "transform_"))
    and name not in ("describe", "save_plan", "five_crop", "ten_crop", "uniform_temporal_subsample")
    and name not in gpuimg.sources.__all__
]
RANDOM_FUNCTIONS = [name for name in FUNCTIONS if "rng" in inspect.signature(getattr(gpuimg, name)).parameters]
# Only a machine with a GPU can import the CUDA runtime; the CUDA kernels load numba.cuda.
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(gpuimg.__path__, "gpuimg.")
    if not re.search(
        r"\.(cuda(_(exact|prepass|decode|jpeg|launch|marks|memory|resident|video))?|__main__)$", module.name
    )
)
SECTIONS = ("Parameters", "Attributes", "Returns", "Raises", "Notes", "References", "Examples")


def sections(docstring: str) -> dict[str, str]:
    """The numpydoc sections of a docstring by name, the text before them as ``""``."""
    parts = re.split(rf"^({'|'.join(SECTIONS)})\n-+\n", inspect.cleandoc(docstring), flags=re.MULTILINE)
    return dict(zip(["", *parts[1::2]], parts[::2], strict=True))


def documented_names(text: str) -> list[str]:
    """Names of a Parameters section: ``a, b : type`` lines at the margin."""
    heads = re.findall(r"^(\S.*?)(?: :.*)?$", text, re.MULTILINE)
    return [name.strip() for head in heads for name in head.split(",")]


def test_all_is_sorted_complete_and_real() -> None:
    assert sorted(set(gpuimg.__all__)) == sorted(gpuimg.__all__)
    assert all(hasattr(gpuimg, name) for name in gpuimg.__all__)
    public = {name for name, value in vars(gpuimg).items() if not name.startswith("_") and not inspect.ismodule(value)}
    assert public == set(gpuimg.__all__) - {"__version__", "models", "presets", "sizes", "sources"}
    assert len(IMAGE_FUNCTIONS) >= 23


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_is_documented(name: str) -> None:
    function = getattr(gpuimg, name)
    found = sections(function.__doc__)
    summary = found[""].strip().splitlines()[0]
    assert summary.endswith(".")
    assert len(summary) <= 110
    assert {"Parameters", "Returns", "Examples"} <= set(found)
    assert ">>> " in found["Examples"]
    assert [s for s in SECTIONS if s in found] == [s for s in found if s], "sections out of order"
    assert documented_names(found["Parameters"]) == list(inspect.signature(function).parameters)


@pytest.mark.parametrize("name", CLASSES)
def test_class_is_documented(name: str) -> None:
    kind = getattr(gpuimg, name)
    found = sections(kind.__doc__)
    assert found[""].strip().splitlines()[0].endswith(".")
    assert "Attributes" in found or "Examples" in found
    for member, value in vars(kind).items():
        if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
            assert value.__doc__, f"{name}.{member}"


@pytest.mark.parametrize("name", [name for name in IMAGE_FUNCTIONS if name not in {*RANDOM_FUNCTIONS, "blend"}])
def test_where_is_keyword_only(name: str) -> None:
    where = inspect.signature(getattr(gpuimg, name)).parameters["where"]
    assert where.kind is inspect.Parameter.KEYWORD_ONLY
    assert where.default is None


@pytest.mark.parametrize("name", RANDOM_FUNCTIONS)
def test_rng_is_keyword_only_and_never_hidden(name: str) -> None:
    rng = inspect.signature(getattr(gpuimg, name)).parameters["rng"]
    assert rng.kind is inspect.Parameter.KEYWORD_ONLY
    assert rng.default is inspect.Parameter.empty


def test_random_functions_are_here() -> None:
    assert len(RANDOM_FUNCTIONS) >= 27
    assert {name for name in FUNCTIONS if name.startswith("random_")} <= set(RANDOM_FUNCTIONS)


@pytest.mark.parametrize("name", ["decode_batch", "open_batch", "image_info", "to_torch", "to_jax", "to_tensorflow"])
def test_options_are_keyword_only(name: str) -> None:
    first, *others = inspect.signature(getattr(gpuimg, name)).parameters.values()
    assert first.default is inspect.Parameter.empty
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in others)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_is_annotated(name: str) -> None:
    signature = inspect.signature(getattr(gpuimg, name))
    assert signature.return_annotation is not inspect.Signature.empty
    assert all(p.annotation is not inspect.Parameter.empty for p in signature.parameters.values())


@pytest.mark.parametrize("name", MODULES)
def test_module_has_a_docstring_that_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUIMG_DEVICE", "cpu")
    module = importlib.import_module(name)
    assert module.__doc__
    assert doctest.testmod(module).failed == 0


def test_docstring_of_the_package_runs() -> None:
    result = doctest.testmod(gpuimg)
    assert (result.failed, result.attempted > 0) == (0, True)


# -- who imports what --------------------------------------------------------------------------------------------------

#: The folders of the package, lowest first: each imports only those before it. Files at the top stand in for a folder.
LAYERS = (
    "kernels", "errors", "_version", "_checks", "_threads", "_io", "_decoding", "_index", "_video", "_data", "_plan",
    "_runtimes", "_batch", "_ops",
    "_replay", "_random", "presets", "sizes", "models", "sources", "_loading", "typing", "_prepare", "torch",
    "integrations", "_cli",
)  # fmt: skip
PUBLIC = {"errors", "integrations", "models", "presets", "sizes", "sources", "torch", "typing"}
#: Imports by dotted name: who is allowed to know them.
OWNERS = {
    "nvidia": {"gpuimg/_decoding/nvimgcodec.py"},
    "cupy": {
        f"gpuimg/_runtimes/{name}.py"
        for name in (
            "cuda",
            "cuda_exact",
            "cuda_prepass",
            "cuda_decode",
            "cuda_jpeg",
            "cuda_launch",
            "cuda_marks",
            "cuda_memory",
            "cuda_resident",
            "cuda_video",
            "probe",
        )
    },
    "numba.cuda": {
        f"kernels/cuda/{name}.py"
        for name in (
            "artefacts",
            "compiler",
            "copies",
            "elastic",
            "exact",
            "jpeg_codes",
            "jpeg_find",
            "jpeg_huffman",
            "jpeg_pixels",
            "jpeg_reduced",
            "program",
            "marks",
            "statistics",
            "transform",
            "yuv",
        )
    },
    "torch": {
        *(f"gpuimg/torch/{name}.py" for name in ("__init__", "iterable", "loader", "mapped", "tensors")),
        "gpuimg/_cli/contenders.py",
        "gpuimg/_batch/frameworks.py",
    },  # in functions; types
    "torchvision": {"gpuimg/_cli/contenders.py"},  # in a function
    "transformers": {"gpuimg/integrations/transformers.py"},  # in functions
    "tqdm": {"gpuimg/_loading/stats.py"},  # in a function
    "PIL": {  # in functions
        f"gpuimg/{name}.py"
        for name in (
            *("_decoding/pillow", "_batch/pictures", "_cli/contenders", "_cli/lettering", "_cli/warm"),
            *("_prepare/encode", "integrations/transformers"),
        )
    },
    "av": set(),  # by name, in _video/files.py
    "fsspec": {"gpuimg/sources/_remote.py"},  # in a function
    "aiohttp": {"gpuimg/sources/_remote.py"},  # in a function
    "pillow_heif": {"gpuimg/_decoding/pillow.py"},
    "jax": {"gpuimg/_batch/frameworks.py"},  # for types
    **{name: set() for name in ("tensorflow", "cv2", "pyarrow", "array_record")},
}


def module_name(path: Path) -> str:
    """Dotted name of a file of the package; the kernels are part of it."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "gpuimg" else ("gpuimg", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {
    module_name(path): path
    for path in [*(ROOT / "gpuimg").rglob("*.py"), *(ROOT / "kernels").rglob("*.py")]
    if "kernels" not in path.relative_to(ROOT).parts[1:]
}


@cache
def imports(name: str) -> frozenset[str]:
    """Absolute names of everything a module imports, anywhere in it."""
    path = FILES[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            start = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return frozenset(found)


def inside(name: str) -> set[str]:
    """Modules of the package that a module imports."""
    return {found for found in imports(name) if found in FILES and found not in (name, "gpuimg")}


def layer(name: str) -> str:
    """The folder, or the file at the top, that a module is in."""
    return name.split(".")[1] if "." in name else ""


def test_every_folder_has_its_place() -> None:
    folders = {layer(name) for name in FILES} - {"", "__main__"}
    assert folders == set(LAYERS)
    shown = {path.stem for path in (ROOT / "gpuimg").iterdir() if not path.name.startswith(("_", "py."))}
    assert shown - {"kernels"} == PUBLIC


@pytest.mark.parametrize("name", [name for name in FILES if layer(name) in LAYERS])
def test_a_folder_imports_only_those_below_it(name: str) -> None:
    below = LAYERS[: LAYERS.index(layer(name)) + 1]
    assert {layer(found) for found in inside(name)} <= set(below)


def test_no_import_cycle() -> None:
    left = {name: inside(name) for name in FILES if name != "gpuimg"}
    while left:
        ready = {name for name, needed in left.items() if not needed & left.keys()}
        assert ready, f"these import each other: {sorted(left)}"
        left = {name: needed for name, needed in left.items() if name not in ready}


@pytest.mark.parametrize("library", OWNERS)
def test_only_its_owner_imports_a_library(library: str) -> None:
    found = {
        FILES[name].relative_to(ROOT).as_posix()
        for name in FILES
        if any(one == library or one.startswith(library + ".") for one in imports(name))
    }
    assert found == OWNERS[library]


#: Private names that a module uses of objects of other modules, and how often.
SEAMS = {
    "_batch.layouts": {"_array_in": 3},
    "_batch.recording": {"_recording": 1},  # the one place that looks into a Batch
    "_loading.pipeline": {"_array_in": 1},
    "sources._remote": {"_fetch_range": 1, "_raise_not_found_for_status": 1},  # of fsspec's HTTP files
    "torch.iterable": {"_for_worker": 1},
}  # fmt: skip


@pytest.mark.slow
def test_private_names_stay_in_their_modules() -> None:
    """Of named tuples ``_replace`` and ``_asdict`` are public."""
    found = {}
    for name, path in FILES.items():
        tree = ast.parse(path.read_text())
        attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
        own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        own |= {node.attr for node in attributes if isinstance(node.ctx, ast.Store)}
        used = Counter(
            node.attr
            for node in attributes
            if re.match(r"_[a-z]", node.attr) and node.attr not in own | {"_replace", "_asdict"}
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
        )
        if used and ".kernels" not in name:
            found[name.removeprefix("gpuimg.")] = dict(used)
    assert found == SEAMS
    assert sum(sum(used.values()) for used in SEAMS.values()) <= 8
