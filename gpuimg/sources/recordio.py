"""Images in MXNet's RecordIO files."""

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

from .._checks.keywords import renamed
from .._checks.text import counted
from .._io.open_file import Span
from ._fetching import RemoteSpan
from ._indexes import Arrays, check_within, count_of, expect, kept
from ._names import printable
from ._reading import OpenFiles, Path, Scan
from ._remote import Remote
from ._table import Stored, shown

_MAGIC = 0xCED7230A
_WORDS = struct.Struct("<II")  # magic; 3 bits that say which part of a record it is, and 29 of its length
_IMAGE = struct.Struct("<IfQQ")  # number of labels that follow, or 0; the label; id; second id
_WHOLE, _FIRST, _MIDDLE, _LAST = 0, 1, 2, 3


class RecordIO(Stored):
    """Records of a RecordIO file."""

    def __init__(self, files: OpenFiles, arrays: Arrays) -> None:
        self._files = files
        self._offset, self._span, self._key = arrays["offset"], arrays["span"], arrays["key"]

    def __len__(self) -> int:
        return len(self._offset)

    def __repr__(self) -> str:
        return shown("recordio", self._files.paths, counted(len(self), "record"))

    def _name(self, i: int) -> str:
        return f"{self._files.name(0)}: record {self._key[i]}"

    def _places(self, i: int) -> list[Span | RemoteSpan]:
        return [self._files.span(0, self._offset[i], self._span[i])]

    def _made(self, i: int, contents: Sequence[Any]) -> tuple[Any, Any]:
        return unpack(joined(contents[0]))


@renamed(index="index_cache")
def recordio(path: Path, *, index_cache: Path | None = None, remote: Remote | None = None) -> RecordIO:
    """Images in a RecordIO file of MXNet, as ``im2rec`` and ``mxnet.recordio`` write it.

    Parameters
    ----------
    path : path
        The ``.rec`` file, or its URL. If there is an ``.idx`` file beside it, that says where the records are, else
        they are looked for.
    index_cache : path, optional
        A file in which the index is kept, and used again for the same ``.rec`` and ``.idx``.
    remote : Remote, optional
        How files behind URLs are read, see :class:`gpuimg.Remote`.

    Returns
    -------
    RecordIO
        Records in the order of the ``.idx`` file, else of the ``.rec`` file. A label is ``int`` if it is a whole
        number, ``float`` if not, and an array (K,) of float32 for several.

    Raises
    ------
    ValueError
        For a file that is empty, cut off or damaged (saying where).
    OSError
        Where a file cannot be read.

    Notes
    -----
    With an ``.idx`` file only the last record is looked at here, so that damage within shows when it is read; records
    have no checksum. What lies between two records that it lists is read with the first of them. Without an ``.idx``
    file the ``.rec`` is scanned from header to header, some 2 us a record and a disk access each where it is not in
    memory. The index takes 24 bytes a record.

    References
    ----------
    dmlc-core ``include/dmlc/recordio.h`` and ``src/recordio.cc``: the records. MXNet ``python/mxnet/recordio.py``,
    ``IRHeader``: what is in them.

    Examples
    --------
    >>> photos = recordio("train.rec")  # doctest: +SKIP
    >>> data, label = photos[0]  # doctest: +SKIP
    """
    name = os.fsdecode(path)
    beside = os.path.splitext(name)[0] + ".idx"
    both, files = OpenFiles([name, beside], remote), OpenFiles([name], remote)
    if both.exists(1):
        return RecordIO(
            files, kept(index_cache, json.dumps(["recordio 1", "idx"]), both, lambda: _listed(both), _check)
        )
    return RecordIO(
        files, kept(index_cache, json.dumps(["recordio 1", "scan"]), files, lambda: _scanned(files), _check)
    )


# -- records -----------------------------------------------------------------------------------------------------------


def joined(stored: Any) -> Any:
    """The record at the start of ``stored``, put together of its parts.

    Raises
    ------
    ValueError
        Where there is no record, or a part of it.

    Notes
    -----
    A magic word within a record is left out, and the record split there.

    Examples
    --------
    >>> part = struct.Struct("<III")
    >>> joined(part.pack(_MAGIC, _FIRST << 29 | 4, 1) + part.pack(_MAGIC, _LAST << 29 | 4, 2)).hex(" ", 4)
    '01000000 0a23d7ce 02000000'
    """
    parts, position, flag = [], 0, None
    while flag not in (_WHOLE, _LAST):
        flag, size = _header(stored[position : position + _WORDS.size], flag, position)
        position += _WORDS.size
        part = stored[position : position + size]
        if len(part) != size:
            raise ValueError(f"damaged: a part takes {size} bytes, but {len(part)} are left")
        parts.append(part)
        position += size + -size % 4
    return parts[0] if flag == _WHOLE else _MAGIC.to_bytes(4, "little").join(parts)


def _header(words: Any, before: int | None, position: int) -> tuple[int, int]:
    """Flag and size of a part; ``before`` is the flag of the part before it, if that was not the end."""
    if len(words) < _WORDS.size:
        raise ValueError(f"cut off: {len(words)} of {_WORDS.size} bytes of a header at byte {position}")
    magic, word = _WORDS.unpack(words)
    flag, size = word >> 29, word & (1 << 29) - 1
    allowed = (_WHOLE, _FIRST) if before is None else (_MIDDLE, _LAST)
    if magic != _MAGIC or flag not in allowed:
        raise ValueError(
            f"damaged: a header at byte {position} must start with {_MAGIC:#010x} and the flag {allowed[0]} or "
            f"{allowed[1]}, not {magic:#010x} and {flag}"
        )
    return flag, size


def unpack(record: Any) -> tuple[Any, Any]:
    """Image and label of a record.

    Raises
    ------
    ValueError
        Where it is too short for its header.
    """
    if len(record) < _IMAGE.size:
        raise ValueError(f"damaged: {len(record)} of {_IMAGE.size} bytes of an image header")
    count, label, _, _ = _IMAGE.unpack_from(record)
    if not count:
        return record[_IMAGE.size :], int(label) if label.is_integer() else label
    start = _IMAGE.size + 4 * count
    if start > len(record):
        raise ValueError(f"damaged: {count} labels do not fit into {len(record)} bytes")
    return record[start:], np.frombuffer(record, "<f4", count, _IMAGE.size).astype(np.float32)


# -- the index ---------------------------------------------------------------------------------------------------------


def _scanned(files: OpenFiles) -> Arrays:
    """Offset and span of every record, found one after the other, and their numbers."""
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
    """Refuse what cannot be an index of a ``.rec`` file, the first, of this size."""
    n = count_of(arrays, "offset")
    offset, span, _ = (expect(arrays, name, np.int64, n) for name in ("offset", "span", "key"))
    check_within(offset, span, sizes[0])


def _end(scan: Scan, position: int, record: int) -> int:
    """Where the record that starts at ``position`` ends."""
    flag = None
    while flag not in (_WHOLE, _LAST):
        try:
            flag, length = _header(scan.read_at(position, _WORDS.size), flag, position)
        except ValueError as error:
            raise ValueError(f"record {record}: {error}") from None
        position += _WORDS.size + length + -length % 4
        if position > scan.size:
            raise ValueError(f"cut off: record {record} ends at byte {position} of {scan.size}")
    return position


def _listed(files: OpenFiles) -> Arrays:
    """Offset and span of the records that an ``.idx`` file, the second one, lists, and their keys."""
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
