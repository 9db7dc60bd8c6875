"""Files of every format of sources, by the formats' libraries, or written here from their descriptions."""

import io
import json
import struct
import tarfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import gpuimg as gi
from gpuimg.sources import _formats

from ..libraries import library, needs
from ..samples import write_files

MAGIC = struct.pack("<I", 0xCED7230A)  # of RecordIO


def write_tar(path: Any, *members: tuple[str, bytes], form: int = tarfile.PAX_FORMAT) -> Any:
    """Members of a tar file, by a path or a file that is open."""
    target = {"name": path} if isinstance(path, Path) else {"fileobj": path}
    with tarfile.open(mode="w", format=form, **target) as file:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            file.addfile(member, io.BytesIO(data))
    return path


def archive(samples: Iterable[tuple[bytes, int]]) -> bytes:
    members = [(f"{k:05d}.{end}", one) for data, k in samples for end, one in (("jpg", data), ("cls", b"%d" % k))]
    file: io.BytesIO = write_tar(io.BytesIO(), *members)
    return file.getvalue()


def masked(data: bytes) -> bytes:
    checksum: int = library("google_crc32c").value(data)
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8 & 0xFFFFFFFF).to_bytes(4, "little")


def framed(*payloads: bytes) -> bytes:
    parts = [one for data in payloads for one in (len(data).to_bytes(8, "little"), data)]
    return b"".join(part + masked(part) for part in parts)


def record(data: bytes) -> bytes:
    """A record as MXNet's writer splits it: at magic words that begin at a multiple of 4."""
    pieces, start = [], 0
    for at in range(0, len(data) // 4 * 4, 4):
        if data[at : at + 4] == MAGIC:
            pieces.append(data[start:at])
            start = at + 4
    pieces.append(data[start:])
    last = len(pieces) - 1
    flags = [0] if not last else [1, *[2] * (last - 1), 3]
    return b"".join(
        MAGIC + struct.pack("<I", flag << 29 | len(piece)) + piece + bytes(-len(piece) % 4)
        for flag, piece in zip(flags, pieces, strict=True)
    )


def packed(data: bytes, label: float) -> bytes:
    """An image with MXNet's header."""
    return struct.pack("<IfQQ", 0, label, 0, 0) + data


def write_lmdb(path: Path, entries: Mapping[bytes, bytes], **options: Any) -> Path:
    environment = library("lmdb").open(str(path), map_size=1 << 26, **options)
    with environment.begin(write=True) as transaction:
        for key, value in entries.items():
            transaction.put(key, value)
    environment.close()
    return path


def write_parquet(path: Path, images: list[Any], labels: Any = None, group: int = 3, **options: Any) -> Path:
    table = library("pyarrow").table({"image": images} | ({} if labels is None else {"label": labels}))
    library("pyarrow.parquet").write_table(table, path, row_group_size=group, **options)
    return path


def write_array(path: Path, *payloads: bytes, options: str = "group_size:1") -> Path:
    writer = library("array_record.python.array_record_module").ArrayRecordWriter(str(path), options)
    for data in payloads:
        writer.write(data)
    writer.close()
    return path


def write_examples(path: Path, examples: Iterable[Mapping[str, tuple[Any, str]]]) -> Path:
    needs("google_crc32c")
    writer = library("tfrecord").TFRecordWriter(str(path))
    for example in examples:
        writer.write(example)
    writer.close()
    return path


#: All but "tiles", whose samples are not of any size; it has tests of its own.
FORMATS = {name: row for name, row in _formats.SOURCES.items() if name != "tiles"}
SOURCES = ("pairs", "mappings", "text file", *FORMATS)
_NAMES = {"folder": "set", "text file": "list.txt", "recordio": "set.rec", "lmdb": "set_lmdb"}


def make_source(kind: str, root: Path, data: list[bytes]) -> tuple[Any, str | None, list[str]]:
    """A source of a kind with these samples, the default name of its index, and the arguments of the command for it."""
    if kind == "pairs":
        return [(one, k) for k, one in enumerate(data)], None, []
    if kind == "mappings":
        return [{"image": {"bytes": one, "path": None}, "label": k} for k, one in enumerate(data)], None, []
    source = write_source(kind, root, data)(root)
    if kind == "file_list":
        return source, None, []
    if kind == "coco":
        return source, "set/one", [str(root / "boxes.json"), "--images", str(root / "set" / "one")]
    name = _NAMES.get(kind, f"set.{kind}")
    return source, name, [] if kind == "array_record" else [str(root / name)]


def write_source(kind: str, root: Path, data: list[bytes]) -> Callable[..., Any]:
    """Write a data set of a kind with these samples; return what opens it by the path or URL of its folder."""
    if kind in ("folder", "file_list", "text file", "coco"):
        names = [f"set/one/{k}.jpg" for k in range(len(data))]
        write_files(root, dict(zip(names, data, strict=True)))
        if kind == "folder":
            return lambda base, **more: gi.folder(f"{base}/set", **more)
        if kind == "file_list":
            return lambda base, **more: gi.file_list([f"{base}/{name}" for name in names], **more)
        if kind == "text file":
            (root / "list.txt").write_text("".join(f"{name} 3\n" for name in names))
            return lambda base, **more: gi.file_list(f"{base}/list.txt", **more)
        images = [{"id": k, "file_name": f"{k}.jpg", "height": 75, "width": 110} for k in range(len(data))]
        (root / "boxes.json").write_text(json.dumps({"images": images, "categories": [], "annotations": []}))
        return lambda base, **more: gi.coco(f"{base}/set/one", f"{base}/boxes.json", **more)
    name, options = _NAMES.get(kind, f"set.{kind}"), {"label": None}
    path = root / name
    if kind == "tar":
        write_tar(path, *((f"{k}.jpg", one) for k, one in enumerate(data)))
    elif kind == "recordio":
        options = {}
        path.write_bytes(b"".join(record(packed(one, k)) for k, one in enumerate(data)))
    elif kind == "lmdb":
        name, options = "set_lmdb/data.mdb", {}
        write_lmdb(path, {b"%d" % k: one for k, one in enumerate(data)})
    elif kind == "tfrecord":
        write_examples(path, [{"image/encoded": (one, "byte")} for one in data])
    elif kind == "parquet":
        write_parquet(path, data)
    else:
        options = {"image": None}
        write_array(path, *data)
    return lambda base, **more: getattr(gi, kind)(f"{base}/{name}", **options, **more)
