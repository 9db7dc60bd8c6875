"""What the results of samples are called, and what belongs to them beside the image."""

from __future__ import annotations

import hashlib
import json
import os
import re
import unicodedata
from typing import Any, Protocol

import numpy as np

from ..sources.coco import Coco
from ..sources.folder import Folder, ImageFiles
from ..sources.tar import Tar, TarMembers

#: A member of a sample beside its image: ending and bytes.
Other = tuple[str, bytes]


class Naming(Protocol):
    """Names of a source's samples. A key is a path without its ending, with ``/`` between folders."""

    def source(self, i: int) -> str:
        """What a sample is called where it comes from."""

    def key(self, i: int) -> str:
        """Of its result, but for what is done about keys that are there twice."""

    def ending(self, i: int) -> str:
        """Of the sample's image, without the dot."""

    def others(self, i: int, label: Any, taken: str) -> list[Other]:
        """What goes into a shard beside the image, whose ending is ``taken``."""


def naming_of(source: Any, shards: bool) -> Naming:
    """The names of a source's samples."""
    if isinstance(source, ImageFiles):
        return _Files(source, shards)
    return _Members(source) if isinstance(source, Tar) else _Numbers(source)


class Keys:
    """Keys without repetition: of samples with the same key all but the first get their number added.

    Raises
    ------
    ValueError
        Where that is not enough.
    """

    def __init__(self, naming: Naming, samples: int) -> None:
        self._naming = naming
        self._changed: dict[int, str] = {}
        hashes = np.fromiter((_hash(naming.key(i)) for i in range(samples)), np.uint64, samples)
        known, first = np.unique(hashes, return_index=True)
        if len(known) == samples:
            return
        again = np.setdiff1d(np.arange(samples), first).tolist()
        self._changed = {i: f"{naming.key(i)}_{i}" for i in again}
        for i, key in self._changed.items():
            if _hash(key) in known:
                raise ValueError(f"{naming.source(i)}: there is a sample called {naming.key(i)}, and one called {key}")

    def __getitem__(self, i: int) -> str:
        return self._changed.get(i) or self._naming.key(i)


def _hash(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(os.fsencode(key), digest_size=8).digest(), "little")


def problem_with(path: str) -> str:
    """Why no result may have this path, which comes from the data: it is a reason for whoever unpacks it, too."""
    if ".." in re.split(r"[/\\]", path) or re.match(r"[/\\]|[A-Za-z]:", path):
        return f"a result cannot be called {path!r}, which leads out of its folder"
    if any(unicodedata.category(character) == "Cc" for character in path):
        return f"a result cannot be called {path!r}, which has a control character in it"
    return ""


def result_ending(original: str, endings: tuple[str, ...]) -> str:
    """The ending of a sample's image, or, where that is none of the format, with its last part replaced."""
    before, dot, last = original.rpartition(".")
    return original if last.lower() in endings else before + dot + endings[0]


# -- files -------------------------------------------------------------------------------------------------------------


class _Files:
    """Images in files: their paths in the folder that holds them all."""

    def __init__(self, source: ImageFiles, shards: bool) -> None:
        self._source, self._shards = source, shards
        self._base = source.common_folder()

    def source(self, i: int) -> str:
        if isinstance(self._source, Folder):  # which has listed them so
            return self._source.listed_name(i)
        return os.path.relpath(os.path.abspath(os.fsdecode(self._source.path(i))), self._base)

    def key(self, i: int) -> str:
        stem = os.path.splitext(self.source(i))[0]
        return _member_key(stem) if self._shards else stem

    def ending(self, i: int) -> str:
        return os.path.splitext(self._source.listed_name(i))[1][1:]

    def others(self, i: int, label: Any, taken: str) -> list[Other]:
        return label_members(label)


def _member_key(path: str) -> str:
    """A path without its ending as the key of a member: readers take what follows the first dot for the ending."""
    folder, stem = os.path.split(path)
    stem = stem.replace(".", "_")
    if stem.startswith("__") and stem.endswith("__"):  # which readers pass over
        stem = stem.strip("_") + "_"
    return os.path.join(folder, stem)


# -- members of tar files ----------------------------------------------------------------------------------------------


class _Members:
    """Samples of tar files: their keys, and all members that they have."""

    def __init__(self, source: Tar) -> None:
        self._tar = source
        self._members = TarMembers(source)

    def source(self, i: int) -> str:
        return f"{self._tar.shard_name(i)}: {self._tar.key(i)}"

    def key(self, i: int) -> str:
        return self._tar.key(i)

    def ending(self, i: int) -> str:
        return self._members.image_ending(i)

    def others(self, i: int, label: Any, taken: str) -> list[Other]:
        found = self._members.others(i)
        if any(ending == taken for ending, _ in found):
            raise ValueError(f"the result is to be .{taken}, and the sample has a member of that ending besides")
        return found


# -- all others --------------------------------------------------------------------------------------------------------


class _Numbers:
    """Samples without names of their own: their numbers."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def source(self, i: int) -> str:
        try:
            return str(self._source.describe(i))
        except Exception:  # a source need not have it
            return f"sample {i}"

    def key(self, i: int) -> str:
        return f"{i:08d}"

    def ending(self, i: int) -> str:
        return ""

    def others(self, i: int, label: Any, taken: str) -> list[Other]:
        return label_members(label)


# -- labels ------------------------------------------------------------------------------------------------------------


def label_members(label: Any) -> list[Other]:
    """A label as a member that :func:`gpuimg.tar` reads: ``cls`` for whole numbers, ``txt``, ``bin`` or JSON."""
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
    """A label for an image of another size: the boxes of COCO shrink with it, and all others stay as they are."""
    if not isinstance(source, Coco) or old == new:
        return label
    y, x = new[0] / old[0], new[1] / old[1]
    factors = np.array([x, y, x, y], np.float32)
    return {**label, "boxes": label["boxes"] * factors, "area": label["area"] * np.float32(x * y)}
