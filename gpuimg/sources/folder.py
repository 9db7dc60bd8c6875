"""Sources with one file per image: class folders, and lists of paths."""

from __future__ import annotations

import csv
import errno
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks.arguments import flag
from .._checks.keywords import explained
from .._checks.text import counted
from .._checks.types import SizedArray
from .._io.file_bytes import listing_hint
from ._blocks import key_of
from ._fetching import RemoteWhole
from ._indexes import Arrays, Names, cached_arrays, check_names, count_of, expect
from ._reading import OpenFiles, Path, printable
from ._remote import Remote, Storage, is_url, without_archive
from ._table import FileTable

__all__ = ["file_list", "folder"]

# Endings that torchvision's ImageFolder takes, and others that decode without a plugin.
EXTENSIONS = (
    ".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp",
    ".gif", ".avif", ".jp2", ".j2k", ".jfif", ".jpe", ".pnm", ".dib", ".gji",
)  # fmt: skip
# Numbers in a column of a table; int() and float() also take underscores, spaces and digits of other scripts.
_INTEGER = re.compile("0|-?[1-9][0-9]{0,18}")
_DECIMAL = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?")
_EXACT = 1 << 53  # limit of the integers that float64 holds

# Endings that decode with pillow-heif, and with pillow-jxl-plugin.
_WITH_PLUGIN = (".heic", ".heif", ".jxl")


class ImageFiles(FileTable):
    """Image files and their labels; base class of the sources with one file per image.

    Attributes
    ----------
    classes : list
        Labels by class number, of a source whose labels are numbers of classes; otherwise empty.
    """

    classes: list[Any]

    _function, _unit = "file_list", "image"

    def __init__(
        self,
        root: Path,
        names: Iterable[bytes],
        labels: Any,
        listed_in: Path | None = None,
        remote: Remote | None = None,
    ) -> None:
        self._root = os.fsencode(root)
        self._paths = [os.fsencode(path) for path in (listed_in or root,) if path]
        self._names = Names(names)
        self._labels = labels
        self.classes = []
        # Versions and sizes of remote files, if a listing had them.
        self._marks: NDArray[np.uint64] | None = None
        self._sizes: NDArray[np.int64] | None = None
        named = b"://" in self._names.blob and any(is_url(self._names[i]) for i in range(len(self)))
        self._storage = Storage(remote) if is_url(self._root) or named else None

    def __len__(self) -> int:
        return len(self._names)

    def path(self, i: int) -> bytes:
        """Path or URL of the file of sample ``i``."""
        name = self._names[i]
        if self._storage is not None and is_url(name):
            return name
        root, archive = without_archive(self._root)
        return os.path.join(root, name) + archive

    def listed_name(self, i: int) -> str:
        """Name of the file of sample ``i`` as it was listed: relative to ``root`` in class folders."""
        return os.fsdecode(self._names[i])

    def common_folder(self) -> str:
        """Absolute path of the folder that all files are in."""
        if self._root and self._paths == [self._root]:
            return os.path.abspath(os.fsdecode(self._root))
        folders = {os.path.dirname(os.path.abspath(self.path(i))) for i in range(len(self))}
        return os.fsdecode(os.path.commonpath(folders))

    def _file_and_key(self, i: int) -> tuple[bytes, None]:
        return self.path(i), None

    def _places(self, i: int) -> list[bytes | RemoteWhole]:
        path = self.path(i)
        if self._storage is None or not is_url(path):
            return [path]
        if self._marks is None or self._sizes is None:
            return [RemoteWhole(self._storage, os.fsdecode(path), "")]
        return [RemoteWhole(self._storage, os.fsdecode(path), f"{self._marks[i]:x}", int(self._sizes[i]))]

    def _sample(self, i: int, contents: Sequence[Any]) -> tuple[Any, Any]:
        return contents[0], self.label(i)

    @property
    def labels(self) -> list[Any]:
        """Labels of all samples, without reading their files; see :func:`gpuimg.class_weights`."""
        return [self.label(i) for i in range(len(self))]

    @property
    def class_to_idx(self) -> dict[Any, int]:
        """The number of each class, by its name, as in torchvision's ``ImageFolder``."""
        return {name: k for k, name in enumerate(self.classes)}

    def label(self, i: int) -> Any:
        """Label of sample ``i``, without reading its file."""
        label = self._labels[i] if self._labels is not None else None
        return label.item() if isinstance(label, np.number) else label


