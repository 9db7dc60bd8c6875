"""Writers of results: separate files, or tar files; and of labels. Only complete files have their final name."""

import csv
import errno
import io
import json
import os
import stat
import tarfile
import zlib
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

from .._io.file_bytes import printable
from .._io.open_file import naming_file
from ..sources.coco import Coco
from ..sources.folder import Folder, ImageFiles, parsed_table
from .manifest import Line, write_at
from .names import Other, problem_with, scaled_label

LIST = "list.csv"
ANNOTATIONS = "annotations.json"
PART = ".part"
_END = bytes(2 * tarfile.BLOCKSIZE)  # end-of-archive marker
_NO_SHARD = -1  # shard number before the first one

# Errors caused by a file name: too long, invalid, or in use by a folder or file.
_BAD_NAMES = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.EINVAL, errno.EILSEQ)


class Result(NamedTuple):
    """Result of one sample: its record, its path without ending, and the endings and contents of its members.

    The image is the first member; there are none if the sample failed or is already written.
    """

    line: Line
    key: str = ""
    members: tuple[Other, ...] = ()


def failure(line: Line, reason: str) -> Result:
    """Return the result of a failed sample."""
    record = {name: line[name] for name in ("sample", "source", "source_bytes")}
    return Result(record | {"status": "failed", "reason": reason})


def make_folder(root: str, folder: str) -> None:
    """Create a folder below ``root``; raise ValueError if an existing link leads out of it."""
    base = os.path.realpath(root)
    if os.path.commonpath([base, os.path.realpath(folder)]) != base:
        raise ValueError(f"{printable(folder)} leads out of {printable(root)} by a link; remove that")
    os.makedirs(folder, exist_ok=True)


def replace_by(path: str, content: bytes) -> None:
    """Write a file atomically: under a temporary name in the same folder, then rename it."""
    descriptor = _new(path + PART)
    try:
        try:
            write_at(descriptor, content, 0, path)
        finally:
            os.close(descriptor)
        os.replace(path + PART, path)
    except OSError:
        os.unlink(path + PART)
        raise


def _new(path: str) -> int:
    """Create a file for writing. An existing file or link of that name is removed, not written to."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)


def _length(path: str) -> int | None:
    """Return the size of a regular file in bytes; None if there is none, for instance for a link."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


