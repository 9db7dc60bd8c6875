"""The file of compiled kernels: what it holds, which part a GPU gets, and what is refused."""

import json
import lzma
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError
from itertools import cycle, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from gpuimg._cli import info
from gpuimg._decoding import nvimgcodec
from gpuimg._runtimes import devices, probe
from gpuimg.kernels import cuda as kernels
from gpuimg.kernels import disk, native, ops
from gpuimg.kernels.cuda import kernel as kernel_module
from gpuimg.kernels.cuda import shipped
from gpuimg.kernels.layout import FLOAT32, RESULTS, SCALES
from tests.fakecuda import installed
from tests.libraries import library, needs
from tests.operations.calls import CALLS
from tests.processes import python

needs("numba_cuda")

from buildtools import cuda as build
from gpuimg.kernels.cuda import compiler

from . import variants

CAPABILITIES = (8, 0), (9, 0)
#: Bytes that nvJitLink 13.5 spills; 12.9, which builds wheels, spills nothing.
SPILLED = {("recoded", (8, 0)): 88} | {
    (f"transform_{source}_{kind}_full", capability): size
    for source, kind in product(("uint8", "float32"), ("uint8", "float16", "bfloat16", "float32"))
    for capability, size in (((8, 0), 8), ((9, 0), 16))
}
FEW = kernels.MARKS["mark"], kernels.MARKS["compare"], kernels.MIX


def written(path: Path, some: Any, capabilities: Any = CAPABILITIES) -> Path:
    """A file of some kernels, as a build writes it."""
    build.write(path, {kernel.name: variants.ptx_of(kernel) for kernel in some}, capabilities)
    return path


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file of three kernels for two architectures."""
    return written(tmp_path_factory.mktemp("kernels") / "cuda.xz", FEW).read_bytes()


def opened(content: bytes) -> shipped.Shipped:
    return shipped.Shipped(content, native.source_digest())


@pytest.fixture
def use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes], None]]:
    """Let the package find some content as its file."""
    monkeypatch.setattr(shipped, "FILE", tmp_path / "cuda.xz")
    monkeypatch.delenv("GPUIMG_NATIVE", raising=False)

    def clear() -> None:
        for cached in (shipped.shipped_file, variants.ptx_of, variants._shipped_ptx, probe.gpu_problem):
            cached.cache_clear()

    def put(content: bytes) -> None:
        shipped.FILE.write_bytes(content)
        clear()

    clear()
    yield put
    clear()


# -- what is in it -----------------------------------------------------------------------------------------------------


def test_what_functions_and_presets_launch_is_built() -> None:
    built = {kernel.name for kernel in kernels.every_kernel()}
    kinds = cycle(RESULTS.values())
    with installed() as gpu:
        random = np.random.default_rng()
        for name in sorted(set(CALLS) - {"pointwise"}):
            for dtype in SCALES:
                images = [(random.random((9, 11, 3)) * (255 if dtype == "uint8" else 1)).astype(dtype)] * 3
                each = CALLS[name].each(random, 3, 255.0 if dtype == "uint8" else 1.0)
                on_gpu = [gpu.cupy.asarray(one) for one in images]
                kind = next(kinds)
                CALLS[name].run(on_gpu, each).compute("float32" if name == "normalize" else kind)
        launched = set(gpu.driver.kernels)
    assert launched <= built
    assert len(launched) > 15  # none of those of JPEGs, videos and marks


def test_a_built_file_is_whole() -> None:
    """The one in ``kernels/_lib``, where a build left it."""
    if not shipped.FILE.exists():
        pytest.skip("nothing was built: python -m buildtools --cuda")
    file = opened(shipped.FILE.read_bytes())
    assert sorted(file.kernels) == [kernel.name for kernel in kernels.every_kernel()]
    assert [one.capability for one in file.images] == [*build.CAPABILITIES, (7, 5)]
    for capability in [*build.CAPABILITIES, (11, 0)]:
        for kernel in kernels.every_kernel():
            entry, code = file.image(kernel, capability) or ("", b"")
            assert entry.encode() in code
            assert code.startswith(b"\x7fELF") == (capability != (11, 0))


@pytest.mark.slow
@pytest.mark.parametrize("kernel", variants.parameters(kernels.every_kernel()))
def test_what_ships_is_what_the_runtime_compiles(kernel: kernels.Kernel) -> None:
    """So what is shown of one holds for the other, and for the architectures that this one's text is assembled for.

    In "huffman" two sums are in another order, which depends on that of functions in Numba's memory.
    """
    ours = variants.ptx_of(kernel)
    for capability in ((8, 0), (9, 0)):
        theirs = variants.runtimes_ptx(kernel, capability)
        if kernel.name == "huffman":
            assert abs(_unnamed(ours).count(";") - _unnamed(theirs).count(";")) <= 4
        else:
            assert _unnamed(ours) == _unnamed(theirs)


def _unnamed(text: str) -> str:
    """PTX for no architecture, with its names numbered, and without variables that nothing refers to."""
    names: dict[str, str] = {}
    text = re.sub(r"(?m)^\.target .*$|^\.common .*NumbaEnv.*\n", "", text)
    return re.sub(
        r"\b(?:_ZN|_cudapy_|gpuimg_)\w+|\bname\d+\b", lambda found: names.setdefault(found[0], f"n{len(names)}"), text
    ).strip()


@pytest.mark.slow
def test_builds_are_equal() -> None:
    """Whatever was compiled before, and whatever Python's order of sets."""
    code = (
        "import sys; from buildtools.cuda import ptx_of; from gpuimg.kernels import cuda\n"
        "order = int(sys.argv[1]); some = [cuda.JPEG['huffman'], cuda.ELASTIC['uint8'], cuda.MIX][::order]\n"
        "print(*[ptx_of(kernel) for kernel in some][::order])"
    )
    one, other = (
        python("-c", code, o, PYTHONHASHSEED=seed, GPUIMG_NATIVE="jit") for o, seed in (("1", "1"), ("-1", "2"))
    )
    assert one == other


