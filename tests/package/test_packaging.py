"""The package as it is installed: what the wheel holds and is built with, what `import gpuimg` loads; other systems."""

import ast
import re
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from buildtools import backend, library
from buildtools.levels import LEVELS

from ..data_sets import jpeg
from ..libraries import cases, needs
from ..processes import python
from ..samples import ROOT, write_files
from ..sources.writers import archive


@pytest.mark.slow
def test_wheel_holds_the_package_once(tmp_path: Path) -> None:
    """A pure wheel, by the setuptools that is installed: the link to kernels/ is followed once."""
    pytest.importorskip("setuptools", minversion="77")
    python("-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", tmp_path, ROOT, GPUIMG_BUILD="pure")
    (wheel,) = tmp_path.glob("gpuimg-*-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    wanted = [f"gpuimg/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "kernels").rglob("*.py")]
    own = [*(ROOT / "gpuimg").rglob("*.py"), *(ROOT / "gpuimg/_io/photos").iterdir()]
    wanted += [path.relative_to(ROOT).as_posix() for path in own if path.parts[len(ROOT.parts) + 1] != "kernels"]
    wanted += ["_gpuimg_cli.py", "gpuimg/py.typed", "gpuimg/kernels/jpeg/books.xz"]
    assert sorted(name for name in names if ".dist-info/" not in name) == sorted(wanted)


def test_files_that_scripts_name_exist() -> None:
    scripts = [ROOT / "Makefile", ROOT / "tests/wheel_tests.txt", *ROOT.glob(".ci/*"), *ROOT.glob(".github/*/*")]
    path = r"(?<![\w./$)-])(?:\./)?((?:tests|bench|buildtools|gpuimg|\.ci|\.github)/[\w./-]*\w)"
    named = {name for script in scripts for name in re.findall(path, script.read_text())}
    assert len(named) > 30
    made = {"bench/results", "bench/results/gpu", "bench/.photos", "bench/.photos/S"}
    assert [name for name in sorted(named - made) if not (ROOT / name).exists()] == []


def test_modules_that_pages_name_exist() -> None:
    files = "".join(f"/{path.relative_to(ROOT).as_posix()}\n" for path in ROOT.glob("[!.]*/**/*.py"))
    pages = ROOT / "docs/architecture.md", ROOT / "kernels/jpeg/README.md", ROOT / "CONTRIBUTING.md"
    named = {name for page in pages for name in re.findall(r"`([\w/]+\.py)`", page.read_text())}
    assert [name for name in sorted(named) if f"/{name}\n" not in files] == []


