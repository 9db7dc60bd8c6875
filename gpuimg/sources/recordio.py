"""Source of images in MXNet's RecordIO files."""

from __future__ import annotations

import json
import os
import re
import struct
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._indexes import Arrays, cached_index, check_within, count_of, expect
from ._reading import OpenFiles, Path, Scan, printable
from ._remote import Remote
from ._table import Parts

__all__ = ["recordio"]

_MAGIC = 0xCED7230A
_PART_HEADER = struct.Struct("<II")  # magic; the part's flag in the upper 3 bits, its size in the lower 29
_IMAGE = struct.Struct("<IfQQ")  # number of labels that follow, or 0; the label; id; second id
_WHOLE, _FIRST, _MIDDLE, _LAST = 0, 1, 2, 3  # flag of a part


class RecordIO(Parts):
    """Source of the records of a RecordIO file."""

    _function, _unit = "recordio", "record"

    def __init__(self, files: OpenFiles, arrays: Arrays) -> None:
        super().__init__(files, arrays["offset"], arrays["span"])
        self._paths = files.paths[:1]  # without the .idx file
        self._key = arrays["key"]

    def _file_and_key(self, i: int) -> tuple[str, str]:
        return self._files.paths[0], f"record {self._key[i]}"

    def _sample(self, i: int, contents: Sequence[Any]) -> tuple[Any, Any]:
        return unpack(joined(contents[0]))


def recordio(path: Path, *, index_cache: Path | None = None, remote: Remote | None = None) -> RecordIO:
    """Read images in a RecordIO file of MXNet, as ``im2rec`` and ``mxnet.recordio`` write it.

    Parameters
    ----------
    path : path
        The ``.rec`` file, or its URL. An ``.idx`` file of the same name lists the records; without one the ``.rec``
        file is scanned.
    index_cache : path, optional
        A file that caches the index for later calls with the same ``.rec`` and ``.idx``.
    remote : Remote, optional
        Settings for URLs, see :class:`gpuimg.Remote`.

    Returns
    -------
    RecordIO
        Records in the order of the ``.idx`` file, else of the ``.rec`` file. A label is an ``int``, a ``float`` if it
        has a fraction, or an array (K,) of float32 for several.

    Raises
    ------
    ValueError
        If a file is empty, cut off or damaged (saying where).
    OSError
        If a file cannot be read.

    Notes
    -----
    With an ``.idx`` file only the last record is checked here; damage elsewhere is found when the record is read, as
    far as its header shows it: records have no checksum. Bytes between two listed records are read with the first of
    them. Without an ``.idx`` file the ``.rec`` is scanned from header to header, which takes about 2 us per record, and
    a disk access if the file is not cached by the system. The index takes 24 bytes per record.

    References
    ----------
    dmlc-core ``include/dmlc/recordio.h`` and ``src/recordio.cc``: the records. MXNet ``python/mxnet/recordio.py``,
    ``IRHeader``: their content.

    Examples
    --------
    >>> photos = recordio("train.rec")  # doctest: +SKIP
    >>> data, label = photos[0]  # doctest: +SKIP
    """
    name = os.fsdecode(path)
    listing = os.path.splitext(name)[0] + ".idx"
    both, files = OpenFiles([name, listing], remote), OpenFiles([name], remote)
    way, read, build = ("idx", both, _listed) if both.exists(1) else ("scan", files, _scanned)
    kind = json.dumps(["recordio 1", way])
    return RecordIO(read, cached_index(index_cache, kind, read, lambda: build(read), _check))


def joined(stored: Any) -> Any:
    """Join the parts of the record at the start of ``stored``; raise ValueError if it is damaged.

    A record that contains the magic number is split there into parts, which do not include the number.
    """
    parts, position, flag = [], 0, None
    while flag not in (_WHOLE, _LAST):
        flag, size = _header(stored[position : position + _PART_HEADER.size], flag, position)
        position += _PART_HEADER.size
        part = stored[position : position + size]
        if len(part) != size:
            raise ValueError(f"damaged: a part takes {size} bytes, but {len(part)} are left")
        parts.append(part)
        position += size + -size % 4
    return parts[0] if flag == _WHOLE else _MAGIC.to_bytes(4, "little").join(parts)


