"""Images in LMDB databases."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from .._io.open_file import Span
from ._btree import Places, places
from ._fetching import RemoteSpan
from ._names import printable
from ._protobuf import datum
from ._reading import OpenFiles, Path
from ._remote import Remote
from ._table import Stored, shown

_DATA = "data.mdb"  # the file of a database that is a folder

Parse: TypeAlias = "Callable[[bytes, bytes], tuple[Any, Any]]"


class LMDB(Stored):
    """Values of an LMDB database, in the order of their keys."""

    def __init__(self, files: OpenFiles, found: Places, parse: Parse) -> None:
        self._files = files
        self._keys, self._offset, self._size = found
        self._parse = parse

    def __len__(self) -> int:
        return len(self._keys)

    def _origin(self) -> str | bytes | None:
        if self._files.storage is not None:
            return None
        folder, name = os.path.split(os.path.abspath(self._files.paths[0]))
        return folder if name == _DATA else self._files.paths[0]

    def __repr__(self) -> str:
        return shown("lmdb", self._files.paths, self._amount())

    def _name(self, i: int) -> str:
        return f"{self._files.name(0)}: key {printable(self._keys[i])}"

    def _places(self, i: int) -> list[Span | RemoteSpan]:
        return [self._files.span(0, self._offset[i], self._size[i])]

    def _made(self, i: int, contents: Sequence[Any]) -> tuple[Any, Any]:
        value = contents[0] if self._parse in _FORMATS.values() else bytes(contents[0])
        return self._parse(self._keys[i], value)


def lmdb(
    path: Path, *, format: Literal["raw", "datum"] = "raw", parse: Parse | None = None, remote: Remote | None = None
) -> LMDB:
    """Images in an LMDB database.

    Parameters
    ----------
    path : path
        Its folder, or the file with the data; of a URL the latter.
    format : {"raw", "datum"}
        ``"raw"``: a value is an image, and its label the key, as ``str`` or, where that is not UTF-8, ``bytes``.
        ``"datum"``: a value is Caffe's ``Datum`` with an encoded image, and its label an ``int``.
    parse : callable, optional
        For other layouts: called with the key and the value, both ``bytes``, it gives image and label. Threads call it
        at once; a ``ValueError`` from it names the sample.
    remote : Remote, optional
        How files behind URLs are read, see :class:`gpuimg.Remote`.

    Returns
    -------
    LMDB
        Samples in the order of the database, that of the keys' bytes.

    Raises
    ------
    ValueError
        For a file that is empty, no LMDB file, cut off or damaged, or that holds named databases or several values
        for a key.
    OSError
        Where the file cannot be read.

    Notes
    -----
    The file is read without the LMDB library, which trusts what it maps and ends the process at every file that is cut
    off and some that are damaged (measured with py-lmdb): here such a file, now or later, is an error. It must not be
    written to meanwhile, as there is no lock. All keys are read when it is opened: some 3 us each, and 24 bytes besides
    their own. A sample is then one ``pread``. Values have no checksum.

    References
    ----------
    OpenLDAP ``libraries/liblmdb/mdb.c``: the format of the file. Caffe ``src/caffe/proto/caffe.proto``: ``Datum``.

    Examples
    --------
    >>> photos = lmdb("train_lmdb", format="datum")  # doctest: +SKIP
    >>> data, label = photos[0]  # doctest: +SKIP
    """
    if format not in _FORMATS:
        raise ValueError(f'format must be "raw" or "datum", not {format!r}')
    if parse is not None and not callable(parse):
        raise TypeError(f"parse must be callable, not {type(parse).__name__}")
    name = os.fsdecode(path)
    file = os.path.join(name, _DATA) if os.path.isdir(name) else name
    files = OpenFiles([file], remote)
    with files.scanning(0) as scan:
        found = places(scan)
        if not len(found.keys):
            raise ValueError("no entries in it")
    return LMDB(files, found, parse or _FORMATS[format])


def _raw(key: bytes, value: bytes) -> tuple[bytes, str | bytes]:
    try:
        return value, key.decode()
    except UnicodeDecodeError:
        return value, key


def _datum(_: bytes, value: bytes) -> tuple[bytes, int]:
    return datum(value)


_FORMATS: dict[str, Parse] = {"raw": _raw, "datum": _datum}
