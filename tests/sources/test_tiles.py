"""Tiles of slides and satellite images, and regions of them."""

import io
import pickle
import re
import struct
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gpuimg as gi

from ..decoding.tiffs import pages
from ..libraries import library
from ..processes import python
from ..samples import ROOT
from .laws import assert_law
from .remote_server import serving
from .slides import (
    Form,
    Pixels,
    deflated,
    halved,
    jpeg_pyramid,
    level_of,
    packed,
    picture,
    pyramid,
    raw,
    saved,
    segments,
    tiles_of,
)

BASE = picture(630, 570)

JPEGS = {
    **{f"shared tables {one}": Form(sampling=one) for one in ("4:2:0", "4:2:2", "4:4:4")},
    **{f"own tables {one}": Form(sampling=one, shared=False, markers="own") for one in ("4:2:0", "4:2:2", "4:4:4")},
    **{f"JFIF {one}": Form(sampling=one, markers="jfif") for one in ("4:2:0", "4:2:2", "4:4:4")},
    "RGB": Form(2, "4:4:4"),
    "RGB, Adobe's marker": Form(2, "4:4:4", markers="own"),
    "RGB, own tables": Form(2, "4:4:4", shared=False, markers="own"),
    "RGB, wrong JFIF": Form(2, "4:4:4", markers="jfif"),
    "gray": Form(1),
    "gray, own tables": Form(1, shared=False, markers="own"),
    "best": Form(quality=100),
    "worst": Form(quality=5),
}  # fmt: skip
#: Encoders and tags of tiles that lose nothing.
LOSSLESS: dict[str, tuple[Callable[[Pixels], bytes], dict[int, Any]]] = {
    "raw": (raw(), {259: 1}),
    "deflate": (raw(pack=zlib.compress), {259: 8}),
    "deflate, differences": (deflated, {259: 32946, 317: 2}),
    "JPEG 2000": (lambda tile: saved(tile, "JPEG2000", no_jp2=True), {259: 34712}),
    "JPEG 2000 of Aperio": (lambda tile: saved(tile, "JPEG2000", no_jp2=True), {259: 33005}),
    "JPEG XL": (lambda tile: saved(tile, "JXL", lossless=True), {259: 50002}),
    "WebP": (lambda tile: saved(tile, "WEBP", lossless=True), {259: 50001}),
    **{name: (packed(f"tiff_{name}" if name == "lzw" else name), {259: kind})
       for name, kind in {"lzw": 5, "packbits": 32773, "zstd": 50000, "lzma": 34925}.items()},
}  # fmt: skip


def opened(path: Path, data: bytes, **options: Any) -> Any:
    path.write_bytes(data)
    return gi.tiles(path, **options)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.tif"


def by_libtiff(path: Path) -> list[Pixels]:
    """Pixels of all pages."""
    found = []
    with Image.open(path) as image:
        for k in range(image.n_frames):  # type: ignore[attr-defined]
            image.seek(k)
            found.append(np.asarray(image.convert("RGB")))
    return found


def whole(slide: Any, level: int = 0) -> Pixels:
    return gi.read_region(slide, 0, 0, *slide.levels[level][:2], level=level)


def by_pillow(data: bytes) -> Pixels:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


# -- pixels ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", JPEGS)
@pytest.mark.parametrize("side", [64, 256])
def test_jpeg_tiles_are_libtiffs(file: Path, name: str, side: int) -> None:
    form = JPEGS[name]
    source = opened(file, jpeg_pyramid(BASE[..., : 1 if "gray" in name else 3], form, side=side), edges="keep")
    (slide,) = source.slides
    wanted = by_libtiff(file)
    assert [level[:2] for level in slide.levels] == [one.shape[:2] for one in wanted]
    for level, one in enumerate(wanted):
        np.testing.assert_array_equal(whole(slide, level), one)
    for data, (_, y, x, height, width) in source:  # a file of its own for every decoder
        np.testing.assert_array_equal(by_pillow(data)[:height, :width], wanted[0][y : y + height, x : x + width])


