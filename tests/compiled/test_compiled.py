"""The disk cache of compiled loops: names, invalidation, folders that cannot be written; and sums of products."""

import hashlib
import os
import pickle
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba import types

import gpuimg as gi
from gpuimg.kernels import compiled, disk
from gpuimg.kernels.compiled import fingerprint
from gpuimg.kernels.cpu import products
from gpuimg.kernels.cpu.intrinsics import I16, I32, I64, emitted, load, store, vector
from gpuimg.kernels.cpu.program import GRID_FUNCTIONS, ROW_FUNCTIONS
from gpuimg.kernels.kept import kept

from ..data_sets import jpeg
from ..processes import ROOT, Forks, forks

BATCH = """
import gpuimg, numpy as np
from gpuimg.kernels.compiled import NativeFunction
x = np.full((2, 5, 7, 3), 100, np.uint8)
y = gpuimg.adjust_brightness(gpuimg.resize(x, (3, 4)), 1.5).array()
print(int(y.min()), int(y.max()), NativeFunction.compile_count)
"""
DRAW = "import gpuimg; print(gpuimg.Rng(0, indices=[5]).words()[0, 0])"  # one small function
# The child needs loops while a thread of the parent, which it lacks, compiles one or waits for that.
FORKED = f"""
import os, signal, threading, time
from gpuimg.kernels.compiled import ENTRANCES, NativeFunction, lang

entrance, = (one for one in ENTRANCES if one.name == "cpu.weights.lay_axes")
loop, = (one for one in NativeFunction.all if one.name == "row_posterize")

def fork():
    threading.Thread(target=used.compile).start()
    time.sleep(0.2)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        {DRAW}
        loop.compile()
        os._exit(7)
    return child
"""
FORKS = {
    "it compiles": "used = entrance; child = fork()",
    "it waits for this one": "used = loop\nwith lang.global_compiler_lock: child = fork()",
}
Drawn = tuple[str, str, bytes]

IMPORTS = """
import gpuimg.kernels.cpu.batch
import numba
import numpy as np
numba.njit(lambda x: x[0] + 1.0)(np.ones(2))  # what Numba itself prepares for the first function
"""


@pytest.fixture(scope="module")
def python() -> Iterator[Forks]:
    """Processes that have compiled nothing of gpuimg's."""
    with forks(IMPORTS, GPUIMG_DEVICE="cpu") as python:
        yield python


def run(python: Forks, code: str, cache: Path) -> str:
    done = python.run(code, NUMBA_CACHE_DIR=str(cache))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip() + done.stderr


def loop_of(constant: float, comment: str = "", name: str = "scale", method: float = 1.0, entry: str = "loop") -> Any:
    """A loop that calls a function that calls a function that uses a constant."""
    text = f"""
import numba
FACTOR = {constant}
OTHER = 3.0
@numba.njit
def {name}(x):
    return x * FACTOR  {comment}
@numba.njit
def twice(x):
    return {name}({name}(x))
class Lane:  # as those by which instructions are emitted
    def scaled(self, x):
        return x * {method}
def method(x):
    return Lane().scaled(x)
def loop(values):
    for k in range(values.size):
        values[k] = twice(values[k])
def unrelated(x):
    return x + OTHER
"""
    namespace: dict[str, Any] = {"__name__": "gpuimg.kernels.example"}
    exec(text, namespace)
    return namespace[entry]


def test_fingerprint_covers_all_that_is_called() -> None:
    assert fingerprint(loop_of(2.0)) == fingerprint(loop_of(2.0))
    assert fingerprint(loop_of(2.0)) == fingerprint(loop_of(2.0, comment="# as before"))
    assert fingerprint(loop_of(2.0)) != fingerprint(loop_of(2.5))
    assert fingerprint(loop_of(2.0)) != fingerprint(loop_of(2.0, name="stretch"))
    methods = [fingerprint(loop_of(2.0, method=factor, entry="method")) for factor in (2.0, 2.0, 2.5)]
    assert methods[0] == methods[1] != methods[2]
    functions = [lambda x, factor=2.0: x * factor, lambda x, factor=3.0: x * factor]
    assert len({fingerprint(numba.njit(f, fastmath=fast)) for f in functions for fast in (False, True)}) == 4


