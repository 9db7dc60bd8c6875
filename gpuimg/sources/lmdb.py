"""Source of images in LMDB databases, without the LMDB library.

The library maps the file and trusts it: through py-lmdb 3.0 (LMDB 0.9.36, read-only, without locks) 100 of 100 files
that were cut off and 9 of 100 with a page of zeros ended the process, with SIGBUS and SIGABRT. It also refuses a file
that is open already, and its environments do not survive a fork. Reading a file that nobody writes needs none of it:
every key and every position comes from the pages, each of which is checked.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, TypeAlias

import numpy as np

from ._indexes import Names
from ._reading import OpenFiles, Path, Scan, printable
from ._remote import Remote
from ._table import Parts

__all__ = ["lmdb"]

_DATA = "data.mdb"  # the data file in the folder of a database
_MAGIC = 0xBEEFC0DE
_META = struct.Struct("<IIQQ48s48sQQ")  # magic, version, address, map size, free and main database, last page, txn
_DATABASE = struct.Struct("<IHHQQQQQ")  # page size, flags, depth, branch, leaf and overflow pages, entries, root
_NODE = struct.Struct("<HHHH")  # size of the value or number of a page (low, high, flags), size of the key
_PAGE_NUMBER = struct.Struct("<Q")
_TAIL = struct.Struct("<HHH")  # flags, end of the pointers, start of the nodes: the end of a page header

_BRANCH, _LEAF, _OVERFLOW = 0x01, 0x02, 0x04  # flags of a page
_ON_PAGES, _DATABASES, _DUPLICATES = 0x01, 0x02, 0x04  # flags of a node
_EMPTY = (1 << 64) - 1  # the root of a database without entries
_HEADER = 16  # bytes of a page header
_DEPTH = 32  # levels of the tree: the limit of the library's cursors

Parse: TypeAlias = "Callable[[bytes, bytes], tuple[Any, Any]]"


class LMDB(Parts):
    """Source of the values of an LMDB database, in the order of their keys."""

    _function = "lmdb"

    def __init__(self, files: OpenFiles, found: _Walk, parse: Parse | None) -> None:
        super().__init__(files, np.array(found.offsets, np.int64), np.array(found.sizes, np.int64))
        self._keys, self._parse = found.keys, parse

    def _origin(self) -> str | bytes | None:
        if self._is_remote:
            return None
        folder, name = os.path.split(os.path.abspath(self._paths[0]))
        return folder if name == _DATA else self._paths[0]

    def _file_and_key(self, i: int) -> tuple[str, str]:
        return self._files.paths[0], f"key {printable(self._keys[i])}"

    def _sample(self, i: int, contents: Sequence[Any]) -> tuple[Any, Any]:
        key = self._keys[i]
        if self._parse is not None:
            return self._parse(key, bytes(contents[0]))
        try:
            return contents[0], key.decode()
        except UnicodeDecodeError:
            return contents[0], key


def lmdb(path: Path, *, parse: Parse | None = None, remote: Remote | None = None) -> LMDB:
    """Read images in an LMDB database.

    Parameters
    ----------
    path : path
        Folder of the database or its data file; for a URL, the data file.
    parse : callable, optional
        Called with key and value, both ``bytes``, it returns image and label. Several threads call it at once. A
        ``ValueError`` from it is raised again with the sample's name. By default a value is an image, and its label the
        key, as ``str`` or, where that is not UTF-8, ``bytes``.
    remote : Remote, optional
        Settings for URLs, see :class:`gpuimg.Remote`.

    Returns
    -------
    LMDB
        Samples in the order of the database: keys sorted as bytes.

    Raises
    ------
    ValueError
        If the file is empty, not one of LMDB 0.9, cut off or damaged, or holds named databases or several values for a
        key.
    OSError
        If the file cannot be read.

    Notes
    -----
    The file is read without the LMDB library, which crashes on files that are cut off: here they raise an error, when
    they are opened or later. Nothing may write to the file at the same time, as there is no lock. All keys are read
    when it is opened, which takes about 3 us and 24 bytes per key besides the key itself. A sample is then read with
    one ``pread``. Values have no checksum.

    References
    ----------
    OpenLDAP ``libraries/liblmdb/mdb.c``: ``MDB_page``, ``MDB_meta``, ``MDB_db``, ``MDB_node``.

    Examples
    --------
    >>> photos = lmdb("train_lmdb")  # doctest: +SKIP
    >>> data, label = photos[0]  # doctest: +SKIP
    """
    if parse is not None and not callable(parse):
        raise TypeError(f"parse must be callable, not {type(parse).__name__}")
    name = os.fsdecode(path)
    file = os.path.join(name, _DATA) if os.path.isdir(name) else name
    files = OpenFiles([file], remote)
    with files.scanning(0) as scan:
        found = _Walk(scan)
        if not len(found.keys):
            raise ValueError("no entries in it")
    return LMDB(files, found, parse)


class _Walk:
    """A walk over the tree of the main database: keys in order, and offset and size of each value in bytes."""

    def __init__(self, scan: Scan) -> None:
        self.read_at, self.length = scan.read_at, scan.size
        self.page_size, self.pages, database = self._newest_meta()
        _, _, self.depth, branches, leaves, _, self.entries, self.root = _DATABASE.unpack(database)
        self.left = branches + leaves  # pages that may still be visited; the bound ends a walk over a cyclic tree
        self.offsets, self.sizes = array("q"), array("q")
        if self.depth > _DEPTH or self.entries * _NODE.size > self.length:
            raise ValueError(f"damaged: {self.entries} entries, {self.depth} levels deep, in {self.length} bytes")
        self.keys = Names(self._visit(self.root, self.depth) if self.root != _EMPTY else ())
        if len(self.keys) != self.entries:
            raise ValueError(f"damaged: {len(self.keys)} entries found, not {self.entries}")

    # -- meta pages ------------------------------------------------------------------------------------------------

    def _newest_meta(self) -> tuple[int, int, bytes]:
        """Return page size, number of pages, and the record of the main database."""
        first = self._meta(self.read_at(0, 256))
        size: int = _DATABASE.unpack(first[4])[0]
        if size < 256 or size > 1 << 16 or size & (size - 1):
            raise ValueError(f"damaged: pages of {size} bytes")
        second = self._meta(self.read_at(size, 256))
        newest = max(first, second, key=lambda meta: meta[7])  # by number of the last transaction
        return size, newest[6] + 1, newest[5]

    def _meta(self, page: bytes) -> tuple[Any, ...]:
        if len(page) < _HEADER + _META.size:
            reason = f"cut off: {self.length} bytes end within the first two pages"
            raise ValueError(reason if self.length else "empty: 0 bytes")
        found = _META.unpack_from(page, _HEADER)
        if found[:2] != (_MAGIC, 1):
            raise ValueError("not an LMDB file of format 1 (LMDB 0.9) and a 64-bit little-endian machine")
        return found

    # -- the tree --------------------------------------------------------------------------------------------------

    def _visit(self, number: int, levels: int) -> Iterator[bytes]:
        """Yield the keys below a page, and record offset and size of their values."""
        page = self._page(number)
        flags, end, _ = _TAIL.unpack_from(page, _HEADER - _TAIL.size)
        kind = flags & (_BRANCH | _LEAF | _OVERFLOW)
        if kind != (_LEAF if levels == 1 else _BRANCH):
            _damaged(number, f"flags {flags:#x}, {levels} levels above the leaves")
        if not _HEADER <= end <= self.page_size or end % 2:
            _damaged(number, f"pointers up to byte {end}")
        for (at,) in struct.iter_unpack("<H", page[_HEADER:end]):
            if not end <= at <= self.page_size - _NODE.size:
                _damaged(number, f"an entry at byte {at}")
            low, high, node, key_size = _NODE.unpack_from(page, at)
            at += _NODE.size
            if at + key_size > self.page_size:
                _damaged(number, f"a key of {key_size} bytes at byte {at}")
            if kind == _BRANCH:
                yield from self._visit(low | high << 16 | node << 32, levels - 1)
            else:
                yield self._entry(number, page, at, key_size, low | high << 16, node)

    def _page(self, number: int) -> bytes:
        self.left -= 1
        if self.left < 0:
            raise ValueError("damaged: more pages than the database has")
        self._within(number, number * self.page_size, self.page_size)
        page = self.read_at(number * self.page_size, self.page_size)
        if len(page) != self.page_size or _PAGE_NUMBER.unpack_from(page)[0] != number:
            _damaged(number, "its header has a different page number")
        return page

    def _entry(self, number: int, page: bytes, at: int, key_size: int, size: int, node: int) -> bytes:
        key = page[at : at + key_size]
        if node & (_DATABASES | _DUPLICATES):
            what = "a named database" if node & _DATABASES else "several values for the key"
            raise ValueError(f"{what} {printable(key)!r}, but only one value for each key is supported")
        at += key_size
        if node & _ON_PAGES:
            if at + _PAGE_NUMBER.size > self.page_size:
                _damaged(number, f"the value of {printable(key)!r} at byte {at}")
            (first,) = _PAGE_NUMBER.unpack_from(page, at)
            offset = first * self.page_size + _HEADER
            self._within(first, offset, size)
        else:
            offset = number * self.page_size + at
            if at + size > self.page_size:
                _damaged(number, f"the value of {printable(key)!r} takes {size} bytes at byte {at}")
        self.offsets.append(offset)
        self.sizes.append(size)
        return key

    def _within(self, number: int, offset: int, size: int) -> None:
        if not 2 <= number < self.pages:
            _damaged(number, f"there are {self.pages}")
        if offset + size > self.length:
            raise ValueError(
                f"cut off: page {number} and its overflow pages end at byte {offset + size} of {self.length}"
            )


def _damaged(number: int, what: str) -> NoReturn:
    raise ValueError(f"page {number} is damaged: {what}")
