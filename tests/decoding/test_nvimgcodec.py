"""The adapter for nvImageCodec, with its real decoders for the CPU and host memory: the calls that a GPU gets."""

import io
import itertools
import math
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

import gpuimg as gi
from gpuimg._decoding import jpeg, nvimgcodec, route
from gpuimg._decoding.nvimgcodec import CUDA, ENGINE, OTHERS, GpuDecoder, decode_params
from gpuimg._decoding.options import DecodeOptions
from gpuimg._decoding.pillow import read_header

from ..libraries import needs
from ..samples import PHOTOS, file_of, with_orientation
from .jpegs import Guarded, noise, pillow_pixels

needs("nvidia")

_MARK = 171


def decoder() -> Any:
    library = nvimgcodec.library()
    return library.Decoder(
        device_id=library.NVIMGCODEC_DEVICE_CPU_ONLY,
        max_num_cpu_threads=2,
        backends=[library.Backend(library.CPU_ONLY)],
    )


def photo(height: int, width: int, mode: str = "RGB", **options: Any) -> bytes:
    return file_of(noise(height, width).convert(mode), **{"quality": 85, **options})


class Memory:
    """Room for images, and bytes around each that nobody may write to."""

    def __init__(self, shapes: list[tuple[int, int, int]]) -> None:
        self._parts = [Guarded(math.prod(shape), _MARK) for shape in shapes]
        self.outs = [part.bytes.reshape(shape) for part, shape in zip(self._parts, shapes, strict=True)]

    def is_kept(self) -> bool:
        return not any(part.broken() for part in self._parts)


def memory_for(files: list[bytes], channels: int = 3) -> Memory:
    sizes = [Image.open(io.BytesIO(data)).size for data in files]
    return Memory([(height, width, channels) for width, height in sizes])


def decode(files: list[Any], memory: Memory, one: GpuDecoder | None = None) -> list[bool]:
    """By the decoder for what is not the engine's, or a given one."""
    color = "gray" if memory.outs and memory.outs[0].shape[2] == 1 else "rgb"
    made = one or GpuDecoder(None, decoder())
    found = made.decode(files, memory.outs, [ENGINE] * len(files), decode_params(color), 0)
    assert memory.is_kept()
    return found


@pytest.mark.parametrize("channels", [1, 3])
def test_pixels_are_pillows(channels: int) -> None:
    """Of photos and every kind of JPEG, as they are stored."""
    files = [path.read_bytes() for path in PHOTOS]
    for k, (size, mode) in enumerate(itertools.product(((1, 1), (31, 17), (64, 48)), ("L", "RGB"))):
        kinds = itertools.product((0, 1, 2), (False, True))
        exif = with_orientation(2 + k)
        files += [photo(*size, mode, subsampling=s, progressive=p, exif=exif) for s, p in kinds]
    memory = memory_for(files, channels)
    assert decode(files, memory) == [True] * len(files)
    for data, out in zip(files, memory.outs, strict=True):
        np.testing.assert_array_equal(out, pillow_pixels(data, channels))


def assert_only(found: list[bool], bad: set[int], files: list[bytes], memory: Memory) -> None:
    assert [k for k, done in enumerate(found) if not done] == sorted(bad)
    for k in set(range(len(files))) - bad:
        np.testing.assert_array_equal(memory.outs[k], pillow_pixels(files[k]))


def test_a_file_that_is_cut_off_is_a_separate_failure(capfd: pytest.CaptureFixture[str]) -> None:
    nvimgcodec.library()
    capfd.readouterr()
    good = [photo(40, 56) for _ in range(5)]
    memory = memory_for(good)
    files = [*good[:2], good[2][:-400], *good[3:]]
    assert_only(decode(files, memory), {2}, files, memory)
    assert capfd.readouterr() == ("", "")  # what is to be said of it our decoder says