def test_different_code_has_different_symbols() -> None:
    """Also in files of different processes: Numba's symbols are of modules and names, and numbers that are the same."""
    compiled.import_all()
    found: dict[Any, set[str]] = {}
    every: list[Any] = [*compiled.NativeFunction.all, *compiled.ENTRANCES]
    for one in every:
        compiled.name_made_functions(one.function)
        for called in compiled.called_by(one.function):
            found.setdefault((called.__module__, called.__qualname__), set()).add(fingerprint(called))
    assert len(found) > 500
    assert {name: codes for name, codes in found.items() if len(codes) > 1} == {}


RESIZE = """
import numba, numpy as np, sys
import gpuimg as gi
from PIL import Image
from gpuimg.kernels import exact
from gpuimg.kernels.cpu import exact as loops, weights

sys.executable = "none"  # all is compiled here, in this order

def lay():
    axes = np.zeros(1, exact.AXIS)
    axes["size"], axes["out"], axes["filter"], axes["most"] = 16, 7, 4, 12
    weights.lay_axes(axes, np.zeros(200, np.int32), np.zeros(200))

def others():  # as many as give the linear filter the number that the cubic one has
    for k in range(5):
        numba.njit(lambda x: x)(1)

def resize():
    assert loops.RESIZE_FUNCTION.address
    x = np.arange(768, dtype=np.uint8).reshape(16, 16, 3) * 7
    found = gi.resize([x], (7, 9), "bicubic", exact="pillow").compute()[0]
    expected = Image.fromarray(x).resize((9, 7), Image.Resampling.BICUBIC)
    print(np.abs(found.astype(int) - np.asarray(expected)).max())

for step in STEPS:
    step()
"""


def test_files_of_several_processes(python: Forks, tmp_path: Path) -> None:
    """In a process that reads both, each loop runs its own code: one had the other's filter."""
    for steps in ("resize", "others, lay", "lay, resize"):
        printed = run(python, RESIZE.replace("STEPS", f"[{steps}]"), tmp_path)
    assert printed == "0"


def test_tables_are_made_once_for_all_threads(python: Forks, tmp_path: Path) -> None:
    """Native code keeps their addresses: the first files of a process that several threads restored were damaged."""
    files = [gi.recode_jpeg(jpeg(k)) for k in range(4)]
    code = f"""
from concurrent.futures import ThreadPoolExecutor
import gpuimg
with ThreadPoolExecutor(4) as pool:
    print([len(one) for one in pool.map(gpuimg.restore_jpeg, {files})])
"""
    assert run(python, code, tmp_path) == str([len(jpeg(k)) for k in range(4)])
    barrier = threading.Barrier(4)
    made = kept(lambda k: [k, barrier.wait(60)])
    with ThreadPoolExecutor(4) as pool:
        assert len({id(one) for one in [*pool.map(made, [7] * 4), made(7)]}) == 1


@pytest.mark.parametrize("thread", FORKS)
def test_a_child_does_not_wait_for_a_thread_that_it_lacks(thread: str, python: Forks, tmp_path: Path) -> None:
    code = f"{FORKED}\n{FORKS[thread]}\nprint(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    done = python.run(code, NUMBA_CACHE_DIR=str(tmp_path))
    assert done.stdout.splitlines()[-1:] == ["7"], done.stderr  # which has a warning of forks since Python 3.12


