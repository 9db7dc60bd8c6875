"""Types for annotations in code that calls gpuimg.

>>> import gpuimg
>>> from gpuimg.typing import Images
>>> def flipped(images: Images) -> gpuimg.Batch:
...     return gpuimg.horizontal_flip(images)

``Images``
    Images passed to functions: a :class:`gpuimg.Batch`, one (N, H, W, C) array, or a list of (H, W, C) arrays. An array
    with the channels first is refused if its shape shows it: more than 16 elements in the last axis; (N, C, S, S) with
    C of 1, 3 or 4 and S of more than 4; in a list also (C, H, W) with such a C, and W of more than 4. Values of float32
    images are from 0 to 1.
``Array``
    Arrays returned by functions: NumPy arrays, on a GPU CuPy arrays.
``PerImage``
    One number, or an array or sequence with one number for each image.
``Size``
    A number, or a pair (height, width); each may have a value for each image.
``Color``
    A number, or one for each channel, each image, or both.
``Where``
    One bool, or one for each image.
``Samples``
    A source for :func:`gpuimg.load`: it has a length and returns samples by index.
``Interpolation``, ``Layout``, ``DType``, ``Exact``, ``Alpha``, ``Decoder``, ``Depth``, ``Icc``, ``OnError``
    String options of these names, as is ``PaddingMode``; ``ClipLayout`` and ``OnSampleError`` are those of
    :func:`gpuimg.load`, ``ColorMode`` is that of ``color``, and ``BoxFormat`` that of ``format`` for boxes.
``LoadOptions``
    The keyword arguments of :func:`gpuimg.load`, for functions that pass them on: ``**options: Unpack[LoadOptions]``.
``ImageInfo``, ``VideoInfo``, ``Failure``
    Records of a file: what its header says, or why it could not be read or decoded.
``Mix``, ``Mosaic``, ``CopyPaste``
    Results of :func:`gpuimg.mixup` and :func:`gpuimg.cutmix`, :func:`gpuimg.mosaic`, and :func:`gpuimg.copy_paste`.
``PrepareReport``, ``TrainRate``
    Results of :func:`gpuimg.prepare`.
``Slide``, ``Level``
    A slide of :func:`gpuimg.tiles`, and one of its levels.
"""

import typing as _typing

from ._batch.batch import Images as Images
from ._checks.elsewhere import public_names as _public_names
from ._checks.types import *
from ._decoding.decoder import ImageInfo as ImageInfo
from ._loading.load import LoadOptions as LoadOptions
from ._prepare.report import PrepareReport as PrepareReport
from ._prepare.report import TrainRate as TrainRate
from ._random.copy_paste import CopyPaste as CopyPaste
from ._random.mixing import Mix as Mix
from ._random.mosaic import Mosaic as Mosaic
from ._video.index import VideoInfo as VideoInfo
from .errors import Failure as Failure
from .sources.tiles import Level as Level
from .sources.tiles import Slide as Slide

if not _typing.TYPE_CHECKING:
    __all__ = _public_names(globals())
