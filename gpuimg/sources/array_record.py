"""Images in ArrayRecord files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from .._checks.text import counted
from .._io.open_file import open_regular
from ._indexes import local
from ._names import printable
from ._reading import OPEN_FILES, Path, naming, shards
from ._table import Table, only, optional, shown
from ._tf_example import Keys

_RANDOM_ACCESS = "readahead_buffer_size:0,max_parallelism:0"
_BUFFER = 1 << 15  # bytes; the default of 1 MiB is for reading in order


class ArrayRecord(Table):
    """Records of ArrayRecord files."""

    def __init__(self, paths: tuple[str, ...], keys: Keys) -> None:
        self._paths, self._keys = paths, keys
        self._opened = lru_cache(OPEN_FILES)(self._open)
        counts = []
        for path in paths:
            with naming(path):
                counts.append(_opened(path).num_records())
        self._end = np.cumsum(counts)
        if not len(self):
            more = ", nor in the others" if len(paths) > 1 else ""
            raise ValueError(f"{printable(paths[0])}: no records in it{more}")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_opened"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._opened = lru_cache(OPEN_FILES)(self._open)

    def __len__(self) -> int:
        return int(self._end[-1])

    def __repr__(self) -> str:
        return shown("array_record", self._paths, counted(len(self), "record"))

    def _origin(self) -> str | bytes | None:
        return only(self._paths)

    def _place(self, i: int) -> tuple[int, int]:
        """File and number of the record in it."""
        file = int(np.searchsorted(self._end, i, "right"))
        return file, i - (int(self._end[file - 1]) if file else 0)

    def _name(self, i: int) -> str:
        file, record = self._place(i)
        return f"{printable(self._paths[file])}: record {record}"

    def _open(self, file: int) -> Any:
        return _opened(self._paths[file])

    def _read(self, i: int) -> tuple[bytes, Any]:
        file, record = self._place(i)
        try:
            (data,) = self._opened(file).read([record])
        except RuntimeError as error:  # of any kind: the library knows no other
            raise ValueError(f"cannot be read: {error}") from error
        if not data:  # the library's only sign of a file that ends too early
            raise ValueError("0 bytes: no record, or the file was cut off after it was indexed")
        return self._keys.sample(data)


def array_record(
    paths: Path | Sequence[Path],
    *,
    image: str | None = "image/encoded",
    label: str | None = "image/class/label",
) -> ArrayRecord:
    """Images in ArrayRecord files, as features of a ``tf.train.Example`` or as records of their own.

    Parameters
    ----------
    paths : path, sequence of paths, or pattern
        ``"train-{00000..01023}-of-01024.array_record"`` stands for 1024 files.
    image : str or None
        Feature with the encoded image (``"image"`` in what TensorFlow Datasets writes). None: the record is the image,
        and the label None.
    label : str or None
        Feature with the label: ``int``, ``float`` or ``bytes`` for one value, else an array (K,) of int64 or float32,
        or a list of bytes. None gives None.

    Returns
    -------
    ArrayRecord
        Records in the order of the files.

    Raises
    ------
    ValueError
        For a file that is empty, cut off, or no ArrayRecord file, and for a URL.
    OSError
        Where a file cannot be read.
    ImportError
        Without array_record, which the extra ``array-record`` installs.

    Notes
    -----
    Files that were written with ``group_size:1`` are read record by record; with larger groups (the default of the
    writer) a whole group is decompressed for each. The library verifies checksums when it reads.

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
    return optional("array_record.python.array_record_module", "ArrayRecord", "array_record", "array-record")


def _opened(path: str) -> Any:
    """A reader; the library has one word for all that may be wrong with a file, so it is looked at first."""
    if not os.stat(path).st_size:
        raise ValueError("empty: 0 bytes")
    os.close(open_regular(path))  # the error of what cannot be opened
    try:
        reader = _library().ArrayRecordReader(path, options=_RANDOM_ACCESS, file_reader_buffer_size=_BUFFER)
    except RuntimeError as error:
        raise ValueError(f"no ArrayRecord file, or damaged: {error}") from error
    if not reader.ok():
        raise ValueError("cut off, or no ArrayRecord file")
    return reader