def test_fingerprint_covers_arrays() -> None:
    """Whose text NumPy shortens: to its ends, and to eight digits."""
    long, fine = np.arange(2000), np.full(3, 0.1)
    other, finer = long.copy(), fine + 1e-10
    other[1000] = 7
    arrays = [long, other, long.astype(np.uint64), long.reshape(2, 1000), fine, finer, fine.reshape(3, 1)]
    assert len({fingerprint(one) for one in arrays}) == len(arrays)
    assert fingerprint(long) == fingerprint(long.copy())


def test_changed_formula_concerns_its_loops_only() -> None:
    from gpuimg.kernels import color

    functions = [*ROW_FUNCTIONS.values(), *GRID_FUNCTIONS.values()]
    before = {function.name: fingerprint(function.function) for function in functions}
    function = color.posterize.py_func
    old = function.__code__
    try:
        function.__code__ = old.replace(co_consts=(*old.co_consts, 0.125))
        after = {function.name: fingerprint(function.function) for function in functions}
    finally:
        function.__code__ = old
    assert {name for name in before if before[name] != after[name]} == {"row_posterize"}


def test_next_process_reads_what_was_compiled(python: Forks, tmp_path: Path) -> None:
    assert int(run(python, BATCH, tmp_path).removeprefix("150 150 ")) > 0
    assert run(python, BATCH, tmp_path) == "150 150 0"


@pytest.fixture(scope="module")
def drawn(python: Forks, tmp_path_factory: pytest.TempPathFactory) -> Drawn:
    """Return the result of a small function, and its cache file's name and content."""
    folder = tmp_path_factory.mktemp("drawn")
    number = run(python, DRAW, folder)
    (path,) = folder.rglob("*.kernel")
    return number, path.name, path.read_bytes()


OTHER = pickle.dumps(("not", "machine", "code"))
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda content: content[: len(content) // 2],
    "one bit": lambda content: content[:-100] + bytes([content[-100] ^ 1]) + content[-99:],
    "empty": lambda content: b"",
    "another make": lambda content: hashlib.sha256(OTHER).digest() + OTHER,  # whose checksum is right
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_made_again(damage: str, python: Forks, drawn: Drawn, tmp_path: Path) -> None:
    number, name, content = drawn
    path = tmp_path / "gpuimg" / name
    path.parent.mkdir()
    path.write_bytes(DAMAGES[damage](content))
    assert run(python, DRAW, tmp_path) == number
    assert hashlib.sha256(path.read_bytes()[32:]).digest() == path.read_bytes()[:32]
    made = path.stat().st_mtime_ns
    assert run(python, DRAW, tmp_path) == number
    assert path.stat().st_mtime_ns == made


NOWHERE = """
import tempfile, warnings
def refuse(*given, **options):
    raise PermissionError(13, "read-only file system")
tempfile.TemporaryFile = refuse  # what a root user would be allowed all the same
warnings.simplefilter("{}", RuntimeWarning)
"""


def test_where_nothing_can_be_written(python: Forks, drawn: Drawn, tmp_path: Path) -> None:
    """Kernels are compiled each time, except for those that are there, as in an image that was warmed."""
    number, name, content = drawn
    said = run(python, NOWHERE.format("always") + DRAW, tmp_path)
    assert said.startswith(number)
    assert said.count("every process compiles the kernels again") == 1
    assert "set NUMBA_CACHE_DIR to a folder that belongs to you and that nobody else can write to" in said
    (tmp_path / "gpuimg").mkdir(exist_ok=True)
    (tmp_path / "gpuimg" / name).write_bytes(content)
    assert run(python, NOWHERE.format("error") + DRAW, tmp_path) == number


NAME = "some-types-print.kernel"
NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with one file in it, kept by this process under a umask that lets the group write."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "requested"))
    disk.folder.cache_clear()
    before = os.umask(0o002)
    try:
        disk.store(NAME, b"content")
        assert disk.read(NAME, bytes) == b"content"
        yield tmp_path / "requested" / "gpuimg"
    finally:
        os.umask(before)
        disk.folder.cache_clear()


def test_files_that_others_can_write(place: Path) -> None:
    """Folders are closed, as earlier versions made them for the group; files are not read."""
    assert [path.stat().st_mode & 0o777 for path in (place, place / NAME)] == [0o755, 0o644]
    for bits in (0o775, 0o757):
        place.chmod(bits)
        disk.folder.cache_clear()
        assert disk.read(NAME, bytes) == b"content"
        assert place.stat().st_mode & 0o777 == 0o755
    for bits in (0o664, 0o646):
        (place / NAME).chmod(bits)
        assert disk.read(NAME, bytes) is None
        disk.store(NAME, b"content")
        assert disk.read(NAME, bytes) == b"content"


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("other"), os.mkfifo, Path.mkdir])
def test_only_plain_files_are_read(place: Path, make: Callable[[Path], None]) -> None:
    (place / NAME).rename(place / "other")
    make(place / NAME)
    assert disk.read(NAME, bytes) is None