@pytest.mark.parametrize("capability", [(7, 5), *CAPABILITIES], ids=str)
@pytest.mark.parametrize("kernel", variants.parameters([*kernels.every_kernel(), *variants.USERS]))
def test_machine_code_fits_into_registers(kernel: Any, capability: tuple[int, int]) -> None:
    """Single precision only, nothing spilled, and as few registers as many blocks at a time need."""
    ptx = variants.ptx_of(kernel, capability)
    assert ".f64" not in ptx
    assert ".local" not in ptx
    assert ".target sm_{}{}".format(*capability) in ptx
    said = compiler.assembled(ptx, capability)[1]
    ((registers, stack),) = re.findall(r"used (\d+) registers, .*?(\d+) stack", said)
    assert int(stack) <= (SPILLED.get((kernel.name, capability), 0) if compiler.toolkit() > 12 else 0)
    # GPUs of capability 7.5 have room for 4 blocks of 256 threads. Of blocks of statistics, 1,024 threads, one runs at
    # a time; of those of "code_blocks", 64 threads, 16, and of those of "elastic" and "change", 256 threads, 4.
    module = kernel.code.module
    few = (
        capability < (8, 0)
        or ops.MOVING in kernel.code.arguments
        or kernel.code.name in ("code_blocks", "elastic", "change")
    )
    most = 64 if few or module == "statistics" else 48
    if kernel.name == "recoded":  # blocks of 32 threads: 24 run at a time, of capability 7.5 16
        most = 80 if capability >= (8, 0) else 128
    assert int(registers) <= most
    if module.startswith("jpeg"):
        assert ".f32" not in ptx
        assert not re.search(r"(div|rem)\.[su]64", ptx)  # take a hundred instructions
    # Machine code compares and swaps in a loop until it has added 64 bits: of the sum of a warp, and nothing else.
    assert ptx.count("atom.shared.add.u64") == (module == "statistics")


# -- which part a GPU gets ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capability", "found"),
    [((8, 0), "8.0"), ((8, 7), "8.0"), ((9, 0), "9.0"), ((9, 5), "9.0"), ((7, 5), "PTX"), ((11, 0), "PTX"),
     ((13, 1), "PTX"), ((7, 0), None)],
)  # fmt: skip
def test_a_gpu_gets_the_newest_code_that_it_can_run(content: bytes, capability: Any, found: str | None) -> None:
    file = opened(content)
    number, image = file.best(capability), file.image(kernels.MIX, capability)
    if number is None or image is None:
        assert number is image is found
        return
    entry, code = image
    assert (entry, file.images[number].kind) == ("gpuimg_mix", shipped.PTX if found == "PTX" else shipped.CUBIN)
    if found == "PTX":
        assert b".target sm_75\n" in code
        assert code.endswith(b"}\n\0")
    else:
        own = (int(str(found)[0]), 0)
        assert code == compiler.assembled(variants.ptx_of(kernels.MIX, own), own)[0].code


