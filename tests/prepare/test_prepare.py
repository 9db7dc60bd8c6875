"""Preparing a data set: pixels, names, labels, files that stay as they are, interruptions, and the command."""

import contextlib
import io
import json
import random
import re
import shutil
import signal
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image, ImageOps

import gpuimg as gi
from gpuimg._prepare import encode, images
from gpuimg._prepare.manifest import NAME
from gpuimg.typing import PrepareReport

from ..processes import Forks, forks, run_command
from ..robustness.originals import jpeg, originals, picture
from ..samples import file_of, with_orientation, write_files
from ..sources.laws import flipped
from ..sources.writers import SOURCES, make_source, write_tar

Captured: TypeAlias = pytest.CaptureFixture[str]
Patch: TypeAlias = pytest.MonkeyPatch


def many(n: int, size: tuple[int, int] = (40, 60)) -> dict[str, bytes]:
    """Small files in two classes, of several kinds."""
    data = [jpeg(picture(*size, k), subsampling=k % 3) for k in range(6)] + [file_of(picture(*size, 7), "PNG")]
    return {f"{'ab'[k * 2 // n]}/{k:05}.{'png' if k % 7 == 6 else 'jpg'}": data[k % 7] for k in range(n)}


def prepared(source: Any, folder: Path, **options: Any) -> PrepareReport:
    return gi.prepare(source, folder, **{"measure": False, **options})


def of(data: bytes, root: Path, name: str = "c/1.jpg", **options: Any) -> tuple[bytes, str]:
    """Result of one file, and its status: copied or encoded."""
    shutil.rmtree(root / "in", ignore_errors=True)
    shutil.rmtree(root / "out", ignore_errors=True)
    prepared(gi.folder(write_files(root / "in", {name: data})), root / "out", **options)
    line = lines(root / "out")[0]
    return (root / "out" / line["output"]).read_bytes(), line["status"]


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / NAME).read_text().splitlines()[1:]]


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def members_of(folder: Path) -> dict[str, bytes]:
    """The files in the first shard of a folder."""
    with tarfile.open(folder / "shard-000000.tar") as file:
        return {member.name: file.extractfile(member).read() for member in file}  # type: ignore[union-attr]


def pixels(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)))


@given(st.integers(1, 90), st.integers(1, 90), st.none() | st.integers(1, 60), st.none() | st.integers(1, 5000))
@example(49, 58, 22, 230)
def test_sizes(height: int, width: int, short_side: int | None, max_pixels: int | None) -> None:
    data = file_of(Image.new("L", (width, height)), "PNG")
    with tempfile.TemporaryDirectory() as folder:
        prepared([(data, 0)], Path(folder) / "out", short_side=short_side, max_pixels=max_pixels, to="same", tar_size=0)
        (found,) = (path for path in (Path(folder) / "out").rglob("*.png"))
        info = gi.image_info(found)
    h, w = info.height, info.width
    assert 1 <= h <= height
    assert 1 <= w <= width
    if short_side is not None:
        assert min(h, w) <= max(short_side, 1)
    if max_pixels is not None:
        assert h * w <= max_pixels or 1 in (h, w)
    if (short_side or height + width) >= min(height, width) and (max_pixels or 10**9) >= height * width:
        assert (h, w) == (height, width)
    elif max_pixels is None and short_side is not None:  # torchvision's rule
        assert sorted((h, w)) == [short_side, short_side * max(height, width) // min(height, width)]
    assert w == 1 or (h + 1) / height >= w / width  # the shape stays: sides are rounded down
    assert h == 1 or (w + 1) / width >= h / height


@pytest.mark.parametrize("name", ["4:2:0", "4:4:4", "gray", "cmyk", "progressive", "large"])
def test_pixels_are_pillows(name: str, tmp_path: Path) -> None:
    """Decoded, resized and encoded by another library, which rounds between the two directions."""
    data = originals()[name]
    found, status = of(data, tmp_path, short_side=40, quality=100, subsampling="444")
    assert status == "encoded"
    image = Image.open(io.BytesIO(data))
    image = image.convert("L" if image.mode == "L" else "RGB")
    short = min(image.size)
    wanted = image.resize([40 * side // short for side in image.size], Image.Resampling.BICUBIC)
    wanted = Image.open(io.BytesIO(file_of(wanted, "JPEG", quality=100, subsampling="4:4:4")))
    result = Image.open(io.BytesIO(found))
    assert (result.mode, result.size) == (wanted.mode, wanted.size)
    difference = np.abs(np.asarray(result).astype(int) - np.asarray(wanted))
    assert difference.mean() < 0.8
    assert difference.max() <= 6


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("form", ["JPEG", "PNG"])
def test_turned_once(orientation: int, form: str, tmp_path: Path) -> None:
    """Results are upright without a tag, whoever reads them."""
    data = file_of(picture(40, 60, 1), form, exif=with_orientation(orientation))
    found, status = of(data, tmp_path, quality=95, subsampling="444")
    result = Image.open(io.BytesIO(found))
    assert (status, dict(result.getexif())) == ("encoded", {})
    wanted = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data)))).astype(int)
    assert result.size[::-1] == wanted.shape[:2]
    assert np.abs(np.asarray(result) - wanted).mean() < 3


