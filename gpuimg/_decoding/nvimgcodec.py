"""nvImageCodec, which decodes JPEG, JPEG 2000 and TIFF files on GPUs. Only this module imports it."""

import ctypes
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import lru_cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks.types import Mask
from .._threads.helpers import SharedIterator, each_side_by_side
from .._version import install_hint
from ..kernels.jpeg.layout import BASELINE
from .jpeg import Headers

INSTALL_HINT = f"nvImageCodec is not installed; {install_hint('cuda12', 'cuda13')}"


@lru_cache(maxsize=1)
def library() -> Any:
    """Return the ``nvidia.nvimgcodec`` module; raise ImportError that says what to install, or why it does not work."""
    # Read once, at import. Its default prints a message for every file that fails; the reasons come from our decoder.
    os.environ.setdefault("PYNVIMGCODEC_VERBOSITY", "0")
    with ExitStack() as stack:
        with suppress(OSError, ValueError, ImportError):  # all are loaded then
            _leave_out_extensions(stack)
        try:
            return import_module("nvidia.nvimgcodec")
        except ModuleNotFoundError as error:
            raise ImportError(INSTALL_HINT) from error
        except Exception as error:  # of its libraries, or of what it needs of NumPy
            raise ImportError(f"nvImageCodec does not work here: {type(error).__name__}: {error}") from error


#: Extensions that print where their libraries are missing, whatever the verbosity, and read the folder of extensions.
_OF_GPUS, _FOLDER = ("libnvjpeg", "libnvtiff"), "NVIMGCODEC_EXTENSIONS_PATH"


def _leave_out_extensions(stack: ExitStack) -> None:
    """Without a GPU's driver, have nvImageCodec load only extensions that decode on the CPU, until the stack ends."""
    with suppress(OSError):
        ctypes.CDLL("libcuda.so.1")
        return
    spec = find_spec("nvidia.nvimgcodec") if find_spec("nvidia") else None
    if _FOLDER in os.environ or spec is None:
        return
    folder = Path(stack.enter_context(TemporaryDirectory()))
    for path in Path(*spec.submodule_search_locations or (), "extensions").iterdir():
        if not path.name.startswith(_OF_GPUS):
            (folder / path.name).symlink_to(path)
    os.environ[_FOLDER] = str(folder)
    stack.callback(os.environ.pop, _FOLDER, None)


@lru_cache(maxsize=4)
def decode_params(color: str, *, deep: bool = False) -> Any:
    """Return parameters for decoding to ``"rgb"`` or ``"gray"`` pixels as stored, of 16 bits if ``deep``.

    The runtime applies the orientation, which it reads in the same way for every decoder.
    """
    nvimgcodec = library()
    spec = nvimgcodec.ColorSpec.GRAY if color == "gray" else nvimgcodec.ColorSpec.SRGB
    return nvimgcodec.DecodeParams(apply_exif_orientation=False, allow_any_depth=deep, color_spec=spec)


# Fraction of the files for the hardware engine; the rest goes to CUDA kernels with Huffman decoding on the CPU.
# NVIDIA's default in DALI (PR #6366), there per batch. Not measured here.
HARDWARE_SHARE = 0.65

_STREAMS = 4  # per decoder, instead of one for each of its threads


def hardware_share() -> float:
    """Return the fraction of files for the hardware engine: ``GPUIMG_HARDWARE_SHARE``, or the default."""
    text = os.environ.get("GPUIMG_HARDWARE_SHARE")
    if not text:
        return HARDWARE_SHARE
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ValueError(f"GPUIMG_HARDWARE_SHARE must be a number from 0 to 1, not {text!r}")
    return share


def for_engine(headers: Headers, share: float) -> Mask:
    """Return a mask of files for the hardware engine: a fraction of those it supports, independent of the batch.

    It supports baseline JPEGs of one scan, gray or with chroma of full or half size (NVIDIA, nvJPEG, "Hardware
    Acceleration"). The two decoders round differently: a hash of its size in bytes and pixels gives a file always the
    same one.
    """
    records = headers.records
    mixed = (headers.sizes ^ records["height"] << 24 ^ records["width"] << 40).astype(np.uint64)
    spread = (mixed * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)  # the highest bits depend on all
    chosen: Mask = (records["kind"] == BASELINE) & (records["process"] == 0) & (spread < share * 2**24)
    return chosen


# Compute capabilities of GPUs with one engine of several cores (A100, A30). Only a call for a whole batch uses all
# cores: nvImageCodec's path for single images has one worker per engine.
_ONE_ENGINE = {(8, 0)}


