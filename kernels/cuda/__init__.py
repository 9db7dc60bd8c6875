"""The CUDA runtime's kernels: one thread a pixel of the result, every image of the batch in one launch.

Here is what launching them takes. Their device code, in the modules named here, finds its pixel, walks the taps and the
program, and stores; every formula is a scalar function the CPU's loops call too. It alone imports ``numba.cuda``, and
is imported where a kernel is compiled: those that a wheel holds as machine code need neither (see :mod:`.shipped`).
"""

from functools import lru_cache
from typing import Any

from ..jpeg.upload import BLOCKS_AT_ONCE, LANES, PARTS, QUADS_AT_ONCE, THREADS, WARP
from ..layout import EXTREMES as EXTREMES
from ..layout import MARK_BYTES as MARK_BYTES
from ..layout import RESULTS, SCALES, WRITTEN
from ..ops import FULL, MOVING, PLAIN
from . import artefact_records, elastic_records
from .kernel import DeviceCode as DeviceCode
from .kernel import Image as Image
from .kernel import Kernel as Kernel
from .kernel import load_compiler as load_compiler

# Threads per block, one pixel each. Statistics use the largest block, so that few blocks add to an image's sums.
# With five blocks per multiprocessor a thread has 48 registers, and more threads hide the latency of pixel reads;
# motion blur needs a few more registers.
BLOCK = 256
_BLOCKS = {PLAIN: 5, FULL: 5, MOVING: 4}
STATISTICS_BLOCK = 1024
_ELASTIC_BLOCKS = 4  # at a time: a thread has 64 registers, for the random numbers of a node
_AREA_BLOCKS = 4  # at a time: a thread has 64 registers
_FIND_BLOCKS = 5  # at a time
_RECODED_BLOCKS = 24  # at a time, of one warp: a thread has 80 registers
_MARK_BLOCK = 128


# Types of arguments: those with brackets are flat arrays.
_FORM = *["int32"] * 4, "int64", "int64", *["int32"] * 3, "int64"  # one of the forms, and a PatchLayout
_COMMON = "int32", "float32", "int32[]", "float32[]", "float32[]", "int32", "float32[]", "int32"

MIX = Kernel("mix", DeviceCode("transform", "mix"), (
    "float32[]", "float32[]", "int32[]", "int32", "int32[]", "float32[]", "int64[]", "int64[]", "int32[]", "float32[]"
), BLOCK)  # fmt: skip


def _by_name(*kernels: Kernel) -> dict[str, Kernel]:
    return {kernel.name: kernel for kernel in kernels}


def _of_sources(name: str, module: str, arguments: tuple[str, ...], block: int, blocks: int = 1) -> dict[str, Kernel]:
    """A kernel for each dtype of its source."""
    code = DeviceCode(module, name)
    return {source: Kernel(f"{name}_{source}", code, (f"{source}[]", *arguments), block, blocks) for source in SCALES}


JPEG = _by_name(
    Kernel("find", DeviceCode("jpeg_find", "find"), ("int32[]", "int32", "int32[]"), PARTS, _FIND_BLOCKS),
    Kernel(
        "recoded", DeviceCode("jpeg_recoded", "recoded"),
        ("int32[]", "int32", "uint16[]", "uint8[]", "int16[]", "int32[]"), WARP,
        _RECODED_BLOCKS,
    ),
    Kernel("huffman", DeviceCode("jpeg_huffman", "huffman"), ("int32[]", "int32", "int16[]", "int32[]"), THREADS),
    Kernel(
        "inverse_dct", DeviceCode("jpeg_pixels", "inverse_dct"), ("int32[]", "int32", "int16[]", "int32[]"),
        LANES * BLOCKS_AT_ONCE,
    ),
    Kernel(
        "reduced_dct", DeviceCode("jpeg_reduced", "reduced_dct"), ("int32[]", "int32", "int16[]", "uint8[]"),
        LANES * BLOCKS_AT_ONCE,
    ),
    Kernel(
        "colors", DeviceCode("jpeg_pixels", "colors"), ("int32[]", "int32", "uint8[]", "int32", "uint8[]"),
        QUADS_AT_ONCE,
    ),
)  # fmt: skip

