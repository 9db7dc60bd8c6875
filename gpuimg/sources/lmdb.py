"""Source of images in LMDB databases."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ._btree import Values, find_values
from ._reading import OpenFiles, Path, printable
from ._remote import Remote
from ._table import Parts

_DATA = "data.mdb"  # the data file in the folder of a database

Parse: TypeAlias = "Callable[[bytes, bytes], tuple[Any, Any]]"


class LMDB(Parts):
    """Source of the values of an LMDB database, in the order of their keys."""

    _function = "lmdb"

    def __init__(self, files: OpenFiles, found: Values, parse: Parse | None) -> None:
        super().__init__(files, found.offset, found.size)
        self._keys, self._parse = found.keys, parse

    def _origin(self) -> str | bytes | None:
        if self._is_remote:
            return None
        folder, name = os.path.split(os.path.abspath(self._paths[0]))
        return folder if name == _DATA else self._paths[0]

    def _name(self, i: int) -> str:
        return f"{self._files.name(0)}: key {printable(self._keys[i])}"

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
    OpenLDAP ``libraries/liblmdb/mdb.c``: the format of the file.

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
        found = find_values(scan)
        if not len(found.keys):
            raise ValueError("no entries in it")
    return LMDB(files, found, parse)
