"""Sources of images and labels: tables that many threads read at once.

``len(source)`` is the number of samples and ``source[i]`` is ``(data, label)``: the bytes of an encoded image and its
label, of any type. Any object with ``__len__`` and ``__getitem__`` is a source; those here read common data set
formats.
"""

import typing as _typing

from .._checks.elsewhere import public_names as _public_names
from ._remote import *
from ._table import Table as Table
from .array_record import *
from .coco import *
from .folder import *
from .lmdb import *
from .parquet import *
from .recordio import *
from .split import *
from .stream import *
from .stream import Stream as Stream
from .tar import *
from .tfrecord import *
from .tiles import *

if not _typing.TYPE_CHECKING:
    __all__ = _public_names(globals())
