"""Source of images with the boxes, masks and key points of a COCO annotation file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks.arguments import flag
from .._checks.text import counted
from ._reading import OpenFiles, Path, printable
from ._remote import Remote
from ._segments import Segments, numbers_of
from .folder import ImageFiles

__all__ = ["coco"]

_LARGEST = (1 << 63) - 1  # ids are stored as int64
_LARGEST_AREA = 1e38  # areas are stored as float32
_FARTHEST = 1e9  # of boxes and key points


class Coco(ImageFiles):
    """Source of images and the boxes in them.

    Attributes
    ----------
    categories : dict of int to str
        Names of the categories by id; ids may have gaps.
    """

    _function = "coco"
    categories: dict[int, str]

    def __init__(
        self, images: Path, names: list[bytes], boxes: _Boxes, categories: dict[int, str], remote: Remote | None
    ) -> None:
        super().__init__(images, names, None, remote=remote)
        self._boxes = boxes
        self.categories = categories

    def _amount(self) -> str:
        return f"{super()._amount()}, {counted(len(self.categories), 'category', 'categories')}"

    def label(self, i: int) -> dict[str, Any]:
        """The annotations of image ``i``.

        Raises
        ------
        ValueError
            If one of them is invalid.
        """
        if i in self._boxes.bad:
            raise ValueError(self._boxes.bad[i])
        return self._boxes.of(i)


def coco(
    images: Path, annotations: Path, *, segments: bool = False, keypoints: bool = False, remote: Remote | None = None
) -> Coco:
    """Read images of a folder with the boxes, masks and key points of a COCO instances file.

    Parameters
    ----------
    images : path
        Folder that file names in the annotations are relative to, or its URL.
    annotations : path
        JSON file such as ``instances_train2017.json``, or its URL.
    segments : bool
        Add the masks of the objects to the labels.
    keypoints : bool
        Add the key points of the objects to the labels.
    remote : Remote, optional
        Settings for URLs, see :class:`gpuimg.Remote`.

    Returns
    -------
    Coco
        Samples by ascending image id, including those without annotations. A label is a dict of ``boxes`` (K, 4)
        float32, in absolute pixels ``(x0, y0, x1, y1)`` as :func:`gpuimg.transform_boxes` takes them, ``labels`` (K,)
        int64 category ids, ``area`` (K,) float32 in square pixels, ``iscrowd`` (K,) bool, and ``image_id``, an int.
        With ``segments``, ``masks`` (K, H, W) bool, as :func:`gpuimg.transform_masks` takes them; with ``keypoints``,
        ``keypoints`` (K, P, 3) float32: ``x``, ``y`` and visibility, as :func:`gpuimg.transform_keypoints` takes them
        with ``pixel_indices=True``.

    Raises
    ------
    ValueError
        For a file that is not JSON or not an instances file, an image without a size, an annotation of an unknown
        image, and if no annotation is valid (naming the first).
    OSError
        If the annotations cannot be read.

    Notes
    -----
    The boxes of COCO are rounded to hundredths of a pixel and may reach that far out of their images; they are clipped
    at the border. ``area`` is that of the instance mask, as in the file, or that of the box if the file has none. An
    image with an invalid annotation (box, area, ``iscrowd``, category, and segmentation or key points if requested)
    raises an error when it is read, so that ``on_error`` of :func:`gpuimg.load` applies.

    Masks are decoded when a sample is read, from polygons and run lengths, and have the pixels that pycocotools gives
    them. An annotation without a segmentation has an empty mask; one without key points has points of visibility 0.

    The JSON file is parsed at once, which takes about 10 times its size in memory for a moment; the result takes 50
    bytes per box, and 4 bytes for each number of the segmentations and key points requested.

    References
    ----------
    Lin et al., *Microsoft COCO: Common Objects in Context*, ECCV 2014. https://cocodataset.org/#format-data.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (root / "1.jpg").write_bytes(b"...")
    >>> _ = (root / "boxes.json").write_text(json.dumps({
    ...     "images": [{"id": 1, "file_name": "1.jpg", "height": 30, "width": 40}],
    ...     "categories": [{"id": 18, "name": "dog"}],
    ...     "annotations": [{"id": 5, "image_id": 1, "category_id": 18, "bbox": [1, 2, 10, 20], "area": 99.0}],
    ... }))
    >>> photos = coco(root, root / "boxes.json")
    >>> photos[0][1]["boxes"].tolist(), photos.categories
    ([[1.0, 2.0, 11.0, 22.0]], {18: 'dog'})
    """
    name = os.fsdecode(annotations)
    options = {"segments": flag(segments, "segments"), "keypoints": flag(keypoints, "keypoints")}
    with OpenFiles([name], remote).scanning(0) as scan:
        try:
            content = json.load(scan.file)
        except RecursionError as error:
            raise ValueError(str(error)) from None
        entries = _sorted(_list(content, "images"))
        if not entries:
            raise ValueError("no images in it")
        categories = {
            _field(entry, "id", int, f"category {k}"): _field(entry, "name", str, f"category {k}")
            for k, entry in enumerate(_list(content, "categories"))
        }
        boxes = _Boxes(entries, _list(content, "annotations"), categories, **options)
        names = [os.fsencode(_field(entry, "file_name", str, f"image {entry['id']}")) for entry in entries]
    return Coco(images, names, boxes, categories, remote)


class _Boxes:
    """Annotations sorted by image; those of image ``i`` are ``ends[i]`` to ``ends[i + 1] - 1``."""

    def __init__(
        self,
        images: list[dict[str, Any]],
        annotations: list[Any],
        categories: dict[int, str],
        *,
        segments: bool,
        keypoints: bool,
    ) -> None:
        self.ids = np.array([entry["id"] for entry in images], np.int64)
        self.sizes = sizes = np.array([_size(entry) for entry in images], np.int64).reshape(-1, 2)
        self.bad: dict[int, str] = {}  # reasons by image
        valid = False  # at least one annotation is
        self.segments = Segments() if segments else None
        self.keypoints = np.zeros((len(annotations), _points(annotations), 3), np.float32) if keypoints else None
        position = {entry["id"]: i for i, entry in enumerate(images)}
        rows = np.empty((len(annotations), 4))
        image, labels = np.empty((2, len(annotations)), np.int64)
        area, crowd = np.empty(len(annotations), np.float32), np.empty(len(annotations), bool)
        for k, entry in enumerate(annotations):
            name = f"annotation {entry.get('id', k) if isinstance(entry, dict) else k}"
            image[k] = _known(entry, "image_id", position.get, name)
            segmentation = None
            points: NDArray[Any] | float = 0.0
            try:
                labels[k] = _field(entry, "category_id", int, name)
                _known(entry, "category_id", categories.get, name)
                rows[k] = box = _box(entry, name)
                area[k] = _area(entry, name) if "area" in entry else box[2] * box[3]
                crowd[k] = _flag(entry, "iscrowd", name)
                if self.segments is not None:
                    segmentation = numbers_of(entry.get("segmentation"), sizes[image[k]].tolist(), name)
                if self.keypoints is not None:
                    points = _keypoints(entry.get("keypoints"), self.keypoints.shape[1], name)
                valid = True
            except ValueError as error:
                self.bad.setdefault(int(image[k]), str(error))
                labels[k], rows[k], area[k], crowd[k] = 0, 0.0, 0.0, False
            if self.segments is not None:
                self.segments.add(segmentation)
            if self.keypoints is not None:
                self.keypoints[k] = points
        if self.bad and not valid:
            raise ValueError(next(iter(self.bad.values())))
        if self.segments is not None:
            self.segments.pack()
        corners = np.concatenate([rows[:, :2], rows[:, :2] + rows[:, 2:]], 1)
        corners = np.clip(corners, 0.0, np.tile(sizes, 2)[image])
        self.order = order = np.argsort(image, kind="stable")
        self.boxes: NDArray[Any] = corners[order].astype(np.float32)
        self.labels, self.area, self.crowd = labels[order], area[order], crowd[order]
        self.ends = np.searchsorted(image[order], np.arange(len(images) + 1))

    def of(self, i: int) -> dict[str, Any]:
        """Return the label of image ``i``; its arrays are copies, which a caller may change."""
        part = slice(int(self.ends[i]), int(self.ends[i + 1]))
        width, height = self.sizes[i].tolist()
        found: dict[str, Any] = {
            "boxes": self.boxes[part].copy(),
            "labels": self.labels[part].copy(),
            "area": self.area[part].copy(),
            "iscrowd": self.crowd[part].copy(),
            "image_id": int(self.ids[i]),
        }
        if self.segments is not None:
            found["masks"] = np.zeros((part.stop - part.start, height, width), np.bool_)
            for mask, k in zip(found["masks"], self.order[part].tolist(), strict=True):
                mask[:] = self.segments.mask(k, height, width)
        if self.keypoints is not None:
            found["keypoints"] = self.keypoints[self.order[part]]
        return found


def _list(content: Any, key: str) -> list[Any]:
    found = content.get(key, []) if isinstance(content, dict) else None
    if not isinstance(found, list):
        raise ValueError(f"not COCO annotations: {key} must be a list in an object")
    return found


def _sorted(images: list[Any]) -> list[dict[str, Any]]:
    ids = [_field(entry, "id", int, f"image {k}") for k, entry in enumerate(images)]
    for previous, following in zip(sorted(ids), sorted(ids)[1:], strict=False):
        if previous == following:
            raise ValueError(f"image {previous} occurs twice")
    return [images[k] for k in np.argsort(ids)]


def _field(entry: Any, key: str, kind: Any, name: str) -> Any:
    """Return a value after checking its type; ``bool`` is not accepted as a number."""
    value = entry.get(key) if isinstance(entry, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{name}: {key} must be {getattr(kind, '__name__', 'a number')}, not {_shown(value)}")
    if isinstance(value, int) and not -_LARGEST <= value <= _LARGEST:
        raise ValueError(f"{name}: {key} must fit into 64 bits, not {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    """Return a value for a message; Python refuses to print integers of thousands of digits."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"a number of {value.bit_length()} bits"
    return printable(repr(value))


