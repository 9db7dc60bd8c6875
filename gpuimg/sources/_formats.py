"""Formats of data sets that sources read, a row for each function, and the optional packages that they need."""

import importlib
from typing import Any, Final, NamedTuple

from .._version import install_hint


class Format(NamedTuple):
    """A format, for messages, the command line, tests and the table of docs/data-formats.md."""

    title: str
    file_names: str = ""  # a regular expression: the command line takes such files for files of the format
    package: str = ""  # that reading it needs, of the extra
    extra: str = ""
    has_columns: bool = False  # the function takes any number of files, and ``image=`` and ``label=``


#: By the name of the function, the first that matches a file's name first.
SOURCES: Final = {
    "folder": Format("folder of class folders or of images"),
    "file_list": Format("text file of paths", r"\.(txt|lst|list)$"),
    "tar": Format("tar", r"\.tar$"),
    "array_record": Format("ArrayRecord", r"\.array_?record", "array_record", "array-record", has_columns=True),
    "tfrecord": Format("TFRecord", r"\.tfrecords?|-\d{5}-of-\d{5}$", "google-crc32c", "tfrecord", has_columns=True),
    "recordio": Format("MXNet .rec", r"\.rec$"),
    "lmdb": Format("LMDB", r"\.mdb$"),
    "parquet": Format("Parquet", r"\.parquet$", "pyarrow", "parquet", has_columns=True),
    "coco": Format("COCO annotations", r"\.json$"),
    "tiles": Format("slides and GeoTIFF files in tiles", r"\.(svs|tiff?)$"),
}


def import_optional(module: str, row: Format) -> Any:
    """Import a module of the package of a format; an ImportError has the command that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"reading {row.title} needs {row.package}; {install_hint(row.extra)}") from error