def _header(head: Any, before: int | None, position: int) -> tuple[int, int]:
    """Return flag and size of a part; ``before`` is the flag of the previous part of the same record, if any."""
    if len(head) < _PART_HEADER.size:
        raise ValueError(f"cut off: {len(head)} of {_PART_HEADER.size} bytes of a header at byte {position}")
    magic, flag_and_size = _PART_HEADER.unpack(head)
    flag, size = flag_and_size >> 29, flag_and_size & (1 << 29) - 1
    allowed = (_WHOLE, _FIRST) if before is None else (_MIDDLE, _LAST)
    if magic != _MAGIC or flag not in allowed:
        raise ValueError(
            f"damaged: a header at byte {position} must start with {_MAGIC:#010x} and the flag {allowed[0]} or "
            f"{allowed[1]}, not {magic:#010x} and {flag}"
        )
    return flag, size


def unpack(record: Any) -> tuple[Any, Any]:
    """Return image and label of a record; raise ValueError for one too short for its header."""
    if len(record) < _IMAGE.size:
        raise ValueError(f"damaged: {len(record)} of {_IMAGE.size} bytes of an image header")
    count, label, _, _ = _IMAGE.unpack_from(record)
    if not count:
        return record[_IMAGE.size :], int(label) if label.is_integer() else label
    start = _IMAGE.size + 4 * count
    if start > len(record):
        raise ValueError(f"damaged: {count} labels do not fit into {len(record)} bytes")
    return record[start:], np.frombuffer(record, "<f4", count, _IMAGE.size).astype(np.float32)


def _scanned(files: OpenFiles) -> Arrays:
    """Scan the ``.rec`` file: offset and span of every record in bytes, and the record numbers as keys."""
    offsets, ends = array("q"), array("q")
    with files.scanning(0) as scan:
        if not scan.size:
            raise ValueError("empty: 0 bytes")
        position = 0
        while position < scan.size:
            offsets.append(position)
            position = _end(scan, position, len(ends))
            ends.append(position)
    start = np.array(offsets, np.int64)
    return {"offset": start, "span": np.array(ends, np.int64) - start, "key": np.arange(len(start))}


def _check(arrays: Arrays, sizes: NDArray[np.int64]) -> None:
    """Reject arrays that cannot be an index of a ``.rec`` file of size ``sizes[0]``."""
    n = count_of(arrays, "offset")
    offset, span, _ = (expect(arrays, name, np.int64, n) for name in ("offset", "span", "key"))
    check_within(offset, span, sizes[0])


def _end(scan: Scan, position: int, record: int) -> int:
    """Return the end of the record that starts at byte ``position``."""
    flag = None
    while flag not in (_WHOLE, _LAST):
        try:
            flag, length = _header(scan.read_at(position, _PART_HEADER.size), flag, position)
        except ValueError as error:
            raise ValueError(f"record {record}: {error}") from None
        position += _PART_HEADER.size + length + -length % 4
        if position > scan.size:
            raise ValueError(f"cut off: record {record} ends at byte {position} of {scan.size}")
    return position


def _listed(files: OpenFiles) -> Arrays:
    """Read the ``.idx`` file, file 1: offset and span of its records in bytes, and their keys."""
    with files.scanning(1) as scan:
        lines = [_line(number, line) for number, line in enumerate(scan.file, 1) if line.strip()]
        if not lines:
            raise ValueError("no records in it")
    keys, offsets = np.array(lines, np.int64).T
    with files.scanning(0) as scan:
        last = int(offsets.argmax())
        if offsets[last] >= scan.size:
            raise ValueError(f"cut off: record {keys[last]} starts at byte {offsets[last]} of {scan.size}")
        end = _end(scan, int(offsets[last]), int(keys[last]))
    order = np.unique(offsets)
    ends = np.append(order[1:], end)
    return {"offset": offsets, "span": ends[np.searchsorted(order, offsets)] - offsets, "key": keys}


def _line(number: int, line: bytes) -> tuple[int, int]:
    match = re.fullmatch(rb"(\d{1,18})\t(\d{1,18})\r?\n?", line)
    if match is None:
        raise ValueError(f"line {number} must be a key, a tab and an offset, not {printable(line.strip()[:40])!r}")
    return int(match[1]), int(match[2])
