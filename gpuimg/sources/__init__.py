"""Where images and labels come from: tables that many threads read at once.

A source has a length, and gives sample ``i`` as ``(data, label)``: the bytes of an encoded image, and whatever belongs
to it. Anything with ``__len__`` and ``__getitem__`` is one; these read the formats in which data sets come.
"""

from .annotations import coco
from .array_records import array_record
from .base import Table
from .columns import parquet
from .databases import lmdb
from .files import file_list, folder
from .mxnet import recordio
from .records import tfrecord
from .shards import tar

__all__ = [
    "Table",
    "array_record",
    "coco",
    "file_list",
    "folder",
    "lmdb",
    "parquet",
    "recordio",
    "tar",
    "tfrecord",
]
