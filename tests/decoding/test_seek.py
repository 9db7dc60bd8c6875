"""Random access into JPEGs: with a seek index, or restart markers, the pixels are those without, bit for bit."""

import mmap
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import gpuimg as gi
from gpuimg.kernels.jpeg import layout as words

from ..samples import with_orientation
from . import jpegs
from .jpegs import SAMPLINGS, SCALES, Decoder, Region, encoded, noise, pillow_pixels, some_region
from .progressive_jpegs import Picture, baseline
from .seek_oracle import checksum_of_entry

Entry = NDArray[np.uint8]


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    return Decoder()


def entry_of(data: bytes) -> Entry:
    """The entry that is built for a file."""
    (entry,) = jpegs.entries_of([data])
    assert entry.size
    return entry


def assert_same(decoder: Decoder, data: bytes, region: Region, fate: int, scale: int = 8, **how: Any) -> None:
    """In color and gray, as without an entry."""
    for channels in (3, 1):
        plain, found = (decoder(data, region, channels, scale=scale, **one) for one in ({}, how))
        assert (plain.how, plain.entry) == (words.DONE, words.UNUSED)
        assert (found.how, found.entry) == (words.DONE, fate), region
        np.testing.assert_array_equal(found.pixels, plain.pixels, err_msg=str(region))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("sampling", [name for name in SAMPLINGS if name != "rgb"])
