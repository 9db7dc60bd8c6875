"""Names of results, and the other members of their samples."""

import hashlib
import json
import os
import re
import sys
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..sources.coco import Coco
from ..sources.folder import Folder, ImageFiles
from ..sources.tar import Tar, TarMembers

#: A member of a sample other than its image: ending and bytes.
Other = tuple[str, bytes]


class Naming:
    """Names of a source's samples, their indices. A key is a path without its ending, with ``/`` between folders."""

    def __init__(self, source: Any) -> None:
        self._source: Any = source

    def source(self, i: int) -> str:
        """Return the name of a sample in its source."""
        try:
            return str(self._source.describe(i))
        except Exception:  # `describe` is optional
            return f"sample {i}"

    def key(self, i: int) -> str:
        """Return the key of its result, before duplicates are renamed."""
        return f"{i:08d}"

    def ending(self, i: int) -> str:
        """Return the ending of the sample's image, without the dot."""
        return ""

    def others(self, i: int, label: Any, taken: str) -> list[Other]:
        """Return the members to write into a shard in addition to the image, whose ending is ``taken``."""
        return label_members(label)


def naming_of(source: Any, shards: bool) -> Naming:
    """Return the names of a source's samples; ``shards``: results are members of tar files."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(source, torch.utils.data.Subset):
        return _Chosen(naming_of(source.dataset, shards), source.indices)
    if isinstance(source, ImageFiles):
        return _Files(source, shards)
    return _Members(source) if isinstance(source, Tar) else Naming(source)


class Keys:
    """Unique keys: samples with the same key, except the first, get their index appended, and what makes it unused."""

    def __init__(self, naming: Naming, samples: range) -> None:
        self._naming = naming
        self._changed: dict[int, str] = {}
        hashes = np.fromiter((_hash(naming.key(i)) for i in samples), np.uint64, len(samples))
        known, first = np.unique(hashes, return_index=True)
        if len(known) == len(samples):
            return
        again = np.setdiff1d(np.arange(len(samples)), first) + samples.start
        taken = set(known.tolist())
        for i in again.tolist():
            key = f"{naming.key(i)}_{i}"
            while _hash(key) in taken:
                key += "_"
            taken.add(_hash(key))
            self._changed[i] = key

    def __getitem__(self, i: int) -> str:
        return self._changed.get(i) or self._naming.key(i)


def _hash(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(os.fsencode(key), digest_size=8).digest(), "little")


def problem_with(path: str) -> str:
    """Return why a result path from the data is unsafe, here or for those who unpack a tar file; "" if it is safe."""
    if ".." in re.split(r"[/\\]", path) or re.match(r"[/\\]|[A-Za-z]:", path):
        return f"a result cannot be named {path!r}, which leads out of its folder"
    if any(unicodedata.category(character) == "Cc" for character in path):
        return f"a result cannot be named {path!r}, which contains a control character"
    return ""


def result_ending(original: str, endings: tuple[str, ...]) -> str:
    """Return the original ending if it is one of the format's, else with its last part replaced."""
    before, dot, last = original.rpartition(".")
    return original if last.lower() in endings else before + dot + endings[0]


class _Chosen(Naming):
    """Names of samples that were chosen from a source."""

    def __init__(self, naming: Naming, indices: Sequence[int]) -> None:
        self._naming, self._indices = naming, indices

    def source(self, i: int) -> str:
        return self._naming.source(int(self._indices[i]))

    def key(self, i: int) -> str:
        return self._naming.key(int(self._indices[i]))

    def ending(self, i: int) -> str:
        return self._naming.ending(int(self._indices[i]))

    def others(self, i: int, label: Any, taken: str) -> list[Other]:
        return self._naming.others(int(self._indices[i]), label, taken)


class _Files(Naming):
    """Names of images in files: paths relative to the folder that contains all of them."""

    _source: ImageFiles

    def __init__(self, source: ImageFiles, shards: bool) -> None:
        super().__init__(source)
        self._shards, self._base = shards, source.common_folder()

    def source(self, i: int) -> str:
        if isinstance(self._source, Folder):  # listed relative to its root
            return self._source.listed_name(i)
        return os.path.relpath(os.path.abspath(os.fsdecode(self._source.path(i))), self._base)

    def key(self, i: int) -> str:
        stem = os.path.splitext(self.source(i))[0]
        return _member_key(stem) if self._shards else stem

    def ending(self, i: int) -> str:
        return os.path.splitext(self._source.listed_name(i))[1][1:]


def _member_key(path: str) -> str:
    """Convert a path without ending to a member key: readers take the text after the first dot as the ending."""
    folder, stem = os.path.split(path)
    stem = stem.replace(".", "_")
    if stem.startswith("__") and stem.endswith("__"):  # readers ignore such names
        stem = stem.strip("_") + "_"
    return os.path.join(folder, stem)


class _Members(Naming):
    """Names of samples in tar files: their keys; all their members are copied."""

    _source: Tar

    def __init__(self, source: Tar) -> None:
        super().__init__(source)
        self._members = TarMembers(source)

    def source(self, i: int) -> str:
        return self._source.listed_name(i)

    def key(self, i: int) -> str:
        return self._source.key(i)

    def ending(self, i: int) -> str:
        return self._members.image_ending(i)

    def others(self, i: int, label: Any, taken: str) -> list[Other]:
        found = self._members.others(i)
        if any(ending == taken for ending, _ in found):
            raise ValueError(
                f"the result would be .{taken}, but the sample already has another member with that ending"
            )
        return found


def label_members(label: Any) -> list[Other]:
    """Convert a label to a member that :func:`gpuimg.tar` reads: ``cls`` for integers, ``txt``, ``bin`` or ``json``."""
    if label is None:
        return []
    if isinstance(label, (bytes, bytearray)):
        return [("bin", bytes(label))]
    if isinstance(label, str):
        return [("txt", label.encode("utf-8", "surrogateescape"))]
    if isinstance(label, (int, np.integer)) and not isinstance(label, bool):
        return [("cls", b"%d" % label)]
    try:
        return [("json", json.dumps(label, default=_plain).encode())]
    except (TypeError, ValueError) as error:
        raise ValueError(f"its label cannot be written: {error}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "surrogateescape")
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def scaled_label(source: Any, label: Any, old: tuple[int, int], new: tuple[int, int]) -> Any:
    """Adapt a label to a resized image: those of COCO are reduced to boxes, which are scaled; others are unchanged."""
    if not isinstance(source, Coco):
        return label
    label = {name: value for name, value in label.items() if name not in ("masks", "keypoints")}
    y, x = new[0] / old[0], new[1] / old[1]
    factors = np.array([x, y, x, y], np.float32)
    return {**label, "boxes": label["boxes"] * factors, "area": label["area"] * np.float32(x * y)}