_MARK = "uint8[]", "int64[]", "uint64", "uint64"
MARKS = _by_name(
    Kernel("mark", DeviceCode("marks", "mark"), _MARK, _MARK_BLOCK),
    Kernel("compare", DeviceCode("marks", "compare"), (*_MARK, "int32[]"), _MARK_BLOCK),
)

_PREPASS = "int32", "float32", "int32[]"
ARTEFACTS = {
    "code_blocks": _of_sources("code_blocks", "artefacts", (*_PREPASS, "uint8[]"), artefact_records.THREADS),
    "code_pixels": _of_sources(
        "code_pixels", "artefacts", (*_PREPASS, "uint8[]", "float32[]"), artefact_records.PIXELS
    ),
}
ELASTIC = _of_sources(
    "elastic", "elastic", (*_PREPASS, "float32[]", "float32[]"), elastic_records.BLOCK, _ELASTIC_BLOCKS
)
AREAS = {
    "lay_tables": _of_sources("lay_tables", "areas", (*_PREPASS, "uint8[]"), BLOCK),
    "change": _of_sources(
        "change",
        "areas",
        (*_PREPASS, "float32[]", "float32[]", "uint8[]", "float32[]", "int32", "int32"),
        BLOCK,
        _AREA_BLOCKS,
    ),
}


EXACT = Kernel("exact_pass", DeviceCode("exact", "exact_pass"), (
    "uint8[]", "int32", "int32[]", "int32", "uint8[]"
), BLOCK)  # fmt: skip


def _frame(name: str, sample: str) -> Kernel:
    arguments = sample, sample, *["int32"] * 6, *["float32"] * 18, "int32", *["int64"] * 3, "uint8[]"
    return Kernel(name, DeviceCode("yuv", "frame"), arguments, BLOCK)


FRAMES = _by_name(_frame("frame8", "uint8[]"), _frame("frame16", "uint16[]"))


@lru_cache(maxsize=256)
def transform_kernel(functions: tuple[Any, ...], source: str, kind: int, build: str) -> Kernel:
    """The kernel that samples, runs the program and stores, for a source dtype and a kind of result."""
    name = _name("transform", functions, source, RESULTS[kind], build)
    arguments = f"{source}[]", *_COMMON, f"{WRITTEN[kind].name}[]", "int32", *_FORM
    code = DeviceCode("transform", "make_transform", (functions, kind, build))
    return Kernel(name, code, arguments, BLOCK, _BLOCKS[build], users=functions)


@lru_cache(maxsize=256)
def statistics_kernel(functions: tuple[Any, ...], source: str, build: str) -> Kernel:
    """The kernel that measures whole images of a source dtype."""
    name = _name("statistics", functions, source, build)
    arguments = f"{source}[]", *_COMMON, "int32", "int64[]", "int32[]", "int32[]", "int32[]"
    code = DeviceCode("statistics", "make_statistics", (functions, build))
    return Kernel(name, code, arguments, STATISTICS_BLOCK, users=functions)


def _name(kernel: str, functions: tuple[Any, ...], *variant: str) -> str:
    return "_".join(part for part in (kernel, *variant, "user" if functions else "") if part)


def every_kernel() -> list[Kernel]:
    """All kernels that need no function of the users', by name: in one order, whatever was used before."""
    variants = [statistics_kernel((), source, build) for source in SCALES for build in _BLOCKS]
    variants += [
        transform_kernel((), source, kind, build) for source in SCALES for build in _BLOCKS for kind in RESULTS
    ]
    return sorted({*Kernel.all, *variants}, key=lambda kernel: kernel.name)