@needs_root
@pytest.mark.parametrize("what", ["file", "folder", "target of a link", "writable by others"])
def test_nothing_of_another_user_is_read(place: Path, tmp_path: Path, what: str) -> None:
    """Nor written to, and a warning says what to do."""
    target = place
    if what == "target of a link":
        target = place.rename(tmp_path / "elsewhere")
        place.symlink_to(target)
    if what == "writable by others":
        target.chmod(0o777)
    if what == "file":
        os.chown(target / NAME, NOBODY, NOBODY)
    if what != "file":
        os.chown(target, NOBODY, NOBODY)
    assert disk.read(NAME, bytes) is None
    disk.folder.cache_clear()
    if what == "file":
        disk.store(NAME, b"another")
        assert disk.read(NAME, bytes) == b"another"
        return
    with pytest.warns(RuntimeWarning, match="or other users can write there too"):
        disk.store("new", b"another")
    assert [path.name for path in target.iterdir()] == [NAME]
    assert target.stat().st_uid == NOBODY


@needs_root
def test_kernels_of_the_codes_owner_are_read(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container image that another user has made; who owns the code that runs could change it anyway."""
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    assert disk.read(NAME, bytes) == b"content"
    for path in (place, place / NAME):
        os.chown(path, NOBODY, NOBODY)
    assert disk.read(NAME, bytes) is None
    code = place.parent / "compiled.py"
    code.touch()
    os.chown(code, NOBODY, NOBODY)
    monkeypatch.setattr(disk, "__file__", str(code))
    assert disk.read(NAME, bytes) == b"content"


def test_the_requested_folder_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert disk.folder.__wrapped__() == tmp_path / "gpuimg"
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    assert disk.folder.__wrapped__() == ROOT / "kernels" / "__pycache__"
    monkeypatch.setattr(disk, "_package_folder", lambda: Path("/dev/null/no"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    assert disk.folder.__wrapped__() == tmp_path / "home" / "gpuimg"


TABLE = np.ones(3, np.float32)
HALF = np.float32(0.5)


@numba.njit
def halved(x: Any) -> Any:
    return x * HALF


CACHEABLE: dict[str, tuple[Callable[..., Any], bool]] = {
    "constants": (lambda x: x * HALF + 1.0, True), "math and numpy": (lambda x: np.float32(np.exp(x)) + abs(x), True),
    "another compiled function": (lambda x: halved(x), True), "an array": (lambda x: x * TABLE[0], False),
    "another module": (lambda x: os.getpid(), False), "a plain function": (lambda x: loop_of(x), False),
    "a default": (lambda x, factor=2.0: x * factor, True),
    "an array as default": (lambda x, table=TABLE: x * table[1], False),
}  # fmt: skip


@pytest.mark.parametrize("name", CACHEABLE)
def test_functions_of_known_content_are_cached(name: str) -> None:
    function, expected = CACHEABLE[name]
    assert compiled.is_cacheable(numba.njit(function)) is expected
    assert not compiled.is_cacheable(function)  # not compiled by Numba


def test_a_loop_takes_no_other_types_than_it_declares() -> None:
    loop = compiled.cached_jit("none(float32[::1])")(loop_of(2.0))
    with pytest.raises(TypeError, match=r"loop takes array\(float32, 1d, C\), not array\(float64, 1d, C\)"):
        loop(np.ones(3))


@pytest.mark.slow
def test_loops_are_compiled_by_several_processes(python: Forks, tmp_path: Path) -> None:
    code = """
import os
os.sched_getaffinity = lambda process: {0, 1}
from gpuimg.kernels import compiled, gray, philox
from gpuimg.kernels.cpu import elastic, run
wanted = ["gray.gray_bytes", "gray.gray_words", "philox.shuffle", "philox.philox_words", "unknown", "lay_taps"]
begun = []
popen = compiled.subprocess.Popen
compiled.subprocess.Popen = lambda *given, **options: begun.append(given) or popen(*given, **options)
compiled.compile_together(wanted)
known = compiled._by_name()
print(len(begun), all(known[name].is_cached() for name in wanted if name in known))
compiled.compile_together(wanted)
print(len(begun), compiled.NativeFunction.compile_count)
"""
    assert run(python, code, tmp_path).split() == ["2", "True", "2", "1"]


def test_older_files_and_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "_package_folder", lambda: tmp_path)
    monkeypatch.setattr(disk, "_places", lambda: [tmp_path])
    monkeypatch.setattr(disk, "folder", lambda: tmp_path)

    def stored(constant: float) -> list[str]:
        values = np.ones(3, np.float32)
        compiled.cached_jit("none(float32[::1])")(loop_of(constant))(values)
        assert values.tolist() == [constant**2] * 3
        return [path.name for path in tmp_path.iterdir()]

    (one,), (other,) = stored(2.0), stored(3.0)
    assert one != other

    def full(*given: Any, **options: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkstemp", full)
    assert stored(1.5) == []


def summed() -> Any:
    """Return a function ``(values, weights, out)``: sums of pairs, and bytes of four vectors of int32."""

    @emitted(types.none, *[None] * 5)
    def both(builder: Any, values: Any, weights: Any, sums: Any, numbers: Any, out: Any) -> None:
        pair = (load(builder, one.at(I64(0), 32), vector(I16, 32)) for one in (values, weights))
        store(builder, products.sums_of_pairs(values.context, builder, *pair), sums.at(I64(0), 16))
        quarters = [load(builder, numbers.at(I64(16 * k), 16), vector(I32, 16)) for k in range(4)]
        store(builder, products.bytes_of(values.context, builder, quarters), out.at(I64(0), 64))

    @numba.njit
    def call(values: Any, weights: Any, sums: Any, numbers: Any, out: Any) -> None:
        both(values, weights, sums, numbers, out)

    return call


@pytest.mark.parametrize("most", [0, 128, 256, 512])
def test_every_instruction_gives_the_same(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Of each kind that the processor has, and without any."""
    every = products._instructions

    def some(context: Any, bits: int) -> Any:
        return every(context, min(bits, most))

    monkeypatch.setattr(products, "_instructions", some)
    call = summed()
    rng = np.random.default_rng(most)
    for _ in range(20):
        values = rng.integers(0, 256, 32).astype(np.int16)
        weights = rng.integers(-(2**15) + 1, 2**15, 32).astype(np.int16)
        numbers = rng.integers(-600, 900, 64).astype(np.int32)
        sums, out = np.zeros(16, np.int32), np.zeros(64, np.uint8)
        call(values, weights, sums, numbers, out)
        product = values.astype(np.int64) * weights
        assert np.array_equal(sums, product[::2] + product[1::2])
        quarters = np.clip(numbers, 0, 255).astype(np.uint8).reshape(4, 4, 4)  # vector, lane, number
        assert np.array_equal(out, quarters.transpose(1, 0, 2).reshape(-1))
