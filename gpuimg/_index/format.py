"""How a seek index lies in its file: a header, a table with a word for each sample, and their entries.

``docs/architecture.md`` describes it for other readers.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, Final, NamedTuple

import numpy as np

MAGIC: Final = b"\x89GPSI\r\n\x1a"  # as PNG's: shows what transfers as text, or of seven bits, do to a file
VERSION: Final = 1
_ORDER: Final = 0x01020304

#: Magic, byte order, version, MCUs of a segment (0: rows), whether it is finished, samples, bytes of the file, bytes of
#: the largest entry, checksum of names; then a CRC-32 of all this.
_HEADER = struct.Struct("<8sIIIIQQQI")
_CHECKSUM = struct.Struct("<I")
HEADER_BYTES: Final = _HEADER.size + _CHECKSUM.size
WORD_BYTES: Final = 8

# A word of the table: where a sample's entry begins, and above that what kind of file it is. An entry ends where the
# next begins; the word behind the last sample's has that place alone.
_KIND_AT: Final = 48
PLACE: Final = (1 << _KIND_AT) - 1

# Kinds of files, in 4 bits. None means that the sample is not looked at yet.
INDEXED: Final = 1
RESTART: Final = 2  # it has restart markers, and needs no entry
PROGRESSIVE: Final = 3
OTHER_JPEG: Final = 4  # arithmetic, 12 bits, CMYK, rare sampling, several scans: for another decoder
OTHER_FORMAT: Final = 5
TOO_LARGE: Final = 6  # its numbers do not fit into an entry
REFUSED: Final = 7  # cannot be read or decoded; in place of an entry is the reason, in UTF-8
KINDS: Final = range(INDEXED, REFUSED + 1)

# Of JPEG files that our decoder takes: the subsampling in the 4 bits above, and one for Huffman tables of their own.
SAMPLINGS: Final = ("", "gray", "4:4:4", "4:2:2", "4:2:0", "4:4:0")
OPTIMIZED: Final = 1 << 8


class Header(NamedTuple):
    """What stands in front.

    Attributes
    ----------
    every : int
        MCUs of a segment; 0 for whole rows.
    finished : bool
    samples : int
    size : int
        Bytes of the file; while it is not finished, samples that are done.
    largest : int
        Bytes of the largest entry; while it is not finished, checksums of what is done.
    names : int
        Checksum of some of the samples' names, see ``names.py``.
    """

    every: int
    finished: bool
    samples: int
    size: int
    largest: int
    names: int

    def packed(self) -> bytes:
        """The bytes of it."""
        every, finished, *rest = self
        front = _HEADER.pack(MAGIC, _ORDER, VERSION, every, finished, *rest)
        return front + _CHECKSUM.pack(zlib.crc32(front))

    @property
    def table_end(self) -> int:
        """Where the entries begin."""
        return int(word_at(self.samples + 1))


def word_at(i: Any) -> Any:
    """Where the word of a sample lies, or of each of several."""
    return HEADER_BYTES + WORD_BYTES * i


def word(place: Any, kind: Any) -> Any:
    """A word of the table, or each of several."""
    return (kind << np.uint64(_KIND_AT)) | place


def kind_of(words: Any) -> Any:
    """The kind in a word, or in each of several, with its subsampling and tables."""
    return words >> np.uint64(_KIND_AT)


def parse(data: bytes) -> Header:
    """The header at the start of a file.

    Raises
    ------
    ValueError
        With the reason, where it is none, or one of another version or byte order, or damaged.
    """
    if data[: len(MAGIC)] != MAGIC:
        found = f"begins with {data[: len(MAGIC)]!r}, not {MAGIC!r}" if data else "is empty"
        raise ValueError(f"is not a seek index: it {found}")
    if len(data) < HEADER_BYTES:
        raise ValueError(f"is cut off: {len(data)} bytes, of which the header takes {HEADER_BYTES}")
    _, order, version, every, finished, *rest = _HEADER.unpack_from(data)
    if order == int.from_bytes(_ORDER.to_bytes(4, "little"), "big"):
        raise ValueError("was written with the highest byte first; this reads the lowest byte first")
    if order == _ORDER and version != VERSION:
        raise ValueError(f"has version {version}; this reads version {VERSION}")
    if _CHECKSUM.unpack_from(data, _HEADER.size)[0] != zlib.crc32(data[: _HEADER.size]):
        raise ValueError("is damaged: its header does not have its checksum")
    return Header(every, bool(finished), *rest)
