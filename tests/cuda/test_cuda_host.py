"""The order of operations of single calls, on a fake GPU that runs everything as late as it may."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from gpuimg._batch.batch import recording_of
from gpuimg._decoding.jpeg import read_headers
from gpuimg._decoding.nvimgcodec import for_engine
from tests.fakecuda import LEFT_TO_THE_CPU, UNWRITTEN, FakeGpu, file, other
from tests.fakecuda.work import SIZES, epoch, files, load, opened, small, told, turned_files, two_statistics
from tests.libraries import needs

from ..compare import assert_same
from ..decoding.jpegs import encoded, noise
from ..decoding.tiffs import of_array
from ..operations import test_filters as filters
from ..samples import file_of, pictures

needs("numba_cuda")


def _compressed(x: Any) -> gi.Batch:
    x = gi.adjust_contrast(gi.jpeg(gi.jpeg(x, [9, 50, 1, 99]), 50), 0.5)
    return gi.jpeg(gi.resize(x, (20, 30)), 50, where=np.arange(4) % 2 == 0)


CHAINS: dict[str, tuple[Callable[[Any], gi.Batch], int]] = {
    "resize": (lambda x: gi.resize(x, (24, 20)), 1),
    "crop beyond the image": (lambda x: gi.resized_crop(x, 0, [-3, 2, 1, 5], 30, 20, (16, 17)), 2),
    "rotate": (lambda x: gi.rotate(gi.resize(x, (20, 20)), 30, fill=9), 1),
    "expand": (lambda x: gi.rotate(x, [10, -40, 90, 180], expand=True), 1),
    "contrast": (lambda x: gi.adjust_contrast(gi.resize(x, (20, 20)), 0.5), 2),
    "two statistics": (two_statistics, 3),
    "blur": (lambda x: gi.gaussian_blur(gi.resize(x, (20, 20)), 3, 1.0), 2),
    "blurs": (lambda x: gi.resize(gi.gaussian_blur(gi.gaussian_blur(gi.resize(x, (9, 9)), 3, 1.0), 5, 2.0), (7, 5)), 4),
    "sharpness": (lambda x: gi.adjust_contrast(gi.adjust_sharpness(gi.resize(x, (8, 9)), 2.0), 0.5), 2),
    "jpeg": (_compressed, 11),
    "elastic": (lambda x: gi.elastic(gi.resize(x, (20, 30)), seed=3, where=np.arange(4) % 2 == 0), 3),
    "exact": (lambda x: gi.center_crop(gi.resize(x, (24, 20), exact="pillow"), 16), 3),
    "exact chain": (lambda x: gi.resize(gi.resize(gi.rotate(x, 9), 30, exact="torch"), (9, 40), exact="torch"), 6),
    "grayscale": (lambda x: gi.rgb_to_grayscale(gi.resize(x, (8, 9))), 1),
    "training": (lambda x: gi.normalize(gi.rotate(gi.center_crop(gi.resize(x, (30, 30)), 24), 12.0), 0.5, 0.25), 1),
}


# -- single calls ------------------------------------------------------------------------------------------------------


def test_threads_share_the_cores(gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that decoded before their number was set: decoders of each number are made once."""
    monkeypatch.setenv("GPUIMG_NUM_THREADS", "12")
    for count in (1, 2, 6, 2, 1):
        with recording_of(opened()).runtime.private_stream(count):
            gpu.use(gi.resize(opened(), (20, 20)).array())
    assert [op.told["threads"] for op in gpu.order.of("decoder")] == [12, 12, 6, 6, 2, 2]


def test_arrays_of_other_libraries(gpu: FakeGpu) -> None:
    """They are read after the work of the stream that they were written on."""
    stream = gpu.stream()
    with stream:
        array = gpu.cupy.zeros((2, 8, 8, 3), np.uint8)
        other = SimpleNamespace(__cuda_array_interface__=array.__cuda_array_interface__)  # as Numba's
    with pytest.raises(TypeError, match=r"must support DLPack; pass cupy.asarray\(array\) of SimpleNamespace"):
        gi.resize(other, 4)
    gi.resize(gpu.cupy.asarray(other), 4).array()
    for name in ("__dlpack__", "__dlpack_device__"):
        setattr(other, name, getattr(array, name))
    gi.resize(other, 4).array()


