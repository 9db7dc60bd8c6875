"""Source of images in columns of Parquet files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks.arguments import whole_number
from .._checks.types import Ints
from ._formats import SOURCES, import_optional
from ._indexes import Arrays, cached_index, count_of, expect, expect_shards
from ._reading import OpenFiles, Path, Recent, Scan, shards
from ._remote import Remote
from ._table import Table

__all__ = ["parquet"]


class Parquet(Table):
    """Source of the rows of Parquet files."""

    _function, _unit = "parquet", "row"

    def __init__(self, files: OpenFiles, arrays: Arrays, image: str, label: str | None, cached_groups: int) -> None:
        self._files, self._image, self._label = files, image, label
        self._paths, self._storage = files.paths, files.storage
        self._file = arrays["shard"][:]
        self._end = np.cumsum(arrays["rows"][:])
        self._first = np.searchsorted(self._file, np.arange(len(files.paths)))
        self._groups = Recent(self._load, cached_groups)

    def __len__(self) -> int:
        return int(self._end[-1])

    @property
    def block_ends(self) -> Ints:
        """The rows at which row groups end: (groups,), in order."""
        return self._end

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
        which = int(self._file[group])
        number = group - int(self._first[which])
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
    index_cache: Path | None = None,
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
    index_cache : path, optional
        A file that caches the sizes of row groups for later calls with the same files, as that of :func:`tar`.
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
    shuffled pass over more groups than the cache holds decodes a whole group for nearly every sample**: use
    ``shuffle=gpuimg.Blocks(100)``, whose blocks are then whole groups, of about 100 rows together or one larger group;
    or cache all groups.

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
    files = OpenFiles(shards(paths, remote), remote)
    kind = json.dumps(["parquet 1", image, label])
    arrays = cached_index(index_cache, kind, files, lambda: _index(files, image, label), _check)
    return Parquet(files, arrays, image, label, cached_groups)


def _index(files: OpenFiles, image: str, label: str | None) -> Arrays:
    """Read the footers: file and number of rows of each row group."""
    counts = list(files.scanned(lambda scan: _rows(scan, image, label)))
    shard = np.repeat(np.arange(len(counts), dtype=np.int32), [len(rows) for rows in counts])
    rows = np.array([count for some in counts for count in some], np.int64)
    if not rows.any():
        others = ", nor in the others" if len(counts) > 1 else ""
        raise ValueError(f"{files.name(0)}: no rows in it{others}")
    return {"shard": shard, "rows": rows}


def _check(arrays: Arrays, sizes: NDArray[np.int64]) -> None:
    """Reject arrays that cannot be the row groups of so many files."""
    n = count_of(arrays, "rows")
    expect_shards(arrays, n, sizes.size)
    rows = expect(arrays, "rows", np.int64, n)
    if rows.min() < 0 or not rows.any():
        raise ValueError("'rows' must be at least 0, and not 0 in all row groups")


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
