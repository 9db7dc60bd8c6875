"""JPEGs decoded by segments on a GPU: kernels in Numba's simulator, their machine code, and the host's part."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import gpuimg as gi
from gpuimg._decoding import exif
from gpuimg._runtimes.images import ALIGNMENT, EncodedImages, Pixels, offsets_of
from gpuimg._runtimes.jpeg_upload import Upload
from gpuimg.kernels.jpeg import build, huffman
from gpuimg.kernels.jpeg import layout as words
from gpuimg.kernels.jpeg import segments as parts
from gpuimg.kernels.jpeg.seek import ACCESS_WORDS

from . import jpegs
from .jpegs import encoded, noise

PHOTOS = sorted((Path(__file__).parents[1] / "examples" / "photos").glob("*.jpg"))

Entry = NDArray[np.uint8]


# -- entries and batches -----------------------------------------------------------------------------------------------


def entries_of(files: list[bytes], every: int) -> list[Entry]:
    """Entries of a seek index; empty for files that have none."""
    headers = jpegs.read_headers(files)
    room = np.zeros(len(files), np.int64)
    build.room_for_entries(headers.words, every, room)
    begins = np.concatenate([[0], np.cumsum(room)])
    out, told = np.zeros(begins[-1], np.uint8), np.zeros((len(files), build.TOLD_WORDS), np.int64)
    tables, memory = np.zeros(huffman.TABLE_WORDS, np.int64), np.zeros(build.WORK_BYTES, np.uint8)
    build.build_entries(*headers, every, tables, memory, out, begins, told)
    return [out[begins[i] : begins[i] + told[i, 3]].copy() for i in range(len(files))]


def access_to(entries: list[Entry], every: int) -> NDArray[np.int64]:
    """What a runtime is told of entries, which must live on."""
    access = np.zeros((len(entries), ACCESS_WORDS), np.int64)
    for row, entry in zip(access, entries, strict=True):
        if entry.size:
            row[:3] = entry.ctypes.data, entry.size, every
    return access


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

np.seterr(over="ignore")
case = np.load(sys.argv[1], allow_pickle=True)
words, out, status = case["words"], case["out"], np.zeros(int(case["n"]), np.int32)
for blocks, launches in case["parts"]:
    coefficients = np.zeros(blocks * upload.COEFFICIENTS, np.int16)
    planes = np.full(blocks * upload.PLANE_WORDS, 0x55555555, np.int32)
    known = {"coefficients": coefficients, "planes": planes, "plane_bytes": planes.view(np.uint8), "words": words,
             "status": status, "out": out}
    for name, grid, block, arguments in launches:
        kernel = cuda.jit(getattr(jpeg, name))
        if name == "colors":  # smaller blocks: the simulator starts a thread for each
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
    uploaded = Upload(images, access_to(entries, case.every), pixels, case.regions, case.most_blocks)
    uploaded_words = np.full(uploaded.words, 0x5A5A5A5A, np.int32)
    uploaded.write(uploaded_words)
    if change is not None:
        change(uploaded_words, uploaded)
    names = "words", "coefficients", "planes", "plane_bytes", "out", "status"
    listed = np.empty(len(uploaded.parts), object)
    for k, part in enumerate(uploaded.parts):
        listed[k] = int(part[parts.PART_BLOCKS]), list(uploaded.launches(part, *names))
    np.savez(folder / "case.npz", words=uploaded_words, out=out, n=len(images), parts=listed)
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "NUMBA_DISABLE_JIT": "1"}
    arguments = [sys.executable, "-c", _SIMULATE, str(folder / "case.npz"), str(folder / "out.npz")]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = np.load(folder / "out.npz")
    pixels = Pixels(found["out"], offsets, images.sizes, case.channels)
    return Found(pixels, np.flatnonzero(found["status"]).tolist(), uploaded)


def assert_the_cpus(case: Case, found: Found) -> None:
    """The pixels of each region are the CPU's, and nothing beside them was written."""
    decoder = jpegs.Decoder()
    for i, data in enumerate(case.files):
        turn = int(jpegs.header_of(data)[words.ORIENTATION])
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


def test_whole_images(tmp_path: Path) -> None:
    files = samplings()
    case = Case(files, whole(files))
    found = simulated(case, tmp_path)
    assert found.uploaded.taken == list(range(len(files)))
    assert found.marked == []
    assert_the_cpus(case, found)