@pytest.mark.parametrize("where", ["null stream", "own stream"])
@pytest.mark.parametrize("source", ["files", "list", "array"])
@pytest.mark.parametrize("chain", CHAINS)
def test_single_calls(gpu: FakeGpu, chain: str, source: str, where: str) -> None:
    function, launches = CHAINS[chain]
    with gpu.stream() if where == "own stream" else nullcontext():
        x: Any = opened() if source == "files" else gpu.cupy.zeros((4, 40, 56, 3), np.uint8)
        if source == "list":
            x = [gpu.cupy.zeros((*size, 3), np.uint8) for size in SIZES]
        begin = len(gpu.order.log)
        gpu.use_all(function(x).compute("float16"))
    ops = gpu.order.log[begin:]
    assert sum(op.kind == "launch" for op in ops) == launches
    assert {op.stream for op in ops if op.kind == "launch"}.isdisjoint({(0, 0)})
    assert sum(op.kind == "decode" for op in ops) == (4 if source == "files" else 0)
    assert [op.told.get("pinned") for op in gpu.uploads] == [True]  # all plans are one


@pytest.mark.parametrize("held", [0, 1])
def test_whole_images_wait_for_the_last_reader_of_their_memory_alone(gpu: FakeGpu, held: int) -> None:
    """Not for the device, which may be training; and not where nothing has read it."""
    with gpu.stream() as other:
        busy = gpu.use(gpu.cupy.zeros(100, np.uint8))
    kept: list[Any] = []
    with gpu.stream() as stream:
        for _ in range(5):
            batch = gi.decode_batch(files(), device="cuda:0")
            gpu.use_all(batch)
            kept = [*kept, batch][-held:] if held else []
            del batch
    waits = gpu.waits
    assert {op.told["name"] for op in waits} <= {"event", "stream"}
    assert not [op for op in waits if gpu.key(other) in op.told["pending"]]
    assert busy.stream == gpu.key(other)
    readers = [op.told["recorded"].stream for op in waits if op.told["name"] == "event"]
    assert readers == [gpu.key(stream)] * (4 - held)
    arenas = {op.told["writes"][0][0] for op in gpu.order.of("decode")[::4]}
    assert len(arenas) == 1 + held


@pytest.mark.parametrize("whole", [False, True], ids=["resize", "whole"])
def test_turned_images(gpu: FakeGpu, whole: bool) -> None:
    """Decode to separate memory without rotation, and copy from there in the order of the stream."""
    turns = [1, 3, 6, 8]
    with gpu.stream():
        for _ in range(3):
            sources = turned_files(turns)
            x = gi.decode_batch(sources, device="cuda:0") if whole else gi.open_batch(sources, device="cuda:0")
            assert x.sizes.tolist() == [[40, 56], [40, 56], [56, 40], [56, 40]]
            gpu.use_all(x.compute() if whole else gi.resize(x, (8, 8)).array())
    copies = gpu.order.of("copy")
    assert len(copies) == 3 * 3
    decoded = {op.told["writes"][0] for op in gpu.order.of("decode")}
    assert {op.told["source"] for op in copies} <= decoded
    assert {op.stream for op in copies} == {op.stream for op in gpu.order.of("decode")}


def test_an_array_of_the_callers_is_written_and_read_in_its_order(gpu: FakeGpu) -> None:
    out = gpu.cupy.zeros((4, 8, 8, 3), np.uint8)
    for _ in range(3):
        gi.resize(opened(), (8, 8)).array(out=out)
        gpu.use(out)
        other = gi.invert(out).array()
        out.fill(1)
        gpu.use(other)


def test_a_result_is_read_in_the_order_of_other_streams(gpu: FakeGpu) -> None:
    x = gi.resize(opened(), (8, 8))
    ways: list[Callable[[], Any]] = [
        *(x.array, x.array, lambda: x.array(out=gpu.cupy.empty((4, 8, 8, 3), np.uint8))),
        *(lambda: x.padded(layout="NCHW").values, lambda: x.tokens(4, pad="longest").values),
    ]
    kept = [gpu.stream() for _ in ways]
    for way, stream in zip(ways, kept.copy(), strict=True):
        with stream:
            kept.append(way())
            gpu.use(kept[-1])
    assert len(gpu.order.of("decode")) == 4  # files, in one run
    gpu.cupy.cuda.Device().synchronize()


