"""JPEGs decoded by segments on a GPU: the host's part on a fake GPU; ptx/ runs the kernels."""

from contextlib import nullcontext
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gpuimg as gi
from gpuimg._batch.batch import recording_of
from gpuimg._data.images import EncodedImages, Pixels, offsets_of, whole_regions
from gpuimg._decoding import nvimgcodec
from gpuimg._decoding.jpeg import read_headers
from gpuimg._plan.draft import FULL
from gpuimg._runtimes.jpeg_upload import SPAN, Upload
from gpuimg.kernels.jpeg import segments as parts
from gpuimg.kernels.jpeg import upload

from ..decoding import jpegs
from ..decoding.jpegs import encoded
from ..decoding.test_jpeg import each_table
from ..fakecuda import FakeGpu, file
from ..fakecuda.work import PREPROCESS, SIZES, arrays_of, epoch, load
from ..libraries import needs
from ..samples import PHOTOS, file_of, with_orientation

needs("numba_cuda")


def batch_of(files: list[bytes]) -> EncodedImages:
    images = recording_of(gi.open_batch(files, device="cpu")).source
    assert isinstance(images, EncodedImages)
    return images


def turned(data: bytes, orientation: int) -> bytes:
    return data[:2] + jpegs.segment(0xE1, with_orientation(orientation).tobytes()) + data[2:]


def photo(width: int, height: int) -> Image.Image:
    return Image.open(PHOTOS[0]).convert("RGB").resize((width, height))


def with_table(data: bytes, steps: list[int]) -> bytes:
    """A file with one quantisation table, of 16 bits."""
    body = np.array(steps, ">u2").tobytes()
    return each_table(data, lambda marker, one: [bytes([0x10 | one[0]]) + body if marker == jpegs.DQT else one])


# -- the upload -------------------------------------------------------------------------------------------------------


def test_images_beyond_32_bits_of_words_are_left_out() -> None:
    """Places in what is uploaded are int32; other images of the batch are decoded as if they were not there."""
    files = [encoded(photo(40, 30), quality=quality) for quality in (50, 60, 70, 80)]
    headers, wanted, n = read_headers(files), whole_regions(batch_of(files).sizes), len(files)
    images, scratch = np.zeros(n, parts.SELECTED), np.zeros(1, parts.SCRATCH)
    images["scale"] = FULL
    parts.select_segments(*headers, wanted, 1 << 20, SPAN, images, np.zeros(1, parts.TOTALS), scratch)
    assert images["status"].tolist() == [parts.TAKEN] * n
    small = int(images["bytes"][3])
    images["bytes"][:3] = 4 << 30
    pairs, totals, room = np.zeros(n, parts.PAIR), np.zeros(1, parts.TOTALS), np.zeros(n, parts.PART)
    parts.plan_upload(*headers, wanted, 1 << 20, 65535, images, np.zeros(n, np.int64), pairs, room, totals)
    assert images["status"].tolist() == [parts.TAKEN, parts.LEFT_OUT, parts.LEFT_OUT, parts.TAKEN]
    assert totals["images"][0] == 2
    end = images["word"][3] + small // 4 + upload.BEYOND
    assert end == totals["words"][0] <= np.iinfo(np.int32).max


