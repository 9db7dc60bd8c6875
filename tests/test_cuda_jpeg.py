"""JPEGs decoded by segments on a GPU: kernels in Numba's simulator, their machine code, and the host's part."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import gpuimg as gi
from bench import bench_kernels as bench
from gpuimg._decoding import exif
from gpuimg._decoding.jpeg import read_headers
from gpuimg._decoding.seek import Seek
from gpuimg._runtimes.images import ALIGNMENT, EncodedImages, Pixels, offsets_of
from gpuimg._runtimes.jpeg_upload import Upload
from gpuimg.kernels.jpeg import layout as words
from gpuimg.kernels.jpeg import segments as parts
from gpuimg.kernels.jpeg import upload

from . import jpegs
from .jpegs import encoded, entries_of, noise
from .seek_oracle import checksum_of_entry
from .standin import Standin, file
from .standin.work import PREPROCESS, SIZES, epoch, load

ROOT = Path(__file__).parents[1]
PHOTOS = sorted((ROOT / "examples" / "photos").glob("*.jpg"))

Entry = NDArray[np.uint8]


# -- entries and batches -----------------------------------------------------------------------------------------------


def seek_of(entries: Sequence[Any], every: int) -> Seek:
    """A batch's entries; None for files that have none."""
    found = [np.zeros(0, np.uint8) if entry is None else entry for entry in entries]
    places = [entry.ctypes.data if entry.size else 0 for entry in found]
    return Seek.of(places, [entry.size for entry in found], found, every, "the index")


def batch_of(files: list[bytes], channels: int = 3) -> EncodedImages:
    images = gi.open_batch(files, device="cpu", color="rgb" if channels == 3 else "gray")._source
    assert isinstance(images, EncodedImages)
    return images


def turned(data: bytes, orientation: int) -> bytes:
    """A file with an orientation."""
    block = Image.Exif()
    block[0x0112] = orientation
    body = block.tobytes()
    return data[:2] + jpegs.segment(0xE1, body) + data[2:]


class Case(NamedTuple):
    """Files, what is wanted of each, as shown, and what is known of them."""

    files: list[bytes]
    regions: NDArray[np.int64]
    channels: int = 3
    every: int = 4
    most_blocks: int = 1 << 20
    entries: list[Entry] | None = None


def whole(files: list[bytes]) -> NDArray[np.int64]:
    sizes = batch_of(files).sizes
    return np.stack([np.zeros(len(files), np.int64), np.zeros(len(files), np.int64), sizes[:, 1], sizes[:, 0]], 1)


def some_regions(files: list[bytes], rng: np.random.Generator) -> NDArray[np.int64]:
    """A region of each."""
    found = []
    for _, _, width, height in whole(files):
        x0, y0 = rng.integers(width), rng.integers(height)
        found.append((x0, y0, rng.integers(x0, width) + 1, rng.integers(y0, height) + 1))
    return np.array(found, np.int64)


# -- the simulator -----------------------------------------------------------------------------------------------------

_SIMULATE = """
import sys
import numpy as np
from gpuimg.kernels.cuda import jpeg
from gpuimg.kernels.jpeg import upload
from numba import cuda
import tests.simulator

np.seterr(over="ignore")
case = np.load(sys.argv[1], allow_pickle=True)
words, out, status = case["words"], case["out"], np.zeros(int(case["n"]), np.int32)
for blocks, launches in case["parts"]:
    coefficients = np.zeros(blocks * upload.COEFFICIENTS, np.int16)
    planes = np.full(blocks * upload.PLANE_WORDS, 0x55555555, np.int32)
    known = {"coefficients": coefficients, "planes": planes, "plane_bytes": planes.view(np.uint8), "words": words,
             "status": status, "out": out}
    for name, grid, arguments in launches:
        block = jpeg.KERNELS[name].block
        kernel = cuda.jit(jpeg.KERNELS[name].function)
        if name == "colors":  # smaller blocks: a simulator starts a thread for each
            grid, block = (grid[0] * block // 32, grid[1]), 32
        kernel[grid, block](*[known[a] if isinstance(a, str) else a for a in arguments])
np.savez(sys.argv[2], out=out, status=status)
"""