class Files:
    """Writes each result to a separate file.

    ``holds`` and ``add`` are called in order, ``write`` by any thread; what it returns is passed to ``add``.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._folders = {folder}  # that exist

    def holds(self, line: Line) -> bool:
        """Return True if the file exists and has the recorded size."""
        if "output" not in line:
            return True
        return bool(_length(os.path.join(self._folder, line["output"])) == line["bytes"])

    def write(self, result: Result) -> Result:
        """Write the file."""
        for ending, content in result.members[:1]:
            name = f"{result.key}.{ending}"
            path = os.path.join(self._folder, name)
            inside = os.path.dirname(path)
            try:
                if inside not in self._folders:
                    make_folder(self._folder, inside)
                    self._folders.add(inside)
                replace_by(path, content)
            except OSError as error:
                if error.errno not in _BAD_NAMES:
                    raise
                return failure(result.line, f"cannot be written: {error.strerror}")
            result.line.update(output=name, bytes=len(content))
        return Result(result.line)

    def add(self, result: Result) -> Line:
        """Return the record; the file is already written."""
        return result.line

    def close(self) -> None:
        """Do nothing: no file stays open."""

    finish = close


def shard_name(number: int) -> str:
    """Return the file name of a shard."""
    return f"shard-{number:06d}.tar"


class Shards:
    """Writes results as samples of tar files; a new one is started before its size would exceed ``size`` bytes."""

    def __init__(self, folder: str, size: int) -> None:
        self._folder, self._size = folder, size
        self._number = _NO_SHARD
        self._end = 0  # bytes; end of the last sample in the shard
        self._length = 0  # bytes in the shard of an earlier call
        self._is_part = False  # it has not been completed
        self._descriptor: int | None = None

    def _path(self) -> str:
        return os.path.join(self._folder, shard_name(self._number))

    def holds(self, line: Line) -> bool:
        """Return True if the shard has the sample directly after the previous one; until it is complete, its bytes."""
        if "shard" not in line:
            return True
        before = self._number, self._end
        if line["shard"] == self._number + 1 and (self._number == _NO_SHARD or self._is_whole()):
            self._number, self._end = line["shard"], 0
            part = _length(self._path() + PART)
            self._is_part = part is not None
            self._length = part if part is not None else _length(self._path()) or 0
        in_order = self._end < line["offset"] <= line["offset"] + line["bytes"] <= line["end"] <= self._length
        if (
            line["shard"] != self._number or not in_order or line["end"] % tarfile.BLOCKSIZE
            or (self._is_part and zlib.crc32(self._read_part(line["end"])) != line["tar_crc32"])
        ):  # fmt: skip
            self._number, self._end = before
            return False
        self._end = line["end"]
        return True

    def _read_part(self, end: int) -> bytes:
        """Read a sample that begins at the end of the one before it."""
        with open(self._path() + PART, "rb") as file:
            file.seek(self._end)
            return file.read(end - self._end)

    def _is_whole(self) -> bool:
        return _length(self._path()) == self._end + len(_END)

    def write(self, result: Result) -> Result:
        """Do nothing: shards are written in order."""
        return result

    def add(self, result: Result) -> Line:
        """Append a sample to the current shard or to a new one."""
        if not result.members:
            return result.line
        parts = [_member(f"{result.key}.{ending}", content) for ending, content in result.members]
        text = b"".join(map(b"".join, parts))
        if self._number == _NO_SHARD or (self._end and self._end + len(text) + len(_END) > self._size):
            self._close_shard()
            self._number, self._end = self._number + 1, 0
        write_at(self._opened(), text, self._end, self._path())
        ending, content = result.members[0]
        at = self._end + len(parts[0][0])
        self._end += len(text)
        return result.line | {
            "output": f"{result.key}.{ending}", "bytes": len(content), "shard": self._number, "offset": at,
            "end": self._end, "tar_crc32": zlib.crc32(text),
        }  # fmt: skip

    def _opened(self) -> int:
        """Open the current shard, truncated after the last sample that the manifest records."""
        if self._descriptor is None:
            part = self._path() + PART
            if self._end and _length(part) is None:
                os.replace(self._path(), part)
            self._descriptor = os.open(part, os.O_RDWR | os.O_NOFOLLOW) if self._end else _new(part)
            with naming_file(part):
                os.ftruncate(self._descriptor, self._end)
        return self._descriptor

    def _close_shard(self) -> None:
        """Complete a shard, flush it to disk and rename it."""
        if self._number == _NO_SHARD or (self._descriptor is None and self._is_whole()):
            return
        descriptor = self._opened()
        write_at(descriptor, _END, self._end, self._path())
        with naming_file(self._path()):
            os.fsync(descriptor)
        self.close()
        os.replace(self._path() + PART, self._path())

    def finish(self) -> None:
        """Complete the last shard."""
        self._close_shard()

    def close(self) -> None:
        """Close open files; the next call can resume."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _member(name: str, content: bytes) -> tuple[bytes, bytes]:
    """Return header and padded content of a member; they do not depend on time or user."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    head = info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
    return head, content + bytes(-len(content) % tarfile.BLOCKSIZE)


#: Destination of results.
Writer: TypeAlias = Files | Shards


# -- labels ------------------------------------------------------------------------------------------------------------


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
        replace_by(os.path.join(folder, LIST), _table(source, ((line["sample"], line["output"]) for line in written)))


def check_labels(source: Any) -> None:
    """Raise ValueError if a label of a list of files would be another one, read from its table of results."""
    if not isinstance(source, ImageFiles) or isinstance(source, (Coco, Folder)):
        return
    labels = source.labels
    names = ["path", *(labels[0] if isinstance(labels[0], dict) else () if labels[0] is None else ("label",))]
    found: list[Any] = []
    with suppress(ValueError):  # said of the first label below
        text = _table(source, ((i, "1.jpg") for i in range(len(labels))))
        read = parsed_table(text.splitlines(keepends=True), False, names, False)[1]
        found = [None] * len(labels) if read is None else list(read)
    for i, label in enumerate(labels):
        values = list(label.values()) if isinstance(label, dict) else [label]
        plain = all(
            value is None or (isinstance(value, (str, int, float)) and "\0" not in str(value)) for value in values
        )
        if not found or not plain or found[i] != label:
            raise ValueError(
                f"{source.describe(i)}: {LIST} cannot hold the label {label!r} with those of the other samples, only "
                "integers, floats, texts that are not numbers, or dicts of them; tar files can: pass tar_size="
            )


def _table(source: ImageFiles, results: Iterable[tuple[int, str]]) -> bytes:
    """Return a table of the paths of results and their labels, which :func:`gpuimg.file_list` reads."""
    file = io.StringIO(newline="")
    writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
    columns: list[str] | None = None
    for i, path in results:
        label = source.label(i)
        if source.classes:
            label = {"label": label, "class": source.classes[label]}
        elif not isinstance(label, dict):
            label = {} if label is None else {"label": label}
        if columns is None:
            columns = list(label)
            writer.writerow(["path", *columns])
        writer.writerow([path, *label.values()])
    return file.getvalue().encode("utf-8", "surrogateescape")


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