# -- class folders -----------------------------------------------------------------------------------------------------


class Folder(ImageFiles):
    """Source of images in one folder per class.

    Attributes
    ----------
    classes : list of str
        Names of the class folders; a label is a position in this list.
    """

    _function = "folder"
    classes: list[str]

    def _amount(self) -> str:
        return f"{super()._amount()}, {counted(len(self.classes), 'class', 'classes')}"


def folder(
    root: Path, *, extensions: Sequence[str] = EXTENSIONS, index_cache: Path | None = None, remote: Remote | None = None
) -> Folder:
    """Read images in one folder per class, in the order of torchvision's ``ImageFolder``.

    Parameters
    ----------
    root : path
        Folder that holds the class folders, or its URL. Classes are sorted by name, and samples by class, folder and
        name; class folders are searched to any depth, and links to folders are followed.
    extensions : sequence of str
        File name endings of images, in lower case; they match upper case too. The default is those of ``ImageFolder``,
        and ``.gif``, ``.avif``, ``.jp2``, ``.j2k``, ``.jfif``, ``.jpe``, ``.pnm`` and ``.dib``.
    index_cache : path, optional
        For a URL: a file that caches the listing. Later calls use it unchanged, so remove it after adding or changing
        files.
    remote : Remote, optional
        Settings for URLs, see :class:`gpuimg.Remote`.

    Returns
    -------
    Folder
        Labels are ``int``: positions in its list ``classes``.

    Raises
    ------
    OSError
        If a folder cannot be read.
    ValueError
        If there is no class folder, a class folder without images, or a link to a folder that contains it.

    Warns
    -----
    RuntimeWarning
        If ``.heic``, ``.heif`` or ``.jxl`` files are left out: they need pillow-heif or pillow-jxl-plugin, and to be
        named in ``extensions``.

    Notes
    -----
    Takes about 2 s for a million files if the folders are in the system's cache, and about 40 bytes of memory per file.
    Names need not be UTF-8. Reading a file that was removed since raises an error.

    References
    ----------
    torchvision ``datasets/folder.py``: ``find_classes``, ``make_dataset``.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> for name in ("cat/1.jpg", "cat/2.JPG", "dog/3.png"):
    ...     (root / name).parent.mkdir(exist_ok=True)
    ...     _ = (root / name).write_bytes(name.encode())
    >>> photos = folder(root)
    >>> len(photos), photos.classes, photos[-1]
    (3, ['cat', 'dog'], (b'dog/3.png', 1))
    """
    endings = tuple(extensions)
    if isinstance(extensions, str) or not endings:
        raise ValueError(f"extensions must be a sequence of endings such as ('.jpg', '.png'), not {extensions!r}")
    base = os.fsdecode(root)
    if is_url(base):
        return _remote_folder(base, endings, index_cache, remote)
    if index_cache is not None:
        raise ValueError(f"index_cache is for a folder at a URL; {printable(base)} is local")
    if base.lower().endswith(".zip") and os.path.isfile(base):
        message = f"an archive; for its folders pass {'zip://::' + base!r}, or {'zip://train::' + base!r} if in 'train'"
        raise NotADirectoryError(errno.ENOTDIR, message, base)
    with os.scandir(base) as entries:
        classes = sorted(entry.name for entry in entries if _is_folder(entry))
    if not classes:
        raise ValueError(
            f"{printable(base)}: no class folders; gpuimg.file_list takes images without classes: {listing_hint(base)}"
        )
    counts: list[int] = []
    left_out: list[str] = []
    result = Folder(base, _class_files(base, classes, endings, counts, left_out), None)
    if left_out:
        warnings.warn(
            f"{printable(base)}: {counted(len(left_out), 'image')} left out, such as {printable(left_out[0])}; install "
            "pillow-heif or pillow-jxl-plugin and pass their endings too: "
            f"extensions={(*EXTENSIONS[:2], *_WITH_PLUGIN)}",
            RuntimeWarning,
            stacklevel=2,
        )
    return _labeled(result, base, classes, counts, endings)


