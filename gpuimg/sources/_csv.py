"""Tables of paths and labels in CSV and TSV files."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

ENDINGS = (b".csv", b".tsv")


def parsed_table(
    lines: Sequence[bytes], is_tsv: bool, columns: Sequence[str] | None, is_image: Any
) -> tuple[list[bytes], Any]:
    """Return paths and labels of a table; None for the labels of a table without a column of them.

    A first line whose path ``is_image`` is a sample: the table has no names of columns.
    """
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
    if rows and any(map(is_image, header)):
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
        return paths, _numbers(*found.values()) if found else None
    values = [_numbers(column) for column in found.values()]
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


def _numbers(column: list[str]) -> Any:
    """Return a column as an array of int64 or float64 if all its values are numbers."""
    for kind, dtype in ((int, np.int64), (float, np.float64)):
        try:
            return np.array(list(map(kind, column)), dtype)
        except (ValueError, OverflowError):
            pass
    return column