@pytest.mark.parametrize(
    "options", [{"big": True}, {"order": ">"}, {"inner": True}, {"big": True, "order": ">", "inner": True}]
)
@pytest.mark.parametrize("kind", ["jpeg", "raw"])
def test_every_build_of_directories(file: Path, options: dict[str, Any], kind: str) -> None:
    write = jpeg_pyramid if kind == "jpeg" else lambda *args, **more: pyramid(*args, raw(), {259: 1, 262: 2}, **more)
    plain = [list(opened(file, write(BASE, side=64), level=level)) for level in range(3)]
    for level, wanted in enumerate(plain):
        source = opened(file, write(BASE, side=64, **options), level=level)
        found = list(source)
        assert [label.tolist() for _, label in found] == [label.tolist() for _, label in wanted]
        for (data, _), (same, _) in zip(found, wanted, strict=True):
            if kind == "jpeg":
                assert data == same
            else:
                np.testing.assert_array_equal(by_pillow(data), by_pillow(same))


@pytest.mark.parametrize(
    ("name", "channels"), [(name, k) for name in LOSSLESS for k in (1, 3) if (name, k) != ("WebP", 1)]
)
def test_lossless_tiles(file: Path, name: str, channels: int) -> None:
    if name == "JPEG XL":
        library("pillow_jxl")
    if name == "WebP":  # which has no gray
        channels = 3
    image, (encode, tags) = BASE[..., :channels], LOSSLESS[name]
    source = opened(file, pyramid(image, encode, {**tags, 262: 2 if channels == 3 else 1}), edges="keep")
    for level, one in enumerate((image, halved(image))):
        np.testing.assert_array_equal(whole(source.slides[0], level), np.broadcast_to(one, (*one.shape[:2], 3)))


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("name", ["raw", "deflate"])
@pytest.mark.parametrize("channels", [1, 3])
def test_sixteen_bits(file: Path, order: str, name: str, channels: int) -> None:
    image = picture(150, 170, "uint16")[..., :channels]
    encode, tags = (
        (raw(order), {259: 1}) if name == "raw" else (raw(order, zlib.compress, predicted=True), {259: 8, 317: 2})
    )
    tags |= {262: 2 if channels == 3 else 1}
    source = opened(file, pyramid(image, encode, tags, side=64, order=order, levels=1), edges="keep")
    found = whole(source.slides[0])
    assert found.dtype == np.uint16
    np.testing.assert_array_equal(found, np.broadcast_to(image, (150, 170, 3)))
    data, (_, y, x, height, width) = source[4]
    (one,) = gi.decode_batch([data], device="cpu", depth="native")
    np.testing.assert_array_equal(one[:height, :width, :channels], image[y : y + height, x : x + width])


def test_ycbcr_of_jpeg2k(file: Path) -> None:
    def encode(tile: Pixels) -> bytes:
        return saved(np.asarray(Image.fromarray(tile).convert("YCbCr")), "JPEG2000", no_jp2=True, mct=0)

    source = opened(file, pyramid(BASE, encode, {259: 33003, 262: 6}, levels=1))
    np.testing.assert_array_equal(whole(source.slides[0]), Image.fromarray(BASE).convert("YCbCr").convert("RGB"))


def test_tags_and_tiles_that_disagree_on_colors(file: Path) -> None:
    """The tag decides, as in libtiff; orientation and other segments of a tile have no say."""
    exif = Image.Exif()
    exif[274] = 6

    def encode(tile: Pixels) -> bytes:
        return saved(tile, exif=exif, comment="no", subsampling="4:2:0")

    source = opened(file, pyramid(BASE, encode, {259: 7, 262: 6, 530: (2, 2)}, levels=1, side=64))
    np.testing.assert_array_equal(whole(source.slides[0]), by_libtiff(file)[0])
    assert {marker for marker, _ in segments(source[0][0])} & {*range(0xE0, 0xF0), 0xFE} == {0xEE}


