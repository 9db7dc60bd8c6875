"""The self-test of a GPU: at its first use, results of its kernels are compared with the CPU's.

No kernel of ours is trusted before that on a GPU that nobody has seen. The proof that the results agree is stored for
the GPU, its driver and the sources of the kernels.
"""

import io
import warnings
from collections.abc import Callable

import numpy as np
from PIL import Image

from .._batch.batch import Batch, recording_of
from .._batch.encoded import open_images
from .._batch.recording import Recording
from .._checks.types import DType
from .._decoding.options import GPUIMG, DecodeOptions
from .._decoding.recoded import recode_jpeg
from .._runtimes import probe
from .._runtimes.devices import runtime_for
from .._runtimes.protocol import Runtime, UnusableDeviceError
from ..kernels import disk
from .color import adjust_contrast, autocontrast
from .pixels import normalize
from .resize_crop import resize
from .warp import rotate

_SIDE, _SIZE = 32, (20, 24)
_SAMPLINGS = {"4:4:4": 0, "4:2:2": 1, "4:2:0": 2}  # by Pillow's numbers
#: Functions, the dtype of their results, and the difference that rounding may make.
FUNCTIONS: dict[str, tuple[Callable[[Batch], Batch], DType, float]] = {
    "resize, rotate, normalize": (lambda x: normalize(rotate(resize(x, _SIZE), 20.0), 0.5, 0.5), "float16", 4e-3),
    "autocontrast, adjust_contrast": (lambda x: adjust_contrast(autocontrast(resize(x, _SIZE)), 0.5), "float32", 1e-3),
    "exact resize": (lambda x: resize(x, _SIZE, exact="pillow"), "uint8", 0.0),
}


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
    host, made = runtime_for("cpu"), files()
    x, y = (
        Batch(Recording.start(one, open_images([*made.values()], DecodeOptions(decoder=GPUIMG), "raise")))
        for one in (host, runtime)
    )
    pixels, found = list(x.compute()), [runtime.to_host(image) for image in y.compute()]
    jpegs = [name for name, one, other in zip(made, pixels, found, strict=True) if not np.array_equal(one, other)]
    if recording_of(y).timings.jpegs_on_cpu:  # which repaired what kernels gave up
        jpegs = [*made]
    functions = []
    for name, (function, dtype, most) in FUNCTIONS.items():
        one, other = (function(Batch(Recording.start(r, r.from_arrays(pixels)))).array(dtype) for r in (host, runtime))
        difference = np.abs(one.astype(np.float32) - runtime.to_host(other).astype(np.float32))
        if not difference.max() <= most:  # nor NaN
            functions.append(name)
    return jpegs, functions


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
