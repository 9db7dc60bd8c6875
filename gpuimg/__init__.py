"""Image preprocessing for training: plain functions on batches, different parameters for every image, one pass.

>>> import gpuimg, numpy as np
>>> x = gpuimg.resize(np.zeros((2, 8, 8, 3), np.uint8), (4, 4))
>>> x = gpuimg.rotate(x, [10.0, -20.0])
>>> x.array(dtype="float32", layout="NCHW").shape
(2, 3, 4, 4)
"""

import typing as _typing

from . import models as models
from . import presets as presets
from . import sizes as sizes
from . import sources as sources
from ._batch.batch import *
from ._batch.clips import *
from ._batch.encoding import *
from ._batch.frameworks import *
from ._batch.opening import *
from ._batch.replay import *
from ._checks.elsewhere import not_here as _not_here
from ._checks.elsewhere import public_names as _public_names
from ._decoding.recoded import *
from ._io.example_photos import *
from ._loading.batches import *
from ._loading.clips import *
from ._loading.image_sizes import *
from ._loading.load import *
from ._loading.loader import *
from ._loading.order import *
from ._loading.pipeline import *
from ._loading.prefetch import *
from ._ops.areas import *
from ._ops.boxes import *
from ._ops.color import *
from ._ops.elastic import *
from ._ops.filters import *
from ._ops.letterbox import *
from ._ops.masks import *
from ._ops.pixels import *
from ._ops.remap import *
from ._ops.resize_crop import *
from ._ops.selection import *
from ._ops.targets import *
from ._ops.warp import *
from ._ops.weather import *
from ._prepare.prepare import *
from ._random.areas import *
from ._random.clips import *
from ._random.color import *
from ._random.copy_paste import *
from ._random.filters import *
from ._random.geometry import *
from ._random.iou_crop import *
from ._random.mixing import *
from ._random.mosaic import *
from ._random.pixels import *
from ._random.policies import *
from ._random.rng import *
from ._random.sizes import *
from ._random.timm_policies import *
from ._random.weather import *
from ._version import __version__ as __version__
from .errors import *
from .sources._remote import *
from .sources.array_record import *
from .sources.coco import *
from .sources.folder import *
from .sources.lmdb import *
from .sources.parquet import *
from .sources.recordio import *
from .sources.split import *
from .sources.stream import *
from .sources.tar import *
from .sources.tfrecord import *
from .sources.tiles import *

if not _typing.TYPE_CHECKING:  # a type checker that sees __getattr__ accepts any name
    __all__ = _public_names(globals(), "__version__", "models", "presets", "sizes", "sources")

    def __getattr__(name: str) -> _typing.Any:
        import importlib
        import sys

        if name == "torch":  # imported when it is named, as it imports torch
            try:
                return importlib.import_module(".torch", __name__)
            except ImportError as error:
                raise AttributeError(f"gpuimg.torch: {error}", name=name, obj=sys.modules[__name__]) from error
        raise AttributeError(_not_here(__name__, name), name=name, obj=sys.modules[__name__])