def test_mixing(gpu: FakeGpu) -> None:
    with gpu.stream():
        for mix in (gi.mixup, gi.cutmix):
            x = gi.resize(opened(), (12, 10))
            mixed = mix(x, rng=3).images
            gpu.use(mixed.array())
            gpu.use(gi.adjust_contrast(mixed, 0.5).array("float16"))
        one, other = (gpu.cupy.zeros((2, 9, 9, 3), np.float32) for _ in range(2))
        gpu.use(gi.blend(one, other, 0.5).array())
    assert [op.told["name"] for op in gpu.order.of("launch")].count("mix") == 3
    assert all(op.told["pinned"] for op in gpu.order.of("upload"))


def test_too_many_images_for_a_launch_are_refused(gpu: FakeGpu) -> None:
    images = gpu.cupy.zeros((65536, 1, 1, 3), np.float32)
    with pytest.raises(ValueError, match="at most 65535 images, not 65536"):
        gi.invert(images).array()
    with pytest.raises(ValueError, match="at most 65535 images, not 65536"):
        gi.blend(images, images, 0.5)
    assert gpu.order.of("launch") == []


# -- files that the CPU decodes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("color", ["rgb", "gray"])
@pytest.mark.parametrize("turns", [[1, 6, 3], [1, 6, 3, 8, 6, 1, 7]])
@pytest.mark.parametrize("fate", LEFT_TO_THE_CPU)
def test_the_cpu_decodes_what_nvimagecodec_does_not(gpu: FakeGpu, fate: str, turns: list[int], color: str) -> None:
    """Turned and at its place, whatever decodes its neighbors, with one upload."""
    sources = [file(40, 56, (fate, "good")[k % 2], orientation) for k, orientation in enumerate(turns)]
    expected = gi.decode_batch(sources, device="cpu", color=color)
    with told(fate), gpu.stream():
        for _ in range(3):
            assert_same(gpu.use_all(gi.decode_batch(sources, device="cuda:0", color=color)), expected)
            gpu.use(gi.resize(gi.open_batch(sources, device="cuda:0", color=color), (8, 8)).array())
    plans = 3
    assert len(gpu.uploads) == 2 * 3 + plans


def test_a_gpu_without_a_decoder_of_jpegs(gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu.library, "lacks", {"hardware", "hybrid", "gpu"})
    expected = gi.decode_batch(files(), device="cpu")
    with pytest.warns(UserWarning, match="no JPEG decoder on cuda:0") as caught:
        batches = [gi.decode_batch(files(), device="cuda:0") for _ in range(2)]
    assert [warning.filename for warning in caught] == [__file__]
    for batch in batches:
        assert_same(gpu.use_all(batch), expected)


OTHERS = [
    (form, dtype, channels) for form in ("jpeg2k", "tiff") for dtype in ("uint8", "uint16") for channels in (1, 3)
    if (form, dtype, channels) != ("jpeg2k", "uint16", 3)
]  # fmt: skip


@pytest.mark.parametrize("state", ["good", "none", "skipped", "fails", "missing", "of JPEGs missing"])
@pytest.mark.parametrize(("form", "dtype", "channels"), OTHERS)
def test_jpeg2k_and_tiff(gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch, form: str, dtype: str, channels: int,
                         state: str) -> None:  # fmt: skip
    """By nvImageCodec's own decoder of them, with the pixels of the CPU, which decodes what that one does not."""
    lacks = {"missing": {"gpu"}, "of JPEGs missing": {"hardware", "hybrid"}}.get(state, set())
    monkeypatch.setattr(gpu.library, "lacks", lacks)
    fate = "good" if "missing" in state else state
    one = partial(other, form, dtype=dtype, channels=channels)
    sources = [one(40, 56, fate), file(31, 33), one(21, 35), one(9, 40, fate)]
    if state == "of JPEGs missing":
        del sources[1]
    options = {"depth": "native" if dtype == "uint16" else "uint8", "color": "rgb" if channels == 3 else "gray"}
    expected = gi.decode_batch(sources, device="cpu", **options)
    reduced = gi.resize(gi.open_batch(sources, device="cpu", **options), (8, 8)).array()
    with told(fate), gpu.stream():
        for _ in range(2):
            assert_same(gpu.use_all(gi.decode_batch(sources, device="cuda:0", **options)), expected)
            array = gi.resize(gi.open_batch(sources, device="cuda:0", **options), (8, 8)).array()
            assert array.shape == reduced.shape
            gpu.use(array)
    done = [op.told for op in gpu.order.of("decode") if op.told["done"] and not op.told["data"].startswith(b"\xff\xd8")]
    on_gpu = 0 if state == "missing" else 3 if fate == "good" else 1
    assert len(done) == (4 * on_gpu if fate != "fails" else len(done))
    assert {one["by"] for one in done} <= {"gpu"}