@pytest.mark.parametrize("shape", [(39, 56), (56, 39), (1, 1)])
def test_nothing_is_written_outside_memory_that_is_too_small(shape: tuple[int, int]) -> None:
    """The whole call raises. With strict headers every decoder reads the size that gpuimg reads."""
    files = [photo(40, 56) for _ in range(3)]
    memory = Memory([(40, 56, 3), (*shape, 3), (40, 56, 3)])
    assert_only(decode(files, memory), {1}, files, memory)
    assert np.all(memory.outs[1] == _MARK)


@pytest.mark.parametrize("bad", [b"", b"\xff\xd8", b"no image at all", photo(8, 8)[:30]])
def test_a_header_that_cannot_be_read(bad: bytes) -> None:
    files = [photo(40, 56), bad, photo(40, 56)]
    memory = Memory([(40, 56, 3)] * 3)
    assert_only(decode(files, memory), {1}, files, memory)
    assert np.all(memory.outs[1] == _MARK)
    assert decode([bad], Memory([(40, 56, 3)])) == [False]


def test_only_jpegs_that_every_decoder_reads_alike_are_given_to_it() -> None:
    files = {
        photo(8, 9): True,
        photo(8, 9, "L"): True,
        photo(8, 9, progressive=True): True,
        photo(8, 9, keep_rgb=True): False,
        photo(8, 9, "CMYK"): False,
        photo(8, 9).replace(b"\xff\xdb", b"\0\0\xff\xdb", 1): False,  # bytes between segments, which libjpeg skips
        photo(8, 9)[:60]: False,
        file_of(Image.new("RGB", (9, 8)), "PNG"): False,
        b"": False,
    }
    assert takes(list(files)) == list(files.values())


def takes(files: list[bytes]) -> list[bool]:
    return [bool(taken) for taken in route.nvimgcodec_takes(jpeg.read_headers(files).records, DecodeOptions())]


END = b"\xff\xd9"


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"mode": "L"}])
def test_a_file_that_was_cut_off_is_not_given_to_it(options: dict[str, Any]) -> None:
    """The result depends on which of its decoders takes the file; our own reports the same on every device."""
    data = photo(40, 56, **options)
    assert data.endswith(END)
    assert takes([data]) == [True]
    assert takes([data[:cut] for cut in range(len(data))]) == [False] * len(data)


def test_what_comes_after_the_image_does_no_harm() -> None:
    """Cameras put things there; an end of image far in front of it is not looked for."""
    data = photo(40, 56)
    junk = bytes(np.random.default_rng().integers(0, 0xD8, 1 << 16, np.uint8))
    assert takes([data + junk[:length] for length in (1, 2, 1000, (1 << 16) - 2, (1 << 16) - 1, 1 << 16)]) == [
        True, True, True, True, False, False
    ]  # fmt: skip
    assert takes([data[:-2] + junk[:1000], data[:-2] + END[:1], data[:-2] + END[1:]]) == [False] * 3
    assert takes([data + data, data + data[:-2]]) == [True, True]
    exif = Image.Exif()
    exif[0x9286] = photo(8, 8)  # a comment, whose end of image is not that of the file
    data = photo(40, 56, exif=exif)
    assert data.count(END) == 2
    assert takes([data, data[:-2], data[: data.index(b"\xff\xda") + 20]]) == [True, False, False]


class Watched:
    """One of nvImageCodec's decoders, which may refuse files of some widths, or calls that they are in."""

    def __init__(self, refused: tuple[int, ...] = (), *, as_batch: bool = False) -> None:
        self.calls: list[int] = []
        self._refused = refused
        self._as_batch = as_batch
        self._decoder = decoder()

    def decode(self, streams: list[Any], *, images: list[Any], **options: Any) -> list[Any]:
        self.calls.append(len(streams))
        found = self._decoder.decode(streams, images=images, **options)
        refused = [image.width in self._refused for image in images]
        if self._as_batch and any(refused):
            return [None] * len(streams)
        return [None if no else image for no, image in zip(refused, found, strict=True)]