class Found(NamedTuple):
    """What came of a case: the arena, its pixels, which files are marked, and the upload."""

    pixels: Pixels
    marked: list[int]
    uploaded: Upload


def simulated(case: Case, folder: Path, change: Any = None) -> Found:
    """Run the kernels in a process of their own; ``change`` may alter the words before."""
    images = batch_of(case.files, case.channels)
    entries = entries_of(case.files, case.every) if case.entries is None else case.entries
    offsets, total = offsets_of(images.sizes, case.channels, ALIGNMENT)
    out = np.full(total, 0xA5, np.uint8)
    pixels = Pixels(out, offsets, images.sizes, case.channels)
    uploaded = Upload(images, seek_of(entries, case.every), pixels, case.regions, case.most_blocks)
    uploaded_words = np.full(uploaded.words, 0x5A5A5A5A, np.int32)
    uploaded.write(uploaded_words)
    if change is not None:
        change(uploaded_words, uploaded)
    names = "words", "coefficients", "planes", "plane_bytes", "out", "status"
    listed = np.empty(len(uploaded.parts), object)
    for k, part in enumerate(uploaded.parts):
        listed[k] = int(part["blocks"]), list(uploaded.launches(part, *names))
    np.savez(folder / "case.npz", words=uploaded_words, out=out, n=len(images), parts=listed)
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "NUMBA_DISABLE_JIT": "1"}
    arguments = [sys.executable, "-c", _SIMULATE, str(folder / "case.npz"), str(folder / "out.npz")]
    done = subprocess.run(arguments, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = np.load(folder / "out.npz")
    pixels = Pixels(found["out"], offsets, images.sizes, case.channels)
    return Found(pixels, np.flatnonzero(found["status"]).tolist(), uploaded)


def assert_the_cpus(case: Case, found: Found) -> None:
    """The pixels of each region are the CPU's, and nothing beside them was written."""
    decoder = jpegs.Decoder()
    for i in found.uploaded.taken:
        data = case.files[i]
        turn = int(jpegs.header_of(data)["orientation"])
        x0, y0, x1, y1 = case.regions[i].tolist()
        expected = np.full(found.pixels.shape(i), 0xA5, np.uint8)
        expected[y0:y1, x0:x1] = exif.turned(decoder(data, channels=case.channels).pixels, turn)[y0:y1, x0:x1]
        np.testing.assert_array_equal(found.pixels.view(i), expected, err_msg=str(i))


def photo(width: int, height: int) -> Image.Image:
    return Image.open(PHOTOS[0]).convert("RGB").resize((width, height))


def samplings() -> list[bytes]:
    """Every sampling, of a photo and of noise, in odd sizes."""
    files = []
    for k, sampling in enumerate(jpegs.SAMPLINGS):
        image = photo(41, 35) if k % 2 else noise(19, 37, k)
        files.append(encoded(image, sampling, quality=90, optimize=k % 3 == 0))
    return files


@pytest.mark.parametrize("channels", [3, 1])
def test_whole_images(channels: int, tmp_path: Path) -> None:
    files = samplings()
    case = Case(files, whole(files), channels)
    found = simulated(case, tmp_path)
    taken = [i for i, data in enumerate(files) if channels == 3 or jpegs.header_of(data)["color"] != words.RGB]
    assert found.uploaded.taken == taken
    assert found.uploaded.refused == found.marked == []
    assert_the_cpus(case, found)


@pytest.mark.parametrize("every", [0, 2, 8])
def test_regions(every: int, tmp_path: Path) -> None:
    """Of every sampling and orientation; the batch is decoded in parts."""
    rng = np.random.default_rng()
    files = [turned(data, k % 8 + 1) for k, data in enumerate(samplings() * 2)]
    regions = np.concatenate([whole(files[:3]), some_regions(files[3:], rng)])
    case = Case(files, regions, every=every, most_blocks=100)
    found = simulated(case, tmp_path)
    assert len(found.uploaded.parts) > 1
    assert found.uploaded.taken == list(range(len(files)))
    assert found.marked == [], regions
    assert_the_cpus(case, found)


def test_restart_intervals(tmp_path: Path) -> None:
    """Shorter and longer than a row, regions that need all of them, and some."""
    files = []
    for k, sampling in enumerate(jpegs.SAMPLINGS):
        options: Any = {"restart_marker_rows": 1} if k == 2 else {"restart_marker_blocks": (1, 3, 4, 11)[k % 4]}
        files.append(encoded(photo(70, 45), sampling, quality=80, **options))
    regions = np.concatenate([whole(files[:3]), some_regions(files[3:], np.random.default_rng())])
    case = Case(files, regions)
    found = simulated(case, tmp_path)
    assert found.uploaded.taken == list(range(len(files)))
    assert found.marked == [], regions
    assert_the_cpus(case, found)


def with_table(data: bytes, steps: list[int]) -> bytes:
    """A file with one quantisation table, of 16 bits."""
    body = b"\x10" + b"".join(step.to_bytes(2, "big") for step in steps)

    def change(marker: int, old: bytes) -> list[tuple[int, bytes]]:
        if marker != jpegs.DQT:
            return [(marker, old)]
        numbers = [old[at] & 15 for at in range(0, len(old), 65)]
        return [(marker, bytes([0x10 | number]) + body[1:]) for number in numbers]

    return jpegs.rebuilt(data, change)


def test_absurd_coefficients(tmp_path: Path) -> None:
    """Products and sums wrap and saturate where the CPU's do."""
    rng = np.random.default_rng()
    files = []
    for k, sampling in enumerate(("4:4:4", "4:2:0", "gray", "4:4:4", "gray", "gray")):
        data = encoded(noise(24, 32, k), sampling, quality=100 if k < 4 else 10)
        files.append(with_table(data, rng.integers(1, (65536, 4000, 500)[k % 3], 64).tolist()))
    smooth = encoded(photo(32, 24), "gray", quality=30)  # blocks of a first row only, or of one value
    files += [with_table(smooth, [int(step)] * 64) for step in rng.integers(40, 5000, 4)]
    case = Case(files, whole(files))
    found = simulated(case, tmp_path)
    assert found.uploaded.taken == list(range(len(files)))
    assert found.marked == []
    assert_the_cpus(case, found)


# -- what does not fit -------------------------------------------------------------------------------------------------


def checked(entry: Entry, every: int) -> Entry:
    """An entry that was changed, with a checksum that says that it was not."""
    made = entry.copy()
    made[12:16].view("<u4")[:] = checksum_of_entry(made.tobytes(), every)
    return made


def test_entries_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    """Another file's, a damaged one, one of a file that has changed; files without one, and bad ones, are left out."""
    files = [encoded(photo(40, 30), quality=quality) for quality in (50, 60, 70, 80, 90, 95)]
    entries = entries_of(files, 4)
    damaged = entries[1].copy()
    damaged[20] ^= 1
    changed = bytearray(files[2])
    changed[-30] ^= 1
    files[2] = bytes(changed)
    given = [entries[3], damaged, entries[2], entries[3][:0], entries[4], entries[5][:-1]]
    case = Case(files, whole(files), entries=given)
    images = batch_of(files)
    pixels = Pixels(np.empty(1, np.uint8), offsets_of(images.sizes, 3)[0], images.sizes, 3)
    uploaded = Upload(images, seek_of(given, case.every), pixels, case.regions)
    assert uploaded.refused == [0, 1, 2, 5]
    assert uploaded.taken == [4]


def test_what_is_wrong_is_reported_and_does_no_harm(tmp_path: Path) -> None:
    """Entries and words that are not what they should be: the simulator sees what is touched outside."""
    rng = np.random.default_rng()
    files = [
        encoded(photo(40, 30), quality=q, subsampling=k % 2) for k, q in enumerate((50, 60, 70, 80, 90, 95, 98, 99))
    ]
    files = [turned(data, 1) for data in files]
    expected = [gi.decode_batch([data], device="cpu")[0] for data in files]
    entries = entries_of(files, 4)
    for k in (1, 2, 3):  # a bit of a row, a predictor, a distance
        entry = entries[k].copy()
        entry[{1: 20, 2: -30, 3: -1}[k]] ^= 1 + int(rng.integers(4))
        entries[k] = checked(entry, 4)
    case = Case(files, whole(files), entries=entries)

    def change(words_: Any, uploaded: Upload) -> None:
        totals = uploaded.totals
        at, n = int(totals["segment_word"]), int(totals["segments"])
        segments = words_[at : at + n * upload.SEGMENT_WORDS].view(upload.SEGMENT)
        for image in (4, 5, 6):
            for segment in segments[segments["image"] == image]:
                first = int(segment["word"])
                body = words_[first : first + (int(segment["end"]) + 31) // 32].view(np.uint8)
                body[:] = {4: 0xFF, 5: 0, 6: rng.integers(0, 256, body.size)}[image]

    found = simulated(case, tmp_path, change)
    wrong = {*found.marked, *found.uploaded.refused}
    assert wrong == {1, 2, 3, 4, 5, 6}
    for i in (0, 7):
        np.testing.assert_array_equal(found.pixels.view(i), expected[i])


# -- limits ------------------------------------------------------------------------------------------------------------


def test_images_beyond_32_bits_of_words_are_left_out() -> None:
    """Places in what is uploaded are int32; other images of the batch are decoded as if they were not there."""
    files = [encoded(photo(40, 30), quality=quality) for quality in (50, 60, 70, 80)]
    headers, wanted, n = read_headers(files), whole(files), len(files)
    images, scratch = np.zeros(n, parts.SELECTED), np.zeros(1, parts.SCRATCH)[0]
    access = seek_of(entries_of(files, 4), 4).access
    parts.select_segments(*headers, access, wanted, 3, 1 << 20, 0, n, images, scratch)
    assert images["status"].tolist() == [parts.TAKEN] * n
    small = int(images["bytes"][3])
    images["bytes"][:3] = 4 << 30
    pairs, totals, room = np.zeros(n, parts.PAIR), np.zeros(1, parts.TOTALS)[0], np.zeros(n, parts.PART)
    parts.plan_upload(*headers, wanted, 1 << 20, 65535, images, np.zeros(n, np.int64), pairs, room, totals)
    assert images["status"].tolist() == [parts.TAKEN, parts.LEFT_OUT, parts.LEFT_OUT, parts.TAKEN]
    assert totals["images"] == 2
    end = images["word"][3] + small // 4 + upload.BEYOND
    assert end == totals["words"] <= np.iinfo(np.int32).max


def test_bits_of_an_interval_are_bounded_by_its_blocks() -> None:
    """Behind the last restart interval may be anything, between two of them nothing but a marker."""
    data = encoded(photo(64, 48), "4:4:4", restart_marker_rows=1)
    blocks = 8 * 3
    junk = bytes(blocks * 512)
    behind_all = data[:-2] + junk + data[-2:]
    marker = data.index(b"\xff\xd0")
    between = data[:marker] + junk + data[marker:]
    images = batch_of([data, behind_all, between])
    pixels = Pixels(np.empty(1, np.uint8), offsets_of(images.sizes, 3)[0], images.sizes, 3)
    uploaded = Upload(images, seek_of([None] * 3, 0), pixels, whole([data] * 3))
    filled = np.zeros(uploaded.words, np.int32)
    uploaded.write(filled)
    assert (uploaded.taken, uploaded.refused) == ([0, 1], [2])
    at, n = int(uploaded.totals["segment_word"]), int(uploaded.totals["segments"])
    segments = filled[at : at + n * upload.SEGMENT_WORDS].view(upload.SEGMENT)
    assert n == 18
    assert segments["end"][segments["image"] == 1].max() == 8 * blocks * 512


# -- the host's part ---------------------------------------------------------------------------------------------------


def indexed_files(sizes: Any = SIZES) -> list[bytes]:
    """Files of an index, but one progressive and one PNG between them; one is turned, one has restart markers."""
    files = [encoded(photo(width, height), quality=85) for height, width in sizes]
    other = io.BytesIO()
    photo(30, 20).save(other, "PNG")
    markers = encoded(photo(50, 40), restart_marker_rows=1)
    return [files[0], file(24, 30), turned(files[1], 6), other.getvalue(), *files[2:], markers]


WITHOUT = 1, 3  # those that other decoders take


def opened(files: list[bytes], entries: list[Entry] | None = None, every: int = 4, **options: Any) -> gi.Batch:
    """A batch of the stand-in's; ``file`` (a decoder's own) has no entry."""
    batch = gi.open_batch(files, device="cuda:0", **options)
    if entries is None:
        entries = entries_of(files, every)
        entries[WITHOUT[0]] = entries[WITHOUT[0]][:0]
    source = batch._source
    assert isinstance(source, EncodedImages)
    batch._source = replace(source, seek=seek_of(entries, every))
    return batch


def kernels_of(gpu: Standin) -> list[str]:
    return [op.told["name"] for op in gpu.order.of("launch")]


def fates(batch: gi.Batch) -> list[int]:
    source = batch._source
    assert isinstance(source, EncodedImages)
    assert source.seek is not None
    found: list[int] = source.seek.fates.tolist()
    return found


JPEG = ["huffman", "inverse_dct", "colors"]


def test_views_share_the_region_that_is_decoded(gpu: Standin) -> None:
    """Every entry is used once, and what each view reads is written: the stand-in would tell."""
    x = opened(indexed_files([(64, 64), (48, 40)]))
    files = range(len(x))
    place = np.arange(3 * len(x)) % 8
    views = gi.resized_crop(x.take(np.tile(files, 3)), place, place, 9, 8, (7, 7))
    gpu.use(views.array())
    alone = opened(indexed_files([(64, 64), (48, 40)]))
    gpu.use(gi.resized_crop(alone, 0, 0, 9, 8, (7, 7)).array())
    assert fates(x) == fates(alone)
    assert kernels_of(gpu) == [*JPEG, "transform"] * 2


def test_a_batch_is_one_upload(gpu: Standin) -> None:
    """From pinned memory, as the plan; others are nvImageCodec's and the CPU's; all that a plan reads is there."""
    with gpu.stream():
        for _ in range(3):
            x = opened(indexed_files([(40, 56), (31, 33), (20, 24), (64, 64)]))
            gpu.use(gi.resized_crop(x, 3, 2, 9, 8, (7, 7)).array())
            assert fates(x) == [words.USED, 0, words.USED, 0, words.USED, words.USED, 0]
    assert kernels_of(gpu) == [*JPEG, "transform"] * 3
    uploads = gpu.uploads
    assert [op.told.get("pinned", False) for op in uploads] == [True, False, True] * 3
    assert len(gpu.order.of("decode")) == 3


@pytest.mark.parametrize("color", ["rgb", "gray"])
def test_whole_images_on_a_gpu(gpu: Standin, color: str) -> None:
    files = indexed_files()
    expected = gi.decode_batch(files, device="cpu", color=color)
    with gpu.stream():
        for _ in range(2):
            for i, image in enumerate(opened(files, color=color).compute()):
                gpu.use(image)
                assert image.shape == expected[i].shape
                if i in WITHOUT:
                    np.testing.assert_array_equal(image.values, expected[i])
                else:  # what the stand-in's kernel writes
                    assert np.all(image.values == 77)
            del image


def test_what_kernels_report_the_cpu_decodes(gpu: Standin) -> None:
    files = indexed_files()
    expected = gi.decode_batch(files, device="cpu")
    gpu.damaged.update((2, 6))
    x = opened(files)
    with pytest.warns(RuntimeWarning, match="1 entry that does not fit"):
        result = x.compute()
    for i, image in enumerate(result):
        gpu.use(image)
        if i in (*WITHOUT, 2, 6):
            np.testing.assert_array_equal(image.values, expected[i])
    assert fates(x) == [words.USED, 0, words.MISMATCH, 0, words.USED, words.USED, 0]


def test_refused_entries_are_the_cpus(gpu: Standin) -> None:
    """Which tells why; nothing is launched where nothing is left."""
    files = indexed_files()[:5]
    entries = entries_of(files, 4)
    given = [entries[2], entries[1][:0], entries[0], entries[3], entries[4][:-1]]
    expected = gi.decode_batch(files, device="cpu")
    x = opened(files, given)
    with pytest.warns(RuntimeWarning, match="3 entries that do not fit"):
        result = x.compute()
    for one, other in zip(result, expected, strict=True):
        gpu.use(one)
        np.testing.assert_array_equal(one.values, other)
    assert kernels_of(gpu) == []
    assert [op.told["name"] for op in gpu.order.of("decode")] == ["good"]


def test_an_exception_leaves_nothing_behind(gpu: Standin) -> None:
    """Memory that is still read is not given to others."""
    bad = [*indexed_files(), file(24, 30, "memory")]
    entries = entries_of(bad, 4)
    entries[WITHOUT[0]] = entries[-1] = entries[WITHOUT[0]][:0]
    for _ in range(3):
        with pytest.raises(MemoryError):
            opened(bad, entries).compute()
        gpu.use(gpu.cupy.zeros(60_000, np.uint8))
        for image in opened(indexed_files()).compute():
            gpu.use(image)
        del image


def test_images_without_a_header_have_no_segments(gpu: Standin) -> None:
    """Too large for the limit, or no image at all."""
    files = [encoded(photo(90, 80)), b"no image", encoded(photo(20, 20))]
    x = opened(files, entries_of(files, 4), on_error="fill", max_pixels=1000)
    result = gi.resize(x, (8, 8)).compute()
    for image in result:
        gpu.use(image)
    assert [status == "ok" for status in result.status] == [False, False, True]
    assert kernels_of(gpu) == [*JPEG, "transform"]


@pytest.mark.parametrize("preprocess", ["small", "blurred", "mixed", "nothing", "alternating"])
def test_loading_with_an_index(gpu: Standin, preprocess: str, tmp_path: Path) -> None:
    source = IndexedSource(21)
    gi.build_index(source, tmp_path / "index", every=4, progress=False)
    loader = load(source, PREPROCESS[preprocess], decoders=2, index=tmp_path / "index")
    assert epoch(gpu, loader, held=2) == 6
    assert kernels_of(gpu).count("colors") >= 5


class IndexedSource:
    """Photos of many sizes, some turned."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> tuple[bytes, int]:
        data = encoded(photo(20 + 7 * i % 40, 16 + 11 * i % 30), quality=85)
        return turned(data, (1, 6, 1, 3)[i % 4]), i


# -- machine code ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("capability", [(8, 0), (9, 0)], ids=bench.target)
@pytest.mark.parametrize("name", bench.JPEG_KERNELS)
def test_machine_code(name: str, capability: tuple[int, int]) -> None:
    """Everything in at most 48 registers, whole numbers only."""
    code = bench.compiled(bench.Variant("jpeg", name), capability)
    for word in (".f64", ".f32", ".local"):
        assert word not in code.ptx
    assert code.stack == code.spilled == 0
    assert code.instructions["registers"] <= 48


def test_instructions_a_symbol_are_those_of_its_loop() -> None:
    """Without those of the branch that most symbols pass over; test_cuda_kernels.py compares them with the budget."""
    text = "bar.sync 0;\n$A:\n a;\n @%p bra $C;\n$B:\n x;\n y;\n @%p bra $B;\n$C:\n b;\n c;\n @%p bra $A;\n d;\n"
    assert bench.instructions_a_symbol(text) == 5
