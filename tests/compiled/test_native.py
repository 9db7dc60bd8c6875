"""Compiled loops of a wheel: how they are built and checked, which library is chosen, and calls into it."""

import gc
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from buildtools.codegen import target_machine
from buildtools.levels import LEVELS, WHEELS, levels_to_build, own_level
from buildtools.link import link
from gpuimg.kernels import native

from ..samples import ROOT
from ..watchdog import on_threads
from .native_build import PAIR

MACHINE = platform.machine()

pytestmark = pytest.mark.skipif(MACHINE not in WHEELS, reason="no libraries for this machine")


def compile_small(what: str, path: Path, level: str = "") -> subprocess.CompletedProcess[str]:
    """Build a library of :mod:`.native_build`, by default for the oldest processor of this machine."""
    command = [sys.executable, "-m", "tests.compiled.native_build", what, level or WHEELS[MACHINE][0], str(path)]
    environment = os.environ | {"GPUIMG_NATIVE": "jit"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("small") / "small.so"
    done = compile_small("working", path)
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture
def folder(small: Path, tmp_path: Path) -> Path:
    for level in WHEELS[MACHINE]:
        shutil.copy(small, tmp_path / native.library_name(level))
    write_manifest(tmp_path)
    return tmp_path


def write_manifest(folder: Path) -> None:
    files = {level: folder / native.library_name(level) for level in WHEELS[MACHINE]}
    sums = {level: hashlib.sha256(path.read_bytes()).hexdigest() for level, path in files.items() if path.exists()}
    (folder / native.MANIFEST).write_text(json.dumps({"sources": native.source_digest(), "libraries": sums}))


@pytest.fixture(scope="module")
def library(small: Path) -> native.Library:
    return native.Library(small)


def total(library: native.Library) -> Callable[..., Any]:
    return library.function("__main__.total", ("int64(uint8[::1])", "int64(uint16[::1])"), {})


def fill(library: native.Library) -> Callable[..., Any]:
    return library.function("__main__.fill", ("none(PAIR[::1], int64, float32)",), {"PAIR": PAIR})


@pytest.mark.slow
def test_a_loop_that_can_raise_is_not_built(tmp_path: Path) -> None:
    done = compile_small("raising", tmp_path / "library.so")
    assert done.returncode == 1
    assert "a loop can raise ValueError('negative',)" in done.stderr.splitlines()[-1]


def test_a_library_needs_nothing_but_the_c_library(tmp_path: Path) -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    level, part = LEVELS[WHEELS[MACHINE][0]], tmp_path / "part.o"
    text = "declare void @PyDict_New()\ndefine void @loop() {\n  call void @PyDict_New()\n  ret void\n}\n"
    module = llvm.parse_assembly(f'target triple = "{level.triple}"\n{text}')
    part.write_bytes(target_machine(level).emit_object(module))
    with pytest.raises(RuntimeError, match="PyDict_New"):
        link([part], tmp_path / "library.so", level.triple)


def test_the_build_is_chosen_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUIMG_BUILD", "pure")
    assert levels_to_build().levels == ()
    monkeypatch.setenv("GPUIMG_BUILD", "aarch64")
    assert levels_to_build() == ("aarch64", ("aarch64",), False)
    monkeypatch.setenv("GPUIMG_BUILD", "x86_64+cuda")
    assert levels_to_build() == ("x86_64", ("x86-64-v2", "x86-64-v3", "x86-64-v4"), True)
    for wrong in ("riscv", "x86_64+", "pure+cuda"):
        monkeypatch.setenv("GPUIMG_BUILD", wrong)
        with pytest.raises(ValueError, match=r"GPUIMG_BUILD must be one of pure, x86_64, x86_64\+cuda, .*, not '"):
            levels_to_build()


Choose = Callable[[str | None], None]


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> Choose:
    """Set ``GPUIMG_NATIVE``, which by default is empty."""
    monkeypatch.delenv("NUMBA_BOUNDSCHECK", raising=False)
    monkeypatch.setenv("GPUIMG_NATIVE", "")
    return lambda value: monkeypatch.setenv("GPUIMG_NATIVE", value or "")


def test_the_best_level_is_chosen(folder: Path, chosen: Choose) -> None:
    has = import_module("numpy._core._multiarray_umath").__cpu_features__  # from the processor, not from the system

    expected = "x86-64-v2" if MACHINE == "x86_64" else MACHINE
    if has.get("AVX2") and has.get("FMA3"):
        expected = "x86-64-v4" if has.get("AVX512_ICL") else "x86-64-v3"
    library, level = native.find(folder)
    assert level == own_level() == expected
    assert total(library)(np.arange(10, dtype=np.uint8)) == 45


@pytest.mark.skipif(MACHINE != "x86_64", reason="one level")
def test_level_can_be_chosen(folder: Path, chosen: Choose) -> None:
    for value in ("v2", "V2"):
        chosen(value)
        assert native.find(folder)[1] == "x86-64-v2"
    for value in ("v9", "-v2", "x86-64-v2"):
        chosen(value)
        with pytest.raises(ValueError, match=f"GPUIMG_NATIVE must be one of jit, v4, v3, v2, not '{value}'"):
            native.find(folder)


def test_numba_is_used_without_a_warning(folder: Path, chosen: Choose, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is requested, and where the sources were changed after the libraries were built."""
    chosen("JIT")
    with pytest.raises(native.UnusableError, match="GPUIMG_NATIVE=jit"):
        native.find(folder)
    chosen(None)
    with pytest.raises(native.UnusableError, match="this installation has no compiled loops"):
        native.find(folder / "nowhere")
    manifest = json.loads((folder / native.MANIFEST).read_text())
    (folder / native.MANIFEST).write_text(json.dumps(manifest | {"sources": "another"}))
    with pytest.raises(native.UnusableError, match="the sources were changed after"):
        native.find(folder)
    monkeypatch.setenv("NUMBA_BOUNDSCHECK", "1")
    with pytest.raises(native.UnusableError, match="NUMBA_BOUNDSCHECK is set"):
        native.find(folder)


def forge(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def make_another(path: Path) -> None:
    import _ctypes

    shutil.copy(_ctypes.__file__, path)
    write_manifest(path.parent)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (forge, "is not the file that was built: its checksum differs"), (Path.unlink, "No such file"),
        (make_another, "is another library"),
    ],
)  # fmt: skip
def test_damaged_library_is_refused(damage: Callable[[Path], None], reason: str, folder: Path, chosen: Choose) -> None:
    lower = WHEELS[MACHINE][: WHEELS[MACHINE].index(own_level())]
    damage(folder / native.library_name(own_level()))
    with (
        pytest.warns(RuntimeWarning, match=f"compiled loops are not used, Numba compiles them: .*({reason})"),
        nullcontext() if lower else pytest.raises(native.UnusableError),
    ):
        assert native.find(folder)[1] == lower[-1]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"sources": "x", "libraries": 3}', "\0", None])
def test_a_damaged_manifest_and_a_library_that_fails_are_refused(
    text: str | None, folder: Path, chosen: Choose, monkeypatch: pytest.MonkeyPatch
) -> None:
    if text is None:
        monkeypatch.setattr(native, "SELF_TEST", ("__main__.total", ("int64(uint8[::1])", "int64(uint16[::1])")))
    else:
        (folder / native.MANIFEST).write_text(text)
    reason = "failed its self-test: TypeError" if text is None else "manifest.json"
    with (
        pytest.warns(RuntimeWarning, match=f"compiled loops are not used, Numba compiles them: .*{reason}"),
        pytest.raises(native.UnusableError, match="self-test" if text is None else None),
    ):
        native.find(folder)


def test_the_signature_that_fits_is_called(library: native.Library) -> None:
    function = total(library)
    assert function(np.full(3, 200, np.uint8)) == 600
    assert function(np.full(3, 60000, np.uint16)) == 180000
    assert function(np.zeros(0, np.uint8)) == 0
    values = np.arange(6, dtype=np.uint8)
    values.flags.writeable = False
    assert function(values) == 15


def test_records_numbers_and_truth_are_passed(library: native.Library) -> None:
    pairs = np.zeros(3, np.dtype([("first", "<i8"), ("second", "<f4")], align=True))  # equal, but another object
    assert fill(library)(pairs, np.int64(-5), 0.1) is None
    assert pairs["first"].tolist() == [-5] * 3
    assert pairs["second"].tolist() == [float(np.float32(0.1))] * 3
    is_there = library.function("__main__.is_there", ("boolean(uint64, uint64[::1])",), {})
    values = np.array([1, 2**64 - 1], np.uint64)
    assert is_there(np.uint64(2**64 - 1), values) is True
    assert is_there(3, values) is False
    for first, second, error in ((1.5, 0.0, TypeError), (2**63, 0.0, OverflowError), (1, "x", TypeError)):
        with pytest.raises(error):
            fill(library)(pairs, first, second)
    assert pairs["first"].tolist() == [-5] * 3


@pytest.mark.parametrize(
    "values",
    # The fifth one is not aligned.
    [np.zeros(3, np.int8), np.zeros(3, ">u2"), np.zeros((3, 1), np.uint8), np.zeros(6, np.uint8)[::2],
     np.frombuffer(bytes(9), np.uint8)[1:].view(np.uint16), [1, 2], None, np.ma.zeros(3, np.uint8)],
    ids=str,
)  # fmt: skip
def test_other_arguments_are_refused(library: native.Library, values: Any) -> None:
    with pytest.raises(TypeError, match=r"arguments of __main__.total are not int64\(uint8\[::1\]\) or int64\(uint16"):
        total(library)(values)


def test_an_array_that_is_written_is_writeable(library: native.Library) -> None:
    pairs = np.frombuffer(bytes(PAIR.itemsize), PAIR)
    with pytest.raises(TypeError, match=r"arguments of __main__.fill are not none\(PAIR"):
        fill(library)(pairs, 5, 0.5)
    assert not pairs["first"].any()


def test_a_loop_that_fails_raises(library: native.Library) -> None:
    function = library.function("__main__.every", ("int64(int64[::1], int64)",), {})
    assert function(np.arange(10), 3) == 18
    with pytest.raises(RuntimeError, match=r"__main__\.every failed"):
        function(np.arange(10), 0)
    assert function(np.arange(10), 5) == 5


def test_calls_keep_no_references(library: native.Library) -> None:
    function, values = total(library), np.zeros(3, np.uint16)
    gc.collect()  # else what earlier tests left would be collected in the loop, with all its references to None
    before = sys.getrefcount(values), sys.getrefcount(values.dtype), sys.getrefcount(None)
    for _ in range(10_000):
        function(values)
        fill(library)
    after = sys.getrefcount(values), sys.getrefcount(values.dtype), sys.getrefcount(None)
    # References to None come and go elsewhere, too.
    assert all(abs(new - old) < 5_000 for old, new in zip(before, after, strict=True))


def test_threads_and_forks_call_the_same_library(library: native.Library) -> None:
    function, values, found = total(library), np.arange(100, dtype=np.uint8), list[int]()

    def work() -> None:
        found.extend(function(values) for _ in range(200))

    on_threads(work, 6)
    assert found == [4950] * 1200
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of forks of a process with threads, by Python and by JAX
        child = os.fork()
    if not child:
        os._exit(0 if function(values) == 4950 else 1)
    assert os.waitpid(child, 0)[1] == 0
