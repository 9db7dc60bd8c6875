"""Label files: a list for ``gpuimg.file_list``, and annotations for ``gpuimg.coco``."""

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
    """Create the folders of all classes: a class without results then raises an error instead of vanishing."""
    for name in source.classes if isinstance(source, Folder) else ():
        if not problem_with(name):
            make_folder(folder, os.path.join(folder, name))


def write_labels(source: Any, folder: str, lines: Iterable[Line]) -> None:
    """Write the labels of files; class folders need none."""
    written = (line for line in lines if "output" in line)
    if isinstance(source, Coco):
        replace_by(os.path.join(folder, ANNOTATIONS), json.dumps(_annotations(source, written)).encode())
    elif isinstance(source, ImageFiles) and not isinstance(source, Folder):
        text = ""
        for line in written:
            label = source.label(line["sample"])
            is_number = isinstance(label, (int, np.integer)) and not isinstance(label, bool)  # others have no text
            text += f"{line['output']}\t{label}\n" if is_number else f"{line['output']}\n"
        replace_by(os.path.join(folder, LIST), text.encode("utf-8", "surrogateescape"))


def _annotations(source: Coco, lines: Iterable[Line]) -> dict[str, Any]:
    """Return the annotations with boxes scaled to the new image sizes."""
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