def test_what_the_engine_does_not_decode_cuda_does() -> None:
    files = [photo(30, 40 + k) for k in range(6)]
    engine, cuda = Watched((41, 44)), Watched()
    memory = memory_for(files)
    wanted = [ENGINE, ENGINE, CUDA, ENGINE, ENGINE, ENGINE]
    assert GpuDecoder(engine, cuda).decode(files, memory.outs, wanted, decode_params("rgb"), 0) == [True] * 6
    assert (engine.calls, cuda.calls) == ([5], [1, 2])  # its own share, and what the engine refused
    assert_only(decode(files, memory, GpuDecoder(engine, None)), {1, 4}, files, memory)


@pytest.mark.parametrize("works", [True, False])
def test_a_decoder_that_fails_at_everything_is_not_called_for_each_image(works: bool) -> None:
    calls: list[int] = []

    class Failing:
        def decode(self, streams: list[Any], **_: Any) -> Any:
            calls.append(len(streams))
            raise RuntimeError("out of memory")

    files = [photo(30, 40 + k % 9) for k in range(64)]
    decoder = GpuDecoder(Failing(), Watched() if works else None)
    outs = memory_for(files).outs
    assert decoder.decode(files, outs, [ENGINE] * 64, decode_params("rgb"), 0) == [works] * 64
    assert decoder.error == "out of memory"
    assert len(calls) <= 2 * 16 + 1


@pytest.mark.parametrize("bad", range(5))
def test_an_engine_that_fails_as_a_whole_decodes_what_it_can(bad: int) -> None:
    """Else the others of the batch would be decoded by CUDA, which rounds differently."""
    files = [photo(30, 40 + k) for k in range(5)]
    engine, cuda = Watched((40 + bad,), as_batch=True), Watched()
    assert decode(files, memory_for(files), GpuDecoder(engine, cuda, as_batch=True)) == [True] * 5
    assert cuda.calls == [1]
    assert len(engine.calls) <= 7


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("form", ["tiff", "lzw", "deflate", "jpeg2k", "codestream"])
def test_other_files_have_the_pixels_that_the_cpu_gives(form: str, dtype: str, channels: int) -> None:
    """OpenJPEG's and libtiff's; those that are damaged or missing are none."""
    values = np.random.default_rng().integers(0, np.iinfo(dtype).max, (33, 47, channels), dtype)
    if form in ("tiff", "lzw", "deflate"):
        blue_first = values[..., ::-1] if channels == 3 else values
        way = {"tiff": 1, "lzw": 5, "deflate": 8}[form]
        data = cv2.imencode(".tif", blue_first, [cv2.IMWRITE_TIFF_COMPRESSION, way])[1].tobytes()
    elif dtype == "uint8" or channels == 1:
        data = file_of(values[..., 0] if channels == 1 else values, "JPEG2000", no_jp2=form == "codestream")
    else:  # with loss
        data = cv2.imencode(".jp2", values[..., ::-1])[1].tobytes()
        data = data[data.index(b"\xff\x4f\xff\x51") :] if form == "codestream" else data
        values = np.asarray(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED))[..., ::-1]
    color, depth = "rgb" if channels == 3 else "gray", "native" if dtype == "uint16" else "uint8"
    header = read_header(data, 1 << 20)
    assert route.nvimgcodec_takes_other(header, DecodeOptions(color=color, depth=depth))
    out, params = np.empty((3, 33, 47, channels), dtype), decode_params(color, deep=dtype == "uint16")
    made = GpuDecoder(None, None, decoder)
    assert (made.takes_jpegs, made.takes_others) == (False, True)
    assert made.decode([data, data[:99], data], list(out), [OTHERS] * 3, params, 0) == [True, False, True]
    np.testing.assert_array_equal(out[0], values)
    np.testing.assert_array_equal(out[2], values)
    np.testing.assert_array_equal(gi.decode_image(data, device="cpu", color=color, depth=depth), values)
    assert GpuDecoder(None, None).decode([data], [out[0]], [OTHERS], params, 0) == [False]