def test_other_files_that_are_not_nvimagecodecs(gpu: FakeGpu) -> None:
    """With alpha, of other channels or bits than asked for, turned, big-endian; and all with other options."""
    values = np.random.default_rng().integers(0, 256, (20, 30, 3), np.uint8)
    sources = [
        file_of(np.dstack([values, values[..., :1]]), "JPEG2000"), file_of(values[..., 0], "JPEG2000"),
        file_of(values[..., 0], "TIFF"), of_array(values, 2, order=">"), of_array(values, 2, tags={274: 6}),
        of_array(values.astype(np.uint16), 2), of_array(values, 2, planar=True), file_of(values, "PNG"),
    ]  # fmt: skip
    assert_same(gpu.use_all(gi.decode_batch(sources, device="cuda:0")), gi.decode_batch(sources, device="cpu"))
    plain = [other("tiff", 20, 30), other("jpeg2k", 20, 30)]
    for options in ({"decoder": "gpuimg"}, {"color": "rgba"}, {"icc": "srgb"}):
        found = gi.decode_batch(plain, device="cuda:0", **options)
        assert_same(gpu.use_all(found), gi.decode_batch(plain, device="cpu", **options))
    assert gpu.order.of("decode") == []
    assert {op.told["name"] for op in gpu.order.of("decoder")} == set()


# -- encoding ----------------------------------------------------------------------------------------------------------


def test_files_of_a_gpus_images(gpu: FakeGpu) -> None:
    """Pixels are downloaded in one copy, after the work that computes them."""
    expected = gi.encode_batch(gi.decode_batch(files(), device="cpu"), quality=80)
    with gpu.stream():
        x = gi.decode_batch(files(), device="cuda:0")
        before = len(gpu.order.of("download"))
        assert gi.encode_batch(x, quality=80) == expected
        assert len(gpu.order.of("download")) == before + 1


def test_files_by_nvimagecodec(gpu: FakeGpu) -> None:
    """Each quality is a call, on the stream of the pixels; the CPU encodes what it fails at, and a warning tells."""
    sources = [file(40, 56), file(31, 33, "good", 6), file(1, 9), file(40, 56), file(8, 8)]
    quality, exif = [90, 13, 90, 66, 30], b"Exif\0\0II*\0" + bytes(9)
    expected = gi.encode_batch(gi.decode_batch(sources, device="cpu"), quality=quality, exif=exif)
    for _ in range(2):
        with gpu.stream():
            x = gi.decode_batch(sources, device="cuda:0")
            with pytest.warns(UserWarning, match="did not encode 2 of 5 images, the first of them image 1") as caught:
                found = gi.encode_batch(x, quality=quality, exif=exif, encoder="nvimagecodec")
            assert found == expected
        assert [warning.filename for warning in caught] == [__file__]
    calls = [op.told["images"] for op in gpu.order.of("encode call")]
    assert calls == [1, 1, 1, 2] * 2
    (made,) = gpu.order.of("encoder")
    assert made.told["kinds"] == ["gpu", "hybrid"]


# -- images that were not written --------------------------------------------------------------------------------------


@pytest.mark.parametrize("fate", UNWRITTEN)
@pytest.mark.parametrize("color", ["rgb", "gray"])
def test_images_that_were_reported_but_not_written(gpu: FakeGpu, color: str, fate: str) -> None:
    """Of a batch of them that was written before, no kernel reads a byte; a warning tells of the first."""
    gpu.use(gi.resize(opened(color=color), (8, 8)).array())
    sources = [file(40, 56), file(31, 33, fate), file(40, 57, fate, 6), file(64, 64), file(1, 19, fate)]
    with told(fate) as caught:
        batch = gi.decode_batch(sources, device="cuda:0", color=color)
    assert [warning.filename for warning in caught] == [__file__]
    assert "the first of them" in str(caught[0].message)
    assert_same(gpu.use_all(batch), gi.decode_batch(sources, device="cpu", color=color))
    for _ in range(2):  # without another warning
        x = gi.open_batch(sources, device="cuda:0", color=color)
        gpu.use(gi.resize(x, (8, 8)).array())
        assert recording_of(x).timings.unwritten == 3


