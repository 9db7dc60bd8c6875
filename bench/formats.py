"""The same photos in each format that sources read, and images/s of each through the loader, from the page cache."""

from __future__ import annotations

import io
import struct
import tarfile
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import gpuimg as gi
from bench.common import BATCH, interleaved, per_second, ratio
from gpuimg._io.native_read import ChunkReader
from gpuimg._loading.samples import Columns, read_samples

_SIZE = 224
_MAGIC = 0xCED7230A  # of a record of MXNet's
_GROUP = 100  # rows of a Parquet file's group, as Hugging Face's datasets has them for images
_CHUNK = 32  # samples read at a time, as a loader's batches of 64 are
_MAP = 1 << 34  # bytes that an LMDB database may grow to

train = gi.presets.imagenet_train(_SIZE)


# -- writing them ------------------------------------------------------------------------------------------------------


def files(photos: list[bytes], place: Path) -> Any:
    """Write a file for each photo, in a folder for each of ten classes."""
    for i, data in enumerate(photos):
        path = place / f"class {i % 10}" / f"{i:06d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return gi.folder(place)


def tar(photos: list[bytes], place: Path) -> Any:
    """Write one tar file in the layout of WebDataset."""
    with tarfile.open(place, "w") as archive:
        for i, data in enumerate(photos):
            for name, content in ((f"{i:06d}.jpg", data), (f"{i:06d}.cls", b"%d" % (i % 10))):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return gi.tar(place)


def lmdb(photos: list[bytes], place: Path) -> Any:
    """Write one LMDB database; a label is the key."""
    environment = import_module("lmdb").open(str(place), map_size=_MAP)
    with environment.begin(write=True) as transaction:
        for i, data in enumerate(photos):
            transaction.put(b"%06d" % i, data)
    environment.close()
    return gi.lmdb(place)


def tfrecord(photos: list[bytes], place: Path) -> Any:
    """Write one file of ``tf.train.Example``."""
    writer = import_module("tfrecord").TFRecordWriter(str(place))
    for i, data in enumerate(photos):
        writer.write({"image/encoded": (data, "byte"), "image/class/label": (i % 10, "int")})
    writer.close()
    return gi.tfrecord(place)


def recordio(photos: list[bytes], place: Path) -> Any:
    """Write one ``.rec`` file of MXNet and its ``.idx``."""
    index = []
    with place.with_suffix(".rec").open("wb") as file:
        for i, data in enumerate(photos):
            index.append(f"{i}\t{file.tell()}\n")
            record = struct.pack("<IfQQ", 0, i % 10, i, 0) + data
            file.write(struct.pack("<II", _MAGIC, len(record)) + record + bytes(-len(record) % 4))
    place.with_suffix(".idx").write_text("".join(index))
    return gi.recordio(place.with_suffix(".rec"))


def parquet(photos: list[bytes], place: Path) -> Any:
    """Write one Parquet file of bytes and labels."""
    table = import_module("pyarrow").table({"image": photos, "label": [i % 10 for i in range(len(photos))]})
    import_module("pyarrow.parquet").write_table(table, place, row_group_size=_GROUP)
    return gi.parquet(place)


FORMATS: dict[str, Callable[[list[bytes], Path], Any]] = {
    "files": files, "tar": tar, "LMDB": lmdb, "TFRecord": tfrecord, "RecordIO": recordio, "Parquet": parquet
}  # fmt: skip


# -- reading them ------------------------------------------------------------------------------------------------------


def measure(photos: list[bytes], folder: Path, rounds: int) -> dict[str, Any]:
    """Measure images/s of ``train`` from each format, relative to files, and the cost of reading alone."""
    sources, missing = _written(photos, folder)
    loaders = {
        name: gi.load(source, train, batch_size=BATCH, shuffle=True, device="cpu", layout="NCHW")
        for name, source in sources.items()
    }
    seconds, worked = interleaved({name: partial(_drain, each) for name, each in loaders.items()}, rounds)
    _, reading = interleaved({name: partial(_read, each) for name, each in sources.items()}, rounds)
    result: dict[str, Any] = {}
    for name in loaders:
        middle, spread = ratio(seconds["files"], seconds[name])
        cpu_middle, cpu_spread = ratio(worked["files"], worked[name])
        result[name] = {
            "images_per_second": per_second(len(photos), seconds[name]),
            "of_files": middle,
            "range": spread,
            "of_files_by_cpu_time": cpu_middle,
            "range_by_cpu_time": cpu_spread,
            "reading_alone_cpu_us": round(1e6 * float(np.median(reading[name])) / len(photos), 1),
        }
    return {**result, **missing}


def _written(photos: list[bytes], folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the sources by format, and the reasons for missing ones."""
    sources, missing = {}, {}
    for name, write in FORMATS.items():
        try:
            sources[name] = write(photos, folder / name)
        except ImportError as error:
            missing[name] = f"not measured: {error}"
    return sources, missing


def _drain(batches: gi.Loader) -> None:
    for _ in batches:
        pass


def _read(source: Any) -> None:
    """Read all samples as the loader's readers do, on this thread."""
    reader = ChunkReader()
    for at in range(0, len(source), _CHUNK):
        indices = range(at, min(at + _CHUNK, len(source)))
        read_samples(source, indices, [True] * len(indices), Columns(), reader)