def test_openslide_agrees(file: Path) -> None:
    openslide = library("openslide")
    source = opened(file, jpeg_pyramid(BASE, levels=4, side=64))
    slide, (own,) = openslide.OpenSlide(str(file)), source.slides
    assert slide.level_dimensions == tuple(level[1::-1] for level in own.levels)
    assert slide.level_downsamples == pytest.approx([level.downsample for level in own.levels])
    for wanted in (1, 1.7, 2, 3.9, 4.2, 100):
        chosen = gi.tiles(file, downsample=wanted, edges="keep")
        assert chosen.slides[0].levels[slide.get_best_level_for_downsample(wanted)] == own.levels[chosen._levels[0]]
    for level in range(4):
        height, width = own.levels[level][:2]
        found = np.asarray(slide.read_region((0, 0), level, (width, height)))[..., :3]
        np.testing.assert_array_equal(whole(own, level), found)


# -- the source --------------------------------------------------------------------------------------------------------


def test_laws_of_sources(tmp_path: Path) -> None:
    sizes, samples, names = [(150, 200), (130, 260)], [], []
    for k, size in enumerate(sizes):
        image, form = picture(*size), Form(shared=False, markers="own")
        path = tmp_path / f"{k}.svs"
        path.write_bytes(jpeg_pyramid(image, form, side=64, levels=1))
        for i, tile in enumerate(tiles_of(image, 64)):
            row, column = divmod(i, -(-size[1] // 64))
            if (row + 1) * 64 <= size[0] and (column + 1) * 64 <= size[1]:
                jpeg = b"".join(segment for marker, segment in segments(form.encode(tile)) if marker != 0xE0)
                samples.append(
                    (b"\xff\xd8\xff\xee\0\x0eAdobe\0\x64\0\0\0\0\1" + jpeg, np.array((k, 64 * row, 64 * column)))
                )
                names.append(f"{path}: tile at {64 * row}, {64 * column} of level 0")
    source = gi.tiles(tmp_path / "?.svs")
    assert len(samples) == 2 * 3 + 2 * 4
    assert_law(source, samples, names)
    assert repr(source) == f"<gpuimg.tiles '{tmp_path}/0.svs' and 1 more: 14 tiles>"
    assert repr(source.slides[1]) == f"<slide '{tmp_path}/1.svs': 130 x 260>"


def test_levels(file: Path) -> None:
    """Labels, macro images, masks, and other images of one size are no levels."""
    form, images = Form(), [BASE, halved(BASE)]
    levels = [level_of(one, form.encode, 64, form.tags(3)) for one in images]
    wide = level_of(picture(100, 640), form.encode, 64, form.tags(3))
    second = level_of(np.ascontiguousarray(BASE[::-1]), form.encode, 64, form.tags(3))
    mask = level_of(BASE[::4, ::4], form.encode, 64, form.tags(3) | {254: 5})
    order = [levels[1], wide, levels[0], second, mask]
    order[0][1][270] = "Aperio |MPP = 0.25"
    data = pages([(blocks, tags) for blocks, tags in order], tiled=True)
    (slide,) = opened(file, data).slides
    assert slide.levels == ((630, 570, 64, 64, 1.0), (315, 285, 64, 64, 2.0))
    assert slide.description == "Aperio |MPP = 0.25"
    np.testing.assert_array_equal(whole(slide), by_libtiff(file)[2])
    assert pickle.loads(pickle.dumps(slide)).levels == slide.levels


def test_edges_and_tiles_to_keep(file: Path) -> None:
    source = opened(file, jpeg_pyramid(BASE, side=128, levels=1), edges="keep")
    labels = np.array([label for _, label in source])
    rows, columns = 5, 5
    assert len(source) == rows * columns
    inside = (labels[:, 3] == 128) & (labels[:, 4] == 128)
    assert (labels[:, 1] + labels[:, 3]).max() == 630
    assert (labels[:, 2] + labels[:, 4]).max() == 570
    np.testing.assert_array_equal([label for _, label in gi.tiles(file)], labels[inside, :3])
    mask = np.random.default_rng().random((rows, columns)) < 0.5
    mask[1, 2] = True
    kept = labels[mask.ravel()]
    for keep in ([mask], kept[::-1, :3], kept[:, :3].tolist()):
        found = gi.tiles(file, keep=keep, edges="keep")
        np.testing.assert_array_equal([label for _, label in found], kept)
        assert found[0][0] == source[int(mask.argmax())][0]


def test_tiles_that_are_not_stored(file: Path) -> None:
    form = Form()
    blocks, tags = level_of(BASE, form.encode, 128, form.tags(3))
    wanted = by_libtiff(opened(file, pages([(blocks, tags)], tiled=True)).slides[0].path)[0].copy()
    blocks[6] = b""
    source = opened(file, pages([(blocks, tags)], tiled=True))
    assert len(source) == 4 * 4 - 1
    wanted[128:256, 128:256] = 255
    np.testing.assert_array_equal(whole(source.slides[0]), wanted)
    wanted[128:256, 128:256] = 7
    np.testing.assert_array_equal(gi.read_region(file, 0, 0, 630, 570, fill=7), wanted)


def test_regions(file: Path) -> None:
    (slide,) = opened(file, jpeg_pyramid(BASE, side=64)).slides
    rng = np.random.default_rng()
    for level, image in enumerate(by_libtiff(file)):
        height, width = image.shape[:2]
        framed = np.full((height + 200, width + 200, 3), 9, np.uint8)
        framed[100:-100, 100:-100] = image
        for _ in range(10):
            y, x = int(rng.integers(-100, height)), int(rng.integers(-100, width))
            h, w = int(rng.integers(1, height + 100 - y + 1)), int(rng.integers(1, width + 100 - x + 1))
            found = gi.read_region(slide, y, x, h, w, level=level, fill=9)
            np.testing.assert_array_equal(found, framed[100 + y :, 100 + x :][:h, :w])


def test_a_tile_is_decoded_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (slide,) = opened(file, jpeg_pyramid(BASE, side=64)).slides
    read: list[Any] = []
    before = slide._files.span
    monkeypatch.setattr(slide._files, "span", lambda *span: read.append(span) or before(*span))
    gi.read_region(slide, 60, 60, 70, 10)
    assert len(read) == len(set(read)) == 3 * 2


def test_loop(file: Path) -> None:
    """Shuffled, cropped, with the labels of the batch; a bad tile costs itself alone, and keeps its label."""
    form = Form()
    blocks, tags = level_of(BASE, form.encode, 64, form.tags(3))
    blocks[11] = Form(shared=False, markers="own").encode(np.zeros((1024, 1024, 3), np.uint8))
    blocks[12] = b"what is this?"
    source = opened(file, pages([(blocks, tags)], tiled=True), edges="keep")
    with pytest.raises(ValueError, match=r"a.tif: tile at 64, 128 of level 0: its JPEG has 3 components of 1024"):
        source[11]
    seen = []

    def crops(batch: gi.Batch, rng: gi.Rng) -> gi.Batch:
        return gi.random_crop(batch, 48, rng=rng)

    loader = gi.load(source, crops, batch_size=16, shuffle=True, device="cpu", on_error="fill", max_failures=2)
    with pytest.warns(RuntimeWarning, match="2 samples could not be decoded"):
        batches = list(loader)
    for batch in batches:
        assert batch.images.shape[1:] == (48, 48, 3)
        assert batch.labels.shape[1:] == (5,)
        seen += batch.labels.tolist()
    assert sorted(seen) == [label.tolist() for label in map(source.label, range(len(source)))]


def test_remote_tiles_cost_their_bytes(tmp_path: Path) -> None:
    image = picture(2000, 2000)
    data = jpeg_pyramid(image, Form(quality=95), side=128)
    with serving({"/a.svs": data}) as server:
        source = gi.tiles(f"{server.url}/a.svs")
        stored = source.slides[0]._tiles(0)
        opening = _fetched(server)
        assert opening <= 200_000
        keep = np.random.default_rng().permutation(len(source))[:100].tolist()
        for indices in (None, keep):
            before, wanted = _fetched(server), range(len(source)) if indices is None else indices
            for batch in gi.load(source, batch_size=32, device="cpu", indices=indices):
                assert len(batch.valid) == len(batch.labels)
            needed = sum(int(stored.sizes[source._where(i)[1]]) for i in wanted)
            assert needed <= _fetched(server) - before <= 1.1 * needed
        region = gi.read_region(source.slides[0], 100, 100, 50, 50)
        (tmp_path / "a.svs").write_bytes(data)
        np.testing.assert_array_equal(region, gi.read_region(tmp_path / "a.svs", 100, 100, 50, 50))


def _fetched(server: Any) -> int:
    ranges = [request.range for request in server.requests if request.method == "GET" and request.range]
    return sum(int(end) - int(start) + 1 for start, end in (one.removeprefix("bytes=").split("-") for one in ranges))


# -- what is refused ---------------------------------------------------------------------------------------------------


def _pages(blocks: Any = None, **tags: Any) -> bytes:
    """A file of one level; ``tags`` are given as t259=..., and one of None is left out."""
    form = Form()
    own, usual = level_of(BASE, form.encode, 128, form.tags(3))
    usual |= {int(name[1:]): value for name, value in tags.items()}
    return pages([(blocks or own, {tag: value for tag, value in usual.items() if value is not None})], tiled=True)


GOOD = _pages()
HEAD = int.from_bytes(GOOD[4:8], "little")


def _after(data: bytes) -> int:
    """Where the offset of the next directory is."""
    return HEAD + 2 + 12 * int.from_bytes(data[HEAD : HEAD + 2], "little")


def _loop(data: bytes) -> bytes:
    at = _after(data)
    return data[:at] + struct.pack("<I", HEAD) + data[at + 4 :]


def _many(data: bytes) -> bytes:
    """Directories of no tags, each of which refers to the next."""
    chain = b"".join(struct.pack("<HI", 0, len(data) + 6 * (k + 1)) for k in range(1100))
    at = _after(data)
    return data[:at] + struct.pack("<I", len(data)) + data[at + 4 :] + chain


STRIPS = [bytes(300)], {256: 10, 257: 10, 258: [8] * 3, 259: 1, 262: 2, 277: 3, 278: 10}
REFUSED: dict[str, tuple[Any, str]] = {
    "no TIFF": (b"GIF89a" + bytes(200), r"not a TIFF file \(starts with b'GIF89a"),
    "empty": (b"", "not a TIFF file"),
    "DICOM": (bytes(128) + b"DICM" + bytes(200), "DICOM is not supported; wsidicom reads it"),
    "CZI": (b"ZISRAWFILE" + bytes(200), "Zeiss CZI is not supported; pylibCZIrw reads it"),
    "NDPI": (_pages(t65420=1), "Hamamatsu NDPI is not supported; OpenSlide reads it"),
    "BIF": (_pages(t700=b"<x>iScan</x>"), "Ventana BIF is not supported; OpenSlide reads it"),
    "SCN": (_pages(t270='<scn xmlns="http://www.leica-microsystems.com/scn">'), "Leica SCN is not supported"),
    "strips": (pages([STRIPS]), "no tiled image in it, only strips"),
    "loop": (_loop(GOOD), f"the directory at byte {HEAD} comes twice"),
    "SubIFD loop": (_pages(t330=[HEAD]), f"the directory at byte {HEAD} comes twice"),
    "many directories": (_many(GOOD), "over 1000 directories"),
    "many tags": (GOOD[:HEAD] + struct.pack("<H", 5000) + GOOD[HEAD + 2 :], "the directory has 5000 tags"),
    "directory outside": (GOOD[:4] + struct.pack("<I", len(GOOD)) + GOOD[8:], "a directory is truncated or damaged"),
    "sides of 0": (_pages(t322=0), "in tiles of 128 x 0"),
    "sides of 100": (_pages(t323=100), "in tiles of 100 x 128"),
    "huge tiles": (_pages(t322=65536, t323=65536), "over the limit of 16777216 pixels a tile"),
    "too many tiles": (_pages(t256=1 << 30, t257=1 << 30), "or of 67108864 tiles"),
    "few offsets": (_pages(t324=[16]), "has offsets of 1 and sizes of 25 tiles"),
    "few sizes": (_pages(t325=[16]), "has offsets of 25 and sizes of 1 tiles"),
    "offset outside": (_pages(t324=[16] * 24 + [1 << 31]), r"tile 24 has \d+ bytes at byte 2147483648, of a file of"),
    "sizes of texts": (_pages(t325=b"123" * 30), "tag 325 is of type 7"),
    "sizes of several": (_pages(t256=[570, 570]), "tag 256 has 2 values, not 1"),
    "values outside": (_pages(t347=bytes(70))[:-20], r"tag \d+ has \d+ values at byte \d+, outside the file"),
    "tables without an end": (_pages(t347=b"\xff\xd8" + bytes(70)), "its JPEG tables have no start or no end"),
    "tables with a scan": (_pages(t347=b"\xff\xd8\xff\xda\0\2\xff\xd9"), "its JPEG tables hold an image"),
    "tables of junk": (_pages(t347=b"\xff\xd8" + bytes(70) + b"\xff\xd9"), "segments do not follow each other"),
    "planes": (_pages(t259=1, t284=2), r"planar configuration 2\) are not supported"),
    "floats": (_pages(t259=1, t262=2, t258=[32] * 3, t339=[3] * 3), r"floating-point samples \(32 bits\)"),
    "LERC": (_pages(t259=34887, t262=2), "LERC compression are not supported"),
    "12-bit JPEG": (_pages(t258=[12] * 3), "3 samples of 12 bits"),
    "YCbCr in JPEG 2000": (_pages(t259=34712), "tiles of 8 bits of YCbCr with JPEG 2000 compression"),
    "five channels": (_pages(t259=1, t262=2, t277=5, t258=[8] * 5), "5 samples of 8 bits"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_files(file: Path, name: str) -> None:
    data, message = REFUSED[name]
    with pytest.raises(ValueError, match=message) as caught:
        opened(file, data)
    assert str(file) in str(caught.value)


JPEG = Form(shared=False, markers="own").encode(np.zeros((128, 128, 3), np.uint8))
FRAME = JPEG.index(b"\xff\xc0")
BAD_TILES = {
    "text": (b"tile", r"not a JPEG \(starts with b'tile'\)"),
    "larger": (JPEG[: FRAME + 5] + b"\x2a\xf8\x2a\xf8" + JPEG[FRAME + 9 :],
               "3 components of 11000 x 11000, but its directory 3 of 128 x 128"),
    "of no height": (JPEG[: FRAME + 5] + b"\0\0" + JPEG[FRAME + 7 :], "3 components of 0 x 128"),
    "gray": (Form(1, shared=False).encode(np.zeros((128, 128, 1), np.uint8)), "1 components of 128 x 128"),
    "two frames": (JPEG[:FRAME] + JPEG[FRAME : FRAME + 19] * 2 + JPEG[FRAME + 19 :], ""),
    "cut": (JPEG[:FRAME], "has no scan"),
    "cut segment": (JPEG[: FRAME + 10], "segments do not follow each other"),
    "fill bytes": (JPEG[:2] + b"\xff" * 2000 + JPEG[2:], "over 1000 JPEG segments and fill bytes"),
    "no frame": (JPEG[:FRAME] + JPEG[FRAME + 19 :], "has no frame header"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_TILES)
def test_bad_tiles(file: Path, name: str) -> None:
    """Only that tile, in every way of reading it."""
    tile, message = BAD_TILES[name]
    source = opened(file, _pages([*[JPEG] * 11, tile, *[JPEG] * 13]), edges="keep")
    if message:
        with pytest.raises(ValueError, match=f"tile at 256, 128 of level 0: .*{message}"):
            source[11]
    with pytest.warns(RuntimeWarning, match="sample 11 .*tile at 256, 128 of level 0"):
        (batch,) = gi.load(source, batch_size=25, device="cpu", on_error="fill", max_failures=1)
    assert np.flatnonzero(~batch.valid).tolist() == [11]
    assert batch.labels[11].tolist() == [0, 256, 128, 128, 128]
    with pytest.raises(ValueError, match=f"tile at 256, 128.*{message}"):
        gi.read_region(file, 200, 100, 100, 100)
    assert gi.read_region(file, 0, 0, 100, 100).any() == 0


def test_a_few_fill_bytes_are_none(file: Path) -> None:
    source = opened(file, _pages([JPEG[:FRAME] + b"\xff" * 5 + JPEG[FRAME:]] * 25))
    np.testing.assert_array_equal(by_pillow(source[0][0]), by_pillow(JPEG))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"level": -1}, ValueError, "level must be a whole number"),
        ({"level": 3}, ValueError, "level must be less than 3, the number of its levels, not 3"),
        ({"downsample": 0.5}, ValueError, "downsample must be"),
        ({"level": 1, "downsample": 2}, ValueError, "exclude each other"),
        ({"edges": "pad"}, ValueError, "edges must be one of 'drop', 'keep'"),
        ({"keep": [np.zeros((2, 2), bool)]}, ValueError, r"keep\[0\] must be \(3, 3\)"),
        ({"keep": [np.zeros((3, 3), bool)]}, ValueError, r"no tile is left of .*a.tif, with edges='drop' and keep="),
        ({"keep": 3}, ValueError, "keep must be a list of 1 masks of tiles"),
        ({"keep": np.zeros((3, 3))}, ValueError, "keep must be a list of 1 masks of tiles"),
        ({"keep": [(0, 0, 256), (1, 0, 0)]}, ValueError, r"keep has \(1, 0, 0\), which is not the label of a tile"),
        ({"keep": [(0, 0, 255)]}, ValueError, r"keep has \(0, 0, 255\), which is not"),
        ({"keep": [(0, -256, 0)]}, ValueError, r"keep has \(0, -256, 0\), which is not"),
    ],
)  # fmt: skip
def test_refused_arguments(file: Path, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        opened(file, jpeg_pyramid(BASE), **options)
    with pytest.raises(ValueError, match=r"MIRAX \(.mrxs\) is not supported"):
        gi.tiles("a.mrxs")


def test_example() -> None:
    found = python(ROOT / "examples" / "slides.py")
    assert re.fullmatch(r"(\d+) of 462 tiles have tissue\neach of \1 tiles once: True\n", found)


def test_threads_open_a_level_at_once(file: Path) -> None:
    (slide,) = opened(file, jpeg_pyramid(BASE, side=64)).slides
    wanted = whole(gi.tiles(file).slides[0], 1)
    wait, found = threading.Barrier(8), []

    def read() -> None:
        wait.wait()
        found.append(whole(slide, 1))

    threads = [threading.Thread(target=read) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert all(np.array_equal(one, wanted) for one in found)
    assert len(found) == 8


def test_turned_tiles_are_bad(file: Path) -> None:
    """Of a format whose decoder would turn them; see test_tags_and_tiles_that_disagree_on_colors for JPEGs."""
    exif = Image.Exif()
    exif[274] = 6
    source = opened(file, pyramid(BASE, lambda tile: saved(tile, "WEBP", exif=exif), {259: 50001, 262: 2}, side=64))
    with pytest.raises(ValueError, match=r"tile at 0, 0 of level 0: its header gives 3 channels .* orientation 6"):
        source[0]
