"""COCO annotations, with pycocotools as the oracle: boxes, masks and key points."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuimg
from gpuimg.sources import coco
from tests.data_sets import FILES, cpu

from ..libraries import library
from .laws import assert_law, assert_table, assert_vanished, photos

FILE_NAMES = {9: "deep/9.jpg", 2: "2.jpg", 5: "5.jpg"}
IMAGES = [{"id": k, "file_name": name, "height": 24, "width": 16} for k, name in FILE_NAMES.items()]
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
    with pytest.raises(ValueError, match=rf"instances\.json: {match}"):
        coco(tmp_path, write(tmp_path, **{"annotations": [], **content}))


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
    whole = coco(tmp_path, write(tmp_path))
    for name, data in zip(("2.jpg", "5.jpg", "deep/9.jpg"), FILES, strict=False):
        (tmp_path / name).write_bytes(data)
    annotations = [ANNOTATIONS[0] | {"id": 70} | values, *ANNOTATIONS]
    content = {"images": IMAGES, "categories": CATEGORIES, "annotations": annotations}
    (tmp_path / "instances.json").write_text(json.dumps(content))
    loader = cpu(coco(tmp_path, tmp_path / "instances.json"), on_error="fill")
    (batch,) = loader
    assert batch.valid.tolist() == [True, True, False]
    assert [failure.index for failure in loader.failures] == [2]
    assert re.search(f"annotation 70: {reason}", loader.failures[0].reason)
    for k in range(2):
        assert batch.labels[k]["boxes"].tolist() == whole[k][1]["boxes"].tolist()


of_older_numpy = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # pycocotools
BOX = {"category_id": 1, "bbox": [0, 0, 3, 4]}
#: By hand: a square, and a pixel of a 24 x 16 image as run lengths down the columns, and as a string.
SQUARE = [[2, 3, 5, 3, 5, 7, 2, 7]]
RUNS = {"size": [24, 16], "counts": [24 * 3 + 5, 1, 384 - 78]}
TEXT = {"size": [24, 16], "counts": "]21b9"}


def opened(root: Path, annotations: list[dict[str, Any]], **options: Any) -> Any:
    return coco(root, write(root, annotations=annotations), **options)


def annotations_of(*segmentations: Any, image: int = 2, **more: Any) -> list[dict[str, Any]]:
    """Annotations of an image, without a segmentation where it is ``...``."""
    return [
        {"id": k, "image_id": image, **BOX} | ({} if each is ... else {"segmentation": each}) | more
        for k, each in enumerate(segmentations, 1)
    ]


def polygons(rng: np.random.Generator, height: int, width: int) -> list[list[float]]:
    """Stars that cross themselves, reach out of the image, and have whole, half and repeated coordinates."""
    result = []
    for _ in range(int(rng.integers(1, 4))):
        points = rng.uniform(-9, (width + 9, height + 9), (int(rng.integers(3, 25)), 2))
        if rng.integers(2):
            points = np.round(points * 2) / 2
            points[1] = points[0]
        result.append(points.round(int(rng.integers(4))).ravel().tolist())
    return result


def test_masks_by_hand(tmp_path: Path) -> None:
    found = opened(tmp_path, annotations_of(SQUARE, RUNS, TEXT, [], ..., None), segments=True)
    masks = found[0][1]["masks"]
    assert (masks.shape, masks.dtype) == ((6, 24, 16), bool)
    square, pixel = np.zeros((2, 24, 16), bool)
    square[3:7, 2:5] = True
    pixel[5, 3] = True
    np.testing.assert_array_equal(masks, [square, pixel, pixel, *[np.zeros((24, 16), bool)] * 3])
    assert found[1][1]["masks"].shape == (0, 24, 16)
    assert "masks" not in coco(tmp_path, tmp_path / "instances.json")[0][1]
    masks[:] = False
    assert found[0][1]["masks"].any()


@of_older_numpy
def test_masks_are_those_of_pycocotools(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reader, codes = library("pycocotools.coco"), library("pycocotools.mask")
    rng = np.random.default_rng()
    sizes = {9: (24, 16), 2: (1, 90), 5: (311, 517)}
    images = [{"id": k, "file_name": f"{k}.jpg", "height": size[0], "width": size[1]} for k, size in sizes.items()]
    entries: list[dict[str, Any]] = []
    for k in range(300):
        image = int(rng.choice(list(sizes)))
        height, width = sizes[image]
        segmentation: Any = polygons(rng, height, width)
        if k % 3:
            runs = codes.merge(codes.frPyObjects(segmentation, height, width))
            segmentation = {"size": [height, width], "counts": runs["counts"].decode()}
            if k % 3 == 2:
                pixels = codes.decode(runs).T.ravel()
                ends = np.flatnonzero(np.diff(pixels, prepend=9))
                segmentation["counts"] = [0] * int(pixels[0]) + np.diff(ends, append=len(pixels)).tolist()
        entries.append({"id": k + 1, "image_id": image, **BOX, "segmentation": segmentation, "iscrowd": int(k % 3 > 0)})
    path = write(tmp_path, annotations=entries, images=images)
    for k in sizes:
        (tmp_path / f"{k}.jpg").write_bytes(b"x")
    reference = reader.COCO(str(path))
    capsys.readouterr()
    for _, label in coco(tmp_path, path, segments=True):
        annotations = reference.loadAnns(reference.getAnnIds(imgIds=label["image_id"]))
        expected = [reference.annToMask(annotation) for annotation in annotations]
        np.testing.assert_array_equal(label["masks"], expected)
    capsys.readouterr()


def test_key_points(tmp_path: Path) -> None:
    some = [1, 2, 2, 15.75, 23, 1, 0, 0, 0]
    entries = annotations_of(..., keypoints=some) + annotations_of(...) + annotations_of(..., image=9, keypoints=some)
    found = opened(tmp_path, entries, keypoints=True)
    labels = [label for _, label in found]
    expected = np.array(some, np.float32).reshape(3, 3)
    assert labels[0]["keypoints"].dtype == np.float32
    np.testing.assert_array_equal(labels[0]["keypoints"], [expected, np.zeros((3, 3))])
    assert labels[1]["keypoints"].shape == (0, 3, 3)
    np.testing.assert_array_equal(labels[2]["keypoints"], [expected])
    x = gpuimg.horizontal_flip(np.zeros((3, 24, 16, 3), np.uint8))
    moved = gpuimg.transform_keypoints(x, [label["keypoints"] for label in labels], pixel_indices=True)
    assert moved[0][0].tolist() == [[14, 2, 2], [0, 0, 0], [0, 0, 0]]
    assert opened(tmp_path, annotations_of(...), keypoints=True)[0][1]["keypoints"].shape == (1, 0, 3)


def test_an_image_with_a_wrong_segmentation_is_a_bad_sample(tmp_path: Path) -> None:
    good, points = annotations_of(SQUARE, RUNS, keypoints=[1, 2, 2]), {"keypoints": [3, 4, 1]}
    for wrong in ({"segmentation": [[1, 2]], **points}, {"segmentation": SQUARE, "keypoints": [1, 2]}):
        entries = [*annotations_of(TEXT, image=9, **points), {"id": 7, "image_id": 5, **BOX} | wrong, *good]
        found = opened(tmp_path, entries, segments=True, keypoints=True)
        with pytest.raises(ValueError, match="annotation 7: "):
            found.label(1)
        assert found.label(0)["masks"].sum((1, 2)).tolist() == [12, 1]
        assert found.label(0)["keypoints"].tolist() == [[[1, 2, 2]]] * 2
        assert found.label(2)["masks"].sum((1, 2)).tolist() == [1]
        assert found.label(2)["keypoints"].tolist() == [[[3, 4, 1]]]


RUN = "segmentation counts must be run lengths"
POLYGON = "a polygon must have x and y of at least 3 points"


@pytest.mark.parametrize(("values", "match"), [
    ({"segmentation": [[1, 2, 3, 4]]}, rf"{POLYGON}, not \[1, 2, 3, 4\]"),
    ({"segmentation": [[1, 2, 3, 4, 5, 6, 7]]}, POLYGON),
    ({"segmentation": [1, 2, 3, 4, 5, 6]}, "segmentation must be a list of polygons or an object with counts"),
    ({"segmentation": "polygon"}, "segmentation must be a list of polygons"),
    *(({"segmentation": [[1, 2, 3, 4, 5, wrong]]}, r"a polygon must hold numbers within 100000 pixels, not \[1, 2")
      for wrong in ("6", float("nan"), 1e6)),
    ({"segmentation": RUNS | {"size": [16, 24]}}, r"segmentation size must be \[24, 16\], not \[16, 24\]"),
    *(({"segmentation": RUNS | {"counts": counts}}, f"{RUN} of 384 pixels")
      for counts in ([383], [-1, 385], [384.0], [10**30], "]21b", "é", "", "oooooooooooooooooo0")),
    ({"segmentation": {"size": [24, 16]}}, RUN),
    *(({"keypoints": points}, "keypoints must be 1 times x, y and visibility, not")
      for points in ([1, 2, 2, 3], [1, 2, "2"], [1, float("nan"), 2])),
    ({"keypoints": 5}, "keypoints must be 0 times x, y and visibility, not 5"),
    ({"keypoints": [1, 2, 3]}, r"the visibility of keypoints must be 0, 1 or 2, not \[3.0\]"),
])  # fmt: skip
def test_wrong_segments(tmp_path: Path, values: dict[str, Any], match: str) -> None:
    path = write(tmp_path, annotations=annotations_of(..., **values))
    coco(tmp_path, path)
    with pytest.raises(ValueError, match=rf"instances\.json: annotation 1: {match}"):
        coco(tmp_path, path, segments=True, keypoints=True)
    with pytest.raises(TypeError, match="segments must be True or False"):
        coco(tmp_path, path, segments=1)  # type: ignore[arg-type]