def test_batches_of_no_images(gpu: FakeGpu) -> None:
    """Have the size that one image would have, in any form."""
    for x in (gi.open_batch(files(), device="cuda:0"), gi.decode_batch(files(), device="cuda:0")):
        resized, cropped = (
            gi.pad(gi.resize(x, (8, 12)), 1).take([]),
            gi.random_crop(gi.resize(x[:0], 30), (10, 14), rng=0),
        )
        for none in (resized, cropped, cropped.compute()):
            assert none.array("float16", "NCHW").shape == (0, 3, 10, 14)
            assert none.array(out=gpu.cupy.empty((0, 10, 14, 3), "uint8")).shape == (0, 10, 14, 3)


def test_the_host_waits_for_the_marks_and_nothing_else_before_decoding(gpu: FakeGpu) -> None:
    """The engine does not wait for its stream; the kernels of the batch before may still run."""
    with gpu.stream() as stream:
        late = gpu.cupy.zeros(100, np.uint8)
        gpu.use(late)
        x = opened()
        begin = len(gpu.order.log)
        array = gi.resize(x, (8, 8)).array()
    log = gpu.order.log[begin:]
    (decoding,) = {op.stream for op in log if op.kind in ("decode", "marks")}
    assert decoding not in {op.stream for op in log if op.kind == "launch"}
    first = next(k for k, op in enumerate(log) if op.kind == "decode")
    marked = next(k for k, op in enumerate(log) if op.kind == "marks")
    waits = [op for op in log[marked:] if op.kind == "host wait"]
    assert any(op.kind == "host wait" for op in log[marked:first])
    assert not any(gpu.key(stream) in op.told["pending"] for op in waits)
    del array


# -- which decoder -----------------------------------------------------------------------------------------------------