def _labeled(result: Folder, base: str, classes: list[str], counts: list[int], endings: tuple[str, ...]) -> Folder:
    """Set labels and classes of a folder, given the number of images per class; none may be 0."""
    empty = [printable(name) for name, count in zip(classes, counts, strict=True) if not count]
    if empty:
        more = f" and {len(empty) - 5} more" if len(empty) > 5 else ""
        raise ValueError(
            f"{printable(base)}: no images ({', '.join(endings)}) for the classes {', '.join(empty[:5])}{more}"
        )
    result._labels = np.repeat(np.arange(len(classes), dtype=np.int32), counts)
    result.classes = classes
    return result


def _class_files(
    base: str, classes: list[str], endings: tuple[str, ...], counts: list[int], left_out: list[str]
) -> Iterator[bytes]:
    """Yield paths relative to ``base``, class by class, and append the number of files per class to ``counts``."""
    start = len(os.path.join(base, ""))
    for name in classes:
        paths = []
        for where, files in sorted(_walk(os.path.join(base, name), ())):
            for file in sorted(files):
                ending = file.lower()
                if ending.endswith(endings):
                    paths.append(os.path.join(where, file)[start:])
                elif ending.endswith(_WITH_PLUGIN):
                    left_out.append(os.path.join(where, file)[start:])
        counts.append(len(paths))
        yield from map(os.fsencode, paths)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return False  # a link to itself: an unreadable file, as a link to nowhere


def _walk(top: str, above: tuple[tuple[int, int], ...]) -> Iterator[tuple[str, list[str]]]:
    """Yield a folder and its subfolders with their files; ``above``: (device, inode) of the folders that contain it."""
    status = os.stat(top)
    identity = status.st_dev, status.st_ino
    if identity in above:
        raise ValueError(f"{printable(top)}: a link to a folder that contains it")
    inner: list[str] = []
    files: list[str] = []
    with os.scandir(top) as entries:
        for entry in entries:
            (inner if _is_folder(entry) else files).append(entry.name)
    yield top, files
    for name in inner:
        yield from _walk(os.path.join(top, name), (*above, identity))


def _remote_folder(base: str, endings: tuple[str, ...], index_cache: Path | None, remote: Remote | None) -> Folder:
    """Return the source of a remote folder, which is listed completely."""
    identity = "listing 2", base
    arrays = cached_arrays(index_cache, "index_cache", identity, lambda: _listed(Storage(remote).listed(base)), _check)
    names = Names.of(arrays)
    by_class: dict[str, list[tuple[str, str, int]]] = {}
    for k in range(len(names)):
        where, name = os.path.split(os.fsdecode(names[k]))
        if where:
            files = by_class.setdefault(where.split("/")[0], [])
            if name.lower().endswith(endings):
                files.append((where, name, k))
    if not by_class:
        raise ValueError(f"{printable(base)}: no class folders; gpuimg.file_list takes images without classes")
    classes = sorted(by_class)
    found = [file for name in classes for file in sorted(by_class[name])]
    result = Folder(base, (names[k] for *_, k in found), None, None, remote)
    chosen = [k for *_, k in found]
    result._marks, result._sizes = arrays["marks"][chosen], arrays["sizes"][chosen]
    return _labeled(result, base, classes, [len(by_class[name]) for name in classes], endings)


def _listed(found: dict[str, tuple[str, int]]) -> Arrays:
    """Return names, versions (64 bits of a hash) and sizes of listed files as arrays."""
    marks = np.array([int(key_of(mark)[:16], 16) for mark, _ in found.values()], np.uint64)
    sizes = np.array([size for _, size in found.values()], np.int64)
    return Names(map(os.fsencode, found)).arrays() | {"marks": marks, "sizes": sizes}


def _check(arrays: Arrays) -> None:
    n = count_of(arrays, "marks", 0)
    expect(arrays, "marks", np.uint64, n)
    expect(arrays, "sizes", np.int64, n)
    check_names(arrays, n)


# -- lists of paths ----------------------------------------------------------------------------------------------------


