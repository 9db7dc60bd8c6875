"""TFRecord and ArrayRecord files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuimg.sources import array_record, tfrecord

from ..libraries import library, needs
from .laws import assert_law, photos
from .writers import framed as frame
from .writers import write_array
from .writers import write_examples as write

needs("google_crc32c", "tfrecord")
IMAGE, LABEL = "image/encoded", "image/class/label"


def examples(n: int, **extra: tuple[Any, str]) -> list[dict[str, tuple[Any, str]]]:
    return [{IMAGE: (data, "byte"), LABEL: (i, "int"), **extra} for i, data in enumerate(photos(n))]


def test_examples(tmp_path: Path) -> None:
    data = photos(7)
    write(tmp_path / "a-0", examples(7)[:3])
    write(tmp_path / "a-1", examples(7)[3:])
    names = [f"{tmp_path}/a-{i // 3 if i < 6 else 1}: record {i % 3 if i < 6 else 3}" for i in range(7)]
    assert_law(tfrecord(f"{tmp_path}/a-{{0..1}}"), [(data[i], i) for i in range(7)], names)
    assert repr(tfrecord(f"{tmp_path}/a-{{0..1}}")) == f"<gpuimg.tfrecord '{tmp_path}/a-0' and 1 more: 7 records>"
    assert_law(tfrecord(f"{tmp_path}/a-{{0..1}}", label=None), [(content, None) for content in data], names)


@pytest.mark.parametrize(("value", "kind", "wanted"), [
    (-5, "int", -5), ([3, -(1 << 63), 1 << 62], "int", np.array([3, -(1 << 63), 1 << 62])),
    ([], "int", np.array([], np.int64)), (0.5, "float", 0.5), ([0.5, 0.1], "float", np.array([0.5, 0.1], np.float32)),
    (b"cat", "byte", b"cat"), ([b"cat", b""], "byte", [b"cat", b""]),
])  # fmt: skip
def test_labels(tmp_path: Path, value: Any, kind: str, wanted: Any) -> None:
    path = write(tmp_path / "a", examples(2, other=(value, kind)))
    names = [f"{path}: record {i}" for i in range(2)]
    assert_law(tfrecord(path, label="other"), [(data, wanted) for data in photos(2)], names)


def test_records_that_are_images(tmp_path: Path) -> None:
    path = tmp_path / "a"
    data = [*photos(3), b""]
    path.write_bytes(frame(*data))
    assert_law(tfrecord(path, image=None), [(d, None) for d in data], [f"{path}: record {i}" for i in range(4)])


def test_features_that_are_not_there(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [{"jpeg": (b"x", "byte"), "many": ([b"x", b"y"], "byte"), LABEL: (1, "int")}])
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "a: record 0: no feature 'image/encoded'; it has 'image/class/label', 'jpeg'"),
        ({"image": "jpeg", "label": "top"}, "record 0: no feature 'top'; it has"),
        ({"image": "many"}, "'many' must hold one image, not 2"),
        ({"image": LABEL}, "'image/class/label' must hold bytes, not int64"),
    ]
    for options, message in wrong:
        with pytest.raises(ValueError, match=message):
            tfrecord(path, **options)[0]
    path.write_bytes(frame(b"\x00", b"", bytes([0x0A, 6, 0x0A, 4, 0x0A, 2]) + b"hi"))
    found = tfrecord(path, image="hi")
    with pytest.raises(ValueError, match="a: record 0: no Example message, or damaged: "):
        found[0]
    with pytest.raises(ValueError, match="record 1: no feature 'hi'; it has none"):
        found[1]
    with pytest.raises(ValueError, match="record 2: feature 'hi' holds no value"):
        found[2]


def test_a_feature_whose_name_is_not_text(tmp_path: Path) -> None:
    entry = b"\x0a\1\xff" + b"\x12\5" + b"\x0a\3\x0a\1x"  # key 0xff, and a list of the bytes "x"
    inner = b"\x0a" + bytes([len(entry)]) + entry
    path = tmp_path / "a"
    path.write_bytes(frame(b"\x0a" + bytes([len(inner)]) + inner))
    with pytest.raises(ValueError, match="no feature 'image/encoded'; it has "):
        tfrecord(path)[0]


def test_arguments(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="image must be the name of a feature, or None, not 3"):
        tfrecord(tmp_path / "a", image=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="label must be"):
        tfrecord(tmp_path / "a", label=b"x")  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError, match="nowhere"):
        tfrecord(tmp_path / "nowhere")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("records") / "scratch"


@given(st.lists(st.binary(max_size=50), min_size=1))
def test_any_records(scratch: Path, data: list[bytes]) -> None:
    scratch.write_bytes(frame(*data))
    assert [record for record, _ in tfrecord(scratch, image=None)] == data


def serialized(n: int) -> list[bytes]:
    serialize = library("tfrecord").TFRecordWriter.serialize_tf_example
    return [serialize(example) for example in examples(n)]


@pytest.mark.parametrize("options", ["group_size:1", "group_size:4", "group_size:1,uncompressed"])
def test_array_record(tmp_path: Path, options: str) -> None:
    data = photos(9)
    write_array(tmp_path / "a-0", *serialized(9)[:4], options=options)
    write_array(tmp_path / "a-1", *serialized(9)[4:], options=options)
    names = [f"{tmp_path}/a-{int(i >= 4)}: record {i - 4 * (i >= 4)}" for i in range(9)]
    assert_law(array_record(f"{tmp_path}/a-{{0..1}}"), list(zip(data, range(9), strict=True)), names)
    path = write_array(tmp_path / "b", *data, options=options)
    samples = [(content, None) for content in data]
    assert_law(array_record(path, image=None), samples, [f"{path}: record {i}" for i in range(9)])
    assert repr(array_record(path, image=None)) == f"<gpuimg.array_record '{path}': 9 records>"


def test_array_record_errors(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="b: no records in it"):
        array_record(write_array(tmp_path / "b"))
    path = write_array(tmp_path / "c", b"\0", serialized(1)[0])
    with pytest.raises(ValueError, match="c: record 0: no Example message, or damaged: "):
        array_record(path)[0]
    with pytest.raises(ValueError, match="c: record 1: no feature 'x'; it has 'image/class/label', 'image/encoded'"):
        array_record(path, image="x")[1]