def options(threads: int, *, as_batch: bool) -> str:
    """Return a decoder's options in nvImageCodec's syntax; it ignores unknown names silently."""
    one_by_one = "" if as_batch else " nvjpeg_hw_decoder:force_batch_single=1"
    return f":num_cuda_streams={min(threads, _STREAMS)}{one_by_one}"


def gpu_decoder(
    device_id: int, capability: tuple[int, int], threads: int, set_device: Callable[[], object]
) -> "GpuDecoder":
    """Return the decoders that nvImageCodec has for a GPU, of JPEGs by nvJPEG, of others by nvJPEG2000 and nvTIFF.

    nvImageCodec's CPU decoders are not used: our decoder handles the rest. With several engines, images are decoded one
    by one: for a batch, nvImageCodec reports all images as decoded if the call succeeds, even those that the hardware
    has skipped (LichtFeld-Studio PR 1924).
    """
    nvimgcodec = library()
    as_batch = capability in _ONE_ENGINE

    def made(kind: Any) -> Any:
        try:
            return nvimgcodec.Decoder(
                device_id=device_id,
                max_num_cpu_threads=threads,
                backends=[nvimgcodec.Backend(kind)],
                options=options(threads, as_batch=as_batch),
            )
        except RuntimeError:
            return None

    others = partial(made, nvimgcodec.GPU_ONLY)
    jpegs = made(nvimgcodec.HW_GPU_ONLY), made(nvimgcodec.HYBRID_CPU_GPU)
    return GpuDecoder(*jpegs, others, as_batch=as_batch, set_device=set_device)


class DeviceImage:
    """GPU memory for an image of 8 or 16 bits, as an object with the CUDA array interface.

    It stands for a view of an array, of which one would be created for each image. ``stream`` is the handle of the CUDA
    stream on which the memory is used.
    """

    __slots__ = ("__cuda_array_interface__",)

    def __init__(self, address: int, shape: tuple[int, int, int], stream: int, typestr: str = "|u1") -> None:
        self.__cuda_array_interface__ = {
            "shape": shape, "typestr": typestr, "data": (address, False), "strides": None, "stream": stream,
            "version": 3,
        }  # fmt: skip


_MOST_FAILING = 16  # calls for a batch: enough to find two bad images of 256


#: Decoders of nvImageCodec for a file: of JPEGs the hardware engine or CUDA kernels, and that of other files.
ENGINE, CUDA, OTHERS = range(3)


class GpuDecoder:
    """Decoder of batches of files into given memory; for one thread at a time.

    Uses decoders of nvImageCodec with one backend each: a decoder with both backends for JPEGs divides each batch in
    proportion to its first one, so that an image's pixels would depend on the rest of the batch.

    ``engine`` uses the hardware engine, ``cuda`` CUDA kernels, for files that are not for the engine and those it
    refuses; ``others`` makes the decoder of all but JPEGs when it is needed. Each may be None. The tests use a CPU
    decoder as ``cuda``, whose memory is then the host's. ``as_batch`` is True if the engine fails at all images of a
    call when it fails at one. ``set_device`` makes the decoders' GPU the calling thread's current one, which
    nvImageCodec takes for granted: in a thread that helps it would be the first GPU.
    """

    def __init__(
        self,
        engine: Any,
        cuda: Any,
        others: Callable[[], Any] = lambda: None,
        *,
        as_batch: bool = False,
        set_device: Callable[[], object] = lambda: None,
    ) -> None:
        self._decoders = {ENGINE: engine, CUDA: cuda}
        self._make_others = others
        self._as_batch = as_batch
        self._set_device = set_device
        #: Message of the last calls of a decoder that failed at all images of a batch, if there were any.
        self.error: str | None = None

    @property
    def takes_jpegs(self) -> bool:
        """True if there is a decoder of JPEGs."""
        return self._decoders[ENGINE] is not None or self._decoders[CUDA] is not None

    @property
    def takes_others(self) -> bool:
        """True if there is a decoder of other files, though perhaps not of all formats."""
        if OTHERS not in self._decoders:
            self._decoders[OTHERS] = self._make_others()
        return self._decoders[OTHERS] is not None

    def decode(
        self,
        data: Sequence[Any],
        outs: Sequence[Any],
        kinds: Sequence[int],
        params: Any,
        stream: int,
        ready: Callable[[], object] = lambda: None,
    ) -> list[bool]:
        """Decode whole files, as stored, on a CUDA stream; return True for those that were decoded.

        ``outs`` are images or arrays for the pixels of each header's size, (H, W, C) uint8 or uint16: memory of a
        failed one may be partly written, but nothing outside it. ``kinds`` are the decoders of the files. ``ready`` is
        called before anything is written.
        """
        nvimgcodec = library()
        streams = [nvimgcodec.CodeStream(one) for one in data]
        images = nvimgcodec.as_images(outs)
        ready()
        decoded = [False] * len(streams)
        failing = SharedIterator(range(_MOST_FAILING))

        def run(kind: int, chosen: list[int]) -> None:
            decoder, as_batch = self._decoders[kind], self._as_batch and kind == ENGINE
            self._set_device()
            errors: list[str] = []

            def call(some: list[int]) -> list[int] | None:
                """Return those of some images that were decoded; None for a call that failed as a whole."""
                own = [streams[k] for k in some], [images[k] for k in some]
                try:
                    found = list(decoder.decode(own[0], images=own[1], params=params, cuda_stream=stream))
                except (RuntimeError, ValueError) as error:
                    errors.append(str(error))
                    return None
                done = [k for k, image in zip(some, found, strict=True) if image is not None]
                return done if done or not as_batch else None

            done = _in_halves(call, chosen, failing)
            for k in done:
                decoded[k] = True
            if errors and not done:
                self.error = errors[-1]

        parts = dict[int, list[int]]()
        for k, kind in enumerate(kinds):
            parts.setdefault(CUDA if kind == ENGINE and self._decoders[ENGINE] is None else kind, []).append(k)
        jobs = [(kind, chosen) for kind, chosen in parts.items() if self._decoders.get(kind) is not None]
        each_side_by_side(lambda job: run(*job), jobs, len(jobs))
        refused = [k for k in parts.get(ENGINE, ()) if not decoded[k]]
        if self._decoders[CUDA] is not None and refused:
            run(CUDA, refused)
        return decoded