def _area(entry: dict[str, Any], name: str) -> float:
    value: float = _field(entry, "area", (int, float), name)
    if not 0 <= value <= _LARGEST_AREA:
        raise ValueError(f"{name}: area must be from 0 to {_LARGEST_AREA:g}, not {value!r}")
    return value


def _flag(entry: dict[str, Any], key: str, name: str) -> bool:
    value = entry.get(key, 0)
    if not isinstance(value, (bool, int)) or value not in (0, 1):
        raise ValueError(f"{name}: {key} must be 0 or 1, not {_shown(value)}")
    return bool(value)


def _known(entry: Any, key: str, find: Callable[[int], Any], name: str) -> Any:
    value = _field(entry, key, int, name)
    found = find(value)
    if found is None:
        raise ValueError(f"{name}: {key} {value} is not in the file")
    return found


def _size(entry: dict[str, Any]) -> tuple[int, int]:
    name = f"image {entry['id']}"
    width, height = _field(entry, "width", int, name), _field(entry, "height", int, name)
    if width < 1 or height < 1:
        raise ValueError(f"{name}: width and height must be at least 1, not {width} and {height}")
    return width, height


def _points(annotations: list[Any]) -> int:
    """Return the number of key points of an object: that of the first annotation with any."""
    given = (entry.get("keypoints") if isinstance(entry, dict) else None for entry in annotations)
    return next((len(each) // 3 for each in given if isinstance(each, list)), 0)


def _keypoints(given: Any, count: int, name: str) -> NDArray[Any] | float:
    """Return checked key points (P, 3), or 0 for an annotation without any."""
    if given is None:
        return 0.0
    if not isinstance(given, list) or len(given) != 3 * count or not all(map(_is_coordinate, given)):
        raise ValueError(f"{name}: keypoints must be {count} times x, y and visibility, not {_shown(given)}")
    result = np.array(given, np.float64).reshape(count, 3)
    if not np.isin(result[:, 2], (0, 1, 2)).all():
        raise ValueError(f"{name}: the visibility of keypoints must be 0, 1 or 2, not {result[:, 2].tolist()}")
    return result


def _is_coordinate(value: Any) -> bool:
    return isinstance(value, (int, float)) and abs(value) < _FARTHEST


def _box(entry: dict[str, Any], name: str) -> list[float]:
    """Return the box ``[x, y, width, height]``: finite numbers, width and height at least 0."""
    box: list[float] = _field(entry, "bbox", list, name)
    if len(box) != 4 or not all(map(_is_coordinate, box)) or box[2] < 0 or box[3] < 0:
        raise ValueError(f"{name}: bbox must be [x, y, width, height] with a width and height of at least 0, not {box}")
    return box
