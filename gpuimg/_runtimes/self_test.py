"""The self-test of a GPU: at its first use, results of its kernels are compared with the CPU's.

No kernel of ours is trusted before that on a GPU that nobody has seen. The proof that the results agree is stored for
the GPU, its driver and the sources of the kernels.
"""

import io
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image

from .._data.images import EncodedImages, offsets_of
from .._decoding.jpeg import read_headers
from .._decoding.options import GPUIMG, DecodeOptions
from .._decoding.recoded import recode_jpeg
from .._plan.plan import Plan
from ..kernels import disk, exact, layout, ops
from . import planes, probe
from .attempt import delivered
from .cpu import CpuRuntime
from .protocol import Outcome, Runtime, UnusableDeviceError

_SIDE, _SIZE = 32, (20, 24)
_SAMPLINGS = {"4:4:4": 0, "4:2:2": 1, "4:2:0": 2}  # by Pillow's numbers


def _turned(plan: Plan) -> Plan:
    """Turn images by some 20 degrees, on black."""
    plan, here = plan.with_origin()
    plan = plan.with_paint((0, 0, *_SIZE[::-1]), np.zeros((1, 3)), here, inside=False, where=None)
    matrix = np.array([[0.94, 0.34, -2.7], [-0.34, 0.94, 4.7], [0.0, 0.0, 1.0]])
    return plan.transformed(np.tile(matrix, (len(plan), 1, 1)), plan.sizes)


def _resized(plan: Plan) -> Plan:
    return plan.resized(np.tile(_SIZE, (len(plan), 1)), np.full(len(plan), layout.LINEAR), antialias=True)


def _resized_exactly(plan: Plan) -> list[Plan]:
    plan = plan.resized_exactly(np.tile(_SIZE, (len(plan), 1)), np.full(len(plan), layout.LINEAR), exact.PILLOW)
    return [plan, plan.then()]


#: Plans, the dtype of their results, and the difference that rounding may make.
FUNCTIONS: dict[str, tuple[Callable[[Plan], list[Plan]], str, float]] = {
    "resize, rotate, normalize": (
        lambda plan: [_turned(_resized(plan)).normalized_by(ops.NORMALIZE, (2.0,) * 3 + (-1.0,) * 3, None)],
        "float16", 4e-3,
    ),
    "autocontrast, adjust_contrast": (
        lambda plan: [_resized(plan).with_entry(ops.AUTOCONTRAST, ()).with_entry(ops.CONTRAST, (0.5,))],
        "float32", 1e-3,
    ),
    "exact resize": (_resized_exactly, "uint8", 0.0),
}  # fmt: skip


def files() -> dict[str, bytes]:
    """JPEGs by their sampling: of a picture without symmetry, whose code has more than one part for ``find``."""
    y, x = np.mgrid[:_SIDE, :_SIDE]
    picture = Image.fromarray(np.stack([5 * x + y, x * y % 200, 255 - 4 * y + 3 * (x // 9)], 2).astype(np.uint8))

    def encoded(image: Image.Image, **options: int) -> bytes:
        out = io.BytesIO()
        image.save(out, "JPEG", **options)
        return out.getvalue()

    found = {name: encoded(picture, subsampling=number) for name, number in _SAMPLINGS.items()}
    # Of a square image 4:4:0 has as many blocks as 4:2:2, here of another picture.
    found["4:4:0"] = found["4:2:2"].replace(b"\3\1\x21\0", b"\3\1\x12\0", 1)
    found |= {"gray": encoded(picture.convert("L")), "restart markers": encoded(picture, restart_marker_blocks=2)}
    return found | {"recoded": recode_jpeg(encoded(picture, quality=95))}


def differing(runtime: Runtime) -> tuple[list[str], list[str]]:
    """Return the JPEGs, and the functions, whose results on a device are not the CPU's."""
    host, made = CpuRuntime(), files()
    data, sizes = [*made.values()], np.full((len(made), 2), _SIDE)
    (pixels, _), (found, outcome) = (
        _run(one, EncodedImages(data, read_headers(data), {}, [*made], sizes, DecodeOptions(decoder=GPUIMG), "raise"))
        for one in (host, runtime)
    )
    jpegs = [name for name, one, other in zip(made, pixels, found, strict=True) if not np.array_equal(one, other)]
    if outcome.timings.jpegs_on_cpu:  # which repaired what kernels gave up
        jpegs = [*made]
    functions = []
    for name, (function, dtype, most) in FUNCTIONS.items():
        one, other = (_run(each, each.from_arrays(list(pixels)), function, dtype)[0] for each in (host, runtime))
        difference = np.abs(one.astype(np.float32) - other.astype(np.float32))
        if not difference.max() <= most:  # nor NaN
            functions.append(name)
    return jpegs, functions


def _run(
    runtime: Runtime, source: Any, function: Any = lambda plan: [plan], dtype: str = "uint8"
) -> tuple[Any, Outcome]:
    """Return the results of plans, (N, H, W, C) on the host."""
    plans: list[Plan] = function(Plan.start(source.sizes, source.channels, of_bytes=True))
    offsets, total = offsets_of(plans[-1].sizes, source.channels)
    flat = runtime.empty_for_results(total, dtype)
    outcome = delivered(lambda: planes.run(runtime, planes.Job(source, plans, flat, offsets, "NHWC")))
    if isinstance(source, EncodedImages):
        source.record_failures(outcome.failures)
    return runtime.to_host(flat).reshape(len(offsets), *plans[-1].sizes[0], source.channels), outcome


def prove(runtime: Runtime) -> None:
    """Compare a GPU's results with the CPU's, unless a proof is stored; raise UnusableDeviceError if functions differ.

    Where JPEGs differ, the runtime's kernels for them are not used.
    """
    if probe.is_untested() or disk.read(name := probe.proof(int(runtime.name.partition(":")[2])), bytes) is not None:
        return
    jpegs, functions = differing(runtime)
    wrong = ", ".join(functions or jpegs)
    said = (
        f"gpuimg's kernels give wrong results on {runtime.name} ({wrong}): please report it with `gpuimg info`'s output"
    )
    if functions:
        raise UnusableDeviceError(f"{said}; GPUIMG_SELFTEST=0 skips the test")
    if jpegs:
        runtime.jpeg_problem = said
        warnings.warn(f"{said}. nvImageCodec or the CPU decodes JPEGs instead", RuntimeWarning, stacklevel=2)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of no folder to write to, of which a compiler would say more
        disk.store(name, b"equal")