@explained({})
def file_list(
    paths: Path | Sequence[Path],
    labels: Sequence[Any] | SizedArray | None = None,
    *,
    columns: Sequence[str] | None = None,
    classes: bool | Sequence[Any] = False,
    root: Path | None = None,
    remote: Remote | None = None,
) -> ImageFiles:
    r"""Read images whose paths are listed, in Python, in a CSV or TSV table, or in a text file.

    Parameters
    ----------
    paths : sequence of paths, or path
        The images, or a file that lists them; URLs too. A file that ends in ``.csv`` or ``.tsv`` is a table, whose
        first line names its columns. Any other is a text file with a line ``path`` or ``path label`` for each image:
        the label is the integer after the last tab or, without a tab, after the last space. Empty lines are ignored.
    labels : sequence, optional
        A label for each path, of any type.
    columns : sequence of str, optional
        Of a table: the names of the column of paths and of that of labels, such as ``("file", "class")``. By default
        ``("path", "label")``, or the columns of a table that has only two, or one. With more than one column of labels
        a label is a dict; with none it is None.
    classes : bool or sequence
        Number the classes: labels become positions in the list ``classes`` of the source. True: all different labels,
        sorted. Or the classes in their order, such as those of the training's source.
    root : path, optional
        Folder that paths are relative to; by default that of the file that lists them.
    remote : Remote, optional
        Settings for URLs, see :class:`gpuimg.Remote`.

    Returns
    -------
    ImageFiles
        Labels are the items of ``labels``, those of the text file as ``int``, those of a column as ``int``, ``float``
        or ``str``, or None. A column is numbers if all its values are integers as Python writes them, which 64 bits
        hold, or decimal fractions such as ``0.5`` and ``1e-3``: identifiers such as ``007`` stay texts. The numbers of
        ``classes`` are all written as Python writes them, so that different texts are different classes.

    Raises
    ------
    ValueError
        If the numbers of labels and paths differ, labels are given twice, there are no paths, a line lacks the label
        that others have or has one that is not an integer (naming the line), a table lacks a column, or a label is
        missing (None or NaN) where classes are numbered, is not in ``classes``, or cannot be sorted with the others.
    OSError
        If the file that lists them cannot be read.

    Notes
    -----
    The images themselves are not opened here; reading one that is missing raises an error. Tables are UTF-8; ``;`` may
    separate the columns of a ``.csv`` file. A table whose first line has the name of an image has no names of columns.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (root / "my cat.jpg").write_bytes(b"...")
    >>> _ = (root / "list.txt").write_text("my cat.jpg 281")
    >>> file_list(root / "list.txt")[0]
    (b'...', 281)
    >>> _ = (root / "labels.csv").write_text("file,class,age\nmy cat.jpg,cat,3")
    >>> cats = file_list(root / "labels.csv", columns=("file", "class"), classes=True)
    >>> cats[0], cats.class_to_idx
    ((b'...', 0), {'cat': 0})
    >>> file_list([root / "my cat.jpg"], ["cat"])[0]
    (b'...', 'cat')
    """
    numbered = not isinstance(classes, (bool, str)) or flag(classes, "classes")
    base: Path = b"" if root is None else root
    listed_in = None
    if isinstance(paths, (str, bytes, os.PathLike)):
        listed_in = os.fsencode(paths)
        if hint := "" if is_url(listed_in) else listing_hint(os.fsdecode(listed_in)):
            if os.path.isdir(listed_in):
                raise IsADirectoryError(errno.EISDIR, f"{os.strerror(errno.EISDIR)}; {hint}", os.fsdecode(listed_in))
            raise ValueError(f"{printable(listed_in)} is not a list of paths; {hint}")
        inside, archive = without_archive(listed_in)
        base = os.path.dirname(inside) + archive if root is None else root
        names, listed = _parsed(listed_in, columns, numbered, remote)
        if listed is not None and labels is not None:
            raise ValueError(f"{printable(listed_in)} has labels, but labels were passed, too")
        labels = labels if listed is None else listed
    else:
        names = []
        path: Any
        for i, path in enumerate(paths):
            if not isinstance(path, (str, bytes, os.PathLike)):
                kind = ValueError if _is_missing(path) else TypeError
                raise kind(f"paths[{i}] must be the path of an image, not {path!r}")
            names.append(os.fsencode(path))
        if not names:
            raise ValueError("paths must name at least one file")
    if columns is not None and not _is_table(listed_in):
        raise ValueError("columns is for a .csv or .tsv file")
    if hasattr(labels, "__array__"):
        labels = np.asarray(labels)  # a pandas Series is indexed by its keys, not by position
    if labels is not None and len(labels) != len(names):
        raise ValueError(f"got {counted(len(labels), 'label')} for {counted(len(names), 'path')}; each needs one")
    result = ImageFiles(base, names, labels, listed_in, remote)
    if numbered:
        if labels is None:
            raise ValueError("classes needs labels, and there are none")
        result.classes, result._labels = class_numbers(result.labels, classes, result.describe)
    return result