def test_scans_beyond_32_bits_are_left_out() -> None:
    """The kernel that finds segments counts bits in int32."""
    files = [jpegs.resized(encoded(photo(40, 30), "gray"), 4096, width) for width in (4096, 4000)]
    headers = read_headers(files)
    headers.sizes[:] = 1 << 28
    images, scratch = np.zeros(2, parts.SELECTED), np.zeros(1, parts.SCRATCH)
    images["scale"] = FULL
    wanted = np.array([(0, 0, 8, 8)] * 2)
    parts.select_segments(*headers, wanted, 1 << 20, SPAN, images, np.zeros(1, parts.TOTALS), scratch)
    assert images["status"].tolist() == [parts.LEFT_OUT, parts.TAKEN]
    assert images["bytes"][1] * 8 + 2 * SPAN * upload.PARTS < 1 << 31
    assert images["found"][1] == -(-8 * 512 * (images["bytes"][1] // 512) // images["span"][1])


def test_bits_of_an_interval_are_bounded_by_its_blocks() -> None:
    """Any bytes may follow the last restart interval; only a marker may lie between two of them."""
    data = encoded(photo(64, 48), "4:4:4", restart_marker_rows=1)
    blocks = 8 * 3
    junk = bytes(blocks * 512)
    after_all = data[:-2] + junk + data[-2:]
    marker = data.index(b"\xff\xd0")
    between = data[:marker] + junk + data[marker:]
    images = batch_of([data, after_all, between])
    pixels = Pixels(np.empty(1, np.uint8), offsets_of(images.sizes, 3)[0], images.sizes, 3)
    uploaded = Upload(images, pixels, whole_regions(images.sizes))
    filled = np.zeros(uploaded.words, np.int32)
    uploaded.write(filled)
    assert (uploaded.taken, uploaded.refused) == ([0, 1], [2])
    at, n = int(uploaded.totals["segment_word"]), int(uploaded.totals["segments"])
    segments = filled[at : at + n * upload.SEGMENT_WORDS].view(upload.SEGMENT)
    assert n == 18
    assert segments["end"][segments["image"] == 1].max() == 8 * blocks * 512


# -- the host's part ---------------------------------------------------------------------------------------------------


def mixed_files(sizes: Any = SIZES) -> list[bytes]:
    """Baseline files, with one progressive and one PNG between them; one is turned, one has restart markers."""
    files = [encoded(photo(width, height), quality=85) for height, width in sizes]
    markers = encoded(photo(50, 40), restart_marker_rows=1)
    return [files[0], file(24, 30), turned(files[1], 6), file_of(photo(30, 20), "PNG"), *files[2:], markers]


WITHOUT = 1, 3  # those that other decoders take
BASELINE = [data for i, data in enumerate(mixed_files()) if i not in WITHOUT]


#: Baseline files go to our kernels, at full size.
opened = partial(gi.open_batch, device="cuda:0", draft=100.0)


def kernels_of(gpu: FakeGpu) -> list[str]:
    return [op.told["name"] for op in gpu.order.of("launch")]


JPEG = ["find", "huffman", "inverse_dct", "colors"]
decoded = partial(gi.decode_batch, device="cuda:0", decoder="gpuimg")
ours = partial(load, decoder="gpuimg")


def test_views_share_the_region_that_is_decoded(gpu: FakeGpu) -> None:
    """What each view reads is written: the fake would tell."""
    x = opened(mixed_files([(64, 64), (48, 40)]))
    files = range(len(x))
    place = np.arange(3 * len(x)) % 8
    views = gi.resized_crop(x.take(np.tile(files, 3)), place, place, 9, 8, (7, 7))
    gpu.use(views.array())
    assert kernels_of(gpu) == [*JPEG, "transform"]


def test_a_batch_is_one_upload(gpu: FakeGpu) -> None:
    """From pinned memory, as the plan; others are nvImageCodec's and the CPU's; all that a plan reads is there."""
    with gpu.stream():
        for _ in range(3):
            x = opened(mixed_files([(40, 56), (31, 33), (20, 24), (64, 64)]))
            gpu.use(gi.resized_crop(x, 3, 2, 9, 8, (7, 7)).array())
    assert kernels_of(gpu) == [*JPEG, "transform"] * 3
    uploads = gpu.uploads
    assert [op.told.get("pinned", False) for op in uploads] == [True, False, True] * 3
    assert len(gpu.order.of("decode")) == 3


def test_what_kernels_report_the_cpu_decodes(gpu: FakeGpu) -> None:
    files = mixed_files()
    expected = gi.decode_batch(files, device="cpu")
    gpu.damaged.update((2, 6))
    values = gpu.use_all(opened(files).compute())
    for i in (*WITHOUT, 2, 6):
        np.testing.assert_array_equal(values[i], expected[i])


@pytest.mark.parametrize("color", ["rgb", "gray"])
def test_baseline_files_need_nothing_else(gpu: FakeGpu, color: str) -> None:
    """Nothing but our own kernels, and one upload."""
    expected = gi.decode_batch(BASELINE, device="cpu", color=color)
    with gpu.stream():
        for image, other in zip(gpu.use_all(decoded(BASELINE, color=color)), expected, strict=True):
            assert image.shape == other.shape
            assert np.all(image == 77)  # what the fake's kernel writes
    assert kernels_of(gpu) == JPEG
    assert [op.told.get("pinned", False) for op in gpu.uploads] == [True]
    assert gpu.order.of("decode") == []


def test_memory_for_statuses_that_still_come_is_not_reused(gpu: FakeGpu) -> None:
    """Also if nobody waits for them."""
    from gpuimg._runtimes import cuda_jpeg, cuda_memory

    ring = cuda_memory.Ring(cuda_memory.Pinned, 8)
    decoder = cuda_jpeg.SegmentDecoder(lambda: ring)
    images = batch_of(BASELINE)
    offsets, total = offsets_of(images.sizes, 3)
    for _ in range(2):
        with gpu.stream() as stream:
            out = gpu.cupy.empty(total, np.uint8)
            pixels = Pixels(out, offsets, images.sizes, 3)
            decoder.launch(images, Upload(images, pixels, whole_regions(images.sizes)), out, stream)


def resized(x: gi.Batch) -> Any:
    return gi.resize(x, (12, 12)).array()


def whole(x: gi.Batch) -> Any:
    return x.compute()


@pytest.mark.parametrize("call", [resized, whole])
@pytest.mark.parametrize("damaged", [(), (0, 3)], ids=["good", "damaged"])
@pytest.mark.parametrize("files", [BASELINE, BASELINE[:1] * 4], ids=["several", "one object"])
def test_a_call_waits_once(gpu: FakeGpu, files: list[bytes], damaged: tuple[int, ...], call: Any) -> None:
    """For the statuses, when all that a good batch needs is enqueued; after a report all is done again."""
    x = gi.open_batch(files, device="cuda:0", decoder="gpuimg")
    gpu.damaged.update(damaged)
    call(x)
    log = [op for op in gpu.order.log if op.kind in ("upload", "launch", "host wait")]
    kinds = [op.kind if op.kind == "upload" else op.told["name"] for op in log]
    kinds = [kind for kind in kinds if kind != "stream"]  # waited for by new memory
    work = ["upload", "transform"] if call is resized or files is not BASELINE else []  # of one size: one array
    begin = ["upload", *JPEG]
    again = [*begin, "upload", *work, "event"] if damaged else []
    assert kinds[kinds.index("find") - 1 :] == [*begin, *work, "event", *again]
    assert recording_of(x).timings.jpegs_on_cpu == len(damaged)


def test_reported_images_are_known_in_any_part(gpu: FakeGpu) -> None:
    x = gi.open_batch(BASELINE, device="cuda:0", decoder="gpuimg").take([2, 2])
    gpu.damaged.add(0)
    resized(x)
    assert recording_of(x).timings.jpegs_on_cpu == 1


@pytest.mark.parametrize("preprocess", PREPROCESS)
@pytest.mark.parametrize("decoders", [1, 2])
@pytest.mark.parametrize("fast", [True, False], ids=["fast", "late"])
def test_a_loader_waits_for_no_kernel_of_a_batch(
    gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch, fast: bool, decoders: int, preprocess: str
) -> None:
    """From its upload to its hand-over, when the consumer waits for its statuses unless they are there.

    Before the upload, a thread may have to wait for memory of the batches before, and for the first arenas.
    """
    record = gpu.runtime.CudaRuntime.record_event

    def recorded(self: Any) -> Any:
        gpu.order.note("enqueued")
        return record(self)

    monkeypatch.setattr(gpu.runtime.CudaRuntime, "record_event", recorded)
    gpu.order.fast = fast
    source = [(data, k) for k, data in enumerate(BASELINE * 10)]
    loader = ours(source, PREPROCESS[preprocess], batch_size=len(BASELINE), decoders=decoders)
    taken = epoch(gpu, loader)
    assert "jpegs_on_cpu" not in loader.stats()
    kinds = ("upload", "launch", "host wait", "enqueued")
    for lane in {op.thread for op in gpu.order.of("launch")}:
        log = [op for op in gpu.order.log if op.thread == lane and op.kind in kinds]
        begins = [k - 1 for k, op in enumerate(log) if op.told.get("name") == "find"]
        for begin, end in pairwise([*begins, len(log)]):
            ops = [op.kind for op in log[begin:end]]
            assert ops[:2] == ["upload", "launch"]
            assert "host wait" not in ops[: ops.index("enqueued")]
    events = [op for op in gpu.order.of("host wait") if op.told["name"] == "event"]  # not for new memory
    assert len([op for op in events if not op.thread.startswith("gpuimg")]) <= taken
    assert not (fast and events)


@pytest.mark.parametrize("on_error", ["raise", "fill", "skip"])
@pytest.mark.parametrize("preprocess", ["small", "mixed", "nothing"])
def test_a_batch_that_kernels_report_is_computed_again(gpu: FakeGpu, preprocess: str, on_error: Any) -> None:
    """With what the CPU decodes; batches after it are waited for at once."""
    source = [(data if k % 2 else bytearray(data), k) for k, data in enumerate(BASELINE * 5)]
    expected = gi.decode_batch(BASELINE, device="cpu")
    gpu.damaged.update((0, 2))
    loader = ours(source, PREPROCESS[preprocess], batch_size=len(BASELINE), on_error=on_error, prefetch=1, decoders=1)
    for number, batch in enumerate(loader):
        for k, values in enumerate(gpu.use_all(arrays_of(batch))):
            assert preprocess != "nothing" or np.array_equal(values, expected[k]) == (k in (0, 2))
        assert batch.indices.tolist() == [*range(len(BASELINE) * number, len(BASELINE) * (number + 1))]
        assert batch.valid.all()
    assert loader.stats()["jpegs_on_cpu"] == 10
    reruns = [op for op in gpu.order.of("launch") if op.told["name"] == "find" and not op.thread.startswith("gpuimg")]
    assert (0 if on_error == "skip" else 1) <= len(reruns) <= 2 * (on_error != "skip")  # one is computed ahead


@pytest.mark.parametrize("damaged", [True, False])
def test_an_exception_that_wrong_pixels_cause_is_not_raised(gpu: FakeGpu, damaged: bool) -> None:
    """It may be one of the user's function, which sees the pixels before the statuses are read."""
    calls: list[Any] = []

    def strict(x: gi.Batch, rng: gi.Rng) -> Any:
        calls.append(gi.resize(x, (8, 8)).array())
        if len(calls) == 1:
            raise RuntimeError("black")
        return calls[-1]

    if damaged:
        gpu.damaged.add(1)
    loader = ours([(data, 0) for data in BASELINE], strict, batch_size=len(BASELINE))
    with nullcontext() if damaged else pytest.raises(RuntimeError, match="black"):
        assert epoch(gpu, loader) == 1
    assert len(calls) == 1 + damaged


def test_a_reported_image_that_the_cpu_does_not_decode_either(gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    decode = gpu.decode.CpuRuntime.decode

    def failing(self: Any, images: Any, regions: Any) -> Any:
        pixels, outcome = decode(self, images, regions)
        outcome.failures[0] = "no such code"
        return pixels, outcome

    monkeypatch.setattr(gpu.decode.CpuRuntime, "decode", failing)
    gpu.damaged.add(1)
    with pytest.raises(gi.DecodeError, match="no such code"):
        decoded(BASELINE)
    source = [(data, 0) for data in BASELINE]
    with pytest.raises(gi.DecodeError, match="no such code"):
        epoch(gpu, ours(source, batch_size=len(source)))
    loader = ours(source, batch_size=len(source), on_error="fill")
    with pytest.warns(RuntimeWarning, match="no such code"):
        (batch,) = loader
    gpu.use(batch.images)
    assert np.flatnonzero(~batch.valid).tolist() == [1]
    assert [failure.index for failure in loader.failures] == [1]


#: Files; and what decodes each, nvImageCodec ("n"), our kernels ("k") or the CPU ("c"), or else an error: for each way
#: to ask, with nvImageCodec, with one that has no decoder for this GPU, and without.
ROUTED = {
    "baseline": encoded(photo(40, 30)), "turned": turned(encoded(photo(40, 30)), 6), "progressive": file(24, 30),
    "narrow": encoded(photo(5, 28)), "gap": encoded(photo(36, 28)).replace(b"\xff\xdb", b"\0\0\xff\xdb", 1),
    "png": file_of(photo(30, 20), "PNG"), "recoded": gi.recode_jpeg(encoded(photo(44, 26))),
}  # fmt: skip
ROUTES: dict[str, tuple[dict[str, Any], str | None, tuple[str, str, str]]] = {
    "auto": ({}, None, ("nnnkcck", "kkckcck", "kkckcck")),
    "auto, draft": ({"draft": 1.5}, None, ("kknkcck", "kkckcck", "kkckcck")),
    "nvimagecodec": ({"decoder": "nvimagecodec"}, None, ("nnnkcck", "kkckcck", "install it")),
    "nvimagecodec, draft": ({"decoder": "nvimagecodec", "draft": 1.5}, None, ("nnnkcck", "kkckcck", "install it")),
    "cache": ({"cache": 9}, None, ("cache holds decoded images on the CPU",) * 3),
    "gpuimg": ({"decoder": "gpuimg"}, None, ("kkckcck", "kkckcck", "kkckcck")),
    "gpuimg, draft": ({"decoder": "gpuimg", "draft": 1.5}, None, ("kkckcck", "kkckcck", "kkckcck")),
    "job's nvimagecodec": ({"draft": 1.5}, "nvimagecodec", ("nnnkcck", "kkckcck", "install it")),
    "job's gpuimg": ({}, "gpuimg", ("kkckcck", "kkckcck", "kkckcck")),
    "job's auto": ({}, "auto", ("nnnkcck", "kkckcck", "kkckcck")),
    "call before job": ({"decoder": "gpuimg"}, "nvimagecodec", ("kkckcck", "kkckcck", "kkckcck")),
    "no such job": ({}, "nvjpeg", ("GPUIMG_DECODER must be",) * 3),
    "no such decoder": ({"decoder": "nvjpeg"}, "gpuimg", ("decoder must be",) * 3),
}


def missing() -> Any:
    raise ImportError("nvImageCodec is not installed; install it")


def route_of(gpu: FakeGpu, image: Any, data: bytes) -> str:
    gpu.use(image)
    if data in [op.told["data"] for op in gpu.order.of("decode")]:
        return "n"
    return "k" if np.all(gpu.values(image) == 77) else "c"  # what the fake's kernel writes


@pytest.mark.filterwarnings("ignore:nvImageCodec")
@pytest.mark.parametrize("here", range(3), ids=["all", "no decoder", "not installed"])
@pytest.mark.parametrize("way", ROUTES)
def test_routes(gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch, way: str, here: int) -> None:
    """Of each file, among others and alone."""
    options, job, expected = ROUTES[way]
    monkeypatch.setenv("GPUIMG_DECODER", job or "")
    if here == 1:
        monkeypatch.setattr(gpu.library, "lacks", {"hardware", "hybrid"})
    elif here == 2:
        monkeypatch.setattr(nvimgcodec, "library", missing)
    files = list(ROUTED.values())
    if len(expected[here]) != len(files):
        with pytest.raises((ValueError, ImportError), match=expected[here]):
            load([(data, 0) for data in files], None, **options)
        return
    parts = [files, *([data, file(9, 9, "png")] for data in files)]
    found = []
    for part in parts:
        gpu.order.log.clear()
        (batch,) = load([(data, 0) for data in part], None, batch_size=len(part), **options)
        found.append("".join(map(partial(route_of, gpu), batch.images, part)))
    assert found == [expected[here], *(one + "c" for one in expected[here])]


def test_an_exception_leaves_no_state(gpu: FakeGpu) -> None:
    """Memory that is still read is not given to others."""
    bad = [*mixed_files(), file(24, 30, "memory")]
    for _ in range(3):
        with pytest.raises(MemoryError):
            opened(bad).compute()
        gpu.use(gpu.cupy.zeros(60_000, np.uint8))
        gpu.use_all(opened(mixed_files()).compute())
        gpu.refuse_above = 30_000  # as coefficients take, when marks at other places are being written
        with pytest.raises(gpu.cupy.cuda.memory.OutOfMemoryError):
            opened(mixed_files(SIZES[::-1])).compute()
        gpu.refuse_above = None
