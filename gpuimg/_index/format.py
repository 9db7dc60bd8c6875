"""File format of the seek index: a header, a table with one record of 64 bits per sample, and the entries.

``docs/architecture.md`` describes it for other programs.
"""

import struct
import zlib
from typing import Any, Final, NamedTuple

import numpy as np

MAGIC: Final = b"\x89GPSI\r\n\x1a"  # as in PNG: shows whether a transfer as text or with 7 bits changed the file
VERSION: Final = 2
_ORDER: Final = 0x01020304

#: Magic, byte order, version, finished (0 or 1), number of samples, bytes of the file, bytes of the largest entry,
#: checksum of names. A CRC-32 of all this follows.
_HEADER = struct.Struct("<8sIIQQQQI")
_CHECKSUM = struct.Struct("<I")
HEADER_BYTES: Final = _HEADER.size + _CHECKSUM.size
RECORD_BYTES: Final = 8
_MOST_NAMES = 64  # samples whose names are in the checksum

# A table record has the file offset of a sample's entry in the lower 48 bits and the kind of its file above. An entry
# ends where the next one begins. A record after the last sample holds only the end of the last entry.
_KIND_AT: Final = 48
OFFSET: Final = (1 << _KIND_AT) - 1

# Kinds of files, in 4 bits. 0 means that the sample has not been processed yet.
INDEXED: Final = 1
RESTART: Final = 2  # has restart markers, and needs no entry
PROGRESSIVE: Final = 3
OTHER_JPEG: Final = 4  # arithmetic, 12 bits, CMYK, rare sampling, several scans: left to another decoder
OTHER_FORMAT: Final = 5
TOO_LARGE: Final = 6  # its offsets do not fit into an entry
REFUSED: Final = 7  # cannot be read or decoded; name and reason in UTF-8 take the place of the entry
KINDS: Final = range(INDEXED, REFUSED + 1)

# Of JPEG files that our decoder takes: the subsampling in the next 4 bits.
SAMPLINGS: Final = ("", "gray", "4:4:4", "4:2:2", "4:2:0", "4:4:0")


class Header(NamedTuple):
    """Header of an index file."""

    finished: bool  # False while the index is being built
    samples: int
    size: int  # bytes of the file; until it is finished, the number of samples done
    largest: int  # bytes of the largest entry; until it is finished, checksums of the records and entries so far
    names: int  # of :func:`checksum_of_names`

    def packed(self) -> bytes:
        """Return the header as bytes."""
        front = _HEADER.pack(MAGIC, _ORDER, VERSION, *self)
        return front + _CHECKSUM.pack(zlib.crc32(front))

    @property
    def table_end(self) -> int:
        """Offset of the first entry."""
        return int(record_at(self.samples + 1))


def record_at(i: Any) -> Any:
    """Return the file offset of a sample's record; for arrays too."""
    return HEADER_BYTES + RECORD_BYTES * i


def pack_record(offset: Any, kind: Any) -> Any:
    """Return a table record of offset and kind; for arrays too."""
    return (kind << np.uint64(_KIND_AT)) | offset


def kind_of(records: Any) -> Any:
    """Return the kind in a record, with its subsampling; for arrays too."""
    return records >> np.uint64(_KIND_AT)


def parse(data: bytes) -> Header:
    """Parse the header at the start of a file; raise ValueError, with the reason, for any other file."""
    if data[: len(MAGIC)] != MAGIC:
        found = f"begins with {data[: len(MAGIC)]!r}, not {MAGIC!r}" if data else "is empty"
        raise ValueError(f"is not a seek index: it {found}")
    if len(data) < HEADER_BYTES:
        raise ValueError(f"is cut off: {len(data)} bytes, but the header takes {HEADER_BYTES}")
    _, order, version, finished, *rest = _HEADER.unpack_from(data)
    if order == int.from_bytes(_ORDER.to_bytes(4, "little"), "big"):
        raise ValueError("is big-endian; this gpuimg reads little-endian indexes")
    if order == _ORDER and version != VERSION:
        raise ValueError(f"has version {version}; this gpuimg reads version {VERSION}")
    if _CHECKSUM.unpack_from(data, _HEADER.size)[0] != zlib.crc32(data[: _HEADER.size]):
        raise ValueError("is damaged: the checksum of its header is wrong")
    return Header(bool(finished), *rest)


def checksum_of_names(source: Any) -> int:
    """Return the CRC-32 of the names of some samples, including the first and the last; 0 if they have none.

    The part of a name up to its last slash is left out, so that a data set may be moved.
    """
    describe = getattr(source, "describe", None)
    if describe is None or not len(source):
        return 0
    some = sorted({k * (len(source) - 1) // (_MOST_NAMES - 1) for k in range(_MOST_NAMES)})
    try:
        names = [str(describe(i)).rpartition("/")[2] for i in some]
    except Exception:  # `describe` may fail for some samples
        return 0
    return zlib.crc32("\0".join(names).encode("utf-8", "backslashreplace"))
