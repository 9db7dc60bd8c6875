"""Random access into JPEGs: with a seek index, or restart markers, the pixels are those without, bit for bit."""

from __future__ import annotations

import mmap
import os
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray
from PIL import Image

import gpuimg as gi
from gpuimg.kernels.jpeg import huffman
from gpuimg.kernels.jpeg import layout as words
from gpuimg.kernels.jpeg import seek as seek_loops

from . import jpegs
from .jpegs import SAMPLINGS, Decoder, Region, encoded, noise, pillow_pixels
from .seek_oracle import checksum, checksum_of_entry

PHOTOS = sorted((Path(__file__).parents[2] / "examples" / "photos").glob("*.jpg"))
REGIONS = int(os.environ.get("GPUIMG_TEST_REGIONS", "500"))
EVERY = (0, 4, 8, 16)

Entry = NDArray[np.uint8]


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    return Decoder()


def entry_of(data: bytes, every: int) -> Entry:
    """The entry that is built for a file."""
    (entry,) = jpegs.entries_of([data], every)
    assert entry.size
    return entry


def some_region(rng: np.random.Generator, height: int, width: int) -> Region:
    x0, y0 = int(rng.integers(width)), int(rng.integers(height))
    return x0, y0, int(rng.integers(x0, width)) + 1, int(rng.integers(y0, height)) + 1


def assert_same(decoder: Decoder, data: bytes, region: Region, fate: int, **how: Any) -> None:
    """In color and gray, as without an entry."""
    for channels in (3, 1):
        plain, found = decoder(data, region, channels), decoder(data, region, channels, **how)
        assert (plain.how, plain.entry) == (words.DONE, words.UNUSED)
        assert (found.how, found.entry) == (words.DONE, fate), region
        np.testing.assert_array_equal(found.pixels, plain.pixels, err_msg=str(region))


