"""COCO annotations."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuimg.sources import coco
from tests.data_sets import FILES, cpu

from .laws import assert_law, assert_table, assert_vanished, photos

IMAGES = [
    {"id": 9, "file_name": "deep/9.jpg", "height": 24, "width": 16},
    {"id": 2, "file_name": "2.jpg", "height": 24, "width": 16},
    {"id": 5, "file_name": "5.jpg", "height": 24, "width": 16},
]
CATEGORIES = [{"id": 18, "name": "dog"}, {"id": 1, "name": "person"}]
ANNOTATIONS = [
    {"id": 1, "image_id": 9, "category_id": 18, "bbox": [1.5, 2, 3, 4.25], "area": 7.5, "iscrowd": 0},
    {"id": 2, "image_id": 2, "category_id": 1, "bbox": [0, 0, 16.01, 24.004], "iscrowd": 1},
    {"id": 3, "image_id": 9, "category_id": 1, "bbox": [-0.01, 5, 0, 0], "area": 1},
]


def label(image: int, boxes: Any, labels: list[int], area: list[float], crowd: list[bool]) -> dict[str, Any]:
    found = {"boxes": np.array(boxes, np.float32).reshape(-1, 4), "labels": np.array(labels, np.int64)}
    return {**found, "area": np.array(area, np.float32), "iscrowd": np.array(crowd, bool), "image_id": image}


LABELS = [
    label(2, [[0, 0, 16, 24]], [1], [16.01 * 24.004], [True]),
    label(5, [], [], [], []),
    label(9, [[1.5, 2, 4.5, 6.25], [0, 5, 0, 5]], [18, 1], [7.5, 1], [False, False]),
]


def write(root: Path, **content: Any) -> Path:
    path = root / "instances.json"
    path.write_text(json.dumps({"images": IMAGES, "categories": CATEGORIES, "annotations": ANNOTATIONS} | content))
    (root / "deep").mkdir(exist_ok=True)
    for entry, data in zip(IMAGES, photos(3), strict=True):
        (root / str(entry["file_name"])).write_bytes(data)
    return path


def test_boxes(tmp_path: Path) -> None:
    found = coco(tmp_path, write(tmp_path))
    data = photos(3)
    samples = list(zip([data[1], data[2], data[0]], LABELS, strict=True))
    assert_law(found, samples, [f"{tmp_path}/{name}" for name in ("2.jpg", "5.jpg", "deep/9.jpg")])
    assert repr(found) == f"<gpuimg.coco '{tmp_path}': 3 images, 2 categories>"
    assert found.categories == {18: "dog", 1: "person"}
    found[0][1]["boxes"][:] = 0
    assert_table(found, samples, [f"{tmp_path}/{name}" for name in ("2.jpg", "5.jpg", "deep/9.jpg")])
    assert_vanished(found, 1, tmp_path / "5.jpg")


def test_what_pycocotools_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    library = pytest.importorskip("pycocotools.coco")
    path = write(tmp_path)
    reference = library.COCO(str(path))
    capsys.readouterr()
    found = coco(tmp_path, path)
    assert [entry["image_id"] for _, entry in found] == sorted(reference.imgs)
    for _, entry in found:
        annotations = reference.loadAnns(reference.getAnnIds(imgIds=entry["image_id"]))
        assert entry["labels"].tolist() == [annotation["category_id"] for annotation in annotations]
        wanted = np.array([annotation["bbox"] for annotation in annotations]).reshape(-1, 4)
        widths = entry["boxes"][:, 2:] - entry["boxes"][:, :2]
        np.testing.assert_allclose(np.concatenate([entry["boxes"][:, :2], widths], 1), wanted, atol=0.011)


def test_without_annotations(tmp_path: Path) -> None:
    path = tmp_path / "test.json"
    path.write_text(json.dumps({"images": IMAGES[1:2]}))
    (tmp_path / "2.jpg").write_bytes(b"x")
    found = coco(tmp_path, path)
    assert_law(found, [(b"x", label(2, [], [], [], []))], [f"{tmp_path}/2.jpg"])
    assert found.categories == {}


IMAGE = {"id": 1, "file_name": "a", "width": 4, "height": 3}


@pytest.mark.parametrize(("values", "match"), [
    ({"image_id": 77}, "image_id 77 is not in the file"), ({"category_id": 3}, "category_id 3 is not in the file"),
    ({"category_id": "3"}, "category_id must be int, not '3'"), ({"category_id": True}, "category_id must be int"),
    ({"category_id": 1 << 63}, "category_id must fit into 64 bits, not 9223372036854775808"),
    ({"bbox": [1, 2, 3]}, r"bbox must be \[x, y, width, height\] .*, not \[1, 2, 3\]"),
    ({"bbox": [1, 2, -3, 4]}, r"bbox must be .*, not \[1, 2, -3, 4\]"),
    ({"bbox": [1, 2, float("nan"), 4]}, "bbox must be .*nan"), ({"bbox": [1, "2", 3, 4]}, "bbox must be"),
    ({"bbox": None}, "bbox must be list, not None"), ({"area": "7"}, "area must be a number, not '7'"),
    ({"area": float("nan")}, r"area must be from 0 to 1e\+38, not nan"), ({"area": -1}, "area must be from 0 to .*-1"),
    ({"area": 1e300}, r"area must be from 0 to 1e\+38, not 1e\+300"),
    ({"iscrowd": "false"}, "iscrowd must be 0 or 1, not 'false'"), ({"iscrowd": 2}, "iscrowd must be 0 or 1, not 2"),
])  # fmt: skip
def test_wrong_annotations(tmp_path: Path, values: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=rf"instances\.json: annotation 1: {match}"):
        coco(tmp_path, write(tmp_path, annotations=[ANNOTATIONS[0] | values]))


@pytest.mark.parametrize(("content", "match"), [
    ({"images": [IMAGE | {"id": 1 << 63}]}, "image 0: id must fit into 64 bits, not 9223372036854775808"),
    ({"images": [IMAGE | {"height": 10**400}]}, "image 1: height must fit into 64 bits, not a number of 1329 bits"),
    ({"images": [IMAGE | {"height": -5}]}, "image 1: width and height must be at least 1, not 4 and -5"),
    ({"images": [IMAGE | {"width": None}]}, "image 1: width must be int, not None"),
    ({"images": [IMAGE | {"file_name": None}]}, "image 1: file_name must be str, not None"),
    ({"images": [{"file_name": "a"}]}, "image 0: id must be int, not None"), ({"images": []}, "no images in it"),
    ({"images": [IMAGE, IMAGE]}, "image 1 occurs twice"), ({"annotations": [3]}, "annotation 0: image_id must be int"),
    ({"categories": [{"id": 1}]}, "category 0: name must be str, not None"),
])  # fmt: skip
def test_wrong_entries(tmp_path: Path, content: dict[str, Any], match: str) -> None:
    path = write(tmp_path)
    path.write_text(json.dumps({"images": IMAGES, "categories": CATEGORIES, "annotations": []} | content))
    with pytest.raises(ValueError, match=rf"instances\.json: {match}"):
        coco(tmp_path, path)


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b"[" * 10**6, b'{"images": 3}', b'{"images": {"a": 1}}'])
def test_no_annotations(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.json: "):
        coco(tmp_path, tmp_path / "a.json")
    with pytest.raises(FileNotFoundError, match=r"b\.json"):
        coco(tmp_path, tmp_path / "b.json")


@pytest.mark.parametrize(("values", "reason"), [
    ({"bbox": [1, 2, -3, 4]}, "bbox must be"), ({"category_id": 3}, "category_id 3 is not in the file"),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:1 sample could not be decoded:RuntimeWarning")
def test_an_image_with_a_wrong_annotation_is_a_bad_sample(tmp_path: Path, values: dict[str, Any], reason: str) -> None:
    """The others are as without it."""
    whole = coco(tmp_path, write(tmp_path))
    for name, data in zip(("2.jpg", "5.jpg", "deep/9.jpg"), FILES, strict=False):
        (tmp_path / name).write_bytes(data)
    content = {
        "images": IMAGES,
        "categories": CATEGORIES,
        "annotations": [ANNOTATIONS[0] | {"id": 70} | values, *ANNOTATIONS],
    }
    (tmp_path / "instances.json").write_text(json.dumps(content))
    loader = cpu(coco(tmp_path, tmp_path / "instances.json"), on_error="fill")
    (batch,) = loader
    assert batch.valid.tolist() == [True, True, False]
    assert [failure.index for failure in loader.failures] == [2]
    assert re.search(f"annotation 70: {reason}", loader.failures[0].reason)
    for k in range(2):
        assert batch.labels[k]["boxes"].tolist() == whole[k][1]["boxes"].tolist()