def class_numbers(
    labels: Sequence[Any], classes: Any = True, describe: Callable[[int], str] = "sample {}".format
) -> tuple[list[Any], NDArray[np.int32]]:
    """Return classes, which are all labels that occur if ``classes`` is True, and the number of each label's class."""
    for i, label in enumerate(labels):
        if _is_missing(label):
            raise ValueError(f"{describe(i)} has no class: its label is {label!r}; leave it out, or give it one")
    try:
        classes = sorted(set(labels)) if classes is True else list(classes)
        numbers = {label: k for k, label in enumerate(classes)}
        for i, label in enumerate(labels):
            if label not in numbers:
                raise ValueError(f"the label {label!r} of {describe(i)} is not one of the {len(numbers)} classes")
    except TypeError:
        first = {type(label).__name__: i for i, label in reversed(list(enumerate(labels)))}
        found = " and ".join(f"{labels[i]!r} of {describe(i)}" for i in sorted(first.values())[:2])
        raise ValueError(f"labels of classes must be all texts or all numbers, not {found}") from None
    return classes, np.array([numbers[label] for label in labels], np.int32)


def _is_missing(value: Any) -> bool:
    """Return True for None, NaN, and pandas' NA and NaT."""
    is_nan = isinstance(value, (float, np.floating)) and value != value
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")


def _is_table(path: bytes | None) -> bool:
    return path is not None and without_archive(path)[0].lower().endswith((b".csv", b".tsv"))


def _parsed(
    path: bytes, columns: Sequence[str] | None, numbered: bool, remote: Remote | None
) -> tuple[list[bytes], Any]:
    """Return paths and labels of a file that lists them; None for the labels if no line has one."""
    with OpenFiles([os.fsdecode(path)], remote).scanning(0) as scan:
        lines = list(scan.file)
    if any(b"\0" in line for line in lines[:9]) or any(line[:1] in (b"{", b"[") for line in lines[:1]):
        raise ValueError(
            f"{printable(path)}: not a list of paths: .csv and .tsv tables with names of columns are read, and text "
            "files with a line 'path' or 'path label' for each image"
        )
    if _is_table(path):
        try:
            return parsed_table(lines, without_archive(path)[0].lower().endswith(b".tsv"), columns, numbered)
        except ValueError as error:
            raise ValueError(f"{printable(path)}: {error}") from None
    return _parsed_lines(path, lines)


def _parsed_lines(path: bytes, lines: list[bytes]) -> tuple[list[bytes], Any]:
    parsed = []
    for number, line in enumerate(map(bytes.strip, lines), 1):
        if line:
            try:
                parsed.append((number, *_fields(line)))
            except ValueError as error:
                raise ValueError(f"{printable(path)}, line {number}: {error}") from None
    if not parsed:
        raise ValueError(f"{printable(path)}: no paths in it")
    labeled = parsed[0][2] is not None
    for number, _, label in parsed:
        if (label is not None) != labeled:
            a, b = ("no label", "one") if labeled else ("a label", "none")
            raise ValueError(f"{printable(path)}, line {number}: {a}, but line {parsed[0][0]} has {b}")
    labels = np.array([label for _, _, label in parsed], np.int64) if labeled else None
    return [name for _, name, _ in parsed], labels