LAUNCH = """
import sys

class Forbidden:
    def find_spec(self, name, *_):
        if name.startswith(("numba_cuda", "numba.cuda", "cuda.bindings", "cuda.core")):
            raise ImportError(f"{name} is forbidden")

sys.meta_path.insert(0, Forbidden())
from pathlib import Path
import numpy as np
from gpuimg.kernels.cuda import Image, Kernel, shipped
shipped.FILE = Path(sys.argv[1])
import gpuimg as gi
from tests.fakecuda import installed
real, codes = Kernel.images, []
with installed() as gpu:
    def made(kernel, capability, driver):
        codes.append(next(real(kernel, capability, driver)).code)
        return [gpu.driver.image(kernel, capability)]
    Kernel.images = made
    images = [gpu.cupy.asarray(np.zeros((5, 7, 3), np.uint8))] * 2
    small = gi.resize(images, (3, 4))
    gi.blend(gi.normalize(gi.adjust_contrast(small, 0.5), 0.5, 0.5), small, 0.5).array()
assert not gpu.problems
print([code[:4] for code in codes])
"""


@pytest.mark.slow
def test_launches_need_no_compiler(tmp_path: Path) -> None:
    """Neither numba-cuda nor NVIDIA's libraries, whose import is forbidden."""
    transform = kernels.transform_kernel((), "uint8", FLOAT32, "")
    path = written(tmp_path / "cuda.xz", (transform, kernels.statistics_kernel((), "uint8", ""), kernels.MIX))
    assert python("-c", LAUNCH, path, GPUIMG_NATIVE=None).count("b'\\x7fELF'") == 3


# -- what is refused ---------------------------------------------------------------------------------------------------


def reads(content: bytes) -> list[dict[str, bytes]]:
    file = opened(content)
    return [file.code(number) for number in range(len(file.images))]


def test_damage_is_noticed(content: bytes) -> None:
    """Or changes nothing."""
    good, random = reads(content), np.random.default_rng()
    for size in [0, 1, 5, *range(6, len(content), 397), len(content) - 1]:
        with pytest.raises(shipped.RefusedError):
            reads(content[:size])
    with pytest.raises(shipped.RefusedError, match="longer"):
        reads(content + b"\0")
    for at in random.integers(0, len(content), 100).tolist():
        changed = bytearray(content)
        changed[at] ^= 1 << random.integers(8)
        with suppress(shipped.RefusedError):
            assert reads(bytes(changed)) == good


def forged(content: bytes, change: Callable[[Any], None]) -> bytes:
    """The same file with another manifest."""
    stream = lzma.LZMADecompressor()
    manifest = json.loads(stream.decompress(content))
    change(manifest)
    return lzma.compress(json.dumps(manifest).encode()) + stream.unused_data


def test_a_kernel_with_other_arguments_is_refused(content: bytes) -> None:
    file = opened(forged(content, lambda m: m["kernels"]["mix"].update(block=64)))
    with pytest.raises(shipped.RefusedError, match="kernel mix has other arguments or blocks"):
        file.image(kernels.MIX, (9, 0))
    assert file.image(kernels.MARKS["mark"], (9, 0)) is not None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (None, "this installation has none"),
        (lambda content: content[:-9], "it is cut off"),
        (lambda content: forged(content, lambda m: m.update(sources="")), "it was built from other sources than these"),
        (lambda content: content[:-99] + b"\0" + content[-98:], "its ptx for 7.5 is damaged"),
    ],
)
def test_without_a_file_kernels_are_compiled(
    content: bytes,
    use: Callable[[bytes], None],
    kernel_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    reason: str,
    change: Any,
) -> None:
    """And where nothing compiles and nothing is cached, the error has the reason and what to install."""
    if change is not None:
        use(change(content))
    assert reason in info.facts()["cuda_kernels"]
    capability = (7, 5)  # whose code is PTX
    assert reason in (shipped.lack(capability) or "")
    assert kernels.MARKS["mark"].image(capability).code.startswith(b"\x7fELF")
    monkeypatch.delattr(kernels, "compiler", raising=False)
    monkeypatch.setitem(sys.modules, "gpuimg.kernels.cuda.compiler", None)
    assert kernels.MARKS["mark"].image(capability).code.startswith(b"\x7fELF")
    monkeypatch.setattr(kernel_module, "_images", {})
    monkeypatch.setattr(disk, "read", lambda name, rebuild: None)
    monkeypatch.setattr(kernel_module, "version", refuse_version)
    with pytest.raises(ImportError, match=rf"kernel mark .*{re.escape(reason)}.*, numba-cuda is needed, and not ins"):
        kernels.MARKS["mark"].image(capability)


