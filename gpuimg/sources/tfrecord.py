"""Images in TFRecord files."""

from __future__ import annotations

import json
import struct
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks.keywords import renamed
from .._checks.text import counted
from .._io.open_file import Span
from ._fetching import RemoteSpan
from ._indexes import Arrays, check_shards, check_within, count_of, expect, kept
from ._reading import OpenFiles, Path, Scan, shards
from ._remote import Remote
from ._table import Stored, optional, shown
from ._tf_example import Keys

_HEADER = struct.Struct("<QI")  # length of the data, and its checksum
_CHECKSUM = struct.Struct("<I")
_MASK = 0xA282EAD8  # added to a checksum that is stored beside the data it is of


class TFRecord(Stored):
    """Records of TFRecord files."""

    def __init__(self, files: OpenFiles, arrays: Arrays, keys: Keys) -> None:
        self._files = files
        self._shard, self._offset, self._size = arrays["shard"], arrays["offset"], arrays["size"]
        self._first = np.searchsorted(self._shard, np.arange(len(files.paths)))
        self._keys = keys

    def __len__(self) -> int:
        return len(self._shard)

    def __repr__(self) -> str:
        return shown("tfrecord", self._files.paths, counted(len(self), "record"))

    def _name(self, i: int) -> str:
        shard = int(self._shard[i])
        return f"{self._files.name(shard)}: record {i - self._first[shard]}"

    def _places(self, i: int) -> list[Span | RemoteSpan]:
        return [self._files.span(int(self._shard[i]), self._offset[i], self._size[i] + _CHECKSUM.size)]

    def _made(self, i: int, contents: Sequence[Any]) -> tuple[Any, Any]:
        stored, size = contents[0], int(self._size[i])
        data, (expected,) = stored[:size], _CHECKSUM.unpack_from(stored, size)
        found = masked(_library().value(data))
        if found != expected:
            raise ValueError(f"damaged: the checksum of its {size} bytes is {found:#010x}, not {expected:#010x}")
        return self._keys.sample(data)


@renamed(index="index_cache")
def tfrecord(
    paths: Path | Sequence[Path],
    *,
    image: str | None = "image/encoded",
    label: str | None = "image/class/label",
    index_cache: Path | None = None,
    remote: Remote | None = None,
) -> TFRecord:
    """Images in TFRecord files, as features of a ``tf.train.Example`` or as records of their own.

    Parameters
    ----------
    paths : path, sequence of paths, or pattern
        Or URLs. ``"train-{00000..01023}-of-01024"`` stands for 1024 files.
    image : str or None
        Feature with the encoded image. None: the record is the image, and the label None.
    label : str or None
        Feature with the label: ``int``, ``float`` or ``bytes`` for one value, else an array (K,) of int64 or float32,
        or a list of bytes. None gives None.
    index_cache : path, optional
        A file in which the index is kept, and used again for the same shards.
    remote : Remote, optional
        How files behind URLs are read, see :class:`gpuimg.Remote`.

    Returns
    -------
    TFRecord
        Records in the order of the files.

    Raises
    ------
    ValueError
        For a file that is empty, compressed, cut off or damaged (saying where).
    OSError
        Where a file cannot be read.
    ImportError
        Without google-crc32c, which the extra ``tfrecord`` installs.

    Notes
    -----
    TFRecord files have no index. One is built when they are opened, by a jump from header to header: some 2 us a record
    and a disk access each where the file is not in memory. The checksum of the header is verified then, that of the
    data whenever it is read. The index takes 20 bytes a record.

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
    files = OpenFiles(shards(paths), remote)
    arrays = kept(index_cache, json.dumps(["tfrecord 1"]), files, lambda: _index(files), _check)
    return TFRecord(files, arrays, keys)


def _library() -> Any:
    return optional("google_crc32c", "TFRecord", "google-crc32c", "tfrecord")


def masked(checksum: int) -> int:
    """A CRC-32C as the format stores it: rotated by 15 bits, and a constant added."""
    return ((checksum >> 15 | checksum << 17) + _MASK) & 0xFFFFFFFF


def _index(files: OpenFiles) -> Arrays:
    """Shard, offset and size of the data of each record."""
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


def _check(arrays: Arrays, sizes: NDArray[np.int64]) -> None:
    """Refuse what cannot be an index of files of these sizes."""
    n = count_of(arrays, "shard")
    shard = expect(arrays, "shard", np.int32, n)
    check_shards(shard, sizes.size)
    offset, size = (expect(arrays, name, np.int64, n) for name in ("offset", "size"))
    check_within(offset, size, sizes[shard] - _CHECKSUM.size)


def _scan(checksum: Callable[[bytes], int], scan: Scan) -> tuple[array[int], array[int]]:
    """Where the data of each record begins, and its size."""
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
        sizes.append(size)
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