def test_regions_of_made_files(sampling: str, scale: int, decoder: Decoder, photo: Image.Image) -> None:
    rng = np.random.default_rng()
    for k, image in enumerate((photo.resize((211, 97)), noise(75, 66, 3), photo.resize((40, 201)))):
        data = encoded(image, sampling, quality=int(rng.integers(20, 99)), optimize=k % 2 == 0)
        height, width = (-(-side * scale // 8) for side in (image.height, image.width))
        entry = entry_of(data)
        for _ in range(8):
            assert_same(decoder, data, some_region(rng, height, width), words.USED, scale=scale, entry=entry)


@pytest.mark.parametrize("interval", [1, 3, 7, 19, 40])
@pytest.mark.parametrize("sampling", ["4:2:0", "4:4:4", "gray"])
def test_restart_markers_need_no_entry(interval: int, sampling: str, decoder: Decoder, photo: Image.Image) -> None:
    rng = np.random.default_rng()
    data = encoded(photo, sampling, quality=90, restart_marker_blocks=interval)
    whole = {channels: pillow_pixels(data, channels) for channels in ((1,) if sampling == "gray" else (3, 1))}
    for _ in range(20):
        x0, y0, x1, y1 = region = some_region(rng, photo.height, photo.width)
        for channels, pixels in whole.items():
            found = decoder(data, region, channels, entry=np.ones(99, np.uint8))
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


def rewritten(entry: Entry, at: int, change: int) -> Entry:
    """Another 16-bit number in an entry whose checksum is right."""
    changed = entry.copy()
    changed[at : at + 2].view("<i2")[:] += np.int16(change)
    changed[12:16].view("<u4")[:] = checksum_of_entry(changed.tobytes())
    return changed


def test_an_entry_of_another_file_is_not_used(decoder: Decoder, photo: Image.Image) -> None:
    data = encoded(photo)
    region = (100, 100, 150, 160)
    other = encoded(photo.transpose(Image.Transpose.ROTATE_180))
    assert len(other) != len(data)
    assert_same(decoder, data, region, words.OTHER_SIZE, entry=entry_of(other))
    middle = (jpegs.scan_start(data) + len(data)) // 2
    for bit in range(0, 64, 7):  # the scan may decode all the same
        changed = bytearray(data)
        changed[middle + bit // 8] ^= 1 << bit % 8
        if decoder(bytes(changed), region).how == words.DONE:
            assert_same(decoder, bytes(changed), region, words.OTHER_FILE, entry=entry_of(data))


def test_a_damaged_entry_is_not_used(decoder: Decoder, photo: Image.Image) -> None:
    data, region = encoded(photo), (100, 100, 150, 160)
    entry = entry_of(data)
    for at in (12, 15, 16, 40, entry.size // 2, entry.size - 1):
        damaged = entry.copy()
        damaged[at] ^= 4
        assert_same(decoder, data, region, words.DAMAGED, entry=damaged)
    for wrong in (entry[:-1], entry[:8], entry[:1], np.zeros(entry.size + 2, np.uint8)):
        assert_same(decoder, data, region, words.DAMAGED, entry=wrong)
    spliced = np.concatenate([entry[:12], entry_of(encoded(photo, quality=50))[12:]])
    assert spliced.size == entry.size
    assert_same(decoder, data, region, words.DAMAGED, entry=spliced)


def test_points_are_checked_where_decoding_passes(decoder: Decoder, photo: Image.Image) -> None:
    """Whoever makes an entry with right checksums and wrong points is found out at the next point."""
    data = encoded(photo)
    entry = entry_of(data)
    position, predictor = 16 + 4 * 8, 16 + 4 * 15 + 6 * 8  # of row 8; 300 x 240 has 15 rows of MCUs of 16 x 16
    whole, to_the_end = (0, 0, photo.width, photo.height), (160, 7 * 16, photo.width, 8 * 16)
    for at, change in ((position, 1), (position, -8), (position, 1000), (predictor, 5), (predictor + 2, -1)):
        for region in (whole, to_the_end):
            assert_same(decoder, data, region, words.MISMATCH, entry=rewritten(entry, at, change))


def test_a_point_among_fill_bytes_is_found_out(decoder: Decoder, photo: Image.Image) -> None:
    """Of more fill bytes than are read at a time nothing is left to decode, though the stream does not end there."""
    data = encoded(photo, "4:4:4")
    fill = 2 + 4
    data = data[:2] + jpegs.segment(0xFE, b"\xff" * 5000 + b"\1") + data[2:]
    forged = entry_of(data)
    row = 10
    bit = forged[16 + 4 * row :][:4].view("<u4")
    assert bit[0] > 8 * jpegs.scan_start(data)
    bit[0] = 8 * fill
    forged[12:16].view("<u4")[:] = checksum_of_entry(forged.tobytes())
    assert_same(decoder, data, (0, 8 * row, 40, 8 * row + 8), words.MISMATCH, entry=forged)


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


@pytest.mark.parametrize("case", ["all rows", "some rows", "4 GiB"])
def test_large_files_have_no_entry(case: str, decoder: Decoder, photo: Image.Image) -> None:
    """Positions in bits, of files of 512 MiB, and sizes of 4 GiB do not fit into 32 bits."""
    data = encoded(photo.resize((80, 400)), "4:4:4", quality=90)
    middle = (jpegs.scan_start(data) + len(data)) // 2
    if case == "4 GiB":
        large = np.frombuffer(mmap.mmap(-1, 1 << 32), np.uint8)
        large[: len(data)] = np.frombuffer(data, np.uint8)
    else:
        large = padded_after(data, (512 << 20) - (middle if case == "some rows" else 0))
    (built,) = jpegs.entries_of([large])
    assert not built.size
    np.testing.assert_array_equal(decoder(large, (5, 100, 70, 130)).pixels, pillow_pixels(data)[100:130, 5:70])


@pytest.mark.parametrize(("top", "fits"), [(2 * 16383, True), (3 * 16383, False)])
def test_predictors_beyond_16_bits_give_no_entry(top: int, fits: bool, decoder: Decoder) -> None:
    blocks = np.zeros((64, 64), np.int64)
    blocks[:, 0] = np.minimum(np.arange(64) * 16383, top)
    data = baseline(Picture(64, 64, (0x11,), (blocks.reshape(8, 8, 64),)))
    assert decoder(data).how == words.DONE
    assert bool(jpegs.entries_of([data])[0].size) == fits


@pytest.fixture(scope="module")
def files(photo: Image.Image) -> list[bytes]:
    sizes = [(300, 240), (211, 97), (64, 200), (240, 300)]
    several = [encoded(photo.resize(size), quality=60 + 5 * k) for k, size in enumerate(sizes)]
    options: list[dict[str, Any]] = [{"progressive": True}, {"restart_marker_rows": 1}, {"exif": with_orientation(6)}]
    return [*several, *(encoded(photo, **one) for one in options)]


@pytest.fixture
def index(files: list[bytes], tmp_path: Path) -> gi.SeekIndex:
    path = tmp_path / "some.gpuimg-index"
    gi.build_index([(data, k) for k, data in enumerate(files)], path)
    return gi.SeekIndex(path)


def crops(files: list[bytes], **options: Any) -> gi.Batch:
    return gi.resized_crop(gi.open_batch(files, device="cpu", **options), 40, 30, 50, 34, (32, 32))


def test_open_batch(files: list[bytes], index: gi.SeekIndex) -> None:
    plain, back = crops(files).array(), range(len(files))[::-1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for given in (index, index.path):
            np.testing.assert_array_equal(crops(files, index=given).array(), plain)
        np.testing.assert_array_equal(crops(files[::-1], index=index, indices=back).array(), plain[::-1])
        gray = crops(files, color="gray").array()
        np.testing.assert_array_equal(crops(files, index=index, color="gray").array(), gray)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(crops(files, index=index))).array(), plain)
    with pytest.warns(RuntimeWarning, match=r"4 entries of the seek index .* do not match their files"):
        found = crops(files[:4], index=index, indices=[1, 2, 3, 0]).array()
    np.testing.assert_array_equal(found, plain[:4])
    for options, message in (
        ({"indices": range(7)}, "pass index as well"),
        ({"index": index, "indices": [0, 1]}, "indices must name 7 sources, not 2"),
        ({"index": index, "indices": [*range(6), 7]}, "has samples 0 to 6, not 7"),
    ):
        with pytest.raises(ValueError, match=message):
            crops(files, **options)
    with pytest.raises(FileNotFoundError):
        crops(files, index="/nowhere/index")


def loaded(files: list[bytes], **options: Any) -> tuple[list[Any], gi.Loader]:
    source = [(data, k) for k, data in enumerate(files)]
    loader = gi.load(
        source, gi.presets.imagenet_train(48), batch_size=3, shuffle=True, seed=5, epochs=3, device="cpu", **options
    )
    return [batch.images.copy() for batch in loader], loader


def test_load(files: list[bytes], index: gi.SeekIndex) -> None:
    plain, loader = loaded(files)
    assert "index" not in loader.stats()
    for given in (index.path, index):
        found, loader = loaded(files, index=given)
        np.testing.assert_array_equal(np.concatenate(found), np.concatenate(plain))
        assert loader.stats()["index"] == {"used": 3 * 5, "misfits": 0}
    with pytest.raises(ValueError, match="is for 7 samples, but the source has 6"):
        loaded(files[1:], index=index)


def test_load_counts_files_that_changed_and_warns_once(files: list[bytes], index: gi.SeekIndex) -> None:
    changed = [files[0][:-2] + b"\xff\xff\xd9", *files[1:]]
    with pytest.warns(RuntimeWarning, match=r"(?s)1 entry of.*stats\(\) counts those of later batches") as caught:
        found, loader = loaded(changed, index=index)
    assert len([one for one in caught if "seek index" in str(one.message)]) == 1
    assert loader.stats()["index"] == {"used": 3 * 4, "misfits": 3}
    for one, other in zip(found, loaded(changed)[0], strict=True):
        np.testing.assert_array_equal(one, other)