def test_the_variable_leaves_the_file_out(
    content: bytes, use: Callable[[bytes], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    use(content)
    assert info.facts()["cuda_kernels"] == "machine code for 8.0, 9.0, PTX for 7.5 and later"
    assert shipped.shipped_image(kernels.MIX, (9, 0)) is not None
    monkeypatch.setenv("GPUIMG_NATIVE", "jit")
    shipped.shipped_file.cache_clear()
    assert shipped.shipped_image(kernels.MIX, (9, 0)) is None
    assert info.facts()["cuda_kernels"] == "not used: GPUIMG_NATIVE is jit"


def refuse_version(package: str) -> str:
    raise PackageNotFoundError(package)


def test_a_gpu_is_used_without_a_compiler_where_its_kernels_are_there(
    content: bytes, use: Callable[[bytes], None], kernel_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gpuimg.kernels.cuda.compiler", None)
    monkeypatch.setattr(kernel_module, "version", refuse_version)
    monkeypatch.setattr(probe, "capabilities", lambda: [(9, 0)])
    problem = probe._kernel_problem(0)
    assert problem is not None
    assert problem.gpu_present
    assert "this installation has none" in problem.reason
    assert 'numba-cuda is needed, and not installed; pip install numba "numba-cuda[cu1' in problem.reason
    use(content)
    assert probe._kernel_problem(0) is None
    monkeypatch.setattr(probe, "capabilities", lambda: [(7, 0), (9, 0)])
    assert probe._kernel_problem(1) is None  # an old GPU beside it
    problem = probe._kernel_problem(0)
    assert problem is not None
    assert "none are for compute capability 7.0" in problem.reason
    cached = {kernel.file_name((7, 0), 12) for kernel in kernels.every_kernel()}
    monkeypatch.setattr(disk, "has", cached.__contains__)
    assert probe._kernel_problem(0) is None
    cached.pop()
    assert probe._kernel_problem(0) is not None


def test_whatever_fails_is_a_reason(kernel_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = "AttributeError: module 'numpy' has no attribute 'row_stack'"

    def fail(*_: object) -> None:
        raise AttributeError(words.partition(": ")[2])

    monkeypatch.setattr(probe, "capabilities", lambda: [(9, 0)])
    monkeypatch.setattr(shipped, "lack", lambda _: "none is here")
    monkeypatch.setattr(kernels, "load_compiler", fail)
    monkeypatch.setattr(probe, "gpu_problem", lambda _=0: probe._kernel_problem(0))
    with pytest.raises(RuntimeError, match=words):
        devices.runtime_for("cuda")
    with pytest.warns(UserWarning, match=f"runs on the CPU: CUDA kernels must be compiled .none is here.: {words}"):
        assert devices.default_device.__wrapped__() == "cpu"
    assert words in info.facts()["default"]["reason"]
    monkeypatch.setattr(probe, "gpu_problem", lambda _=0: None)
    monkeypatch.setattr(nvimgcodec, "import_module", fail)
    monkeypatch.setattr(library("cuda.pathfinder"), "load_nvidia_dynamic_lib", fail)
    nvimgcodec.library.cache_clear()
    found = info.facts()
    assert f"nvImageCodec does not work here: {words}" in found["decoders"]["JPEG on a GPU"]
    assert any("NVRTC" in line for line in found["missing"])


WITHOUT_A_FUNCTION = """
import numpy
vars(numpy).pop("row_stack", None)  # NumPy 2.5 has it no more
from gpuimg._decoding import nvimgcodec
from gpuimg._runtimes import devices, probe
probe.capabilities = lambda: [(9, 0)]
for _ in range(2):
    print(probe._kernel_problem(0).reason)
"""


def test_a_compiler_that_cannot_be_imported_says_why(tmp_path: Path) -> None:
    said = python("-c", WITHOUT_A_FUNCTION, NUMBA_CACHE_DIR=str(tmp_path)).splitlines()
    words = r"CUDA kernels must be compiled .*: numba-cuda \S+ does not work here, with NumPy \S+: AttributeError: "
    assert [bool(re.match(words, line)) for line in said] == [True, True]
    assert said[0].endswith('; pip install numba "numba-cuda[cu12]" "numpy<2.5"')


def test_a_function_of_a_user_needs_the_compiler(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gpuimg.kernels.cuda.compiler", None)
    monkeypatch.delattr(kernels, "compiler", raising=False)
    images = [gpu.cupy.asarray(np.zeros((3, 4, 3), np.uint8))]
    reason = "it calls functions of yours; to compile it, numba-cuda .* does not work here, .*ModuleNotFoundError"
    with pytest.raises(ImportError, match=rf'{reason}.*; pip install numba "numba-cuda\[cu1[23]\]"'):
        gi.pointwise(images, variants.dim, 0.5).array()
