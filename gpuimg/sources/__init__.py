"""Where images and labels come from: tables that many threads read at once.

A source has a length, and gives sample ``i`` as ``(data, label)``: the bytes of an encoded image, and whatever belongs
to it. Anything with ``__len__`` and ``__getitem__`` is one; these read the formats in which data sets come.
"""

from ._remote import Remote
from ._table import Table
from .array_record import array_record
from .coco import coco
from .folder import file_list, folder
from .lmdb import lmdb
from .parquet import parquet
from .recordio import recordio
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
    "tar",
    "tfrecord",
]