def _in_halves(
    call: Callable[[list[int]], list[int] | None], images: list[int], failing: SharedIterator[int]
) -> list[int]:
    """Return the images that were decoded.

    If a call fails as a whole, one image may be the reason. Its halves are then decoded separately, so that the failure
    of an image does not depend on the others, unless too many calls fail, one for each item of ``failing``: then the
    reason is another.
    """
    found = call(images)
    if found is not None or len(images) == 1 or next(failing, None) is None:
        return found or []
    half = len(images) // 2
    return _in_halves(call, images[:half], failing) + _in_halves(call, images[half:], failing)


# Unused decoders by process: a decoder is for one thread at a time, and its threads do not exist in a forked child.
_spare: dict[int, list[Any]] = {}


_PATTERNS = 0xA5C3, 0x5A3C


def decode_deep(data: Any, shape: tuple[int, int, int]) -> NDArray[np.uint16] | None:
    """Decode a 16-bit file of (H, W, C) on the CPU, as stored; None if it cannot be decoded, or not all of it."""
    nvimgcodec = library()
    params = nvimgcodec.DecodeParams(
        apply_exif_orientation=False, allow_any_depth=True, color_spec=nvimgcodec.ColorSpec.UNCHANGED
    )
    spare = _spare.setdefault(os.getpid(), [])
    try:
        decoder = spare.pop()
    except IndexError:
        decoder = nvimgcodec.Decoder(
            device_id=nvimgcodec.NVIMGCODEC_DEVICE_CPU_ONLY,
            max_num_cpu_threads=1,
            backends=[nvimgcodec.Backend(nvimgcodec.CPU_ONLY)],
        )
    results = []
    try:
        for pattern in _PATTERNS:
            out = np.full(shape, pattern, np.uint16)
            (image,) = decoder.decode([nvimgcodec.CodeStream(data)], images=nvimgcodec.as_images([out]), params=params)
            if image is None:
                return None
            results.append(out)
            if not (out == pattern).any():  # all of it was written
                return out
    except (RuntimeError, ValueError):
        return None
    finally:
        spare.append(decoder)
    return results[0] if np.array_equal(results[0], results[1]) else None


#: Name in :func:`decoders` of that of other files than JPEGs.
OF_OTHERS = "nvJPEG2000 or nvTIFF"


def decoders() -> Sequence[str]:
    """Return the names of nvImageCodec's decoders for this machine's first GPU."""
    try:
        nvimgcodec = library()
    except ImportError:
        return ()
    kinds = {
        "hardware engine": nvimgcodec.HW_GPU_ONLY, "CUDA": nvimgcodec.HYBRID_CPU_GPU,
        OF_OTHERS: nvimgcodec.GPU_ONLY,
    }  # fmt: skip
    found = []
    for name, kind in kinds.items():
        try:
            nvimgcodec.Decoder(device_id=0, backends=[nvimgcodec.Backend(kind)])
        except Exception:  # of any kind: `gpuimg info` says what there is
            continue
        found.append(name)
    return found
