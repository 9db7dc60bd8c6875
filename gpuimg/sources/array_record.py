"""Source of images in ArrayRecord files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._io.open_file import open_regular
from ._formats import SOURCES, import_optional
from ._protobuf import Keys
from ._reading import OPEN_FILES, Path, Recent, naming, printable, shards
from ._remote import local
from ._table import Table

__all__ = ["array_record"]

_RANDOM_ACCESS = "readahead_buffer_size:0,max_parallelism:0"
_BUFFER = 1 << 15  # bytes; the default of 1 MiB suits sequential reading


class ArrayRecord(Table):
    """Source of the records of ArrayRecord files."""

    _function, _unit = "array_record", "record"
    _paths: tuple[str, ...]

    def __init__(self, paths: tuple[str, ...], keys: Keys) -> None:
        self._paths, self._keys = paths, keys
        self._opened = Recent(self._open, OPEN_FILES)
        counts = []
        for path in paths:
            with naming(path):
                counts.append(_opened(path).num_records())
        self._end = np.cumsum(counts)
        if not len(self):
            more = ", nor in the others" if len(paths) > 1 else ""
            raise ValueError(f"{printable(paths[0])}: no records in it{more}")

    def __len__(self) -> int:
        return int(self._end[-1])

    def _place(self, i: int) -> tuple[int, int]:
        """Return file number, and record number in that file."""
        file = int(np.searchsorted(self._end, i, "right"))
        return file, i - (int(self._end[file - 1]) if file else 0)

    def _file_and_key(self, i: int) -> tuple[str, str]:
        file, record = self._place(i)
        return str(self._paths[file]), f"record {record}"

    def _open(self, file: int) -> Any:
        return _opened(self._paths[file])

    def _read(self, i: int) -> tuple[bytes, Any]:
        file, record = self._place(i)
        try:
            (data,) = self._opened(file).read([record])
        except RuntimeError as error:  # the only type of error that the library raises
            raise ValueError(f"cannot be read: {error}") from error
        if not data:  # the library's only sign of a truncated file
            raise ValueError("0 bytes: no record, or the file was cut off after it was indexed")
        return self._keys.sample(data)


def array_record(
    paths: Path | Sequence[Path], *, image: str | None = "image/encoded", label: str | None = "image/class/label"
) -> ArrayRecord:
    """Read images in ArrayRecord files: features of a ``tf.train.Example``, or one image per record.

    Parameters
    ----------
    paths : path, sequence of paths, or pattern
        ``"train-{00000..01023}-of-01024.array_record"`` stands for 1024 files.
    image : str or None
        Feature with the encoded image (``"image"`` in files of TensorFlow Datasets). None: the record is the image, and
        the label None.
    label : str or None
        Feature with the label: ``int``, ``float`` or ``bytes`` for one value, else an array (K,) of int64 or float32,
        or a list of bytes. None: labels are None.

    Returns
    -------
    ArrayRecord
        Records in the order of the files.

    Raises
    ------
    ValueError
        If a file is empty, cut off, or not an ArrayRecord file, or for a URL.
    OSError
        If a file cannot be read.
    ImportError
        Without array_record and protobuf, which the extra ``array-record`` installs.

    Notes
    -----
    Files written with ``group_size:1`` are read record by record. With larger groups, the default of the writer, a
    whole group is decompressed for each record. The library verifies checksums when it reads.

    References
    ----------
    https://github.com/google/array_record.

    Examples
    --------
    >>> photos = array_record("train-{00000..01023}-of-01024.array_record")  # doctest: +SKIP
    >>> data, label = photos[0]  # doctest: +SKIP
    """
    keys = Keys.of(image, label)
    _library()
    found = shards(paths)
    for path in found:
        local(path, "an ArrayRecord, which its own library reads,")
    return ArrayRecord(found, keys)


def _library() -> Any:
    return import_optional("array_record.python.array_record_module", SOURCES["array_record"])


def _opened(path: str) -> Any:
    """Open a reader. The library has one message for all defects of a file, so common ones are checked first."""
    if not os.stat(path).st_size:
        raise ValueError("empty: 0 bytes")
    os.close(open_regular(path))  # raises the error of a file that cannot be opened
    try:
        reader = _library().ArrayRecordReader(path, options=_RANDOM_ACCESS, file_reader_buffer_size=_BUFFER)
    except RuntimeError as error:
        raise ValueError(f"not an ArrayRecord file, or damaged: {error}") from error
    if not reader.ok():
        raise ValueError("cut off, or not an ArrayRecord file")
    return reader
