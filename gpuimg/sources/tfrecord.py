"""Source of images in TFRecord files."""

from __future__ import annotations

import json
import struct
from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ._formats import SOURCES, import_optional
from ._indexes import Arrays, cached_index, check_parts
from ._protobuf import Keys
from ._reading import OpenFiles, Path, Scan, shards
from ._remote import Remote
from ._table import Parts

__all__ = ["tfrecord"]

_HEADER = struct.Struct("<QI")  # length of the data, and its checksum
_CHECKSUM = struct.Struct("<I")
_MASK = 0xA282EAD8  # constant that the format adds to checksums stored next to their data


class TFRecord(Parts):
    """Source of the records of TFRecord files."""

    _function, _unit = "tfrecord", "record"

    def __init__(self, files: OpenFiles, arrays: Arrays, keys: Keys) -> None:
        super().__init__(files, arrays["offset"], arrays["size"], arrays["shard"])
        self._keys = keys

    def _file_and_key(self, i: int) -> tuple[str, str]:
        shard = self._file_of(i)
        return self._files.paths[shard], f"record {i - bisect_left(self._shard, shard)}"

    def _sample(self, i: int, contents: Sequence[Any]) -> tuple[Any, Any]:
        stored, size = contents[0], int(self._size[i]) - _CHECKSUM.size
        data, (expected,) = stored[:size], _CHECKSUM.unpack_from(stored, size)
        found = masked(_library().value(data))
        if found != expected:
            raise ValueError(f"damaged: the checksum of its {size} bytes is {found:#010x}, not {expected:#010x}")
        return self._keys.sample(data)


def tfrecord(
    paths: Path | Sequence[Path],
    *,
    image: str | None = "image/encoded",
    label: str | None = "image/class/label",
    index_cache: Path | None = None,
    remote: Remote | None = None,
) -> TFRecord:
    """Read images in TFRecord files: features of a ``tf.train.Example``, or one image per record.

    Parameters
    ----------
    paths : path, sequence of paths, or pattern
        Or URLs. ``"train-{00000..01023}-of-01024"`` stands for 1024 files.
    image : str or None
        Feature with the encoded image. None: the record is the image, and the label None.
    label : str or None
        Feature with the label: ``int``, ``float`` or ``bytes`` for one value, else an array (K,) of int64 or float32,
        or a list of bytes. None: labels are None.
    index_cache : path, optional
        A file that caches the index for later calls with the same shards.
    remote : Remote, optional
        Settings for URLs, see :class:`gpuimg.Remote`.

    Returns
    -------
    TFRecord
        Records in the order of the files.

    Raises
    ------
    ValueError
        If a file is empty, compressed, cut off or damaged (saying where).
    OSError
        If a file cannot be read.
    ImportError
        Without google-crc32c and protobuf, which the extra ``tfrecord`` installs.

    Notes
    -----
    TFRecord files have no index. One is built when they are opened, by a scan from header to header, which takes about
    2 us per record, and a disk access if the file is not cached by the system. The checksum of each header is verified
    then, that of the data on every read. The index takes 20 bytes per record.

    References
    ----------
    TensorFlow ``core/lib/io/record_writer.h``: the format of the records, and ``lib/hash/crc32c.h``: the masked
    checksum. CRC-32C is that of RFC 3720, appendix B.4.

    Examples
    --------
    >>> photos = tfrecord("validation-{00000..00127}-of-00128")  # doctest: +SKIP
    >>> data, label = photos[0]  # doctest: +SKIP
    """
    keys = Keys.of(image, label)
    _library()
    files = OpenFiles(shards(paths, remote), remote)
    arrays = cached_index(index_cache, json.dumps(["tfrecord 2"]), files, lambda: _index(files), check_parts)
    return TFRecord(files, arrays, keys)


def _library() -> Any:
    return import_optional("google_crc32c", SOURCES["tfrecord"])


def masked(checksum: int) -> int:
    """Mask a CRC-32C as the format stores it: rotate it right by 15 bits and add a constant."""
    return ((checksum >> 15 | checksum << 17) + _MASK) & 0xFFFFFFFF


def _index(files: OpenFiles) -> Arrays:
    """Scan the files: shard, offset, and size in bytes of each record's data with its checksum."""
    numbers, offsets, sizes = array("i"), array("q"), array("q")
    for number, found in enumerate(files.scanned(partial(_scan, _library().value))):
        offsets += found[0]
        sizes += found[1]
        numbers.extend([number] * len(found[0]))
    return {
        "shard": np.array(numbers, np.int32),
        "offset": np.array(offsets, np.int64),
        "size": np.array(sizes, np.int64),
    }


def _scan(checksum: Callable[[bytes], int], scan: Scan) -> tuple[array[int], array[int]]:
    """Return offset, and size in bytes with the checksum, of the data of each record in a file."""
    end, read_at = scan.size, scan.read_at
    if not end:
        raise ValueError("empty: 0 bytes")
    offsets, sizes = array("q"), array("q")
    position = record = 0
    while position < end:
        header = read_at(position, _HEADER.size)
        if len(header) < _HEADER.size:
            raise ValueError(f"cut off: record {record} at byte {position} has {len(header)} of {_HEADER.size} bytes")
        size, expected = _HEADER.unpack(header)
        found = masked(checksum(header[:8]))
        if found != expected:
            raise ValueError(_no_record(header, record, position, found, expected))
        position += _HEADER.size
        if size + _CHECKSUM.size > end - position:
            raise ValueError(
                f"cut off: record {record} takes {size + _CHECKSUM.size} bytes from byte {position}, "
                f"but {end - position} are left"
            )
        offsets.append(position)
        sizes.append(size + _CHECKSUM.size)
        position += size + _CHECKSUM.size
        record += 1
    return offsets, sizes


def _no_record(header: bytes, record: int, position: int, found: int, expected: int) -> str:
    if not record and (header[:2] == b"\x1f\x8b" or (header[0] == 0x78 and header[1] in (0x01, 0x5E, 0x9C, 0xDA))):
        return "compressed, but records are read in any order: write it without compression"
    return (
        f"damaged: the length of record {record} at byte {position} has the checksum {found:#010x}, "
        f"not {expected:#010x}"
    )