baseline = partial(file, progressive=False)
KINDS = [
    *(baseline(*size) for size in ((40, 56), (31, 33), (64, 64), (20, 97), (33, 31), (57, 40), (8, 200))),
    baseline(40, 56, "refused"), baseline(23, 45, "none"), baseline(29, 46, "fails"), baseline(30, 47, "header"),
    encoded(noise(40, 56), progressive=True), encoded(noise(41, 57), quality=30), encoded(noise(24, 33), "4:4:4"),
    encoded(noise(24, 33), "gray"),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:nvImageCodec failed at images")
@pytest.mark.parametrize("share", ["", "0", "0.3", "1"])
@pytest.mark.parametrize("capability", ["80", "90"])
def test_the_same_decoders_have_a_file_whatever_it_is_in_a_batch_with(
    gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch, capability: str, share: str
) -> None:
    """They round differently. A file that fails takes nobody with it."""
    monkeypatch.setenv("GPUIMG_HARDWARE_SHARE", share)
    monkeypatch.setattr(gpu.nvimgcodec, "capability_of", lambda device: (int(capability[:-1]), int(capability[-1])))
    monkeypatch.setattr(gpu.library, "fails_as_a_whole", capability == "80")
    rng = np.random.default_rng()
    had: dict[bytes, set[str]] = {data: set() for data in KINDS}
    for _ in range(30):
        chosen = [KINDS[k] for k in rng.choice(len(KINDS), rng.integers(1, len(KINDS)), replace=False)]
        begin = len(gpu.order.log)
        gpu.use_all(gi.decode_batch(chosen, device="cuda:0", decoder="nvimagecodec"))
        for data in chosen:
            done = [op for op in gpu.order.log[begin:] if op.kind == "decode" and op.told["data"] == data]
            had[data].add(", ".join(dict.fromkeys(op.told["by"] for op in done if op.told["done"])))
    assert {data: len(names) for data, names in had.items() if len(names) > 1} == {}
    kinds = {name for names in had.values() for name in names}
    assert "hybrid" in kinds or share == "1"
    assert ("hardware" in kinds) == (share != "0")


def test_the_share_is_that_of_the_files() -> None:
    """Whichever they are: near in size, and the same photo in other sizes."""
    near = [encoded(noise(24, 24), quality=quality) for quality in range(1, 96)]
    many = [encoded(noise(height, width)) for height in range(20, 32) for width in range(20, 32)]
    for headers in map(read_headers, (near, many)):
        assert for_engine(headers, 1.0).all()
        assert not for_engine(headers, 0.0).any()
        for share in (0.25, 0.65):
            assert abs(for_engine(headers, share).mean() - share) < 0.25


# -- failures ----------------------------------------------------------------------------------------------------------


def test_failures_of_nvimagecodec_are_counted_and_warned_of_once(gpu: FakeGpu) -> None:
    """Of all images of a batch: single bad ones are only counted."""
    loader = load([(file(40, 56, "fails" if k % 4 == 1 else "good"), k) for k in range(12)], small)
    assert epoch(gpu, loader) == 3
    assert loader.stats()["jpegs_on_cpu"] == 3
    loader = load([(file(40, 56, "fails" if k > 3 else "good"), k) for k in range(12)], small)
    with pytest.warns(UserWarning, match=r"failed at images on cuda:0 .one image made the whole call fail") as caught:
        assert epoch(gpu, loader) == 3
    assert len(caught) == 1
    assert loader.stats()["jpegs_on_cpu"] == 8


def test_a_gpu_that_is_lost_is_an_error(gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a decoder that fails at images, which the CPU would decode without end."""
    launch, is_lost = gpu.cupy.cuda.driver.launchKernel, []

    def decode(*_: Any, **__: Any) -> None:
        is_lost.append(True)
        raise RuntimeError("nvImageCodec's words for it")

    def launched(*arguments: Any) -> None:
        if is_lost:
            raise gpu.cupy.cuda.runtime.CUDARuntimeError(700)
        launch(*arguments)

    monkeypatch.setattr(gpu.cupy.cuda.driver, "launchKernel", launched)
    monkeypatch.setattr(gpu.library.Decoder, "decode", decode)
    with pytest.raises(gpu.cupy.cuda.runtime.CUDARuntimeError, match="illegal memory access"):
        gi.resize(opened(), (8, 8)).array()
    assert is_lost


@pytest.mark.parametrize("whole", [False, True], ids=["resize", "whole"])
def test_images_that_do_not_decode_are_black(gpu: FakeGpu, whole: bool) -> None:
    for _ in range(3):
        good, bad = files([(40, 56)]), files([(40, 56)], ("broken",))
        x = gi.open_batch([*good, *bad, *good, b"no image"], device="cuda:0", on_error="fill")
        result = x.compute() if whole else gi.resize(x, (8, 8)).compute()
        values = gpu.use_all(result)
        assert [status == "ok" for status in result.status] == [True, False, True, False]
        assert "the data end in MCU row 1 of" in result.errors[1].reason
        if whole:
            assert [bool(image.any()) for image in values] == [True, False, True, False]
        gpu.use(gi.resize(opened(), (9, 9)).array())


def resized(sources: list[bytes], device: str) -> Any:
    return gi.resize(gi.open_batch(sources, device=device), (8, 8)).array()


@pytest.mark.parametrize("fate", ["broken", "memory"])
@pytest.mark.parametrize("call", [gi.decode_batch, resized])
def test_nothing_is_lost_by_an_exception(gpu: FakeGpu, call: Callable[..., Any], fate: str) -> None:
    """Memory that was being decoded into is not used by others before that has ended."""
    bad = files(kinds=("good", fate))
    for _ in range(3):
        with pytest.raises(MemoryError if fate == "memory" else gi.DecodeError):
            call(bad, device="cuda:0")
        # The caller's next allocations may well be that memory.
        taken = [gpu.cupy.zeros(size, np.uint8) for size in (20000, 2000, 500)]
        gpu.use(gi.resize(opened(), (8, 8)).array())
        del taken


@pytest.mark.parametrize("refused", [100, 5000, 50000])
def test_running_out_of_memory(gpu: FakeGpu, refused: int) -> None:
    """Whichever allocation fails, the next call finds everything in order."""
    gpu.use(gi.resize(opened(), (40, 40)).array())
    for _ in range(2):
        gpu.refuse_above = refused
        with pytest.raises(MemoryError):
            gi.gaussian_blur(gi.resize(opened([(90, 90)] * 4), (60, 60)), 3, 1.0).array()
        gpu.refuse_above = None
        gpu.use(gi.gaussian_blur(gi.resize(opened([(90, 90)] * 4), (60, 60)), 3, 1.0).array())
    ring: Any = recording_of(gi.open_batch(files(), device="cuda:0")).runtime._resources.arenas  # type: ignore[attr-defined]
    assert len(ring._spare) + ring._left == 2


@pytest.mark.parametrize(("launches", "steps"), filters.CHAINS)
def test_a_chain_is_few_launches(gpu: FakeGpu, launches: int, steps: str) -> None:
    chain: Any = [gpu.cupy.asarray(picture) for picture in pictures(filters.SIZES, "float32")]
    for step in steps.split():
        chain = filters.STEPS[step](chain)
    chain.compute("float32")
    assert len(gpu.order.of("launch")) == launches
