"""Source of images in columns of Parquet files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._checks.arguments import whole_number
from ._formats import SOURCES, import_optional
from ._reading import OpenFiles, Path, Recent, Scan, printable, shards
from ._remote import Remote
from ._table import Table

__all__ = ["parquet"]


class Parquet(Table):
    """Source of the rows of Parquet files."""

    _function, _unit = "parquet", "row"

    def __init__(self, files: OpenFiles, image: str, label: str | None, cached_groups: int) -> None:
        self._files, self._image, self._label = files, image, label
        self._paths, self._storage, paths = files.paths, files.storage, files.paths
        counts = list(files.scanned(lambda scan: _rows(scan, image, label)))
        self._file = np.repeat(np.arange(len(paths)), [len(rows) for rows in counts])
        self._group = np.concatenate([np.arange(len(rows)) for rows in counts])
        self._end = np.cumsum(np.concatenate([np.array(rows, np.int64) for rows in counts]))
        if not len(self):
            others = ", nor in the others" if len(paths) > 1 else ""
            raise ValueError(f"{printable(paths[0])}: no rows in it{others}")
        self._first = np.searchsorted(self._file, np.arange(len(paths)))
        self._groups = Recent(self._load, cached_groups)

    def __len__(self) -> int:
        return int(self._end[-1]) if len(self._end) else 0

    def _file_and_key(self, i: int) -> tuple[str, str]:
        file = int(self._file[np.searchsorted(self._end, i, "right")])
        return str(self._paths[file]), f"row {i - self._start(int(self._first[file]))}"

    def _start(self, group: int) -> int:
        return int(self._end[group - 1]) if group else 0

    def _read(self, i: int) -> tuple[Any, Any]:
        group = int(np.searchsorted(self._end, i, "right"))
        table, row = self._groups(group), i - self._start(group)
        image = table.column(self._image)[row].as_py()
        label = None if self._label is None else table.column(self._label)[row].as_py()
        data = image.get("bytes") if isinstance(image, dict) else image
        if data is None:
            raise ValueError(f"column {self._image!r} has no bytes")
        return data, label

    def _load(self, group: int) -> Any:
        arrow = import_optional("pyarrow", SOURCES["parquet"])
        which, number = int(self._file[group]), int(self._group[group])
        rows = int(self._end[group]) - self._start(group)
        columns = [self._image] if self._label is None else [self._image, self._label]
        try:
            with _opened(self._files.given(which)) as file:
                if number >= file.num_row_groups or file.metadata.row_group(number).num_rows != rows:
                    raise ValueError(f"row group {number} has changed since it was indexed")
                return file.read_row_group(number, columns=columns, use_threads=False)
        except arrow.ArrowException as error:
            raise ValueError(f"row group {number} cannot be read: {error}") from error


def parquet(
    paths: Path | Sequence[Path],
    *,
    image: str = "image",
    label: str | None = "label",
    cached_groups: int = 8,
    remote: Remote | None = None,
) -> Parquet:
    """Read images in Parquet files, as Hugging Face's ``datasets`` writes them, or in any column of bytes.

    Parameters
    ----------
    paths : path, sequence of paths, or pattern
        Or URLs. ``"train-{00000..00041}-of-00042.parquet"`` stands for 42 files.
    image : str
        Image column: bytes, or a struct with a field ``bytes``.
    label : str or None
        Label column, of any type; None: labels are None.
    cached_groups : int
        Number of decoded row groups cached in memory: those used last.
    remote : Remote, optional
        Settings for URLs, see :class:`gpuimg.Remote`.

    Returns
    -------
    Parquet
        Rows in the order of the files. Labels are converted with pyarrow's ``as_py``: ``int``, ``str``, ``list``, ...

    Raises
    ------
    ValueError
        If a file is empty, cut off or damaged, lacks one of the columns, or its images are not bytes.
    OSError
        If a file cannot be read.
    ImportError
        Without pyarrow, which the extra ``parquet`` installs.

    Notes
    -----
    A row group is always decoded whole. Read in order, or shuffled within fewer than ``cached_groups`` groups, each
    group is decoded once; reading a row of a group that is no longer cached decodes all rows of that group again. **A
    shuffled pass over more groups than the cache holds decodes a whole group for nearly every sample**: write small
    groups (``row_group_size=100``), cache them all, or use another format.

    Two threads that need the same group decode it once. The checksums of pages are verified where a writer stored them
    (pyarrow: ``write_page_checksum=True``).

    References
    ----------
    Apache Parquet, *File Format*: https://parquet.apache.org/docs/file-format/. Hugging Face ``datasets.Image``: the
    struct.

    Examples
    --------
    >>> photos = parquet("train-{00000..00041}-of-00042.parquet")  # doctest: +SKIP
    >>> data, label = photos[0]  # doctest: +SKIP
    """
    cached_groups = whole_number(cached_groups, "cached_groups")
    import_optional("pyarrow.parquet", SOURCES["parquet"])
    return Parquet(OpenFiles(shards(paths, remote), remote), image, label, cached_groups)


def _opened(file: Any) -> Any:
    library = import_optional("pyarrow.parquet", SOURCES["parquet"])
    return library.ParquetFile(file, memory_map=False, pre_buffer=False, page_checksum_verification=True)


def _rows(scan: Scan, image: str, label: str | None) -> list[int]:
    """Return the number of rows of each row group, after checking the columns."""
    arrow = import_optional("pyarrow", SOURCES["parquet"])
    if not scan.size:
        raise ValueError("empty: 0 bytes")
    try:
        with _opened(scan.given) as file:
            schema, metadata = file.schema_arrow, file.metadata
            counts = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    except arrow.ArrowException as error:
        raise ValueError(f"not a Parquet file, or damaged: {error}") from error
    if min(counts, default=0) < 0 or sum(counts) != metadata.num_rows:
        raise ValueError(f"damaged: row groups of {counts} rows in a file of {metadata.num_rows}")
    for column in (image,) if label is None else (image, label):
        if schema.names.count(column) != 1:
            raise ValueError(f"no column {column!r}; it has {', '.join(map(repr, schema.names))}")
    kind = schema.field(image).type
    inner = [kind.field(i).name for i in range(kind.num_fields)] if arrow.types.is_struct(kind) else []
    if "bytes" in inner:
        kind = kind.field("bytes").type
    if not (arrow.types.is_binary(kind) or arrow.types.is_large_binary(kind)):
        raise ValueError(f"column {image!r} must hold bytes, or a struct with them, not {schema.field(image).type}")
    return counts