# -- regions -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("every", EVERY)
def test_regions_of_photos(every: int, decoder: Decoder) -> None:
    rng = np.random.default_rng()
    files = [data for data in (path.read_bytes() for path in PHOTOS) if jpegs.is_baseline(data)]
    whole = [pillow_pixels(data) for data in files]
    entries = [entry_of(data, every) for data in files]
    for _ in range(REGIONS // len(EVERY)):
        i = int(rng.integers(len(files)))
        x0, y0, x1, y1 = region = some_region(rng, *whole[i].shape[:2])
        found = decoder(files[i], region, entry=entries[i], every=every)
        assert found.entry == words.USED
        np.testing.assert_array_equal(found.pixels, whole[i][y0:y1, x0:x1], err_msg=f"{PHOTOS[i]} {region}")


@pytest.mark.parametrize("sampling", [name for name in SAMPLINGS if name != "rgb"])
@pytest.mark.parametrize("options", [{}, {"optimize": True}], ids=["", "optimized"])
def test_regions_of_made_files(sampling: str, options: dict[str, Any], decoder: Decoder, photo: Image.Image) -> None:
    rng = np.random.default_rng()
    for image in (photo.resize((211, 97)), noise(75, 66, 3), photo.resize((40, 201))):
        data = encoded(image, sampling, quality=int(rng.integers(20, 99)), **options)
        for every in (0, 1, 3, 8):
            entry = entry_of(data, every)
            for _ in range(6):
                region = some_region(rng, image.height, image.width)
                assert_same(decoder, data, region, words.USED, entry=entry, every=every)


def test_segments_that_do_not_fit_into_16_bits_give_rows(decoder: Decoder) -> None:
    data = encoded(noise(64, 1200, 0), "4:4:4", quality=100)
    assert entry_of(data, 24).size > entry_of(data, 0).size  # of more than 15 bits
    assert_same(decoder, data, (900, 20, 1000, 50), words.USED, entry=entry_of(data, 24), every=24)
    assert entry_of(data, 64).size == entry_of(data, 0).size < entry_of(data, 16).size
    assert_same(decoder, data, (700, 20, 900, 50), words.USED, entry=entry_of(data, 64), every=64)


@pytest.mark.parametrize("interval", [1, 3, 7, 19, 40])
@pytest.mark.parametrize("sampling", ["4:2:0", "4:4:4", "gray"])
def test_restart_markers_need_no_entry(interval: int, sampling: str, decoder: Decoder, photo: Image.Image) -> None:
    rng = np.random.default_rng()
    data = encoded(photo, sampling, quality=90, restart_marker_blocks=interval)
    whole = {channels: pillow_pixels(data, channels) for channels in ((1,) if sampling == "gray" else (3, 1))}
    for _ in range(20):
        x0, y0, x1, y1 = region = some_region(rng, photo.height, photo.width)
        for channels, pixels in whole.items():
            found = decoder(data, region, channels, entry=np.ones(99, np.uint8), every=8)
            assert (found.how, found.entry) == (words.DONE, words.UNUSED)
            np.testing.assert_array_equal(found.pixels, pixels[y0:y1, x0:x1])


def markers(data: bytes) -> list[int]:
    """Offsets of the restart markers."""
    start = jpegs.scan_start(data)
    return [k for k in range(start, len(data) - 1) if data[k] == 0xFF and 0xD0 <= data[k + 1] <= 0xD7]


@pytest.mark.parametrize("damage", ["one missing", "eight missing", "another marker"])
def test_restart_markers_out_of_order_are_not_trusted(damage: str, decoder: Decoder, photo: Image.Image) -> None:
    """Intervals that are passed over unseen would make the rest another part of the image."""
    data = encoded(photo, quality=90, restart_marker_blocks=5)
    at = markers(data)
    bad = {
        "one missing": data[: at[8]] + data[at[9] :],
        "eight missing": data[: at[8]] + data[at[16] :],
        "another marker": data[: at[9] + 1] + bytes((0xD0 | (data[at[9] + 1] + 1) & 7,)) + data[at[9] + 2 :],
    }[damage]
    region = (120, 230, 160, 240)
    assert decoder(data, region).how == words.DONE
    assert decoder(bad, region).how != words.DONE


@pytest.mark.parametrize("scale", [4, 2, 1])
def test_regions_at_a_reduced_scale(scale: int, decoder: Decoder, photo: Image.Image) -> None:
    rng = np.random.default_rng()
    for sampling in ("4:2:0", "4:2:2", "4:4:4", "gray"):
        data = encoded(photo, sampling, quality=85)
        height, width = (-(-side * scale // 8) for side in (photo.height, photo.width))
        for every in (0, 2, 8):
            entry = entry_of(data, every)
            for _ in range(8):
                region = some_region(rng, height, width)
                plain = decoder(data, region, scale=scale)
                found = decoder(data, region, entry=entry, every=every, scale=scale)
                assert (found.how, found.entry) == (words.DONE, words.USED)
                np.testing.assert_array_equal(found.pixels, plain.pixels)


# -- entries that do not match -----------------------------------------------------------------------------------------


def rewritten(entry: Entry, at: int, change: int) -> Entry:
    """Another 16-bit number in an entry of 8 MCUs a segment, whose checksum is right."""
    changed = entry.copy()
    changed[at : at + 2].view("<i2")[:] += np.int16(change)
    changed[12:16].view("<u4")[:] = checksum_of_entry(changed.tobytes(), 8)
    return changed


def test_checksums_are_as_described(photo: Image.Image) -> None:
    for size in ((40, 40), (41, 33), (80, 97)):
        data = encoded(photo.resize(size))
        entry = entry_of(data, 8)
        assert int.from_bytes(entry[:8].tobytes(), "little") == checksum(data)
        assert int.from_bytes(entry[8:12].tobytes(), "little") == len(data)
        np.testing.assert_array_equal(rewritten(entry, 16, 0), entry)


def test_an_entry_of_another_file_is_not_used(decoder: Decoder, photo: Image.Image) -> None:
    data = encoded(photo)
    region = (100, 100, 150, 160)
    other = encoded(photo.transpose(Image.Transpose.ROTATE_180))
    assert len(other) != len(data)
    assert_same(decoder, data, region, words.OTHER_SIZE, entry=entry_of(other, 8), every=8)
    middle = (jpegs.scan_start(data) + len(data)) // 2
    for bit in range(0, 64, 7):  # the scan may decode all the same
        changed = bytearray(data)
        changed[middle + bit // 8] ^= 1 << bit % 8
        if decoder(bytes(changed), region).how == words.DONE:
            assert_same(decoder, bytes(changed), region, words.OTHER_FILE, entry=entry_of(data, 8), every=8)


def test_a_damaged_entry_is_not_used(decoder: Decoder, photo: Image.Image) -> None:
    data, region = encoded(photo), (100, 100, 150, 160)
    entry = entry_of(data, 8)
    for at in (12, 15, 16, 40, entry.size // 2, entry.size - 1):
        damaged = entry.copy()
        damaged[at] ^= 4
        assert_same(decoder, data, region, words.DAMAGED, entry=damaged, every=8)
    for wrong in (entry[:-1], entry[:8], entry[:1], np.zeros(entry.size + 2, np.uint8)):
        assert_same(decoder, data, region, words.DAMAGED, entry=wrong, every=8)
    for every in (4, 7, 9, 0):  # the segments of a row may be as many
        assert_same(decoder, data, region, words.DAMAGED, entry=entry, every=every)
    spliced = np.concatenate([entry[:12], entry_of(encoded(photo, quality=50), 8)[12:]])
    assert spliced.size == entry.size
    assert_same(decoder, data, region, words.DAMAGED, entry=spliced, every=8)


def test_points_are_checked_where_decoding_passes(decoder: Decoder, photo: Image.Image) -> None:
    """Whoever makes an entry with right checksums and wrong points is found out at the next point."""
    data = encoded(photo)
    entry = entry_of(data, 8)
    rows, segments = 15, 3  # of 300 x 240 in MCUs of 16 x 16, 8 MCUs a segment
    position, predictor = 16 + 4 * 8, 16 + 4 * rows + 6 * 8 * segments
    step = 16 + rows * (4 + 6 * segments) + 2 * 8 * (segments - 1)
    whole = (0, 0, photo.width, photo.height)
    for at, change in ((position, 1), (position, -8), (position, 1000), (predictor, 5), (predictor + 2, -1)):
        assert_same(decoder, data, whole, words.MISMATCH, entry=rewritten(entry, at, change), every=8)
    to_the_end = (160, 8 * 16, photo.width, 9 * 16)
    for change in (1, -1, 64, 20000):
        assert_same(decoder, data, to_the_end, words.MISMATCH, entry=rewritten(entry, step, change), every=8)


@pytest.mark.parametrize("every", [0, 8])
def test_a_point_among_fill_bytes_is_found_out(every: int, decoder: Decoder, photo: Image.Image) -> None:
    """Of more fill bytes than are read at a time nothing is left to decode, though the stream does not end there."""
    data = encoded(photo, "4:4:4")
    fill = 2 + 4
    data = data[:2] + jpegs.segment(0xFE, b"\xff" * 5000 + b"\1") + data[2:]
    entry = entry_of(data, every)
    row = 10
    bit = int(entry[16 + 4 * row :][:4].view("<u4")[0])
    forged = entry.copy()
    forged[16 + 4 * row :][:4].view("<u4")[0] = 8 * fill
    forged[12:16].view("<u4")[:] = checksum_of_entry(forged.tobytes(), every)
    assert bit > 8 * jpegs.scan_start(data)
    region = (0, 8 * row, 40, 8 * row + 8)
    assert_same(decoder, data, region, words.MISMATCH, entry=forged, every=every)


# -- large files -------------------------------------------------------------------------------------------------------

LONGEST = 2 + 0xFFFF  # bytes of a segment


def padded_after(data: bytes, size: int) -> NDArray[np.uint8]:
    """A file with metadata and fill bytes of this size in front; most pages of them take no memory."""
    memory = np.frombuffer(mmap.mmap(-1, size + len(data)), np.uint8)
    memory[:2] = np.frombuffer(data[:2], np.uint8)
    for at in range(2, size + 3 - LONGEST, LONGEST):
        memory[at : at + 4] = 0xFF, 0xE5, 0xFF, 0xFF
    memory[size + 2 - size % LONGEST :] = 0xFF
    memory[size + 2 :] = np.frombuffer(data[2:], np.uint8)
    return memory


@pytest.mark.parametrize("beyond", [True, False], ids=["all rows", "some rows"])
def test_positions_beyond_32_bits_give_no_entry(beyond: bool, decoder: Decoder, photo: Image.Image) -> None:
    """Positions are in bits: those of files of 512 MiB do not fit."""
    image = photo.resize((80, 400))
    data = encoded(image, "4:4:4", quality=90)
    middle = (jpegs.scan_start(data) + len(data)) // 2
    large = padded_after(data, (512 << 20) - (0 if beyond else middle))
    (built,) = jpegs.entries_of([large], 0)
    assert not built.size
    np.testing.assert_array_equal(decoder(large, (5, 100, 70, 130)).pixels, pillow_pixels(data)[100:130, 5:70])


@njit
def recorded(entry: Any, sections: Any, rows: Any, r: Any, s: Any, before: Any, stream: Any) -> Any:
    return seek_loops.record_start(entry, sections, rows, r, s, before, stream)


@njit
def start(entry: Any, sections: Any, rows: Any, r: Any, s: Any) -> Any:
    return seek_loops.segment_start(entry, sections, rows, r, s)


@njit
def located(rows: Any, segments: Any, sections: Any) -> Any:
    seek_loops.locate_sections(rows, segments, sections)


@pytest.mark.parametrize(
    ("bit", "step", "predictors", "fits"),
    [
        ((1 << 32) - 1, 0xFFFF, (0x7FFF, -0x8000, 0), (True, True)),
        (1 << 32, 1, (0, 0, 0), (False, True)),
        ((1 << 32) + 800, 1, (0, 0, 0), (False, True)),
        (1 << 40, 0xFFFF, (0, 0, 0), (False, True)),
        (800, 0x10000, (0, 0, 0), (True, False)),
        (800, 0x10005, (0, 0, 0), (True, False)),
        (800, 8, (0x8000, 0, 0), (False, False)),
        (800, 8, (0, -0x8001, 0), (False, False)),
        (800, 8, (0, 0, 0x10000), (False, False)),
    ],
)
def test_numbers_of_an_entry_at_their_limits(
    bit: int, step: int, predictors: tuple[int, ...], fits: tuple[bool, bool]
) -> None:
    """A mismatch is reported, and a position that does not match, or whose predictors do not, is not recorded."""
    rows, segments = 3, 2
    entry = np.zeros(16 + rows * (2 + 8 * segments), np.uint8)
    sections, stream = np.zeros(1, seek_loops.SECTIONS)[0], np.zeros(1, huffman.STREAM)[0]
    located(rows, segments, sections)
    stream["predictors"] = predictors
    for s, (place, fit) in enumerate(zip((bit, bit + step), fits, strict=True)):
        stream["bit"], stream["place_raw"] = place & 7, place >> 3
        assert recorded(entry, sections, rows, 1, s, bit if s else 0, stream) == (fit, place)
    assert start(entry, sections, rows, 1, 0) == (bit if fits[0] else 0)
    assert start(entry, sections, rows, 1, 1) == (0 if not fits[0] else bit + step if fits[1] else bit)
    assert start(entry, sections, rows, 0, 0) == start(entry, sections, rows, 2, 0) == 0


def test_files_of_4_gib_have_no_entry(decoder: Decoder, photo: Image.Image) -> None:
    """Their size is no 32-bit number."""
    data = encoded(photo)
    large = np.frombuffer(mmap.mmap(-1, 1 << 32), np.uint8)
    large[: len(data)] = np.frombuffer(data, np.uint8)
    (built,) = jpegs.entries_of([large], 8)
    assert not built.size
    found = decoder(large, (10, 10, 60, 60))
    np.testing.assert_array_equal(found.pixels, pillow_pixels(data)[10:60, 10:60])


# -- batches -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(photo: Image.Image) -> list[bytes]:
    sizes = [(300, 240), (211, 97), (64, 200), (240, 300)]
    several = [encoded(photo.resize(size), quality=60 + 5 * k) for k, size in enumerate(sizes)]
    turned = Image.Exif()
    turned[0x0112] = 6
    other = [encoded(photo, progressive=True), encoded(photo, restart_marker_rows=1), encoded(photo, exif=turned)]
    return [*several, *other]


@pytest.fixture
def index(files: list[bytes], tmp_path: Path) -> gi.SeekIndex:
    path = tmp_path / "some.gpuimg-index"
    gi.build_index([(data, k) for k, data in enumerate(files)], path, every=4)
    return gi.SeekIndex(path)


def crops(files: list[bytes], **options: Any) -> Any:
    x = gi.open_batch(files, device="cpu", **options)
    return gi.resized_crop(x, 40, 30, 50, 34, (32, 32)).array()


def test_open_batch(files: list[bytes], index: gi.SeekIndex) -> None:
    plain = crops(files)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(crops(files, index=index), plain)
        np.testing.assert_array_equal(crops(files, index=index.path), plain)
        np.testing.assert_array_equal(crops(files[::-1], index=index, indices=range(len(files))[::-1]), plain[::-1])
        np.testing.assert_array_equal(crops(files, index=index, color="gray"), crops(files, color="gray"))


def test_open_batch_warns_of_entries_that_do_not_fit(files: list[bytes], index: gi.SeekIndex) -> None:
    with pytest.warns(RuntimeWarning, match=r"4 entries of the seek index .* do not match their files"):
        found = crops(files[:4], index=index, indices=[1, 2, 3, 0])
    np.testing.assert_array_equal(found, crops(files[:4]))


def test_open_batch_refuses(files: list[bytes], index: gi.SeekIndex, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="pass index as well"):
        crops(files, indices=range(len(files)))
    with pytest.raises(ValueError, match="indices must name 7 sources, not 2"):
        crops(files, index=index, indices=[0, 1])
    with pytest.raises(ValueError, match="has samples 0 to 6, not 7"):
        crops(files[:1], index=index, indices=[7])
    with pytest.raises(FileNotFoundError):
        crops(files, index=tmp_path / "none")


def loaded(files: list[bytes], **options: Any) -> tuple[list[Any], gi.Loader]:
    source = [(data, k) for k, data in enumerate(files)]
    loader = gi.load(
        source, gi.presets.imagenet_train(48), batch_size=3, shuffle=True, seed=5, epochs=3, device="cpu", **options
    )
    return [batch.images.copy() for batch in loader], loader


@pytest.mark.parametrize("kind", ["path", "index"])
def test_load(kind: str, files: list[bytes], index: gi.SeekIndex) -> None:
    plain, loader = loaded(files)
    assert "index" not in loader.stats()
    found, loader = loaded(files, index={"path": index.path, "index": index}[kind])
    for one, other in zip(found, plain, strict=True):
        np.testing.assert_array_equal(one, other)
    assert loader.stats()["index"] == {"used": 3 * 5, "misfits": 0}


def test_load_counts_files_that_changed_and_warns_once(files: list[bytes], index: gi.SeekIndex) -> None:
    changed = [files[0][:-2] + b"\xff\xff\xd9", *files[1:]]
    with pytest.warns(RuntimeWarning, match=r"(?s)1 entry of.*stats\(\) counts those of later batches") as caught:
        found, loader = loaded(changed, index=index)
    assert len([one for one in caught if "seek index" in str(one.message)]) == 1
    assert loader.stats()["index"] == {"used": 3 * 4, "misfits": 3}
    for one, other in zip(found, loaded(changed)[0], strict=True):
        np.testing.assert_array_equal(one, other)


def test_load_refuses_an_index_of_another_source(files: list[bytes], index: gi.SeekIndex) -> None:
    with pytest.raises(ValueError, match="is for 7 samples, but the source has 6"):
        loaded(files[1:], index=index)


def test_a_pickled_batch_has_the_same_pixels(files: list[bytes], index: gi.SeekIndex) -> None:
    x = gi.resized_crop(gi.open_batch(files, device="cpu", index=index), 40, 30, 50, 34, (32, 32))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(x)).array(), crops(files))
