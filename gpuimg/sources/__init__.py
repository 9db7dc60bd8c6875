"""Sources of images and labels: tables that many threads read at once.

``len(source)`` is the number of samples and ``source[i]`` is ``(data, label)``: the bytes of an encoded image and its
label, of any type. Any object with ``__len__`` and ``__getitem__`` is a source; those here read common data set
formats.
"""

from ._remote import Remote
from ._table import Table
from .array_record import array_record
from .coco import coco
from .folder import file_list, folder
from .lmdb import lmdb
from .parquet import parquet
from .recordio import recordio
from .split import split
from .stream import Stream, iterable
from .tar import tar
from .tfrecord import tfrecord

__all__ = [
    "Remote",
    "Stream",
    "Table",
    "array_record",
    "coco",
    "file_list",
    "folder",
    "iterable",
    "lmdb",
    "parquet",
    "recordio",
    "split",
    "tar",
    "tfrecord",
]