def test_modules_that_not_all_environments_have_are_known_to_mypy() -> None:
    """`make test` checks types with the groups dev and test alone; mypy's settings list what else code imports."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    mypy = settings["tool"]["mypy"]
    checked = {p.relative_to(ROOT).as_posix() for folder in mypy["files"] for p in (ROOT / folder).rglob("*.py")}
    files = [ROOT / name for name in checked if not any(re.search(pattern, name) for pattern in mypy["exclude"])]
    nodes = [node for path in files for node in ast.walk(ast.parse(path.read_text()))]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level}
    modules = (
        {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {path.stem for path in ROOT.iterdir()}
    )
    groups = settings["dependency-groups"]
    there = {
        re.split(r"[><=!\[]", line)[0].lower().replace("_", "-") for line in ["numpy", *groups["dev"], *groups["test"]]
    }
    lists = [o["module"] for o in mypy["overrides"] if o.get("ignore_missing_imports")]
    optional, of = {name.removesuffix(".*") for one in lists for name in one}, packages_distributions()
    assert "tifffile" in modules
    assert [
        m for m in sorted(modules - optional) if not there & {d.lower().replace("_", "-") for d in of.get(m, [])}
    ] == []


def test_compilers_are_pinned_with_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "compiler_driver", lambda triple: [])
    monkeypatch.setenv("GPUIMG_BUILD", "x86_64+cuda")
    needed = backend.get_requires_for_build_wheel()
    assert {line.partition("==")[0] for line in needed} == {*backend._LOOPS, backend._LINKER, *backend._CUDA}
    lock = (ROOT / "buildtools" / "requirements.lock").read_text()
    for pin in needed:
        assert re.search(rf"^{re.escape(pin)} \\\n    --hash=sha256:", lock, re.MULTILINE), pin
    monkeypatch.setenv("GPUIMG_BUILD", "pure")
    assert backend.get_requires_for_build_wheel() == []


def test_an_old_compiler_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llvmlite.binding.llvm_version_info", (15, 0, 7))
    with pytest.raises(library.BuildError, match=r"llvmlite 0\.45 or later, not one with LLVM 15\.0\.7: pip install"):
        library.compile_part(LEVELS["x86-64-v2"], tmp_path / "x.o")


def test_import_loads_no_framework() -> None:
    heavy = "cupy torch jax tensorflow nvidia.nvimgcodec numba llvmlite numba_cuda PIL cv2 av fsspec aiohttp pyarrow "
    heavy += "google_crc32c google.protobuf array_record lmdb"
    code = f"import gpuimg, sys; print([m for m in {heavy!r}.split() if m in sys.modules])"
    assert python("-c", code) == "[]\n"


HANDED = "import numpy as np; gpuimg.{}(np.zeros((1, 2, 2, 3), np.uint8))"
#: Packages that are missing, what is called then, and what it says.
MISSING = [
    ("torch", HANDED.format("to_torch"), "torch is not installed"),
    ("jax", HANDED.format("to_jax"), "jax is not installed"),
    ("tensorflow", HANDED.format("to_tensorflow"), "tensorflow is not installed"),
    ("torch", "import gpuimg.torch", 'gpuimg.torch needs torch; pip install torch'),
    ("google_crc32c", "gpuimg.tfrecord('a')",
     'reading TFRecord needs google-crc32c; pip install google-crc32c protobuf'),
    ("pyarrow", "gpuimg.parquet('a')", 'reading Parquet needs pyarrow; pip install pyarrow'),
    ("array_record", "gpuimg.array_record('a')",
     'reading ArrayRecord needs array_record; pip install array_record protobuf'),
    ("google.protobuf", "gpuimg.tfrecord('nowhere')", "reading Example messages needs protobuf;"),
    ("google.protobuf", "gpuimg.array_record('nowhere')", "reading Example messages needs protobuf;"),
    ("google.protobuf", "gpuimg.tfrecord('nowhere', image=None)", "[Errno 2] No such file"),
    ("fsspec", "gpuimg.tar('s3://bucket/a.tar')",
     'reading s3://bucket/a.tar needs fsspec; pip install fsspec s3fs aiohttp'),
    ("tqdm", "next(gpuimg.load([(b'', 0)], len, batch_size=1, progress=True))",
     'progress=True needs tqdm; pip install tqdm'),
    ("nvidia.nvimgcodec", "from gpuimg._decoding.nvimgcodec import decoders, library; assert not decoders(); library()",
     'nvImageCodec is not installed; pip install "cupy-cuda12x!=14.1.0,>=14.0.1" "nvidia-nvimgcodec-cu12[nvjpeg,'),
    ("nvidia.nvimgcodec", "from gpuimg._decoding.nvimgcodec import INSTALL_HINT as hint; raise ImportError(hint[-12:])",
     ", never both"),
    ("nvidia.nvimgcodec", "raise ImportError(gpuimg.decode_batch(['photos/cat.jpg'], device='cpu')[0].shape[2])", "3"),
]  # fmt: skip


@pytest.mark.parametrize(("package", "call", "words"), MISSING)
def test_missing_package_is_named(package: str, call: str, words: str) -> None:
    code = f"import sys, gpuimg\nsys.modules[{package!r}] = None\ntry:\n    {call}\n"
    code += "except (ImportError, OSError) as error:\n    print(error)"
    assert python("-c", code, folder=ROOT / "examples").startswith(words)


ABSENT = {
    "darwin": ("sched_getaffinity", "memfd_create", "posix_fadvise"),
    "win32": (
        "sched_getaffinity", "memfd_create", "posix_fadvise", "geteuid", "getuid", "pread", "pwrite", "fork", "sysconf",
        "register_at_fork", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC",
    ),
}  # fmt: skip

PROGRAM = """
import os, signal, sys, tempfile, threading, time, urllib.request
import numba.core.caching, numba.core.registry, numpy as np, PIL.Image, torch.utils.data
system, folder, *names = sys.argv[1:]
for name in names:
    delattr(os, name)
if system == "win32":
    sys.modules |= dict.fromkeys(("fcntl", "pwd", "resource"))
    del time.clock_gettime
sys.platform = system
import gpuimg as gi, gpuimg.torch
data = open(folder + "/train/a/0.jpg", "rb").read()
shown = np.asarray(PIL.Image.open(folder + "/train/a/0.jpg"))
evaluate = gi.presets.imagenet_eval(32, 36)
for file in (data, folder + "/train/a/0.jpg"):
    np.testing.assert_array_equal(gi.decode_image(file, device="cpu"), shown)
for source in (gi.folder(folder + "/train"), gi.tar(folder + "/x.tar")):
    loader = gi.load(source, evaluate, batch_size=2, device="cpu", shuffle=False, epochs=1)
    found = np.concatenate([batch.images for batch in loader])
    files = [source[k][0] for k in range(4)]
    np.testing.assert_array_equal(found, evaluate(gi.open_batch(files, device="cpu")).array())
    try:
        out = folder + "/" + type(source).__name__
        report = gi.prepare(source, out, short_side=16, measure=False)
        print(report.encoded, len(gpuimg.torch.Dataset(source, evaluate)[1]))
    except OSError as error:
        print(error)
"""


@cases("torch", "system", ABSENT)
def test_without_the_names_of(system: str, tmp_path: Path) -> None:
    needs("torch")
    files = {f"train/{'ab'[k % 2]}/{k}.jpg": jpeg(k) for k in range(4)}
    write_files(tmp_path, files | {"x.tar": archive((one, k) for k, one in enumerate(files.values()))})
    printed = python("-c", PROGRAM, system, tmp_path, *ABSENT[system]).splitlines()
    refusal = "[Errno 95] prepared data sets are written on POSIX systems only, such as Linux and macOS"
    assert printed == (["4 2"] * 2 if system == "darwin" else [refusal] * 2)
