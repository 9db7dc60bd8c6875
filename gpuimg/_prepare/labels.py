"""Labels beside files: the list that ``gpuimg.file_list`` reads, and the annotations that ``gpuimg.coco`` reads."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..sources.coco import Coco
from ..sources.folder import Folder, ImageFiles
from .manifest import Line
from .names import problem_with, scaled_label
from .writing import make_folder, replace_by

LIST = "list.txt"
ANNOTATIONS = "annotations.json"


def make_class_folders(source: Any, folder: str) -> None:
    """The folders of all classes, so that one without images is missed rather than passed over."""
    for name in source.classes if isinstance(source, Folder) else ():
        if not problem_with(name):
            make_folder(folder, os.path.join(folder, name))


def write_labels(source: Any, folder: str, lines: Iterable[Line]) -> None:
    """What says which label each file has; class folders say it themselves."""
    made = (line for line in lines if "output" in line)
    if isinstance(source, Coco):
        replace_by(os.path.join(folder, ANNOTATIONS), json.dumps(_annotations(source, made)).encode())
    elif isinstance(source, ImageFiles) and not isinstance(source, Folder):
        text = "".join(f"{line['output']}{_written(source.label(line['sample']))}\n" for line in made)
        replace_by(os.path.join(folder, LIST), text.encode("utf-8", "surrogateescape"))


def _written(label: Any) -> str:
    """A label behind a path; only whole numbers have a place there."""
    return f"\t{label}" if isinstance(label, (int, np.integer)) and not isinstance(label, bool) else ""


def _annotations(source: Coco, lines: Iterable[Line]) -> dict[str, Any]:
    """The annotations of images in their new sizes."""
    images: list[dict[str, Any]] = []
    boxes: list[dict[str, Any]] = []
    for line in lines:
        height, width = line["size"]
        label = scaled_label(source, source.label(line["sample"]), tuple(line["source_size"]), (height, width))
        number = label["image_id"]
        images.append({"id": number, "file_name": line["output"], "height": height, "width": width})
        for (x0, y0, x1, y1), category, area, crowd in zip(
            label["boxes"].tolist(), label["labels"].tolist(), label["area"].tolist(), label["iscrowd"].tolist(),
            strict=True,
        ):  # fmt: skip
            boxes.append(
                {"id": len(boxes) + 1, "image_id": number, "category_id": category, "bbox": [x0, y0, x1 - x0, y1 - y0],
                 "area": area, "iscrowd": int(crowd)}
            )  # fmt: skip
    categories = [{"id": number, "name": name} for number, name in source.categories.items()]
    return {"images": images, "categories": categories, "annotations": boxes}