def _fields(line: bytes) -> tuple[bytes, int | None]:
    name, tab, text = line.rpartition(b"\t")
    if not tab:
        name, _, text = line.rpartition(b" ")
    if not re.fullmatch(rb"[-+]?\d+", text):
        if tab:
            raise ValueError(f"the label must be a whole number, not {printable(text)!r}")
        return line, None
    if not name:  # just a number: a file name
        return line, None
    label = int(text)
    if not -(1 << 63) <= label < 1 << 63:
        raise ValueError(f"the label {label} takes more than 64 bits")
    return name.strip(), label


# -- tables ------------------------------------------------------------------------------------------------------------


def parsed_table(
    lines: Sequence[bytes], is_tsv: bool, columns: Sequence[str] | None, numbered: bool
) -> tuple[list[bytes], Any]:
    """Return paths and labels of a table; None for the labels of a table without a column of them."""
    text = [line.decode("utf-8", "surrogateescape") for line in lines]
    text[:1] = [line.removeprefix("\ufeff") for line in text[:1]]
    first = text[0] if text else ""
    delimiter = "\t" if is_tsv else ";" if ";" in first and "," not in first else ","
    reader = csv.reader(text, delimiter=delimiter, skipinitialspace=True, strict=True)
    rows: list[tuple[int, list[str]]] = []
    try:
        rows.extend((reader.line_num, row) for row in reader if row)
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num}: {error}") from None
    header = [name.strip() for name in rows[0][1]] if rows else []
    if rows and any(name.lower().endswith((*EXTENSIONS, *_WITH_PLUGIN)) for name in header):  # a sample, not names
        header = ["path", "label"][: len(header)] if columns is None else list(columns)
    else:
        rows = rows[1:]
    if not rows:
        raise ValueError("no paths in it")
    for number, row in rows:
        if len(row) != len(header):
            raise ValueError(f"line {number}: {len(row)} values, but there are {len(header)} columns")
    places = [header.index(name) for name in _chosen(header, columns)]
    for number, row in rows:
        for k in places[:2]:
            if not row[k].strip():
                raise ValueError(f"line {number}: no value in the column {header[k]!r}")
    found = {header[k]: [row[k] for _, row in rows] for k in places}
    paths = [os.fsencode(value) for value in found.pop(header[places[0]])]
    if len(found) < 2:
        return paths, _numbers(found.popitem()[1], numbered) if found else None
    values = [_numbers(column, numbered) for column in found.values()]
    values = [one.tolist() if isinstance(one, np.ndarray) else one for one in values]
    return paths, [dict(zip(found, row, strict=True)) for row in zip(*values, strict=True)]


def _chosen(header: list[str], columns: Sequence[str] | None) -> Sequence[str]:
    """Return the names of the columns of paths and labels."""
    if columns is not None:
        missing = [name for name in columns if name not in header]
        if missing:
            raise ValueError(f"no column {missing[0]!r}; its columns are {', '.join(map(repr, header))}")
        return columns
    if "path" in header and "label" in header:
        return "path", "label"
    if len(header) > 2:
        raise ValueError(
            f"its columns are {', '.join(map(repr, header))}: pass those of the path and the label, such as "
            f"columns={tuple(header[:2])}"
        )
    return sorted(header, key=lambda name: name != "path")  # a column "path" first; others in their order


def _numbers(column: list[str], numbered: bool) -> Any:
    """Return a column as an array of int64 or float64 if all its values are numbers; else, as texts.

    An integer is written as Python writes it, so that identifiers such as 007 and 1_2 stay as they are, and is exact in
    the type of the array. The numbers of classes (``numbered``) are all written so: each text is a class.
    """
    whole = [_INTEGER.fullmatch(text) is not None for text in column]
    limit = _EXACT if not all(whole) else 1 << 63
    for text, is_whole in zip(column, whole, strict=True):
        if not (-limit <= int(text) < limit if is_whole else _DECIMAL.fullmatch(text)):
            return column
    if all(whole):
        return np.array(list(map(int, column)), np.int64)
    values = list(map(float, column))
    if not np.isfinite(values).all() or (numbered and (list(map(repr, values)) != column or "-0.0" in column)):
        return column
    return np.array(values)