@pytest.mark.parametrize("mode", ["L", "LA", "1", "P", "RGBA", "I;16"])
def test_gray_stays_gray(mode: str, tmp_path: Path) -> None:
    image = picture(30, 40, 0).convert("L")
    image = Image.fromarray(np.asarray(image).astype(np.uint16) * 257) if mode == "I;16" else image.convert(mode)
    found, _ = of(file_of(image, "PNG"), tmp_path, name="c/1.png", short_side=20)
    assert Image.open(io.BytesIO(found)).mode == ("RGB" if mode in ("P", "RGBA") else "L")
    transparent = file_of(Image.new("RGBA", (16, 16), (200, 200, 200, 0)), "PNG")
    for alpha, value in (("drop", 200), ("black", 0), ("white", 255)):
        found, _ = of(transparent, tmp_path, name="c/1.png", alpha=alpha)
        assert np.all(np.abs(pixels(found).astype(int) - value) <= 2)


@pytest.mark.parametrize(("name", "wanted", "expected"), [
    ("4:4:4", "keep", "4:4:4"), ("4:2:2", "keep", "4:2:2"), ("4:4:4", "420", "4:2:0"), ("4:2:0", "444", "4:4:4"),
    ("gray", "keep", "gray"), ("cmyk", "keep", "4:2:0"),
])  # fmt: skip
def test_subsampling_and_restart_markers(name: str, wanted: str, expected: str, tmp_path: Path) -> None:
    found, _ = of(originals()[name], tmp_path, short_side=48, subsampling=wanted, restart="rows")
    assert gi.image_info(found).chroma_subsampling == expected
    columns = -(-gi.image_info(found).width // (16 if expected in ("4:2:0", "4:2:2") else 8))
    at = found.index(b"\xff\xdd\x00\x04")  # DRI: restart interval
    assert int.from_bytes(found[at + 4 : at + 6], "big") == columns
    decoded = np.asarray(Image.open(io.BytesIO(found)).convert("RGB"))
    np.testing.assert_array_equal(gi.decode_batch([found], device="cpu")[0], decoded)


def test_file_as_wanted_is_copied(tmp_path: Path) -> None:
    image = picture(40, 60, 0)
    fine, full = (jpeg(image, quality=90, subsampling=one) for one in ("4:2:0", "4:4:4"))
    for data, options, status in (
        (fine, {}, "copied"), (fine, {"short_side": 40, "max_pixels": 2400}, "copied"),
        (fine, {"short_side": 39}, "encoded"), (fine, {"quality": 91}, "copied"), (fine, {"quality": 89}, "encoded"),
        (fine, {"subsampling": "444"}, "encoded"), (fine, {"subsampling": "keep"}, "copied"),
        (fine, {"restart": "rows"}, "encoded"), (full, {}, "encoded"), (full, {"subsampling": "keep"}, "copied"),
        (jpeg(image.convert("L")), {}, "copied"), (jpeg(image, progressive=True), {}, "encoded"),
        (jpeg(image, orientation=6), {}, "encoded"), (jpeg(image, orientation=1), {}, "copied"),
        (jpeg(image, restart_marker_rows=1), {"restart": "rows"}, "copied"),
    ):  # fmt: skip
        found, what = of(data, tmp_path, **options)
        assert (what, options) == (status, options)
        assert (found == data) == (status == "copied")


def test_formats_that_stay(tmp_path: Path) -> None:
    image = picture(40, 60, 0)
    for form, ending, name in (
        ("PNG", "png", "1.png"), ("WEBP", "webp", "1.webp"), ("BMP", "bmp", "1.jpg"), ("JPEG", "jpeg", "1.jpeg"),
        ("PNG", "jpg", "1.png"),
    ):  # fmt: skip
        data = file_of(image, form)
        found, status = of(data, tmp_path, name=f"c/1.{ending}", to="same", short_side=20)
        assert status == "encoded"
        assert lines(tmp_path / "out")[0]["output"] == f"c/{name}"
        assert Image.open(io.BytesIO(found)).format == ("JPEG" if form == "BMP" else form)
    data = file_of(image, "PNG")
    assert of(data, tmp_path, name="c/1.png", to="same") == (data, "copied")


def test_names_and_classes_stay(tmp_path: Path) -> None:
    small = jpeg(picture(20, 20, 0))
    png = file_of(picture(20, 20, 0), "PNG")
    root = write_files(tmp_path / "in", {
        "a/1.JPEG": small, "a/1.png": png, "a/deep/er/x.y.jpg": small, "b/\u00fc \u4e2d.jpg": small, "b/__z__.jpg": png,
    })  # fmt: skip
    report = prepared(gi.folder(root), tmp_path / "out")
    assert (report.samples, report.failed) == (5, ())
    found = sorted(set(tree(tmp_path / "out")) - {NAME})
    assert found == ["a/1.JPEG", "a/1_1.jpg", "a/deep/er/x.y.jpg", "b/__z__.jpg", "b/\u00fc \u4e2d.jpg"]
    assert gi.folder(tmp_path / "out").classes == ["a", "b"]
    prepared(gi.folder(root), tmp_path / "shards", tar_size=10**6)
    shards = gi.tar(tmp_path / "shards" / "shard-000000.tar")
    keys = [shards.key(i) for i in range(5)]
    assert keys == ["a/1", "a/1_1", "a/deep/er/x_y", "b/z_", "b/\u00fc \u4e2d"]
    assert [label for _, label in shards] == [0, 0, 0, 1, 1]


def test_members_of_samples_stay(tmp_path: Path) -> None:
    big = [jpeg(picture(40, 60, k)) for k in range(4)]
    paths = []
    for k in range(2):
        members = {"x/1.jpg": big[2 * k], "x/1.cls": b"%d" % k, "x/1.seg.png": b"mask", "2.json": b"[3]"}
        paths.append(write_tar(tmp_path / f"{k}.tar", *members.items(), ("2.png", big[2 * k + 1])))
    report = prepared(gi.tar(paths, label=None), tmp_path / "out", short_side=20)
    assert (report.encoded, report.shards) == (4, 1)
    found = members_of(tmp_path / "out")
    assert list(found) == [
        "x/1.jpg", "x/1.cls", "x/1.seg.png", "2.jpg", "2.json", "x/1_2.jpg", "x/1_2.cls", "x/1_2.seg.png", "2_3.jpg",
        "2_3.json",
    ]  # fmt: skip
    others = ("x/1.cls", "x/1_2.cls", "x/1_2.seg.png", "2.json")
    assert [found[name] for name in others] == [b"0", b"1", b"mask", b"[3]"]
    assert pixels(found["2_3.jpg"]).shape == (20, 30, 3)
    assert lines(tmp_path / "out")[3]["source"] == "1.tar: 2"


HOSTILE = (
    "../up.jpg", "a/../../up.jpg", "/tmp/gpuimg-absolute.jpg", "..\\up/1.jpg", "a\\..\\../1.jpg", "\\up.jpg",
    "C:/up.jpg", "c:up.jpg", "a/line\nbreak.jpg", "bell\a.jpg", "delete\x7f.jpg", "next\x85line.jpg",
)  # fmt: skip


@pytest.mark.parametrize("tar_size", [0, None])
def test_members_that_lead_out_of_the_folder(tar_size: int | None, tmp_path: Path) -> None:
    """Of files and of shards, which others unpack; the other samples are unharmed."""
    good = jpeg(picture(20, 20, 0))
    members = {"./1.jpg": good, **dict.fromkeys(HOSTILE, good), "a..b/2.jpg": good, "3.jpg": good}
    path = write_tar(tmp_path / "in.tar", *members.items())
    out = tmp_path / "deep" / "er" / "out"
    before = {*tmp_path.parent.rglob("*"), *Path("/tmp").iterdir()}
    report = prepared(gi.tar(path, label=None), out, tar_size=tar_size)
    assert report.samples == len(members)
    names = {f"in.tar: {name.removesuffix('.jpg')}" for name in HOSTILE}
    assert {one.source for one in report.failed} == names
    assert all(re.match(r"a result cannot be named '.*', which", one.reason) for one in report.failed)
    assert report.copied == 3
    assert all(path.is_relative_to(tmp_path / "deep") for path in {*tmp_path.parent.rglob("*")} - before)
    assert not Path("/tmp/gpuimg-absolute.jpg").exists()
    if tar_size is None:
        assert [*members_of(out)] == ["./1.jpg", "a..b/2.jpg", "3.jpg"]
    else:
        assert set(tree(out)) == {NAME, "1.jpg", "a..b/2.jpg", "3.jpg"}


@pytest.mark.parametrize("tar_size", [None, 10**6])
def test_files_outside_of_their_folder(tar_size: int | None, tmp_path: Path) -> None:
    """As annotations may name them."""
    good = jpeg(picture(20, 20, 0))
    write_files(tmp_path, {"up.jpg": good, "in/1.jpg": good, "in/a\n.jpg": good})
    names = ["1.jpg", "../up.jpg", str(tmp_path / "up.jpg"), "a\n.jpg"]
    images = [{"id": k, "file_name": name, "height": 20, "width": 20} for k, name in enumerate(names)]
    (tmp_path / "boxes.json").write_text(json.dumps({"images": images, "annotations": [], "categories": []}))
    before = tree(tmp_path)
    report = prepared(gi.coco(tmp_path / "in", tmp_path / "boxes.json"), tmp_path / "out", tar_size=tar_size)
    assert ([one.index for one in report.failed], report.copied) == ([1, 2, 3], 1)
    assert {name: data for name, data in tree(tmp_path).items() if not name.startswith("out/")} == before


@pytest.mark.parametrize(("tar_size", "name"), [(0, r"a/0000\d\.(jpg|png)"), (10**6, r"shard-000000\.tar")])
def test_what_cannot_be_written_is_named(tar_size: int, name: str, processes: Forks, tmp_path: Path) -> None:
    """Here for a limit of the process, as for a full disk."""
    write_files(tmp_path / "in", many(12))
    code = """
import gpuimg, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (900, 900))
try:
    gpuimg.prepare(gpuimg.folder(sys.argv[1]), sys.argv[2], tar_size=int(sys.argv[3]) or None)
except OSError as error:
    sys.exit(str(error))
"""
    done = processes.run(code, str(tmp_path / "in"), str(tmp_path / "out"), str(tar_size))
    assert re.fullmatch(rf"\[Errno 27\] File too large: '{tmp_path}/out/{name}'\n", done.stderr), done


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source(kind: str, tmp_path: Path, watched: None, capfd: Captured) -> None:
    data = [jpeg(picture(75, 110, k)) for k in range(9)]
    source, _, given = make_source(kind, tmp_path, data)
    report = prepared(source, tmp_path / "out", short_side=30, tar_size=20_000 if kind == "coco" else None)
    assert (report.samples, report.encoded, report.failed) == (9, 9, ())
    if kind == "folder":
        results: Any = gi.folder(tmp_path / "out")
    elif kind in ("file_list", "text file"):
        results = gi.file_list(tmp_path / "out" / "list.csv")
    else:
        results = gi.tar(sorted((tmp_path / "out").glob("shard-*.tar")), label=None)
    small = gi.resize(gi.open_batch(data, device="cpu"), 30, "bicubic").array()
    expected = [file_of(image, "JPEG", quality=90, subsampling="4:2:0") for image in small]
    assert sorted(bytes(one) for one, _ in results) == sorted(expected)
    if given:
        labels = ["--label", "none"] if kind in ("tfrecord", "parquet") else []
        shards = ["--tar", "20k"] if kind == "coco" else []
        arguments = [*given, tmp_path / "again", "--short-side", 30, "--no-measure", *labels, *shards]
        assert command(*arguments) == 0, capfd.readouterr().err
        assert tree(tmp_path / "again") == tree(tmp_path / "out")


def test_labels_of_lists_and_of_records(tmp_path: Path) -> None:
    data = jpeg(picture(40, 60, 0))
    write_files(tmp_path / "in", {"p/1.jpg": data, "q/2 3.jpg": data})
    paths = [tmp_path / "in" / name for name in ("p/1.jpg", "q/2 3.jpg")]
    prepared(gi.file_list(paths, [7, -3]), tmp_path / "files", short_side=20)
    assert (tmp_path / "files" / "list.csv").read_text() == '"path","label"\n"p/1.jpg","7"\n"q/2 3.jpg","-3"\n'
    labels = [3, "words", b"bytes", 0.5, {"boxes": np.ones((1, 4), np.float32)}, None, True]
    prepared([(data, label) for label in labels], tmp_path / "records", short_side=20)
    found = members_of(tmp_path / "records")
    assert {name: data for name, data in found.items() if not name.endswith(".jpg")} == {
        "00000000.cls": b"3", "00000001.txt": b"words", "00000002.bin": b"bytes", "00000003.json": b"0.5",
        "00000004.json": b'{"boxes": [[1.0, 1.0, 1.0, 1.0]]}', "00000006.json": b"true",
    }  # fmt: skip
    report = prepared([(data, object())], tmp_path / "bad", short_side=20)
    assert "its label cannot be written: object has no form in JSON" in report.failed[0].reason


def test_boxes_shrink_with_their_images(tmp_path: Path) -> None:
    write_files(tmp_path / "in", {"deep/1.png": file_of(picture(40, 80, 0), "PNG"), "2.jpg": jpeg(picture(15, 10, 0))})
    (tmp_path / "boxes.json").write_text(json.dumps({
        "images": [{"id": 5, "file_name": "deep/1.png", "height": 40, "width": 80},
                   {"id": 9, "file_name": "2.jpg", "height": 15, "width": 10}],
        "categories": [{"id": 18, "name": "dog"}],
        "annotations": [{"id": 1, "image_id": 5, "category_id": 18, "bbox": [8, 4, 40, 30], "area": 600, "iscrowd": 1},
                        {"id": 2, "image_id": 9, "category_id": 18, "bbox": [1, 2, 3, 4]}],
    }))  # fmt: skip
    coco = gi.coco(tmp_path / "in", tmp_path / "boxes.json")
    prepared(coco, tmp_path / "out", short_side=20, to="same")
    found = gi.coco(tmp_path / "out", tmp_path / "out" / "annotations.json")
    (first, one), (second, two) = found
    assert found.categories == {18: "dog"}
    assert (pixels(first).shape, pixels(second).shape) == ((20, 40, 3), (15, 10, 3))
    assert (one["image_id"], one["boxes"].tolist(), one["area"].tolist()) == (5, [[4, 2, 24, 17]], [150])
    assert one["iscrowd"].tolist() == [True]
    assert two["boxes"].tolist() == [[1, 2, 4, 6]]
    prepared(coco, tmp_path / "shards", short_side=20, tar_size=10**6)
    label = gi.tar(tmp_path / "shards" / "shard-000000.tar", label="json")[0][1]
    assert label["boxes"] == [[4, 2, 24, 17]]


def bad_set(root: Path) -> Path:
    good = jpeg(picture(60, 80, 0))
    return write_files(root / "in", {
        "a/0.jpg": good, "a/1.jpg": b"hello", "a/2.jpg": good[:-300], "a/3.jpg": b"", "b/4.jpg": good, "b/5.jpg": good,
    })  # fmt: skip


@pytest.mark.parametrize("tar_size", [None, 10**6])
def test_bad_images_are_listed(tar_size: int | None, tmp_path: Path) -> None:
    source = gi.folder(bad_set(tmp_path))
    (tmp_path / "in" / "b" / "5.jpg").unlink()
    for _ in range(2):  # and so they are when all is done
        report = prepared(source, tmp_path / "out", short_side=30, tar_size=tar_size)
        assert (report.samples, report.encoded) == (6, 2)
        found = {one.index: (one.source, one.reason) for one in report.failed}
        assert set(found) == {1, 2, 3, 5}
        assert found[1] == ("a/1.jpg", "not an image file (starts with b'hello')")
        assert found[3] == ("a/3.jpg", "empty: 0 bytes")
        assert found[5] == ("b/5.jpg", "cannot be read: No such file or directory")
        assert [line["status"] for line in lines(tmp_path / "out")].count("failed") == 4
    assert not [name for name in tree(tmp_path / "out") if name.endswith(".part")]


def test_an_error_of_any_kind_costs_one_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one before its pixels are computed."""
    whole, small = encode.may_stay, file_of(picture(10, 10, 0))

    def fails(header: Any, data: bytes, options: Any) -> bool:
        return bool(1 / (bytes(data) != small)) and whole(header, data, options)

    monkeypatch.setattr(images, "may_stay", fails)
    source = [(jpeg(picture(20, 20, k)) if k != 1 else small, 0) for k in range(3)]
    report = prepared(source, tmp_path / "out", quality=50)
    assert [(one.index, one.reason) for one in report.failed] == [(1, "ZeroDivisionError: division by zero")]
    assert report.encoded == 2


def test_what_cannot_be_a_result(tmp_path: Path) -> None:
    """Too long, in use for a folder, too wide, a second member of that ending: the other samples are unharmed."""
    good, png = jpeg(picture(20, 20, 0)), file_of(picture(20, 20, 0), "PNG")
    members = dict.fromkeys(("x" * 300 + ".jpg", "1.jpg", "1.jpg/2.jpg", "3.jpg"), good)
    path = write_tar(tmp_path / "in.tar", *members.items())
    report = prepared(gi.tar(path, label=None), tmp_path / "out", tar_size=0, threads=1)
    reasons = ["cannot be written: File name too long", "cannot be written: File exists"]
    assert [(one.index, one.reason) for one in report.failed] == [(0, reasons[0]), (2, reasons[1])]
    assert set(tree(tmp_path / "out")) == {NAME, "1.jpg", "3.jpg"}
    wide = [(file_of(Image.new("L", (70_000, 1)), "PNG"), 0)]
    assert "1 x 70000 cannot be written as JPEG" in prepared(wide, tmp_path / "wide").failed[0].reason
    assert prepared(wide, tmp_path / "small", max_pixels=60_000).encoded == 1
    path = write_tar(tmp_path / "two.tar", ("1.png", png), ("1.jpg", b"other"))
    (failure,) = prepared(gi.tar(path, image="png", label=None), tmp_path / "names").failed
    assert failure.reason == "the result would be .jpg, but the sample already has another member with that ending"


@pytest.mark.parametrize(("option", "value"), [
    ("short_side", 0), ("max_pixels", -1), ("quality", 101), ("subsampling", "411"), ("restart", "some"),
    ("to", "gif"), ("alpha", "red"), ("tar_size", 3), ("threads", 0),
])  # fmt: skip
def test_wrong_options(option: str, value: Any, tmp_path: Path) -> None:
    source = gi.folder(write_files(tmp_path / "in", {"a/1.jpg": jpeg(picture(20, 20, 0))}))
    with pytest.raises(ValueError, match=f"{option} must be"):
        prepared(source, tmp_path / "out", **{option: value})
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("words", "message"), [
    (["nowhere", "out"], "no such file or folder"),
    (["in", "out", "--tar", "much"], "--tar must be a size such as 500M"), (["in", "in/small"], "is inside the source"),
    (["in", "s3://bucket/out"], "destination must be a local folder, to be uploaded afterwards, not 's3://bucket/out'"),
    (["in", "."], "is not empty, and was not prepared by gpuimg"), (["in", "file"], "File exists"),
])  # fmt: skip
def test_wrong_commands(words: list[str], message: str, tmp_path: Path, monkeypatch: Patch, capfd: Captured) -> None:
    write_files(bad_set(tmp_path).parent, {"file": b""})
    monkeypatch.chdir(tmp_path)
    assert command(*words) == 2
    said = capfd.readouterr().err
    assert message in said
    assert "Traceback" not in said


every_size = pytest.mark.parametrize("tar_size", [None, 60_000], ids=["files", "shards"])


@every_size
def test_threads_do_not_matter(tar_size: int | None, tmp_path: Path, watched: None) -> None:
    source = gi.folder(write_files(tmp_path / "in", many(150)))
    for threads in (1, 2, 5):
        report = prepared(source, tmp_path / str(threads), short_side=20, tar_size=tar_size, threads=threads)
        assert (report.encoded, report.resumed) == (150, 0)
    assert tree(tmp_path / "1") == tree(tmp_path / "2") == tree(tmp_path / "5")
    if tar_size:
        shards = sorted((tmp_path / "1").glob("shard-*.tar"))
        assert len(shards) == report.shards > 2
        assert all(path.stat().st_size <= tar_size for path in shards)
        assert subprocess.run(["tar", "-tf", str(shards[1])], capture_output=True, check=True).stderr == b""
        assert [label for _, label in gi.tar(shards)] == [label for _, label in source]


KILLED = """
import gpuimg, os, signal, sys
folder, out, size, at = sys.argv[1:]
def killed(done, total):
    if done >= int(at):
        os.kill(os.getpid(), signal.SIGKILL)
gpuimg.prepare(gpuimg.folder(folder), out, short_side=20, tar_size=int(size) or None, threads=2, measure=False,
               progress=killed)
"""
IMPORTS = """
import gpuimg, io, signal, sys, tempfile
from PIL import Image
file = io.BytesIO()
Image.new("RGB", (40, 60)).save(file, "JPEG")
with tempfile.TemporaryDirectory() as folder:
    gpuimg.prepare([(file.getvalue(), 0)] * 3, folder, short_side=20, threads=1, measure=False)
"""


@pytest.fixture(scope="module")
def processes() -> Iterator[Forks]:
    with forks(IMPORTS) as started:
        yield started


@every_size
@pytest.mark.slow
def test_killed_ten_times(tar_size: int | None, processes: Forks, tmp_path: Path) -> None:
    """SIGKILL while threads write; what is there in between is whole, and in the end all is the same."""
    source = gi.folder(write_files(tmp_path / "in", many(2000)))
    options = {"short_side": 20, "tar_size": tar_size}
    prepared(source, tmp_path / "whole", threads=2, **options)
    whole = tree(tmp_path / "whole")
    for at in sorted(random.Random().sample(range(2000), 10)):
        done = processes.run(KILLED, *map(str, (tmp_path / "in", tmp_path / "out", tar_size or 0, at)))
        assert (done.returncode, done.stderr) == (-signal.SIGKILL, "")
        for name, data in tree(tmp_path / "out").items():
            if name != NAME and not name.endswith(".part"):
                assert data == whole[name]
    report = prepared(source, tmp_path / "out", **options)
    assert tree(tmp_path / "out") == whole
    assert report.samples == 2000


@every_size
def test_interrupted(tar_size: int | None, tmp_path: Path, watched: None) -> None:
    """An exception of a user's function ends the call, and so does Ctrl-C; threads end."""
    source = gi.folder(write_files(tmp_path / "in", many(300)))
    options = {"short_side": 20, "tar_size": tar_size}
    for error in (KeyboardInterrupt, RuntimeError):

        def stop(done: int, total: int, error: type[BaseException] = error) -> None:
            if done >= 50:
                raise error

        with pytest.raises(error):
            prepared(source, tmp_path / "out", progress=stop, threads=3, **options)
    report = prepared(source, tmp_path / "out", **options)
    assert 0 < report.resumed < 300
    prepared(source, tmp_path / "whole", **options)
    assert tree(tmp_path / "out") == tree(tmp_path / "whole")
    again = prepared(source, tmp_path / "out", **options)
    assert (again.resumed, again.encoded) == (300, 300)


@pytest.mark.parametrize("tar_size", [None, 100_000])
def test_every_byte_of_what_is_done(tar_size: int | None, tmp_path: Path) -> None:
    """A flipped bit of the manifest or an unfinished shard is refused, or what it is in is done again."""
    source = gi.folder(write_files(tmp_path / "in", {"a/1.jpg": jpeg(picture(9, 9, 1)), "a/2.png": b"bad"}))
    out, options = tmp_path / "out", {"short_side": 8, "tar_size": tar_size, "threads": 1}
    prepared(source, out, **options)
    whole = tree(out)
    part = {name.replace(".tar", ".tar.part"): content for name, content in whole.items()}
    for name in part.keys() & {NAME, "shard-000000.tar.part"}:
        step = 7 if tar_size is None else 61
        for bit in range(random.randrange(step), 8 * len(part[name]), step):
            shutil.rmtree(out)
            write_files(out, part | {name: flipped(part[name], *divmod(bit, 8))})
            with contextlib.suppress(ValueError):
                prepared(source, out, **options)
                assert tree(out) == whole, (name, bit)


def test_what_cannot_go_on(tmp_path: Path) -> None:
    source = gi.folder(write_files(tmp_path / "in", many(10)))
    prepared(source, tmp_path / "out", short_side=20)
    with pytest.raises(ValueError, match=r"out was prepared with quality=90, not 80, short_side=20, not 30; choose"):
        prepared(source, tmp_path / "out", short_side=30, quality=80)
    (tmp_path / "in" / "a" / "00000.jpg").unlink()
    with pytest.raises(ValueError, match=r"prepared with .*samples=10, not 9"):
        prepared(gi.folder(tmp_path / "in"), tmp_path / "out", short_side=20)

    def meanwhile(done: int, total: int) -> None:
        with pytest.raises(BlockingIOError, match="another process is writing it"):
            prepared(source, tmp_path / "other", short_side=20)

    prepared(source, tmp_path / "other", short_side=20, progress=meanwhile)


def command(*arguments: Any) -> int:
    return run_command("prepare", *arguments)


def test_command(tmp_path: Path, capfd: Captured) -> None:
    root = bad_set(tmp_path)
    assert command(root, tmp_path / "out", "--short-side", 30) == 1
    said = " ".join(capfd.readouterr().out.split())
    for part in (
        "samples 6 images 3 encoded 3 failed bytes", "seconds", "images/s before",
        "failed sample 1 (a/1.jpg): not an image file (starts with b'hello')",
    ):  # fmt: skip
        assert part in said
    assert command(root, tmp_path / "shards", "--tar", "1M", "--restart", "rows", "--quality", 70, "--json") == 1
    report = json.loads(capfd.readouterr().out)
    assert (report["samples"], report["encoded"], report["shards"]) == (6, 3, 1)
    assert [one["index"] for one in report["failed"]] == [1, 2, 3]
    assert report["train"]["images"] == 3
    assert report["train"]["after"] > 0


def test_an_interrupted_command_says_how_to_go_on(tmp_path: Path, monkeypatch: Patch, capfd: Captured) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gpuimg._cli.prepare.prepare", stop)
    assert command(bad_set(tmp_path), tmp_path / "out", "--short-side", 20) == 130
    assert capfd.readouterr().err.endswith("gpuimg: interrupted; the same command resumes\n")


NAMES = [" a.jpg", "b .jpg", 'c"d,e;f.jpg', "g/1_2.jpg"]


@pytest.mark.parametrize(("labels", "refused"), [
    (None, ""), ([0.5, 1, 1e-9, -2.5], ""), (["cat", 'a "b", c', " d ", "two\nlines;"], ""),
    (["007", "7", "1_1", "x"], ""), ([{"x": k, "y": "u"} for k in range(4)], ""), (["1", "2", "3", "4"], "'1'"),
    ([1, None, 2, 3], "1"),
    ([np.ones(2)] * 4, r"array\(\[1., 1.\]\)"), ([True] * 4, "True"), ([float("nan")] * 4, "nan"),
])  # fmt: skip
def test_labels_and_names_of_lists_are_read_as_they_were(tmp_path: Path, labels: Any, refused: str) -> None:
    write_files(tmp_path / "in", dict.fromkeys(NAMES, jpeg(picture(9, 9, 0))))
    source = gi.file_list([tmp_path / "in" / name for name in NAMES], labels)
    if refused:
        with pytest.raises(ValueError, match=f" a.jpg: list.csv cannot hold the label {refused} .* pass tar_size="):
            prepared(source, tmp_path / "out", short_side=5)
        return
    prepared(source, tmp_path / "out", short_side=5)
    columns = ("path", "x", "y") if labels and isinstance(labels[0], dict) else None
    found = gi.file_list(tmp_path / "out" / "list.csv", columns=columns)
    assert (found.labels, [found.listed_name(i) for i in range(4)]) == (source.labels, NAMES)
    assert all(pixels(data).shape == (5, 5, 3) for data, _ in found)


def test_classes_of_lists_and_names_in_use(tmp_path: Path) -> None:
    names = ["a.jpg", "a.png", "a_1.jpg", "a_1_.jpg", "b.jpg"]
    write_files(tmp_path / "in", dict.fromkeys(names, jpeg(picture(9, 9, 0))))
    source = gi.file_list([tmp_path / "in" / name for name in names], list("xyxyz"), classes=True)
    report = prepared(source, tmp_path / "out", short_side=5)
    assert (report.samples, report.failed) == (5, ())
    table = tmp_path / "out" / "list.csv"
    assert gi.file_list(table).labels == [0, 1, 0, 1, 2]
    assert gi.file_list(table, columns=("path", "class"), classes=True).classes == ["x", "y", "z"]
    found = gi.file_list(table)
    assert [found.listed_name(i) for i in range(5)] == ["a.jpg", "a_1__.jpg", "a_1.jpg", "a_1_.jpg", "b.jpg"]
